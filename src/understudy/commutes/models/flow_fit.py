"""Expected jobs in each cell of area pairs: the noisy count of each cell, shrunk towards a gravity model.

Both steps use noisy values and public facts alone. A gravity model (origin x destination x distance) is fitted to the
noisy margins by proportional fitting. Each cell is then a count that varies around its gravity value more than a
Poisson count: a negative binomial, observed with noise. How much cells vary is found by the likelihood of the noisy
values, for each class of gravity values. The estimate is the posterior mean. With little noise it is the noisy value
itself, with much noise it is the gravity model: nothing is tuned by hand. For a cell that was not reported, the
observation is that it is below the threshold. See docs/theory/commute-tree.md.
"""

from __future__ import annotations

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
CLASSES = 12  # classes of gravity values, each with its own shape
STEPS = 8  # grid points per class
LARGEST_TABULATED = 150  # for larger counts the posterior mean is computed from two normal laws


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


def trust_cells(gravity: Floats, noisy: NoisyCells) -> Floats:
    """The posterior mean of every cell's count, given its gravity value and its noisy value."""
    edges = np.unique(np.quantile(np.log(gravity), np.linspace(0, 1, CLASSES + 1)))
    member = np.clip(np.searchsorted(edges, np.log(gravity), side="right") - 1, 0, max(len(edges) - 2, 0))
    estimate = np.empty(len(gravity))
    for number in range(max(len(edges) - 1, 1)):
        own = np.flatnonzero(member == number)
        if len(own):
            estimate[own] = _trust_class(gravity[own], noisy, own)
    return np.maximum(estimate, LEAST)


def _trust_class(gravity: Floats, noisy: NoisyCells, own: Integers) -> Floats:
    values = noisy.values[own]
    seen = np.ones(len(own), dtype=bool) if noisy.reported is None else noisy.reported[own]
    low, high = np.log(gravity.min()), np.log(gravity.max())
    means = np.exp(np.linspace(low, high, STEPS)) if high - low > 1e-9 else np.array([gravity.mean()])
    step = np.clip(np.rint((np.log(gravity) - low) / max(high - low, 1e-9) * (len(means) - 1)), 0, None).astype(int)
    small = values <= LARGEST_TABULATED
    outputs, place = np.unique(values[small], return_inverse=True)
    # Rows of the table: the noisy values that occur, then "not reported".
    row = np.where(seen[small], place, len(outputs))
    cell = step[small] * (len(outputs) + 1) + row
    times = np.bincount(cell, minlength=len(means) * (len(outputs) + 1)).reshape(len(means), -1)
    law = _noise_law(noisy, outputs)
    shape, table = max((_posterior(shape, means, law, times) for shape in SHAPES), key=lambda found: found[0])[1:]
    estimate = np.empty(len(own))
    estimate[small] = table.ravel()[cell]
    # Two normals: the spread of counts around gravity against the variance of the noise.
    spread = gravity[~small] + gravity[~small] ** 2 / shape
    weight = spread / (spread + noisy.mechanism.variance)
    estimate[~small] = np.maximum(weight * values[~small] + (1 - weight) * gravity[~small], 0)
    return estimate


def _noise_law(noisy: NoisyCells, outputs: Integers) -> Floats:
    """P(noisy value | count) for each value that occurs, and last for "not reported"; counts along the second axis."""
    counts = np.arange(LARGEST_TABULATED + 1 + int(np.ceil(12 * noisy.mechanism.variance**0.5)))
    law = np.exp(noisy.mechanism.log_pmf(outputs[:, None], counts[None, :]))
    if noisy.reported is None:
        return np.vstack([law, np.zeros(len(counts))])
    return np.vstack([law, np.exp(noisy.mechanism.log_pmf(np.full(len(counts), noisy.threshold), counts))])


def _posterior(shape: float, means: Floats, law: Floats, times: Integers) -> tuple[float, float, Floats]:
    """Log likelihood of the noisy values of a class, and the posterior mean for each mean and noisy value."""
    from scipy.special import gammaln

    counts = np.arange(law.shape[1], dtype=np.float64)
    ratio = means[:, None] / (means[:, None] + shape)
    log_prior = gammaln(counts + shape) - gammaln(counts + 1) - gammaln(shape)
    log_prior = log_prior + shape * np.log1p(-ratio) + counts * np.log(ratio)
    prior = np.exp(log_prior)
    evidence, first = prior @ law.T, (prior * counts) @ law.T
    safe = np.maximum(evidence, np.finfo(float).tiny)
    likelihood = float((times * np.log(safe)).sum())
    return likelihood, shape, np.where(evidence > 0, first / safe, means[:, None])
