"""What is known of the jobs in each cell of area pairs: its noisy count, read with a gravity model.

Both steps use noisy values and public facts alone. A gravity model (origin x destination x distance) is fitted to the
noisy margins by proportional fitting. Each cell is then a count that varies around its gravity value more than a
Poisson count: a negative binomial, observed with noise. How much cells vary is found by the likelihood of the noisy
values, for each class of gravity values and of destination sizes. The posterior of a cell follows. With little noise it
lies at the noisy value, with much noise at the gravity model: nothing is tuned by hand. For a cell that was not
reported, the observation is that it is below the threshold. See docs/theory/commute-tree.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.area_pairs import AreaPairs
from understudy.core.arrays import Floats, Integers
from understudy.core.mechanism import Mechanism

ROUNDS = 30  # of proportional fitting; it stops when no margin moves by more than TOLERANCE
TOLERANCE = 1e-3
LARGEST_STEP = 50.0  # by which one round may multiply a cell
LEAST = 1e-6  # the least expected jobs of a cell: nothing possible is ruled out
SHAPES = np.geomspace(0.02, 50, 18)  # of the negative binomial; large means Poisson
GROUPS = 4  # groups of destination sizes, and
CLASSES = 12  # classes of gravity values in each, at most; every class has its own shape
CELLS_PER_CLASS = 100  # at least so many, on average
STEPS = 8  # grid points per class
REACH = 14.0  # scales of noise on either side of a noisy value beyond which its count is not looked for
MOST_POINTS = 512  # counts are tabulated one by one up to so many, and in equal steps beyond


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyCells:
    """Noisy counts of all cells. ``reported`` is None if every cell has its value; otherwise the others are known to be
    at most ``threshold``, and their entry in ``values`` is the threshold."""

    values: Integers
    mechanism: Mechanism
    reported: NDArray[np.bool_] | None = None
    threshold: int = 0


def fit_gravity(
    pairs: AreaPairs, bins: Integers, *, origins: Floats, destinations: Floats, distances: Floats
) -> Floats:
    """Expected jobs per cell by origin, destination and distance alone.

    ``origins`` and ``destinations`` are estimated jobs of each finest area, ``distances`` of each distance class, and
    ``bins`` the class of each cell. Cells of coarser areas take part with the sums of their parts.
    """
    sides = [
        (area, _by_level(pairs, finest))
        for area, finest in ((pairs.origin, origins), (pairs.destination, destinations))
    ]
    expected: Floats = np.ones(len(pairs))
    for area, wanted in sides:
        for number, values in enumerate(wanted):
            own = pairs.level == number
            expected[own] *= values[area[own]]
    total = max(float(distances.sum()), 1.0)
    for _ in range(ROUNDS):
        before = expected
        reached = np.bincount(bins, expected, len(distances))
        expected = expected * (np.maximum(distances, LEAST) / np.maximum(reached, LEAST))[bins]
        for area, wanted in sides:
            expected = expected * _correction(pairs, area, expected, wanted)
        expected = np.maximum(expected, LEAST)
        if np.abs(expected - before).sum() < TOLERANCE * total:
            break
    return np.asarray(np.maximum(expected * (total / expected.sum()), LEAST))


def sizes_of_destinations(pairs: AreaPairs, destinations: Floats) -> Floats:
    """The jobs at the destination of each cell, from those of the finest areas."""
    sizes = np.empty(len(pairs))
    for number, values in enumerate(_by_level(pairs, destinations)):
        own = pairs.level == number
        sizes[own] = values[pairs.destination[own]]
    return sizes


def _by_level(pairs: AreaPairs, finest: Floats) -> list[Floats]:
    """Jobs of each area of each level, coarse to fine, summed up from the finest."""
    values = [np.maximum(finest, LEAST)]
    for level, above in zip(pairs.levels[:0:-1], pairs.levels[-2::-1], strict=True):
        values.insert(0, np.bincount(level.parent, values[0], len(above)))
    return values


def _correction(pairs: AreaPairs, area: NDArray[np.int32], expected: Floats, wanted: list[Floats]) -> Floats:
    """What each cell is multiplied by so that the sums of areas agree with what is wanted.

    The sum of an area is that of its own cells, of the cells of its parts, and its share of the cells of the areas it
    lies in.
    """
    levels = pairs.levels
    masks = [pairs.level == number for number in range(len(levels))]
    own = [np.bincount(area[mask], expected[mask], len(level)) for mask, level in zip(masks, levels, strict=True)]
    parts = [np.zeros(len(level)) for level in levels]
    for number in range(len(levels) - 2, -1, -1):
        inside = own[number + 1] + parts[number + 1]
        parts[number] = np.asarray(np.bincount(levels[number + 1].parent, inside, len(levels[number])), dtype=float)
    factor = np.ones(len(expected))
    inherited = np.zeros(len(levels[0]))
    for number, (level, mask) in enumerate(zip(levels, masks, strict=True)):
        if number:
            share = wanted[number] / wanted[number - 1][level.parent]
            inherited = (own[number - 1] + inherited)[level.parent] * share
        ratio = wanted[number] / np.maximum(own[number] + parts[number] + inherited, LEAST)
        factor[mask] = np.clip(ratio, 1 / LARGEST_STEP, LARGEST_STEP)[area[mask]]
    return factor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellBeliefs:
    """The posterior of every cell's count. Cells with the same gravity step and noisy value share one, a row of
    ``up_to``: the probability that the count is below ``first + step``, ``first + 2 step`` and so on."""

    row: Integers  # of each cell
    first: Integers  # of each row
    up_to: Floats
    step: int = 1

    def __len__(self) -> int:
        return len(self.row)

    def mean(self) -> Floats:
        """The expected count of each cell."""
        chances = np.diff(self.up_to, axis=1, prepend=0.0)
        middles = self.step * np.arange(chances.shape[1]) + (self.step - 1) / 2
        return np.asarray(np.maximum(self.first + chances @ middles, LEAST)[self.row])

    def at(self, cells: Integers, level: Floats, most: Integers) -> Integers:
        """For each of ``cells`` the least count that its own does not exceed with probability ``level``; none at level
        0, and ``most`` at level 1."""
        from understudy.commutes.models.flow_fit_compiled import counts_at

        found: Integers = counts_at(self.up_to, self.first, self.step, self.row[cells], level, most)
        return found


def believe_cells(gravity: Floats, noisy: NoisyCells, sizes: Floats | None = None) -> CellBeliefs:
    """The posterior of every cell, given its gravity value and its noisy value. ``sizes`` are the jobs at the
    destination of each cell: cells of small and of large destinations vary differently around gravity."""
    width = math.sqrt(noisy.mechanism.variance / 2)  # the scale, if noise is geometric
    reach = math.ceil(REACH * width) + 2
    points = 2 * reach + 1 + noisy.threshold
    step = -(-points // MOST_POINTS)
    # Noisy values that differ by little beside the noise are taken together: their posteriors are the same.
    together = max(int(width / 8), 1)
    values = noisy.values if together == 1 else np.asarray(np.rint(noisy.values / together) * together, dtype=np.int64)
    seen = np.ones(len(values), dtype=bool) if noisy.reported is None else noisy.reported
    first, up_to, row = [], [], np.empty(len(gravity), dtype=np.int64)
    rows = 0
    for own in _classes(gravity, sizes):
        means, mean_of = _steps(gravity[own])
        value = np.where(seen[own], values[own], noisy.threshold)
        keys = (mean_of * (np.ptp(value) + 1) + value - value.min()) * 2 + seen[own]
        _, one, which, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        least = np.where(seen[own][one], np.maximum(value[one] - reach, 0), 0)
        law = _noise_law(noisy, value[one], least, step, -(-points // step))
        first.append(least)
        up_to.append(_likeliest(means[mean_of[one]], least, step, law, times))
        row[own] = rows + which
        rows += len(least)
    return CellBeliefs(row=row, first=np.concatenate(first), up_to=np.concatenate(up_to), step=step)


def _classes(gravity: Floats, sizes: Floats | None) -> Iterator[Integers]:
    """Cells that have one shape: of like gravity values and, where there are many cells, of like destinations."""
    groups = [np.arange(len(gravity))]
    if sizes is not None and len(gravity) >= GROUPS * CLASSES * CELLS_PER_CLASS:
        groups = _parts(sizes, groups[0], GROUPS)
    for group in groups:
        yield from _parts(np.log(gravity), group, min(max(len(group) // CELLS_PER_CLASS, 1), CLASSES))


def _parts(values: Floats, cells: Integers, number: int) -> list[Integers]:
    """``cells`` in parts of about equal size by increasing values; equal values stay together."""
    edges = np.unique(np.quantile(values[cells], np.linspace(0, 1, number + 1)[1:-1]))
    part = np.searchsorted(edges, values[cells], side="right")
    return [cells[part == one] for one in np.unique(part)]


def _steps(gravity: Floats) -> tuple[Floats, Integers]:
    """A grid of gravity values, and the nearest of them for each cell."""
    low, high = np.log(gravity.min()), np.log(gravity.max())
    if high - low <= 1e-9:
        return np.array([gravity.mean()]), np.zeros(len(gravity), dtype=np.int64)
    nearest = np.rint((np.log(gravity) - low) / (high - low) * (STEPS - 1)).astype(np.int64)
    return np.exp(np.linspace(low, high, STEPS)), nearest


def _noise_law(noisy: NoisyCells, outputs: Integers, first: Integers, step: int, points: int) -> Floats:
    """log P(noisy value | count) for each value that occurs and the counts that it may come from. A value at the
    threshold of sparse noise means "not reported" to its law."""
    counts = first[:, None] + step * np.arange(points)[None, :] + (step - 1) // 2
    return np.asarray(noisy.mechanism.log_pmf(outputs[:, None], counts))


def _likeliest(means: Floats, first: Integers, step: int, law: Floats, times: Integers) -> Floats:
    """The posteriors of all rows of a class, under the shape for which its noisy values are likeliest."""
    best, found = -math.inf, law
    for shape in SHAPES:
        joint = _log_prior(shape, means, first, step, law.shape[1]) + law
        top = joint.max(axis=1, keepdims=True)
        chances = np.exp(joint - top)
        sums = chances.sum(axis=1, keepdims=True)
        likelihood = float((times * (np.log(sums) + top).ravel()).sum())
        if likelihood > best:
            best, found = likelihood, chances / sums
    up_to = np.minimum(np.cumsum(found, axis=1), 1.0)
    up_to[:, -1] = 1.0
    return np.asarray(up_to)


def _log_prior(shape: float, means: Floats, first: Integers, step: int, points: int) -> Floats:
    """log P(count) of the negative binomial law at the counts of each row, or of the step of counts that begins
    there."""
    from scipy.special import betainc, gammaln

    ratio = (means / (means + shape))[:, None]
    if step == 1:
        counts = first[:, None] + np.arange(points)[None, :]
        every = np.arange(counts.max() + 1, dtype=np.float64)
        rising = gammaln(every + shape) - gammaln(every + 1) - gammaln(shape)
        return np.asarray(rising[counts] + shape * np.log1p(-ratio) + counts * np.log(ratio))
    edges = (first[:, None] + step * np.arange(points + 1)[None, :]).astype(np.float64)
    beyond = betainc(np.maximum(edges, 1.0), shape, ratio)  # P(count >= edge)
    beyond[edges == 0] = 1.0
    return np.asarray(np.log(np.maximum(-np.diff(beyond, axis=1), np.finfo(float).tiny)))
