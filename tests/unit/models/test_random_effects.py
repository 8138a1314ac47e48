"""Random effects of cells: the posterior given a noisy count, against brute force; the shape; the margins."""

import numpy as np
import pytest
from scipy.stats import gamma, nbinom, poisson

import understudy as us
from understudy.models.random_effects import SHAPES, NoisyCells, draw_rates, mean_rates, rake, shape_weights

GEOMETRIC = us.Geometric(scale=3)


def posterior_of_rate(y, rate, shape, mechanism, grid):
    """P(rate = g | y) on a grid of logarithms, by the definition: prior times the likelihood, summed over counts."""
    counts = np.arange(200)
    noise = np.exp(mechanism.log_pmf(np.full(len(counts), y), counts))
    density = grid * gamma.pdf(grid, shape, scale=rate / shape) * (poisson.pmf(counts, grid[:, None]) @ noise)
    return density / density.sum()


@pytest.mark.parametrize("mechanism", [GEOMETRIC, us.DiscreteGaussian(scale=4)])
@pytest.mark.parametrize(("y", "rate", "shape"), [(12, 8.0, 1.6), (-5, 2.0, 0.8), (30, 10.0, 6.0), (3, 25.0, 0.4)])
def test_the_mean_and_the_draws_follow_the_posterior(mechanism, y, rate, shape):
    grid = np.exp(np.linspace(-25, 5, 4_000))
    density = posterior_of_rate(y, rate, shape, mechanism, grid)
    mean = float(density @ grid)
    many = NoisyCells(values=np.full(4_000, y), mechanism=mechanism)
    alone = np.array([float(one == shape) for one in SHAPES])
    assert mean_rates(many, np.full(4_000, rate), alone)[0] == pytest.approx(mean, rel=2e-3)
    drawn = draw_rates(many, np.full(4_000, rate), shape, np.random.default_rng(1))
    upper = np.cumsum(density)
    for level in (0.1, 0.5, 0.9):
        below = np.mean(drawn <= grid[np.searchsorted(upper, level)])
        assert abs(below - level) < 4.5 * np.sqrt(level * (1 - level) / len(drawn))


def test_the_shape_is_found_and_is_large_where_the_model_is_right():
    rng = np.random.default_rng(2)
    rates = rng.gamma(2.0, 10.0, 3_000)
    counts = nbinom.rvs(0.8, 0.8 / (0.8 + rates), random_state=rng)
    little = NoisyCells(values=counts + rng.integers(-1, 2, 3_000), mechanism=us.Geometric(scale="0.7"))
    weights = shape_weights(little, rates)
    assert weights[SHAPES.index(0.8)] > 0.9
    plain = NoisyCells(values=rng.poisson(rates), mechanism=us.Geometric(scale="0.3"))
    assert shape_weights(plain, rates)[SHAPES.index(50.0) :].sum() > 0.9


def test_cells_that_do_not_fit_into_one_chunk_are_weighed_alike(monkeypatch):
    cells = NoisyCells(values=np.arange(-20, 80), mechanism=GEOMETRIC)
    rates = np.linspace(0.1, 60, 100)
    whole = shape_weights(cells, rates), mean_rates(cells, rates, np.full(len(SHAPES), 1 / len(SHAPES)))
    monkeypatch.setattr("understudy.models.random_effects.TOGETHER", 500)
    assert shape_weights(cells, rates) == pytest.approx(whole[0])
    assert mean_rates(cells, rates, np.full(len(SHAPES), 1 / len(SHAPES))) == pytest.approx(whole[1])


def test_raking_gives_the_margins_and_keeps_what_is_empty():
    rng = np.random.default_rng(3)
    names = ("a", "b", "c")
    aim = rng.dirichlet(np.ones(24)).reshape(2, 3, 4)
    table = rng.random((2, 3, 4))
    table[0, 0, 0] = aim[0, 0, 0] = 0.0
    margins = [("a", "b"), ("c",)]
    raked = rake(table, margins, names, [aim.sum(axis=2), aim.sum(axis=(0, 1))])
    assert raked.sum(axis=2) == pytest.approx(aim.sum(axis=2), abs=1e-5)
    assert raked.sum(axis=(0, 1)) == pytest.approx(aim.sum(axis=(0, 1)), abs=1e-5)
    assert raked[0, 0, 0] == 0
