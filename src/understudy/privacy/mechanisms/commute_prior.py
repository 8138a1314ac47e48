"""How large the prior of a destination must be, from its public number of records: one table for all destinations.

The prior is calibrated for each size up to 64 and for steps of about 3 percent above: a step from ``least`` to ``most``
is calibrated with the records of ``least`` and the rows of ``most``. By Theorem 4 of docs/theory/dirichlet.md more
records in other cells and fewer rows lose less, so that prior holds for every size in the step.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.exact_numbers import float_down, to_text
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.exact.dirichlet_profile import PriorShape, delta
from understudy.privacy.mechanisms.private_sizes import private_cells, private_prior
from understudy.privacy.promise.calibrate_dirichlet import (
    SAFETY,
    exact_approx_prior,
    exact_breach_prior,
    pure_prior,
    round_prior,
    theorem_prior,
)
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.event import ApproxLoss, PureLoss

EXACT_SIZES = 64
STEP = 1.03
MOST_EXACT = 4_000_000
FEWEST_CELLS = 2
PRIOR_SHARE = Fraction(1, 4)  # share of the records that the priors of all cells of a destination may add up to
FEW_CELLS, FEW_SHARE = 3, Fraction(2, 3)  # share of the records, as prior, that a third cell is worth
LEAST_FOR_MORE = 1  # epsilon below which priors are large, and more rows would only make them larger
MORE_ROWS = ((100, 4), (32, 2))  # from so many jobs on, so many rows for each
RULES = ("exact", "theorem", "accept_reject")


def size_step(size: int) -> tuple[int, int]:
    """The step of sizes that are calibrated together.

    >>> size_step(10), size_step(64), size_step(1000)[0] <= 1000 <= size_step(1000)[1]
    ((10, 10), (64, 65), True)
    """
    if size < EXACT_SIZES:
        return size, size
    starts = _starts()
    number = bisect_right(starts, size)
    return starts[number - 1], starts[number] - 1


@lru_cache(maxsize=1)
def _starts() -> tuple[int, ...]:
    """The least size of each step, up to more jobs than there are people."""
    starts = [EXACT_SIZES]
    while starts[-1] < 2**40:
        starts.append(max(starts[-1] + 1, math.ceil(starts[-1] * STEP)))
    return tuple(starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedPrior:
    """For each step of sizes the number of cells and the prior of each, a multiple of a power of two.

    ``entries`` maps the least size of a step to (cells, weight, shift): the prior is weight / 2^shift. ``times`` says
    how many rows are drawn for each job. A systematic sample of them is kept, one for each job. It is 1 where nothing
    is said.
    """

    entries: Mapping[int, tuple[int, int, int]]
    times: Mapping[int, int] = field(default_factory=dict)

    def of(self, sizes: Integers) -> tuple[Integers, Integers, Integers]:
        """Cells, weights and shifts of destinations by their sizes; a destination without rows draws nothing."""
        if not self.entries:
            return np.ones_like(sizes), np.ones_like(sizes), np.zeros_like(sizes)
        table = np.array([self.entries[key] for key in sorted(self.entries)], dtype=np.int64)
        at = self.step_of(sizes)
        return table[at, 0], table[at, 1], table[at, 2]

    def times_of(self, sizes: Integers) -> Integers:
        """Rows drawn for each job, by the sizes of destinations."""
        if not self.entries or not self.times:
            return np.ones_like(sizes)
        table = np.array([self.times.get(key, 1) for key in sorted(self.entries)], dtype=np.int64)
        return np.asarray(table[self.step_of(sizes)])

    def step_of(self, sizes: Integers) -> Integers:
        """The number of the step that each size is in."""
        keys = np.array(sorted(self.entries), dtype=np.int64)
        return np.asarray(np.maximum(np.searchsorted(keys, sizes, side="right") - 1, 0))

    def prior(self, size: int) -> Fraction:
        _, weight, shift = (int(values[0]) for values in self.of(np.array([size])))
        return Fraction(weight, 2**shift)

    def to_json(self) -> dict[str, Any]:
        listed = sorted(self.entries.items())
        return {
            "sizes_from": [size for size, _ in listed],
            "cells": [cells for _, (cells, _, _) in listed],
            "priors": [to_text(Fraction(weight, 2**shift)) for _, (_, weight, shift) in listed],
            "rows_per_job": [self.times.get(size, 1) for size, _ in listed],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SizedPrior:
        entries = {}
        for size, cells, text in zip(data["sizes_from"], data["cells"], data["priors"], strict=True):
            prior = Fraction(text)
            shift = prior.denominator.bit_length() - 1
            if prior <= 0 or prior.denominator != 2**shift or int(cells) < 1 or int(size) in entries:
                raise InputError("a prior that is stated is not one that can be drawn with.")
            entries[int(size)] = (int(cells), prior.numerator, shift)
        times = {int(size): int(count) for size, count in zip(data["sizes_from"], data["rows_per_job"], strict=True)}
        if any(count < 1 for count in times.values()):
            raise InputError("at least one row is drawn for each job.")
        return cls(entries=entries, times=times)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorRule:
    """How a prior is set: by which loss, by which rule, and how much prior there may be for each record."""

    loss: PureLoss | ApproxLoss
    rule: str = "exact"
    share: Fraction = PRIOR_SHARE
    extra_cells: int = 0
    public_sizes: bool = True  # else any number of records may stand behind the rows
    usable: Callable[[int], int] = int  # the largest number of cells, up to a given one, that a division can have

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise InputError(f"rule ({self.rule!r}) must be one of {', '.join(RULES)}.")

    def table(self, sizes: Integers, cells: int | Mapping[int, int] | None = None) -> SizedPrior:
        """The prior for all sizes that occur; with ``cells`` the domain is given (the same for all, or the fewest cells
        by the least size of each step), else it is chosen by the share."""
        steps = sorted({size_step(int(size)) for size in np.unique(sizes) if size > 0})
        times = {least: self.times_for(least) for least, _ in steps}
        given = cells if isinstance(cells, Mapping) else dict.fromkeys((least for least, _ in steps), cells)
        entries = {least: self._entry(least, most * times[least], given[least]) for least, most in steps}
        return SizedPrior(entries=entries, times=times)

    @property
    def _private(self) -> bool:
        return not self.public_sizes and isinstance(self.loss, ApproxLoss)

    def times_for(self, size: int) -> int:
        """Rows drawn for each job. More rows need a larger prior but carry less noise of their own: worth it where
        there are many jobs. Only where the exact delta sets the prior, which hardly grows with the rows there."""
        exact = isinstance(self.loss, ApproxLoss) and self.rule == "exact" and self.public_sizes
        exact = exact and self.loss.epsilon >= LEAST_FOR_MORE
        return next((times for least, times in MORE_ROWS if size >= least), 1) if exact else 1

    def _entry(self, least: int, most: int, cells: int | None) -> tuple[int, int, int]:
        chosen = self._choose_cells(least, most) if cells is None else cells
        prior = round_prior(Fraction(self.prior_for(least, most, chosen + self.extra_cells)))
        return chosen, prior.numerator, prior.denominator.bit_length() - 1

    def _choose_cells(self, least: int, most: int) -> int:
        """The largest number of cells whose priors together stay below the share of the records."""
        room = float(self.share * least)
        if self._private:
            epsilon, promise = float_down(self.loss.epsilon), float_down(self.loss.delta)  # type: ignore[union-attr]
            room = max(room, 1.25 * pure_prior(epsilon, most))
            return self.usable(private_cells(epsilon, promise, most, room))
        alone = self.prior_for(least, most, None, total=room)
        fewest, cells = FEWEST_CELLS, self.usable(max(FEWEST_CELLS, int(room / alone)))
        few = self.usable(FEW_CELLS)
        if cells < few and few * self.prior_for(least, most, few + self.extra_cells) <= float(FEW_SHARE * least):
            fewest = cells = few
        while cells > fewest and cells * self.prior_for(least, most, cells + self.extra_cells) > room * 1.001:
            cells = self.usable(max(fewest, int(cells * 0.97)))
        return cells

    def prior_for(self, least: int, most: int, cells: int | None, total: float = 0.0) -> float:
        epsilon = float_down(self.loss.epsilon)
        if self._private and cells is not None:
            return private_prior(epsilon, float_down(self.loss.delta), cells, most)  # type: ignore[union-attr]
        if isinstance(self.loss, PureLoss) or not self.public_sizes or most > MOST_EXACT:
            return pure_prior(epsilon, most) * (1 + 2.0**-50)
        promise = float_down(self.loss.delta)
        if self.rule == "theorem":
            return theorem_prior(epsilon, promise, cells or max(FEWEST_CELLS, int(total * 4)), most)
        if self.rule == "accept_reject":
            return _accepting_prior(epsilon, promise, cells or max(FEWEST_CELLS, int(total * 4)), least, most)
        if cells is None:
            return _prior_of_total(epsilon, promise, total, least, most)
        return _exact(epsilon, promise, cells, least, most)


@lru_cache(maxsize=65536)
def _exact(epsilon: float, promise: float, cells: int, records: int, rows: int) -> float:
    return exact_approx_prior(epsilon, promise, cells, records, rows)


@lru_cache(maxsize=65536)
def _prior_of_total(epsilon: float, promise: float, total: float, records: int, rows: int) -> float:
    """The smallest prior of a cell when all priors together are ``total``; a start for the search of cells."""
    unit = Unit(kind="replace")

    def holds(prior: float) -> bool:
        shape = PriorShape(smallest=prior, second=prior, total=max(total, 3 * prior), cells=3, rows=rows)
        return delta(shape, records, unit, epsilon) <= promise * (1 - SAFETY)

    high = pure_prior(epsilon, rows)
    low = high * 1e-9
    for _ in range(40):
        middle = math.sqrt(low * high)
        if holds(middle):
            high = middle
        else:
            low = middle
        if high < low * 1.0005:
            break
    return high


def accepting_level(epsilon: float, promise: float) -> float:
    """ln(gamma + 1) of Lemma 5.2, what is left of epsilon for a draw that is accepted."""
    level = epsilon + math.log1p(-promise)
    if level <= 0:
        raise UnsupportedError("accept/reject needs a larger epsilon.")
    return level


def _accepting_prior(epsilon: float, promise: float, cells: int, records: int, rows: int) -> float:
    """Lemma 5.2: with gamma + 1 = (1 - delta) e^epsilon and breach probability at most delta at ln(gamma + 1)."""
    level = accepting_level(epsilon, promise)
    if records * rows > 40_000:  # too many jumps to certify: with Theorem 4.1's prior nothing is ever rejected
        return pure_prior(level, rows)
    return exact_breach_prior(level, promise, cells, records, rows, bound=True)[0]
