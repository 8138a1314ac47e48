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

from understudy.core.arrays import Floats, Integers
from understudy.core.exact_numbers import float_down, float_up
from understudy.privacy.mechanisms.cell_estimates import CONCENTRATIONS, MOST_LISTED, guesses, noise_law, shares_vary
from understudy.privacy.mechanisms.flow_mixture import ANSWERS, BALANCED, NOISE, SizedLaws
from understudy.privacy.mechanisms.ring_division import (
    cell_shares,
    is_graded,
    ring_bounds,
    rings_and_sectors,
    usable_cells,
)
from understudy.privacy.promise.calibrate_dirichlet import pure_prior, round_prior

MOST_CELLS = 256
MOST_BALANCED = 12  # up to so many cells, noise that adds up to 0 is clearly smaller and quickly drawn
TRIED = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 30, 40, 48, 55, 64, 80, 96, 112, 128, 160, 192, 256)
MOST_EXACT_CELLS = 16  # with more cells the exact error of a guess is not relied on
SIZE_STEPS = 1.15  # ratio of neighbouring sizes for which the law is decided
OWN_CELL = 4.0  # a home outside that is expected to have so many jobs, in units of the noise scale, is a cell by itself
MOST_OUTSIDE = 16
BY_DIRECTION = 0.02  # weight of a squared error of the direction beside one of the distance


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one job may cost at its destination: the prior of an answer and the scale of noise follow from it."""

    prior: Fraction
    scale: Fraction
    places: int
    answers: bool = True  # whether sizes are public, so that every job may answer
    outside: float = 0.0  # the part of all jobs that is held from outside, where homes outside have their own cells
    homes: tuple[float, ...] = ()  # what single homes outside have of it, the largest first

    @classmethod
    def of(
        cls,
        epsilon: Fraction,
        *,
        jobs: int,
        moved: int,
        places: int,
        answers: bool,
        outside: float = 0.0,
        homes: tuple[float, ...] = (),
    ) -> Budget:
        """For a unit of ``jobs`` jobs that moves the counts of cells by ``moved`` in all."""
        prior = round_prior(Fraction(pure_prior(float_down(epsilon / jobs), 1) * (1 + 2.0**-50)))
        return cls(
            prior=prior, scale=Fraction(float_up(moved / epsilon)), places=places, answers=answers,
            outside=outside, homes=homes,
        )  # fmt: skip

    def cells_outside(self, size: int) -> int:
        """How many cells a destination has for homes outside: those that are expected to stand out from the noise, and
        one for all others."""
        if not self.outside:
            return 0
        clear = sum(size * self.outside * share >= OWN_CELL * float(self.scale) for share in self.homes[:MOST_OUTSIDE])
        return max(min(clear + 1, len(self.homes)), 1)


def choose_laws(sizes: Integers, budget: Budget) -> SizedLaws:
    """The law and the cells for all sizes that occur."""
    largest = int(sizes.max(initial=0))
    steps, size = [], 1
    while size <= max(largest, 1):
        steps.append(size)
        size = max(size + 1, int(size * SIZE_STEPS))
    occurring = np.unique(np.searchsorted(steps, sizes[sizes > 0], side="right") - 1)
    taken = [steps[step] for step in occurring.tolist()]
    beyond = {size: budget.cells_outside(size) for size in taken} if budget.outside else {}
    return SizedLaws(entries={size: best_law(size, budget) for size in taken}, outside=beyond)


@lru_cache(maxsize=65536)
def best_law(size: int, budget: Budget) -> tuple[int, int]:
    """The law with the least expected error, and its number of cells, which is never above the number of places."""
    most = max(min(budget.places, MOST_CELLS, 16 * size + 8), 2)
    cells = np.unique(usable_cells(np.array([number for number in TRIED if number <= most])))
    candidates = []
    for number in cells.tolist():
        if budget.answers:
            candidates.append((expected_error(size, number, ANSWERS, budget), ANSWERS, number))
        law = BALANCED if budget.answers and number + budget.cells_outside(size) <= MOST_BALANCED else NOISE
        candidates.append((expected_error(size, number, law, budget), law, number))
    return min(candidates)[1:]


def expected_error(size: int, cells: int, law: int, budget: Budget) -> float:
    """The expected squared error of a mean of distance and direction, averaged over how far destinations differ. Where
    there are homes outside, it is a mean over those inside, and all cells are hidden by the noise alike."""
    graded = law != ANSWERS and bool(is_graded(np.array(cells)))
    apart, direction = explained(cells, graded)
    distance = float((apart**2 * _shares(cells, graded)).sum())
    off = None if law == ANSWERS else _off(size, cells, budget, law == BALANCED)
    inside = max(size * (1 - budget.outside), 1.0)
    errors = []
    for number, concentration in enumerate(CONCENTRATIONS):
        varies = float(shares_vary(size, concentration))
        if off is None:
            true = float(1 / (1 + (cells + budget.cells_outside(size)) * budget.prior))
            noise = (1 - true**2) / (size * true**2)
            near = turned = noise / (varies + noise)
        else:
            known = _varies(size, cells, varies, budget)
            near = min(float((apart**2 * off[:, number]).sum() / (apart**2 * known).sum()), 1.0)
            turned = min(float(off[:, number].sum() / known.sum()), 1.0)
        errors.append(
            _error(inside, distance, concentration, near)
            + BY_DIRECTION * _error(inside, direction, concentration, turned)
        )
    return float(np.mean(errors))


def _error(size: float, part: float, concentration: float, unknown: float) -> float:
    """The squared error of one mean, if cells tell ``part`` of its variance and noise hides ``unknown`` of that.

    Single workers are spread over all cells. The difference of a destination from the others is a slope over the cells,
    of which they show the square of their part.
    """
    alone, together = 1 / size, (1 - 1 / size) / (concentration + 1)
    known = (part * alone + part**2 * together) * unknown
    return known + (1 - part) * alone + together * (1 - part) * (1 - part + 2 * part * unknown)


def _shares(cells: int, graded: bool) -> Floats:
    """The share of the model in each ring, all its sectors together."""
    return np.asarray(np.diff(ring_bounds(int(rings_and_sectors(np.array([cells]))[0][0]), graded)))


def _expected(cells: int, budget: Budget) -> Floats:
    """The share of all jobs that is expected in one cell of each ring."""
    return cell_shares(cells, bool(is_graded(np.array(cells)))) * (1 - budget.outside)


def _varies(size: int, cells: int, varies: float, budget: Budget) -> Floats:
    """The variance of the count of one cell of each ring, if ``varies`` is that of a mean of one worker's."""
    share = _expected(cells, budget)
    return np.asarray(size**2 * share * (1 - share) * varies)


def _off(size: int, cells: int, budget: Budget, balanced: bool) -> Floats:
    """The expected squared error of the guessed count of one cell of each ring (rows), by concentration."""
    share, every = _expected(cells, budget), cells + budget.cells_outside(size)
    if size <= MOST_LISTED // 2 and cells <= MOST_EXACT_CELLS:
        return np.stack([guesses(size, every, budget.scale, balanced, one).off for one in share.tolist()])
    law = noise_law(budget.scale, every, balanced)
    noise = float((law * (np.arange(len(law)) - len(law) // 2) ** 2).sum())
    varies = np.stack([_varies(size, cells, float(shares_vary(size, one)), budget) for one in CONCENTRATIONS], axis=1)
    return np.asarray(varies * noise / (varies + noise))


@lru_cache(maxsize=1024)
def explained(cells: int, graded: bool) -> tuple[Floats, float]:
    """How far the mean distance of each ring is from that of all, in standard deviations between workers; and the part
    of the variance of directions that lies between sectors."""
    rings, sectors = (int(part[0]) for part in rings_and_sectors(np.array([cells])))
    left = 1 - ring_bounds(rings, graded)  # the share of workers beyond each edge; distances are -log of it
    beyond = left * (1 - np.log(np.maximum(left, 1e-300)))  # what they add to the mean distance
    angle = np.pi / sectors
    return (beyond[:-1] - beyond[1:]) / (left[:-1] - left[1:]) - 1, float((np.sin(angle) / angle) ** 2)
