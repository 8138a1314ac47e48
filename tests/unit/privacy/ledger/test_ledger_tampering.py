"""An edited, removed, inserted or reordered entry is noticed, and a release notices a ledger that was cut."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.errors import InputError
from understudy.privacy.ledger.ledger import Entry, Ledger
from understudy.privacy.ledger.store import GENESIS, chained_hash
from understudy.privacy.promise.definition import Definition, PureDP, Unit


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "budget.db")


def charge(ledger: Ledger, run: str, cost: Definition) -> Entry:
    return ledger.reserve("people", run=run, plan_hash="a" * 64, unit="replace", cost=cost, method="histogram")


@pytest.fixture
def busy(ledger: Ledger) -> Ledger:
    ledger.create_account("people", unit="replace", limit=PureDP(epsilon=10))
    for run in range(4):
        charge(ledger, f"r{run}", PureDP(epsilon=1))
    ledger.settle(run="r0", spent=PureDP(epsilon="0.5"))
    assert ledger.verify().ok
    return ledger


@contextlib.contextmanager
def raw(ledger: Ledger, *, guarded: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection that goes around the ledger; unless ``guarded``, with its triggers out of the way."""
    with contextlib.closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        assert len(triggers) == 6
        for name, _ in triggers if not guarded else ():
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        for _, sql in triggers if not guarded else ():
            connection.execute(sql)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = '{}' WHERE sequence = 3",
        "DELETE FROM entries WHERE sequence = 3",
        "DELETE FROM entries",
        "INSERT OR REPLACE INTO entries VALUES (3, 'x', 'y', '{}')",
        "INSERT INTO entries VALUES (99, 'x', 'y', '{}')",
    ],
)
def test_the_table_is_append_only(busy: Ledger, statement: str) -> None:
    with raw(busy, guarded=True) as connection, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    assert busy.verify().ok


EDITS = {
    "an edited charge": 'UPDATE entries SET body = replace(body, \'"epsilon":"1"\', \'"epsilon":"0.1"\') '
    "WHERE sequence = 4",
    "an edited limit": "UPDATE entries SET body = replace(body, '\"10\"', '\"99\"') WHERE sequence = 2",
    "an edited unit": "UPDATE entries SET body = replace(body, '\"replace\"', '\"add_remove\"') WHERE sequence = 2",
    "an edited note": 'UPDATE entries SET body = replace(body, \'"note":""\', \'"note":"hm"\') WHERE sequence = 5',
    "an edited hash": f"UPDATE entries SET hash = '{'0' * 64}' WHERE sequence = 5",
    "an edited link": f"UPDATE entries SET previous = '{'0' * 64}' WHERE sequence = 5",
    "a body of nonsense": "UPDATE entries SET body = 'nonsense' WHERE sequence = 5",
    "a body of bytes": "UPDATE entries SET body = x'00ff' WHERE sequence = 5",
    "a removed first entry": "DELETE FROM entries WHERE sequence = 1",
    "a removed account": "DELETE FROM entries WHERE sequence = 2",
    "a removed charge": "DELETE FROM entries WHERE sequence = 4",
    "a removed last entry": "DELETE FROM entries WHERE sequence = 7",
    "everything removed": "DELETE FROM entries",
    "an inserted entry": "INSERT INTO entries SELECT 8, hash, hex(randomblob(9)), body FROM entries WHERE sequence = 7",
    "an entry before the first": "INSERT INTO entries VALUES (0, 'a', 'b', '{}')",
}


@pytest.mark.parametrize("how", EDITS)
def test_tampering_is_noticed_and_nothing_more_is_charged(busy: Ledger, how: str) -> None:
    with raw(busy) as connection:
        assert connection.execute(EDITS[how]).rowcount > 0
    checked = busy.verify()
    assert not checked
    assert checked.problems
    assert json.dumps(checked.to_json())
    for act in (
        lambda: charge(busy, "new", PureDP(epsilon="0.1")),
        lambda: charge(busy, "r0", PureDP(epsilon=1)),
        lambda: busy.settle(run="r1", spent=PureDP(epsilon="0.1")),
        lambda: busy.create_account("other", unit="replace", limit=PureDP(epsilon=1)),
        lambda: busy.account("people"),
        busy.entries,
        busy.head,
    ):
        with pytest.raises(InputError, match="altered or damaged"):
            act()


def test_reordered_entries_are_noticed(busy: Ledger) -> None:
    with raw(busy) as connection:
        connection.execute("UPDATE entries SET sequence = 100 WHERE sequence = 4")
        connection.execute("UPDATE entries SET sequence = 4 WHERE sequence = 5")
        connection.execute("UPDATE entries SET sequence = 5 WHERE sequence = 100")
        connection.execute("UPDATE sqlite_sequence SET seq = 7")
    assert any("does not follow" in problem for problem in busy.verify().problems)


def test_missing_guards_and_foreign_objects_are_noticed(busy: Ledger) -> None:
    with raw(busy, guarded=True) as connection:
        connection.execute("DROP TRIGGER entries_never_go")
    assert busy.verify().problems == ("the database object 'entries_never_go' is missing or altered",)
    with raw_any(busy) as connection:
        connection.execute("CREATE TRIGGER nice AFTER INSERT ON entries BEGIN SELECT 1; END")
    assert "there is a foreign database object 'nice'" in busy.verify().problems


@contextlib.contextmanager
def raw_any(ledger: Ledger) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        yield connection


def make_it_fit(connection: sqlite3.Connection) -> None:
    """A forger who knows the format makes the whole chain fit again."""
    previous = GENESIS
    for sequence, body in connection.execute("SELECT sequence, body FROM entries ORDER BY sequence").fetchall():
        new = chained_hash(previous, body)
        connection.execute("UPDATE entries SET previous = ?, hash = ? WHERE sequence = ?", (previous, new, sequence))
        previous = new


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"limit":{"epsilon":"10"', '"limit":{"epsilon":"3"', "above the limit"),
        ('"charged":{"epsilon":"1"', '"charged":{"epsilon":"0"', "not those of its guarantee"),
        ('"run":"r2"', '"run":"r1"', "charged already"),
        ('"left":{"epsilon":"0.5"', '"left":{"epsilon":"1"', "does not agree with the charge"),
        ('"kind":"settle"', '"kind":"refund"', "kind 'refund' is unknown"),
        ('"kind":"settle"', '"kind":"ledger"', "exactly one opening entry"),
        ('"sequence":5', '"sequence":6', "another entry's number"),
        ('"method"', '"method":"x","method"', "not in the form this program writes"),
        ('"time":"', '"tome":"', "not a complete entry"),
        ('{"account"', "[", "not a complete entry"),
    ],
)
def test_a_forged_chain_that_contradicts_itself_is_noticed(busy: Ledger, old: str, new: str, words: str) -> None:
    with raw(busy) as connection:
        changed = connection.execute(
            "UPDATE entries SET body = replace(body, ?, ?) WHERE instr(body, ?)", (old, new, old)
        )
        assert changed.rowcount > 0
        make_it_fit(connection)
    problems = busy.verify().problems
    assert all("cannot be right" in problem for problem in problems)
    assert any(words in problem for problem in problems)


def test_a_release_shows_that_the_ledger_was_rewritten(busy: Ledger) -> None:
    """A whole rewrite is consistent in itself; a head published before it tells."""
    block = busy.entries()[4].block
    assert busy.verify_against(block).ok
    with raw(busy) as connection:
        connection.execute("UPDATE entries SET body = replace(body, '\"10\"', '\"99\"') WHERE sequence = 2")
        make_it_fit(connection)
    assert busy.verify().ok
    assert any("rewritten" in problem for problem in busy.verify_against(block).problems)


def test_a_release_shows_that_the_ledger_was_cut(busy: Ledger) -> None:
    block = busy.entries()[5].block
    with raw(busy) as connection:
        connection.execute("DELETE FROM entries WHERE sequence > 5")
        connection.execute("UPDATE sqlite_sequence SET seq = 5")
    assert busy.verify().ok
    assert any("cut, or restored" in problem for problem in busy.verify_against(block).problems)
    charge(busy, "another", PureDP(epsilon=1))
    assert any("rewritten or is another" in problem for problem in busy.verify_against(block).problems)


def test_a_release_shows_that_a_backup_was_restored(busy: Ledger, tmp_path: Path) -> None:
    early = busy.entries()[3].block
    shutil.copy(busy.path, tmp_path / "backup.db")
    late = charge(busy, "late", PureDP(epsilon=1)).block
    assert busy.verify_against(late).ok
    restored = Ledger.open(tmp_path / "backup.db")
    assert restored.verify().ok
    assert restored.verify_against(early).ok
    assert not restored.verify_against(late).ok


def test_a_release_that_names_another_run_or_account(busy: Ledger) -> None:
    block = busy.entries()[3].block
    for wrong in ({"run": "r3"}, {"account": "firms"}, {"run": "nobody"}):
        assert any("another run or account" in p for p in busy.verify_against({**block, **wrong}).problems)
    account = busy.entries()[1]
    not_a_charge = {**block, "head": account.hash, "sequence": account.sequence}
    assert not busy.verify_against(not_a_charge).ok


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"plan_hash": "c" * 64}, "another plan than the release states"),
        ({"unit": Unit(kind="add_remove")}, "another unit than the release states"),
        ({"cost": PureDP(epsilon="0.01")}, "another guarantee than the release states"),
    ],
)
def test_a_release_that_states_what_was_not_charged(busy: Ledger, stated: dict[str, object], words: str) -> None:
    block = busy.entries()[3].block
    right = {"plan_hash": "a" * 64, "unit": Unit(), "cost": PureDP(epsilon=1)}
    assert busy.verify_against(block, **right).ok
    assert any(words in problem for problem in busy.verify_against(block, **{**right, **stated}).problems)


@pytest.mark.parametrize("missing", ["account", "run", "head", "sequence"])
def test_a_manifest_without_a_ledger_entry(busy: Ledger, missing: str) -> None:
    block = busy.entries()[3].block
    del block[missing]
    with pytest.raises(InputError, match="does not say which ledger entry"):
        busy.verify_against(block)
