"""Exact deltas of Gaussian noise that stays within a bound, and the exact loss of the exponential mechanism on counts.

docs/theory/bounded-noise.md has the theorems. A table alone has the exact delta of its two moved cells. Several tables
are composed as approximate zCDP: the loss of the noise is that of Gaussian noise, and the ends are a delta.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.exact_numbers import float_up
from understudy.errors import UnsupportedError

MOST_BOUND = 3_000  # of trimmed noise: its law is listed
STEPS = 60  # of the search for a scale
SLACK = 1e-9  # relative: what sums of floats may be off by
LEAST_DELTA = Fraction(1, 10**300)  # an end is never quite impossible, but floats below this are 0


def trimmed_law(scale: float, bound: int) -> tuple[Floats, Floats]:
    """The values of trimmed Gaussian noise, from minus the bound to the bound, and their probabilities."""
    values = np.arange(-bound, bound + 1, dtype=np.float64)
    weights = np.exp(-((values / scale) ** 2) / 2)
    return values, np.asarray(weights / weights.sum())


def trimmed_delta(scale: float, bound: int, epsilon: float, moved: int) -> float:
    """The exact delta at an epsilon, if one unit moves so many cells (one or two) by one.

    Against the neighbour whose count is one more, noise z is noise z - 1: the lowest value has none, which is an
    infinite loss, and others have the loss (1 - 2z) / 2 scale². Two cells add their losses.
    """
    if moved not in (1, 2):
        raise UnsupportedError(f"the loss of trimmed noise is known for one or two cells that move, not for {moved}.")
    values, chances = trimmed_law(scale, bound)
    kept, other = chances[1:], chances[:-1]  # noise z, and the neighbour's probability of the same value
    losses = (1 - 2 * values[1:]) / (2 * scale**2)  # falls with z
    end = float(chances[0])
    infinite = end if moved == 1 else end * (2 - end)  # not one minus the rest: delta may be as small as that rounds
    if moved == 1:
        above = losses > epsilon
        return infinite + math.fsum(kept[above]) - math.exp(epsilon) * math.fsum(other[above])
    # For each noise of the first cell, the noises of the second with which both lose more than epsilon: the lowest.
    ends = np.searchsorted(-losses, -(epsilon - losses), side="left")
    own, neighbours = (np.concatenate([[0.0], np.cumsum(part)]) for part in (kept, other))
    return infinite + math.fsum(kept * own[ends]) - math.exp(epsilon) * math.fsum(other * neighbours[ends])


@lru_cache(maxsize=256)
def trimmed_scale(epsilon: float, delta: float, bound: int, moved: int) -> float | None:
    """The smallest scale with which noise of this bound keeps (epsilon, delta); None if there is none.

    A small scale loses too much per step, a large one puts too much probability on the ends, so delta falls and then
    grows with the scale. The smallest one that keeps the promise has the least variance.
    """
    if not 1 <= bound <= MOST_BOUND:
        raise UnsupportedError(f"the bound of trimmed noise ({bound:,}) must be between 1 and {MOST_BOUND:,}.")

    def kept(scale: float) -> bool:  # with room for a machine that sums a little differently and checks it again
        return trimmed_delta(scale, bound, epsilon, moved) * (1 + 2 * SLACK) <= delta

    grid = np.geomspace(0.05, 4.0 * bound, STEPS)
    good = next((place for place, scale in enumerate(grid) if kept(float(scale))), None)
    if good is None:
        return None
    low, high = float(grid[max(good - 1, 0)]), float(grid[good])
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if kept(middle) else (middle, high)
    return high


@lru_cache(maxsize=1024)
def outside_delta(scale: Fraction, bound: int, l1: int, linf: int) -> Fraction:
    """The most probability of noise that a neighbour's noise cannot imitate, over all cells that one unit moves.

    A cell that moves by s shares all outputs with its neighbour but s at one end. The probability of these grows faster
    than s, so the worst way to divide ``l1`` among cells that move by at most ``linf`` is to move few cells far.
    """
    if not 1 <= linf <= bound:
        raise UnsupportedError(f"one unit moves a count by {linf:,}, and trimmed noise stays within {bound:,}.")
    _, chances = trimmed_law(float(scale), bound)
    far, rest = divmod(l1, linf)
    total = far * math.fsum(chances[:linf]) + math.fsum(chances[:rest])
    return max(Fraction(float_up(Fraction(total * (1 + SLACK)))), l1 * LEAST_DELTA)


def exponential_step(rate: float) -> Fraction:
    """r + ln(1 + q - q²) with q = e^-r, rounded up: the loss of a count of 0 against a count of 1."""
    q = math.exp(-rate)
    return Fraction(float_up(Fraction((rate + math.log1p(q - q * q)) * (1 + SLACK))))
