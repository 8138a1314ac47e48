"""What events cost: the only place that turns a description of what was done into a privacy loss.

A loss is kept in every currency it has. Pure epsilons add; zCDP rhos add, a pure epsilon entering as epsilon^2/2; the
mu^2 of Gaussian noise add; (epsilon, delta) pairs add. All sums are exact fractions. An event of a kind that is not
known here is refused before anything is recorded. See docs/theory/accounting.md for the theorems.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from understudy.core.exact_numbers import float_up, show_up
from understudy.errors import BudgetError, InputError, UnsupportedError
from understudy.privacy.exact.bounded_losses import exponential_step, outside_delta
from understudy.privacy.exact.choices_profile import composed_delta, composed_epsilon
from understudy.privacy.exact.gaussian_profile import Bound, gaussian_epsilon, mu_squared, mu_squared_of_range
from understudy.privacy.exact.stability_delta import stability_delta
from understudy.privacy.promise.conversion import cdp_delta, cdp_epsilon, cdp_rho
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, NonPrivate, ProbabilisticDP, PureDP, Unit
from understudy.privacy.promise.event import (
    ApproxLoss,
    Event,
    ExponentialCounts,
    GaussianNoise,
    GeometricNoise,
    GumbelMax,
    NoisyMax,
    NoNoise,
    PureLoss,
    Strata,
    ThresholdedNoise,
    TrimmedGaussianNoise,
    promises_definition_6,
)

__all__ = [
    "Accountant",
    "Loss",
    "cdp_delta",
    "cdp_epsilon",
    "cdp_rho",
    "compose",
    "epsilon_at",
    "loss_of",
    "satisfies",
    "satisfies_definition_6",
    "state",
]

STATED_DIGITS = 12
ROUNDED = 1 + Fraction(1, 2**30)  # scales are rounded one by one, so that parts of a total may be above it by less
LEAST_STATED = Fraction(1, 10**12)  # a definition has positive parameters; a loss of nothing is stated as this


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A composed privacy loss: a part known as pure epsilon and zCDP rho, plus a part known only as (epsilon, delta).

    ``epsilon`` is None when there is no pure bound (Gaussian noise); ``rho`` is None when there is no bound at all;
    ``mu_squared`` is None where some Gaussian noise is too little for it. ``noise_mu_squared``, ``choices`` and
    ``widest`` are for :mod:`choices_profile`: the mu^2 of Gaussian noise alone, how many choices of bounded range there
    are beside it, and the widest range; None where there is anything else. ``by``: which of the bounds may turn it into
    (epsilon, delta). Where all parameters were fixed in advance that is the ``least`` of zCDP and mu^2; a run that
    chooses them on the way must have said which, ``concentrated``, ``gaussian`` or ``composed``, or it would end by one
    bound or by another, with a delta for each.

    >>> both = Loss(epsilon=Fraction(1), rho=Fraction(1, 2)) + Loss(epsilon=None, rho=Fraction(1, 2))
    >>> both.epsilon, both.rho
    (None, Fraction(1, 1))
    """

    epsilon: Fraction | None = Fraction(0)
    rho: Fraction | None = Fraction(0)
    mu_squared: Fraction | None = Fraction(0)
    approx_epsilon: Fraction = Fraction(0)
    approx_delta: Fraction = Fraction(0)
    noise_mu_squared: Fraction | None = Fraction(0)
    choices: int = 0
    widest: Fraction = Fraction(0)
    by: Bound = "concentrated"

    @property
    def unbounded(self) -> bool:
        """Whether nothing is promised."""
        return self.rho is None

    def __add__(self, other: Loss) -> Loss:
        return _sum([self, other])

    def times(self, count: int) -> Loss:
        """The loss of doing the same ``count`` times."""
        return Loss(
            epsilon=None if self.epsilon is None else self.epsilon * count,
            rho=None if self.rho is None else self.rho * count,
            mu_squared=None if self.mu_squared is None else self.mu_squared * count,
            approx_epsilon=self.approx_epsilon * count,
            approx_delta=self.approx_delta * count,
            noise_mu_squared=None if self.noise_mu_squared is None else self.noise_mu_squared * count,
            choices=self.choices * count,
            widest=self.widest,
            by=self.by,
        )


def _sum(losses: list[Loss]) -> Loss:
    alone = [loss.noise_mu_squared for loss in losses if loss.noise_mu_squared is not None]
    return replace(
        _largest(losses, len(losses)),
        noise_mu_squared=sum(alone, Fraction(0)) if len(alone) == len(losses) else None,
        choices=sum(loss.choices for loss in losses),
        widest=max((loss.widest for loss in losses), default=Fraction(0)),
    )


def _largest(losses: list[Loss], count: int) -> Loss:
    """In each currency the sum of the ``count`` largest losses; one that is unbounded there stays unbounded.

    Nothing is said of noise and choices apart: what is largest in one need not be so in the other.
    """

    def total(values: list[Fraction]) -> Fraction:
        return sum(sorted(values, reverse=True)[:count], Fraction(0))

    def bounded(values: list[Fraction | None]) -> Fraction | None:
        known = [value for value in values if value is not None]
        return total(known) if len(known) == len(values) else None

    return Loss(
        epsilon=bounded([loss.epsilon for loss in losses]),
        rho=bounded([loss.rho for loss in losses]),
        mu_squared=bounded([loss.mu_squared for loss in losses]),
        approx_epsilon=total([loss.approx_epsilon for loss in losses]),
        approx_delta=total([loss.approx_delta for loss in losses]),
        noise_mu_squared=None,
    )


def _pure(epsilon: Fraction) -> Loss:
    """Bun and Steinke, arXiv:1605.02065, Proposition 1.4: epsilon-DP implies (epsilon^2/2)-zCDP; its range is
    2 epsilon."""
    mu2 = mu_squared_of_range(2 * epsilon)
    return Loss(epsilon=epsilon, rho=epsilon**2 / 2, mu_squared=mu2, noise_mu_squared=None)


def _geometric(event: GeometricNoise) -> Loss:
    return _pure(_at_least_zero(event.l1, "l1") / _positive(event.scale, "scale"))


def _gaussian(event: GaussianNoise) -> Loss:
    """Canonne, Kamath and Steinke, arXiv:2004.00010; both proofs in docs/theory/discrete-gaussian.md."""
    moved, scale = _at_least_zero(event.l2_squared, "l2_squared"), _positive(event.scale, "scale")
    mu2 = mu_squared(moved, scale)
    return Loss(epsilon=None, rho=moved / (2 * scale**2), mu_squared=mu2, noise_mu_squared=mu2)


def _thresholded(event: ThresholdedNoise) -> Loss:
    """The loss of the noise, and the probability that a code of one unit alone is seen: Theorem 1 of
    docs/theory/discovered-codes.md."""
    threshold, rows = _positive(event.threshold, "threshold"), _positive(event.rows, "rows")
    if threshold.denominator != 1 or rows.denominator != 1:
        raise InputError("threshold and rows of an event must be whole numbers.")
    delta = stability_delta(_positive(event.scale, "scale"), int(threshold), int(rows))
    noise = _gaussian(GaussianNoise(l2_squared=event.l2_squared, scale=event.scale))
    return replace(noise, approx_delta=delta, noise_mu_squared=None)


def _trimmed(event: TrimmedGaussianNoise) -> Loss:
    """Delta-approximate zCDP (Bun and Steinke 2016, Section 8): Theorem 1 of docs/theory/bounded-noise.md.

    No bound on mu^2 is claimed: that of discrete Gaussian noise is not proved for noise within a bound.
    """
    moved, scale = _at_least_zero(event.l2_squared, "l2_squared"), _positive(event.scale, "scale")
    whole = [_positive(getattr(event, name), name) for name in ("l1", "linf", "bound")]
    if any(number.denominator != 1 for number in whole):
        raise InputError("l1, linf and bound of an event must be whole numbers.")
    l1, linf, bound = (int(number) for number in whole)
    delta = outside_delta(scale, bound, l1, linf)
    rho = moved / (2 * scale**2)
    return Loss(epsilon=None, rho=rho, mu_squared=None, approx_delta=delta, noise_mu_squared=None)


def _exponential_counts(event: ExponentialCounts) -> Loss:
    """Every step of one costs r + ln(1 + q - q^2): docs/theory/bounded-noise.md."""
    rate = float_up(1 / _positive(event.scale, "scale"))
    return _pure(_at_least_zero(event.l1, "l1") * exponential_step(rate))


def _noisy_max(event: NoisyMax) -> Loss:
    """McKenna and Sheldon, arXiv:2010.12603: 2 sensitivity/scale for scores that may move both ways.

    In zCDP it enters as any pure loss does. The smaller epsilon^2/8 is proved for the exponential mechanism (Gumbel
    noise, which has bounded range) and not for permute and flip.
    """
    return _pure(2 * _at_least_zero(event.sensitivity, "sensitivity") / _positive(event.scale, "scale"))


def _gumbel_max(event: GumbelMax) -> Loss:
    """The exponential mechanism (McSherry and Talwar 2007): epsilon = 2 sensitivity/scale, and by its bounded range

    (epsilon^2/8)-zCDP (Cesar and Rogers, arXiv:2004.07223, Lemma 3.2; Rogers and Steinke 2021).
    """
    epsilon = 2 * _at_least_zero(event.sensitivity, "sensitivity") / _positive(event.scale, "scale")
    return Loss(epsilon=epsilon, rho=epsilon**2 / 8, mu_squared=mu_squared_of_range(epsilon), choices=1, widest=epsilon)


def _proved_pure(event: PureLoss) -> Loss:
    return _pure(_at_least_zero(event.epsilon, "epsilon"))


def _proved_approx(event: ApproxLoss) -> Loss:
    epsilon, delta = _at_least_zero(event.epsilon, "epsilon"), _at_least_zero(event.delta, "delta")
    if delta == 0:
        return _pure(epsilon)
    return Loss(approx_epsilon=epsilon, approx_delta=delta, noise_mu_squared=None)


def _no_noise(_event: NoNoise) -> Loss:
    return Loss(epsilon=None, rho=None, mu_squared=None, noise_mu_squared=None)


RULES: dict[type[Event], Callable[[Any], Loss]] = {
    GeometricNoise: _geometric,
    GaussianNoise: _gaussian,
    ThresholdedNoise: _thresholded,
    TrimmedGaussianNoise: _trimmed,
    ExponentialCounts: _exponential_counts,
    NoisyMax: _noisy_max,
    GumbelMax: _gumbel_max,
    PureLoss: _proved_pure,
    ApproxLoss: _proved_approx,
    NoNoise: _no_noise,
}
# Their loss falls in proportion (or faster) when a unit has fewer of its rows in a stratum.
PROPORTIONAL = (GeometricNoise, GaussianNoise, NoisyMax, GumbelMax)


def loss_of(event: Event, unit: Unit) -> Loss:
    """What one event costs. The type is matched exactly: a subclass may do more than its parent says."""
    if type(event) is Strata:
        return _strata_loss(event, unit)
    if type(event) not in RULES:
        raise UnsupportedError(
            f"the accountant does not know what a {type(event).__name__} costs; nothing was recorded."
        )
    return RULES[type(event)](event)


def _strata_loss(event: Strata, unit: Unit) -> Loss:
    """Work in disjoint strata: the worst strata that one unit can touch.

    A unit whose attributes are ``fixed`` stays in its stratum, and under ``add_remove`` it enters or leaves one: the
    maximum. Otherwise ``replace`` lets it leave one stratum and enter another: the sum of the two largest. A unit of b
    rows may have them in up to b strata. Noise on counts costs each of those in proportion to the rows there, which
    adds up to no more than the worst stratum; a loss known only as a number is counted b times.
    """
    touched = 1 if unit.fixed or unit.kind == "add_remove" else 2
    if not all(_proportional(part) for events in event.strata for part in events):
        touched *= unit.rows_per_unit
    return _largest([compose(events, unit) for events in event.strata], touched)


def _proportional(event: Event) -> bool:
    if isinstance(event, Strata):
        return all(_proportional(part) for events in event.strata for part in events)
    return isinstance(event, PROPORTIONAL)


def compose(events: Iterable[Event], unit: Unit, *, by: Bound = "concentrated") -> Loss:
    """The loss of all events together, and by which bound it may be read. Equal events are counted, not summed."""
    return replace(_sum([loss_of(event, unit).times(count) for event, count in Counter(events).items()]), by=by)


def epsilon_at(loss: Loss, delta: Fraction) -> Fraction | None:
    """The smallest known epsilon at which the loss is (epsilon, delta)-DP, or None.

    The explicit deltas are taken from ``delta`` first; what is left converts the zCDP part, if that is better than
    the sum of pure epsilons; or the profile of Gaussian noise converts its mu^2, or that of noise and choices does, as
    ``loss.by`` allows.
    """
    left = delta - loss.approx_delta
    if loss.rho is None or left < 0:
        return None
    choices = [] if loss.epsilon is None else [loss.epsilon]
    if 0 < left < 1:
        if loss.by in ("concentrated", "least"):
            choices.append(cdp_epsilon(loss.rho, left))
        if loss.by in ("gaussian", "least") and loss.mu_squared is not None:
            choices.append(gaussian_epsilon(loss.mu_squared, left))
        if loss.by == "composed" and loss.noise_mu_squared is not None:
            found = composed_epsilon(loss.noise_mu_squared, loss.widest, loss.choices, left)
            choices += [] if found is None else [found]
    return min(choices) + loss.approx_epsilon if choices else None


def satisfies(loss: Loss, budget: Definition) -> bool:
    """Whether the loss stays within the budget; exact, no tolerance."""
    if isinstance(budget, NonPrivate):
        return True
    if loss.unbounded:
        return False
    if isinstance(budget, PureDP):
        return loss.epsilon is not None and loss.approx_delta == 0 and loss.epsilon <= budget.epsilon
    if isinstance(budget, ZCDP):
        return loss.rho is not None and loss.approx_delta == 0 and loss.rho <= budget.rho
    if isinstance(budget, ApproxDP | ProbabilisticDP):
        if loss.by == "composed" and loss.noise_mu_squared is not None and loss.approx_epsilon == 0:
            # The same bound without a search for the smallest epsilon, which every charge of a run would pay for.
            delta = composed_delta(loss.noise_mu_squared, loss.widest, loss.choices, budget.epsilon)
            if delta + loss.approx_delta <= budget.delta:
                return True
        epsilon = epsilon_at(loss, budget.delta)
        return epsilon is not None and epsilon <= budget.epsilon
    raise UnsupportedError(f"the accountant does not know the guarantee {type(budget).__name__}.")


def within(loss: Loss, planned: Loss) -> bool:
    """Whether noise, choices and their range are those of a plan or less.

    Losses composed as they are keep a budget only if each of the three is fixed beforehand: one may not be exchanged
    for another on the way (docs/theory/accounting.md).
    """
    if loss.noise_mu_squared is None or planned.noise_mu_squared is None:
        return False
    less_noise = loss.noise_mu_squared <= planned.noise_mu_squared * ROUNDED
    return less_noise and loss.choices <= planned.choices and loss.widest <= planned.widest


def satisfies_definition_6(events: Iterable[Event], unit: Unit, budget: ProbabilisticDP) -> bool:
    """Whether events together are (epsilon, delta)-probabilistically differentially private.

    Pure steps and draws set for Definition 6 add up, epsilon and delta (Theorem 10 of docs/theory/probabilistic-dp.md).
    Nothing else is proved to: no conversion from zCDP, no other (epsilon, delta), and no unit but one row that is
    replaced. The strata of a draw state the delta of all of them together.
    """
    told = list(events)
    if unit.kind != "replace" or unit.rows_per_unit != 1:
        return False
    if not all(_pure_or_definition_6(event, unit) for event in told):
        return False
    loss = compose(told, unit)
    return (
        loss.epsilon is not None
        and loss.epsilon + loss.approx_epsilon <= budget.epsilon
        and loss.approx_delta <= budget.delta
    )


def _pure_or_definition_6(event: Event, unit: Unit) -> bool:
    if type(event) is Strata:
        return all(_pure_or_definition_6(part, unit) for events in event.strata for part in events)
    if promises_definition_6(event):
        return True
    loss = loss_of(event, unit)
    return loss.epsilon is not None and loss.approx_delta == 0


def state(loss: Loss, budget: Definition) -> Definition:
    """The guarantee reached, in the budget's form, rounded up to 12 digits but never past a budget that is kept.

    A loss without bound is stated as no guarantee whatever the budget. A probabilistic budget gives the (epsilon,
    delta)-DP it was accounted as: composition does not preserve Definition 6.
    """
    if isinstance(budget, NonPrivate) or loss.unbounded:
        return NonPrivate()
    if isinstance(budget, PureDP) and loss.epsilon is not None and loss.approx_delta == 0:
        return PureDP(epsilon=_rounded_up(loss.epsilon, budget.epsilon))
    if isinstance(budget, ZCDP) and loss.rho is not None and loss.approx_delta == 0:
        return ZCDP(rho=_rounded_up(loss.rho, budget.rho))
    if isinstance(budget, ApproxDP | ProbabilisticDP):
        delta = max(budget.delta, loss.approx_delta)
        epsilon = epsilon_at(loss, delta)
        if epsilon is not None and delta < 1:
            return ApproxDP(epsilon=_rounded_up(epsilon, budget.epsilon), delta=delta)
    raise UnsupportedError(f"this loss cannot be stated as {budget.title}.")


def _rounded_up(value: Fraction, limit: Fraction) -> Fraction:
    rounded = max(Fraction(show_up(value, STATED_DIGITS)), LEAST_STATED)
    return min(rounded, limit) if value <= limit else rounded


class Accountant:
    """Keeps one budget: every event is charged before it happens, or refused and not recorded.

    It is a filter: events may be chosen after seeing earlier answers, unless their loss is read ``by`` the least bound.
    Where losses are ``composed``, all events of the plan are the budget: ``planned``. Theorems in
    docs/theory/accounting.md.

    >>> accountant = Accountant(unit=Unit(), budget=PureDP(epsilon=1))
    >>> for _ in range(10):
    ...     accountant.charge(PureLoss(epsilon=Fraction(1, 10), source="example"))
    >>> accountant.loss.epsilon
    Fraction(1, 1)
    """

    def __init__(
        self, *, unit: Unit, budget: Definition, by: Bound = "concentrated", planned: Iterable[Event] = ()
    ) -> None:
        self.unit = unit
        self.budget = budget
        self._planned = compose(planned if by == "composed" else (), unit, by=by)
        self._events: list[Event] = []
        self._loss = compose((), unit, by=by)

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self._events)

    @property
    def loss(self) -> Loss:
        return self._loss

    def charge(self, event: Event) -> None:
        """Record an event, if the budget allows it."""
        after = replace(self._loss + loss_of(event, self.unit), by=self._loss.by)
        kept = satisfies(after, self.budget) if after.by != "composed" else self._keeps_to_plan(after)
        if kept and isinstance(self.budget, ProbabilisticDP):
            kept = satisfies_definition_6((*self._events, event), self.unit, self.budget)
        if not kept:
            raise BudgetError(
                f"this step would bring the loss to {describe(after, self.budget)}; the budget is {self.budget}. "
                "Nothing was drawn. Ask for less, or plan with a larger budget."
            )
        self._events.append(event)
        self._loss = after

    def _keeps_to_plan(self, after: Loss) -> bool:
        if not within(after, self._planned) or self._planned.noise_mu_squared is None:
            return False
        return satisfies(replace(self._planned, noise_mu_squared=self._planned.noise_mu_squared * ROUNDED), self.budget)


def describe(loss: Loss, budget: Definition) -> str:
    """A loss in words, in the form of a budget where it has one."""
    try:
        return str(state(loss, budget))
    except UnsupportedError:
        return f"a loss that {budget.title} cannot express"


def _at_least_zero(value: Fraction, name: str) -> Fraction:
    if not isinstance(value, Fraction | int) or value < 0:
        raise InputError(f"{name} of an event must be an exact number of at least 0.")
    return Fraction(value)


def _positive(value: Fraction, name: str) -> Fraction:
    if not isinstance(value, Fraction | int) or value <= 0:
        raise InputError(f"{name} of an event must be an exact number above 0.")
    return Fraction(value)
