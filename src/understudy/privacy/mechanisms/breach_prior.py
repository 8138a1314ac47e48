"""Priors for which all draws of a release together keep Definition 6: their breach probabilities add up to delta.

The breach probability is a saw-tooth in the prior, so nothing is concluded from one prior to another: the prior that is
drawn with is checked as it is, for every public size and number of cells by itself. Thresholds of cells with at most
one record jump where (e^epsilon - 1) prior is a whole number; just there the probability is low, so such priors are
tried first, and smaller ones in between after that. The last of them is Theorem 4.1's, which never breaches. Theorem
9 of docs/theory/probabilistic-dp.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from understudy.core.exact import float_down
from understudy.errors import InputError
from understudy.privacy.exact.breach_bounds import breach_bound
from understudy.privacy.exact.breach_search import breach_few_cells
from understudy.privacy.mechanisms.preconditions import SLACK
from understudy.privacy.promise.calibrate_dirichlet import LARGEST_EXPONENT, round_prior

PARTS = 64  # into which the step from one jump to the next is divided
LISTED = 20_000  # tables times outputs, where few cells are computed by listing the outputs
DOUBLINGS, HALVINGS = 12, 4  # of the search for shares that use up delta
KEPT_BACK = 1e-9  # of delta, relative: for rounding in sums over draws

CellsOf = Callable[[Fraction], Mapping[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Draws of one public size: ``cells_of`` says, for a prior, how many of them have how many cells."""

    records: int
    rows: int
    cells_of: CellsOf = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The prior of all draws of one size, and an upper bound of their breach probabilities, added up."""

    prior: Fraction
    breach: float


def breach_at_most(
    prior: Fraction, cells: int, records: int, rows: int, epsilon: Fraction, *, enough: float = 0.0
) -> float:
    """An upper bound of the breach probability of one draw with the prior as it is drawn with: exact for few cells."""
    level, exactly = min(float_down(epsilon), LARGEST_EXPONENT), float_down(prior)
    bound = breach_bound(exactly, cells, records, rows, level, enough=enough)
    if bound > enough and cells <= rows:
        listed = breach_few_cells(exactly, cells, records, rows, level, most_listed=LISTED)
        bound = bound if listed is None else min(bound, listed * (1 + KEPT_BACK))
    return bound


def prior_of_step(step: Fraction, epsilon: Fraction) -> Fraction:
    """The prior as it can be drawn with, rounded up, for which (e^epsilon - 1) prior is ``step``."""
    growth = Fraction(math.expm1(min(float_down(epsilon), LARGEST_EXPONENT))) * (1 - SLACK)
    if growth <= 0:
        raise InputError(f"epsilon ({float(epsilon):g}) is too small for a Dirichlet draw.")
    return round_prior(step / growth)


def breach_priors(draws: Sequence[Draws], epsilon: Fraction, delta: Fraction) -> list[Calibrated]:
    """A prior for each public size, such that all breach probabilities together are at most delta.

    A breach is about as likely as there are records, so a size gets a share of delta in proportion to its records:
    that makes priors nearly equal, and by Lagrange equal priors use delta best. Small sizes need less than their share
    or nothing at all; all shares then grow by the same factor while the sum is kept.
    """
    allowed = float_down(delta) * (1 - KEPT_BACK)
    sizes = [_Size(one, epsilon) for one in draws]
    everybody = sum(size.people for size in sizes)
    if not everybody:
        return [Calibrated(prior=prior_of_step(Fraction(1), epsilon), breach=0.0) for _ in draws]

    for size in sizes:
        size.share = allowed * size.people / everybody

    def settle(factor: float) -> tuple[list[int], float]:
        parts, guess = [], PARTS
        for size in sizes:
            guess = size.least_part(factor * size.share, guess)
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


class _Size:
    """The draws of one size: which priors were looked at, and what they breach."""

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
            kinds = self.draws.cells_of(prior)
            each = self.share / max(sum(kinds.values()), 1)
            self.known[part] = math.fsum(
                count * breach_at_most(prior, cells, self.draws.records, self.draws.rows, self.epsilon, enough=each)
                for cells, count in kinds.items()
            )
        return self.known[part]

    def least_part(self, allowed: float, guess: int) -> int:
        """A prior that keeps ``allowed`` while one a little smaller does not, sought from ``guess`` outwards."""
        good = bad = min(math.ceil(guess / PARTS) * PARTS, self.last)
        reach = PARTS
        while good and self.breach(good) <= allowed:  # ends where nothing is drawn, or with a failure
            bad, good, reach = good, max(good - reach, 0), reach * 2
        bad, good = good, bad
        while good == bad or self.breach(good) > allowed:
            bad, good, reach = good, min(good + reach, self.last), reach * 2
        for finest in (PARTS, 1):
            while good - bad > finest:
                middle = (good + bad) // (2 * finest) * finest
                if self.breach(middle) <= allowed:
                    good = middle
                else:
                    bad = middle
        return good
