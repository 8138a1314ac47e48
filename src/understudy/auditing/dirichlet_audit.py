"""The exact audit of a Dirichlet-multinomial draw: its losses one by one, its worst case, its breach probability.

``privacy.exact.dirichlet_profile`` says why three cells are enough at any size, and computes delta.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from understudy.auditing.composed_loss import LossDistribution
from understudy.auditing.listed_space import Witness
from understudy.core.arrays import Floats
from understudy.errors import InternalError
from understudy.privacy.exact.breach_bounds import breach_bound, breach_least, envelope_at
from understudy.privacy.exact.dirichlet_breach import (
    Probability,
    breach_exact,
    breach_few_cells,
    breach_of_table,
    exact_is_feasible,
    thresholds,
)
from understudy.privacy.exact.dirichlet_profile import BLOCK, PriorShape, log_weights, worst_pairs
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial
from understudy.privacy.promise.definition import Unit


def loss_distributions(shape: PriorShape, records: int) -> list[LossDistribution]:
    """The loss distributions of the pairs that can be worst, under replace, for composition over copies.

    Copies are independent draws from the same table, and the worst pair of one draw is the worst of all of them:
    post-processing each copy is post-processing their collection. With two cells every split of the rows is given.
    """
    if shape.cells < 2:
        return [LossDistribution(losses=np.zeros(1), probabilities=np.ones(1))]
    if shape.cells == 2:
        priors = {(shape.smallest, shape.second), (shape.second, shape.smallest)}
        pairs = [(a + b, c + records - 1 - b, 0.0) for a, c in sorted(priors) for b in range(records)]
    else:
        pairs = worst_pairs(shape, records)
    return [_pair_losses(x, y, rest, shape.rows) for x, y, rest in pairs]


def _pair_losses(x: float, y: float, rest: float, rows: int) -> LossDistribution:
    blocks = list(_pair_blocks(x, y, rest, rows, enough=1e-18))
    losses = np.concatenate([loss.ravel() for loss, _, _ in blocks])
    chances = np.concatenate([chance.ravel() for _, chance, _ in blocks])
    kept = chances > 0
    return LossDistribution(losses=losses[kept], probabilities=chances[kept], missing=blocks[-1][2])


def _pair_blocks(x: float, y: float, rest: float, rows: int, enough: float) -> Iterator[tuple[Floats, Floats, float]]:
    """Losses and probabilities under "row in i", for blocks of values of m_j, with the probability not yet covered.

    Stops when that probability is at most ``enough``.
    """
    weight_i, weight_j, weight_rest = (log_weights(size, rows) for size in (x + 1, y, rest))
    total = log_weights(x + 1 + y + rest, rows)[rows]
    other = log_weights(x + 1 + rest, rows)
    marginal = np.exp(weight_j + other[::-1] - total)
    beyond = np.append(np.cumsum(marginal[::-1])[::-1][1:], 0.0)  # probability that m_j is larger
    gain = np.log1p(np.arange(rows + 1) / x)
    height = max(1, min(256, BLOCK // (rows + 1)))
    for start in range(0, rows + 1, height):
        there = np.arange(start, min(rows + 1, start + height))
        here = np.arange(rows + 1 - start)
        left = rows - there[:, None] - here[None, :]
        logs = weight_j[there][:, None] + weight_i[here][None, :] + weight_rest[np.maximum(left, 0)] - total
        chances = np.exp(np.where(left >= 0, logs, -np.inf))
        yield gain[here][None, :] - np.log1p(there / y)[:, None], chances, float(beyond[there[-1]])
        if beyond[there[-1]] <= enough:
            return


def epsilon(shape: PriorShape, records: int, unit: Unit) -> float:
    """The worst-case loss: Theorem 4.1 under replace; under add_remove the larger of the two directions.

    Under add_remove the worst output has all rows in a cell that gained its first row, in the largest table. Or it has
    no row in the cell that got the first row of an empty table.
    """
    if shape.cells == 1:
        return 0.0
    most = math.log1p(shape.rows / shape.smallest)
    if unit.kind == "replace":
        return most
    return max(most - math.log1p(shape.rows / (shape.total + records - 1)), math.log1p(shape.rows / shape.total))


def witness(mechanism: DirichletMultinomial, records: int, unit: Unit) -> Witness:
    """Tables and output of the worst-case loss."""
    if mechanism.cells < 2:
        raise InternalError("a table of one cell has nothing to tell apart.")
    shape = PriorShape.of(mechanism)
    cell = min(range(mechanism.cells), key=mechanism.prior.__getitem__)
    other = 0 if cell else 1

    def table(**counts: int) -> tuple[int, ...]:
        values = [0] * mechanism.cells
        values[cell], values[other] = counts.get("cell", 0), counts.get("other", 0)
        return tuple(values)

    loss = epsilon(shape, records, unit)
    if unit.kind == "replace":
        likely, unlikely = table(cell=1, other=records - 1), table(other=records)
        return Witness(likely=likely, unlikely=unlikely, output=table(cell=mechanism.rows), loss=loss)
    if loss == math.log1p(shape.rows / shape.total):
        return Witness(likely=table(), unlikely=table(other=1), output=table(cell=mechanism.rows), loss=loss)
    likely, unlikely = table(cell=1, other=records - 1), table(other=records - 1)
    return Witness(likely=likely, unlikely=unlikely, output=table(cell=mechanism.rows), loss=loss)


# The exact breach probability of Definition 6: the worst table is found without trying all of them.
#
# With more cells than rows the disclosure set is known (Theorem 5 of docs/theory/probabilistic-dp.md), and a table's
# probability is a coefficient of a product of polynomials. The most promising tables are tried first. A branch is
# dropped when the sum over its cells stays below the best value found so far (Theorem 6): if breaches are rare, only
# a few tables are left. With fewer cells the outputs are listed, and tables that differ only in the order of cells
# are tried once.


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
