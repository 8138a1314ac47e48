"""The choice between pairs and one-way margins, from public facts: it follows the budget and the number of rows."""

import pytest

import understudy as us
from understudy.synth.methods.auto import expected_error
from understudy.synth.shared.method import Request, configure

SCHEMA = us.Schema(
    attributes=tuple(
        us.Attribute(name=f"v{i}", levels=tuple(range(size))) for i, size in enumerate((2, 5, 6, 5, 10, 7))
    )
)


def steps(method, epsilon):
    request = Request(budget=us.PureDP(epsilon=epsilon), unit=us.Unit(kind="add_remove"), rows=5000)
    return configure(method, {}).plan(SCHEMA, request).steps


def test_more_budget_and_more_measured_tables_mean_less_error():
    errors = [expected_error(SCHEMA, steps("ipf", epsilon), 5000) for epsilon in ("0.1", "1", "10")]
    assert errors[0] > errors[1] > errors[2] > 0
    assert expected_error(SCHEMA, steps("ipf", 10), 5000) < expected_error(SCHEMA, steps("independent", 10), 5000)
    assert expected_error(SCHEMA, steps("ipf", "0.05"), 500) > expected_error(SCHEMA, steps("independent", "0.05"), 500)


def test_without_any_table_everything_is_unknown():
    assert expected_error(SCHEMA, (), 1000) > expected_error(SCHEMA, steps("independent", 1), 1000)


@pytest.mark.parametrize(
    ("epsilon", "rows", "method"),
    [("0.05", 1000, "independent"), ("1", 5000, "ipf"), ("0.05", 1_000_000, "ipf"), ("0.05", None, "ipf")],
)
def test_auto_measures_pairs_only_where_noise_leaves_something_of_them(epsilon, rows, method):
    plan = us.plan(SCHEMA, budget=us.PureDP(epsilon=epsilon), unit="add_remove", rows=rows)
    assert plan.method == method
    assert plan.notes[0].startswith(f"Chosen by public facts: {method}:")


def test_auto_uses_public_records_too():
    plan = us.plan(SCHEMA, budget=us.PureDP(epsilon="0.05"), unit="replace", records=1000)
    assert plan.method == "independent"
