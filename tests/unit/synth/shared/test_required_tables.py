"""What must be answerable is measured by every method, priced by the plan, and refused where it cannot be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import understudy as us
from understudy.core.exact_numbers import read_exact
from understudy.demo.people import make_people, small_schema
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.required_tables import LABEL, Musts, is_required

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA = small_schema()
APPROX = us.ApproxDP(epsilon=1, delta="1e-6")
CHOOSING = ("aim", "mst", "one_look")
MEASURING = (*CHOOSING, "ipf", "independent", "auto")


def made(method, must, **options):
    people = us.open_source(make_people(600, seed=4), SCHEMA)
    return us.synthesize(people, method=method, budget=APPROX, must=must, stream=SeededStream(3), **options)


@pytest.mark.parametrize("method", MEASURING)
@pytest.mark.parametrize("budget", [us.PureDP(epsilon=1), APPROX, us.ZCDP(rho="0.05")], ids=lambda one: one.name)
def test_a_required_table_of_three_attributes_is_planned_and_inside_the_budget(method, budget):
    plan = us.plan(SCHEMA, method=method, budget=budget, must=["crosstab(sex, smokes, education)"])
    held = [step for step in plan.steps if {"sex", "education", "smokes"} <= set(step.margin)]
    assert len(held) == 1
    assert held[0].repeats == 1
    assert satisfies(compose(plan.events, plan.unit, by=plan.by), budget)


@pytest.mark.parametrize("method", MEASURING)
def test_what_is_required_is_measured_and_answered(method):
    release = made(method, "crosstab(sex, smokes, education)")
    assert any({"sex", "education", "smokes"} <= set(one.margin) for one in release.measurements)
    if method != "one_look":
        return
    answer = us.infer(release, "proportion(smokes == 'yes', where=sex == 'F' and education == 'secondary')", draws=200)
    assert answer.low < answer.high


@pytest.mark.parametrize("method", CHOOSING)
def test_a_larger_share_buys_less_noise_and_leaves_less(method):
    def noise(share, required):
        plan = us.plan(SCHEMA, method=method, budget=APPROX, must="crosstab(sex, age)", must_share=share)
        return [
            step.standard_deviation
            for step in plan.steps
            if step.action == "measure" and step.label.startswith(LABEL) == required
        ]

    assert noise("0.8", True)[0] < noise("0.2", True)[0]
    assert noise("0.8", False)[0] > noise("0.2", False)[0]


def test_without_a_workload_plans_are_what_they_were():
    for method in MEASURING:
        options = us.plan(SCHEMA, method=method, budget=APPROX).options
        assert not any(name.startswith("must") for name in options)


def test_the_schema_asks_as_the_option_does():
    asked = us.Schema(attributes=SCHEMA.attributes, impossible=SCHEMA.impossible, workload=("crosstab(sex, age)",))
    said = us.plan(SCHEMA, method="aim", budget=APPROX, must="crosstab(sex, age)")
    assert us.plan(asked, method="aim", budget=APPROX).steps == said.steps


def test_tables_that_no_model_holds_are_measured_for_infer_and_rows_follow_the_rest():
    release = made("one_look", "crosstab(region, age, education, smokes)", model_cells=1000)
    assert any(is_required(one) for one in release.measurements)
    assert any("infer reads all of them" in note for note in release.provenance.notes)


def test_rows_may_be_left_out_of_it():
    release = made("mst", "predict(smokes)", must_rows=False)
    required = [one for one in release.measurements if is_required(one)]
    assert len(required) == 4
    followed = {one.margin for one in release.measurements if not is_required(one)}
    told = [note for note in release.provenance.notes if "infer reads all of them" in note]
    assert bool(told) == any(one.margin not in followed for one in required)


def test_more_rows_can_be_drawn_from_such_a_release():
    release = made("aim", "crosstab(sex, smokes, education)")
    more = us.sample(release, rows=50)
    assert more.rows == (50,)


def test_the_plan_says_how_wide_answers_will_be():
    plan = us.plan(SCHEMA, method="aim", budget=APPROX, records=2000, must="crosstab(sex, smokes)\npredict(age)")
    told = [note for note in plan.notes if note.startswith(("crosstab", "predict"))]
    assert len(told) == 2
    assert all("95% interval" in note for note in told)
    (price,) = [note for note in plan.notes if "of the budget" in note]
    assert "50%" in price


@pytest.mark.full
def test_the_width_that_is_told_is_the_width_that_is_found():
    """One cell of the required table, over many runs of its noise: the spread that the plan announced."""
    plan = us.plan(SCHEMA, method="ipf", budget=APPROX, records=600, must="crosstab(sex, smokes)", margins="1")
    (step,) = [one for one in plan.steps if one.margin == ("sex", "smokes")]
    (told,) = [note for note in plan.notes if note.startswith("crosstab")]
    assert f"± {1.96 * step.standard_deviation / 600:.2g}." in told
    found = []
    for seed in range(40):
        people = us.open_source(make_people(600, seed=4), SCHEMA)
        release = us.synthesize(people, plan=plan, stream=SeededStream(seed))
        (table,) = [one for one in release.measurements if one.margin == ("sex", "smokes")]
        found.append(table.values[0, 0])
    # The standard deviation of 40 normal numbers is within 45 percent of the true one but for 1 in 10,000 times.
    assert 0.55 * step.standard_deviation < np.std(found) < 1.45 * step.standard_deviation


def test_a_table_that_no_budget_affords_is_refused_with_what_it_would_take():
    with pytest.raises(UnsupportedError, match="times the epsilon"):
        us.plan(SCHEMA, method="ipf", budget=us.PureDP(epsilon="0.01"), records=500, must="crosstab(region, age)")
    wide = us.Schema(attributes=tuple(us.Attribute(name=f"a{n}", levels=tuple(range(200))) for n in range(5)))
    with pytest.raises(UnsupportedError, match="whatever the budget"):
        us.plan(wide, method="aim", budget=APPROX, must="crosstab(a0, a1, a2, a3)")


def test_a_workload_that_eats_everything_is_said():
    everything = [f"predict({name})" for name in SCHEMA.names]
    plan = us.plan(SCHEMA, method="one_look", budget=us.PureDP(epsilon=1), records=1000, must=everything)
    assert any("USES UP THE BUDGET" in note for note in plan.notes)
    few = us.plan(SCHEMA, method="one_look", budget=APPROX, records=100_000, must="crosstab(sex, smokes)")
    assert not any("USES UP THE BUDGET" in note for note in few.notes)


@pytest.mark.parametrize("share", ["0", "1", "-0.5", "2", "half"])
def test_a_share_is_between_nothing_and_everything(share):
    with pytest.raises(InputError, match="must_share"):
        us.plan(SCHEMA, method="aim", budget=APPROX, must="crosstab(sex, age)", must_share=share)


def test_public_tables_need_no_budget():
    unit = us.Unit(kind="replace", fixed=("sex", "region"))
    required = Musts(must="crosstab(sex, region)").read(SCHEMA, unit)
    assert not required
    assert required.share == Fraction(0)
    plan = us.plan(SCHEMA, method="ipf", budget=APPROX, unit=unit, must="crosstab(sex, region)")
    assert any("public under this unit" in note for note in plan.notes)


def test_merged_bins_and_a_required_table_of_them_do_not_go_together():
    schema = us.Schema(attributes=SCHEMA.attributes)
    with pytest.raises(InputError, match="refine merges the bins of 'age'"):
        us.plan(schema, method="aim", budget=APPROX, refine="age:3", must="crosstab(sex, age)")
    plan = us.plan(schema, method="aim", budget=APPROX, refine="age:3", must="crosstab(sex, smokes)")
    again = us.plan(schema, method="aim", budget=APPROX, **plan.options)
    assert again.steps == plan.steps
    assert plan.options["must"] == "crosstab(sex, smokes)"


def test_nothing_asked_for_is_an_error():
    with pytest.raises(InputError, match="names nothing"):
        us.plan(SCHEMA, budget=APPROX, must="# later\n")
    with pytest.raises(InputError, match="list of questions"):
        us.plan(SCHEMA, budget=APPROX, must=3)


def test_what_is_set_aside_and_what_is_left_add_up():
    required = Musts(must="crosstab(sex, age)", must_share="0.3").read(SCHEMA, us.Unit(kind="replace"))
    assert required.share == read_exact("0.3", "share")


WIDE = us.Schema(
    attributes=tuple(
        us.Attribute(name=f"a{number}", levels=tuple(range(2 if number < 3 else 12))) for number in range(13)
    )
)


def test_by_default_a_wide_file_has_tables_for_ordinary_questions():
    plan = us.plan(WIDE, budget=APPROX)
    assert plan.method == "one_look"
    assert plan.options["must"] == "pairs()"
    assert sum(step.label.startswith(LABEL) for step in plan.steps) == 78
    pure = us.plan(WIDE, budget=us.PureDP(epsilon=1))
    assert pure.options["must"] == "predict(a0)"  # noise grows with the number of tables, and not with its root
    told = us.plan(WIDE, budget=us.PureDP(epsilon=1), records=10_000)
    steps = [step for step in told.steps if step.label.startswith(LABEL)]
    assert [step.cells for step in steps[:3]] == [4, 4, 4]  # pairs of few cells first
    assert len(steps) == 18  # as many as leave an interval below a tenth of the people
    assert 0.09 < 1.96 * max(step.standard_deviation for step in steps) / 10_000 < 0.1
    assert len({step.standard_deviation for step in steps}) == 1
    assert us.plan(WIDE, budget=us.PureDP(epsilon=1), records=500).options.get("must") is None
    many = us.Schema(
        attributes=(*WIDE.attributes, *(us.Attribute(name=f"b{n}", levels=tuple("xyz")) for n in range(14)))
    )
    assert us.plan(many, budget=APPROX).options["must"].splitlines()[0] == "predict(a0)"


def test_tables_for_answers_are_as_many_as_noise_does_not_hide():
    """Small tables had three times the noise of large ones, so that one hidden table took all of them away."""

    def steps(schema, records):
        plan = us.plan(schema, budget=us.ApproxDP(epsilon=1, delta="1e-9"), records=records)
        return [step for step in plan.steps if step.label.startswith(LABEL)]

    sizes = (2, 2, 5, 6, 7, 9, 15, 16, 16, 30, 40, 99)
    twelve = us.Schema(
        attributes=tuple(us.Attribute(name=f"a{n}", levels=tuple(range(size))) for n, size in enumerate(sizes))
    )
    found = steps(twelve, 5000)
    assert len(found) == 66
    assert len({step.standard_deviation for step in found}) == 1
    more = us.Schema(
        attributes=(*twelve.attributes, *(us.Attribute(name=f"b{n}", levels=tuple("xyz")) for n in range(12)))
    )
    fewer = steps(more, 5000)
    assert 100 < len(fewer) < 276
    assert 0.08 < 1.96 * fewer[0].standard_deviation / 5000 < 0.1
    assert max(step.cells for step in fewer) < max(step.cells for step in steps(more, 20_000))  # few cells first


def test_what_is_named_goes_before_what_is_ordinary():
    plan = us.plan(WIDE, budget=APPROX, must="crosstab(a0, a5)")
    assert plan.options["must"] == "crosstab(a0, a5)"
    few = us.plan(WIDE, budget=APPROX, records=20)
    assert "must" not in few.options  # noise would drown them
