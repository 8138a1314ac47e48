"""Log-linear models with a random effect: what is measured, what rows follow, what infer may say."""

import numpy as np
import pytest

import understudy as us
from understudy.core.table import CodedSource, CodedTable
from understudy.demo.people import make_people, small_schema
from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.method import configure

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA = us.Schema(attributes=tuple(us.Attribute(name=name, levels=("0", "1")) for name in "abc"))


def three_way(rows=20_000):
    """No two attributes depend on each other, but all three together do: c is a xor b in three rows of four."""
    rng = np.random.default_rng(7)
    a, b = rng.integers(0, 2, (2, rows))
    c = np.where(rng.random(rows) < 0.75, a ^ b, 1 - (a ^ b))
    return CodedTable(schema=SCHEMA, columns={"a": a, "b": b, "c": c})


def run(people, budget, seed=1, copies=1, unit="replace", **options):
    known = {"records": people.rows} if unit == "replace" else {}
    plan = us.plan(SCHEMA, method="loglinear", budget=budget, unit=unit, copies=copies, **known, **options)
    stream = SeededStream(seed)
    gate = Gate(source=CodedSource(people), schema=SCHEMA, plan=plan, stream=stream)
    return plan, configure(plan.method, plan.options).run(plan, SCHEMA, gate, stream)


def test_the_budget_goes_to_the_statistics_of_the_model_and_to_the_cells():
    people = three_way(1_000)
    for effects, ways in (("main", 1), ("pairs", 2)):
        plan, _ = run(people, us.PureDP(epsilon=2), effects=effects, cells_share="0.25")
        scales = {step.margin: step.event.scale for step in plan.steps}
        assert {len(margin) for margin in scales} == {ways, 3}
        assert 2 / scales["a", "b", "c"] == pytest.approx(0.5)  # a quarter of epsilon
        assert sum(2 / scale for scale in scales.values()) == pytest.approx(2)
    plan, made = run(people, us.PureDP(epsilon=2), cells_share="0")
    assert {len(step.margin) for step in plan.steps} == {1}
    assert made.fitted is not None
    # Two attributes and all pairs: the model is the full table, and there is nothing left out.
    two = us.Schema(attributes=SCHEMA.attributes[:2])
    plan = us.plan(two, method="loglinear", budget=us.PureDP(epsilon=1), effects="pairs")
    assert [step.margin for step in plan.steps] == [("a", "b")]


@pytest.mark.parametrize("unit", ["replace", "add_remove"])
@pytest.mark.parametrize("draws", ["fit", "posterior"])
def test_the_random_effect_keeps_what_the_effects_of_the_model_leave_out(draws, unit):
    people = three_way(5_000)
    cells = people.counts(("a", "b", "c")) / people.rows
    options = {"draws": draws, "copies": 2, "unit": unit}
    _, with_effect = run(people, us.PureDP(epsilon=4), effects="pairs", **options)
    _, without = run(people, us.PureDP(epsilon=4), effects="pairs", cells_share="0", **options)
    for table in with_effect.tables:
        assert np.abs(table.counts(("a", "b", "c")) / table.rows - cells).max() < 0.03
    for table in without.tables:
        assert np.abs(table.counts(("a", "b", "c")) / table.rows - 1 / 8).max() < 0.03


def test_noise_that_hides_the_cells_leaves_the_model():
    people = three_way(500)
    _, made = run(people, us.PureDP(epsilon=100), effects="main", cells_share="5e-5")
    cells = made.tables[0].counts(("a", "b", "c")) / people.rows
    assert np.abs(cells - 1 / 8).max() < 0.05  # in the data they are 3/16 and 1/16
    assert "effects of cells" in made.notes[0]


def test_infer_answers_from_the_measurements_and_copies_may_be_combined():
    source = us.open_source(make_people(3_000), small_schema())
    release = us.synthesize(
        source, method="loglinear", budget=us.PureDP(epsilon=8), copies=3, draws="posterior", stream=SeededStream(2)
    )
    answer = us.infer(release, "proportion(smokes == 'no')")
    (true,) = source.count([("smokes",)])
    assert answer.labels == ("valid",)
    assert abs(answer.estimates[0].value - true.values[0] / true.values[:2].sum()) < 0.05
    with pytest.raises(UnsupportedError, match="Leave rule"):  # copies with a random effect covered too rarely
        us.infer(release, "proportion(smokes == 'no')", rule="T_f*")
    release = us.synthesize(
        source, method="loglinear", budget=us.PureDP(epsilon=8), copies=3, draws="posterior", cells_share="0",
        stream=SeededStream(2),
    )  # fmt: skip
    combined = us.infer(release, "proportion(smokes == 'no')", rule="T_f*")
    assert abs(combined.estimates[0].value - answer.estimates[0].value) < 0.05


def test_options_that_mean_nothing_are_refused():
    for options, error in (
        ({"effects": "triples"}, UnknownNameError),
        ({"cells_share": "1"}, InputError),
        ({"cells_share": "-0.1"}, InputError),
        ({"draws": "often"}, UnknownNameError),
    ):
        with pytest.raises(error):
            us.plan(SCHEMA, method="loglinear", budget=us.PureDP(epsilon=1), **options)
    with pytest.raises(InputError, match="two copies"):
        us.plan(SCHEMA, method="loglinear", budget=us.PureDP(epsilon=1), draws="posterior")
    wide = us.Schema(attributes=tuple(us.Attribute(name=f"x{n}", levels=tuple("0123456789")) for n in range(6)))
    with pytest.raises(UnsupportedError, match="cells_share"):
        us.plan(wide, method="loglinear", budget=us.PureDP(epsilon=1))
    us.plan(wide, method="loglinear", budget=us.PureDP(epsilon=1), cells_share="0")
