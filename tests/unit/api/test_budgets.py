"""Budgets compared from public facts: the plans of ``plan``, the noise behind each need, the bound on an intruder."""

from __future__ import annotations

import math

import pytest

import understudy as us
from understudy import api
from understudy.demo.people import small_schema
from understudy.errors import InputError
from understudy.privacy.promise import definition

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="smokes", levels=("no", "yes"), missing=True),
        us.Attribute(name="region", levels=tuple("abcd")),
    ),
    workload=("crosstab(sex, smokes)", "proportion(smokes == 'yes')"),
)  # fmt: skip


def test_the_plans_are_those_of_plan():
    rows = api.compare_budgets(SCHEMA, epsilons=("0.5", "2"), delta="1e-9", unit="add_remove")
    for row, epsilon in zip(rows, ("0.5", "2"), strict=True):
        budget = us.ApproxDP(epsilon=epsilon, delta="1e-9")
        assert row.plan.hash == us.plan(SCHEMA, budget=budget, unit="add_remove").hash
        assert [one.need for one in row.needs] == [*SCHEMA.workload, "each column by itself"]
        assert row.attacker.odds == pytest.approx(math.exp(float(epsilon)))
        assert row.attacker.value_odds == pytest.approx(math.exp(2 * float(epsilon)))


def test_a_table_that_is_a_sum_has_the_noise_of_the_sum():
    (row,) = api.compare_budgets(SCHEMA, epsilons=("1",), method="histogram")
    (step,) = row.plan.steps
    table, share, alone = row.needs
    assert step.cells == 24
    assert table.within == pytest.approx(2 * step.standard_deviation * math.sqrt(24 / 6))
    assert share.within == pytest.approx(2 * step.standard_deviation * math.sqrt(24 / 3))
    assert alone.within == pytest.approx(2 * step.standard_deviation * math.sqrt(24 / 2))  # the coarsest one
    assert alone.table == ("sex",)


def test_more_epsilon_has_less_noise_and_helps_an_intruder_more():
    rows = api.compare_budgets(SCHEMA)
    noise = [row.needs[0].within for row in rows]
    assert noise == sorted(noise, reverse=True)
    assert len(set(noise)) == len(rows)
    assert [row.attacker.guess_bound for row in rows] == sorted(row.attacker.guess_bound for row in rows)


def test_a_budget_without_a_plan_says_why_and_nonsense_is_refused(monkeypatch):
    monkeypatch.setattr(definition, "LARGEST_EPSILON", 20)  # which other tests lift
    rows = api.compare_budgets(SCHEMA, epsilons=("1", "50"))
    assert rows[0].refused == ""
    assert rows[1].plan is None
    assert "above 20" in rows[1].refused
    with pytest.raises(InputError):
        api.compare_budgets(SCHEMA, epsilons=("-1",))
    with pytest.raises(InputError, match="delta"):
        api.compare_budgets(SCHEMA, epsilons=("1",), delta="2")


def test_a_workload_is_read_line_by_line():
    schema = small_schema()
    lines = ("crosstab(sex, smokes)", "crosstab(sex, smokes)", "predict(smokes)")
    assert api.read_workload(schema, lines) == ("crosstab(sex, smokes)", "predict(smokes)")
    with pytest.raises(InputError, match="nobody"):
        api.read_workload(schema, ("mean(nobody)",))


def test_the_page_of_a_report_is_the_one_that_is_written(tmp_path):
    import pyarrow as pa

    release = us.wrap(pa.table({"sex": ["F", "M"] * 20}), us.Schema(attributes=SCHEMA.attributes[:1]))
    us.report(release, audience="public", to=tmp_path / "page.html")
    assert api.report_page(release, audience="public") == (tmp_path / "page.html").read_text()
