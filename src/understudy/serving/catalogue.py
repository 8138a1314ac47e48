"""The releases that are served: folders ``releases/NAME/1``, ``2`` and so on, one for each version.

A version is in the folder when it is written, and in the catalogue when its deadline has come.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.errors import InputError, UnavailableError, unknown_name
from understudy.inference.answer import Answer
from understudy.release.checks import charges_are_there, verify
from understudy.release.folder import read_release
from understudy.release.growing import require_growing
from understudy.release.manifest import read_manifest
from understudy.release.table_release import Release
from understudy.serving.accounts import open_account
from understudy.serving.asking import Asked
from understudy.serving.database.connecting import Database, Session
from understudy.serving.database.log import note
from understudy.serving.settings import Settings

KEPT_RELEASES, KEPT_ANSWERS = 8, 500
FIRST = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a served release."""

    release: str
    number: int
    dataset: str
    job: str | None
    visible: float


def versions_of(session: Session, release: str) -> list[Version]:
    """All versions of a release, also those that nobody sees yet."""
    found = session.rows(
        "SELECT release, number, dataset, job, visible FROM versions WHERE release = ? ORDER BY number", (release,)
    )
    return [Version(release=r, number=n, dataset=d, job=j, visible=v) for r, n, d, j, v in found]


def add_version(session: Session, version: Version) -> None:
    session.run(
        "INSERT INTO versions (release, number, dataset, job, visible) VALUES (?, ?, ?, ?, ?)",
        (version.release, version.number, version.dataset, version.job, version.visible),
    )


def folder_of(settings: Settings, release: str, number: int) -> Path:
    return settings.releases / release / str(number)


def record_file(settings: Settings, release: str, job: str) -> Path:
    """Where the record of a confirmation is kept beside the versions of its release."""
    return settings.releases / release / "records" / f"{job}.json"


def publish(settings: Settings, database: Database, folder: Path, *, name: str, dataset: str) -> Path:
    """Serve a release: check it, copy it as version 1 and put it into the catalogue."""
    settings.dataset(dataset)
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise InputError("the name of a served release has letters, digits, - and _ only.")
    found = read_release(folder)
    if not isinstance(found, Release):
        raise InputError("only releases of tables can be served.")
    require_growing(found)
    stated = found.statement.ledger
    if stated is None or stated.get("account") != settings.dataset(dataset).account:
        raise InputError(
            f"the release was not charged to the account '{settings.dataset(dataset).account}' of this data set; what "
            "it spent would not be counted. Make it with --ledger and --account."
        )
    wrong = [check.detail for check in verify(folder) if not check.passed]
    if wrong:
        raise InputError(f"the release does not pass its checks: {wrong[0]}")
    ledger, _ = open_account(settings, settings.dataset(dataset))
    charged = charges_are_there(ledger, found, "the release")
    if not charged.ok:
        raise InputError(
            f"the ledger of this data set does not hold what the release spent ({charged.problems[0].rstrip('.')}); "
            "serve it with the ledger that it was charged to."
        )
    served = f"a release '{name}' is served already; choose another name."
    if database.read(lambda session: versions_of(session, name)):
        raise InputError(served)
    target = folder_of(settings, name, FIRST)
    if _is_another(target, folder):
        raise InputError(
            f"{target} is another release: a server whose database is gone served it as '{name}', and people may have "
            "cited it. Choose another name, or restore that database."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    # Copied beside and then moved: a copy that was interrupted leaves nothing under the name.
    with tempfile.TemporaryDirectory(dir=settings.releases, prefix=".new-") as place:
        copy = Path(place) / "release"
        shutil.copytree(folder, copy)

        def work(session: Session) -> None:
            if versions_of(session, name):
                raise InputError(served)
            if copy.exists():  # the transaction may run twice
                if target.exists():
                    shutil.rmtree(target)  # of a publication that was interrupted: no version has it
                copy.rename(target)
            add_version(session, Version(release=name, number=FIRST, dataset=dataset, job=None, visible=time.time()))
            note(session, "published", release=name, dataset=dataset)

        database.write(work)
    return target


def _is_another(served: Path, folder: Path) -> bool:
    """Whether a release was served from a folder that is not this one."""
    with contextlib.suppress(InputError):
        return read_manifest(served) != read_manifest(folder)
    return False  # nothing is there, or a publication that was interrupted


@contextlib.contextmanager
def own_files() -> Iterator[None]:
    """What the server cannot read of its own is no mistake of the caller's, and its text is for the operator."""
    try:
        yield
    except UnavailableError:
        raise
    except InputError as problem:
        raise UnavailableError(str(problem)) from None


class Catalogue:
    """What may be read now, with answers that were computed before."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings, self._database = settings, database
        self._releases: OrderedDict[tuple[str, int], Release] = OrderedDict()
        self._answers: OrderedDict[tuple[str, int, str], Answer] = OrderedDict()
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """The served releases."""
        now = time.time()
        found = self._database.read(
            lambda session: session.rows("SELECT DISTINCT release FROM versions WHERE visible <= ?", (now,))
        )
        return sorted(row[0] for row in found)

    def versions(self, name: str) -> list[Version]:
        """The versions that may be seen now."""
        now = time.time()
        found = [one for one in self._database.read(lambda s: versions_of(s, name)) if one.visible <= now]
        if not found:
            raise unknown_name("release", name[:60], self.names())
        return found

    def newest(self, name: str) -> Version:
        return self.versions(name)[-1]

    def release(self, version: Version) -> Release:
        """A version, read once."""
        key = (version.release, version.number)
        with self._lock:
            if key not in self._releases:
                with own_files():
                    found = read_release(folder_of(self._settings, *key))
                    if not isinstance(found, Release):
                        raise InputError("only releases of tables can be served.")
                self._releases[key] = found
                if len(self._releases) > KEPT_RELEASES:
                    self._releases.popitem(last=False)
            self._releases.move_to_end(key)
            return self._releases[key]

    def files(self, version: Version) -> dict[str, Path]:
        """The files of a version that its manifest lists, and the manifest, by name."""
        folder = folder_of(self._settings, version.release, version.number)
        with own_files():
            listed: dict[str, Any] = read_manifest(folder)["files"]
        return {name: folder / name for name in ("manifest.json", *sorted(listed))}

    def record(self, job: str) -> dict[str, Any] | None:
        """The record of a version that may be seen, and whose job the database does not know: it was restored."""
        now = time.time()
        found = self._database.read(
            lambda session: session.rows("SELECT release FROM versions WHERE job = ? AND visible <= ?", (job, now))
        )
        file = record_file(self._settings, found[0][0], job) if found else None
        if file is None or not file.is_file():
            return None
        record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return record

    def kept(self, version: Version, asked: Asked) -> bool:
        """Whether the free answer was computed before."""
        with self._lock:
            return (version.release, version.number, asked.key) in self._answers

    def answer(self, version: Version, asked: Asked) -> Answer:
        """The free answer from a version; computed once."""
        key = (version.release, version.number, asked.key)
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                return self._answers[key]
        found = asked.answered(self.release(version))
        with self._lock:
            self._answers[key] = found
            if len(self._answers) > KEPT_ANSWERS:
                self._answers.popitem(last=False)
        return found
