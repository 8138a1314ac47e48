"""The delta of discovered codes: the probability that a code that only one unit has reaches the threshold.

Noise is added to the counts of the codes that occur, and to no others. So a code that only one unit has can be
published, if its noisy count reaches the threshold. Delta is the largest probability of that, over every way
in which a unit of b rows can divide them among codes of its own: b rows in one code, or one row in each of b codes, or
anything in between. The theorem and its proof are in docs/theory/discovered-codes.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from understudy.core.exact_numbers import show_up
from understudy.errors import InputError

DIRECT = 2**14  # up to this scale the tail is added up term by term; beyond, it is bounded by an integral
REACH = 40.0  # standard deviations beyond which a term is below the smallest double
ROUNDING = 1 + 1e-9  # far more than the rounding error of sums of doubles
DIGITS = 6  # of a stated delta, rounded up: machines that round differently state the same
MOST_ROWS = 10_000  # of one unit; the worst way to divide them among codes is searched


def gaussian_tail(scale: float, least: int) -> float:
    """P(Z >= least) for discrete Gaussian noise, rounded up; 1 if ``least`` is 0 or below.

    >>> round(gaussian_tail(1.0, 1), 6)
    0.300529
    """
    if least <= 0:
        return 1.0
    normaliser = _normaliser(scale)
    if scale <= DIRECT:
        steps = np.arange(least, least + math.ceil(REACH * scale) + 2, dtype=np.float64)
        tail = math.fsum(np.exp(-((steps / scale) ** 2) / 2))
    else:  # the terms fall, so that all but the first are below the integral
        below = math.sqrt(math.pi / 2) * scale * math.erfc(least / scale / math.sqrt(2))
        tail = math.exp(-((least / scale) ** 2) / 2) + below
    return min(tail / normaliser * ROUNDING, 1.0)


def _normaliser(scale: float) -> float:
    """The sum over all whole numbers, rounded down."""
    if scale <= 4:
        steps = np.arange(1, math.ceil(REACH * scale) + 2, dtype=np.float64)
        return (1 + 2 * math.fsum(np.exp(-((steps / scale) ** 2) / 2))) / ROUNDING
    return math.sqrt(2 * math.pi) * scale / ROUNDING  # Poisson summation: what is left out is positive


@lru_cache(maxsize=1024)
def stability_delta(scale: Fraction, threshold: int, rows: int) -> Fraction:
    """The largest probability that any code of one unit alone, with ``rows`` rows in all, reaches the threshold.

    The unit may divide its rows among codes in any way. The worst division is found by dynamic
    programming: -log of the probability that nothing is published adds up over codes.

    Here two rows in one code are worse than one row in each of two codes: they are as likely to be published as a
    single row at a threshold that is lower by one.

    >>> stability_delta(Fraction(1), 5, 2) == stability_delta(Fraction(1), 4, 1)
    True
    """
    if rows > MOST_ROWS:
        raise InputError(
            f"codes are found for units of at most {MOST_ROWS:,} rows, not {rows:,}; list the levels instead."
        )
    seen = np.array([gaussian_tail(float(scale), threshold - own) for own in range(1, rows + 1)])
    if seen.max() >= 1 or threshold <= rows:
        return Fraction(1)
    unseen = -np.log1p(-seen)  # of a code with 1, 2, ... rows
    worst = np.zeros(rows + 1)
    for total in range(1, rows + 1):
        worst[total] = float((unseen[:total] + worst[total - 1 :: -1][:total]).max())
    delta = min(-math.expm1(-float(worst[rows])) * ROUNDING, 1.0)
    return min(Fraction(show_up(Fraction(delta), DIGITS)), Fraction(1))


@lru_cache(maxsize=256)
def least_threshold(scale: Fraction, rows: int, delta: Fraction) -> int:
    """The smallest threshold with a delta of at most this."""
    if delta <= 0:
        raise InputError("codes are found with a positive delta.")
    low, high = rows, rows + max(2, math.ceil(float(scale)))
    while stability_delta(scale, high, rows) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if stability_delta(scale, middle, rows) <= delta:
            high = middle
        else:
            low = middle
    return high
