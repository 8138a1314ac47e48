"""The noisy histogram: what it plans, how it fits, what it refuses."""

import warnings
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.privacy.promise.event import GaussianNoise, GeometricNoise, NoNoise
from understudy.privacy.randomness.streams import SeededStream

SCHEMA = us.Schema(
    attributes=(us.Attribute(name="a", levels=("x", "y", "z")), us.Attribute(name="b", levels=tuple("0123456789")))
)
COUNTS = np.arange(30).reshape(3, 10) * 20


def table_of(counts, schema=SCHEMA):
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    codes = np.unravel_index(cells, counts.shape)
    return pa.table({
        a.name: np.array(a.levels)[code] for a, code in zip(schema.attributes, codes, strict=True)
    })  # fmt: skip


def make(counts=COUNTS, schema=SCHEMA, seed=1, **asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = us.open_source(table_of(counts, schema), schema)
        return us.synthesize(source, method="histogram", stream=SeededStream(seed), **asked)


@pytest.mark.parametrize(
    ("unit", "budget", "event"),
    [
        ("replace", us.PureDP(epsilon=1), GeometricNoise(l1=Fraction(2), scale=Fraction(2))),
        ("add_remove", us.PureDP(epsilon="0.5"), GeometricNoise(l1=Fraction(1), scale=Fraction(2))),
        ("replace", us.ZCDP(rho="0.25"), GaussianNoise(l2_squared=Fraction(2), scale=Fraction(2))),
        ("replace", us.ApproxDP(epsilon=1, delta="1e-9"), GeometricNoise(l1=Fraction(2), scale=Fraction(2))),
    ],
)
def test_the_plan_states_the_noise(unit, budget, event):
    plan = us.plan(SCHEMA, method="histogram", unit=unit, budget=budget)
    assert plan.events == (event,)
    assert plan.steps[0].cells == 30


def test_under_add_remove_a_large_cross_measures_its_total_apart():
    wide = us.Schema(attributes=tuple(us.Attribute(name=f"v{i}", levels=tuple(range(10))) for i in range(5)))
    plan = us.plan(wide, method="histogram", unit="add_remove", budget=us.PureDP(epsilon=1))
    assert [step.label for step in plan.steps] == ["full cross-tabulation", "number of rows"]
    assert sum(step.event.l1 / step.event.scale for step in plan.steps) <= 1
    assert plan.steps[1].event.scale >= 50


def test_two_cells_with_a_public_total_need_half_the_noise():
    two = us.Schema(attributes=(us.Attribute(name="a", levels=("x", "y")),))
    plan = us.plan(two, method="histogram", budget=us.PureDP(epsilon=1))
    assert plan.events == (GeometricNoise(l1=Fraction(1), scale=Fraction(1)),)
    release = make(np.array([30, 70]), two, budget=us.PureDP(epsilon=50))
    assert release.measurements[0].cells == "first"
    assert release.coded().counts(("a",)).tolist() == [30, 70]


@pytest.mark.parametrize("by", ["rounding", "multinomial"])
def test_with_little_noise_the_table_comes_back(by):
    release = make(budget=us.PureDP(epsilon=1000), rows_by=by)
    got = release.coded().counts(("a", "b"))
    assert got.sum() == COUNTS.sum()
    if by == "rounding":
        assert (got == COUNTS).all()
    else:
        assert np.abs(got - COUNTS).max() < 6 * np.sqrt(COUNTS.max())


def test_rows_and_copies():
    release = make(budget=us.PureDP(epsilon=1), rows=123, copies=3)
    assert [table.num_rows for table in release.tables] == [123, 123, 123]
    assert not release.frame(1).equals(release.frame(2))
    assert len(release.provenance.events) == 1  # copies share the measurements and cost nothing more


def test_the_row_count_under_add_remove_is_noisy_and_not_the_truth():
    counts = {make(budget=us.PureDP(epsilon="0.1"), unit="add_remove", seed=s).frame().num_rows for s in range(6)}
    assert len(counts) > 3


def test_an_empty_table_is_refused_where_its_size_is_public_and_gives_a_small_release_elsewhere():
    empty = np.zeros((3, 10), dtype=int)
    for rows in (None, 10):
        with pytest.raises(InputError, match="the data have no rows"):
            make(empty, budget=us.PureDP(epsilon=1), rows=rows)
    assert make(empty, budget=us.PureDP(epsilon=1), unit="add_remove").frame().num_rows < 100


def test_nonprivate_is_plain_catall_with_its_prior_count():
    release = make(budget=us.NonPrivate(), prior="0", copies=2)
    assert release.statement.guarantee == us.NonPrivate()
    assert release.provenance.events == (NoNoise(), NoNoise())
    assert release.measurements == ()
    empty_cell = release.coded().counts(("a", "b"))[0, 0]
    assert empty_cell == 0  # a prior of 0 cannot reach an empty cell
    spread = make(budget=us.NonPrivate(), prior="1000000").coded().counts(("a", "b"))
    assert spread.min() > 0.5 * spread.mean()  # a huge prior makes it uniform


def test_the_plain_draw_has_the_multinomial_law():
    counts = np.array([[0, 4, 6], [0, 0, 10]])
    schema = us.Schema(
        attributes=(us.Attribute(name="a", levels=("x", "y")), us.Attribute(name="b", levels=tuple("012")))
    )
    rows = 200_000
    got = make(counts, schema, budget=us.NonPrivate(), prior="6", rows=rows).coded().counts(("a", "b"))
    expected = rows * (counts + 1) / 26
    statistic = ((got - expected) ** 2 / expected).sum()
    assert statistic < 50  # chi-square with 5 degrees of freedom: 1e-9
    without_prior = rows * np.maximum(counts, 1e-9) / 20
    assert ((got - without_prior) ** 2 / without_prior).sum() > 1000


def test_a_cross_that_is_too_large_is_refused_with_its_size():
    wide = us.Schema(attributes=tuple(us.Attribute(name=f"v{i}", levels=tuple(range(10))) for i in range(30)))
    with pytest.raises(UnsupportedError, match=r"about 10\^30 cells; histogram takes at most 10,000,000"):
        us.plan(wide, method="histogram", budget=us.PureDP(epsilon=1))


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"budget": us.ProbabilisticDP(epsilon=1, delta="1e-6")}, UnsupportedError, "does not offer"),
        ({"budget": us.PureDP(epsilon=1), "method": "histogran"}, UnknownNameError, "did you mean 'histogram'"),
        ({"budget": us.PureDP(epsilon=1), "rows_bi": "x"}, UnknownNameError, "did you mean 'rows_by'"),
        ({"budget": us.PureDP(epsilon=1), "rows_by": "multinomal"}, UnknownNameError, "did you mean 'multinomial'"),
        ({"budget": us.PureDP(epsilon=1), "rows": 0}, InputError, r"rows \(0\) must be between 1"),
        ({"budget": us.PureDP(epsilon=1), "rows": 10**12}, InputError, "must be between"),
        ({"budget": us.PureDP(epsilon=1), "rows": 1.5}, InputError, "whole number"),
        ({"budget": us.PureDP(epsilon=1), "copies": 0}, InputError, "copies"),
        ({"budget": us.PureDP(epsilon=1), "unit": "swap"}, UnknownNameError, "swap"),
        ({"budget": us.PureDP(epsilon=1), "unit": us.Unit(fixed=("c",))}, UnknownNameError, "attribute 'c'"),
        ({"budget": us.PureDP(epsilon=1), "unit": us.Unit(fixed=("a", "b"))}, UnsupportedError, "nothing is left"),
        ({"budget": us.PureDP(epsilon=1), "unit": "add_remove", "records": 5}, InputError, "not public"),
        ({"budget": us.NonPrivate(), "unit": "add_remove"}, InputError, "how many rows"),
        ({"budget": us.NonPrivate(), "prior": "-1"}, InputError, "prior"),
        ({"budget": 1}, InputError, "budget must be"),
    ],
)
def test_bad_requests_are_refused_before_any_data(asked, error, words):
    with pytest.raises(error, match=words):
        us.plan(SCHEMA, **{"method": "histogram", **asked})


def test_fixed_attributes_keep_the_sensitivity_of_the_rest():
    plan = us.plan(SCHEMA, method="histogram", budget=us.PureDP(epsilon=1), unit=us.Unit(fixed=("a",)))
    assert plan.steps[0].event.l1 == 2


@pytest.mark.parametrize("name", ["S3", "S5"])
def test_utility_is_not_worse_than_clip_and_rescale(data_folder, name):
    """On real tables, at epsilon 1: mean S_pMSE over two-way tables, against the published post-processing."""
    import json
    from itertools import combinations

    import pyarrow.csv as pcsv

    rows = pcsv.read_csv(data_folder / "sd2011" / f"{name}.csv", convert_options=pcsv.ConvertOptions(
        column_types={}, strings_can_be_null=False)).cast  # fmt: skip
    table = rows(pa.schema([(column, pa.string()) for column in _columns(data_folder, name)]))
    levels = json.loads((data_folder / "sd2011" / "domain.json").read_text())["levels_incl_NA"]
    schema = us.Schema(attributes=tuple(us.Attribute(name=c, levels=tuple(levels[c])) for c in table.column_names))
    source = us.open_source(table, schema)
    true = source.count([schema.names])[0].values
    ours, theirs = [], []
    generator = np.random.default_rng(3)
    for seed in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = us.synthesize(
                source, method="histogram", budget=us.PureDP(epsilon=1), unit="add_remove", rows=5000,
                rows_by="multinomial", stream=SeededStream(seed),
            )  # fmt: skip
        noisy = np.maximum(release.measurements[0].values, 0)
        clipped = generator.multinomial(5000, noisy.ravel() / noisy.sum()).reshape(true.shape)
        made = release.coded().counts(schema.names)
        for found, into in ((made, ours), (clipped, theirs)):
            for pair in combinations(range(true.ndim), 2):
                rest = tuple(axis for axis in range(true.ndim) if axis not in pair)
                into.append(_s_pmse(true.sum(axis=rest), found.sum(axis=rest)))
    assert np.mean(ours) < (1.3 if name == "S3" else 0.8) * np.mean(theirs)


def _columns(data_folder, name):
    return (data_folder / "sd2011" / f"{name}.csv").read_text().splitlines()[0].split(",")


def _s_pmse(y, s):
    filled = (y + s) > 0
    return ((y - s)[filled] ** 2 / ((y + s)[filled] / 2)).sum() / (filled.sum() - 1)


@pytest.mark.parametrize("method", ["histogram", "auto"])
@pytest.mark.parametrize("levels", [2, 3])
def test_where_nobody_can_move_there_is_nothing_to_protect(method, levels):
    schema = us.Schema(attributes=(us.Attribute(name="area", levels=tuple("abc"[:levels])),))
    with pytest.raises(UnsupportedError, match="nothing is left to protect"):
        us.plan(schema, method=method, budget=us.PureDP(epsilon=1), unit=us.Unit(fixed=("area",)))
