"""A sound guarantee for random domain shrinking (Machanavajjhala et al. 2008, Algorithm 2).

The paper's Theorem 5.2 keeps the delta of the full domain, which is false for small f: the shrunk domain dilutes less.
Here delta is computed for the smallest domain that can occur, or for one that the retained domain is smaller than with
a probability that is added to delta. Theorem and proof are in docs/theory/commute.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from understudy.core.exact_numbers import float_down
from understudy.errors import UnsupportedError
from understudy.privacy.exact.dirichlet_profile import PriorShape, delta
from understudy.privacy.promise.calibrate_dirichlet import safety
from understudy.privacy.promise.definition import Unit

TAIL_SHARE = 0.01  # of delta: the probability that the retained domain is smaller than assumed
REPLACE = Unit(kind="replace")
MOST_DOUBLINGS = 12  # beyond, a larger prior only makes c larger
TABLE_ERROR = 2.0**-44  # total variation of the tables that draw how many places are retained


def growth(prior: float, records: int, rows: int, others: int) -> float:
    """c: the inverse of the probability that an empty cell draws nothing, ``others`` further cells being retained.

    1/c = prod over r < rows of (T + r) / (T + prior + r), with T = records + (others + 1) prior the size of the urn
    without that cell. For prior <= 1 and rows <= records it is at least 1/2: the paper's ln 2.
    """
    size = records + (others + 1) * prior
    return math.exp(min(float(np.log1p(prior / (size + np.arange(rows))).sum()), 700.0))


def shrunk_delta(prior: float, *, epsilon: float, least_keep: float, records: int, rows: int, others: int = 0) -> float:
    """An upper bound of delta(epsilon) of a shrunk draw, given that at least ``others`` more cells are retained.

    c * delta_DM(epsilon - ln(1/f) - ln c) on a domain of the two cells in question and the others.
    """
    times = growth(prior, records, rows, others)
    left = epsilon + math.log(least_keep) - math.log(times)
    if left <= 0:
        return 1.0
    shape = PriorShape(smallest=prior, second=prior, total=(others + 2) * prior, cells=max(others + 2, 3), rows=rows)
    tables = (1.0 + math.exp(min(epsilon, 700.0))) * TABLE_ERROR
    return min(1.0, times * delta(shape, records, REPLACE, left) + tables)


def shrunk_prior(
    epsilon: Fraction, promise: Fraction, *, least_keep: Fraction, records: int, rows: int, others: int = 0
) -> float:
    """The smallest prior found with which a shrunk draw is (epsilon, delta)-differentially private.

    The bound is not proved to fall with the prior, so whatever a bisection ends at is checked again: the answer is
    sound even where it is not the smallest.
    """
    loss, keep = float_down(epsilon), float_down(least_keep)
    allowed = float_down(promise) * (1 - TAIL_SHARE if others else 1.0)

    def holds(prior: float) -> bool:
        bound = shrunk_delta(prior, epsilon=loss, least_keep=keep, records=records, rows=rows, others=others)
        return bound <= allowed * (1 - safety(rows, records + (others + 2) * prior))

    high = rows / math.expm1(max(loss + math.log(keep) - math.log(2), 1e-9))
    tries = 0
    while not holds(high):
        high *= 2
        tries += 1
        if tries > MOST_DOUBLINGS:
            raise UnsupportedError(
                f"epsilon ({loss:g}) is too small for shrinking with probabilities down to {keep:g} and {rows:,} rows: "
                f"ln(1/f) alone is {-math.log(keep):.3g}. Use a larger f, a coarser domain, or a larger epsilon."
            )
    low = high
    while holds(low) and low > 1e-9:
        high, low = low, low / 2
    for _ in range(40):
        middle = math.sqrt(low * high)
        if holds(middle):
            high = middle
        else:
            low = middle
    return high * (1 + 1e-9)


def surely_retained(expected: float, promise: float) -> int:
    """A number of cells that are retained but for a probability of TAIL_SHARE * delta, ``expected`` on average.

    Chernoff: a sum of independent indicators with mean mu is at most (1 - t) mu with probability at most
    exp(-mu (t + (1 - t) ln(1 - t))).
    """
    wanted = -math.log(TAIL_SHARE * promise)
    if expected <= wanted:
        return 0

    def exponent(share: float) -> float:
        return expected * (1.0 if share >= 1 else share + (1 - share) * math.log1p(-share))

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if exponent(middle) >= wanted:
            high = middle
        else:
            low = middle
    return max(math.floor((1 - high) * expected), 0)


def published_epsilon(epsilon: float, least_keep: float, largest_prior: float) -> float:
    """Theorem 5.2 as printed: epsilon + max ln(1/f) + max ceil(alpha) ln 2.

    >>> round(published_epsilon(4.6, 0.0378, 0.04), 3)
    8.569
    """
    return epsilon - math.log(least_keep) + math.ceil(largest_prior) * math.log(2)
