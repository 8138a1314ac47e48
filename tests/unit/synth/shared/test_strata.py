"""Strata: what is charged, what is public, and that each stratum has a model of its own."""

from fractions import Fraction

import numpy as np
import pytest

import understudy as us
from understudy.core.table import CodedSource, CodedTable
from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared import strata as strata_module
from understudy.synth.shared.method import configure
from understudy.synth.shared.strata import read_strata

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="a", levels=(0, 1, 2)),
        us.Attribute(name="area", levels=("north", "south")),
        us.Attribute(name="b", levels=(0, 1, 2)),
    )
)


def opposite(rows=4000, north=1200, seed=0):
    """In the north b repeats a, in the south it turns it round: nothing is left of it when areas are mixed."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, rows)
    area = (np.arange(rows) >= north).astype(np.int64)
    b = np.where(rng.random(rows) < 0.9, np.where(area == 0, a, 2 - a), rng.integers(0, 3, rows))
    return CodedTable(schema=SCHEMA, columns={"a": a, "area": area, "b": b})


def run(table, method="ipf", budget=None, unit="add_remove", seed=1, **options):
    budget = budget or us.PureDP(epsilon=2)
    plan = us.plan(table.schema, method=method, budget=budget, unit=unit, **options)
    stream = SeededStream(seed)
    gate = Gate(source=CodedSource(table), schema=table.schema, plan=plan, stream=stream)
    return plan, gate, configure(plan.method, plan.options).run(plan, table.schema, gate, stream)


METHODS = {
    "ipf": {},
    "ipf published": {"postprocess": "published", "rows": 4000},
    "mst": {"method": "mst"},
    "aim": {"method": "aim"},
    "ipf without a guarantee": {"budget": us.NonPrivate(), "rows": 4000},
}


@pytest.mark.parametrize("settings", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("unit", ["replace", "add_remove"])
def test_each_stratum_keeps_its_own_dependence(settings, unit):
    table = opposite()
    plan, gate, synthesis = run(table, unit=unit, strata="area", **settings)
    budget = settings.get("budget", us.PureDP(epsilon=2))
    assert satisfies(compose(gate.events, gate.unit, by=plan.by), budget)
    assert all("area" in one.margin for one in synthesis.measurements if one.margin)
    made, true = synthesis.tables[0].counts(SCHEMA.names), table.counts(SCHEMA.names)
    assert np.abs(made / made.sum() - true / true.sum()).max() < 0.02
    assert len([note for note in synthesis.notes if "stratum" in note]) == 2


def test_independence_inside_strata_keeps_what_differs_between_them():
    table = opposite()
    shifted = CodedTable(schema=SCHEMA, columns={**table.columns, "a": np.where(table.columns["area"] == 0, 0, 2)})
    made = run(shifted, method="independent", strata="area")[2].tables[0].counts(("a", "area"))
    assert made[0, 0] > 0.9 * made[:, 0].sum()
    assert made[2, 1] > 0.9 * made[:, 1].sum()


@pytest.mark.parametrize("unit", ["replace", "add_remove"])
def test_one_total_for_all_strata(unit):
    """A person is in one stratum, or under replace in two: never more than the same noise costs without strata."""
    plan, _, _ = run(opposite(), unit=unit, strata="area")
    assert compose(plan.events, plan.unit).epsilon <= 2
    whole, _, _ = run(opposite(), unit=unit, margins="a+b+area")
    (one,) = [step for step in plan.steps if step.margin == SCHEMA.names]
    (other,) = [step for step in whole.steps if step.margin == SCHEMA.names]
    assert one.event == other.event
    assert one.event.l1 == (2 if unit == "replace" else 1)


def test_the_charge_is_the_most_that_one_person_can_move_all_strata_together_by_enumeration():
    """Each stratum's own table, all of them added up: one stratum under add_remove, two under replace, one if fixed."""
    person = np.eye(18, dtype=np.int64).reshape(18, 3, 2, 3)
    leave = np.abs(person).sum(axis=(1, 3))
    assert {np.count_nonzero(one) for one in leave} == {1}
    assert leave.sum(axis=1).max() == margin_sensitivity(SCHEMA, SCHEMA.names, us.Unit(kind="add_remove")).l1
    moves = [
        (one, other, np.abs(person[one] - person[other]).sum(axis=(0, 2))) for one in range(18) for other in range(18)
    ]
    assert max(np.count_nonzero(by_stratum) for *_, by_stratum in moves) == 2
    assert max(by_stratum.sum() for *_, by_stratum in moves) == margin_sensitivity(SCHEMA, SCHEMA.names, us.Unit()).l1
    stay = [by_stratum for one, other, by_stratum in moves if (one // 3) % 2 == (other // 3) % 2]
    assert max(np.count_nonzero(by_stratum) for by_stratum in stay) == 1
    fixed = margin_sensitivity(SCHEMA, SCHEMA.names, us.Unit(fixed=("area",)))
    assert max(by_stratum.sum() for by_stratum in stay) == fixed.l1


def test_sizes_of_strata_are_used_only_where_they_are_public():
    table = opposite()
    fixed = us.Unit(kind="replace", fixed=("area",))
    sizes = {
        seed: run(table, unit=fixed, strata="area", seed=seed)[2].tables[0].counts(("area",)).tolist()
        for seed in (1, 2)
    }
    assert sizes == {1: [1200, 2800], 2: [1200, 2800]}
    noisy = {
        tuple(run(table, unit="replace", budget=us.PureDP(epsilon="0.05"), strata="area", seed=seed)[2].tables[0]
              .counts(("area",)).tolist())
        for seed in range(4)
    }  # fmt: skip
    assert len(noisy) == 4
    assert all(sum(one) == 4000 for one in noisy)


def test_structural_zeros_follow_into_the_strata_they_speak_of():
    north = ("area", us.Condition(levels=("north",)))
    schema = us.Schema(
        attributes=SCHEMA.attributes,
        impossible=(
            us.Impossible(conditions=(north, ("a", us.Condition(levels=(2,))))),
            us.Impossible(conditions=(("a", us.Condition(levels=(0,))), ("b", us.Condition(levels=(0,))))),
        ),
    )
    parts = read_strata(schema, "area").parts
    assert [len(part.schema.impossible) for part in parts] == [2, 1]
    rng = np.random.default_rng(0)
    area = rng.integers(0, 2, 900)
    a = np.where(area == 0, rng.integers(0, 2, 900), rng.integers(0, 3, 900))
    b = np.where(a == 0, 1 + rng.integers(0, 2, 900), rng.integers(0, 3, 900))
    table = CodedTable(schema=schema, columns={"a": a, "area": area, "b": b})
    for options in ({}, {"postprocess": "published", "rows": 900}):
        made = run(table, budget=us.PureDP(epsilon="0.2"), strata="area", **options)[2].tables[0].counts(schema.names)
        assert made[~schema.allowed()].sum() == 0
        assert (made[schema.allowed()] > 0).mean() > 0.5


def test_a_stratum_that_cannot_occur_gets_no_rows():
    rule = us.Impossible(conditions=(("area", us.Condition(levels=("north",))),))
    schema = us.Schema(attributes=SCHEMA.attributes, impossible=(rule,))
    table = CodedTable(schema=schema, columns={n: np.ones(50, dtype=np.int64) for n in schema.names})
    made = run(table, strata="area")[2].tables[0]
    assert made.counts(("area",))[0] == 0


def test_more_rows_from_the_measurements_alone(tmp_path):
    release = us.synthesize(
        us.open_source(to_frame(opposite()), SCHEMA), method="ipf", budget=us.PureDP(epsilon=2), strata="area",
        stream=SeededStream(1),
    )  # fmt: skip
    from understudy.release.sampling import sample_again

    more = sample_again(release, rows=9000, copies=1, stream=SeededStream(2))
    assert more.frame().num_rows == 9000


def to_frame(table):
    import pyarrow as pa

    return pa.table({
        name: [table.schema[name].levels[code] for code in table.columns[name]] for name in table.schema.names
    })  # fmt: skip


def test_strata_share_no_randomness():
    stream = SeededStream(3)
    one, other = (strata_module.StratumStream(stream, number) for number in (0, 1))
    assert not np.array_equal(one.words(8, "rows", 1), other.words(8, "rows", 1))


def test_bad_strata_are_refused_with_the_reason(monkeypatch):
    budget = us.PureDP(epsilon=Fraction(1))
    with pytest.raises(UnknownNameError, match="aera"):
        us.plan(SCHEMA, method="ipf", budget=budget, strata="aera")
    with pytest.raises(InputError, match="nothing is left to vary"):
        us.plan(SCHEMA, method="mst", budget=budget, strata="a+b+area")
    monkeypatch.setattr(strata_module, "MAX_STRATA", 2)
    with pytest.raises(UnsupportedError, match="strata by a are 3; at most 2"):
        us.plan(SCHEMA, method="ipf", budget=budget, strata="a")
    with pytest.raises(InputError, match="strata"):
        us.plan(SCHEMA, method="dirichlet", budget=budget, strata="area")


@pytest.mark.parametrize("postprocess", ["joint", "published"])
def test_margins_of_the_strata_alone_are_refused_when_they_are_planned(postprocess):
    """There would be nothing to fit inside a stratum, found out after the charge."""
    with pytest.raises(InputError, match=r"say nothing but how large the strata are.*such as a"):
        us.plan(
            SCHEMA, method="ipf", budget=us.PureDP(epsilon=1), strata="area", margins="area", postprocess=postprocess
        )
    assert us.plan(SCHEMA, method="ipf", budget=us.PureDP(epsilon=1), strata="area", margins="area, b").steps


def test_an_empty_stratum_without_a_guarantee_and_without_a_prior_count():
    """Its tables are empty; it gets no rows, so nothing has to be drawn from them."""
    table = opposite(north=0)
    _, _, synthesis = run(table, budget=us.NonPrivate(), unit="replace", strata="area", prior="0")
    assert synthesis.tables[0].counts(("area",)).tolist() == [0, 4000]
    assert any("every table is empty" in note for note in synthesis.notes)
