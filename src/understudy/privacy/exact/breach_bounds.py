"""Breach probability of Definition 6 from both sides, at a cost that hardly grows with the size of the table.

The probability is the maximum over all tables of a public size that the draw falls into the disclosure set of the
table. The upper bound adds up the cells. The worst spread of the records over cells is read off the concave envelope of
a cell's probability as a function of its records. The lower bound is that of one table of equal cells, whose draws are
negatively associated. Where breaches are rare the two bounds nearly meet. Where breaches are likely the lower bound
shows it. Theorems 6 to 8 of docs/theory/probabilistic-dp.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.privacy.exact.dirichlet_breach import Probability
from understudy.privacy.exact.dirichlet_profile import log_rising

TERMS = 48  # of a tail that are added one by one; the rest is bounded by a geometric series
ROUNDING = 1e-6  # relative: more than the rounding of a probability of up to 4 million rows
EDGE = 1e-10  # relative: a threshold this close to a whole number is rounded so that the bound stays valid
COARSE, FINE = 1.04, 1.005  # growth of prior and records over a run of counts that are bounded together
HOPELESS = 1e4  # times too large: finer runs do not gain that much
NEARLY = 30.0  # times too large: longer sums of tails do not gain that much
SHARES = (0.3, 0.5, 0.65, 0.8, 0.9)  # of the mean growth m/T of a cell, tried as the least growth of any cell
EMPTY_CELLS = (1, 2, 4, 8, 16)  # empty cells that are put beside the filled ones when the lower bound needs some
LARGEST_ROWS = 4_000_000  # up to which ROUNDING holds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runs:
    """Runs of counts of a cell that together are 0, ..., records."""

    least: Floats
    most: Floats

    @classmethod
    def of(cls, records: int, prior: float, growth: float) -> _Runs:
        starts = [0, 1][: records + 1]
        while (after := max(starts[-1] + 1, math.ceil((starts[-1] + prior) * growth - prior))) <= records:
            starts.append(after)
        least = np.array(starts, dtype=np.float64)
        return cls(least=least, most=np.append(least[1:] - 1, float(records)))


def upper_tail(first: Floats, inside: Floats, outside: Floats, rows: int, terms: int = TERMS) -> tuple[Floats, Floats]:
    """A lower and an upper bound on P(at least ``first`` of the rows fall into a cell), beta-binomial.

    ``inside`` and ``outside`` are the sizes (prior and records) of the cell and of all others. The ratio of two
    following terms is (rows - j)/(outside + rows - j - 1) (inside + j)/(j + 1). With ``outside`` of at least 1 the
    first factor falls with j; the second falls or stays below 1. So what follows the terms added one by one is at most
    a geometric series.
    """
    from scipy.special import gammaln

    start = np.clip(first, 0, rows)
    log_first = (
        gammaln(rows + 1) - gammaln(start + 1) - gammaln(rows - start + 1)
        + log_rising(inside, start) + log_rising(outside, rows - start) - log_rising(inside + outside, rows)
    )  # fmt: skip
    at = start[:, None] + np.arange(terms)[None, :]
    ahead = np.maximum(rows - at, 0.0)
    falling = ahead / np.maximum(outside[:, None] + ahead - 1, 1e-300)
    ratios = falling * (inside[:, None] + at) / (at + 1)
    chances = np.exp(np.minimum(log_first, 0.0))[:, None] * np.cumprod(
        np.concatenate([np.ones((len(start), 1)), ratios[:, :-1]], axis=1), axis=1
    )
    added = chances.sum(axis=1)
    last = falling[:, -1] * np.maximum(1.0, (inside + at[:, -1]) / (at[:, -1] + 1))
    series = np.where(last < 1, chances[:, -1] * last / np.maximum(1 - last, 1e-300), 1.0)
    usable = (outside >= 1) & (inside > 0)
    high = np.where(usable, np.minimum((added + series) * (1 + ROUNDING), 1.0), 1.0)
    low = np.where(usable, np.minimum(added * (1 - ROUNDING), 1.0), 0.0)
    impossible = first > rows
    return np.where(impossible, 0.0, np.where(first <= 0, 1.0, low)), np.where(impossible, 0.0, high)


def envelope_at(counts: Floats, values: Floats, at: float) -> tuple[float, tuple[int, int]]:
    """The least concave function above the points, at one place, and the numbers of the two points it lies between.

    Points come in the order of their counts, each count once.

    >>> envelope_at(np.array([0.0, 1, 2, 4]), np.array([0.0, 3, 2, 2]), 0.5)
    (1.5, (0, 1))
    """
    xs, ys = counts.tolist(), values.tolist()
    corners: list[int] = []
    for number, (x, y) in enumerate(zip(xs, ys, strict=True)):
        while len(corners) > 1:
            one, two = corners[-2], corners[-1]
            if (ys[two] - ys[one]) * (x - xs[one]) > (y - ys[one]) * (xs[two] - xs[one]):
                break
            corners.pop()
        corners.append(number)
    places = [xs[corner] for corner in corners]
    right = min(bisect_left(places, at), len(places) - 1)
    left = right if places[right] <= at else right - 1
    return float(np.interp(at, places, [ys[corner] for corner in corners])), (corners[left], corners[right])


def breach_bound(prior: float, cells: int, records: int, rows: int, epsilon: float, *, enough: float = 0.0) -> float:
    """An upper bound on the breach probability. Theorems 6 and 7.

    The search for a better bound ends at ``enough``, or where the lower bound shows that ``enough`` cannot be reached.

    With more cells than rows some cell stays empty and the least growth of a cell is 1. With fewer, a least growth
    above 1 may be sure enough to gain from.
    """
    if cells < 2 or records < 1 or rows < 1 or prior >= rows / math.expm1(epsilon):
        return 0.0  # Theorem 4.1
    if rows > LARGEST_ROWS:
        return 1.0
    bound = partial(_bound, prior, cells, records, rows, epsilon, enough=enough)
    best, single = bound(growth=1.0, run=COARSE)
    if best <= enough or breach_least(prior, cells, records, rows, epsilon) > enough > 0:
        return best
    if not single and (best < HOPELESS * enough or not enough):
        best = min(best, bound(growth=1.0, run=FINE)[0])
    if best > enough and cells <= rows and prior >= 1:
        growths = [1 + share * rows / (cells * prior + records) for share in SHARES]
        value, single, growth = min((*bound(growth=growth, run=COARSE), growth) for growth in growths)
        best = min(best, value)
        if best > enough and not single and (best < HOPELESS * enough or not enough):
            best = min(best, bound(growth=growth, run=FINE)[0])
    return best


def _bound(
    prior: float, cells: int, records: int, rows: int, epsilon: float, *, growth: float, run: float, enough: float
) -> tuple[float, bool]:
    """The sum over cells for the worst spread, and whether finer runs of counts could not improve it.

    All tails are bounded by their first term to begin with; only those on which the result rests are then added up.
    """
    runs = _Runs.of(records, prior, run)
    size = prior * cells + records
    # A threshold that is too low only makes the bound larger.
    over = math.exp(epsilon) * growth - 1
    first = np.floor(over * (1 - EDGE) * (prior + np.maximum(runs.least - 1, 0))) + 1
    under = np.ceil((growth - 1) * (1 + EDGE) * (prior + runs.most)) - 1  # most rows of a cell that grows too little

    def tails(which: NDArray[np.int64], terms: int) -> Floats:
        least, most = runs.least[which], runs.most[which]
        _, value = upper_tail(first[which], prior + most, size - prior - most, rows, terms)
        if growth > 1:
            _, missed = upper_tail(rows - under[which], size - prior - least, prior + least, rows, terms)
            value = value + np.where(under[which] < 0, 0.0, missed)
        return np.asarray(value)

    every = np.arange(len(runs.least))
    values, refined = tails(every, 1), np.zeros(len(every), dtype=bool)
    longer = np.flatnonzero(runs.most > runs.least)
    counts, owners = np.concatenate([runs.least, runs.most[longer]]), np.concatenate([every, longer])
    order = np.argsort(counts)
    counts, owners = counts[order], owners[order]
    while True:
        value, (left, right) = envelope_at(counts, values[owners], records / cells)
        used = np.unique(owners[[left, right]])
        single = bool(np.all(runs.most[used] == runs.least[used]))
        if refined[used].all() or cells * value <= enough or cells * value > NEARLY * enough > 0:
            return min(1.0, cells * value), single
        # All points near the line through the two ends: they may be its ends next.
        slope = (values[owners[right]] - values[owners[left]]) / max(counts[right] - counts[left], 1.0)
        line = values[owners[left]] + slope * (counts - counts[left])
        near = np.unique(np.concatenate([owners[values[owners] >= 0.5 * line], used]))
        near = near[~refined[near]]
        values[near] = np.minimum(values[near], tails(near, TERMS))
        refined[near] = True


def breach_least(prior: float, cells: int, records: int, rows: int, epsilon: float) -> float:
    """A lower bound on the breach probability: that of one table, bounded from below. Theorem 8.

    ``filled`` cells have ``count`` records each, ``empty`` ones none, and what is left lies in the others.
    """
    if cells < 2 or records < 1 or rows < 1 or rows > LARGEST_ROWS:
        return 0.0
    size = prior * cells + records
    counts = _Runs.of(records, prior, COARSE).least[1:]
    first = np.floor(math.expm1(epsilon) * (1 + EDGE) * (prior + counts - 1) + EDGE) + 1
    single, _ = upper_tail(first, prior + counts, size - prior - counts, rows)
    best = 0.0
    for empty in (0,) if cells > rows else EMPTY_CELLS:
        filled = np.minimum(records // counts, cells - 1 - empty)
        left = prior * (cells - filled) + records - filled * counts
        filled = np.where(left < 1, filled - 1, filled)  # what is left must be a cell of size 1 or more
        some = np.where(filled > 0, -np.expm1(np.maximum(filled, 0) * np.log1p(-np.minimum(single, 1 - 1e-16))), 0.0)
        best = max(best, float(some.max()) * (1.0 if cells > rows else some_stay_empty(prior, empty, size, rows)))
    return best * (1 - ROUNDING)


def some_stay_empty(prior: float, empty: int, size: float, rows: int) -> float:
    """P(at least one of ``empty`` cells without records gets no row), by inclusion and exclusion."""
    total = 0.0
    for chosen in range(1, empty + 1):
        rest = size - chosen * prior
        if rest <= 0:
            return 0.0
        none = math.exp(float(log_rising(rest, rows) - log_rising(size, rows)))
        total += (1 if chosen % 2 else -1) * math.comb(empty, chosen) * none
    return min(max(total - 1e-9, 0.0), 1.0)


def breach_bounds(prior: float, cells: int, records: int, rows: int, epsilon: float) -> Probability:
    """Both bounds. Where the lower one shows that a breach is likely, no better upper one is sought."""
    low = breach_least(prior, cells, records, rows, epsilon)
    high = breach_bound(prior, cells, records, rows, epsilon, enough=low * 1.05 if low < 0.5 else 1.0)
    return Probability(high, exact=high == 0.0, low=min(low, high))
