"""Counts of levels from noisy ones: held against another computation of the same mean, and against simpler rules."""

import numpy as np
import pytest

from understudy.models.levels import NORMAL, ROUNDS, SHAPES, WEIGHT, expected_levels
from understudy.models.nearest_table import nearest_table

ALL = np.ones(20, dtype=bool)


@pytest.mark.parametrize(
    ("truth", "deviation", "of_nearest", "of_even"),
    [("even", 400.0, 0.3, None), ("even", 20.0, 0.6, None), ("even", 5.0, 1.0, None),
     ("skewed", 100.0, 1.05, 0.2), ("skewed", 5.0, 1.05, 0.01),
     ("skewed", 2000.0, 0.7, 1.1)],
)  # fmt: skip
def test_levels_are_drawn_together_where_noise_hides_them_and_kept_where_it_does_not(
    truth, deviation, of_nearest, of_even
):
    """Squared error over many draws, beside that of the nearest table and that of even shares."""
    generator = np.random.default_rng(7)
    counts = np.full(20, 50.0) if truth == "even" else np.concatenate([[900.0], np.full(19, 100 / 19)])
    errors = np.zeros(3)
    for _ in range(400):
        noisy = counts + generator.normal(0, deviation, 20)
        made = expected_levels(noisy, deviation**2, 1000.0, ALL)
        assert made.sum() == pytest.approx(1000)
        assert made.min() >= 0
        others = (nearest_table(noisy, 1000.0), np.full(20, 50.0))
        errors += [((one - counts) ** 2).sum() for one in (made, *others)]
    assert errors[0] < of_nearest * errors[1]
    assert of_even is None or errors[0] < of_even * errors[2]


def test_the_law_of_levels_is_that_of_a_fine_even_grid():
    """The same steps on another grid: even, a hundred times finer, with the Gamma law by another library call."""
    from scipy.stats import gamma

    noisy, deviation, people = np.array([300.0, 90.0, 250.0, 160.0, 200.0]), 60.0, 1000.0
    even, noise = people / 5, deviation * np.sqrt(0.8)
    ends = np.linspace(0, people, 100_001)
    held = (ends[1:] + ends[:-1]) / 2
    off = np.abs(noisy[:, None] - held) / noise
    likely = np.exp(np.where(off < NORMAL, -(off**2) / 2, -NORMAL * (off - NORMAL / 2)))
    laws = np.array([np.diff(gamma.cdf(ends / even, shape, scale=1 / shape)) for shape in SHAPES])
    laws /= laws.sum(axis=1, keepdims=True)
    weights = (likely @ laws.T).prod(axis=0)
    law = mixture = weights / weights.sum() @ laws
    for _ in range(ROUNDS):
        where = likely * law / (likely @ law)[:, None]
        law = (WEIGHT * mixture + where.sum(axis=0)) / (WEIGHT + 5)
    where = likely * law / (likely @ law)[:, None]
    means = where @ held
    spread = where @ held**2 - means**2
    wanted = means + (people - means.sum()) * spread / spread.sum()
    found = expected_levels(noisy, deviation**2, people, np.ones(5, dtype=bool))
    assert found == pytest.approx(wanted, rel=0.01)


def test_levels_that_nobody_can_have_stay_empty():
    allowed = np.array([True, True, False, True])
    found = expected_levels(np.array([40.0, 30.0, 90.0, -3.0]), 100.0, 70.0, allowed)
    assert found[2] == 0
    assert found.sum() == pytest.approx(70)
    assert (found[allowed] > 0).all()


def test_a_far_outlier_of_geometric_noise_holds_no_more_than_everybody():
    noisy = np.zeros(20)
    noisy[3] = 1e7
    found = expected_levels(noisy, 1e4, 1000.0, ALL)
    assert np.isfinite(found).all()
    assert found.max() <= 1000
