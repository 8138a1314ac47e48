"""How far the journal of every run has come, as the ledger knows it: one row per run that only moves forward.

An answer of a run is handed out only after its journal's head was noted here. So of two copies of one run folder only
one can go on: the other's journal is not the one that the ledger knows. Rows are moved in place, because a row of the
chain for every answer would make a ledger of a few charges into one of thousands of entries, each of which is read
again for every later charge. What a row says is bound to the chain at one end: the charge holds the head with which the
run began.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

HEADS_TABLE = {
    "journals": "CREATE TABLE journals (run TEXT NOT NULL PRIMARY KEY, sequence INTEGER NOT NULL, hash TEXT NOT NULL)",
    "journals_only_advance": (
        "CREATE TRIGGER journals_only_advance BEFORE UPDATE ON journals "
        "WHEN NEW.run IS NOT OLD.run OR NEW.sequence <= OLD.sequence "
        "BEGIN SELECT RAISE(ABORT, 'the journal of a run only advances'); END"
    ),
    "journals_never_go": (
        "CREATE TRIGGER journals_never_go BEFORE DELETE ON journals "
        "BEGIN SELECT RAISE(ABORT, 'the journal of a run only advances'); END"
    ),
    # INSERT OR REPLACE deletes without firing the delete trigger.
    "journals_start_once": (
        "CREATE TRIGGER journals_start_once BEFORE INSERT ON journals "
        "WHEN EXISTS (SELECT 1 FROM journals WHERE run = NEW.run) "
        "BEGIN SELECT RAISE(ABORT, 'the journal of a run only advances'); END"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The end of a journal: the number of its last entry (0 if it has none) and the checksum over all of it."""

    sequence: int
    hash: str

    def to_json(self) -> dict[str, object]:
        return {"sequence": self.sequence, "hash": self.hash}


def head_of(connection: sqlite3.Connection, run: str) -> Head | None:
    found = connection.execute("SELECT sequence, hash FROM journals WHERE run = ?", (run,)).fetchone()
    return None if found is None else Head(sequence=found[0], hash=str(found[1]))


def start_head(connection: sqlite3.Connection, run: str, head: Head) -> None:
    connection.execute("INSERT INTO journals VALUES (?, ?, ?)", (run, head.sequence, head.hash))


def move_head(connection: sqlite3.Connection, run: str, head: Head) -> None:
    connection.execute("UPDATE journals SET sequence = ?, hash = ? WHERE run = ?", (head.sequence, head.hash, run))


def heads_of(connection: sqlite3.Connection) -> dict[str, Head]:
    """Every run's head; none in a ledger that was made before heads were kept."""
    made = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'journals'").fetchone()
    if made != (HEADS_TABLE["journals"],):  # an altered one is reported with the other tables
        return {}
    rows = connection.execute("SELECT run, sequence, hash FROM journals")
    return {str(run): Head(sequence=sequence, hash=str(text)) for run, sequence, text in rows}


def head_problems(heads: Mapping[str, Head], began: Mapping[str, Mapping[str, object] | None]) -> list[str]:
    """Where heads contradict the chain; ``began`` is what the charge of every run says about its journal."""
    problems = [f"there is a journal of run '{run}', which was never charged" for run in heads.keys() - began.keys()]
    for run, beginning in began.items():
        if beginning is None:  # charged by an earlier version, or without a journal
            continue
        head = heads.get(run)
        if head is None:
            problems.append(f"the journal of run '{run}' is missing")
        elif not isinstance(head.sequence, int) or head.sequence < int(str(beginning["sequence"])):
            problems.append(f"the journal of run '{run}' ends before its charge")
        elif head.sequence == beginning["sequence"] and head.hash != beginning["hash"]:
            problems.append(f"the journal of run '{run}' is not the one that was charged")
    return problems
