"""The verbs of the validation server: for its operators, and for the command line. Analysts use ``connect``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from understudy.core.exact_numbers import read_exact
from understudy.errors import InputError, MissingExtraError

Say = Callable[[str], None]
ROLES = ("analyst", "steward", "approver", "auditor")
DEMO_DATASET, DEMO_RELEASE, DEMO_PROJECT, DEMO_ACCOUNT = "people", "people", "labour", "people-2026"
DEMO_SETTINGS = f"""\
# The settings of the demonstration. Everything is in this folder.
[server]
title = "Demonstration"
answer_seconds = {{seconds}}
secure_cookies = false     # this machine alone, without TLS

[[dataset]]
name = "{DEMO_DATASET}"
ledger = "budget.db"
account = "{DEMO_ACCOUNT}"
data = "confidential/people.parquet"
"""
DEMO_SITE, DEMO_DATABASE = "site.toml", "server.db"
DEMO_LIMIT, DEMO_SPENT, DEMO_ALLOWANCE = "0.5", "0.05", "0.02"


def _opened(settings: str | Path, *, create: bool = False) -> tuple[Any, Any]:
    from understudy.serving.database.connecting import Database
    from understudy.serving.settings import database_target, read_settings

    found = read_settings(settings)
    return found, Database.open(database_target(found), create=create)


def serve_project(settings: str | Path, name: str, *, dataset: str, allowance: str) -> None:
    """Open a project with an allowance in rho; the first one makes the database."""
    from understudy.serving.database.people import add_project

    found, database = _opened(settings, create=True)
    found.dataset(dataset)
    add_project(database, name, dataset=dataset, allowance=Fraction(read_exact(allowance, "allowance")))


def serve_token(settings: str | Path, name: str, *, role: str, project: str | None = None) -> str:
    """Make a token for a person; it is told once and never again."""
    from understudy.serving.database.people import add_person

    return add_person(_opened(settings, create=True)[1], name, role=role, project=project)


def serve_revoke(settings: str | Path, name: str) -> None:
    """Take a person's token away."""
    from understudy.serving.database.people import revoke

    revoke(_opened(settings)[1], name)


def serve_publish(settings: str | Path, release: str | Path, *, name: str, dataset: str) -> Path:
    """Put a release into the catalogue, with its public report where the extra `report` is installed."""
    from understudy.release.folder import read_release
    from understudy.reporting.build import build_report
    from understudy.serving.catalogue import publish

    found, database = _opened(settings, create=True)
    place = publish(found, database, Path(release), name=name, dataset=dataset)
    with suppress(MissingExtraError):
        build_report(read_release(place), audience="public", title=name).write(place.parent / "report.html")
    return place


def serve_retry(settings: str | Path, job: str) -> None:
    """Have a failed job taken up again, without another charge."""
    from understudy.serving.database.jobs import retry

    retry(_opened(settings)[1], job)


def serve_web(
    settings: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8400,
    ready: Callable[[], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Run the process that speaks to the network, until interrupted. It has no way to the data."""
    from understudy.serving.web.application import serve

    found, database = _opened(settings)
    serve(found, database, host=host, port=port, ready=ready, stop=stop)


def serve_worker(settings: str | Path, dataset: str, *, say: Say, ready: Callable[[], None]) -> None:
    """Run the process that has the data of one data set, until interrupted. It speaks to no network."""
    from understudy.serving.worker.working import Worker

    found, database = _opened(settings)
    stopped = threading.Event()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    worker = Worker(found, dataset, database, say=say)
    with worker.alone():
        worker.check()
        ready()
        worker.run(stop=stopped.is_set)


def prepare_demo(folder: Path, release: Path, *, seconds: float = 5) -> None:
    """What a demonstration server needs, in its folder: settings, database, project, release.

    The release lies in the folder already, with its ledger.
    """
    settings = folder / DEMO_SITE
    settings.write_text(DEMO_SETTINGS.format(seconds=seconds), encoding="utf-8")
    use_demo_database()
    serve_project(settings, DEMO_PROJECT, dataset=DEMO_DATASET, allowance=DEMO_ALLOWANCE)
    serve_publish(settings, release, name=DEMO_RELEASE, dataset=DEMO_DATASET)


def demo_is_there(folder: Path) -> bool:
    """Whether a folder holds a demonstration that was prepared to its end."""
    return (folder / DEMO_SITE).is_file() and (folder / DEMO_DATABASE).is_file() and (folder / "releases").is_dir()


def demo_tokens(folder: Path) -> dict[str, str]:
    """New tokens for the people of a demonstration, by role. Earlier ones are good no more."""
    settings = folder / DEMO_SITE
    return {
        role: serve_token(settings, f"demo-{role}", role=role, project=DEMO_PROJECT if role == "analyst" else None)
        for role in ROLES
    }


def use_demo_database() -> None:
    """The demonstration has a database in its own folder, whatever the environment names."""
    os.environ["UNDERSTUDY_DATABASE"] = DEMO_DATABASE
    os.environ.pop("UNDERSTUDY_DATABASE_FILE", None)


def confirm_once(folder: Path, release: Path, question: str, *, width: float) -> Any:
    """A server for one confirmation: both processes as threads, one question over HTTP, and the end of it."""
    from understudy.serving.client import connect
    from understudy.serving.web.listening import free_port
    from understudy.serving.worker.working import Worker

    prepare_demo(folder, release, seconds=1)
    tokens = demo_tokens(folder)
    settings, database = _opened(folder / "site.toml")
    stop, ready = threading.Event(), threading.Event()
    port = free_port()
    worker = Worker(settings, DEMO_DATASET, database, say=lambda _: None)
    site = folder / "site.toml"
    web = threading.Thread(target=lambda: serve_web(site, port=port, ready=ready.set, stop=stop), daemon=True)
    with worker.alone():
        working = threading.Thread(target=lambda: worker.run(stop=stop.is_set, pause=0.1), daemon=True)
        web.start()
        working.start()
        try:
            if not ready.wait(60):
                raise InputError("the server of the demonstration did not start.")
            return connect(f"http://127.0.0.1:{port}", token=tokens["analyst"]).infer(question, width=width, wait=120)
        finally:
            stop.set()
            working.join(30)
            web.join(30)


def start_worker(settings: str | Path, dataset: str) -> subprocess.Popen[bytes]:
    """The worker as a process of its own."""
    command = [sys.executable, "-m", "understudy.cli", "serve", "worker", "--settings", str(settings)]
    return subprocess.Popen([*command, "--dataset", dataset], stdin=subprocess.DEVNULL)


def serve_together(
    settings: str | Path,
    dataset: str,
    *,
    host: str,
    port: int,
    ready: Callable[[], None],
    stop: threading.Event | None = None,
) -> None:
    """Both processes on one machine: the worker beside, the web process here. The worker ends with it."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the worker below is ended too
    worker = start_worker(settings, dataset)
    try:
        serve_web(settings, host=host, port=port, ready=ready, stop=stop)
    finally:
        worker.terminate()
        try:
            worker.wait(timeout=20)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def served_by_default(settings: str | Path) -> str:
    """The data set of settings that have one only."""
    from understudy.serving.settings import read_settings

    names = [one.name for one in read_settings(settings).datasets]
    if len(names) != 1:
        raise InputError(f"name a data set with --dataset: {', '.join(names)}.")
    return names[0]
