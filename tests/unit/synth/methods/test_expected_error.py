"""The forecast of a plan, and the choice that follows from it: public facts only."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import UnsupportedError
from understudy.evaluation.shared.table_measures import s_pmse
from understudy.models.nearest_table import nearest_table
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.methods.auto import Auto
from understudy.synth.shared import expected_error
from understudy.synth.shared.expected_error import (
    STRENGTHS,
    USUAL_RECORDS,
    PairChoice,
    assumed_choice,
    forecast,
    from_rows,
    least_regret,
)
from understudy.synth.shared.method import Request

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


@pytest.mark.parametrize(
    ("attributes", "epsilon", "rows", "takes_the_full_table"),
    [(10, 1, 20_000, False), (10, 1, 1_000_000, True), (5, "0.3", 1000, True)],
)
def test_auto_takes_a_full_table_where_its_cells_are_filled(attributes, epsilon, rows, takes_the_full_table):
    """Ten attributes of NLTCS, 20,000 people, epsilon 1: the full table has 3.5, all pairs have 0.5. Five attributes,

    1,000 people, epsilon 0.3: 3.8 and 18.
    """
    schema = us.Schema(attributes=tuple(us.Attribute(name=f"v{i}", levels=(0, 1)) for i in range(attributes)))
    plan = us.plan(schema, budget=us.ApproxDP(epsilon=epsilon, delta="1e-9"), unit="add_remove", rows=rows)
    assert (plan.method == "histogram") == takes_the_full_table


@pytest.mark.parametrize("rows", [2_000, 5_000])
def test_the_forecast_of_a_full_table_counts_people_in_empty_cells(rows):
    """Of 1,024 cells many are empty, and noise puts people there. Simulated with the levels that are assumed."""
    names = [f"v{i}" for i in range(10)]
    schema = us.Schema(attributes=tuple(us.Attribute(name=name, levels=(0, 1)) for name in names))
    plan = us.plan(schema, method="histogram", budget=us.PureDP(epsilon=1), unit="add_remove", rows=rows)
    rng, found = np.random.default_rng(8), []
    shape, noise = (2,) * 10, 1 - np.exp(-1.0)
    people = (rng.random((rows, 10)) < 1 / 3).astype(np.int64)
    counts = np.bincount(np.ravel_multi_index(people.T, shape), minlength=1024).reshape(shape)
    for _ in range(5):
        drawn = counts + rng.geometric(noise, shape) - rng.geometric(noise, shape)
        table = nearest_table(drawn.astype(float), float(rows), np.ones(shape, dtype=bool))
        for pair in combinations(range(10), 2):
            outside = tuple(place for place in range(10) if place not in pair)
            found.append(s_pmse(counts.sum(axis=outside), table.sum(axis=outside)))
    measured = float(np.mean(found))
    assert 0.5 < forecast(plan, schema) / measured < 4  # independent columns fill more cells than are assumed
    noise_alone = assumed_choice(plan, schema, 0.2).error(list(range(45)))
    assert forecast(plan, schema) > 1.2 * noise_alone  # people in empty cells are counted


def test_auto_uses_public_records_too():
    plan = us.plan(SCHEMA, budget=us.PureDP(epsilon="0.05"), unit="replace", records=1000)
    assert plan.method == "independent"


def test_a_plan_says_how_good_it_will_be_and_what_that_assumes():
    plan = us.plan(SCHEMA, method="ipf", budget=us.PureDP(epsilon=1), unit="add_remove", rows=5000)
    (said,) = [note for note in plan.notes if note.startswith("Expected error of two-way tables")]
    assert f"about {forecast(plan, SCHEMA) + from_rows(plan, SCHEMA):.2g}" in said
    assert "5,000 records" in said
    for strength, word in ((STRENGTHS[0], "weak"), (STRENGTHS[-1], "strong")):
        assert f"{forecast(plan, SCHEMA, strength) + from_rows(plan, SCHEMA):.2g} where they are {word}" in said
    assert "may then take another method" not in said


def test_a_plan_without_records_says_that_a_run_may_choose_otherwise():
    plans = [us.plan(SCHEMA, budget=us.PureDP(epsilon=1), unit=unit) for unit in ("replace", "add_remove")]
    said = ["may then take another method" in " ".join(plan.notes) for plan in plans]
    assert said == [True, False]  # under add_remove no run ever knows the number
    named = us.plan(SCHEMA, method="mst", budget=us.PureDP(epsilon=1), unit="replace")
    assert "may then take another method" not in " ".join(named.notes)  # a method that was named stays


@pytest.mark.parametrize(("epsilon", "delta", "alone"), [("0.1", "1e-9", True), ("3", "1e-9", False)])
def test_one_way_margins_alone_are_offered_where_geometric_noise_is_smaller(epsilon, delta, alone):
    """Five attributes, 500 people: a look and Gaussian noise had twice the error (30 instead of 14 in two runs)."""
    schema = us.Schema(attributes=SCHEMA.attributes[:5])
    plan = us.plan(schema, budget=us.ApproxDP(epsilon=epsilon, delta=delta), unit="add_remove", rows=500)
    assert (plan.method == "independent") == alone
    if alone:
        assert expected_error.divides_epsilon(plan)


TERNARY = us.Schema(attributes=tuple(us.Attribute(name=f"v{i}", levels=(0, 1, 2)) for i in range(9)))


@pytest.mark.parametrize(
    ("epsilon", "options", "ways"),
    [
        ("4", {}, 3),
        ("0.5", {}, 2),
        ("4", {"must": "crosstab(v0, v1)"}, 2),
        ("4", {"draws": "posterior", "copies": 2}, 2),
    ],
)
def test_three_way_tables_are_measured_where_their_noise_is_below_that_of_a_sample(epsilon, options, ways):
    budget = us.ApproxDP(epsilon=epsilon, delta="1e-9")
    plan = us.plan(TERNARY, budget=budget, unit="add_remove", rows=10_000, **options)
    assert plan.method == "ipf"
    assert {len(step.margin) for step in plan.steps if step.margin} == {ways}


def test_the_noise_of_three_way_tables_is_that_of_the_draw():
    plan = us.plan(TERNARY, method="ipf", margins="3", budget=us.ZCDP(rho=1), unit="replace", records=100_000)
    shares = 1 / np.arange(1, 4)
    people = 100_000 * np.multiply.outer(np.outer(shares, shares), shares) / shares.sum() ** 3
    noise = np.random.default_rng(5).normal(0, plan.steps[0].standard_deviation, (2000, 3, 3, 3))
    found = float((noise**2 / people).sum(axis=(1, 2, 3)).mean()) / 26
    said = expected_error.three_way_noise(plan, TERNARY)
    assert said == pytest.approx(found, rel=0.1)
    assert expected_error.three_way_noise(us.plan(TERNARY, method="ipf", budget=us.ZCDP(rho=1), unit="replace",
                                                  records=100_000), TERNARY) is None  # fmt: skip


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


@pytest.mark.parametrize("budget", [us.PureDP(epsilon=3), us.ApproxDP(epsilon=1, delta="1e-9")])
def test_the_forecast_of_mst_is_that_of_a_tree(budget):
    plan = us.plan(SCHEMA, method="mst", budget=budget, unit="add_remove", rows=5000)
    choice = assumed_choice(plan, SCHEMA, 0.3)
    tree, shares = expected_error._tree(plan, choice)
    reached = {int(choice.ends[tree[0]][0])}
    for _ in tree:
        reached |= {int(end) for number in tree for end in choice.ends[number] if reached & set(choice.ends[number])}
    assert len(tree) == len(SCHEMA.names) - 1
    assert reached == set(range(len(SCHEMA.names)))
    assert shares[: len(SCHEMA.names)].sum() == 0
    assert shares.sum() == pytest.approx(1)
    every = us.plan(SCHEMA, method="ipf", budget=us.PureDP(epsilon=100), unit="add_remove", rows=5000)
    assert forecast(plan, SCHEMA, 0.5) > 10 * forecast(every, SCHEMA, 0.5)  # most pairs of a strong table are not in it


def test_the_least_regret_is_the_smallest_of_the_worst_ratios():
    told = {"budget": us.PureDP(epsilon="0.3"), "unit": "add_remove", "rows": 5000}
    plans = {name: us.plan(SCHEMA, method=name, **told) for name in ("ipf", "histogram", "mst")}
    errors = {
        name: np.array([forecast(plan, SCHEMA, one) + from_rows(plan, SCHEMA) for one in STRENGTHS])
        for name, plan in plans.items()
    }
    least = np.min(list(errors.values()), axis=0)
    worst = {
        name: max(found / least) * (expected_error.DIVIDED if name == "mst" else 1) for name, found in errors.items()
    }
    assert least_regret(plans, SCHEMA) == min(worst, key=worst.__getitem__)
    assert least_regret(plans, SCHEMA, prefer={"histogram": 1e-6}) == "histogram"
    wide = us.Schema(attributes=tuple(us.Attribute(name=f"w{i}", levels=(0, 1)) for i in range(61)))
    assert least_regret({"mst": us.plan(wide, method="mst", **told)}, wide) is None


@pytest.mark.parametrize(
    ("attributes", "budget", "method"),
    [
        (61, us.ApproxDP(epsilon=1, delta="1e-9"), "one_look"),
        (61, us.PureDP(epsilon=1), "mst"),
    ],
)
def test_auto_offers_a_tree_and_looks_at_many_pairs_where_noise_is_gaussian(attributes, budget, method):
    wide = us.Schema(attributes=tuple(us.Attribute(name=f"w{i}", levels=tuple(range(8))) for i in range(attributes)))
    assert us.plan(wide, budget=budget, unit="add_remove", rows=1500).method == method
    few = us.Schema(attributes=tuple(us.Attribute(name=f"w{i}", levels=tuple(range(9))) for i in range(6)))
    request = Request(budget=budget, unit=us.Unit(kind="add_remove"), rows=500)
    assert Auto()._offered(few, request, None, None)["mst"].method == "mst"


def test_thousands_of_attributes_are_measured_one_by_one_and_pairs_of_them_refused():
    """The plan of 10,000 columns ended in an internal error once, and later in no time that anybody waits."""
    wide = us.Schema(attributes=tuple(us.Attribute(name=f"w{i}", levels=(0, 1)) for i in range(3300)))
    budget = us.ApproxDP(epsilon=1, delta="1e-9")
    plan = us.plan(wide, budget=budget)
    assert plan.method == "independent"
    assert any("too many pairs" in note for note in plan.notes)
    with pytest.raises(UnsupportedError, match=r"3,300 attributes have 5,443,350 pairs"):
        us.plan(wide, budget=budget, method="mst")


@pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
def test_a_table_measured_for_answers_is_known_when_its_pair_is_chosen(monkeypatch):
    seen = []
    choose = PairChoice.choose
    monkeypatch.setattr(PairChoice, "choose", lambda self, fits: seen.append(self.known) or choose(self, fits))
    schema = us.Schema(attributes=SCHEMA.attributes[:3])
    rng = np.random.default_rng(0)
    rows = pa.table({one.name: rng.integers(0, one.size, 2000) for one in schema.attributes})
    release = us.synthesize(us.open_source(rows, schema), method="one_look", budget=us.ZCDP(rho=1), unit="add_remove",
                            rows=2000, must="crosstab(v0, v2)", must_rows=False, look_again="never",
                            stream=SeededStream(0))  # fmt: skip
    (table,) = [one for one in release.measurements if one.label.startswith("required")]
    assert list(np.flatnonzero(seen[-1])) == [1]  # of the pairs (0, 1), (0, 2) and (1, 2)
    assert seen[-1][1] == pytest.approx(1 / table.mechanism.variance)
