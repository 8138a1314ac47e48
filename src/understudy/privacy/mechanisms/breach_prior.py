"""Priors for which all draws of a release together keep Definition 6: their breach probabilities add up to delta.

The breach probability is a saw-tooth in the prior, so one prior says nothing about another: the prior that is drawn
with is itself checked, for every public size and number of cells by itself. Thresholds of cells with at most one record
jump where (e^epsilon - 1) prior is a whole number; just there the probability is low, so such priors are tried first,
and smaller ones in between after that. The last of them is Theorem 4.1's, which never breaches. Theorem 9 of
docs/theory/probabilistic-dp.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.exact_numbers import float_down
from understudy.errors import InputError
from understudy.privacy.mechanisms.commute_prior import FEW_CELLS, FEW_SHARE, FEWEST_CELLS, PRIOR_SHARE, SizedPrior
from understudy.privacy.mechanisms.preconditions import SLACK, DrawLaw, breach_of_all, theorem_9_holds
from understudy.privacy.promise.calibrate_dirichlet import LARGEST_EXPONENT, round_prior
from understudy.privacy.promise.event import ApproxLoss

PARTS = 64  # into which the step from one jump to the next is divided
FEW_SIZES = 32  # up to which parts of a step are tried; with more sizes their cost is not worth their gain
DOUBLINGS, HALVINGS = 12, 4  # of the search for shares that use up delta
KEPT_BACK = 1e-8  # of delta, relative: for rounding in sums over draws
LESS, MOST_TRIES = 0.8, 20

CellsOf = Callable[[Fraction], Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Draws of one public size: ``cells_of`` says, for a prior, how many of them have how many cells."""

    records: int
    rows: int
    cells_of: CellsOf = field(compare=False)

    def laws(self, prior: Fraction) -> list[DrawLaw]:
        return [DrawLaw(prior, cells, self.records, self.rows, times) for cells, times in self.cells_of(prior).items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The prior of all draws of one size, and an upper bound of their breach probabilities, added up."""

    prior: Fraction
    breach: float


def prior_of_step(step: Fraction, epsilon: Fraction) -> Fraction:
    """The prior as it can be drawn with, rounded up, for which (e^epsilon - 1) prior is ``step``."""
    growth = Fraction(math.expm1(min(float_down(epsilon), LARGEST_EXPONENT))) * (1 - SLACK)
    if growth <= 0:
        raise InputError(f"epsilon ({float(epsilon):g}) is too small for a Dirichlet draw.")
    return round_prior(step / growth)


def breach_priors(draws: Sequence[Draws], loss: ApproxLoss) -> list[Calibrated]:
    """A prior for each public size, such that all breach probabilities together are at most delta.

    What is returned was checked by the same function that the gate and ``verify`` ask.
    """
    allowed = float_down(loss.delta) * (1 - KEPT_BACK)
    for _ in range(MOST_TRIES):
        found = _calibrate(draws, loss.epsilon, allowed)
        if theorem_9_holds(loss, (law for one, size in zip(draws, found, strict=True) for law in one.laws(size.prior))):
            return found
        allowed *= LESS
    return [Calibrated(prior=prior_of_step(Fraction(max(one.rows, 1)), loss.epsilon), breach=0.0) for one in draws]


def _calibrate(draws: Sequence[Draws], epsilon: Fraction, allowed: float) -> list[Calibrated]:
    """Shares of what is allowed, and the priors that keep them.

    A breach is about as likely as there are records, so a size gets a share of delta in proportion to its records:
    that makes priors nearly equal, and by Lagrange equal priors use delta best. Small sizes need less than their share
    or nothing at all; all shares then grow by the same factor while the sum is kept.
    """
    sizes = [_Size(one, epsilon) for one in draws]
    everybody = sum(size.people for size in sizes)
    if not everybody:
        return [Calibrated(prior=prior_of_step(Fraction(1), epsilon), breach=0.0) for _ in draws]

    for size in sizes:
        size.share = allowed * size.people / everybody

    finest = 1 if len(sizes) <= FEW_SIZES else PARTS

    def settle(factor: float) -> tuple[list[int], float]:
        parts, guess = [], PARTS
        for size in sizes:
            guess = size.least_part(factor * size.share, guess, finest)
            parts.append(guess)
        return parts, math.fsum(size.breach(part) for size, part in zip(sizes, parts, strict=True))

    factor, (parts, _) = 1.0, settle(1.0)
    growth = 2.0
    for _ in range(DOUBLINGS + HALVINGS):
        tried, total = settle(factor * growth)
        if total <= allowed:
            factor, parts = factor * growth, tried
            if growth == 2.0 and factor >= 2.0**DOUBLINGS:
                break
        else:
            growth = math.sqrt(growth)
    return [
        Calibrated(prior=size.prior(part), breach=size.breach(part)) for size, part in zip(sizes, parts, strict=True)
    ]


def priors_of_tables(parts: Sequence[tuple[int, int, int]], loss: ApproxLoss) -> list[Fraction]:
    """A prior for each of the tables that one copy is drawn from, given their records, rows and possible cells.

    A table of one cell is known beforehand and may have any prior.
    """
    times = Counter(part for part in parts if part[2] > 1)
    draws = [
        Draws(records=records, rows=rows, cells_of=partial(_as_given, {cells: count}))
        for (records, rows, cells), count in sorted(times.items())
    ]
    found = {part: size.prior for part, size in zip(sorted(times), breach_priors(draws, loss), strict=True)}
    return [found.get(part, Fraction(1)) for part in parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreachRule:
    """How the priors of destinations are set for Definition 6: each public size has its own.

    ``share`` is the prior that all cells of a destination may have for each record, where cells are made to measure;
    ``extra_cells`` is 1 where ``elsewhere`` is a cell; ``usable`` gives the largest number of cells, up to a given one,
    that a division can have.
    """

    loss: ApproxLoss
    share: Fraction = PRIOR_SHARE
    extra_cells: int = 0
    usable: Callable[[int], int] = int

    def table(self, rows: Integers, cells: Integers | None = None) -> SizedPrior:
        """The prior for all sizes that occur, and the cells: those given for each destination, or made to measure."""
        sizes, counts = np.unique(rows[rows > 0], return_counts=True)
        draws = []
        for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
            if cells is None:
                made: CellsOf = partial(self._made_to_measure, size, count)
            else:
                kinds, times = np.unique(cells[rows == size], return_counts=True)
                made = partial(_as_given, dict(zip(kinds.tolist(), times.tolist(), strict=True)))
            draws.append(Draws(records=size, rows=size, cells_of=made))
        entries = {}
        for one, found in zip(draws, breach_priors(draws, self.loss), strict=True):
            fewest = min(one.cells_of(found.prior)) - self.extra_cells
            entries[one.records] = (fewest, found.prior.numerator, found.prior.denominator.bit_length() - 1)
        return SizedPrior(entries=entries)

    def _made_to_measure(self, size: int, count: int, prior: Fraction) -> Mapping[int, int]:
        made = self.usable(max(FEWEST_CELLS, int(self.share * size / prior)))
        few = self.usable(FEW_CELLS)
        if made < few and few * prior <= FEW_SHARE * size:
            made = few
        return {made + self.extra_cells: count}


def _as_given(kinds: Mapping[int, int], _prior: Fraction) -> Mapping[int, int]:
    return kinds


class _Size:
    """The draws of one size: which priors were tried, and their breach probabilities."""

    def __init__(self, draws: Draws, epsilon: Fraction) -> None:
        self.draws, self.epsilon = draws, epsilon
        self.people = draws.records * sum(draws.cells_of(self.prior(PARTS)).values())
        self.last = max(draws.rows, 1) * PARTS  # Theorem 4.1
        self.share = 0.0  # of delta, before shares grow: a bound below it is good enough
        self.known: dict[int, float] = {}

    def prior(self, part: int) -> Fraction:
        return prior_of_step(Fraction(part, PARTS), self.epsilon)

    def breach(self, part: int) -> float:
        """All draws of the size together, at most."""
        if part >= self.last:
            return 0.0
        if part not in self.known:
            prior = self.prior(part)
            self.known[part] = breach_of_all(self.draws.laws(prior), self.epsilon, self.share)
        return self.known[part]

    def least_part(self, allowed: float, guess: int, finest: int) -> int:
        """A prior that keeps ``allowed`` while one a little smaller does not, sought from ``guess`` outwards."""
        good = bad = min(math.ceil(guess / PARTS) * PARTS, self.last)
        reach = PARTS
        while good and self.breach(good) <= allowed:  # ends where nothing is drawn, or with a failure
            bad, good, reach = good, max(good - reach, 0), reach * 2
        bad, good = good, bad
        while good == bad or self.breach(good) > allowed:
            bad, good, reach = good, min(good + reach, self.last), reach * 2
        for width in (PARTS, finest):
            while good - bad > width:
                middle = (good + bad) // (2 * width) * width
                if self.breach(middle) <= allowed:
                    good = middle
                else:
                    bad = middle
        return good
