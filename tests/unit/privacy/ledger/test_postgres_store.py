"""The ledger in PostgreSQL: the same races, kills and tampering as the file."""

from __future__ import annotations

import subprocess
import sys
import threading
from fractions import Fraction

import psycopg
import pytest

from understudy.errors import BudgetError, InputError
from understudy.privacy.gate.journal import Journal
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.ledger.postgres_store import GRANTS
from understudy.privacy.promise.definition import PureDP, Unit

pytestmark = pytest.mark.postgres
NAME = "UNDERSTUDY_TEST_LEDGER"


@pytest.fixture
def address(postgres, monkeypatch) -> str:
    found = postgres.fresh()
    monkeypatch.setenv(NAME, found)
    return found


@pytest.fixture
def ledger(address) -> Ledger:
    made = Ledger.create(f"env:{NAME}")
    made.create_account("people", unit="replace", limit=PureDP(epsilon=3))
    return made


def charge(ledger: Ledger, run: str, epsilon: str = "0.07", **more):
    cost = PureDP(epsilon=epsilon)
    return ledger.reserve("people", run=run, plan_hash="a" * 64, unit="replace", cost=cost, method="histogram", **more)


def execute(address: str, *statements: str) -> None:
    with psycopg.connect(address) as connection:
        for statement in statements:
            connection.execute(statement)


def test_it_charges_verifies_and_refuses_like_the_file(ledger):
    entry = charge(ledger, "r1", "2")
    assert charge(ledger, "r1", "2").sequence == entry.sequence
    with pytest.raises(BudgetError, match="remaining 1"):
        charge(ledger, "r2", "2")
    assert Ledger.open(f"env:{NAME}", writable=False).account("people").spent == {"epsilon": Fraction(2)}
    assert ledger.verify().ok
    assert ledger.verify_against(entry.block).ok
    with pytest.raises(InputError, match="has a ledger already"):
        Ledger.create(f"env:{NAME}")


def test_what_cannot_be_used_is_said_without_the_address(address, monkeypatch, tmp_path):
    with pytest.raises(InputError, match="no ledger; create it first"):
        Ledger.open(f"env:{NAME}")
    monkeypatch.setenv(NAME, "postgresql://me:secret@127.0.0.1:1/none")
    with pytest.raises(InputError, match="cannot be reached") as refused:
        Ledger.open(f"env:{NAME}")
    assert "secret" not in str(refused.value)
    monkeypatch.setenv(NAME, str(tmp_path))
    with pytest.raises(InputError, match="must hold an address"):
        Ledger.open(f"env:{NAME}")
    for make in (Ledger.create, Ledger.open):
        with pytest.raises(InputError, match="env:LEDGER") as refused:
            make("postgresql://me:secret@127.0.0.1:1/none")
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET body = 'x'",
        "DELETE FROM ledger_entries",
        "TRUNCATE ledger_entries",
        "INSERT INTO ledger_entries VALUES (99, 'a', 'b', 'c')",
        "INSERT INTO ledger_entries VALUES (1, 'a', 'b', 'c') ON CONFLICT (sequence) DO UPDATE SET body = 'c'",
        "UPDATE ledger_journals SET sequence = 0",
        "DELETE FROM ledger_journals",
        "TRUNCATE ledger_journals",
    ],
)
def test_rows_cannot_be_changed(ledger, address, tmp_path, statement):
    charge(ledger, "r1", journal=Journal.create(tmp_path / "run", {}).head)
    with pytest.raises(psycopg.Error):
        execute(address, statement)
    assert ledger.verify().ok


@pytest.mark.parametrize(
    ("statements", "says"),
    [
        (("UPDATE ledger_entries SET body = replace(body, '0.07', '0.01') WHERE sequence = 3",), "was changed"),
        (("DELETE FROM ledger_entries WHERE sequence = 3",), "entry 3 is missing"),
        (("UPDATE ledger_entries SET hash = md5(hash) WHERE sequence = 4",), "changed"),
    ],
)
def test_tampering_by_the_owner_of_the_tables_is_found(ledger, address, statements, says):
    for run in ("r1", "r2", "r3"):
        charge(ledger, run)
    execute(address, "ALTER TABLE ledger_entries DISABLE TRIGGER ALL", *statements)
    problems = " ".join(ledger.verify().problems)
    assert says in problems
    assert "switched off" in problems
    execute(address, "ALTER TABLE ledger_entries ENABLE TRIGGER ALL")
    assert says in " ".join(ledger.verify().problems)
    with pytest.raises(InputError, match="altered or damaged"):
        charge(ledger, "r4")


def test_an_altered_function_is_found(ledger, address):
    execute(
        address,
        "CREATE OR REPLACE FUNCTION ledger_entries_follow() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RETURN NEW; END'",
    )
    assert "altered" in " ".join(ledger.verify().problems)


def test_a_role_with_the_stated_rights_charges_and_can_do_no_more(ledger, address, monkeypatch):
    schema = address.rpartition("%3D")[2]
    execute(
        address, "CREATE ROLE charging LOGIN", f"GRANT USAGE ON SCHEMA {schema} TO charging",
        *(text.format(role="charging") for text in GRANTS),
    )  # fmt: skip
    theirs = address.replace("postgres@", "charging@")
    monkeypatch.setenv(NAME, theirs)
    charge(Ledger.open(f"env:{NAME}"), "r1")
    for statement in ("UPDATE ledger_entries SET body = 'x'", "DELETE FROM ledger_entries",
                      "ALTER TABLE ledger_entries DISABLE TRIGGER ALL", "DROP TABLE ledger_entries"):  # fmt: skip
        with pytest.raises(psycopg.Error, match=r"permission denied|must be owner"):
            execute(theirs, statement)


def test_a_copied_run_folder_is_refused(ledger, tmp_path):
    journal = Journal.create(tmp_path / "run", {})
    entry = charge(ledger, "r1", journal=journal.head)
    known = journal.head
    journal.append("measurement", {"x": 1})
    ledger.advance(run="r1", known=known, head=journal.head)
    with pytest.raises(BudgetError, match="another copy"):
        ledger.advance(run="r1", known=known, head=journal.head)
    ledger.take_up(
        "people", run="r1", plan_hash="a" * 64, unit=Unit(), cost=PureDP(epsilon="0.07"), block=entry.block,
        checksums=journal.checksums,
    )  # fmt: skip


def test_eight_threads_never_overspend(ledger):
    spent, barrier = [], threading.Barrier(8)

    def spend(who: int) -> None:
        barrier.wait()
        mine, own = 0, Ledger.open(f"env:{NAME}")
        try:
            while True:
                charge(own, f"{who}-{mine}", "0.25")
                mine += 1
        except BudgetError:
            spent.append(mine)

    threads = [threading.Thread(target=spend, args=(who,)) for who in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sum(spent) == 12
    assert ledger.account("people").remaining == {"epsilon": Fraction(0)}
    assert ledger.verify().ok


SPENDER = """
import sys
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.promise.definition import PureDP
ledger, number = Ledger.open("env:UNDERSTUDY_TEST_LEDGER"), 0
while True:
    ledger.reserve("people", run=f"{sys.argv[1]}-{number}", plan_hash="a" * 64, unit="replace",
                   cost=PureDP(epsilon="0.0001"), method="x")
    number += 1
    print(number, flush=True)
"""


@pytest.mark.full
@pytest.mark.parametrize("kills", [12])
def test_killed_processes_and_a_killed_database_lose_no_charge_that_was_told(postgres, ledger, kills):
    """What a process was told is charged is there after kill -9 of it, or of the whole server."""
    told = 0
    for number in range(kills):
        spender = subprocess.Popen([sys.executable, "-c", SPENDER, str(number)], stdout=subprocess.PIPE, text=True)
        for _ in range(3 + number):
            last = int(spender.stdout.readline())
        if number % 2:
            postgres.kill()
            postgres.start()
        spender.kill()
        said = [int(line) for line in spender.stdout.read().split()]
        told += max([last, *said])
        spender.wait()
        assert ledger.verify().ok
        assert told <= ledger.account("people").runs <= told + number + 1
