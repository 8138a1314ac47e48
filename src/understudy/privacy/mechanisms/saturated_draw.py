"""Saturated count models (Jackson, Mitra, Francis and Dove 2022): synthesis without protection, cell by cell.

Law: every possible cell with count n gets an independent count with mean m = n + alpha. It is Poisson, or
over-dispersed with variance m + sigma m^2: negative binomial (a gamma mixture) or Poisson-inverse-Gaussian. The number
of rows is the sum, so it is random. If a number of rows is asked for, they are drawn at random from these counts. With
Poisson counts, given their sum, this is the multinomial draw of ``PlainMultinomial``. There is no guarantee: with
alpha = 0 an empty cell stays empty, whatever the spread. It charges an infinite loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from understudy.core.arrays import Floats, Integers
from understudy.core.domain import Domain
from understudy.core.mechanism import Stream
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.promise.event import Event, NoNoise
from understudy.privacy.randomness.draws import uniform_below, uniform_possible, unit_interval

COUNT_LAWS = ("poisson", "negative_binomial", "inverse_gaussian")
MOST_CELLS = 10_000_000
AT_ONCE = 1_000_000  # cells


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturatedDraw:
    """An independent count for every possible cell. No guarantee."""

    law: str
    sigma: float
    alpha: float
    rows: int | None = None  # how many rows are drawn at random from the table of random counts; None: all of them
    name: ClassVar[str] = "saturated_counts"
    covers: ClassVar[str] = "whole_domain"

    def __post_init__(self) -> None:
        if self.law not in COUNT_LAWS:
            raise unknown_name("law", self.law, COUNT_LAWS)
        for name in ("sigma", "alpha"):
            value = getattr(self, name)
            if isinstance(value, bool) or not np.isfinite(value) or value < 0:
                raise InputError(f"{name} ({value}) must be a finite number of at least 0.")

    def check_size(self, cells: int) -> None:
        """Refuse a table with more cells than can be drawn one by one."""
        if self.alpha > 0 and cells > MOST_CELLS:
            raise UnsupportedError(
                f"with alpha above 0 every cell is drawn; there are {cells:,}, and at most {MOST_CELLS:,} can be. Use "
                "alpha = 0, or fewer attributes."
            )

    def event_for(self, facts: TableFacts) -> Event:  # noqa: ARG002 - no guarantee, whatever is drawn
        return NoNoise()

    def draw(
        self, cells: Integers, counts: Integers, domain: Domain, stream: Stream, *purpose: str | int
    ) -> tuple[Integers, Integers]:
        found, times = self._table(cells, counts, domain, stream, *purpose)
        if self.rows is None:
            return found, times
        total = int(times.sum())
        if not total:  # no cell got a row: all possible rows are equally likely
            return np.unique(uniform_possible(domain, self.rows, stream, *purpose, "rows"), return_counts=True)
        drawn = uniform_below(stream, total, self.rows, *purpose, "rows")
        return np.unique(found[np.searchsorted(np.cumsum(times), drawn, side="right")], return_counts=True)

    def _table(
        self, cells: Integers, counts: Integers, domain: Domain, stream: Stream, *purpose: str | int
    ) -> tuple[Integers, Integers]:
        """The non-empty cells of the table of random counts."""
        if self.alpha == 0:
            drawn = self._counts(counts.astype(np.float64), stream, *purpose, 0)
            return cells[drawn > 0], drawn[drawn > 0]
        self.check_size(domain.size)
        means = np.full(domain.size, self.alpha)
        means[cells] += counts
        found = []
        for first in range(0, domain.size, AT_ONCE):
            block = np.arange(first, min(first + AT_ONCE, domain.size))
            block = block[domain.is_possible(block)]
            drawn = self._counts(means[block], stream, *purpose, 1 + first // AT_ONCE)
            found.append((block[drawn > 0], drawn[drawn > 0]))
        return np.concatenate([one for one, _ in found]), np.concatenate([times for _, times in found])

    def _counts(self, means: Floats, stream: Stream, *purpose: str | int) -> Integers:
        """One count for each mean, by inversion."""
        spread = 0.0 if self.law == "poisson" else self.sigma
        if spread > 0:
            mixing = unit_interval(stream, len(means), *purpose, "mixing")
            factor = _gamma if self.law == "negative_binomial" else _inverse_gaussian
            means = means * factor(mixing, spread)
        return _poisson(unit_interval(stream, len(means), *purpose, "count"), means)

    def to_json(self) -> dict[str, str]:
        facts = {"law": self.law, "sigma": repr(self.sigma), "alpha": repr(self.alpha)}
        return {"mechanism": self.name, **facts, **({} if self.rows is None else {"rows": str(self.rows)})}


def _poisson(uniform: Floats, means: Floats) -> Integers:
    """The smallest count whose distribution function exceeds the uniform number."""
    guess = np.floor(np.maximum(special.pdtrik(np.clip(uniform, 1e-300, None), np.maximum(means, 1e-300)), 0))
    guess = np.where(np.isfinite(guess), guess, 0.0)
    while (low := special.pdtr(guess, means) <= uniform).any():
        guess[low] += 1
    while (high := (guess > 0) & (special.pdtr(np.maximum(guess - 1, 0), means) > uniform)).any():
        guess[high] -= 1
    return guess.astype(np.int64)


def _gamma(uniform: Floats, spread: float) -> Floats:
    """Gamma variables with mean 1 and variance ``spread``."""
    return np.asarray(special.gammaincinv(1 / spread, uniform) * spread)


def _inverse_gaussian(uniform: Floats, spread: float) -> Floats:
    """Inverse Gaussian variables with mean 1 and variance ``spread``, by bisection."""
    shape = 1 / spread
    low, high = np.full(len(uniform), -60.0), np.full(len(uniform), 60.0)  # on the log scale
    for _ in range(60):
        middle = (low + high) / 2
        x = np.exp(middle)
        root = np.sqrt(shape / x)
        below = special.ndtr(root * (x - 1)) + np.exp(2 * shape + special.log_ndtr(-root * (x + 1)))
        low, high = np.where(below <= uniform, middle, low), np.where(below <= uniform, high, middle)
    return np.asarray(np.exp((low + high) / 2))
