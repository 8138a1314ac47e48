"""Synthetic tables drawn from a Dirichlet posterior: the exact law, and the plug-in law that is often mistaken for it.

See docs/theory/dirichlet.md. The laws act on a whole table: the last axis of an array holds its cells.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, NoReturn

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.exact_numbers import Number, float_up, read_exact, to_text
from understudy.core.mechanism import Stream
from understudy.errors import InputError, InternalError, UnsupportedError
from understudy.privacy.exact.small_tables import check_size, tables_of
from understudy.privacy.promise.event import Event, PureLoss, Sensitivity

SHOWN_CELLS = 6


def read_prior(prior: Number | Iterable[Number], cells: int | None) -> tuple[Fraction, ...]:
    """Prior sample sizes, one for each cell, exactly as written; one number stands for all of ``cells``."""
    if hasattr(prior, "tolist"):
        prior = prior.tolist()  # numpy arrays and scalars
    if isinstance(prior, str) or not isinstance(prior, Iterable):
        if cells is None:
            raise InputError(f"prior ({prior}) is one number for all cells; say how many there are with cells=.")
        return (_positive(prior),) * check_size(cells, "cells")
    given = tuple(prior)
    if cells is not None and cells != len(given):
        raise InputError(f"prior has {len(given):,} numbers and cells is {cells}; leave cells out, or make them agree.")
    if not given:
        raise InputError("prior is empty; give one positive number for each cell.")
    # Each distinct number is read once and shared, so that a million equal ones cost a million pointers.
    read = {value: _positive(value) for value in set(given)}
    return tuple(map(read.__getitem__, given))


def _positive(value: Number) -> Fraction:
    number = read_exact(value, "prior")
    if number <= 0:
        raise InputError(f"prior ({value}) must be positive in every cell: an impossible output would reveal the data.")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class _Posterior:
    """What the two laws share: a prior sample and the number of rows to draw."""

    prior: tuple[Fraction, ...]
    """The prior strength of each cell, in records; exact."""
    rows: int
    """How many rows are drawn."""
    classes: tuple[tuple[float, int], ...] = field(init=False, repr=False, compare=False)
    """The distinct prior strengths, and how many cells have each."""
    name: ClassVar[str]

    def __init__(self, *, prior: Number | Iterable[Number], rows: int, cells: int | None = None) -> None:
        object.__setattr__(self, "rows", check_size(rows, "rows"))
        object.__setattr__(self, "prior", read_prior(prior, cells))
        by_identity = Counter(map(id, self.prior))
        values = {id(value): value for value in self.prior}
        merged: Counter[float] = Counter()
        for key, count in by_identity.items():
            merged[float(values[key])] += count
        object.__setattr__(self, "classes", tuple(sorted(merged.items())))

    @property
    def cells(self) -> int:
        """The number of cells of a table."""
        return len(self.prior)

    @property
    def symmetric(self) -> bool:
        """Whether every cell has the same prior strength."""
        return len(self.classes) == 1

    @property
    def smallest(self) -> float:
        """The smallest prior sample size of a cell."""
        return self.classes[0][0]

    @property
    def total(self) -> float:
        """The prior sample size of the whole table."""
        return math.fsum(value * count for value, count in self.classes)

    def outputs(self) -> Integers:
        """List every table that can come out, in lexicographic order.

        Returns
        -------
        Integers
            One row for each table; for small spaces only.
        """
        return tables_of(self.rows, self.cells)

    def to_json(self) -> dict[str, object]:
        """The mechanism as plain values, for manifests and ledgers.

        Returns
        -------
        dict[str, object]
            The public parameters as plain values.
        """
        prior = to_text(self.prior[0]) if self.symmetric else [to_text(value) for value in self.prior]
        return {"mechanism": self.name, "prior": prior, "cells": self.cells, "rows": self.rows}

    def __repr__(self) -> str:
        shown = ", ".join(f"{float(value):g}" for value in self.prior[:SHOWN_CELLS])
        more = f", ... {self.cells:,} cells" if self.cells > SHOWN_CELLS else ""
        return f"{type(self).__name__}(prior=({shown}{more}), rows={self.rows})"

    def __str__(self) -> str:
        prior = f"{self.smallest:g} in each of {self.cells:,} cells" if self.symmetric else f"{self.cells:,} numbers"
        return f"{self.name} (prior {prior}, {self.rows:,} rows)"

    def _check(self, out: Integers, values: Integers) -> tuple[Floats, Floats, Floats]:
        if self.cells > 10_000_000:
            raise UnsupportedError(f"the law of single tables is for up to 10,000,000 cells; there are {self.cells:,}.")
        drawn, counts = np.asarray(out), np.asarray(values)
        for array, what in ((drawn, "output"), (counts, "table")):
            if array.dtype.kind not in "iu" or array.ndim == 0 or array.shape[-1] != self.cells:
                raise InputError(f"a {what} must hold whole numbers for each of {self.cells:,} cells.")
        if (counts < 0).any():
            raise InputError("a table of counts cannot hold negative numbers.")
        return drawn.astype(float), counts.astype(float), np.array([float(value) for value in self.prior])

    def _multiplicity(self, drawn: Floats) -> Floats:
        """log of m! / prod m_i!, and minus infinity for what cannot come out."""
        from scipy.special import gammaln

        possible = (drawn >= 0).all(axis=-1) & (drawn.sum(axis=-1) == self.rows)
        ways = gammaln(self.rows + 1) - gammaln(np.maximum(drawn, 0) + 1).sum(axis=-1)
        return np.where(possible, ways, -np.inf)


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False)
class DirichletMultinomial(_Posterior):
    """The posterior predictive of a multinomial with a Dirichlet prior: draw p ~ D(prior + n), then m ~ M(rows, p).

    P(m | n) = rows! / prod m_i! * G(A+n)/G(A+n+rows) * prod G(a_i+n_i+m_i)/G(a_i+n_i), G the gamma function, A the
    sum of the prior a (Abowd and Vilhuber 2008, eq. 1). Its largest log odds between tables that differ in one row is
    ln((rows + min a) / min a) (Machanavajjhala et al. 2008, Theorem 4.1), for one draw from the data.

    Parameters
    ----------
    cells
        How many cells there are, if ``prior`` is one number for all of them.

    Raises
    ------
    InputError
        If the prior is not positive in every cell, or ``cells`` does not fit it.

    Examples
    --------
    >>> round(float(DirichletMultinomial(prior=(0.5, 0.5), rows=5).epsilon), 6)
    2.397895
    """

    name: ClassVar[str] = "dirichlet_multinomial"

    @property
    def epsilon(self) -> float:
        """The worst-case loss over tables of any size, for either unit: attained under replace, a supremum else."""
        return math.log1p(self.rows / self.smallest) if self.cells > 1 else 0.0

    def event(self, sensitivity: Sensitivity) -> Event:
        """State what one draw costs, by Theorem 4.1. Exact (epsilon, delta) statements are made by the calibration.

        Parameters
        ----------
        sensitivity
            How far one unit can move the query.

        Returns
        -------
        Event
            The event, which the accountant and the ledger understand.

        Raises
        ------
        UnsupportedError
            If a unit has more than one row: the law is proved for one.
        """
        if sensitivity.linf != 1:
            raise UnsupportedError(
                f"the law of a Dirichlet draw is proved for one row per unit; a unit here has {sensitivity.linf}."
            )
        return PureLoss(epsilon=Fraction(float_up(Fraction(self.epsilon) * (1 + Fraction(1, 2**50)))), source=SOURCE)

    def run(self, values: Integers, stream: Stream) -> Integers:
        """Draw one synthetic table, by an urn that uses whole numbers only.

        Parameters
        ----------
        values
            The confidential counts, one for each cell.
        stream
            The source of randomness.

        Returns
        -------
        Integers
            The counts of the synthetic table.

        Raises
        ------
        InternalError
            If the table does not have the cells of the prior.
        UnsupportedError
            If the prior differs between cells.
        """
        from understudy.core.domain import Domain
        from understudy.core.schema import Attribute, Schema
        from understudy.privacy.randomness.draws import polya_urn

        counts = np.asarray(values)
        if counts.shape != (self.cells,) or counts.dtype.kind not in "iu" or (counts < 0).any():
            raise InternalError(f"a table for this draw has {self.cells:,} cells with counts of at least 0.")
        if not self.symmetric:
            raise UnsupportedError("the urn draws with the same prior in every cell; give one number as prior.")
        if self.cells == 1:
            return np.array([self.rows], dtype=np.int64)
        schema = Schema(attributes=(Attribute(name="cell", levels=tuple(range(self.cells))),))
        filled = np.flatnonzero(counts)
        cells, times = polya_urn(
            filled,
            counts[filled].astype(np.int64),
            Domain(schema=schema, margin=("cell",)),
            stream,
            "dirichlet_multinomial",
            prior=self.prior[0],
            rows=self.rows,
        )
        drawn = np.zeros(self.cells, dtype=np.int64)
        drawn[cells] = times
        return drawn

    def log_pmf(self, out: Integers, values: Integers) -> Floats:
        """Give the log probability of each output table for each input table.

        Parameters
        ----------
        out
            Synthetic tables; the last axis is the cells.
        values
            Confidential tables; leading axes are broadcast.

        Returns
        -------
        Floats
            One log probability for each pair of output and input.
        """
        from scipy.special import gammaln

        drawn, counts, prior = self._check(out, values)
        posterior = prior + counts
        total = posterior.sum(axis=-1)
        with np.errstate(invalid="ignore"):
            growth = (gammaln(posterior + np.maximum(drawn, 0)) - gammaln(posterior)).sum(axis=-1)
        law: Floats = self._multiplicity(drawn) + growth + gammaln(total) - gammaln(total + self.rows)
        return law


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False)
class PosteriorMeanMultinomial(_Posterior):
    """The plug-in: m ~ M(rows, (prior + n) / (A + n)). For audit only.

    This, and not the posterior predictive of its eq. (1), is what Abowd and Vilhuber (2008) computed for Fig. 1. It
    leaves out the uncertainty about p, so its log odds, rows * ln((1 + min a) / min a) at worst, are far larger.

    Parameters
    ----------
    cells
        How many cells there are, if ``prior`` is one number for all of them.

    Raises
    ------
    InputError
        If the prior is not positive in every cell, or ``cells`` does not fit it.
    """

    name: ClassVar[str] = "posterior_mean_multinomial"

    def event(self, sensitivity: Sensitivity) -> Event:
        """State what one draw would cost: each row has log odds up to ln((1 + a) / a) (docs/theory/dirichlet.md).

        Parameters
        ----------
        sensitivity
            How far one unit can move the query.

        Returns
        -------
        Event
            The event, which the accountant and the ledger understand.

        Raises
        ------
        UnsupportedError
            If a unit has more than one row: the law is proved for one.
        """
        if sensitivity.linf != 1:
            raise UnsupportedError(
                f"the law of a plug-in draw is proved for one row per unit; a unit here has {sensitivity.linf}."
            )
        worst = self.rows * math.log1p(1 / self.smallest) if self.cells > 1 else 0.0
        return PureLoss(epsilon=Fraction(float_up(Fraction(worst) * (1 + Fraction(1, 2**50)))), source=PLUG_IN)

    def run(self, values: Integers, stream: Stream) -> NoReturn:
        """Refuse to draw: this law is for audit only.

        Parameters
        ----------
        values
            Not used.
        stream
            Not used.

        Raises
        ------
        UnsupportedError
            Always. Draw with ``DirichletMultinomial``.
        """
        del values, stream
        raise UnsupportedError("PosteriorMeanMultinomial is for audit only; draw with DirichletMultinomial.")

    def log_pmf(self, out: Integers, values: Integers) -> Floats:
        """Give the log probability of each output table for each input table.

        Parameters
        ----------
        out
            Synthetic tables; the last axis is the cells.
        values
            Confidential tables; leading axes are broadcast.

        Returns
        -------
        Floats
            One log probability for each pair of output and input.
        """
        drawn, counts, prior = self._check(out, values)
        posterior = prior + counts
        share = np.log(posterior) - np.log(posterior.sum(axis=-1, keepdims=True))
        law: Floats = self._multiplicity(drawn) + (np.maximum(drawn, 0) * share).sum(axis=-1)
        return law


SOURCE = "Machanavajjhala et al. 2008, Theorem 4.1"
PLUG_IN = "docs/theory/dirichlet.md, plug-in"
