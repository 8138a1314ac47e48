"""Many processes, and processes that die: never a budget overspent, never noise without a charge."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest

from understudy.errors import BudgetError
from understudy.privacy.gate.journal import Journal
from understudy.privacy.ledger.ledger import Entry, Ledger
from understudy.privacy.promise.definition import Definition, PureDP

STRESS = Path(__file__).parents[3] / "stress" / "kill_ledger.py"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "budget.db")


def charge(ledger: Ledger, run: str, cost: Definition) -> Entry:
    return ledger.reserve("people", run=run, plan_hash="a" * 64, unit="replace", cost=cost, method="histogram")


SPENDER = """
import sys, time
from pathlib import Path
from understudy.errors import BudgetError
from understudy.privacy.promise.definition import PureDP
from understudy.privacy.ledger.ledger import Ledger
path, go, who = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
ledger = Ledger.open(path)
print("ready", flush=True)
while not go.exists():
    time.sleep(0.001)
spent = 0
try:
    while True:
        run, cost = f"{who}-{spent}", PureDP(epsilon="0.07")
        ledger.reserve("people", run=run, plan_hash="a" * 64, unit="replace", cost=cost, method="x")
        spent += 1
except BudgetError:
    print(spent)
"""


def test_eight_processes_never_overspend(ledger: Ledger, tmp_path: Path) -> None:
    limit, cost = Fraction(3), Fraction(7, 100)
    ledger.create_account("people", unit="replace", limit=PureDP(epsilon=limit))
    go = tmp_path / "go"
    spenders = [
        subprocess.Popen(
            [sys.executable, "-c", SPENDER, str(ledger.path), str(go), str(who)], stdout=subprocess.PIPE, text=True
        )
        for who in range(8)
    ]
    for spender in spenders:
        assert spender.stdout is not None
        assert spender.stdout.readline() == "ready\n"
    go.touch()
    spent = [int(spender.communicate(timeout=120)[0]) for spender in spenders]
    assert sum(spent) == limit // cost == 42
    account = ledger.account("people")
    assert account.runs == 42
    assert account.spent == {"epsilon": 42 * cost}
    assert ledger.verify().ok


def test_one_ledger_value_may_be_shared_by_threads(ledger: Ledger) -> None:
    ledger.create_account("people", unit="replace", limit=PureDP(epsilon=1))
    refused = []

    def spend(who: int) -> None:
        for run in range(4):
            try:
                charge(ledger, f"{who}-{run}", PureDP(epsilon="0.1"))
            except BudgetError:
                refused.append(run)

    threads = [threading.Thread(target=spend, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 6
    assert ledger.account("people").spent == {"epsilon": 1}
    assert ledger.verify().ok


def load_stress() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kill_ledger", STRESS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kill_ledger"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kills", [10, pytest.param(50, marks=pytest.mark.full)])
def test_kill_9_leaves_nothing_that_cannot_be_resumed(tmp_path: Path, kills: int) -> None:
    """The moments are random by nature; that no kill of ten hits a run under way has a chance far below 1e-6."""
    tally = load_stress().torment(tmp_path, kills, seed=kills)
    assert tally.problems == []
    assert tally.kills == kills
    assert tally.unfinished > 0
    assert tally.released >= tally.unfinished
    assert tally.copies_refused > 0


def test_the_examination_after_a_kill_can_fail(tmp_path: Path) -> None:
    stress = load_stress()
    stress.prepare(tmp_path)
    Journal.create(tmp_path / "runs" / "uncharged", {"run": "uncharged"}).append("measure", "noise")
    torn = Journal.create(tmp_path / "runs" / "torn", {"run": "torn"})
    (torn.folder / "run.json").write_text("{")
    (tmp_path / "releases" / "half").mkdir()
    tally = stress.Tally()
    stress.examine(tmp_path, tally)
    assert len(tally.problems) == 3
    for words in ("noise without a charge", "cannot be opened", "is not whole"):
        assert any(words in problem for problem in tally.problems)
