"""Noise on Fourier coefficients: the transform and its inverse, the sensitivity by brute force, the release."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import understudy as us
from understudy.core.table import CodedSource, CodedTable
from understudy.core.walsh import CONTRASTS, contrasts, masks_of, parts_of, table_of
from understudy.demo.people import make_people, small_schema
from understudy.errors import UnsupportedError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.method import configure

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")


def schema_of(sizes):
    return us.Schema(
        attributes=tuple(us.Attribute(name=name, levels=tuple(range(size))) for name, size in sizes.items())
    )


def coefficients_of(table, names):
    found = {}
    for part in parts_of(names):
        margin = table.sum(axis=tuple(place for place, name in enumerate(names) if name not in part))
        found[part] = contrasts(margin) if part else np.asarray(margin)
    return found


def test_coefficients_give_every_table_back_and_tables_share_them():
    sizes = {"a": 3, "b": 5, "c": 2, "d": 1}
    names = tuple(sizes)
    table = np.random.default_rng(0).integers(0, 50, tuple(sizes.values()))
    found = coefficients_of(table, names)
    for margin in parts_of(names):
        axes = tuple(place for place, name in enumerate(names) if name not in margin)
        assert table_of(margin, sizes, found) == pytest.approx(table.sum(axis=axes))


@pytest.mark.parametrize("sizes", [{"a": 2}, {"a": 3}, {"a": 5}, {"a": 2, "b": 3}, {"a": 4, "b": 2, "c": 3}])
@pytest.mark.parametrize("fixed", [(), ("a",)])
def test_the_sensitivity_is_that_of_all_neighbours(sizes, fixed):
    schema, names = schema_of(sizes), tuple(sizes)
    cells = list(product(*map(range, sizes.values())))

    def of_one(cell):
        table = np.zeros(tuple(sizes.values()), dtype=np.int64)
        table[cell] = 1
        return contrasts(table).ravel()

    free = [place for place, name in enumerate(names) if name not in fixed]
    steps = [
        of_one(x) - of_one(y)
        for x in cells
        for y in cells
        if all(x[place] == y[place] for place in range(len(names)) if place not in free)
    ]
    for rows in (1, 3):
        replaced = margin_sensitivity(schema, names, us.Unit(rows_per_unit=rows, fixed=fixed), CONTRASTS)
        assert replaced.l1 == rows * max(int(np.abs(step).sum()) for step in steps)
        assert replaced.l2_squared == rows**2 * max(int((step**2).sum()) for step in steps)
        assert replaced.linf == rows * max(int(np.abs(step).max()) for step in steps)
        added = margin_sensitivity(schema, names, us.Unit(kind="add_remove", rows_per_unit=rows), CONTRASTS)
        assert added.l1 == rows * max(int(np.abs(of_one(cell)).sum()) for cell in cells)
        assert added.l2_squared == rows**2 * max(int((of_one(cell) ** 2).sum()) for cell in cells)
        assert added.linf == rows


def test_noise_is_of_one_size_and_the_budget_is_used_up():
    schema = schema_of({"a": 2, "b": 2, "c": 2})
    plan = us.plan(schema, method="fourier", budget=us.PureDP(epsilon=1))
    assert {step.standard_deviation for step in plan.steps} == {plan.steps[0].standard_deviation}
    # Six coefficients: the three of one attribute move by 2; of a pair at most one sign differs, so they move by 2 too.
    assert plan.steps[0].event.scale == 12
    assert sum(step.cells for step in plan.steps) == 6


def test_the_noise_of_a_release_is_as_large_as_one_unit_moves_all_coefficients():
    """Halved noise would not pass. 720 geometric noises: their mean size has a standard error of 1/27 of the scale."""
    schema = schema_of({"a": 16, "b": 16, "c": 16})
    codes = np.random.default_rng(3).integers(0, 16, (1_000, 3))
    people = CodedTable(schema=schema, columns={name: codes[:, place] for place, name in enumerate("abc")})
    plan = us.plan(schema, method="fourier", budget=us.PureDP(epsilon=1), records=1_000)
    stream = SeededStream(11)
    gate = Gate(source=CodedSource(people), schema=schema, plan=plan, stream=stream)
    made = configure(plan.method, plan.options).run(plan, schema, gate, stream)
    noise = np.concatenate([
        (one.values - contrasts(people.counts(one.margin))).ravel() for one in made.measurements
    ])  # fmt: skip
    # By hand: of 15 masks of an attribute 8 change their sign, of 225 masks of a pair 120, each by 2.
    scale = 3 * 2 * 8 + 3 * 2 * 120
    assert len(noise) == 3 * 15 + 3 * 225

    def fits(found):
        return abs(np.abs(found).mean() / scale - 1) < 4 / np.sqrt(len(noise))  # 1e-4

    assert fits(noise)
    assert not fits(0.7 * noise)
    assert not fits(1.4 * noise)


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param("replace", marks=pytest.mark.full),
        pytest.param("add_remove", marks=pytest.mark.full),
        us.Unit(fixed=("region", "sex")),
    ],
)
def test_a_release_is_near_the_data_with_hardly_any_noise_and_is_verified(unit, tmp_path):
    schema = small_schema()
    source = us.open_source(make_people(3_000), schema)
    release = us.synthesize(
        source, method="fourier", budget=us.PureDP(epsilon=5_000), unit=unit, stream=SeededStream(1)
    )
    margins = [("region", "sex"), ("age", "smokes")]
    for true in source.count(margins):
        assert np.abs(release.coded(1).counts(true.margin) - true.values).sum() < 0.03 * 3_000
    for one in release.measurements:
        shape = tuple(masks_of(schema[name].size) for name in one.margin)
        assert one.values.shape == shape
    made = us.synthesize(source, method="fourier", budget=us.PureDP(epsilon=1), unit=unit, out=tmp_path / "release")
    us.verify(tmp_path / "release")
    with pytest.raises(UnsupportedError, match="Fourier coefficients"):
        us.infer(made, "proportion(smokes == 'no')")


def test_what_must_be_answerable_is_measured_as_a_table_and_answered():
    schema = small_schema()
    source = us.open_source(make_people(3_000), schema)
    release = us.synthesize(
        source, method="fourier", budget=us.PureDP(epsilon=4), must="crosstab(sex, smokes)", stream=SeededStream(1)
    )
    assert [one.margin for one in release.measurements if one.cells == "all"] == [("sex", "smokes")]
    answer = us.infer(release, "proportion(smokes == 'no')")
    (true,) = source.count([("smokes",)])
    assert answer.labels == ("valid",)
    assert abs(answer.estimates[0].value - true.values[0] / true.values[:2].sum()) < 0.05  # the third is missing
    with pytest.raises(UnsupportedError):
        us.infer(release, "crosstab(region, smokes)")


def test_too_many_coefficients_are_refused():
    schema = schema_of({"a": 2_000, "b": 2_000})
    with pytest.raises(UnsupportedError, match="Fourier coefficients"):
        us.plan(schema, method="fourier", budget=us.PureDP(epsilon=1))
