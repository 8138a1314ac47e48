"""The preconditions of the theorems that draws rest on: one function each.

A mechanism calls them when a gate asks what a draw costs, with the cells, rows and records of that draw. ``verify``
asks the same mechanism in the same way. So there is one place that says when a stated loss is true.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from understudy.core.exact_numbers import float_down, float_up
from understudy.core.places import DESTINATION
from understudy.core.prior_weights import WeightedCells
from understudy.errors import InputError
from understudy.privacy.exact.breach_bounds import breach_bound
from understudy.privacy.exact.dirichlet_breach import breach_few_cells, breach_union_bound, thresholds
from understudy.privacy.exact.dirichlet_profile import PriorShape, delta
from understudy.privacy.mechanisms.private_sizes import private_delta
from understudy.privacy.mechanisms.shrinking import TAIL_SHARE, shrunk_delta, surely_retained
from understudy.privacy.promise.calibrate_dirichlet import LARGEST_EXPONENT, bounds_two_cells
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.event import ApproxLoss, PureLoss

SLACK = Fraction(1, 2**48)  # covers the last digits of log and exp
REPLACE = Unit(kind="replace")
SHRUNK_LEVEL = 16.0
LISTED = 20_000  # tables times outputs, where few cells are computed by listing the outputs
ROUNDING = 1e-9  # relative, of sums over draws


def epsilon_of(prior: Fraction, rows: int, unit: Unit) -> Fraction:
    """The loss that a given prior implies, rounded up: b ln((rows + a) / a), whatever the number of records."""
    if prior <= 0:
        raise InputError(f"prior ({float(prior):g}) must be positive: with 0 an empty cell stays empty.")
    exact = math.log1p(float_up(rows / prior)) * unit.rows_per_unit
    return Fraction(float_up(Fraction(exact) * (1 + SLACK)))


def theorem_4_1_holds(epsilon: Fraction, *, prior: Fraction, rows: int, unit: Unit) -> bool:
    """Theorem 4.1 (Machanavajjhala et al. 2008): log odds of at most ln((rows + a) / a) for one row, for either unit
    and any number of records. A unit of b rows is b such steps. The loss was set first and the prior rounded up from
    it, so only the last digits can differ."""
    return epsilon_of(prior, rows, unit) <= epsilon * (1 + 4 * SLACK)


def exact_is_known(unit: Unit) -> bool:
    """Whether a larger prior is proved to protect better (docs/theory/dirichlet.md), so that exact delta can set it.

    Elsewhere the pure calibration is used; it keeps every approximate promise with the same epsilon.
    """
    return unit.kind == "replace" and unit.rows_per_unit == 1


def exact_delta_holds(
    loss: ApproxLoss, *, prior: Fraction, cells: int, records: int, rows: int, weights: WeightedCells | None = None
) -> bool:
    """Theorems 3 and 4 of docs/theory/dirichlet.md: the exact delta of the draw, for one row that is replaced.

    Fewer rows and more records or cells lose less (Theorem 2 of docs/theory/commute.md), so for many draws with one
    prior the fewest cells and records and the most rows stand for all of them. With ``weights`` the two smallest priors
    and their total decide (Theorem 3).
    """
    smallest = float_down(prior)
    shape = PriorShape.symmetric(smallest, cells, rows)
    if weights is not None:
        shape = weighted_shape(weights, smallest, cells, rows)
        smallest = shape.smallest
    if bounds_two_cells(cells, records, rows):
        shape = PriorShape.bound_for_two_cells(smallest, rows)
    return delta(shape, max(records, 1), REPLACE, float_down(loss.epsilon)) <= loss.delta


def weighted_shape(weights: WeightedCells, prior: float, cells: int, rows: int) -> PriorShape:
    """What the loss of a draw with weighted priors depends on. Weights add up to less than 2^53, so products round by
    the last digit only, which ``SAFETY`` of the calibration covers."""
    first, second = weights.smallest_two
    return PriorShape(
        smallest=first * prior, second=second * prior, total=weights.total * prior, cells=cells, rows=rows
    )


class DrawLaw(NamedTuple):
    """What the breach probability of a draw depends on, and how many draws are like it."""

    prior: Fraction
    cells: int
    records: int
    rows: int
    times: int = 1


@lru_cache(maxsize=65536)
def breach_at_most(law: DrawLaw, epsilon: Fraction, enough: float = 0.0) -> float:
    """An upper bound of the breach probability of one such draw, for any table of its size: exact for few cells.

    The search for a better bound may end at ``enough``.
    """
    level, prior = min(float_down(epsilon), LARGEST_EXPONENT), float_down(law.prior)
    bound = breach_bound(prior, law.cells, law.records, law.rows, level, enough=enough)
    if bound > enough and law.cells <= law.rows:
        listed = breach_few_cells(prior, law.cells, law.records, law.rows, level, most_listed=LISTED)
        bound = bound if listed is None else min(bound, listed * (1 + ROUNDING))
    return bound


def breach_of_all(laws: Iterable[DrawLaw], epsilon: Fraction, enough: float = 0.0) -> float:
    """Breach probabilities added up over draws: a breach in any of them is a breach of the whole. What stays below its
    share of ``enough``, in proportion to records, is not looked into further."""
    told = list(laws)
    each = enough / max(sum(law.times * law.records for law in told), 1)
    total = math.fsum(law.times * breach_at_most(law._replace(times=1), epsilon, each * law.records) for law in told)
    return total * (1 + ROUNDING)


def theorem_9_holds(loss: ApproxLoss, laws: Iterable[DrawLaw]) -> bool:
    """Theorem 9 of docs/theory/probabilistic-dp.md: all draws together are (epsilon, delta)-probabilistically
    differentially private for one row that is replaced. Each public size and number of cells stands for itself."""
    told = list(laws)
    allowed = float_down(loss.delta)
    return breach_of_all(told, loss.epsilon, allowed) <= allowed or breach_of_all(told, loss.epsilon) <= allowed


def theorem_6_holds(loss: ApproxLoss, *, prior: Fraction, cells: int, rows: int) -> bool:
    """Theorem 6 of docs/theory/commute.md: a destination whose number of records is private. Its first condition, that
    all cells together have the prior of one pure draw, is part of ``private_delta``."""
    smallest = float_down(prior)
    return private_delta(smallest, cells * smallest, rows, float_down(loss.epsilon)) <= loss.delta


def lemma_5_2_holds(loss: ApproxLoss, *, gamma: float, prior: Fraction, cells: int, records: int, rows: int) -> bool:
    """Lemma 5.2: ln((gamma + 1) / (1 - p)) <= epsilon and p <= delta, p a bound of the probability of a bad draw."""
    level, smallest = math.log1p(gamma), float_down(prior)
    if math.log1p(rows / smallest) <= level * (1 + 1e-12):
        rejected = 0.0
    else:
        rejected = breach_union_bound(smallest, cells, records, rows, thresholds(smallest, records, rows, level))
    if rejected >= 1 or rejected > loss.delta:
        return False
    return level - math.log1p(-rejected) <= float(loss.epsilon) * (1 + 1e-12)


def shrunk_bound(
    loss: ApproxLoss, *, prior: Fraction, least_keep: Fraction, expected: float, records: int, rows: int
) -> float:
    """Theorem 4 of docs/theory/commute.md: an upper bound of the delta of a draw over a shrunk domain in which
    ``expected`` places more than the two in question are retained on average, at the destination that has fewest.

    No retained place is always allowed, and may be the better bound. A delta at a smaller epsilon is one at a larger;
    the error of the tables that draw retained places grows with epsilon, so it is computed at ``SHRUNK_LEVEL`` at most.
    """
    surely = surely_retained(expected, float_down(loss.delta))
    return min(
        shrunk_delta(
            float_down(prior), epsilon=min(float_down(loss.epsilon), SHRUNK_LEVEL), least_keep=float_down(least_keep),
            records=records, rows=rows, others=others,
        ) + (TAIL_SHARE * float_up(loss.delta) if others else 0.0)
        for others in {0, surely}
    )  # fmt: skip


def loss_of_one_job(loss: PureLoss | ApproxLoss, unit: Unit) -> PureLoss | ApproxLoss:
    """What one destination may cost for one job. A unit of b jobs is b steps; a job whose destination is not fixed
    leaves one destination and enters another."""
    touched = unit.rows_per_unit
    if DESTINATION not in unit.fixed and unit.kind == "replace":
        touched *= 2
        if isinstance(loss, ApproxLoss) and unit.rows_per_unit == 1:  # delta is lost where it enters only: Theorem 6
            return replace(loss, epsilon=loss.epsilon / 2)
    if touched == 1:
        return loss
    return PureLoss(epsilon=loss.epsilon / touched, source=loss.source)
