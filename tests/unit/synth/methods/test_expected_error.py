"""The forecast of a plan, and the choice that follows from it: public facts only."""

from dataclasses import replace

import numpy as np
import pytest

import understudy as us
from understudy.synth.shared.expected_error import USUAL_RECORDS, assumed_choice, forecast, from_rows

SCHEMA = us.Schema(
    attributes=tuple(
        us.Attribute(name=f"v{i}", levels=tuple(range(size))) for i, size in enumerate((2, 5, 6, 5, 10, 7))
    )
)


def expected(method, epsilon, rows=5000, **options):
    return forecast(us.plan(SCHEMA, method=method, budget=us.PureDP(epsilon=epsilon), unit="add_remove", rows=rows,
                            **options), SCHEMA)  # fmt: skip


@pytest.mark.parametrize("method", ["independent", "ipf", "histogram", "one_look"])
def test_more_budget_means_less_expected_error(method):
    errors = [expected(method, epsilon) for epsilon in ("0.1", "1", "10")]
    assert errors[0] > errors[1] > errors[2] > 0


def test_pairs_pay_with_a_large_budget_and_not_with_a_small_one():
    assert expected("ipf", 10) < 0.1 * expected("independent", 10)
    assert expected("ipf", "0.05", 500) > expected("independent", "0.05", 500)


def test_what_must_be_measured_counts():
    assert expected("independent", 4, must="crosstab(v4, v5)") < expected("independent", 4)


def test_unknown_records_are_assumed_and_no_data_mean_no_forecast():
    budget = us.PureDP(epsilon=1)
    said = us.plan(SCHEMA, method="ipf", budget=budget, unit="add_remove", rows=USUAL_RECORDS)
    unsaid = us.plan(SCHEMA, method="ipf", budget=budget, unit="add_remove")
    assert forecast(said, SCHEMA) == pytest.approx(forecast(unsaid, SCHEMA))
    plain = us.plan(SCHEMA, method="ipf", budget=us.NonPrivate(), unit="replace", records=100)
    assert forecast(plain, SCHEMA) is None


def test_the_expected_noise_of_one_way_margins_is_that_of_the_draw():
    """Squared noise over counts, simulated with the margins that are assumed."""
    plan = us.plan(SCHEMA, method="independent", budget=us.ZCDP(rho="0.05"), unit="replace", records=100_000)
    choice = assumed_choice(plan, SCHEMA, 0.2)
    rng, found = np.random.default_rng(3), 0.0
    for number, size in enumerate(SCHEMA.shape()):
        shares = 1 / np.arange(1, size + 1)
        people = 100_000 * shares / shares.sum()
        noise = rng.normal(0, choice.first[number] ** -0.5, (2000, size))
        found += float((noise**2 / people).sum(axis=1).mean() * choice.resting[number])
    said = float(choice._one_errors(1 / choice.first).sum())
    assert said == pytest.approx(found, rel=0.2)
    assert abs(said / found - 1) < min(abs(said / found * factor - 1) for factor in (0.7, 1.4))


@pytest.mark.parametrize(
    ("epsilon", "rows", "method"),
    [("0.05", 1000, "independent"), ("0.3", 3000, "one_look"), ("1", 5000, "ipf"), ("0.05", 1_000_000, "ipf")],
)
def test_auto_takes_what_has_the_least_expected_error(epsilon, rows, method):
    plan = us.plan(SCHEMA, budget=us.PureDP(epsilon=epsilon), unit="add_remove", rows=rows)
    assert plan.method == method
    assert plan.notes[0].startswith(f"Chosen by public facts: {method}:")


@pytest.mark.parametrize(("rows", "takes_the_full_table"), [(5000, False), (50_000, True)])
def test_auto_takes_a_full_table_only_for_many_records(rows, takes_the_full_table):
    """1,024 cells, most of them empty: with 5,000 records it was four times as wrong as all pairs."""
    schema = us.Schema(attributes=tuple(us.Attribute(name=f"v{i}", levels=(0, 1)) for i in range(10)))
    plan = us.plan(schema, budget=us.ApproxDP(epsilon=1, delta="1e-9"), unit="add_remove", rows=rows)
    assert (plan.method == "histogram") == takes_the_full_table


def test_auto_uses_public_records_too():
    plan = us.plan(SCHEMA, budget=us.PureDP(epsilon="0.05"), unit="replace", records=1000)
    assert plan.method == "independent"


def test_a_plan_says_how_good_it_will_be_and_what_that_assumes():
    plan = us.plan(SCHEMA, method="ipf", budget=us.PureDP(epsilon=1), unit="add_remove", rows=5000)
    (said,) = [note for note in plan.notes if note.startswith("Expected error of two-way tables")]
    assert f"about {forecast(plan, SCHEMA) + from_rows(plan, SCHEMA):.2g}" in said
    assert "5,000 records" in said


def test_rows_add_the_error_of_a_sample_or_a_part_of_it():
    told = {"budget": us.PureDP(epsilon=1), "unit": "add_remove", "rows": 5000}
    plans = {
        law: us.plan(SCHEMA, method="ipf", rows_by=law, **told) for law in ("multinomial", "rounding")
    }  # fmt: skip
    assert from_rows(plans["multinomial"], SCHEMA) == 1
    assert 0.1 < from_rows(plans["rounding"], SCHEMA) < 0.5
    few = us.Schema(attributes=SCHEMA.attributes[:3])
    assert from_rows(us.plan(few, method="ipf", **told), few) < 0.01
    assert from_rows(us.plan(few, method="histogram", **told), few) == 0


def test_a_look_that_sees_nothing_is_no_help():
    """With a look of hardly any noise the same budget would be expected to find the pairs that are worth it."""
    plan = us.plan(SCHEMA, method="one_look", budget=us.PureDP(epsilon="0.3"), unit="add_remove", rows=5000)
    seeing = replace(plan, steps=tuple(
        replace(step, standard_deviation=1e-3) if step.action == "compare" else step for step in plan.steps
    ))  # fmt: skip
    assert forecast(seeing, SCHEMA) < 0.97 * forecast(plan, SCHEMA)


def test_one_look_takes_the_noise_with_the_smaller_forecast():
    budget = us.ApproxDP(epsilon=1, delta="1e-9")

    def planned(schema, **options):
        return us.plan(schema, method="one_look", budget=budget, unit="add_remove", rows=5000, **options)

    few = us.Schema(attributes=SCHEMA.attributes[:3])
    many = us.Schema(attributes=tuple(us.Attribute(name=f"w{i}", levels=(0, 1, 2)) for i in range(30)))
    assert planned(SCHEMA, strata="v0").method == "one_look"  # its one-way margins have the stratum beside them
    for schema, noise in ((few, "geometric"), (many, "gaussian")):
        chosen = planned(schema)
        assert chosen.options.get("noise", "gaussian") == noise
        errors = {one: forecast(planned(schema, noise=one), schema) for one in ("gaussian", "geometric")}
        assert errors[noise] == min(errors.values()) == forecast(chosen, schema)
