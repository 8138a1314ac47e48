"""Weights as near to equal as tables allow, and loops that count many tables at once."""

from __future__ import annotations

import numpy as np

from understudy.households.shared.nearest import nearest_slopes
from understudy.households.shared.tables_compiled import add_counts, add_values

FIRST = np.repeat([0, 1, 2, 3], 50)
CELLS = np.stack([FIRST, 4 + np.tile([0, 1, 2, 3, 4], 40), 9 + FIRST], axis=1)  # the third table is the first again


def counted(slopes):
    weights = np.exp(slopes[CELLS].sum(axis=1))
    return float(weights.sum()), np.bincount(CELLS.ravel(), weights=np.repeat(weights, 3), minlength=13)


def test_tables_that_no_weights_reach_do_not_make_the_others_follow_noise():
    noisy = np.array([72.0, 8.0, 66.0, 20.0, 34.0])  # of 40 each, with a standard deviation of 20
    variances = np.repeat([1.0, 400.0, 1.0], [4, 5, 4])
    begins = [0, 4, 9, 13]
    torn = np.concatenate([[50.0] * 4, noisy, [90.0, 10.0, 50.0, 50.0]])  # the same table with other counts
    _, found = counted(nearest_slopes(counted, torn, variances, begins))
    assert np.abs(found[4:9] - 40).max() < 0.7 * np.abs(noisy - 40).max()
    reached = np.concatenate([[70.0, 30.0, 50.0, 50.0], noisy, [70.0, 30.0, 50.0, 50.0]])
    _, found = counted(nearest_slopes(counted, reached, variances, begins))
    assert np.abs(found[:4] - reached[:4]).max() <= 4


def test_many_tables_are_counted_as_one_by_one():
    rng = np.random.default_rng(2)
    cells = rng.integers(0, 9, (500, 3)) + 10 * np.arange(3)
    weights, values = rng.random(500), rng.normal(size=30)
    counts, sums = np.zeros(30), np.zeros(500)
    add_counts(cells, weights, counts)
    add_values(cells, values, sums)
    assert np.allclose(counts, np.bincount(cells.ravel(), weights=np.repeat(weights, 3), minlength=30))
    assert np.allclose(sums, values[cells].sum(axis=1))
