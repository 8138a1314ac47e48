"""The exact privacy loss of a Dirichlet-multinomial draw at any size, from three cells.

With c = prior + n without the row in question, x = c_i, y = c_j and T the sum of c, the tables "row in i" and "row in
j" give an output m with likelihood ratio (1 + m_i/x) / (1 + m_j/y): only (m_i, m_j, the rest) matter, whatever the
number of cells. Merging cells is post-processing, so a larger x or y (with the same T) loses no more: for three cells
or more the worst pair is two cells with the smallest priors and no other row in them. docs/theory/dirichlet.md has the
proofs; with two cells there is no rest to move rows to, and all splits of the rows are scanned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from understudy.core.arrays import Floats, Integers
from understudy.errors import UnsupportedError
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial
from understudy.privacy.promise.definition import Unit

BLOCK = 2_000_000  # numbers worked on at once
LARGEST_SCAN = 2_000_000_000  # records times rows, where all splits or all sizes are scanned
FLOOR = 1e-60  # smaller probabilities are not examined, and count as lost
LARGE = 1e4  # from here on Stirling's series gives the difference of two log gammas without cancellation
NEGLIGIBLE = 1e-15  # of the sum so far: the outputs left out have together less than this, and are counted as lost


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorShape:
    """What the loss depends on: the smallest two priors, their total, the number of cells, the rows drawn."""

    smallest: float
    second: float
    total: float
    cells: int
    rows: int

    @classmethod
    def of(cls, mechanism: DirichletMultinomial) -> PriorShape:
        (smallest, count), *others = mechanism.classes
        second = smallest if count > 1 or not others else others[0][0]
        return cls(smallest=smallest, second=second, total=mechanism.total, cells=mechanism.cells, rows=mechanism.rows)

    @classmethod
    def bound_for_two_cells(cls, prior: float, rows: int) -> PriorShape:
        """Two cells of equal prior with a third, of prior 0, to which the other records may move.

        By the theorem on merging cells it loses at least as much as every split over two cells, and needs no scan.
        """
        return cls(smallest=prior, second=prior, total=2 * prior, cells=3, rows=rows)

    @classmethod
    def symmetric(cls, prior: float, cells: int, rows: int) -> PriorShape:
        return cls(smallest=prior, second=prior, total=prior * cells, cells=cells, rows=rows)


def log_weights(size: float, rows: int) -> Floats:
    """ln of size (size+1) ... (size+t-1) / t! for t = 0, ..., rows; a cell of size 0 can only stay empty."""
    weights = np.full(rows + 1, -np.inf)
    weights[0] = 0.0
    if size > 0:
        steps = np.arange(rows, dtype=float)
        weights[1:] = np.cumsum(np.log((size + steps) / (steps + 1)))
    return weights


def log_rising(start: ArrayLike, steps: ArrayLike) -> Floats:
    """log of G(start + steps) / G(start), to full precision for large ``start`` too.

    >>> round(float(log_rising(3.0, 2)), 12), round(float(log_rising(1e12, 3)), 9)  # log 12, and 3 log 1e12
    (2.484906649788, 82.893063348)
    """
    from scipy.special import gammaln

    a, m = np.broadcast_arrays(np.asarray(start, np.float64), np.asarray(steps, np.float64))
    b = a + m
    with np.errstate(all="ignore"):
        series = m * np.log(a) + ((b - 0.5) * np.log1p(m / a) - m) + (1 / b - 1 / a) / 12 - (b**-3 - a**-3) / 360
        return np.asarray(np.where(a >= LARGE, series, gammaln(b) - gammaln(a)))


def delta(shape: PriorShape, records: int, unit: Unit, epsilon: float) -> float:
    """The exact delta(epsilon) of one draw from any table of ``records`` rows, under add_remove of 0 to ``records``."""
    if shape.cells == 1:
        return 0.0
    if (unit.kind == "add_remove" or shape.cells == 2) and records * shape.rows > LARGEST_SCAN:
        raise UnsupportedError(
            f"{records:,} records and {shape.rows:,} rows would need a scan of more than {LARGEST_SCAN:,} terms; use "
            "fewer of either (three cells or more under replace need no scan)."
        )
    if unit.kind == "add_remove":
        return _delta_add_remove(shape, records, epsilon)
    if shape.cells == 2:
        return max(
            _delta_two_cells(first, second, records, shape.rows, epsilon)
            for first, second in {(shape.smallest, shape.second), (shape.second, shape.smallest)}
        )
    return max(_delta_pair(x, y, rest, shape.rows, epsilon) for x, y, rest in worst_pairs(shape, records))


def worst_pairs(shape: PriorShape, records: int) -> list[tuple[float, float, float]]:
    """(x, y, rest) of the pairs that no other pair exceeds, for three cells or more."""
    rest = max(shape.total - shape.smallest - shape.second, 0.0) + records - 1
    return sorted({(shape.smallest, shape.second, rest), (shape.second, shape.smallest, rest)})


def _delta_pair(x: float, y: float, rest: float, rows: int, epsilon: float) -> float:
    """Hockey-stick divergence of "row in i" against "row in j", both cells otherwise of size x and y."""
    weight_i, weight_j, weight_rest = (log_weights(size, rows) for size in (x + 1, y, rest))
    norm = log_weights(x + 1 + y + rest, rows)[rows]
    beyond_i = _tail(weight_i + log_weights(y + rest, rows)[::-1] - norm)
    beyond_j = _tail(weight_j + log_weights(x + 1 + rest, rows)[::-1] - norm)
    gain = np.log1p(np.arange(rows + 1) / x)
    most, total = int(np.argmax(beyond_i <= FLOOR)), 0.0
    last = rows
    for there in range(rows + 1):
        level = epsilon + math.log1p(there / y)
        # The loss grows with m_i: only outputs from here on exceed epsilon.
        first = int(np.searchsorted(gain, level, side="right"))
        if first > min(most, rows - there):
            break  # and no larger m_j has any
        here = np.arange(first, min(most, rows - there) + 1)
        chances = np.exp(weight_i[here] + weight_rest[rows - there - here] + (weight_j[there] - norm))
        total += float(chances @ -np.expm1(level - gain[here]))
        if there == 0:
            most = min(most, int(np.argmax(beyond_i <= max(NEGLIGIBLE * total, FLOOR))))
        if beyond_j[there] <= max(NEGLIGIBLE * total, FLOOR):
            last = there
            break
    # What lies beyond both ends counts as lost, where it can exceed epsilon at all.
    reached = gain[rows] > epsilon
    return min(1.0, total + (float(beyond_i[most]) + float(beyond_j[last]) if reached else 0.0))


def _tail(logs: Floats) -> Floats:
    """P(value > t) for t = 0, 1, ..., from log probabilities."""
    return np.append(np.cumsum(np.exp(logs)[::-1])[::-1][1:], 0.0)


def _delta_two_cells(first: float, second: float, records: int, rows: int, epsilon: float) -> float:
    """Every split of the other rows over two cells, all outputs (m_i, rows - m_i): records x rows terms."""
    from scipy.special import gammaln

    here = np.arange(rows + 1)
    size = np.arange(records + rows + 1)
    log_first, log_second = gammaln(first + size), gammaln(second + size)
    ways = gammaln(rows + 1) - gammaln(here + 1) - gammaln(rows - here + 1)
    total = first + second + records
    norm = gammaln(total) - gammaln(total + rows)
    best = 0.0
    height = max(1, BLOCK // (rows + 1))
    for start in range(0, records, height):
        split = np.arange(start, min(records, start + height))[:, None]  # other rows in i; the rest are in j
        apart = records - 1 - split
        loss = np.log1p(here / (first + split)) - np.log1p((rows - here) / (second + apart))
        logs = log_first[split + 1 + here] - log_first[split + 1] + log_second[apart + rows - here] - log_second[apart]
        over = loss > epsilon
        terms = np.where(over, np.exp(ways + norm + logs) * -np.expm1(np.where(over, epsilon - loss, 0.0)), 0.0)
        best = max(best, float(terms.sum(axis=1).max()))
    return min(1.0, best)


def _delta_add_remove(shape: PriorShape, records: int, epsilon: float) -> float:
    """One row more in the cell of the smallest prior, which is otherwise empty; tables of every size are scanned.

    With T the size of prior and table, the ratio is (1 + m_i/x) T/(T + rows); both directions.
    """
    from scipy.special import gammaln

    x, rows = shape.smallest, shape.rows
    every = np.arange(rows + 1)
    rest = gammaln(shape.total - x + np.arange(records + rows))  # of all other cells, by what they hold
    ways = gammaln(rows + 1) - gammaln(every + 1) - gammaln(rows - every + 1)
    own = {extra: ways + gammaln(x + extra + every) - gammaln(x + extra) for extra in (0, 1)}
    gain = np.log1p(every / x)

    def divergences(sizes: Integers, here: Integers, extra: int) -> tuple[Floats, Floats]:
        """Divergence for each table size over the outputs ``here``, and their probabilities."""
        total = shape.total + sizes[:, None]
        loss = (1 if extra else -1) * (gain[here] - np.log1p(rows / total))
        logs = own[extra][here] + rest[sizes[:, None] + rows - here] - rest[sizes][:, None]
        chances = np.exp(logs + gammaln(total + extra) - gammaln(total + extra + rows))
        over = loss > epsilon
        terms = np.where(over, chances * -np.expm1(np.where(over, epsilon - loss, 0.0)), 0.0)
        return terms.sum(axis=1), chances

    best = 0.0
    height = max(1, BLOCK // (rows + 1))
    for start in range(0, records, height):
        sizes = np.arange(start, min(records, start + height))
        for extra in (1, 0):
            # The number of rows in one cell falls with the size of the table, so outputs that are negligible for the
            # smallest of the block are so for all.
            smallest, chances = divergences(sizes[:1], every, extra)
            beyond = np.append(np.cumsum(chances[0][::-1])[::-1][1:], 0.0)
            needed = int(np.argmax(beyond <= NEGLIGIBLE * smallest[0])) + 1
            found, _ = divergences(sizes, every[:needed], extra)
            best = max(best, float(found.max()) + float(beyond[needed - 1]))
    return min(1.0, best)
