"""Budgets that protect next to nobody are refused before anything is charged, unless somebody says that they know."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import BudgetError, InputError, RowsLeftOutWarning, UntrackedWarning
from understudy.privacy.promise import definition

SCHEMA = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),), ignore=("who",))
ROWS = pa.table({"sex": ["F", "M"] * 1000, "who": [str(number // 4) for number in range(2000)]})


@pytest.fixture(autouse=True)
def as_for_everybody(budgets_of_any_size, monkeypatch):
    for name, value in (
        ("LARGEST_EPSILON", Fraction(20)),
        ("LARGEST_RHO", Fraction(5)),
        ("LARGEST_DELTA", Fraction(1, 1000)),
        ("EXPECTED_RECORDS", 1),
    ):
        monkeypatch.setattr(definition, name, value)


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (us.PureDP(epsilon="20.0001"), "epsilon"),
        (us.ApproxDP(epsilon=21, delta="1e-9"), "epsilon"),
        (us.ZCDP(rho="5.1"), "rho"),
        (us.ApproxDP(epsilon=1, delta="0.0011"), "delta"),
    ],
)
def test_a_budget_that_protects_nobody(budget, says):
    with pytest.raises(BudgetError, match=rf"{says} .*--i-know"):
        us.plan(SCHEMA, budget=budget, method="independent")
    assert us.plan(SCHEMA, budget=budget, method="independent", i_know=True).budget == budget


def test_the_bounds_themselves_are_allowed():
    for budget in (us.PureDP(epsilon=20), us.ZCDP(rho=5), us.ApproxDP(epsilon=1, delta="1e-3")):
        us.plan(SCHEMA, budget=budget, method="independent")


def test_a_delta_above_one_in_n(tmp_path):
    slack = {"budget": us.ApproxDP(epsilon=1, delta="6e-4"), "method": "independent"}
    with pytest.raises(BudgetError, match="2,000 records"):
        us.plan(SCHEMA, records=2000, **slack)
    ledger = us.Ledger.create(tmp_path / "budget.db")
    ledger.create_account("a", unit="replace", limit=us.ApproxDP(epsilon=2, delta="1e-2"))
    paid = {"ledger": tmp_path / "budget.db", "account": "a"}
    with pytest.raises(BudgetError, match="2,000 records"):
        us.synthesize(ROWS, schema=SCHEMA, out=tmp_path / "release", **slack, **paid)
    assert ledger.account("a").spent["epsilon"] == 0
    assert not (tmp_path / "release").exists()
    us.synthesize(ROWS, schema=SCHEMA, out=tmp_path / "release", i_know=True, **slack, **paid)
    with pytest.warns(UntrackedWarning):  # the number of rows is not public here, so nothing is compared with it
        us.synthesize(ROWS, schema=SCHEMA, unit="add_remove", rows=10, **slack)


def test_data_without_rows_are_refused():
    with pytest.raises(InputError, match="no rows"), pytest.warns(UntrackedWarning):
        us.synthesize(ROWS.slice(0, 0), schema=SCHEMA, budget=us.PureDP(epsilon=1))
    with pytest.raises(InputError, match="no rows"):
        us.check_data(ROWS.slice(0, 0), SCHEMA)


def test_rows_beyond_the_bound_are_said_to_be_left_out():
    unit = us.Unit(kind="replace", rows_per_unit=3, unit_id="who")
    with pytest.warns(RowsLeftOutWarning, match="500 row"):
        us.synthesize(ROWS, schema=SCHEMA, budget=us.PureDP(epsilon=1), unit=unit)


def test_a_plan_says_what_pure_protection_costs():
    wide = us.Schema(attributes=tuple(us.Attribute(name=f"a{n}", levels=("x", "y")) for n in range(12)))
    pure = us.plan(wide, budget=us.PureDP(epsilon=1), method="ipf")
    (text,) = us.plan_advice(pure, wide)
    assert "is 187 on" in text  # 66 tables, sensitivity 2: the root of 2 times 132
    assert "--delta 1e-9" in text
    assert us.plan_advice(us.plan(SCHEMA, budget=us.PureDP(epsilon=1), method="independent"), SCHEMA) == ()
    approx = us.plan(wide, budget=us.ApproxDP(epsilon=1, delta="1e-9"), method="ipf")
    assert us.plan_advice(approx, wide) == ()
