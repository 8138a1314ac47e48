"""Saturated count models: each law by its distribution, structural zeros kept, no guarantee and saying so."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import understudy as us
from understudy.core.domain import Domain
from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.privacy.mechanisms.saturated_draw import SaturatedDraw, _gamma, _inverse_gaussian, _poisson
from understudy.privacy.randomness.streams import SeededStream

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="a", levels=("0", "1", "2")),
        us.Attribute(name="b", levels=("0", "1")),
    ),
    impossible=(us.Impossible(conditions=(("a", us.Condition(levels=("2",))), ("b", us.Condition(levels=("1",))))),),
)
UNIFORM = (np.arange(20_000) + 0.5) / 20_000


@pytest.mark.parametrize("mean", [1e-4, 0.3, 7.0, 900.0, 2.5e6])
def test_poisson_counts_are_quantiles(mean):
    found = _poisson(UNIFORM, np.full(len(UNIFORM), mean))
    assert (found == stats.poisson.ppf(UNIFORM, mean)).all()


@pytest.mark.parametrize("spread", [0.05, 0.7, 4.0])
def test_mixing_variables_are_quantiles(spread):
    assert _gamma(UNIFORM, spread) == pytest.approx(stats.gamma.ppf(UNIFORM, 1 / spread, scale=spread), rel=1e-9)
    # scipy's inverse Gaussian: mean mu x scale, shape parameter scale
    expected = stats.invgauss.ppf(UNIFORM[::400], spread, scale=1 / spread)
    assert _inverse_gaussian(UNIFORM[::400], spread) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("law", "sigma"), [("poisson", 0.0), ("negative_binomial", 0.5), ("inverse_gaussian", 0.5)])
def test_counts_have_the_mean_and_the_variance_of_their_law(law, sigma):
    """62,500 cells with a mean of 3: it holds within 5 standard errors, and the variance within a twentieth."""
    cells = 250**2
    schema = us.Schema(attributes=tuple(us.Attribute(name=n, levels=tuple(map(str, range(250)))) for n in "ab"))
    draw = SaturatedDraw(law=law, sigma=sigma, alpha=1.0)
    found, counts = draw.draw(
        np.arange(cells), np.full(cells, 2), Domain(schema=schema, margin=("a", "b")), SeededStream(5), "test"
    )
    values = np.bincount(found, counts, cells)
    variance = 3 + sigma * 9
    assert abs(values.mean() - 3) < 5 * math.sqrt(variance / cells)
    assert 0.95 < values.var() / variance < 1.05
    if law == "negative_binomial":
        assert abs((values == 0).mean() - stats.nbinom.pmf(0, 2, 2 / 5)) < 0.01
    if law == "inverse_gaussian":  # its generating function at 0
        assert abs((values == 0).mean() - math.exp((1 - math.sqrt(1 + 2 * sigma * 3)) / sigma)) < 0.01


def source_of(counts):
    a, b = np.unravel_index(np.repeat(np.arange(6), counts), (3, 2))
    return us.open_source(pa.table({"a": [str(x) for x in a], "b": [str(x) for x in b]}), SCHEMA)


def test_empty_cells_stay_empty_without_alpha_and_impossible_ones_always(tmp_path):
    source = source_of([400, 0, 300, 200, 100, 0])
    plain = us.synthesize(
        source, method="saturated", budget=us.NonPrivate(), stream=SeededStream(1), copies=5, random_rows=True
    )
    sizes = set()
    for copy in range(1, 6):
        counts = us.open_source(plain.frame(copy=copy), SCHEMA).count([SCHEMA.names])[0].values.reshape(-1)
        sizes.add(int(counts.sum()))
        assert counts[1] == counts[5] == 0
        assert np.abs(counts - [400, 0, 300, 200, 100, 0]).max() < 120
    assert len(sizes) > 1, "the number of rows is random"
    some = us.synthesize(source, method="saturated", budget=us.NonPrivate(), stream=SeededStream(1), rows=300)
    assert some.frame().num_rows == 300
    counts = us.open_source(some.frame(), SCHEMA).count([SCHEMA.names])[0].values.reshape(-1)
    assert np.abs(counts - [120, 0, 90, 60, 30, 0]).max() < 60
    spread = us.synthesize(
        source, method="saturated", budget=us.NonPrivate(), stream=SeededStream(1), alpha=40.0, sigma=0.2,
        law="inverse_gaussian", out=tmp_path / "release",
    )  # fmt: skip
    counts = us.open_source(spread.frame(), SCHEMA).count([SCHEMA.names])[0].values.reshape(-1)
    assert counts[1] > 0
    assert counts[5] == 0
    assert all(check.passed for check in us.verify(tmp_path / "release"))
    assert "NO GUARANTEE" in " ".join(spread.statement.warnings)


def test_what_does_not_go_together_is_refused():
    ask = {"method": "saturated", "budget": us.NonPrivate(), "records": 10}
    with pytest.raises(UnknownNameError, match="law"):
        us.plan(SCHEMA, **ask, law="normal")
    with pytest.raises(InputError, match="sigma"):
        us.plan(SCHEMA, **ask, law="negative_binomial")
    with pytest.raises(InputError, match="sigma"):
        us.plan(SCHEMA, **ask, sigma=0.5)
    with pytest.raises(InputError, match="alpha"):
        us.plan(SCHEMA, **ask, alpha=-1.0)
    with pytest.raises(UnsupportedError, match=r"saturated.*none"):
        us.plan(SCHEMA, method="saturated", budget=us.PureDP(epsilon=1), records=10)
    with pytest.raises(InputError, match="random"):
        us.plan(SCHEMA, **ask, rows=10, random_rows=True)
    with pytest.raises(InputError, match="how many rows"):
        us.plan(SCHEMA, method="saturated", budget=us.NonPrivate(), unit="add_remove")
    wide = us.Schema(attributes=tuple(us.Attribute(name=f"x{i}", levels=tuple("abcdefghij")) for i in range(8)))
    with pytest.raises(UnsupportedError, match="alpha"):
        us.plan(wide, **ask, alpha=0.1)
