"""Nothing is spent beyond a limit, nothing is spent unseen, and what is on the books stays there."""

from __future__ import annotations

import datetime
import json
from fractions import Fraction
from pathlib import Path

import pytest

from understudy.errors import BudgetError, InputError, UnknownNameError, UnsupportedError
from understudy.privacy.ledger.ledger import Account, Entry, Ledger, cost_in
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, NonPrivate, ProbabilisticDP, PureDP, Unit

HASH = "a" * 64


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "budget.db")


def charge(ledger: Ledger, run: str, cost: Definition, account: str = "people", unit: Unit | str = "replace") -> Entry:
    return ledger.reserve(account, run=run, plan_hash=HASH, unit=unit, cost=cost, method="histogram")


def open_people(ledger: Ledger, limit: Definition, unit: Unit | str = "replace") -> Account:
    return ledger.create_account("people", unit=unit, limit=limit)


def test_an_account_has_one_unit_one_currency_one_limit(ledger: Ledger) -> None:
    unit = Unit(kind="replace", rows_per_unit=3, unit_id="person", fixed=("region",))
    account = open_people(ledger, ApproxDP(epsilon=2, delta="1e-9"), unit)
    assert account == ledger.account("people") == ledger.accounts()[0]
    assert (account.unit, account.limit, account.runs) == (unit, ApproxDP(epsilon=2, delta="1e-9"), 0)
    for again in ("people", "People", "PEOPLE"):
        with pytest.raises(InputError, match="exists already"):
            ledger.create_account(again, unit=unit, limit=PureDP(epsilon=1))
    assert ledger.account("people").limit == ApproxDP(epsilon=2, delta="1e-9")


def test_one_name_in_two_spellings_of_unicode_is_one_account(ledger: Ledger) -> None:
    ledger.create_account("Bevo\u0308lkerung", unit="replace", limit=PureDP(epsilon=1))
    with pytest.raises(InputError, match="exists already"):
        ledger.create_account("Bev\u00f6lkerung", unit="replace", limit=PureDP(epsilon=1))
    assert charge(ledger, "r1", PureDP(epsilon=1), "Bevo\u0308lkerung").account == "Bev\u00f6lkerung"


@pytest.mark.parametrize("name", ["", " people", "a\nb", "x" * 101, "/data/people.csv", "c:\\people", "a\x00b", 3])
def test_a_name_is_a_name_and_not_a_path(ledger: Ledger, name: str) -> None:
    with pytest.raises(InputError, match="account name"):
        ledger.create_account(name, unit="replace", limit=PureDP(epsilon=1))


def test_a_probabilistic_limit_is_refused(ledger: Ledger) -> None:
    with pytest.raises(UnsupportedError, match="use ApproxDP with the same epsilon and delta"):
        open_people(ledger, ProbabilisticDP(epsilon=1, delta="1e-6"))
    with pytest.raises(InputError, match="limit must be a guarantee"):
        open_people(ledger, 1.0)
    assert ledger.accounts() == ()


def test_an_unknown_account_suggests_the_nearest(ledger: Ledger) -> None:
    open_people(ledger, PureDP(epsilon=1))
    for ask in (
        lambda: ledger.account("peopel"),
        lambda: ledger.entries("peopel"),
        lambda: charge(ledger, "r1", PureDP(epsilon=1), "peopel"),
    ):
        with pytest.raises(UnknownNameError, match="did you mean 'people'"):
            ask()


def test_plain_data_for_people_and_programs(ledger: Ledger) -> None:
    open_people(ledger, ApproxDP(epsilon=1, delta="1e-6"))
    charge(ledger, "r1", ApproxDP(epsilon=Fraction(1, 3), delta="1e-7"))
    account = ledger.account("people")
    assert account.rows() == [
        ("epsilon", "1", "0.333334", "0.666666"),
        ("delta", "0.000001", "1E-7", "9E-7"),
    ]
    data = json.loads(json.dumps(account.to_json()))
    assert data["spent"]["epsilon"] == "0.333334"
    assert data["remaining"]["epsilon"] == "0.666666"
    assert data["spent_exact"]["epsilon"] == "1/3"
    assert data["runs"] == 1
    page = ledger.create_account("a<b", unit="replace", limit=PureDP(epsilon=1))._repr_html_()
    assert "a&lt;b" in page
    assert "<b:" not in page


PURE, APPROX, ZERO = PureDP(epsilon=2), ApproxDP(epsilon=2, delta="1e-6"), ZCDP(rho=2)
PROBABLE = ProbabilisticDP(epsilon=2, delta="1e-6")


@pytest.mark.parametrize(
    ("limit", "cost", "amounts"),
    [
        (PURE, PureDP(epsilon="0.5"), {"epsilon": Fraction(1, 2)}),
        (ZERO, ZCDP(rho="0.5"), {"rho": Fraction(1, 2)}),
        (ZERO, PureDP(epsilon="0.5"), {"rho": Fraction(1, 8)}),
        (APPROX, ApproxDP(epsilon=1, delta="1e-7"), {"epsilon": 1, "delta": Fraction(1, 10**7)}),
        (APPROX, ProbabilisticDP(epsilon=1, delta="1e-7"), {"epsilon": 1, "delta": Fraction(1, 10**7)}),
        (APPROX, PureDP(epsilon="0.5"), {"epsilon": Fraction(1, 2), "delta": 0}),
        *((NonPrivate(), cost, {}) for cost in (PURE, APPROX, PROBABLE, ZERO, NonPrivate())),
    ],
)
def test_costs_in_the_currency_of_the_account(
    ledger: Ledger, limit: Definition, cost: Definition, amounts: dict[str, Fraction]
) -> None:
    assert cost_in(limit, cost) == amounts
    open_people(ledger, limit)
    assert charge(ledger, "r1", cost).charged == amounts
    assert ledger.account("people").spent == amounts
    assert ledger.verify().ok


@pytest.mark.parametrize(
    ("limit", "cost"),
    [
        *((PURE, cost) for cost in (APPROX, PROBABLE, ZERO, NonPrivate())),
        *((APPROX, cost) for cost in (ZERO, NonPrivate())),
        *((ZERO, cost) for cost in (APPROX, PROBABLE, NonPrivate())),
    ],
)
def test_other_currencies_are_refused_with_advice(ledger: Ledger, limit: Definition, cost: Definition) -> None:
    advice = "open an account of its own" if isinstance(cost, NonPrivate) else "plan the run with the guarantee"
    with pytest.raises(BudgetError, match=advice):
        cost_in(limit, cost)
    open_people(ledger, limit)
    head = ledger.head()
    with pytest.raises(BudgetError, match="cannot be charged"):
        charge(ledger, "r1", cost)
    assert ledger.head() == head


def test_ten_tenths_fit_a_limit_of_one_and_nothing_more(ledger: Ledger) -> None:
    open_people(ledger, PureDP(epsilon=1))
    for run in range(10):
        charge(ledger, f"r{run}", PureDP(epsilon=0.1))
    account = ledger.account("people")
    assert account.spent == {"epsilon": 1}
    assert account.remaining == {"epsilon": 0}
    head = ledger.head()
    with pytest.raises(BudgetError, match=r"limit 1, spent 1, remaining 0, asked 1E-30"):
        charge(ledger, "r10", PureDP(epsilon="1e-30"))
    assert ledger.head() == head
    assert ledger.account("people").runs == 10


def test_a_refusal_rounds_against_the_asker(ledger: Ledger) -> None:
    open_people(ledger, PureDP(epsilon=1))
    charge(ledger, "r1", PureDP(epsilon=Fraction(2, 3)))
    with pytest.raises(BudgetError, match=r"spent 0\.666667, remaining 0\.333333, asked 0\.333334") as caught:
        charge(ledger, "r2", PureDP(epsilon=Fraction(1, 3) + Fraction(1, 10**40)))
    assert "Nothing was charged" in str(caught.value)
    charge(ledger, "r2", PureDP(epsilon=Fraction(1, 3)))
    assert ledger.account("people").remaining == {"epsilon": 0}


@pytest.mark.parametrize("cost", [{"epsilon": "1.01", "delta": "1e-9"}, {"epsilon": "0.01", "delta": "1.01e-6"}])
def test_both_parameters_of_an_approx_limit_hold(ledger: Ledger, cost: dict[str, str]) -> None:
    open_people(ledger, ApproxDP(epsilon=1, delta="1e-6"))
    with pytest.raises(BudgetError, match="does not allow this run"):
        charge(ledger, "r1", ApproxDP(**cost))


def test_a_pure_run_in_a_zcdp_account_is_counted_exactly(ledger: Ledger) -> None:
    open_people(ledger, ZCDP(rho="0.015"))
    for run in range(3):
        charge(ledger, f"r{run}", PureDP(epsilon="0.1"))
    with pytest.raises(BudgetError):
        charge(ledger, "r3", ZCDP(rho="1e-50"))


def test_accounts_do_not_share(ledger: Ledger) -> None:
    open_people(ledger, PureDP(epsilon=1))
    ledger.create_account("firms", unit="replace", limit=PureDP(epsilon=1))
    charge(ledger, "r1", PureDP(epsilon=1))
    charge(ledger, "r2", PureDP(epsilon=1), "firms")
    assert [entry.run for entry in ledger.entries("firms") if entry.kind == "charge"] == ["r2"]


@pytest.mark.parametrize(
    "unit",
    [
        Unit(kind="add_remove", rows_per_unit=2, unit_id="person"),
        Unit(kind="replace", rows_per_unit=3, unit_id="person", fixed=("region",)),
        Unit(kind="replace", rows_per_unit=2, fixed=("region",)),
        Unit(kind="replace", rows_per_unit=2, unit_id="person"),
        "replace",
    ],
)
def test_another_unit_is_refused(ledger: Ledger, unit: Unit | str) -> None:
    own = Unit(kind="replace", rows_per_unit=2, unit_id="person", fixed=("region",))
    open_people(ledger, PureDP(epsilon=1), own)
    with pytest.raises(BudgetError, match="protects another unit"):
        charge(ledger, "r1", PureDP(epsilon="0.1"), unit=unit)
    assert ledger.account("people").runs == 0
    charge(ledger, "r1", PureDP(epsilon="0.1"), unit=own)


def test_asking_again_for_the_same_run_is_free(ledger: Ledger) -> None:
    open_people(ledger, PureDP(epsilon=1))
    first = charge(ledger, "r1", PureDP(epsilon=1))
    again = charge(ledger, "r1", PureDP(epsilon=1))
    assert again == first
    assert ledger.account("people").runs == 1


def test_one_run_has_one_plan(ledger: Ledger) -> None:
    open_people(ledger, PureDP(epsilon=1))
    ledger.create_account("firms", unit="replace", limit=PureDP(epsilon=1))
    charge(ledger, "r1", PureDP(epsilon="0.1"))
    head = ledger.head()
    with pytest.raises(BudgetError, match="one run has one plan"):
        ledger.reserve(
            "people", run="r1", plan_hash="b" * 64, unit="replace", cost=PureDP(epsilon="0.1"), method="histogram"
        )
    with pytest.raises(BudgetError, match="one run has one plan"):
        charge(ledger, "r1", PureDP(epsilon="0.2"))
    with pytest.raises(BudgetError, match="one run has one plan"):
        charge(ledger, "r1", PureDP(epsilon="0.1"), "firms")
    assert ledger.head() == head


def test_checking_raises_what_reserving_would_and_charges_nothing(ledger: Ledger) -> None:
    open_people(ledger, PureDP(epsilon=1))
    charge(ledger, "r1", PureDP(epsilon="0.9"))
    head = ledger.head()
    ledger.check("people", unit="replace", cost=PureDP(epsilon="0.1"))
    refused = [
        ("people", "replace", PureDP(epsilon="0.11"), BudgetError, "remaining 0.1, asked 0.11"),
        ("people", "replace", ZCDP(rho="0.01"), BudgetError, "cannot be charged"),
        ("people", "add_remove", PureDP(epsilon="0.1"), BudgetError, "protects another unit"),
        ("peopel", "replace", PureDP(epsilon="0.1"), UnknownNameError, "did you mean 'people'"),
    ]
    for account, unit, cost, error, words in refused:
        with pytest.raises(error, match=words):
            ledger.check(account, unit=unit, cost=cost)
    assert ledger.head() == head


def test_an_entry_says_what_happened(ledger: Ledger) -> None:
    open_people(ledger, PureDP(epsilon=1))
    entry = ledger.reserve(
        "people",
        run="r1",
        plan_hash=HASH,
        unit="replace",
        cost=PureDP(epsilon="0.1"),
        method="aim",
        note="for the board",
    )
    assert ledger.entries()[-1] == entry == ledger.entries("people")[-1]
    assert (entry.kind, entry.sequence, entry.account, entry.run) == ("charge", 3, "people", "r1")
    assert (entry.plan_hash, entry.method, entry.note) == (HASH, "aim", "for the board")
    assert entry.cost == PureDP(epsilon="0.1")
    when = datetime.datetime.fromisoformat(entry.time)
    assert when.utcoffset() == datetime.timedelta(0)
    assert abs(datetime.datetime.now(datetime.UTC) - when) < datetime.timedelta(minutes=5)
    assert entry.block == {"account": "people", "run": "r1", "head": ledger.head(), "sequence": 3}
    assert json.loads(json.dumps(entry.to_json()))["hash"] == ledger.head()
    assert [entry.kind for entry in ledger.entries()] == ["ledger", "account", "charge"]


@pytest.mark.parametrize("what", ["run", "plan_hash", "method", "note"])
def test_texts_of_a_charge_are_single_lines(ledger: Ledger, what: str) -> None:
    open_people(ledger, PureDP(epsilon=1))
    texts = {"run": "r1", "plan_hash": HASH, "method": "aim", "note": "", what: "two\nlines"}
    with pytest.raises(InputError, match="must be one line"):
        ledger.reserve("people", unit="replace", cost=PureDP(epsilon=1), **texts)
    assert ledger.account("people").runs == 0


def test_settling_says_what_was_left_and_gives_nothing_back(ledger: Ledger) -> None:
    open_people(ledger, ApproxDP(epsilon=1, delta="1e-6"))
    charge(ledger, "r1", ApproxDP(epsilon="0.9", delta="1e-6"))
    entry = ledger.settle(run="r1", spent=PureDP(epsilon="0.2"))
    assert entry.spent == PureDP(epsilon="0.2")
    assert entry.left == {"epsilon": Fraction(7, 10), "delta": Fraction(1, 10**6)}
    assert entry.account == "people"
    assert ledger.account("people").spent == {"epsilon": Fraction(9, 10), "delta": Fraction(1, 10**6)}
    assert ledger.account("people").runs == 1
    with pytest.raises(BudgetError):
        charge(ledger, "r2", PureDP(epsilon="0.2"))
    assert ledger.verify().ok


def test_settling_twice_is_settling_once(ledger: Ledger) -> None:
    open_people(ledger, PureDP(epsilon=1))
    charge(ledger, "r1", PureDP(epsilon=1))
    first = ledger.settle(run="r1", spent=PureDP(epsilon="0.5"))
    assert ledger.settle(run="r1", spent=PureDP(epsilon="0.5")) == first
    with pytest.raises(BudgetError, match="settled before"):
        ledger.settle(run="r1", spent=PureDP(epsilon="0.6"))
    assert len(ledger.entries()) == 4


def test_a_run_never_reports_more_than_it_reserved(ledger: Ledger) -> None:
    open_people(ledger, PureDP(epsilon=1))
    charge(ledger, "r1", PureDP(epsilon="0.5"))
    with pytest.raises(BudgetError, match="never spends more than it reserved"):
        ledger.settle(run="r1", spent=PureDP(epsilon="0.500001"))
    with pytest.raises(UnknownNameError, match="run 'r2' is unknown"):
        ledger.settle(run="r2", spent=PureDP(epsilon="0.1"))
    ledger.settle(run="r1", spent=PureDP(epsilon="0.5"))
    assert ledger.verify().ok
