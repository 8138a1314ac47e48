"""Which law a size gets: the one with the least expected error, never more cells than places, whatever the budget."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from understudy.commutes.models.regions import usable_cells
from understudy.commutes.shared.laws import MOST_CELLS, Budget, best_law, choose_laws, expected_error
from understudy.privacy.mechanisms.flow_mixture import ANSWERS, BALANCED, NOISE

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


@pytest.mark.parametrize("law", [ANSWERS, BALANCED, NOISE])
def test_without_budget_a_destination_is_expected_where_the_model_says(law):
    """Noise that hides everything leaves the error of the model itself, however many cells there are."""
    given = budget("0.0001")
    found = [expected_error(20, cells, law, given) for cells in (2, 5, 16)]
    assert found == pytest.approx([found[0]] * 3, rel=0.01)
