"""Which worker has a data set, and when it last said that it is there."""

from __future__ import annotations

import time

from understudy.errors import InputError
from understudy.serving.database.connecting import Session

WORKER = "worker"  # in the table meta, with the name of the data set
ALIVE_SECONDS = 30.0  # after which a worker that says nothing is taken for dead


def say_that_it_is_there(session: Session, dataset: str, worker: str) -> None:
    """Note that a worker is there; refused while another one is: both would answer the same jobs."""
    name, now = f"{WORKER} {dataset}", time.time()
    found = session.rows("SELECT value FROM meta WHERE name = ?", (name,))
    moment, _, holder = found[0][0].partition(" ") if found else ("0", "", worker)
    if holder != worker and now - float(moment) < ALIVE_SECONDS:
        raise InputError(
            f"another worker, with another state folder, has the data set '{dataset}' already; end that one, and wait "
            f"{ALIVE_SECONDS:g} seconds."
        )
    if not session.run("UPDATE meta SET value = ? WHERE name = ?", (f"{now} {worker}", name)):
        session.run("INSERT INTO meta VALUES (?, ?)", (name, f"{now} {worker}"))


def is_there(session: Session, dataset: str) -> bool:
    """Whether a worker said something lately."""
    found = session.rows("SELECT value FROM meta WHERE name = ?", (f"{WORKER} {dataset}",))
    return bool(found) and time.time() - float(found[0][0].partition(" ")[0]) < ALIVE_SECONDS
