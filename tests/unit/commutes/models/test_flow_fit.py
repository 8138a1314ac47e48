"""Flows from noisy counts: margins are met, and what is known of each cell is its posterior."""

import math

import numpy as np
import pytest
from scipy.stats import nbinom

from understudy.commutes.models.area_pairs import make_area_pairs
from understudy.commutes.models.flow_fit import SHAPES, NoisyCells, believe_cells, fit_gravity
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric
from understudy.privacy.randomness.streams import SeededStream


def test_gravity_meets_origins_destinations_and_distances(world):
    pairs = make_area_pairs(world(), 30.0)
    rng = np.random.default_rng(5)
    truth = rng.gamma(0.5, 40.0, len(pairs))
    bins = np.digitize(pairs.distance(), [5, 20, 60, 150])
    sums = {}
    for name, area in (("origins", pairs.origin), ("destinations", pairs.destination)):
        sums[name] = np.zeros(len(pairs.finest))
        for number, level in enumerate(pairs.levels):
            own = pairs.level == number
            ancestor = np.arange(len(pairs.finest))
            for finer in pairs.levels[:number:-1]:
                ancestor = finer.parent[ancestor]
            share = 1 / np.bincount(ancestor, minlength=len(level))[ancestor]
            sums[name] += np.bincount(area[own], truth[own], len(level))[ancestor] * share
    distances = np.bincount(bins, truth, 5)
    fitted = fit_gravity(pairs, bins, distances=distances, **sums)
    assert (fitted > 0).all()
    assert fitted.sum() == pytest.approx(truth.sum(), rel=1e-6)
    assert np.bincount(bins, fitted, 5) == pytest.approx(distances, rel=0.05)
    own = pairs.level == 2
    near = np.bincount(pairs.destination[own], fitted[own], len(pairs.finest))
    assert (near <= sums["destinations"] * 1.2 + 1).all()


def brute_force(gravity, noisy, shape, mechanism):
    counts = np.arange(400)
    prior = nbinom.pmf(counts, shape, shape / (shape + gravity))
    law = np.exp(mechanism.log_pmf(np.full(len(counts), noisy), counts))
    return (prior * law * counts).sum() / (prior * law).sum()


@pytest.mark.parametrize("mechanism", [Geometric(scale=3), DiscreteGaussian(scale=4)], ids=["geometric", "gaussian"])
def test_a_cell_is_its_posterior_mean(mechanism):
    """All cells of one gravity value: the shape is the grid's best by likelihood, the mean that of the enumeration."""
    rng = np.random.default_rng(11)
    gravity = np.full(4000, 6.0)
    counts = nbinom.rvs(0.9, 0.9 / (0.9 + 6.0), size=4000, random_state=rng)
    noisy = mechanism.run(counts.astype(np.int64), SeededStream(4))
    found = believe_cells(gravity, NoisyCells(values=noisy, mechanism=mechanism)).mean()

    def likelihood(shape):
        support = np.arange(300)
        prior = nbinom.pmf(support, shape, shape / (shape + 6.0))
        law = np.exp(mechanism.log_pmf(noisy[:, None], support[None, :]))
        return np.log(law @ prior).sum()

    shape = max(SHAPES, key=likelihood)
    assert 0.5 < shape < 1.6
    for cell in range(0, 4000, 157):
        assert found[cell] == pytest.approx(brute_force(6.0, noisy[cell], shape, mechanism), rel=1e-6, abs=1e-6)
    assert ((found - counts) ** 2).mean() < 0.8 * ((noisy - counts) ** 2).mean()
    assert ((found - counts) ** 2).mean() < 0.8 * ((gravity - counts) ** 2).mean()


def test_a_cell_that_is_not_reported_counts_as_that():
    mechanism = SparseGeometric(scale=2, threshold=5, domain=3000)
    rng = np.random.default_rng(2)
    counts = rng.poisson(0.3, 3000) + 40 * (rng.random(3000) < 0.05)
    filled = np.flatnonzero(counts)
    cells, values = mechanism.draw(filled, counts[filled].astype(np.int64), SeededStream(8), "test")
    noisy, reported = np.full(3000, 5, dtype=np.int64), np.zeros(3000, dtype=bool)
    noisy[cells], reported[cells] = values, True
    gravity = np.full(3000, counts.mean())
    cells = NoisyCells(values=noisy, mechanism=mechanism, reported=reported, threshold=5)
    found = believe_cells(gravity, cells).mean()
    hidden = found[~reported]
    assert np.ptp(hidden) < 1e-9
    truth = counts[~reported].mean()
    assert abs(hidden[0] - truth) < 0.35
    assert hidden[0] < counts.mean()


def test_large_counts_keep_their_noisy_value():
    mechanism = Geometric(scale=1)
    gravity, noisy = np.array([900.0, 1000.0, 1100.0, 5.0]), np.array([5000, 1200, 300, 160])
    found = believe_cells(gravity, NoisyCells(values=noisy, mechanism=mechanism)).mean()
    assert found == pytest.approx(noisy, rel=0.02)
    assert math.isfinite(found.sum())


def test_a_level_of_the_posterior_is_that_of_the_enumeration():
    mechanism = Geometric(scale=2)
    noisy = SeededStream(1).discrete_laplace(3, 500) + 4
    gravity = np.full(500, 3.0)
    beliefs = believe_cells(gravity, NoisyCells(values=noisy, mechanism=mechanism))
    support = np.arange(200)

    def levels(shape):
        prior = nbinom.pmf(support, shape, shape / (shape + 3.0))
        joint = prior * np.exp(mechanism.log_pmf(noisy[:, None], support[None, :]))
        return np.log(joint.sum(1)).sum(), np.cumsum(joint / joint.sum(1, keepdims=True), axis=1)

    exact = max((levels(shape) for shape in SHAPES), key=lambda one: one[0])[1]
    for level in (0.1, 0.5, 0.93):
        found = beliefs.at(np.arange(500), np.full(500, level), np.full(500, 10**6))
        assert (found == (exact < level).sum(axis=1)).all()
    cells = np.arange(3)
    assert beliefs.at(cells, np.zeros(3), np.full(3, 7)).tolist() == [0, 0, 0]
    assert beliefs.at(cells, np.ones(3), np.full(3, 7)).tolist() == [7, 7, 7]
    assert beliefs.at(cells, np.full(3, 0.999), np.full(3, 2)).max() == 2


def test_very_wide_noise_is_tabulated_in_steps_and_says_the_same():
    """Noise so wide that counts are taken in steps: the mean is still that of the enumeration, to within a step."""
    mechanism = Geometric(scale=100)
    noisy = np.repeat(np.array([-300, 0, 50, 400, 2000]), 40)
    gravity = np.full(len(noisy), 60.0)
    beliefs = believe_cells(gravity, NoisyCells(values=noisy, mechanism=mechanism))
    assert beliefs.step > 1
    support = np.arange(6000)

    def posterior(shape):
        prior = nbinom.pmf(support, shape, shape / (shape + 60.0))
        joint = prior * np.exp(mechanism.log_pmf(noisy[::40, None], support[None, :]))
        return np.log(joint.sum(1)).sum(), (joint @ support) / joint.sum(1)

    exact = max((posterior(shape) for shape in SHAPES), key=lambda one: one[0])[1]
    assert beliefs.mean()[::40] == pytest.approx(exact, abs=2 * beliefs.step)
    middle = beliefs.at(np.arange(len(noisy)), np.full(len(noisy), 0.5), np.full(len(noisy), 10**6))[::40]
    assert (np.diff(middle) >= 0).all()
