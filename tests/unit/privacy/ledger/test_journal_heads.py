"""The ledger follows the journal of every run: forward only, one copy only; and early ledgers stay good."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.errors import BudgetError, InputError
from understudy.privacy.gate.journal import Journal
from understudy.privacy.ledger.ledger import Entry, Ledger
from understudy.privacy.ledger.store import HEADS_TABLE, Head
from understudy.privacy.promise.definition import PureDP, Unit

EARLY = Path(__file__).parents[3] / "golden" / "ledger_v1.sql"
BEGIN = Head(sequence=2, hash="b" * 64)
COST = PureDP(epsilon=1)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger.create(tmp_path / "budget.db")
    made.create_account("people", unit="replace", limit=PureDP(epsilon=10))
    return made


def charge(ledger: Ledger, run: str = "r1", journal: Head | None = BEGIN) -> Entry:
    return ledger.reserve(
        "people", run=run, plan_hash="a" * 64, unit="replace", cost=COST, method="histogram", journal=journal
    )


def take_up(ledger: Ledger, entry: Entry, checksums: list[str], **other: object) -> Entry:
    asked = {"run": entry.run, "plan_hash": "a" * 64, "unit": Unit(), "cost": COST, "block": entry.block, **other}
    return ledger.take_up(asked.pop("account", "people"), checksums=checksums, **asked)


@contextlib.contextmanager
def raw(ledger: Ledger, *, guarded: bool = True) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        guards = [name for name in HEADS_TABLE if name != "journals"]
        for name in () if guarded else guards:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for name in () if guarded else guards:
            connection.execute(HEADS_TABLE[name])


def test_a_head_advances_for_whoever_knows_it(ledger: Ledger) -> None:
    charge(ledger)
    second, third = Head(sequence=3, hash="c" * 64), Head(sequence=7, hash="d" * 64)
    ledger.advance(run="r1", known=BEGIN, head=second)
    for wrong in (BEGIN, third, Head(sequence=3, hash="e" * 64)):
        with pytest.raises(BudgetError, match="another copy"):
            ledger.advance(run="r1", known=wrong, head=third)
    ledger.advance(run="r1", known=second, head=third)
    assert ledger.verify().ok


def test_a_run_that_was_never_charged_has_no_head(ledger: Ledger) -> None:
    with pytest.raises(BudgetError, match="no charge for run 'r1'"):
        ledger.advance(run="r1", known=BEGIN, head=Head(sequence=3, hash="c" * 64))


def test_a_refused_charge_leaves_no_head(ledger: Ledger) -> None:
    with pytest.raises(BudgetError):
        ledger.reserve(
            "people", run="r1", plan_hash="a" * 64, unit="replace", cost=PureDP(epsilon=11), method="x", journal=BEGIN
        )
    charge(ledger)
    assert ledger.verify().ok


def test_asking_again_does_not_move_a_head_back(ledger: Ledger) -> None:
    first = charge(ledger)
    moved = Head(sequence=3, hash="c" * 64)
    ledger.advance(run="r1", known=BEGIN, head=moved)
    assert charge(ledger) == first
    ledger.advance(run="r1", known=moved, head=Head(sequence=4, hash="d" * 64))


def test_a_resumed_journal_must_go_on_from_the_head(ledger: Ledger) -> None:
    entry = charge(ledger)
    ledger.advance(run="r1", known=BEGIN, head=Head(sequence=4, hash="4"))
    for journal in (["0", "1", "b" * 64], ["0", "1", "b" * 64, "3"], ["0", "1", "b" * 64, "3", "other"], ["0"]):
        with pytest.raises(BudgetError, match="another copy"):
            take_up(ledger, entry, journal)
    ahead = ["0", "1", "b" * 64, "3", "4", "5", "6"]  # entries that nobody was given: they are kept
    assert take_up(ledger, entry, ahead) == entry
    with pytest.raises(BudgetError, match="another copy"):
        take_up(ledger, entry, ahead[:-1])
    assert take_up(ledger, entry, ahead) == entry


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"plan_hash": "c" * 64}, "another plan than"),
        ({"unit": Unit(rows_per_unit=2)}, "another unit than"),
        ({"cost": PureDP(epsilon=2)}, "another guarantee than"),
        ({"account": "firms"}, "another account than"),
        ({"run": "r2"}, "no charge for run 'r2'"),
        ({"block": {"account": "people", "run": "r1", "head": "0" * 64, "sequence": 3}}, "another ledger"),
    ],
)
def test_what_was_not_charged_is_not_taken_up(ledger: Ledger, other: dict[str, object], words: str) -> None:
    entry = charge(ledger)
    with pytest.raises(BudgetError, match=words):
        take_up(ledger, entry, ["0", "1", "b" * 64], **other)
    assert take_up(ledger, entry, ["0", "1", "b" * 64]) == entry


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE journals SET sequence = 1",
        "UPDATE journals SET hash = 'x'",
        "UPDATE journals SET run = 'r2', sequence = 9",
        "DELETE FROM journals",
        "INSERT OR REPLACE INTO journals VALUES ('r1', 1, 'x')",
    ],
)
def test_a_head_never_goes_back(ledger: Ledger, statement: str) -> None:
    charge(ledger)
    with raw(ledger) as connection, pytest.raises(sqlite3.IntegrityError, match="only advances"):
        connection.execute(statement)
    assert ledger.verify().ok


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM journals", "is missing"),
        ("UPDATE journals SET sequence = 1", "ends before its charge"),
        ("UPDATE journals SET sequence = 'x'", "ends before its charge"),
        ("UPDATE journals SET hash = 'x'", "not the one that was charged"),
        ("INSERT INTO journals VALUES ('nobody', 1, 'x')", "never charged"),
    ],
)
def test_edited_heads_are_noticed_where_they_contradict_the_chain(ledger: Ledger, statement: str, words: str) -> None:
    charge(ledger)
    with raw(ledger, guarded=False) as connection:
        connection.execute(statement)
    assert any(words in problem for problem in ledger.verify().problems)
    with pytest.raises(InputError, match="altered or damaged"):
        charge(ledger, "r2")


def test_a_missing_guard_is_noticed(ledger: Ledger) -> None:
    with raw(ledger) as connection:
        connection.execute("DROP TRIGGER journals_only_advance")
    assert ledger.verify().problems == ("the database object 'journals_only_advance' is missing or altered",)


def test_of_two_journals_that_append_at_once_one_is_confirmed(ledger: Ledger, tmp_path: Path) -> None:
    """Each draws an answer of its own; only the first is handed out."""
    first = Journal.create(tmp_path / "first", {"run": "r1"})
    charge(ledger, journal=first.head)
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    second = Journal.open(tmp_path / "second")
    for journal in (first, second):
        journal.follow(lambda known, head: ledger.advance(run="r1", known=known, head=head))
        journal.append("measurement", str(journal.folder))
    first.confirm()
    with pytest.raises(BudgetError, match="another copy"):
        second.confirm()
    first.append("measurement", 2)
    first.confirm()
    assert take_up(ledger, ledger.entries()[-1], list(Journal.open(tmp_path / "first").checksums))
    with pytest.raises(BudgetError, match="another copy"):
        take_up(ledger, ledger.entries()[-1], list(Journal.open(tmp_path / "second").checksums))


# Ledgers made before heads were kept.


@pytest.fixture
def early(tmp_path: Path) -> Ledger:
    path = tmp_path / "early.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(EARLY.read_text())
        connection.execute(f"PRAGMA application_id={0x75444C31}")
        connection.execute("PRAGMA user_version=1")
    return Ledger.open(path)


def test_an_early_ledger_is_read_verified_and_charged(early: Ledger) -> None:
    before = early.verify()
    assert before.ok
    assert before.entries == 6
    assert early.account("people").spent == {"epsilon": 3}
    assert Ledger.open(early.path, writable=False).verify_against(early.entries()[3].block).ok
    charge(early, "without a journal", journal=None)
    with contextlib.closing(sqlite3.connect(early.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    charge(early, "new")
    early.advance(run="new", known=BEGIN, head=Head(sequence=3, hash="c"))
    assert early.verify().ok
    assert early.account("people").spent == {"epsilon": 5}
    with contextlib.closing(sqlite3.connect(early.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


def test_a_run_charged_in_an_early_ledger_is_followed_once_it_is_resumed(early: Ledger) -> None:
    entry = next(entry for entry in early.entries() if entry.run == "r1")
    assert take_up(early, entry, ["0", "1", "2"]) == entry
    with pytest.raises(BudgetError, match="another copy"):
        take_up(early, entry, ["0", "1", "other"])
    assert early.verify().ok


def test_an_edited_early_ledger_is_noticed(early: Ledger) -> None:
    with contextlib.closing(sqlite3.connect(early.path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE journals (run TEXT)")
    assert early.verify().problems == ("there is a foreign database object 'journals'",)
