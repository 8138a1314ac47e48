"""A ledger in PostgreSQL, for agencies with several processes and people: append-only and hash-chained like the file.

Every writer first locks a table for itself, then reads: in a serialisable transaction the view of the data
is frozen by the first query, which comes after the lock. So writers take turns, none fails because it lost a race, and
what a writer checked is what its row follows. Triggers refuse every change of a row that is there. Rights are the
second lock: ``PUBLIC`` has none, and a role that is only granted what :data:`GRANTS` says cannot drop the triggers.
A server that does not write through to the disk (``fsync = off``) is refused: a charge could vanish after its draw.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.errors import InputError, MissingExtraError, UnavailableError
from understudy.privacy.ledger.store import VERSION, Contents, Head, Row, Writing, next_row

ENTRIES, JOURNALS = "ledger_entries", "ledger_journals"
BUSY_SECONDS = 60
FUNCTIONS = {
    "ledger_entries_follow": (
        "BEGIN IF TG_OP <> 'INSERT' OR NEW.sequence <> (SELECT coalesce(max(sequence), 0) + 1 FROM ledger_entries) "
        "THEN RAISE EXCEPTION 'a ledger is append-only'; END IF; RETURN NEW; END"
    ),
    "ledger_journals_advance": (
        "BEGIN IF TG_OP = 'DELETE' OR TG_OP = 'TRUNCATE' OR NEW.run <> OLD.run OR NEW.sequence <= OLD.sequence THEN "
        "RAISE EXCEPTION 'the journal of a run only advances'; END IF; RETURN NEW; END"
    ),
}
TRIGGERS = {
    "ledger_entries_only_follow": (ENTRIES, "BEFORE INSERT OR UPDATE OR DELETE", "ROW", "ledger_entries_follow"),
    "ledger_entries_are_kept": (ENTRIES, "BEFORE TRUNCATE", "STATEMENT", "ledger_entries_follow"),
    "ledger_journals_only_advance": (JOURNALS, "BEFORE UPDATE OR DELETE", "ROW", "ledger_journals_advance"),
    "ledger_journals_are_kept": (JOURNALS, "BEFORE TRUNCATE", "STATEMENT", "ledger_journals_advance"),
}
TABLES = (
    f"CREATE TABLE {ENTRIES} (sequence BIGINT PRIMARY KEY, previous TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, "
    "body TEXT NOT NULL)",
    f"CREATE TABLE {JOURNALS} (run TEXT PRIMARY KEY, sequence BIGINT NOT NULL, hash TEXT NOT NULL)",
    f"COMMENT ON TABLE {ENTRIES} IS 'understudy ledger {VERSION}'",
    f"REVOKE ALL ON {ENTRIES}, {JOURNALS} FROM PUBLIC",
)
# What a role that charges needs, and no more. It is not the owner, so it cannot drop a trigger.
GRANTS = (
    f"GRANT SELECT, INSERT ON {ENTRIES} TO {{role}}",
    f"GRANT SELECT, INSERT, UPDATE ON {JOURNALS} TO {{role}}",
)


class LedgerTables:
    """A ledger in the tables of a PostgreSQL database. Every failure becomes an ``InputError`` that says what to do."""

    def __init__(self, address: str, *, writable: bool = True) -> None:
        self._address = address
        self.writable = writable
        self.path = Path("PostgreSQL")  # in messages; an address may hold a password

    @classmethod
    def create(cls, address: str, body: Mapping[str, object]) -> LedgerTables:
        """New tables whose first row is ``body``; existing ones are never replaced."""
        made = cls(address)
        with made._connection() as connection:
            made._require_durable(connection)
            if _version(connection) is not None:
                raise InputError("this PostgreSQL database has a ledger already; open it.")
            for statement in TABLES:
                connection.execute(statement)
            for name, source in FUNCTIONS.items():
                connection.execute(f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${source}$$")
            for name, (table, when, each, function) in TRIGGERS.items():
                connection.execute(
                    f"CREATE TRIGGER {name} {when} ON {table} FOR EACH {each} EXECUTE FUNCTION {function}()"
                )
            PostgresWriting(connection=connection).append(body)
        return made

    def check(self) -> None:
        """Refuses a database without a ledger that this program can use."""
        with self._connection() as connection:
            self._require_durable(connection)
            found = _version(connection)
        if found is None:
            raise InputError("this PostgreSQL database has no ledger; create it first.")
        if found != f"understudy ledger {VERSION}":
            raise InputError(f"the ledger in PostgreSQL is of another version than {VERSION}; use its own program.")

    def read(self) -> Contents:
        with self._connection() as connection:
            return PostgresWriting(connection=connection).contents()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Writing]:
        with self._connection() as connection:
            connection.execute(f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'")
            connection.execute("SET LOCAL synchronous_commit = on")
            # The table of journals: a role that may only add entries is not allowed to lock theirs.
            connection.execute(f"LOCK TABLE {JOURNALS} IN SHARE ROW EXCLUSIVE MODE")
            yield PostgresWriting(connection=connection)

    @staticmethod
    def _require_durable(connection: Any) -> None:
        (state,) = connection.execute("SHOW fsync").fetchone()
        if state != "on":
            raise InputError("this PostgreSQL runs with fsync = off: a charge could be lost after its noise was drawn.")

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        try:
            import psycopg
        except ImportError:
            raise MissingExtraError(
                "a ledger in PostgreSQL needs the package psycopg: pip install 'understudy[postgres]'."
            ) from None
        try:
            with psycopg.connect(self._address, connect_timeout=10) as connection:
                connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
                connection.read_only = not self.writable
                yield connection  # leaving the block commits; an error rolls back
        except psycopg.errors.LockNotAvailable:
            raise UnavailableError(
                f"the ledger in PostgreSQL is in use by another process for over {BUSY_SECONDS} s; try again later."
            ) from None
        except psycopg.Error as problem:
            # The address, and with it a password, is in some messages of the driver; the server's own have none.
            said = problem.diag.message_primary or "it cannot be reached"
            away = isinstance(problem, psycopg.OperationalError)
            raise (UnavailableError if away else InputError)(
                f"the ledger in PostgreSQL cannot be used ({said})."
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PostgresWriting:
    """A transaction of a ledger in PostgreSQL."""

    connection: Any

    def contents(self) -> Contents:
        rows = self.connection.execute(
            f"SELECT sequence, previous, hash, body FROM {ENTRIES} ORDER BY sequence"
        ).fetchall()
        heads = self.connection.execute(f"SELECT run, sequence, hash FROM {JOURNALS}").fetchall()
        return Contents(
            rows=tuple(Row(sequence=s, previous=p, hash=h, body=b) for s, p, h, b in rows),
            heads={run: Head(sequence=sequence, hash=text) for run, sequence, text in heads},
            problems=self._problems(),
        )

    def append(self, body: Mapping[str, object]) -> Row:
        last = self.connection.execute(
            f"SELECT sequence, hash FROM {ENTRIES} ORDER BY sequence DESC LIMIT 1"
        ).fetchone()
        row = next_row(last, body)
        self.connection.execute(
            f"INSERT INTO {ENTRIES} VALUES (%s, %s, %s, %s)", (row.sequence, row.previous, row.hash, row.body)
        )
        return row

    def keep_heads(self) -> None:
        """Ledgers in PostgreSQL have always kept heads."""

    def head_of(self, run: str) -> Head | None:
        found = self.connection.execute(f"SELECT sequence, hash FROM {JOURNALS} WHERE run = %s", (run,)).fetchone()
        return None if found is None else Head(sequence=found[0], hash=found[1])

    def start_head(self, run: str, head: Head) -> None:
        self.connection.execute(f"INSERT INTO {JOURNALS} VALUES (%s, %s, %s)", (run, head.sequence, head.hash))

    def move_head(self, run: str, head: Head) -> None:
        self.connection.execute(
            f"UPDATE {JOURNALS} SET sequence = %s, hash = %s WHERE run = %s", (head.sequence, head.hash, run)
        )

    def _problems(self) -> list[str]:
        """Triggers and functions that are missing, switched off or altered."""
        found = {
            name: (table, enabled, function)
            for name, table, enabled, function in self.connection.execute(
                "SELECT tgname, tgrelid::regclass::text, tgenabled::text, proname FROM pg_trigger "
                "JOIN pg_proc ON pg_proc.oid = tgfoid "
                "WHERE NOT tgisinternal AND tgrelid IN (%s::regclass, %s::regclass)",
                (ENTRIES, JOURNALS),
            ).fetchall()
        }
        sources = dict(
            self.connection.execute(
                "SELECT proname, prosrc FROM pg_proc WHERE proname = ANY(%s) "
                "AND pronamespace = current_schema::regnamespace",
                (list(FUNCTIONS),),
            ).fetchall()
        )
        wanted = {name: (table, "O", function) for name, (table, _, _, function) in TRIGGERS.items()}
        problems = [
            f"the trigger '{name}' is missing, switched off or altered"
            for name, one in wanted.items()
            if found.get(name) != one
        ]
        problems += [f"there is a foreign trigger '{name}'" for name in sorted(found.keys() - wanted.keys())]
        problems += [
            f"the function '{name}' is missing or altered" for name in FUNCTIONS if sources.get(name) != FUNCTIONS[name]
        ]
        return problems


def _version(connection: Any) -> str | None:
    found = connection.execute("SELECT obj_description(to_regclass(%s))", (ENTRIES,)).fetchone()
    return None if found is None or found[0] is None else str(found[0])
