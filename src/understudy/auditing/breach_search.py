"""The exact breach probability of Definition 6: the worst table is found without trying all of them.

With more cells than rows the disclosure set is known (Theorem 5 of docs/theory/probabilistic-dp.md), and a table's
probability is a coefficient of a product of polynomials. The most promising tables are tried first. A branch is dropped
when the sum over its cells stays below the best value found so far (Theorem 6): if breaches are rare, only a few tables
are left. With fewer cells the outputs are listed, and tables that differ only in the order of cells are tried once.
"""

from __future__ import annotations

import math

import numpy as np

from understudy.core.arrays import Floats
from understudy.privacy.exact.breach_bounds import breach_bound, breach_least, envelope_at
from understudy.privacy.exact.dirichlet_breach import (
    Probability,
    breach_exact,
    breach_few_cells,
    breach_of_table,
    exact_is_feasible,
    thresholds,
)
from understudy.privacy.exact.dirichlet_profile import log_weights

FEWEST_TABLES, MOST_TABLES = 8, 400  # tables whose probability is computed
MOST_WORK = 40_000_000  # tables times squared rows
LIKELY = 0.3  # a breach this likely: too many tables come near the worst one
MOST_NODES = 20_000  # branches looked at
MOST_ROWS = 2_000  # of a polynomial


def breach(prior: float, cells: int, records: int, rows: int, epsilon: float) -> Probability:
    """Definition 6 for a symmetric prior under replace: exact where that is feasible, else bounded from both sides."""
    if cells == 1 or records == 0 or all(limit >= rows for limit in thresholds(prior, 1, rows, epsilon)):
        return Probability(0.0, exact=True)  # nobody to disclose, or Theorem 4.1
    least = breach_least(prior, cells, records, rows, epsilon)
    if cells > rows:
        found = breach_many_cells(prior, cells, records, rows, epsilon) if least < LIKELY else None
        if found is None and exact_is_feasible(cells, records, rows):
            found = breach_exact(prior, cells, records, rows, thresholds(prior, records, rows, epsilon))
    else:
        found = breach_few_cells(prior, cells, records, rows, epsilon)
    if found is not None:
        return Probability(found, exact=True)
    most = breach_bound(prior, cells, records, rows, epsilon)
    return Probability(most, exact=False, low=min(least, most))


def breach_many_cells(prior: float, cells: int, records: int, rows: int, epsilon: float) -> float | None:
    """The largest breach probability over all tables, for more cells than rows; None if too many would be tried."""
    if cells <= rows or rows > MOST_ROWS or records > MOST_ROWS:
        return None
    safe = thresholds(prior, records, rows, epsilon)
    alone = _single_cells(prior, cells, records, rows, safe)
    tables = min(max(MOST_WORK // max(rows, 1) ** 2, FEWEST_TABLES), MOST_TABLES)
    search = _Search(prior, cells, records, rows, safe=safe, alone=alone, most_tables=tables)
    return search.run()


def _single_cells(prior: float, cells: int, records: int, rows: int, safe: tuple[int, ...]) -> Floats:
    """P(a cell with so many records is over its threshold), for each number of records: beta-binomial tails."""
    size = prior * cells + records
    norm = log_weights(size, rows)[rows]
    values = []
    for count in range(records + 1):
        rest = log_weights(size - prior - count, rows)
        chances = np.exp(log_weights(prior + count, rows) + rest[::-1] - norm)
        values.append(math.fsum(chances[safe[count] + 1 :]))
    return np.array(values)


class _Search:
    """Branch and bound over partitions of the records: how many cells have n records, how many n - 1, and so on."""

    def __init__(
        self, prior: float, cells: int, records: int, rows: int, *, safe: tuple[int, ...], alone: Floats,
        most_tables: int,
    ) -> None:  # fmt: skip
        self.prior, self.cells, self.records, self.rows = prior, cells, records, rows
        self.safe, self.alone, self.most_tables = safe, alone, most_tables
        self.best, self.tried, self.nodes = -1.0, 0, 0
        self.seen: set[tuple[int, ...]] = set()

    def run(self) -> float | None:
        for count in range(1, self.records + 1):  # equal cells: good tables to begin with
            filled = min(self.records // count, self.cells)
            left = self.records - filled * count
            if count == 1 or self.alone[count] >= self.alone[1] / 4:
                if filled < self.cells or not left:
                    self._try((count,) * filled + ((left,) if left else ()))
                else:
                    self._try(self._even())
            if self.tried > self.most_tables // 4:
                break
        return self.best if self._branch((), self.records, self.records, self.cells, 0.0) else None

    def _even(self) -> tuple[int, ...]:
        each, more = divmod(self.records, self.cells)
        return tuple(sorted([each + 1] * more + [each] * (self.cells - more), reverse=True))

    def _try(self, table: tuple[int, ...]) -> None:
        table = tuple(sorted(table, reverse=True))
        if table not in self.seen:
            self.seen.add(table)
            self.tried += 1
            value = breach_of_table(table, self.prior, self.cells, self.rows, self.safe)
            self.best = max(self.best, value)

    def _most(self, left: int, largest: int, cells: int) -> float:
        """The largest possible sum over the cells that are still open."""
        if left == 0 or cells == 0:
            return cells * float(self.alone[0])
        upto = np.arange(min(largest, left) + 1, dtype=np.float64)
        if left > cells * upto[-1]:
            return -math.inf  # the records do not fit
        return cells * envelope_at(upto, self.alone[: len(upto)], left / cells)[0]

    def _branch(self, table: tuple[int, ...], left: int, largest: int, cells: int, added: float) -> bool:
        """Whether everything below this branch was tried or cannot be better."""
        largest = min(largest, left)
        while left:
            self.nodes += 1
            if self.nodes > MOST_NODES or self.tried > self.most_tables:
                return False
            if added + self._most(left, largest, cells) <= self.best:
                return True
            if largest == 1:
                break
            for times in range(left // largest, 0, -1):
                if times <= cells:
                    rest = left - times * largest
                    more = added + times * float(self.alone[largest])
                    if not self._branch((*table, *(largest,) * times), rest, largest - 1, cells - times, more):
                        return False
            largest -= 1
        if left > cells or added + left * self.alone[1] + (cells - left) * self.alone[0] <= self.best:
            return True
        self._try((*table, *(1,) * left))
        return True
