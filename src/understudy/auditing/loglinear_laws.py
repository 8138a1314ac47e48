"""The posterior predictive of log-linear models with a perturbed prior, exactly (Charest 2010, Section 5.1).

Small tables only, and for audit only: the method ``loglinear`` puts noise on the statistics of the model instead. See
docs/theory/loglinear.md for the law and for why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import ClassVar, Literal

import numpy as np

from understudy.auditing.transition_laws import AuditOnly, Law, Table
from understudy.errors import InputError
from understudy.privacy.exact.small_tables import tables_of

Effects = Literal["main", "chain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLinearPredictive(AuditOnly):
    """``rows`` rows from the posterior predictive of a log-linear model of a small table.

    ``main``: attributes are independent, each with a Dirichlet prior. ``chain``: neighbouring attributes have two-way
    effects (a hyper-Dirichlet prior, Dawid and Lauritzen 1993). The prior is worth ``prior`` people, spread evenly.
    ``random_effect``: the shares of cells are Dirichlet around those of the model, worth so many people; the smaller,
    the freer are cells. Without it they are those of the model.

    Raises
    ------
    InputError
        If a number is not positive, or the shape is not one of a small table.

    Examples
    --------
    >>> import understudy as us
    >>> law = LogLinearPredictive(shape=(2, 2), rows=3, prior=4)
    >>> round(us.audit(law, records=3).epsilon, 6), round(law.bound(3), 6)
    (1.832581, 1.832581)
    """

    shape: tuple[int, ...]
    """The levels of each attribute."""
    rows: int
    """How many rows are drawn."""
    prior: float
    """The prior of the model, in people."""
    effects: Effects = "main"
    """``main`` or ``chain``."""
    random_effect: float | None = None
    """The prior of the cells around the model, in people."""
    name: ClassVar[str] = "loglinear_predictive"

    def __post_init__(self) -> None:
        if len(self.shape) < 2 or any(not isinstance(size, int) or size < 2 for size in self.shape):
            raise InputError(f"shape ({self.shape}) must be two or more whole numbers of at least 2.")
        if not isinstance(self.rows, int) or self.rows < 1:
            raise InputError(f"rows ({self.rows}) must be a whole number of at least 1.")
        if self.effects not in ("main", "chain"):
            raise InputError(f"effects ({self.effects!r}) must be 'main' or 'chain'.")
        for name, value in (("prior", self.prior), ("random_effect", self.random_effect)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InputError(f"{name} ({value}) must be a positive number of people.")

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    def bound(self, records: int) -> float:
        """An epsilon that is proved for so many people, for neighbours by replacement (docs/theory/loglinear.md).

        It is exact for main effects (Theorem 1) and for chains of up to three attributes (Theorem 3), without a random
        effect. With one, or for longer chains, the audit of a small table has less.
        """
        if self.random_effect is not None:
            return self._bound_with_cells(self.random_effect, records - 1)
        if self.effects == "main":
            return sum(self._gain(size, self.rows) for size in self.shape)
        pairs, shared = self._tables
        together = sum(self._gain(size, self.rows) for size in pairs)
        if len(shared) > 1:
            return together + sum(self._gain(size, self.rows) for size in shared)
        # Neighbours that differ in the shared attribute: ``rows`` are divided among the two levels.
        apart = [
            sum(self._gain(size, one) - math.log1p(one / (self.prior / size_shared + records - 1)) / len(pairs)
                for size in pairs) + self._gain(size_shared, self.rows - one)
            for size_shared in shared for one in range(self.rows + 1)
        ]  # fmt: skip
        return max([together, *apart])

    @property
    def _tables(self) -> tuple[list[int], list[int]]:
        """The cells of each table of the model, and of each overlap of its chain."""
        if self.effects == "main":
            return list(self.shape), []
        return [a * b for a, b in pairwise(self.shape)], list(self.shape[1:-1])

    def _gain(self, cells: int, rows: int) -> float:
        """By how much so many rows in one cell make the next one there more likely, at most; the logarithm."""
        return math.log1p(rows * cells / self.prior)

    def _bound_with_cells(self, strength: float, others: int) -> float:
        """Theorem 4: the share of a cell under the model is between the least and the most that people can make it."""

        def share(people: int, here: int) -> float:
            """Of a cell whose every table has ``here`` of so many people, and whose every overlap has all of them."""
            pairs, shared = self._tables
            each = math.prod((self.prior / size + here) for size in pairs)
            if self.effects == "main":
                return each / (self.prior + people) ** len(pairs)
            return each / ((self.prior + people) * math.prod(self.prior / size + people for size in shared))

        after = others + self.rows
        grown = (strength * share(after, after) + self.rows) / (strength * share(others, 0))
        return math.log(grown) + math.log(share(others, others) / share(after, 0))

    def law(self, table: Table) -> Law:
        if len(table) != self.cells:
            raise InputError(f"a table of {' x '.join(map(str, self.shape))} has {self.cells} cells.")
        before = self._log_weight(table)
        found: Law = {}
        for out in map(tuple, tables_of(self.rows, self.cells).tolist()):
            both = tuple(old + new for old, new in zip(table, out, strict=True))
            arranged = math.lgamma(self.rows + 1) - sum(math.lgamma(count + 1) for count in out)
            found[out] = math.exp(arranged + self._log_weight(both) - before)
        return found

    def _log_weight(self, counts: Table) -> float:
        """Log probability of some people in order, under the prior."""
        if self.random_effect is None:
            return self._log_model(counts)
        return _mixed(self, counts)

    def _log_model(self, counts: Table) -> float:
        grid = np.array(counts).reshape(self.shape)
        axes = range(len(self.shape))
        if self.effects == "main":
            return sum(self._log_margin(grid, (axis,)) for axis in axes)
        pairs = sum(self._log_margin(grid, (axis, axis + 1)) for axis in axes[:-1])
        return pairs - sum(self._log_margin(grid, (axis,)) for axis in axes[1:-1])

    def _log_margin(self, grid: np.ndarray, kept: tuple[int, ...]) -> float:
        """Log probability of a margin in order, under its Dirichlet prior."""
        table = grid.sum(axis=tuple(axis for axis in range(grid.ndim) if axis not in kept)).ravel()
        each = self.prior / table.size
        return sum(_rising(each, int(count)) for count in table) - _rising(self.prior, int(table.sum()))


def _rising(start: float, count: int) -> float:
    """Log of start (start + 1) ... (start + count - 1)."""
    return math.lgamma(start + count) - math.lgamma(start)


@lru_cache(maxsize=100_000)
def _mixed(law: LogLinearPredictive, counts: Table) -> float:
    """The same with the random effect: the model's shares p are integrated out.

    Given p, people in order have the probability prod_x (t p_x) (t p_x + 1) ... / (t (t + 1) ...), which is a
    polynomial in p with Stirling numbers of the first kind as coefficients, and each power of p has its mean under the
    model.
    """
    strength = law.random_effect or 0.0
    terms = []
    for powers in product(*(range(min(count, 1), count + 1) for count in counts)):
        ways = sum(math.log(_stirling(count, power)) for count, power in zip(counts, powers, strict=True))
        terms.append(ways + sum(powers) * math.log(strength) + law._log_model(powers))
    most = max(terms)
    return most + math.log(math.fsum(math.exp(term - most) for term in terms)) - _rising(strength, sum(counts))


@lru_cache(maxsize=10_000)
def _stirling(count: int, power: int) -> int:
    """Unsigned Stirling numbers of the first kind."""
    if count == power:
        return 1
    if power == 0 or power > count:
        return 0
    return _stirling(count - 1, power - 1) + (count - 1) * _stirling(count - 1, power)
