"""Transactions on SQLite or PostgreSQL: the same statements for both, serialisable on both.

On SQLite a writer takes the one write lock first; others wait. On PostgreSQL transactions are serialisable, and one
that lost a race is run again. So a function given to :meth:`Database.write` sees a state that nobody changes meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from understudy.errors import InputError, MissingExtraError, UnavailableError
from understudy.serving.database.tables import LOG_TRIGGERS, POSTGRES_TYPES, TABLES, VERSION
from understudy.serving.settings import URLS

BUSY_SECONDS = 30.0
ATTEMPTS = 60
LOST_RACES = ("40001", "40P01")  # serialisation failure, deadlock
T = TypeVar("T")
Values = Sequence[object]


class Session(Protocol):
    """One transaction: statements with ``?`` for values."""

    def rows(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """What a question finds."""
        ...

    def run(self, statement: str, values: Values = ()) -> int:
        """Carry out a change; the number of rows that it touched."""
        ...


class Database:
    """The server's own tables. It holds nothing confidential: questions, public plans, noisy answers, who asked."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.shared = target.startswith(URLS)

    @property
    def named(self) -> str:
        """The database in messages; an address may hold a password and is not repeated."""
        return "the PostgreSQL database" if self.shared else f"the database {self.target}"

    @classmethod
    def open(cls, target: str, *, create: bool = False) -> Database:
        """Open it and check its version; ``create`` makes the tables of a database that has none."""
        opened = cls(target)
        if not opened.shared and not create and not Path(target).is_file():
            raise InputError(f"{opened.named} does not exist; `understudy serve project` makes it.")
        if create:
            opened._create()
        opened.check()
        return opened

    def check(self) -> None:
        """Refuses a database that is not ours, or of another version."""
        try:
            found = self.read(lambda session: session.rows("SELECT value FROM meta WHERE name = 'version'"))
        except NoTablesError:
            found = []
        if not found:
            raise InputError(f"{self.named} has no tables of this server; `understudy serve project` makes them.")
        if found[0][0] != str(VERSION):
            raise InputError(
                f"{self.named} has version {found[0][0]} of the tables, and this program needs version {VERSION}: use "
                "the program that made them, or a new database."
            )

    def read(self, work: Callable[[Session], T]) -> T:
        """Run a function that only reads, on one consistent state."""
        return self._attempted(work, writing=False)

    def write(self, work: Callable[[Session], T]) -> T:
        """Run a function in a serialisable transaction; on PostgreSQL again if it lost a race. It may run twice."""
        return self._attempted(work, writing=True)

    def _attempted(self, work: Callable[[Session], T], *, writing: bool) -> T:
        if not self.shared:
            with self._sqlite(writing=writing) as session:
                return work(session)
        for attempt in range(ATTEMPTS):
            try:
                with self._postgres(writing=writing) as session:
                    return work(session)
            except LostRace:
                time.sleep(min(0.01 * 1.5**attempt, 1.0))
        raise UnavailableError(f"{self.named} is too busy; try again later. Nothing was changed.")

    def _create(self) -> None:
        if not self.shared:
            place = Path(self.target)
            if not place.parent.is_dir():
                raise InputError(f"{self.named} cannot be made: the folder {place.parent} does not exist.")
            with contextlib.suppress(FileExistsError):
                os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

        def make(session: Session) -> None:
            if self._has_tables(session):
                return
            for statement in TABLES:
                session.run(_typed(statement) if self.shared else statement)
            for statement in LOG_TRIGGERS["postgres" if self.shared else "sqlite"]:
                session.run(statement)
            session.run("INSERT INTO meta VALUES ('version', ?)", (str(VERSION),))

        self.write(make)

    def _has_tables(self, session: Session) -> bool:
        if self.shared:
            return bool(
                session.rows("SELECT 1 FROM pg_tables WHERE schemaname = current_schema AND tablename = 'meta'")
            )
        return bool(session.rows("SELECT 1 FROM sqlite_master WHERE name = 'meta'"))

    @contextlib.contextmanager
    def _sqlite(self, *, writing: bool) -> Iterator[Session]:
        try:
            # Never made here: a file that is away for a while must not come back as an empty one.
            address = f"{Path(self.target).absolute().as_uri()}?mode=rw"
            with contextlib.closing(
                sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
            ) as connection:
                connection.execute("PRAGMA trusted_schema=OFF")
                connection.execute("PRAGMA foreign_keys=ON")
                connection.execute("PRAGMA synchronous=EXTRA")
                connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
                yield _Sqlite(connection)
                connection.execute("COMMIT")  # closing without it rolls back
        except sqlite3.OperationalError as problem:
            if "no such table" in str(problem):
                raise NoTablesError(f"{self.named} has lost its tables.") from None
            raise UnavailableError(f"{self.named} cannot be used ({problem}).") from None
        except sqlite3.DatabaseError as problem:
            if problem.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
                raise InputError(f"{self.named} is another kind of file, no database of SQLite.") from None
            raise InputError(f"{self.named} refused a change ({problem}).") from None

    @contextlib.contextmanager
    def _postgres(self, *, writing: bool) -> Iterator[Session]:
        psycopg = load_psycopg()
        try:
            with psycopg.connect(self.target, connect_timeout=10) as connection:
                connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
                connection.read_only = not writing
                yield _Postgres(connection)  # leaving the block commits, an error rolls back
        except psycopg.errors.UndefinedTable:
            raise NoTablesError(f"{self.named} has lost its tables.") from None
        except psycopg.Error as problem:
            if problem.sqlstate in LOST_RACES:
                raise LostRace from None
            said = (problem.diag.message_primary or type(problem).__name__) if problem.diag else type(problem).__name__
            away = isinstance(problem, psycopg.OperationalError)
            if away and problem.sqlstate is None:  # the driver's own text names host and user
                said = "it cannot be reached, or lets nobody in: look whether it runs, and at its address"
            raise (UnavailableError if away else InputError)(f"{self.named} cannot be used ({said}).") from None


class NoTablesError(UnavailableError):
    """A table is missing: nobody made them yet, or the database was replaced."""


class LostRace(Exception):  # noqa: N818 - never leaves this file
    """Another transaction was first."""


class _Sqlite:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, tuple(values)).fetchall()

    def run(self, statement: str, values: Values = ()) -> int:
        return self._connection.execute(statement, tuple(values)).rowcount


class _Postgres:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Values = ()) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(_marked(statement), tuple(values)).fetchall()
        return found

    def run(self, statement: str, values: Values = ()) -> int:
        return int(self._connection.execute(_marked(statement), tuple(values) or None).rowcount)


def _marked(statement: str) -> str:
    return statement.replace("?", "%s")


def _typed(statement: str) -> str:
    for ours, theirs in POSTGRES_TYPES.items():
        statement = statement.replace(ours, theirs)
    return statement


def load_psycopg() -> Any:
    """The driver of PostgreSQL, if it is installed."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtraError("PostgreSQL needs the package psycopg: pip install 'understudy[postgres]'.") from None
    return psycopg
