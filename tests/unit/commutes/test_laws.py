"""Which law a size gets: the one with the least expected error, never more cells than places, whatever the budget."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from understudy.commutes.shared.laws import MOST_CELLS, Budget, best_law, choose_laws, expected_error
from understudy.privacy.mechanisms.flow_mixture import ANSWERS, BALANCED, NOISE
from understudy.privacy.mechanisms.ring_division import (
    cell_shares,
    is_graded,
    ring_bounds,
    rings_and_sectors,
    usable_cells,
)

EPSILONS = ("0.01", "0.25", "2", "8.6", "16")


def budget(epsilon, *, places=5_000, answers=True):
    return Budget.of(Fraction(epsilon), jobs=1, moved=2, places=places, answers=answers)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("places", [2, 40, 5_000])
def test_cells_are_usable_and_bounded_by_places_at_every_epsilon(epsilon, places):
    sizes = np.array([0, 1, 2, 7, 60, 900, 40_000, 2_000_000])
    laws, cells = choose_laws(sizes, budget(epsilon, places=places)).of(sizes[1:])
    assert set(laws.tolist()) <= {ANSWERS, BALANCED, NOISE}
    assert ((cells >= 2) & (cells <= max(min(places, MOST_CELLS), 2))).all()
    assert np.array_equal(usable_cells(cells), cells)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_private_sizes_get_noise_alone(epsilon):
    sizes = np.array([1, 5, 300])
    assert set(choose_laws(sizes, budget(epsilon, answers=False)).of(sizes)[0].tolist()) == {NOISE}


def test_the_law_is_the_one_with_the_least_expected_error():
    given = budget("1.84")
    for size in (1, 3, 12, 80):
        law, cells = best_law(size, given)
        least = expected_error(size, cells, law, given)
        for other in (ANSWERS, BALANCED, NOISE):
            assert least <= expected_error(size, cells, other, given)
    assert best_law(1, given)[0] == ANSWERS  # one job: nothing beats the answer itself
    assert best_law(12, given)[0] == BALANCED


def test_more_budget_or_more_jobs_are_never_worse():
    errors = [[_least(size, epsilon) for epsilon in EPSILONS] for size in (1, 4, 20, 200)]
    assert (np.diff(errors, axis=0) < 0).all()
    assert (np.diff(errors, axis=1) <= 0).all()


def _least(size, epsilon):
    given = budget(epsilon)
    law, cells = best_law(size, given)
    return expected_error(size, cells, law, given)


@pytest.mark.parametrize("law", [ANSWERS, *(pytest.param(law, marks=pytest.mark.full) for law in (BALANCED, NOISE))])
def test_without_budget_a_destination_is_expected_where_the_model_says(law):
    """Noise that hides everything leaves the error of the model itself, however many cells there are."""
    given = budget("0.001")
    found = [expected_error(20, cells, law, given) for cells in (2, 5, 16)]
    assert found == pytest.approx([found[0]] * 3, rel=0.01)


def _off_by(rings, graded, size, noise):
    """The squared error of the mean of ``size`` distances -log u, from rings whose counts have noise of a variance."""
    edges = -np.log(np.maximum(1 - ring_bounds(rings, graded), 1e-12))
    miles = -np.log(1 - (np.arange(4_000) + 0.5) / 4_000)
    ring = np.searchsorted(edges, miles, side="right") - 1
    inside = np.bincount(ring, minlength=rings)
    means = np.bincount(ring, miles, rings) / inside
    within = ((miles - means[ring]) ** 2).mean()
    return within / size + noise * ((means - 1) ** 2).sum() / size**2


@pytest.mark.parametrize(
    ("size", "noise", "gain"), [(100, 2.4, 0.97), (300, 2.4, 0.95), (300, 0.5, 0.9), (1_000, 0.5, 0.83)]
)
def test_graded_rings_tell_a_mean_better_than_the_best_number_of_equal_ones(size, noise, gain):
    """By summing over a list of distances, without the formulas of the choice."""
    best = [min(_off_by(rings, graded, size, noise) for rings in range(2, 40)) for graded in (False, True)]
    assert best[1] < gain * best[0]


def test_few_jobs_gain_nothing_from_graded_rings():
    best = [min(_off_by(rings, graded, 4, 2.4) for rings in range(2, 8)) for graded in (False, True)]
    assert best[1] > best[0]


@pytest.mark.parametrize("cells", [2, 8, 10, 14, 48, 250])
def test_shares_of_cells_add_up_and_fall_outwards_where_rings_are_graded(cells):
    rings, sectors = (int(part[0]) for part in rings_and_sectors(np.array([cells])))
    for graded in (False, True):
        shares = cell_shares(cells, graded)
        assert len(shares) == rings
        assert shares.sum() * sectors == pytest.approx(1)
        assert (np.diff(shares) < 0).all() if graded else shares == pytest.approx(1 / cells)
    assert is_graded(np.array([8, 9])).tolist() == [False, True]
