"""What agencies do to small tables, as exact transition laws for the audit: swapping, suppression, PRAM and others.

A law gives, for one table of counts, every table that can come out with its probability. Most of these methods are not
differentially private at all; the audit then reports infinite loss with the pair of tables and the output that show
it. None of them can be run here: the classes are for audit only. See docs/theory/exact-audit.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.core.arrays import Integers
from understudy.core.mechanism import Stream
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.exact.small_tables import tables_of
from understudy.privacy.promise.event import Event, NoNoise, Sensitivity

Table = tuple[int, ...]
Law = dict[Table, float]
SUPPRESSED = -1  # stands for a cell that is not published
ROUNDING = 1e-9  # how far the rows of a matrix may be from adding up to 1


def check_rate(value: float, name: str) -> float:
    """A probability."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value <= 1:
        raise InputError(f"{name} ({value}) must be a number between 0 and 1.")
    return float(value)


def check_stochastic(matrix: ArrayLike, what: str) -> NDArray[np.float64]:
    """A copy of the matrix, read-only, if it holds probabilities whose rows add up to 1."""
    try:
        array = np.array(matrix, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be a matrix of numbers, all rows of the same length.") from None
    if array.ndim != 2 or not array.size:
        raise InputError(f"{what} must be a matrix with at least one row and one column.")
    if not np.isfinite(array).all() or (array < 0).any():
        raise InputError(f"{what} must hold finite probabilities of at least 0.")
    sums = array.sum(axis=1)
    worst = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[worst] - 1) > ROUNDING:
        raise InputError(f"row {worst + 1} of {what} adds up to {sums[worst]:.9g}; every row must add up to 1.")
    array.setflags(write=False)
    return array


def check_two_way(shape: tuple[int, ...], what: str) -> None:
    """Rows and columns of a two-way table."""
    if len(shape) != 2 or any(not isinstance(size, int) or size < 1 for size in shape):
        raise InputError(f"shape ({shape}) must be two whole numbers: {what} works on a two-way table.")


def check_cells(table: Table, shape: tuple[int, int], what: str) -> None:
    """The table has as many cells as its shape says."""
    if len(table) != math.prod(shape):
        raise InputError(f"{what} in a table of {shape[0]} x {shape[1]} needs {math.prod(shape)} cells.")


class AuditOnly(ABC):
    """Base of the laws: no noise is drawn here, and nothing is claimed that the audit has not found."""

    __slots__ = ()
    name: ClassVar[str]

    @property
    def cells(self) -> int | None:
        """The number of cells of the tables that the law speaks of; none if it takes tables of any size."""
        return None

    @abstractmethod
    def law(self, table: Table) -> Law:
        """Give every output of one input with its probability.

        Parameters
        ----------
        table
            The counts that go in.

        Returns
        -------
        Law
            The probability of each table that can come out.

        Raises
        ------
        InputError
            If the table does not have the cells that the law speaks of.
        """

    def event(self, sensitivity: Sensitivity) -> Event:
        """State the cost: no protection. What the law really gives, the audit says.

        Parameters
        ----------
        sensitivity
            How far one unit can move the query.

        Returns
        -------
        Event
            An event without noise.
        """
        del sensitivity
        return NoNoise()

    def run(self, values: Integers, stream: Stream) -> NoReturn:
        """Refuse to draw: these laws are for audit only.

        Parameters
        ----------
        values
            Not used.
        stream
            Not used.

        Raises
        ------
        UnsupportedError
            Always: a release needs a mechanism with a proved guarantee.
        """
        del values, stream
        raise UnsupportedError(f"{self.name} is for audit only; a release needs a mechanism with a proved guarantee.")

    def log_pmf(self, out: Integers, values: Integers) -> NDArray[np.float64]:
        """Give the log probability of one output table for one input table.

        Parameters
        ----------
        out
            The table that comes out.
        values
            The table that goes in.

        Returns
        -------
        NDArray[np.float64]
            One number; minus infinity if it cannot come out.
        """
        chance = self.law(tuple(int(x) for x in np.asarray(values))).get(tuple(int(x) for x in np.asarray(out)), 0.0)
        return np.asarray(math.log(chance) if chance > 0 else -math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swapping(AuditOnly):
    """Random data swapping in a two-way table: row margins and column margins come out unchanged.

    Each record is chosen independently with probability ``rate``; the column values of the chosen records are dealt
    out again in random order. The chosen part then has the hypergeometric law of a table with given margins,
    prod r_i! prod c_j! / (N! prod s_ij!).

    Raises
    ------
    InputError
        If the rate is no probability, or the shape is not two whole numbers.
    """

    rate: float
    """The probability with which a record is chosen."""
    shape: tuple[int, int] = (2, 2)
    """Rows and columns of the table."""
    name: ClassVar[str] = "swapping"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", check_rate(self.rate, "rate"))
        check_two_way(self.shape, self.name)

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    def law(self, table: Table) -> Law:
        check_cells(table, self.shape, self.name)
        found: Law = {}
        for chosen, chance in product_law([_binomial(count, self.rate) for count in table]).items():
            grid = np.array(chosen).reshape(self.shape)
            rows, columns = tuple(grid.sum(axis=1).tolist()), tuple(grid.sum(axis=0).tolist())
            for dealt, share in _with_margins(rows, columns).items():
                out = tuple(n - s + d for n, s, d in zip(table, chosen, dealt, strict=True))
                found[out] = found.get(out, 0.0) + chance * share
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffling(AuditOnly):
    """Data shuffling in a two-way table (Muralidharan and Sarathy 2006): the columns are the confidential values.

    Each record draws a column from the shares of its own row, (count + prior) / (row total + prior x columns). The
    drawn columns are only ranks: the record with the smallest draw gets the smallest original value, and so on; ties
    are broken at random. Row margins and column margins come out unchanged.

    Raises
    ------
    InputError
        If the prior is negative or not finite, or the shape is not two whole numbers.
    """

    shape: tuple[int, int] = (2, 2)
    """Rows and columns of the table."""
    prior: float = 0.0
    """Records added to each cell of a row before its shares are taken."""
    name: ClassVar[str] = "shuffling"

    def __post_init__(self) -> None:
        check_two_way(self.shape, self.name)
        if isinstance(self.prior, bool) or not math.isfinite(self.prior) or self.prior < 0:
            raise InputError(f"prior ({self.prior}) must be a finite number of at least 0.")

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    def law(self, table: Table) -> Law:
        check_cells(table, self.shape, self.name)
        grid = np.array(table).reshape(self.shape)
        values = grid.sum(axis=0).tolist()
        drawn: Law = {(): 1.0}
        for row in grid:
            size = int(row.sum())
            shares = (row + self.prior) / (size + self.prior * len(row)) if size else np.full(len(row), 1 / len(row))
            drawn = {
                (*above, *here): chance * share
                for above, chance in drawn.items()
                for here, share in _multinomial(size, shares).items()
            }
        found: Law = {}
        for ranks, chance in drawn.items():
            for out, share in self._values_back(np.array(ranks).reshape(self.shape), values).items():
                found[out] = found.get(out, 0.0) + chance * share
        return found

    def _values_back(self, ranks: Integers, values: list[int]) -> Law:
        """Deal the original values out by rank: each group of ties takes the next values, in random order."""
        left = list(values)
        found: Law = {(0,) * self.cells: 1.0}
        for group in ranks.T:
            taken = [0] * len(left)
            size = int(group.sum())
            for column, there in enumerate(left):
                taken[column] = min(there, size - sum(taken))
                left[column] -= taken[column]
            found = _add(found, _with_margins(tuple(group.tolist()), tuple(taken)))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TopCoding(AuditOnly):
    """Top coding of ordered cells: records above the highest published value are counted there. Nothing is random.

    Raises
    ------
    InputError
        If the top is not a cell number.
    """

    top: int
    """The number of the highest cell that is published, from 0."""
    name: ClassVar[str] = "top_coding"

    def __post_init__(self) -> None:
        if isinstance(self.top, bool) or not isinstance(self.top, int) or self.top < 0:
            raise InputError(f"top ({self.top}) must be the number of a cell, from 0.")

    def law(self, table: Table) -> Law:
        if self.top >= len(table):
            raise InputError(f"top ({self.top}) must be a cell of the table, 0 to {len(table) - 1}.")
        return {(*table[: self.top], sum(table[self.top :]), *(0,) * (len(table) - self.top - 1)): 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiplicativeNoise(AuditOnly):
    """Multiplicative noise infusion: each cell is multiplied by a random factor of its own and rounded (halves up).

    Agencies keep the distribution of the factors secret. An intruder then has several in mind; the law is their
    mixture, and one distribution holds for all cells. A count of 0 stays 0 whatever the factor is.

    Raises
    ------
    InputError
        If a factor is negative, or the probabilities of a distribution do not add up to 1.
    """

    distributions: tuple[tuple[tuple[Fraction, float], ...], ...]
    """The public distribution of a factor, or those among which the intruder is equally unsure."""
    name: ClassVar[str] = "multiplicative_noise"

    def __post_init__(self) -> None:
        if not self.distributions or not all(self.distributions):
            raise InputError("give at least one distribution, and in each at least one factor with its probability.")
        for distribution in self.distributions:
            check_stochastic([[chance for _, chance in distribution]], "the distribution of factors")
            if any(factor < 0 for factor, _ in distribution):
                raise InputError("a factor must be at least 0.")

    def __str__(self) -> str:
        several = (
            ", ".join(f"x{float(factor):g} ({chance:g})" for factor, chance in distribution)
            for distribution in self.distributions
        )
        return f"multiplicative noise {' or '.join(several)}"

    def law(self, table: Table) -> Law:
        found: Law = {}
        for distribution in self.distributions:
            cells = []
            for count in table:
                cell: dict[int, float] = {}
                for factor, chance in distribution:
                    out = math.floor(count * factor + Fraction(1, 2))
                    cell[out] = cell.get(out, 0.0) + chance
                cells.append({out: chance for out, chance in cell.items() if chance > 0})
            for result, chance in product_law(cells).items():
                found[result] = found.get(result, 0.0) + chance / len(self.distributions)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppression(AuditOnly):
    """Primary suppression: a count from 1 to threshold - 1 is replaced by a mark (-1). Nothing is random.

    Raises
    ------
    InputError
        If the threshold is not a whole number of at least 2.
    """

    threshold: int
    """The smallest count above zero that is published."""
    name: ClassVar[str] = "suppression"

    def __post_init__(self) -> None:
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, int) or self.threshold < 2:
            raise InputError(f"threshold ({self.threshold}) must be a whole number of at least 2.")

    def law(self, table: Table) -> Law:
        return {tuple(SUPPRESSED if 0 < count < self.threshold else count for count in table): 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coarsening(AuditOnly):
    """Cells added up by a public partition. Nothing is random, so the coarse counts are disclosed.

    Raises
    ------
    InputError
        If a cell is in no group or in two.
    """

    partition: tuple[tuple[int, ...], ...]
    """The groups of cells."""
    name: ClassVar[str] = "coarsening"

    def __post_init__(self) -> None:
        members = sorted(cell for group in self.partition for cell in group)
        if not members or members != list(range(len(members))) or not all(self.partition):
            raise InputError(
                "partition must hold every cell number from 0 up exactly once, in groups that are not empty."
            )

    @property
    def cells(self) -> int:
        return sum(map(len, self.partition))

    def law(self, table: Table) -> Law:
        if sum(len(group) for group in self.partition) != len(table):
            raise InputError(f"the partition has {sum(map(len, self.partition))} cells; the table has {len(table)}.")
        return {tuple(sum(table[cell] for cell in group) for group in self.partition): 1.0}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pram(AuditOnly):
    """Post-randomisation of each record's cell, independently (Gouweleeuw et al. 1998); also randomised response."""

    matrix: NDArray[np.float64]
    """Row i holds the probabilities with which cell i becomes each cell."""
    name: ClassVar[str] = "pram"

    @property
    def cells(self) -> int:
        return len(self.matrix)

    def law(self, table: Table) -> Law:
        cells = len(table)
        if self.matrix.shape != (cells, cells):
            raise InputError(
                f"the matrix is {self.matrix.shape[0]} x {self.matrix.shape[1]}; the table has {cells} cells."
            )
        found: Law = {(0,) * cells: 1.0}
        for count, row in zip(table, self.matrix, strict=True):
            found = _add(found, _multinomial(count, row))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsamplePlusBinomial(AuditOnly):
    """A Bernoulli sample of the records plus binomial noise in each cell (Rastogi, Suciu and Hong 2007).

    With ``trials`` = 0 this is plain sampling: a count that shrinks is possible, one that grows is not.

    Raises
    ------
    InputError
        If a rate is no probability, or ``trials`` is negative.
    """

    rate: float
    """The sampling fraction."""
    trials: int
    """The trials of the binomial noise."""
    probability: float
    """The probability of the binomial noise."""
    name: ClassVar[str] = "subsample_plus_binomial"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", check_rate(self.rate, "rate"))
        object.__setattr__(self, "probability", check_rate(self.probability, "probability"))
        if isinstance(self.trials, bool) or not isinstance(self.trials, int) or self.trials < 0:
            raise InputError(f"trials ({self.trials}) must be a whole number of at least 0.")

    def law(self, table: Table) -> Law:
        noise = _binomial(self.trials, self.probability)
        cells = []
        for count in table:
            total: dict[int, float] = {}
            for kept, chance in _binomial(count, self.rate).items():
                for extra, share in noise.items():
                    total[kept + extra] = total.get(kept + extra, 0.0) + chance * share
            cells.append(total)
        return product_law(cells)


def _binomial(count: int, rate: float) -> dict[int, float]:
    law = {x: math.comb(count, x) * rate**x * (1 - rate) ** (count - x) for x in range(count + 1)}
    return {x: chance for x, chance in law.items() if chance > 0}


def product_law(cells: Sequence[dict[int, float]]) -> Law:
    """The joint law of independent cells."""
    found: Law = {(): 1.0}
    for cell in cells:
        found = {(*table, x): chance * share for table, chance in found.items() for x, share in cell.items()}
    return found


def _add(first: Law, second: Law) -> Law:
    """The law of the sum of two independent tables."""
    found: Law = {}
    for one, chance in first.items():
        for other, share in second.items():
            total = tuple(x + y for x, y in zip(one, other, strict=True))
            found[total] = found.get(total, 0.0) + chance * share
    return found


def _multinomial(count: int, shares: NDArray[np.float64]) -> Law:
    found: Law = {}
    for table in tables_of(count, len(shares)).tolist():
        ways = math.factorial(count) // math.prod(math.factorial(x) for x in table)
        chance = ways * math.prod(share**x for share, x in zip(shares.tolist(), table, strict=True))
        if chance > 0:
            found[tuple(table)] = chance
    return found


def _with_margins(rows: tuple[int, ...], columns: tuple[int, ...]) -> Law:
    """All tables with the given margins, flat, with the law of a random pairing."""
    weight = math.prod(map(math.factorial, (*rows, *columns)))
    found: Law = {}
    for cells in _fill(rows, columns):
        below = math.factorial(sum(rows)) * math.prod(math.factorial(x) for x in cells)
        found[cells] = weight / below
    return found


def _fill(rows: tuple[int, ...], columns: tuple[int, ...]) -> list[Table]:
    if not rows:
        return [()] if not any(columns) else []
    found = []
    for first in tables_of(rows[0], len(columns)).tolist():
        if all(x <= c for x, c in zip(first, columns, strict=True)):
            left = tuple(c - x for c, x in zip(columns, first, strict=True))
            found += [(*first, *rest) for rest in _fill(rows[1:], left)]
    return found
