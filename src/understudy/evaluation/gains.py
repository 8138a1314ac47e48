"""The difference between success on people in the data and on others, with its interval and its bound.

Over refits it has Student's interval, because refits are independent given the data; over a holdout Newcombe's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers
from understudy.evaluation.shared.attack_success import LEVEL, Tally

NOTABLE = 0.05  # a gain whose whole interval is above this is a red light
FALSE_ALARM = 1e-3  # of all comparisons with the bound together


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Success on people in the data and on others like them, as shares, and the difference with its interval."""

    inside: float
    outside: float
    low: float
    high: float
    limit: float | None  # the most that the guarantee allows inside, given the success outside
    above_limit: bool = False

    @property
    def value(self) -> float:
        return self.inside - self.outside

    @property
    def light(self) -> str:
        """Red: all of the interval is notable, or above what the guarantee allows. Amber: all of it is above 0."""
        if self.above_limit or self.low > NOTABLE:
            return "red"
        return "amber" if self.low > 0 else "green"


def most_allowed(outside: float, claimed: tuple[float, float] | None) -> float | None:
    """The greatest probability of success inside that (epsilon, delta) allows, given the probability outside.

    >>> round(most_allowed(0.1, (1.0, 0.0)), 4), round(most_allowed(0.9, (1.0, 0.0)), 4), most_allowed(0.5, None)
    (0.2718, 0.9632, None)
    """
    if claimed is None:
        return None
    epsilon, delta = claimed
    growth = math.exp(min(epsilon, 700.0))
    return min(1.0, growth * outside + delta, 1 - (1 - outside - delta) / growth)


def gain_over_refits(
    counts: Sequence[tuple[int, int, int, int]], claimed: tuple[float, float] | None, *, compared: int = 1
) -> Gain:
    """The gain over refits with Student's interval; ``compared`` is the number of gains that are compared.

    ``counts`` has, for each refit, successes and people asked about, first of those kept and then of those left out.

    >>> found = gain_over_refits([(50, 100, 40, 100), (60, 100, 40, 100), (55, 100, 45, 100)], (1.0, 0.0))
    >>> round(found.value, 4), found.low > 0, found.above_limit
    (0.1333, False, False)
    """
    table = np.array(counts, np.float64)
    inside, outside = table[:, 0] / table[:, 1], table[:, 2] / table[:, 3]
    difference = inside - outside
    spread = float(difference.std(ddof=1)) / math.sqrt(len(table))
    half = _student(len(table), (1 - LEVEL) / compared / 2) * spread
    above = False
    if claimed is not None:
        growth, alpha = math.exp(min(claimed[0], 700.0)), FALSE_ALARM / (4 * compared)
        success_in = 1 - _at_most(1 - inside, table[:, 1], alpha)
        failure_out = 1 - _at_most(outside, table[:, 3], alpha)
        above = success_in > growth * _at_most(outside, table[:, 3], alpha) + claimed[1]
        above |= failure_out > growth * _at_most(1 - inside, table[:, 1], alpha) + claimed[1]
    mean = float(outside.mean())
    return Gain(
        inside=float(inside.mean()),
        outside=mean,
        low=float(difference.mean()) - half,
        high=float(difference.mean()) + half,
        limit=most_allowed(mean, claimed),
        above_limit=above,
    )


def _student(refits: int, tail: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(refits - 1, 1 - tail))


def _at_most(shares: Floats, people: Floats, alpha: float) -> float:
    """An upper limit for the mean of the shares that refits gave, exceeded with probability about ``alpha``.

    It is Clopper and Pearson's limit, for as many independent answers as the spread between refits implies, less some
    because that spread is estimated. If no refit had a success, each refit counts as one answer: for shares in
    [0, 1] with mean mu, all of n are 0 with probability (1 - mu)^n at most.
    """
    from scipy.special import betaincinv, ndtri

    refits, mean = len(shares), float(shares.mean())
    if mean == 0:
        return 1 - float(alpha ** (1 / refits))
    if mean == 1:
        return 1.0
    by_chance = mean * (1 - mean) / float(people.mean())
    clustered = max(1.0, float(shares.var(ddof=1)) / by_chance)
    estimated = (_student(refits, alpha) / float(ndtri(1 - alpha))) ** 2
    answers = max(float(people.sum()) / clustered / estimated, 1.0)
    return float(betaincinv(mean * answers + 1, max((1 - mean) * answers, 1e-9), 1 - alpha))


def one_person_above(counts: Integers, claimed: tuple[float, float]) -> Flags:
    """For each person, whether an attack is right about them more often than the guarantee allows to anybody.

    ``counts`` has, for each person, successes and refits with them, and successes and refits without them. Refits are
    independent, so the two tails of the binomial laws are independent p-values. Their product q has P(q <= x) at most
    x (1 - log x) (Fisher). It is taken at the worst pair of probabilities that is allowed, and compared with
    ``FALSE_ALARM`` divided by the number of people. Between two points of the grid each tail takes its worse end.

    >>> one_person_above(np.array([[30, 30, 0, 30], [20, 30, 8, 30]]), (1.0, 0.0)).tolist()
    [True, False]
    """
    from scipy.special import bdtr, betainc

    grid = np.linspace(0, 1, 401)
    allowed = np.array([most_allowed(float(one), claimed) for one in grid])
    kinds, kind_of = np.unique(counts, axis=0, return_inverse=True)
    above = np.zeros(len(kinds), bool)
    for number, (right, inside, wrongly, outside) in enumerate(kinds):
        if min(inside, outside) == 0 or right * outside <= wrongly * inside:
            continue
        at_least = betainc(right, inside - right + 1, allowed[1:])
        product = np.clip(at_least * bdtr(wrongly, outside, grid[:-1]), 1e-300, 1.0)
        above[number] = np.max(product * (1 - np.log(product))) * len(counts) < FALSE_ALARM
    found: Flags = above[np.ravel(kind_of)]
    return found


def gain_over_holdout(
    release: Tally,
    control: Tally,
    claimed: tuple[float, float] | None,
    *,
    compared: int = 1,
    rows_together: float = 1.0,
) -> Gain:
    """The gain on the release itself: two shares of people, each with Wilson's interval (Newcombe 1998).

    ``compared`` is the number of gains that are compared (Bonferroni). ``rows_together`` rows count as one, because
    they are on one side together. One release says nothing of other draws of the noise, so the gain is never compared
    with the bound of the guarantee.
    """
    level = 1 - (1 - LEVEL) / compared
    one, other = (
        Tally(successes=side.successes, guesses=side.people, independent=_worth(side) / rows_together).rate_at(level)
        for side in (release, control)
    )
    inside, outside = (side.successes / max(side.people, 1) for side in (release, control))
    down = math.hypot(inside - one.low, other.high - outside)
    up = math.hypot(one.high - inside, outside - other.low)
    gain = inside - outside
    return Gain(inside=inside, outside=outside, low=gain - down, high=gain + up, limit=most_allowed(outside, claimed))


def _worth(side: Tally) -> float:
    """The effective number of answers, if answers come in clusters; people without an answer count fully."""
    if side.independent is None or not side.guesses:
        return float(side.people)
    return side.independent + side.people - side.guesses
