"""The file behind a ledger: one append-only, hash-chained table in SQLite.

Why SQLite, why this way: its locking and crash recovery are the best-tested there are. The rollback journal (not WAL)
keeps everything in the one file the steward named: nothing to forget when it is copied or backed up, and it works where
shared memory does not. ``synchronous=EXTRA`` is ``FULL`` plus a sync of the folder after the journal is deleted;
without that a power cut right after a commit could bring the journal back and undo a charge whose noise was drawn.
Each operation opens its own connection, so a ledger value may be shared by threads and forked processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from understudy.core.folders import disk_error, scratch_path, sync_folder
from understudy.errors import InputError

APPLICATION_ID = 0x75444C31  # "uDL1": marks a SQLite file as a ledger
VERSION = 2
WITHOUT_HEADS = 1  # the version that did not keep the heads of journals; still read, and brought up to date by a charge
GENESIS = "0" * 64
BUSY_SECONDS = 60.0

_TABLE = {
    "entries": (
        "CREATE TABLE entries (sequence INTEGER PRIMARY KEY AUTOINCREMENT, previous TEXT NOT NULL, "
        "hash TEXT NOT NULL UNIQUE, body TEXT NOT NULL)"
    ),
    "entries_never_change": (
        "CREATE TRIGGER entries_never_change BEFORE UPDATE ON entries "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    ),
    "entries_never_go": (
        "CREATE TRIGGER entries_never_go BEFORE DELETE ON entries "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    ),
    # INSERT OR REPLACE deletes without firing the delete trigger, so only the next number is accepted.
    "entries_only_follow": (
        "CREATE TRIGGER entries_only_follow BEFORE INSERT ON entries "
        "WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM entries) "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """All of a ledger: its rows in order, the heads of journals by run, and what is wrong with the tables."""

    rows: tuple[Row, ...]
    heads: Mapping[str, Head]
    problems: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One stored row: ``hash`` is SHA-256 of the previous hash, a newline and the body (canonical JSON)."""

    sequence: int
    previous: str
    hash: str
    body: str


def canonical(data: Mapping[str, object]) -> str:
    """The one text of a JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def chained_hash(previous: str, body: str) -> str:
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


def chain_problems(rows: tuple[Row, ...]) -> list[str]:
    """What a recomputation of the whole chain finds wrong, in the order of the rows."""
    problems = []
    previous = GENESIS
    for expected, row in enumerate(rows, start=1):
        if row.sequence != expected:
            problems.append(f"entry {expected} is missing (found entry {row.sequence} in its place)")
            break
        if row.previous != previous:
            problems.append(f"entry {row.sequence} does not follow the entry before it")
        if chained_hash(row.previous, row.body) != row.hash:
            problems.append(f"entry {row.sequence} was changed after it was written")
        previous = row.hash
    return problems


class Writing(Protocol):
    """One transaction of a ledger: everything it reads stays so until it ends, and an error leaves no trace."""

    def contents(self) -> Contents:
        """All of the ledger."""
        ...

    def append(self, body: Mapping[str, object]) -> Row:
        """Add a row after the last one."""
        ...

    def keep_heads(self) -> None:
        """Bring a ledger of an earlier version up to date."""
        ...

    def head_of(self, run: str) -> Head | None:
        """How far the journal of a run has come."""
        ...

    def start_head(self, run: str, head: Head) -> None:
        """Begin to follow the journal of a run."""
        ...

    def move_head(self, run: str, head: Head) -> None:
        """Note that the journal of a run has gone on."""
        ...


class Store(Protocol):
    """Where a ledger is kept: a file of SQLite, or tables of PostgreSQL. Both are tested by the same tests."""

    path: Path

    def read(self) -> Contents:
        """A consistent snapshot of everything."""
        ...

    def writing(self) -> AbstractContextManager[Writing]:
        """The only way to write: other writers wait outside."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SqliteWriting:
    """A transaction of a ledger's file."""

    connection: sqlite3.Connection

    def contents(self) -> Contents:
        return contents_of(self.connection)

    def append(self, body: Mapping[str, object]) -> Row:
        return append(self.connection, body)

    def keep_heads(self) -> None:
        keep_heads(self.connection)

    def head_of(self, run: str) -> Head | None:
        return head_of(self.connection, run)

    def start_head(self, run: str, head: Head) -> None:
        start_head(self.connection, run, head)

    def move_head(self, run: str, head: Head) -> None:
        move_head(self.connection, run, head)


class LedgerFile:
    """Reads and appends rows. Every SQLite failure becomes an ``InputError`` that says what to do."""

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self.path = path
        self.writable = writable

    @classmethod
    def create(cls, path: Path, body: Mapping[str, object]) -> LedgerFile:
        """A new file whose first row is ``body``; it appears whole, and never in place of another file."""
        if os.path.lexists(path):
            raise InputError(f"{path} already exists; open it, or choose another name for a new ledger.")
        if not path.parent.is_dir():
            raise InputError(f"{path} cannot be created: the folder {path.parent} does not exist; create it first.")
        partial = scratch_path(path.parent)
        try:
            os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            file = cls(partial)
            with file._connection() as connection:
                connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version={VERSION}")
                connection.execute("BEGIN IMMEDIATE")
                for statement in (*_TABLE.values(), *HEADS_TABLE.values()):
                    connection.execute(statement)
                append(connection, body)
                connection.execute("COMMIT")
            os.link(partial, path)  # fails if the file exists by now; a rename would replace it
            sync_folder(path.parent)
        except FileExistsError:
            raise InputError(f"{path} was created by another process in the meantime; open that one.") from None
        except OSError as problem:
            raise disk_error(problem, path) or InputError(
                f"{path} cannot be created ({problem.strerror}); choose another place for the ledger."
            ) from None
        finally:
            with contextlib.suppress(OSError):
                os.unlink(partial)
        return cls(path)

    def check(self) -> None:
        """Refuses a file that is not a ledger this program can use."""
        if not self.path.exists():
            raise InputError(f"the ledger {self.path} does not exist; check the name, or create it first.")
        if not self.path.is_file():
            raise InputError(f"{self.path} is not a file; name the ledger's own file.")
        if not os.access(self.path, os.R_OK):
            raise InputError(f"the ledger {self.path} cannot be read: permission is denied; ask its owner.")
        folder = self.path.parent
        if self.writable and not (os.access(self.path, os.W_OK) and os.access(folder, os.W_OK)):
            raise InputError(
                f"the ledger {self.path} is read-only (the file, or the folder, which has to be writable too); "
                "charges need permission to write, so ask its owner."
            )
        with self._connection() as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION_ID:
                raise InputError(f"{self.path} is not a ledger (it is another kind of database, or empty).")
            if version not in (WITHOUT_HEADS, VERSION):
                raise InputError(
                    f"the ledger {self.path} has version {version}; this program understands versions {WITHOUT_HEADS} "
                    f"to {VERSION}, so use the program that wrote it."
                )
            if "entries" not in _structure(connection):
                raise InputError(f"{self.path} is marked as a ledger but has no entries table; restore a backup.")

    def read(self) -> Contents:
        with self._connection() as connection:
            connection.execute("BEGIN")
            return contents_of(connection)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Writing]:
        with self.transaction() as connection:
            yield SqliteWriting(connection=connection)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The only way to write: other writers wait outside, and an error leaves no trace."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        mode = "rw" if self.writable else "ro"
        try:
            with contextlib.closing(
                sqlite3.connect(
                    f"{self.path.as_uri()}?mode={mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
                )
            ) as connection:
                connection.execute("PRAGMA trusted_schema=OFF")
                connection.execute("PRAGMA synchronous=EXTRA")
                yield connection  # closing without COMMIT rolls back
        except sqlite3.Error as problem:
            raise InputError(self._explain(problem)) from None

    def _explain(self, problem: sqlite3.Error) -> str:
        code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
        name = f"the ledger {self.path}"
        messages = {
            sqlite3.SQLITE_NOTADB: f"{self.path} is not a ledger (not an SQLite database); check the name.",
            sqlite3.SQLITE_CORRUPT: f"{name} is damaged; restore it from a backup and verify that against releases.",
            sqlite3.SQLITE_BUSY: f"{name} is in use by another process for over {BUSY_SECONDS:.0f} s; try again later.",
            sqlite3.SQLITE_READONLY: f"{name} is read-only; charges need permission to write, so ask its owner.",
            sqlite3.SQLITE_FULL: f"{name} cannot grow: there is no space left on the disk. Nothing was charged.",
            sqlite3.SQLITE_IOERR: f"{name} cannot be used: the disk reported an error ({problem}); check the disk.",
            sqlite3.SQLITE_CANTOPEN: f"{name} cannot be opened; check that the file and its folder are accessible.",
        }
        return messages.get(code, f"{name} cannot be used ({problem}); verify it, or restore it from a backup.")


def contents_of(connection: sqlite3.Connection) -> Contents:
    """A consistent snapshot of everything; call inside a transaction."""
    return Contents(rows=rows_of(connection), heads=heads_of(connection), problems=structure_problems(connection))


def keep_heads(connection: sqlite3.Connection) -> None:
    """Brings a ledger of an earlier version up to date; call inside a transaction, after its check."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == WITHOUT_HEADS:
        for statement in HEADS_TABLE.values():
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={VERSION}")


def rows_of(connection: sqlite3.Connection) -> tuple[Row, ...]:
    found = connection.execute("SELECT sequence, previous, hash, body FROM entries ORDER BY sequence")
    # str(): an edited column may hold a number or bytes; the chain then reports it instead of a type error here.
    return tuple(Row(sequence=s, previous=str(p), hash=str(h), body=str(b)) for s, p, h, b in found)


def next_row(last: tuple[int, str] | None, body: Mapping[str, object]) -> Row:
    """The row that follows another one (its number and hash), or the first."""
    sequence, previous = (last[0] + 1, last[1]) if last else (1, GENESIS)
    text = canonical({**body, "sequence": sequence})
    return Row(sequence=sequence, previous=previous, hash=chained_hash(previous, text), body=text)


def append(connection: sqlite3.Connection, body: Mapping[str, object]) -> Row:
    """Adds a row after the last one; call inside a transaction."""
    row = next_row(
        connection.execute("SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1").fetchone(), body
    )
    connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (row.sequence, row.previous, row.hash, row.body))
    return row


def structure_problems(connection: sqlite3.Connection) -> list[str]:
    """Missing or strange tables and triggers, and rows gone from the end (SQLite remembers the last number given)."""
    problems = []
    found = _structure(connection)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    wanted = _TABLE if version == WITHOUT_HEADS else {**_TABLE, **HEADS_TABLE}
    for name, statement in wanted.items():
        if found.get(name) != statement:
            problems.append(f"the database object '{name}' is missing or altered")
    problems += [f"there is a foreign database object '{name}'" for name in sorted(found.keys() - wanted.keys())]
    (last,) = connection.execute("SELECT coalesce(max(sequence), 0) FROM entries").fetchone()
    given = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").fetchone()
    if given is None or given[0] != last:
        problems.append(f"the last entry is {last}, but {given[0] if given else 'no'} entries were written")
    return problems


def _structure(connection: sqlite3.Connection) -> dict[str, str]:
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
    return {str(name): str(sql) for name, sql in found}


# How far the journal of every run has come, as the ledger knows it: one row per run that only moves forward.
#
# An answer of a run is handed out only after its journal's head was noted here. So of two copies of one run folder
# only one can go on: the other's journal is not the one that the ledger knows. Rows are moved in place, because a row
# of the chain for every answer would make a ledger of a few charges into one of thousands of entries, each of which
# is read again for every later charge. What a row says is bound to the chain at one end: the charge holds the head
# with which the run began.


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
