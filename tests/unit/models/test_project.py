"""The nearest table: really the nearest, and better than clip-and-rescale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from understudy.errors import InputError
from understudy.models.nearest_table import FILLED, lost_to_noise, nearest_table


@given(st.lists(st.integers(-20, 40), min_size=1, max_size=6), st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_it_is_the_least_squares_solution(noisy, total):
    found = nearest_table(np.array(noisy), total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total)
    # an independent solver cannot do better
    start = np.full(len(noisy), total / len(noisy))
    other = minimize(
        lambda x: ((x - noisy) ** 2).sum(), start, jac=lambda x: 2 * (x - np.array(noisy)), method="SLSQP",
        bounds=[(0, None)] * len(noisy), constraints={"type": "eq", "fun": lambda x: x.sum() - total},
    )  # fmt: skip
    assert ((found - noisy) ** 2).sum() <= other.fun + 1e-6


def test_structural_zeros_stay_zero():
    allowed = np.array([[True, False], [True, True]])
    found = nearest_table(np.array([[3, 100], [4, -5]]), 6, allowed)
    assert found[0, 1] == 0
    assert found.sum() == pytest.approx(6)


def test_a_sparse_table_is_not_inflated_and_a_clear_cell_is_kept():
    generator = np.random.default_rng(5)
    true = np.zeros(50_000, dtype=np.int64)
    true[:20] = 200
    success = 1 - np.exp(-1.0)
    noisy = true + generator.geometric(success, true.shape) - generator.geometric(success, true.shape)
    found = nearest_table(noisy, true.sum())
    clipped = np.maximum(noisy, 0) * (true.sum() / np.maximum(noisy, 0).sum())
    assert found[:20].min() > 190  # far above the noise: kept
    assert found[20:].sum() < 0.03 * clipped[20:].sum()  # clip-and-rescale invents most of the people
    assert np.abs(found - true).sum() < 0.1 * np.abs(clipped - true).sum()


def test_nothing_left_gives_an_empty_table():
    assert nearest_table(np.array([-3, -1]), -4).tolist() == [0, 0]


def test_no_allowed_cell_is_refused():
    with pytest.raises(InputError, match="no cell"):
        nearest_table(np.array([1, 2]), 3, np.array([False, False]))


@pytest.mark.parametrize(("records", "cells", "epsilon"), [(1000, 150, 1.0), (5000, 256, 0.3), (30_000, 20_000, 1.0)])
def test_what_a_table_loses_to_noise_is_forecast(records, cells, epsilon):
    """Simulated with as many filled cells as are assumed, whose numbers of people have an exponential law."""
    rng, found = np.random.default_rng(4), []
    filled = round(cells * (1 - (1 + records / cells) ** -FILLED))
    noise = 1 - np.exp(-epsilon)
    deviation = np.sqrt(2 * (1 - noise)) / noise
    for _ in range(20):
        counts = np.zeros(cells)
        counts[:filled] = rng.exponential(records / filled, filled)
        noisy = counts + rng.geometric(noise, cells) - rng.geometric(noise, cells)
        found.append(float(nearest_table(noisy, counts.sum())[filled:].sum() / counts.sum()))
    measured = float(np.mean(found))
    said = lost_to_noise(records, cells, deviation)
    assert said == pytest.approx(measured, rel=0.25)
    assert abs(said / measured - 1) < min(abs(said / measured * factor - 1) for factor in (0.6, 1.6))
    assert lost_to_noise(records, cells, 1e-6) == pytest.approx(0, abs=1e-9)
