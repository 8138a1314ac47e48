"""The law of a number and the weight inside cells, against samples whose every row is known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.bins import bins_of
from understudy.inference.inside_cells import Grid, inside_cells, roughness, trend_of

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")


def people(n: int = 60000, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Incomes, and weights that they nearly decide."""
    rng = np.random.default_rng(seed)
    income = np.exp(rng.normal(9.8, 0.6, n)).clip(1000, 100000)
    return income, (0.01 * income * np.exp(rng.normal(0, 0.25, n))).clip(10, 1000)


def grids() -> tuple[us.Attribute, us.Attribute]:
    income = tuple(np.geomspace(1000, 100000, 13))
    return (
        us.Attribute(name="income", edges=income, density="log"),
        us.Attribute(name="w", edges=tuple(np.geomspace(10, 1000, 5)), density="log"),
    )


def table_of(income: np.ndarray, w: np.ndarray) -> np.ndarray:
    x, y = grids()
    return np.histogram2d(income, w, bins=[np.array(x.edges), np.array(y.edges)])[0]


def test_what_goes_together_inside_cells_is_found_again():
    income, w = people()
    x, y = grids()
    table = table_of(income, w)
    numbers, weights = (
        Grid.of(bins_of(one), counted=np.histogram(values, np.geomspace(*ends, 8 * one.bins + 1))[0])
        for one, values, ends in ((x, income, (1000, 100000)), (y, w, (10, 1000)))
    )
    truth = np.average(income, weights=w)
    found = []
    for correlation in (None, 0.0):
        law = inside_cells(numbers, weights, table, correlation=correlation)
        at = law.table[law.number.bin] * law.at  # (points, bins of the weight)
        found.append(float(at.sum(axis=1) @ numbers.points / at.sum()))
        assert (law.table * law.weight).sum() == pytest.approx(1, rel=1e-4)
        assert np.allclose(law.fine("at").sum(axis=2), law.weight)
        assert (law.square >= law.weight**2 - 1e-9).all()
    joined, independent = (one / truth - 1 for one in found)
    assert abs(joined) < 0.01
    assert independent < -0.02  # with both independent inside cells a part is missed


def test_a_table_that_follows_the_law_is_not_rough_and_one_that_does_not_is():
    income, w = people()
    x, y = grids()
    table = table_of(income, w)
    law = inside_cells(Grid.of(bins_of(x)), Grid.of(bins_of(y)), table)
    noisy = table + np.random.default_rng(1).normal(0, 60, table.shape)
    assert roughness(noisy, law.copula, 3600, 1.0) < 0.3
    jumping = table[:, [2, 0, 3, 1]]
    other = inside_cells(Grid.of(bins_of(x)), Grid.of(bins_of(y)), jumping)
    assert roughness(jumping, other.copula, 3600, 1.0) > 0.5
    logs = np.arange(4.0)
    linear = 1000 * np.stack([0.2 + 0.1 * logs, 0.8 - 0.1 * logs])
    assert np.allclose(trend_of(linear, logs), linear)
    assert roughness(linear, trend_of(linear, logs), 100, 1.0) == 0
    zigzag = 1000 * np.array([[0.2, 0.6, 0.2, 0.6], [0.8, 0.4, 0.8, 0.4]])
    assert roughness(zigzag, trend_of(zigzag, logs), 100, 1.0) == 1.0


@pytest.mark.full
def test_means_of_a_release_are_those_of_the_people():
    """From the data through noise to the answer; the mean and the Gini coefficient were far off before."""
    income, w = people(20000)
    schema = us.Schema(
        attributes=(us.Attribute(name="income", bounds=(1000, 100000), heavy_tail=True),),
        weight=us.Weight(column="w", bounds=(10, 1000)),
        design=us.Design(population=10**6),
    )
    source = us.open_source(pa.table({"income": income, "w": w}), schema)
    release = us.synthesize(source, budget=us.ApproxDP(epsilon=8, delta="1e-6"), method="ipf")
    mean = us.infer(release, "mean(income)", rng=np.random.default_rng(1))
    assert mean.value == pytest.approx(np.average(income, weights=w), rel=0.04)
    assert mean.validity == "model-based"
    order = np.argsort(income)
    upto = np.cumsum(w[order]) / w.sum()
    amounts = np.cumsum(income[order] * w[order]) / (income @ w)
    gini = 1 - 2 * float(np.trapezoid(amounts, upto))
    assert us.infer(release, "gini(income)", rng=np.random.default_rng(1)).value == pytest.approx(gini, abs=0.02)
    by = us.infer(release, "quantile(income, 0.5)", rng=np.random.default_rng(1))
    assert by.value == pytest.approx(income[order][np.searchsorted(upto, 0.5)], rel=0.05)
