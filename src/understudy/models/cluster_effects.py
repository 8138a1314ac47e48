"""The design effect of clusters, from noisy counts: how alike neighbours are, times how many others a row has.

Public values in, public values out. See docs/theory/survey-weights.md, design effects measured inside the budget.
"""

from __future__ import annotations

import numpy as np

from understudy.core.arrays import Floats, Integers

LEAST_EFFECT = 0.5  # households balance the sexes, but no noisy estimate below this is believed
STEP = 1e-4


def design_effect(
    neighbours: Integers, sizes: Integers, variances: tuple[float, float], *, largest: int
) -> float:  # fmt: skip
    """One plus the likeness of neighbours times the mean number of others in the cluster of a row.

    The likeness is how much more often two neighbours are in the same class than two rows taken at random, as a share
    of the most that this could be. One standard error is added, from noise and from the number of pairs: an effect that
    is too small makes intervals too short. No effect is larger than that of clusters whose rows are all alike.
    ``variances``: of the noise on ``neighbours`` and on ``sizes``.
    """
    size = round(len(neighbours) ** 0.5)
    table = np.asarray(neighbours, np.float64).reshape(size, size)
    rows = max(float(sizes[1]), 1.0)
    others = float(np.clip(sizes[0] / rows, 0.0, largest - 1))
    off_others = variances[1] ** 0.5 * float(np.hypot(1.0, others)) / rows
    most = float(1 + min(others + off_others, largest - 1))
    if size < 2:
        return most  # of one class nothing is known
    alike, spread = _likeness(table, variances[0])
    effect = 1 + others * alike + float(np.hypot(alike * off_others, others * spread))
    return float(np.clip(effect, LEAST_EFFECT, most))


def _likeness(table: Floats, variance: float) -> tuple[float, float]:
    """How alike neighbours are, from -1 to 1, and the standard error of that."""
    pairs = float(table.sum())
    if pairs <= 2 * (variance * table.size) ** 0.5:
        return 1.0, 0.0  # noise hides whether there are pairs at all
    value = _of_pairs(table)
    slopes = np.empty(table.size)
    for place in range(table.size):
        moved = table.copy().reshape(-1)
        moved[place] += STEP * pairs
        slopes[place] = (_of_pairs(moved.reshape(table.shape)) - value) / (STEP * pairs)
    spread = float(np.sqrt(variance * (slopes @ slopes) + 1 / pairs))
    return float(np.clip(value, -1.0, 1.0)), min(spread, 1.0)


def _of_pairs(table: Floats) -> float:
    shares = np.maximum((table.sum(axis=0) + table.sum(axis=1)) / 2, 0.0)
    shares = shares / max(float(shares.sum()), 1e-9)
    by_chance = float(shares @ shares)
    same = float(np.trace(table) / table.sum())
    return (same - by_chance) / max(1 - by_chance, 1e-3)
