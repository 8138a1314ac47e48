"""Margin-based methods on input that is wrong, extreme or degenerate: refused with what to do, or done properly."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.table import CodedSource, CodedTable
from understudy.errors import InputError, UnknownNameError, UnsupportedError, UntrackedWarning
from understudy.models import model as models
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.accountant import compose
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.method import configure

EPSILON = us.PureDP(epsilon=1)
MARGIN_METHODS = ("ipf", "mst", "aim", "one_look", "independent")


def schema_of(sizes, **rules):
    return us.Schema(
        attributes=tuple(us.Attribute(name=f"x{i}", levels=tuple(range(size))) for i, size in enumerate(sizes)), **rules
    )


def rows_of(schema, count, seed=0):
    rng = np.random.default_rng(seed)
    return {one.name: rng.integers(0, one.size, count) for one in schema.attributes}


def run(table, method, budget=EPSILON, unit="add_remove", seed=1, **options):
    plan = us.plan(table.schema, method=method, budget=budget, unit=unit, **options)
    stream = SeededStream(seed)
    gate = Gate(source=CodedSource(table), schema=table.schema, plan=plan, stream=stream)
    return configure(plan.method, plan.options).run(plan, table.schema, gate, stream)


SMALL = schema_of([2, 3, 4])


@pytest.mark.parametrize(
    ("margins", "error", "message"),
    [
        ("x0+x9", UnknownNameError, "x9"),
        ("x0+x0", InputError, "twice"),
        ("x0+x1, x1+x0", InputError, "listed twice"),
        (" , ", InputError, "number of ways"),
        ("0", InputError, "at least 1"),
    ],
)
def test_margins_that_make_no_sense(margins, error, message):
    with pytest.raises(error, match=message):
        us.plan(SMALL, method="ipf", budget=EPSILON, margins=margins)


@pytest.mark.parametrize("method", [*MARGIN_METHODS, "histogram"])
@pytest.mark.parametrize(
    ("budget", "name"),
    [
        (us.PureDP(epsilon="1e-14"), "epsilon"),
        (us.ZCDP(rho="1e-28"), "rho"),
        (us.ApproxDP(epsilon="1e-14", delta="1e-30"), "epsilon"),
        pytest.param(us.ApproxDP(epsilon="1e-390", delta="1e-6"), "epsilon", marks=pytest.mark.full),
    ],
)
def test_a_budget_too_small_for_the_plan_says_what_is_needed_and_that_is_enough(method, budget, name):
    with pytest.raises(InputError, match="This plan needs about") as refusal:
        us.plan(SMALL, method=method, budget=budget)
    said = float(str(refusal.value).rpartition(f"{name} = ")[2].split(",")[0].rstrip(")"))
    kept = {"delta": budget.delta} if "delta" in budget.parameters else {}
    assert us.plan(SMALL, method=method, budget=type(budget)(**{name: str(said)}, **kept)).steps
    with pytest.raises(InputError):
        us.plan(SMALL, method=method, budget=type(budget)(**{name: str(0.8 * said)}, **kept))


def test_a_margin_beyond_the_size_limit_is_named():
    with pytest.raises(UnsupportedError, match="the margin x0 x x1 has 25,000,000 cells; at most 10,000,000"):
        us.plan(schema_of([5000, 5000, 3]), method="ipf", budget=EPSILON)


def test_a_workload_beyond_the_size_limit_names_the_first_margin_that_is_too_much():
    schema = schema_of([40] * 6)
    with pytest.raises(UnsupportedError, match="the first 12 fit, and x3 x x4 is the first that does not") as refusal:
        us.plan(schema, method="ipf", budget=EPSILON)
    assert "4,096,000,000 cells" in str(refusal.value)
    assert us.plan(schema, method="ipf", budget=EPSILON, margins="x0+x1, x1+x2, x2+x3, x3+x4, x4+x5").steps


@pytest.mark.parametrize("method", [*MARGIN_METHODS, "histogram", "auto"])
@pytest.mark.parametrize("unit", ["replace", "add_remove"])
def test_all_rows_identical(method, unit):
    table = CodedTable(schema=SMALL, columns={name: np.ones(2000, dtype=np.int64) for name in SMALL.names})
    made = run(table, method, unit=unit).tables[0]
    assert made.counts(SMALL.names)[1, 1, 1] > 0.8 * made.rows


@pytest.mark.parametrize("method", [*MARGIN_METHODS, "histogram", "auto"])
@pytest.mark.parametrize("unit", ["replace", "add_remove"])
def test_a_budget_so_large_that_there_is_no_noise(method, unit):
    table = CodedTable(schema=SMALL, columns=rows_of(SMALL, 500))
    made = run(table, method, budget=us.PureDP(epsilon=10**6), unit=unit).tables[0]
    assert made.rows == 500
    assert np.abs(made.counts(("x1",)) - table.counts(("x1",))).max() <= 25


@pytest.mark.parametrize("method", ["aim", "mst"])
@pytest.mark.parametrize(
    "budget", [us.PureDP(epsilon="1e16"), us.ZCDP(rho="1e30"), us.ApproxDP(epsilon="1e40", delta="1e-6")]
)
def test_choices_with_less_noise_than_is_sampled(method, budget):
    table = CodedTable(schema=SMALL, columns=rows_of(SMALL, 100))
    assert run(table, method, budget=budget, unit="replace").tables[0].rows == 100


@pytest.mark.parametrize("budget", [us.PureDP(epsilon="1e-9"), us.ZCDP(rho="1e-22")])
def test_a_choice_with_more_noise_than_is_sampled_is_refused_when_it_is_planned(budget):
    """Where the tables alone could still be measured: a run would be charged and then fail."""
    assert us.plan(SMALL, method="ipf", budget=budget).steps
    with pytest.raises(InputError, match="a choice would need noise"):
        us.plan(SMALL, method="aim", budget=budget)


@pytest.mark.parametrize("sizes", [[8, 10, 2, 4, 3, 7, 6, 8], [100, 100, 100], [2] * 20, [1000, 1000]])
def test_too_many_cells_for_one_model_are_no_reason_to_measure_them_all(sizes):
    assert us.plan(schema_of(sizes), method="auto", budget=EPSILON).method == "one_look"


def test_two_hundred_attributes():
    schema = schema_of([2] * 200)
    assert us.plan(schema, method="auto", budget=EPSILON).method == "mst"
    assert us.plan(schema, method="independent", budget=EPSILON).steps
    with pytest.raises(UnsupportedError, match="200 attributes are more than the 100"):
        us.plan(schema, method="aim", budget=EPSILON)
    with pytest.raises(UnsupportedError, match=r"about 10\^60 cells, above the limit") as refusal:
        us.plan(schema, method="ipf", budget=EPSILON)
    assert "is the first that does not" in str(refusal.value)
    with pytest.raises(UnsupportedError, match=r"about 10\^60 cells"):
        us.plan(schema, method="histogram", budget=EPSILON)


@pytest.mark.full
def test_a_tree_over_two_hundred_attributes():
    schema = schema_of([3] * 200)
    columns = rows_of(schema, 1500)
    columns["x199"] = columns["x0"].copy()
    synthesis = run(CodedTable(schema=schema, columns=columns), "mst", us.PureDP(epsilon=200))
    pairs = [one.margin for one in synthesis.measurements if len(one.margin) == 2]
    assert len(pairs) == 199
    assert ("x0", "x199") in pairs
    made = synthesis.tables[0]
    assert np.trace(made.counts(("x0", "x199"))) > 0.7 * made.rows


@pytest.mark.parametrize(
    "method", ["mst", *(pytest.param(name, marks=pytest.mark.full) for name in ("ipf", "aim", "auto"))]
)
def test_an_attribute_of_five_thousand_levels(method):
    schema = schema_of([5000, 3, 2])
    columns = rows_of(schema, 20_000)
    columns["x0"] = np.minimum(columns["x0"] ** 2 // 4000, 4999)  # a few levels have most people
    columns["x1"] = np.where(columns["x0"] < 50, 2, columns["x1"])
    table = CodedTable(schema=schema, columns=columns)
    made = run(table, method, budget=us.PureDP(epsilon=4)).tables[0]
    shares = [one.counts(("x0",))[:50].sum() / one.rows for one in (table, made)]
    assert shares[1] == pytest.approx(shares[0], abs=0.1)


@pytest.mark.parametrize("method", MARGIN_METHODS)
@pytest.mark.parametrize("unit", ["replace", "add_remove"])
def test_a_structural_zero_across_attributes_that_share_no_measured_margin(method, unit):
    rule = us.Impossible(conditions=(("x0", us.Condition(levels=(0,))), ("x3", us.Condition(levels=(1,)))))
    schema = schema_of([3, 3, 3, 3], impossible=(rule,))
    columns = rows_of(schema, 900)
    columns["x3"] = np.where(columns["x0"] == 0, 2, columns["x3"])
    options = {"margins": "x0+x1, x2+x3"} if method == "ipf" else {}
    made = run(CodedTable(schema=schema, columns=columns), method, unit=unit, **options).tables[0]
    assert made.counts(("x0", "x3"))[0, 1] == 0
    assert made.counts(("x0", "x3"))[1, 1] > 0


@pytest.mark.parametrize("method", [*MARGIN_METHODS, "auto"])
def test_a_structural_zero_too_large_for_any_model_is_refused_naming_the_rule_before_anything_is_charged(method):
    rule = us.Impossible(conditions=tuple((f"x{i}", us.Condition(levels=(0,))) for i in range(3)))
    options = {"margins": "1"} if method == "ipf" else {}
    with pytest.raises(UnsupportedError, match="the structural zero over x0 x x1 x x2"):
        us.plan(schema_of([300] * 3, impossible=(rule,)), method=method, budget=EPSILON, **options)


def test_published_options_that_contradict_one_another():
    for wrong in ({"split": "optimal"}, {"rows_by": "rounding"}, {"prior": "-1"}):
        with pytest.raises(InputError):
            us.plan(SMALL, method="ipf", budget=EPSILON, rows=10, postprocess="published", **wrong)
    with pytest.raises(InputError, match="postprocess = published"):
        us.plan(SMALL, method="ipf", budget=EPSILON, prior="5")
    with pytest.raises(InputError, match="constant number of rows"):
        us.plan(SMALL, method="ipf", budget=EPSILON, unit="add_remove", postprocess="published")
    with pytest.raises(InputError, match="constant number of rows"):
        us.plan(SMALL, method="histogram", budget=EPSILON, unit="add_remove", postprocess="published")
    with pytest.raises(InputError, match="multinomial"):
        us.plan(SMALL, method="histogram", budget=EPSILON, rows=10, postprocess="published", rows_by="rounding")


@pytest.mark.parametrize("unit", ["replace", "add_remove"])
@pytest.mark.parametrize("attributes", [1, 2])
def test_aim_with_hardly_anything_to_choose(unit, attributes):
    """As few rounds as are allowed: the announced round of choosing is not mistaken for a margin to measure."""
    schema = us.Schema(attributes=tuple(us.Attribute(name=f"a{k}", levels=("x", "y")) for k in range(attributes)))
    source = us.open_source(pa.table({f"a{k}": ["x", "y"] * 20 for k in range(attributes)}), schema)
    with pytest.warns(UntrackedWarning):
        release = us.synthesize(source, method="aim", rounds=2, budget=us.PureDP(epsilon=1), unit=unit)
    labels = [one.label for one in release.measurements]
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("method", ["mst", "aim"])
@pytest.mark.parametrize("strata", ["", "x4"])
def test_an_attribute_of_one_level_is_no_link_between_others(method, strata):
    """A tree that joins attributes by way of a constant has used up its pairs and says nothing about any of them."""
    schema = schema_of([3, 1, 3, 1, 2, 3])
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 3000)
    columns = {**rows_of(schema, 3000), "x0": first, "x2": first, "x5": (first + (rng.random(3000) < 0.1)) % 3}
    table = CodedTable(schema=schema, columns=columns)
    synthesis = run(table, method, us.PureDP(epsilon="0.3"), strata=strata, rows=3000)
    inside = [set(one.margin) - {strata} for one in synthesis.measurements]
    pairs = [margin for margin in inside if len(margin) > 1]
    assert pairs
    assert all(not margin & {"x1", "x3"} for margin in pairs)


def test_a_schema_with_one_attribute_that_varies_has_no_pairs_to_choose():
    schema = schema_of([3, 1, 1])
    table = CodedTable(schema=schema, columns=rows_of(schema, 500))
    for method in ("mst", "aim"):
        synthesis = run(table, method, rows=500)
        assert [one.margin for one in synthesis.measurements if one.margin] == [("x0",), ("x1",), ("x2",)]


def spent(table, method, **options):
    plan = us.plan(table.schema, method=method, budget=EPSILON, unit="replace", **options)
    stream = SeededStream(1)
    gate = Gate(source=CodedSource(table), schema=table.schema, plan=plan, stream=stream)
    synthesis = configure(plan.method, plan.options).run(plan, table.schema, gate, stream)
    return compose(gate.events, plan.unit).epsilon, [one.margin for one in synthesis.measurements]


def dependent(sizes, rows=2000):
    schema = schema_of(sizes)
    first = np.random.default_rng(0).integers(0, max(sizes), rows)
    return CodedTable(schema=schema, columns={one.name: first % one.size for one in schema.attributes})


def test_aim_spends_its_budget_where_every_pair_is_large():
    """No pair fits into the room of the first round, which is a twelfth of the whole; the whole holds one or two."""
    amount, margins = spent(dependent([20, 20, 20]), "aim", model_cells=1000)
    assert Fraction(99, 100) < amount <= 1
    assert any(len(margin) == 2 for margin in margins)


def test_aim_spends_its_budget_on_one_way_margins_where_no_pair_can_be_held():
    for sizes in ([40, 40], [40]):
        table = dependent(sizes)
        amount, margins = spent(table, "aim", model_cells=1000)
        assert Fraction(99, 100) < amount <= 1
        assert margins == [(name,) for name in table.schema.names]
        plan = us.plan(table.schema, method="aim", budget=EPSILON, model_cells=1000)
        assert [step.action for step in plan.steps] == ["measure"] * len(sizes)


@pytest.mark.parametrize("ways", [2, 3])
def test_aim_passes_over_margins_whose_expected_counts_are_too_large_to_compute(monkeypatch, ways):
    """A refusal amid the rounds would be a run that nothing can finish."""
    monkeypatch.setattr(models, "LARGEST_PRODUCT", 100)
    amount, margins = spent(dependent([8, 8, 8, 8]), "aim", ways=ways)
    assert Fraction(99, 100) < amount <= 1
    assert any(len(margin) == 2 for margin in margins)
