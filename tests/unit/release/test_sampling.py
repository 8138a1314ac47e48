"""More rows from a release: from its measurements alone, never from the data."""

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import InputError, UnsupportedError

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="a", levels=("x", "y")),
        us.Attribute(name="b", levels=("p", "q", "r")),
        us.Attribute(name="c", edges=(0, 10, 20), integer=True),
    )
)
GENERATOR = np.random.default_rng(1)
ROWS = pa.table({
    "a": GENERATOR.choice(["x", "y"], 400), "b": GENERATOR.choice(["p", "q", "r"], 400, p=[0.7, 0.2, 0.1]),
    "c": GENERATOR.integers(0, 21, 400),
})  # fmt: skip


def make(**asked):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return us.synthesize(us.open_source(ROWS, SCHEMA), **asked)


@pytest.mark.parametrize("method", ["histogram", "independent", "ipf", "aim"])
@pytest.mark.parametrize("unit", ["replace", "add_remove"])
def test_a_measured_release_gives_any_number_of_rows(tmp_path, method, unit):
    make(method=method, budget=us.PureDP(epsilon=20), unit=unit, out=tmp_path / "release")
    release = us.read_release(tmp_path / "release")
    larger = us.sample(release, rows=20_000, copies=2)
    assert [table.num_rows for table in larger.tables] == [20_000, 20_000]
    assert larger.statement == release.statement
    share = larger.coded(1).counts(("b",)) / 20_000
    assert np.abs(share - release.coded().counts(("b",)) / release.frame().num_rows).max() < 0.03
    larger.write(tmp_path / "larger")
    assert all(check.passed for check in us.verify(tmp_path / "larger"))


@pytest.mark.parametrize(
    "asked", [{"method": "dirichlet", "budget": us.PureDP(epsilon=1)}, {"budget": us.NonPrivate()}]
)
def test_what_was_drawn_from_the_data_is_refused(asked):
    with pytest.raises(UnsupportedError, match="another charge"):
        us.sample(make(**asked), rows=10)


def test_other_refusals():
    with pytest.raises(InputError, match="not made by understudy"):
        us.sample(us.wrap(ROWS, SCHEMA), rows=10)
    with pytest.raises(InputError, match="rows"):
        us.sample(make(budget=us.PureDP(epsilon=1)), rows=0)
    fixed = make(method="ipf", budget=us.PureDP(epsilon=1), unit=us.Unit(fixed=("a",)))
    with pytest.raises(UnsupportedError, match="fixed attributes"):
        us.sample(replace(fixed, fitted=None), rows=10)
