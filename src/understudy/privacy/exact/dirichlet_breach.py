"""Breach probability of a Dirichlet-multinomial draw in the sense of Definition 6, without listing the outputs.

Definition 6 asks for the probability of a union: at least one cell discloses at least one row. With more cells than
rows drawn there is always an empty output cell, and Theorem 4.3 describes the union exactly: m is in the disclosure
set of n iff some cell has m_i > (e^epsilon - 1)(a_i + max(n_i - 1, 0)). Given the thresholds, the cells of m are
independent negative binomials conditioned on their sum, so the probability is a coefficient of a product of
polynomials, one power for each class of equal cells. (Three cells are enough for delta and are not enough here.) See
docs/theory/probabilistic-dp.md.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.privacy.exact.dirichlet_profile import log_weights
from understudy.privacy.exact.small_tables import RESOLUTION, tables_of

Polynomial = tuple[Floats, Floats]  # coefficients where no cell is over its threshold, and where at least one is
MOST_LISTED = 3_000_000  # tables times outputs, where outputs are listed
LARGEST_SEARCH = 3_000  # partitions of the records that are tried one by one


class Probability(float):
    """A probability that says whether it is exact or an upper bound.

    ``low`` is a lower bound; where the value is exact it is the value itself.
    """

    exact: bool
    low: float

    def __new__(cls, value: float, *, exact: bool, low: float = 0.0) -> Probability:
        self = super().__new__(cls, value)
        self.exact = exact
        self.low = value if exact else low
        return self

    @property
    def kind(self) -> str:
        return "exact" if self.exact else "upper bound"


def highest_safe(base: float, rows: int, epsilon: float) -> int:
    """The largest m_i with ln(1 + m_i / base) <= epsilon, at most ``rows``; equality to rounding is safe."""
    losses = np.log1p(np.arange(rows + 1) / base)
    return int(np.searchsorted(losses, epsilon + RESOLUTION * max(1.0, epsilon), side="right")) - 1


def thresholds(prior: float, records: int, rows: int, epsilon: float) -> tuple[int, ...]:
    """The largest safe output count of a cell, by its number of records 0, ..., ``records``."""
    return tuple(highest_safe(prior + max(count - 1, 0), rows, epsilon) for count in range(records + 1))


def partitions(records: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Ways to spread the records over at most ``parts`` cells, the order of cells left out.

    >>> list(partitions(3, 2))
    [(3,), (2, 1)]
    """

    def spread(left: int, largest: int, cells: int) -> Iterator[tuple[int, ...]]:
        if not left:
            yield ()
        elif cells:
            for count in range(min(left, largest), 0, -1):
                for rest in spread(left - count, count, cells - 1):
                    yield (count, *rest)

    return spread(records, records, parts)


def count_partitions(records: int, limit: int = LARGEST_SEARCH) -> int:
    """How many partitions there are; counting stops above the limit."""
    ways = [1] + [0] * records
    for part in range(1, records + 1):
        for total in range(part, records + 1):
            ways[total] += ways[total - part]
            if ways[total] > 1000 * limit:
                return ways[total]
    return ways[records]


def breach_of_table(table: tuple[int, ...], prior: float, cells: int, rows: int, safe: tuple[int, ...]) -> float:
    """P(some cell of the draw is over its threshold) for one table, given by its non-zero counts.

    ``safe`` is the largest harmless output count of a cell, by its number of records.
    """
    classes = Counter(table)
    classes[0] = cells - len(table)
    size = prior * cells + sum(table)
    rate = rows / (size + rows)  # of the negative binomials: it makes the wanted sum the likely one
    total: Polynomial = (_one(rows), np.zeros(rows + 1))
    for count, times in classes.items():
        if times:
            weights = log_weights(prior + count, rows) + np.arange(rows + 1) * math.log(rate)
            chances = np.exp(weights + (prior + count) * math.log1p(-rate))
            good = np.where(np.arange(rows + 1) <= safe[count], chances, 0.0)
            total = _times(total, _power((good, chances - good), times))
    return float(total[1][rows] / (total[0][rows] + total[1][rows]))


def breach_exact(prior: float, cells: int, records: int, rows: int, safe: tuple[int, ...]) -> float:
    """The largest breach probability over all tables, for given thresholds; needs more cells than rows."""
    return max(breach_of_table(table, prior, cells, rows, safe) for table in partitions(records, min(cells, records)))


def breach_union_bound(prior: float, cells: int, records: int, rows: int, safe: tuple[int, ...]) -> float:
    """An upper bound: single-cell probabilities added up, maximised over all ways to spread the records.

    Each cell is beta-binomial, so the bound is a sum over cells of a function of their counts, and the best spread a
    knapsack. It holds for any number of cells: Theorem 4.3's condition is sufficient for m to be harmless.
    """
    size = prior * cells + records
    norm = log_weights(size, rows)[rows]
    alone = []
    for count in range(records + 1):
        rest = log_weights(size - prior - count, rows) if cells > 1 else log_weights(0.0, rows)
        chances = np.exp(log_weights(prior + count, rows) + rest[::-1] - norm)
        alone.append(math.fsum(chances[safe[count] + 1 :]))
    best = [0.0] * (records + 1)  # most that rows can add over empty cells
    for used in range(1, records + 1):
        best[used] = max(best[used - count] + alone[count] - alone[0] for count in range(1, used + 1))
    return min(1.0, best[records] + cells * alone[0])


def exact_is_feasible(cells: int, records: int, rows: int) -> bool:
    return cells > rows and count_partitions(records) <= LARGEST_SEARCH and rows <= 2_000


def _one(rows: int) -> Floats:
    one = np.zeros(rows + 1)
    one[0] = 1.0
    return one


def _times(one: Polynomial, other: Polynomial) -> Polynomial:
    """Products without subtraction: a breach in the second factor, or in the first with anything in the second."""
    length = len(one[0])
    good = np.convolve(one[0], other[0])[:length]
    bad = np.convolve(one[1], other[0] + other[1])[:length] + np.convolve(one[0], other[1])[:length]
    return good, bad


def _power(part: Polynomial, times: int) -> Polynomial:
    result: Polynomial = (_one(len(part[0]) - 1), np.zeros(len(part[0])))
    while times:
        if times & 1:
            result = _times(result, part)
        times >>= 1
        if times:
            part = _times(part, part)
    return result


def breach_few_cells(
    prior: float, cells: int, records: int, rows: int, epsilon: float, *, most_listed: int = MOST_LISTED
) -> float | None:
    """The largest breach probability over all tables by listing the outputs; None if there are too many."""
    outputs_made = math.comb(rows + cells - 1, cells - 1)
    if cells > 12 or outputs_made > most_listed:
        return None
    if count_partitions_into(records, cells) * outputs_made > most_listed:
        return None
    outputs = tables_of(rows, cells)
    weights = [log_weights(prior + count, rows) for count in range(records + 1)]
    norm = log_weights(prior * cells + records, rows)[rows]
    best = 0.0
    for table in partitions(records, min(cells, records)):
        counts = table + (0,) * (cells - len(table))
        breached = np.zeros(len(outputs), dtype=bool)
        for gaining, losing in itertools.permutations(range(cells), 2):
            breached |= _odds(prior, counts, outputs, gaining, losing) > epsilon + RESOLUTION * max(1.0, epsilon)
        logs = sum(weights[count][outputs[:, cell]] for cell, count in enumerate(counts)) - norm
        best = max(best, math.fsum(np.exp(np.asarray(logs)[breached]).tolist()))
    return min(best, 1.0)


def count_partitions_into(records: int, cells: int) -> int:
    """Partitions of the records into at most ``cells`` parts.

    >>> count_partitions_into(3, 2), count_partitions_into(5, 9)
    (2, 7)
    """
    ways = [1] + [0] * records
    for part in range(1, min(cells, records) + 1):
        for total in range(part, records + 1):
            ways[total] += ways[total - part]
    return ways[records]


def _odds(prior: float, counts: tuple[int, ...], outputs: Integers, gaining: int, losing: int) -> Floats:
    """Log odds of "a row in ``gaining``" against "in ``losing``" for each output, for the row that makes them largest.

    The row is taken from ``gaining`` if that cell has any. Otherwise it is any row, and one of ``losing`` only if all
    rows are there.
    """
    base = prior + max(counts[gaining] - 1, 0)
    alone = counts[gaining] == 0 and counts[losing] == sum(counts)
    other = prior + counts[losing] - int(alone)
    return np.asarray(np.log1p(outputs[:, gaining] / base) - np.log1p(outputs[:, losing] / other))
