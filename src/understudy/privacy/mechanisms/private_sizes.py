"""The prior of a draw whose number of records is private: sound for one record more or fewer, whatever their number.

Theorem 6 of docs/theory/commute.md: with K cells of prior a, A = K a, and m rows, the draw is (epsilon, delta)-private
for one record more or fewer if A >= m / (e^epsilon - 1) and E[((1 + M/a) T/(T + m) - e^epsilon)+] <= delta for every
T >= A and a beta-binomial M of m rows with sizes a and T - a. Theorem 4.1 would ask for that much prior in each cell.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from understudy.privacy.exact.dirichlet_profile import log_weights
from understudy.privacy.promise.calibrate_dirichlet import pure_prior, round_prior, safety

MOST_ROWS = 100_000  # beyond, Theorem 4.1's prior is taken
SIZE_STEP = 1.05
LARGEST_URN = 1_000  # times the prior: far beyond the size at which most is lost
CLOSE = 1.002  # a bisection ends when what holds is so close to what does not


def private_delta(prior: float, total: float, rows: int, epsilon: float) -> float:
    """An upper bound of delta(epsilon) for one record more or fewer; 1 where nothing is proved.

    ``total`` is the prior of all cells together. The sizes T of the urn are gone through in steps: rows fall into the
    cell most often at the least T of a step, and T/(T + m) is largest at its most. It ends where even without that
    factor, which then falls with T, no more is lost.
    """
    if total * math.expm1(epsilon) < rows or total < prior:
        return 1.0
    first = math.floor(math.expm1(epsilon) * prior * (1 - 1e-12))
    if first >= rows:
        return 0.0
    likely = 1 + np.arange(first, rows + 1) / prior
    own = log_weights(prior, rows)[first:]
    size, worst = total, 0.0
    while True:
        chances = np.exp(own + log_weights(size - prior, rows)[::-1][first:] - log_weights(size, rows)[rows])
        following = size * SIZE_STEP
        factor = following / (following + rows)
        worst = max(worst, math.fsum(chances * np.maximum(likely * factor - math.exp(epsilon), 0.0)))
        if math.fsum(chances * np.maximum(likely - math.exp(epsilon), 0.0)) <= worst:
            return min(1.0, worst)
        size = following


@lru_cache(maxsize=65536)
def private_prior(epsilon: float, promise: float, cells: int, rows: int) -> float:
    """The smallest prior found with which a draw over so many cells keeps the promise. What a bisection ends at was
    checked as it is drawn, with its binary digits: nothing rests on monotonicity."""
    if rows > MOST_ROWS:
        return pure_prior(epsilon, rows) * (1 + 2.0**-50)

    def rounded(prior: float) -> float:
        return float(round_prior(Fraction(prior)))

    def holds(prior: float) -> bool:
        total = cells * prior
        allowed = promise * (1 - safety(rows, LARGEST_URN * total))
        return private_delta(prior, total, rows, epsilon) <= allowed

    high = rounded(pure_prior(epsilon, rows) * (1 + 2.0**-50))
    low = pure_prior(epsilon, rows) / cells
    least = rounded(low * (1 + 2.0**-50))
    if holds(least):
        return least
    for _ in range(40):
        middle = rounded(math.sqrt(low * high))
        if middle >= high or high <= low * CLOSE:
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def private_cells(epsilon: float, promise: float, rows: int, room: float) -> int:
    """About the largest number of cells whose priors together stay within the room, which must hold one pure prior."""
    cells = 2
    while cells * 2 * private_prior(epsilon, promise, cells * 2, rows) <= room and cells < 2**30:
        cells *= 2
    step = cells // 2
    while step:
        if (cells + step) * private_prior(epsilon, promise, cells + step, rows) <= room:
            cells += step
        step //= 2
    return cells
