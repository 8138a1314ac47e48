"""One TOML file of settings. Secrets are never in it: the database is named by the environment or by a file."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from understudy.core.folders import as_path
from understudy.errors import InputError, unknown_name
from understudy.serving.pacing import Pace

DATABASE, OPENID_SECRET = "UNDERSTUDY_DATABASE", "UNDERSTUDY_OPENID_SECRET"
IN_FILE = "_FILE"  # after the name of a variable: the file that holds its value
JOBS_AT_ONCE = 6  # jobs in the time of one answer, unless the settings say otherwise
BY_NAME = "env:"  # before the name of a variable that holds the address of a ledger
URLS = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """One confidential table: its account, and where the worker finds it."""

    name: str
    ledger: str
    account: str
    data: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenId:
    """A provider of OpenID Connect that says who people are."""

    issuer: str
    client_id: str
    address: str  # of this server, as browsers see it: the provider sends them back there
    claim: str = "sub"  # what of the identity is the name of a person here; it must be unique at the provider
    scope: str = ""  # what is asked for beside openid, if the claim needs it


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that the processes of one server share."""

    folder: Path  # of the settings file; paths in it are relative to it
    releases: Path
    datasets: tuple[Dataset, ...]
    title: str = "Validation server"
    answer_seconds: float = 60.0  # from an approval to its answer
    job_seconds: float = 10.0  # between the answers of two jobs that were approved at the same time
    four_eyes: bool = False
    secure_cookies: bool = True
    requests_per_minute: int = 240
    session_hours: float = 8.0
    openid: OpenId | None = None

    def dataset(self, name: str) -> Dataset:
        for one in self.datasets:
            if one.name == name:
                return one
        raise unknown_name("data set", name, [one.name for one in self.datasets])

    @property
    def pace(self) -> Pace:
        """When answers appear."""
        return Pace(answer=self.answer_seconds, job=self.job_seconds)

    def place(self, text: str) -> Path:
        return self.folder / text


SERVER = {field.name for field in fields(Settings)} - {"folder", "datasets", "openid"}
DATASET = {field.name for field in fields(Dataset)}
OPENID = {field.name for field in fields(OpenId)}


def read_settings(file: str | Path) -> Settings:
    """Read the file; everything that is wrong with it is said here, before any process starts."""
    path = as_path(file, "the settings")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"the settings {path} do not exist; docs/guides/serving.md shows such a file.") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"the settings {path} cannot be read ({type(problem).__name__}).") from None
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"{path} is not valid TOML: {problem}.") from None
    return _settings(document, path)


def _settings(document: dict[str, Any], path: Path) -> Settings:
    unknown = set(document) - {"server", "dataset", "openid"}
    if unknown:
        raise InputError(f"{path} has an unknown part '{min(unknown)}'; there are [server], [openid] and [[dataset]].")
    server = document.get("server", {})
    if not isinstance(server, dict):
        raise InputError(f"{path}: [server] must be a table.")
    for name in server:
        if name not in SERVER:
            raise unknown_name(f"setting of [server] in {path}", name, SERVER)
    listed = document.get("dataset", [])
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{path} names no data set; add a [[dataset]] with name, ledger, account and data.")
    folder = path.absolute().parent
    datasets = tuple(_dataset(one, path) for one in listed)
    if len({one.name for one in datasets}) != len(datasets):
        raise InputError(f"{path} names a data set twice.")
    _check_apart(datasets, folder, path)
    values: dict[str, Any] = {
        "title": _text(server.get("title", "Validation server"), "title", path),
        "answer_seconds": _number(server.get("answer_seconds", 60), "answer_seconds", path, 0.1, 86_400),
        "requests_per_minute": int(
            _number(server.get("requests_per_minute", 240), "requests_per_minute", path, 1, 1e6)
        ),
        "session_hours": _number(server.get("session_hours", 8), "session_hours", path, 0.01, 720),
        "four_eyes": _flag(server.get("four_eyes", False), "four_eyes", path),
        "secure_cookies": _flag(server.get("secure_cookies", True), "secure_cookies", path),
    }
    usual = values["answer_seconds"] / JOBS_AT_ONCE
    values["job_seconds"] = _number(server.get("job_seconds", usual), "job_seconds", path, 0.01, 86_400)
    releases = folder / _text(server.get("releases", "releases"), "releases", path)
    openid = None if "openid" not in document else _openid(document["openid"], path)
    return Settings(folder=folder, releases=releases, datasets=datasets, openid=openid, **values)


def _check_apart(datasets: tuple[Dataset, ...], folder: Path, path: Path) -> None:
    """Refuses the same data under two accounts: each would allow a whole budget about the same people."""
    files = [os.path.realpath(folder / one.data) for one in datasets]
    for place, file in enumerate(files):
        if file in files[:place]:
            first, second = datasets[files.index(file)].name, datasets[place].name
            raise InputError(
                f"{path}: the data sets '{first}' and '{second}' are the same data. One data set has one account; "
                "several releases of it can be served under one name."
            )
    states = [os.path.realpath(folder / one.state) for one in datasets]
    if len(set(states)) != len(states):
        raise InputError(f"{path}: two data sets have the same state folder; each worker needs its own.")


def _openid(given: object, path: Path) -> OpenId:
    if not isinstance(given, dict):
        raise InputError(f"{path}: [openid] must be a table.")
    for name in given:
        if name not in OPENID:
            hint = f" The secret is named by {OPENID_SECRET}." if "secret" in name else ""
            raise InputError(f"{path}: [openid] has no '{name}'; it has {', '.join(sorted(OPENID))}.{hint}")
    values = {
        name: _text(given.get(name, ""), f"{name} of [openid]", path) for name in ("issuer", "client_id", "address")
    }
    for name in ("issuer", "address"):
        if not safe_address(values[name]):
            raise InputError(f"{path}: {name} of [openid] must be an https:// address, or http:// on this machine.")
    claim = _text(given.get("claim", "sub"), "claim of [openid]", path)
    scope = _text(given["scope"], "scope of [openid]", path) if "scope" in given else ""
    return OpenId(**values, claim=claim, scope=scope)


def safe_address(text: str) -> bool:
    """Whether nobody on the way can read or change what goes to an address: HTTPS, or this machine itself."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return (
        bool(parts.hostname) and not parts.fragment and (parts.scheme == "https" or (parts.scheme == "http" and local))
    )


def _dataset(given: object, path: Path) -> Dataset:
    if not isinstance(given, dict):
        raise InputError(f"{path}: [[dataset]] must be a table.")
    for name in given:
        if name not in DATASET:
            raise unknown_name(f"setting of [[dataset]] in {path}", name, DATASET)
    found = {name: _text(given.get(name, ""), f"{name} of a data set", path) for name in ("name", "account", "data")}
    ledger = _text(given.get("ledger", ""), "ledger of a data set", path)
    if ledger.startswith(URLS):
        raise InputError(f'{path}: a ledger in PostgreSQL is named by the environment: ledger = "env:NAME".')
    state = _text(given.get("state", f"worker-{found['name']}"), "state of a data set", path)
    if not found["name"].replace("-", "").replace("_", "").isalnum() or not found["name"].isascii():
        raise InputError(f"{path}: the name of a data set has letters, digits, - and _ only.")
    return Dataset(**found, ledger=ledger, state=state)


def _text(value: object, what: str, path: Path) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(f"{path}: {what} must be a text of one line.")
    return value


def _number(value: object, what: str, path: Path, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InputError(f"{path}: {what} must be a number between {least:g} and {most:g}.")
    return float(value)


def _flag(value: object, what: str, path: Path) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{path}: {what} must be true or false.")
    return value


def database_target(settings: Settings) -> str:
    """Where the database is: the environment says it, or a file that the environment names."""
    text = _from_environment(DATABASE)
    if not text:
        raise InputError(
            f"no database is named: set {DATABASE} to a file such as server.db or to a postgresql:// address, or "
            f"{DATABASE}{IN_FILE} to a file that holds it."
        )
    return text if text.startswith(URLS) else str(settings.place(text))


def openid_secret() -> str:
    """The secret that the provider of OpenID Connect gave this server."""
    text = _from_environment(OPENID_SECRET)
    if not text:
        raise InputError(
            f"[openid] needs the secret of the client: set {OPENID_SECRET}, or {OPENID_SECRET}{IN_FILE} to a file that "
            "holds it."
        )
    return text


def _from_environment(name: str) -> str:
    """A value that is never an argument or a setting: a variable, or the file that another one names."""
    if name + IN_FILE not in os.environ:
        return os.environ.get(name, "").strip()
    file = Path(os.environ[name + IN_FILE])
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        said = getattr(problem, "strerror", None) or "not a text"
        raise InputError(f"{name}{IN_FILE} names {file}, which cannot be read ({said}).") from None


def ledger_target(settings: Settings, dataset: Dataset) -> str:
    """Where the ledger of a data set is: a file, or an address that the environment holds."""
    return dataset.ledger if dataset.ledger.startswith(BY_NAME) else str(settings.place(dataset.ledger))
