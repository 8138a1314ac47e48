"""Which law the destinations of a size get, and over how many cells: the one with the least expected error.

The error is that of the mean commute of a destination, its distance and its direction, in units of the variance between
workers. It is expected under a public model: homes fall off with distance exponentially and lie in all directions, and
destinations differ from one another as in ``cell_estimates``. Nothing here looks at the data.
See docs/theory/commute.md, "Which law", also for the few numbers that were chosen by looking at files.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from understudy.commutes.models.regions import rings_and_sectors, usable_cells
from understudy.core.arrays import Integers
from understudy.core.exact_numbers import float_down, float_up
from understudy.privacy.mechanisms.cell_estimates import CONCENTRATIONS, MOST_LISTED, guesses, noise_law, shares_vary
from understudy.privacy.mechanisms.flow_mixture import ANSWERS, BALANCED, NOISE, SizedLaws
from understudy.privacy.promise.calibrate_dirichlet import pure_prior, round_prior

MOST_CELLS = 256
MOST_BALANCED = 12  # up to so many cells, noise that adds up to 0 is clearly smaller and quickly drawn
TRIED = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256)
MOST_EXACT_CELLS = 16  # with more cells the exact error of a guess is not relied on
SIZE_STEPS = 1.15  # ratio of neighbouring sizes for which the law is decided
BY_DIRECTION = 0.02  # weight of a squared error of the direction beside one of the distance


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one job may cost at its destination: the prior of an answer and the scale of noise follow from it."""

    prior: Fraction
    scale: Fraction
    places: int
    answers: bool = True  # whether sizes are public, so that every job may answer

    @classmethod
    def of(cls, epsilon: Fraction, *, jobs: int, moved: int, places: int, answers: bool) -> Budget:
        """For a unit of ``jobs`` jobs that moves the counts of cells by ``moved`` in all."""
        prior = round_prior(Fraction(pure_prior(float_down(epsilon / jobs), 1) * (1 + 2.0**-50)))
        return cls(prior=prior, scale=Fraction(float_up(moved / epsilon)), places=places, answers=answers)


def choose_laws(sizes: Integers, budget: Budget) -> SizedLaws:
    """The law and the cells for all sizes that occur."""
    largest = int(sizes.max(initial=0))
    steps, size = [], 1
    while size <= max(largest, 1):
        steps.append(size)
        size = max(size + 1, int(size * SIZE_STEPS))
    occurring = np.unique(np.searchsorted(steps, sizes[sizes > 0], side="right") - 1)
    return SizedLaws(entries={steps[step]: best_law(steps[step], budget) for step in occurring.tolist()})


@lru_cache(maxsize=65536)
def best_law(size: int, budget: Budget) -> tuple[int, int]:
    """The law with the least expected error, and its number of cells, which is never above the number of places."""
    most = max(min(budget.places, MOST_CELLS, 16 * size + 8), 2)
    cells = np.unique(usable_cells(np.array([number for number in TRIED if number <= most])))
    candidates = []
    for number in cells.tolist():
        if budget.answers:
            candidates.append((expected_error(size, number, ANSWERS, budget), ANSWERS, number))
        law = BALANCED if budget.answers and number <= MOST_BALANCED else NOISE
        candidates.append((expected_error(size, number, law, budget), law, number))
    return min(candidates)[1:]


def expected_error(size: int, cells: int, law: int, budget: Budget) -> float:
    """The expected squared error of a mean of distance and direction, averaged over how far destinations differ."""
    errors = []
    for number, concentration in enumerate(CONCENTRATIONS):
        varies = float(shares_vary(size, concentration))
        if law == ANSWERS:
            true = float(1 / (1 + cells * budget.prior))
            noise = (1 - true**2) / (size * true**2)
            unknown = noise / (varies + noise)
        else:
            off = _off(size, cells, budget.scale, law == BALANCED, number) * cells**2 / ((cells - 1) * size**2)
            unknown = min(off / varies, 1.0)
        errors.append(sum(weight * _error(size, part, concentration, unknown) for weight, part in explained(cells)))
    return float(np.mean(errors))


def _error(size: int, part: float, concentration: float, unknown: float) -> float:
    """The squared error of one mean, if cells tell ``part`` of its variance and noise hides ``unknown`` of that.

    Single workers are spread over all cells. The difference of a destination from the others is a slope over the cells,
    of which they show the square of their part.
    """
    alone, together = 1 / size, (1 - 1 / size) / (concentration + 1)
    known = (part * alone + part**2 * together) * unknown
    return known + (1 - part) * alone + together * (1 - part) * (1 - part + 2 * part * unknown)


def _off(size: int, cells: int, scale: Fraction, balanced: bool, kind: int) -> float:
    """The expected squared error of the guessed count of a cell."""
    if size <= MOST_LISTED // 2 and cells <= MOST_EXACT_CELLS:
        return float(guesses(size, cells, scale, balanced).off[kind])
    law = noise_law(scale, cells, balanced)
    noise = float((law * (np.arange(len(law)) - len(law) // 2) ** 2).sum())
    varies = size**2 * (1 - 1 / cells) / cells * float(shares_vary(size, CONCENTRATIONS[kind]))
    return varies * noise / (varies + noise)


@lru_cache(maxsize=1024)
def explained(cells: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """For distance and for direction: their weight, and the part of their variance that lies between cells."""
    rings, sectors = (int(part[0]) for part in rings_and_sectors(np.array([cells])))
    left = 1 - np.arange(rings + 1) / rings  # the share of workers beyond each edge; distances are -log of it
    beyond = left * (1 - np.log(np.maximum(left, 1e-300)))  # what they add to the mean distance
    means = (beyond[:-1] - beyond[1:]) * rings
    angle = np.pi / sectors
    return (1.0, float(((means - 1) ** 2).mean())), (BY_DIRECTION, float((np.sin(angle) / angle) ** 2))
