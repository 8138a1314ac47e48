"""Tables with noise that has a bound: which noise a steward asked for, and as little of it as the budget allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from understudy.core.exact_numbers import show_up, sqrt_up
from understudy.core.schema import Schema
from understudy.errors import InputError, InternalError, UnsupportedError, unknown_name
from understudy.privacy.exact.bounded_losses import MOST_BOUND, outside_delta
from understudy.privacy.gate.gate import Query
from understudy.privacy.mechanisms.bounded_noise import ExponentialNoise, TrimmedNoise
from understudy.privacy.promise.conversion import cdp_rho
from understudy.privacy.promise.definition import ApproxDP, Definition, NonPrivate, PureDP, Unit
from understudy.privacy.promise.event import ApproxLoss, ExponentialCounts, Sensitivity, TrimmedGaussianNoise
from understudy.privacy.promise.plan import Option, Step
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.privacy.randomness.streams import LARGEST_SCALE, SMALLEST_SCALE

NOISES = {"trimmed": "Gaussian noise that stays within a bound", "exponential": "The exponential mechanism on counts"}
# The share of delta that the ends of the noise may have: the smallest that a bound allows leaves most for the rest.
END_SHARES = tuple(Fraction(1, 2**k) for k in range(30, 0, -1))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedNoise:
    """What was asked for: ``trimmed`` with a bound, ``exponential``, or nothing.

    Raises
    ------
    UnknownNameError
        If there is no such noise.
    InputError
        If noise and bound do not go together.
    """

    noise: str = ""
    bound: int = 0

    def __post_init__(self) -> None:
        if self.noise and self.noise not in NOISES:
            raise unknown_name("noise", self.noise, NOISES)
        if (self.noise == "trimmed") != (self.bound != 0):
            raise InputError("noise = trimmed and bound (how many people a count may be off) go together.")

    def __bool__(self) -> bool:
        return bool(self.noise)

    @property
    def options(self) -> dict[str, Option]:
        """What a plan records of it."""
        return {**({"noise": self.noise} if self.noise else {}), **({"bound": self.bound} if self.bound else {})}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a release says of it."""
        return (f"{NOISES[self.noise]}, asked for by the steward.",) if self.noise else ()

    def check(self, budget: Definition, unit: Unit) -> None:
        """Refuses a budget or a unit with which this noise keeps no promise, or makes no sense."""
        if self and isinstance(budget, NonPrivate):
            raise InputError("noise is for releases with a guarantee; leave it out.")
        if self.noise == "trimmed" and not isinstance(budget, ApproxDP):
            raise UnsupportedError(
                "trimmed noise can tell two neighbours apart for sure, with a small probability: it needs a delta "
                "(guarantee approx)."
            )
        if self.noise != "exponential":
            return
        if not isinstance(budget, PureDP):
            raise UnsupportedError("noise = exponential is for a pure epsilon; leave delta out.")
        if not unit.public_total:
            raise UnsupportedError(
                "counts by the exponential mechanism are never negative, so their sum is far above the number of rows. "
                "Use unit replace, or leave noise out."
            )

    def noises(
        self, budget: Definition, sensitivities: Sequence[Sensitivity], shares: Sequence[Fraction], cells: Sequence[int]
    ) -> Sequence[TrimmedNoise | ExponentialNoise]:
        """One noise for each table, together within the budget. ``cells`` is not needed: there is one law."""
        del cells
        if isinstance(budget, ApproxDP):
            if len(sensitivities) == 1 and sensitivities[0].linf == 1:
                return [TrimmedNoise.keeping(budget.epsilon, budget.delta, self.bound, sensitivities[0].l1)]
            return self._composed(budget, list(zip(sensitivities, shares, strict=True)))
        if isinstance(budget, PureDP):
            return [
                ExponentialNoise.keeping(budget.epsilon * share, moved.l1)
                for moved, share in zip(sensitivities, shares, strict=True)
            ]
        raise InternalError("a budget that was not checked.")

    def _composed(self, budget: ApproxDP, tables: Sequence[tuple[Sensitivity, Fraction]]) -> list[TrimmedNoise]:
        """The most rho that leaves enough delta for the ends of all tables, divided by the shares."""
        for part in END_SHARES:
            scales = _scales(budget, part, tables)
            if _ends(scales, tables, self.bound) <= budget.delta * part:
                return [TrimmedNoise(scale=scale, bound=self.bound) for scale in scales]
        least = next((bound for bound in _rising(self.bound) if _some_keep(budget, tables, bound)), None)
        more = f"A bound of {least:,} does." if least else f"Neither does one of {MOST_BOUND:,}."
        raise InputError(
            f"no Gaussian noise that stays within {self.bound:,} keeps epsilon = {show_up(budget.epsilon)} and delta = "
            f"{show_up(budget.delta)} over {len(tables)} tables: the ends alone have more probability than delta. "
            f"{more}"
        )

    def query(self, step: Step, schema: Schema, unit: Unit) -> Query:
        """The query that runs exactly what a step announced."""
        event = step.event
        noise: TrimmedNoise | ExponentialNoise | None = None
        if isinstance(event, TrimmedGaussianNoise):
            noise = TrimmedNoise(scale=event.scale, bound=int(event.bound))
        elif isinstance(event, ExponentialCounts):
            noise = ExponentialNoise(scale=event.scale)
        elif isinstance(event, ApproxLoss):
            moved = margin_sensitivity(schema, step.margin, unit).l1
            noise = TrimmedNoise.keeping(event.epsilon, event.delta, self.bound, moved)
        if noise is None:
            raise InternalError(f"step '{step.label}' is not a measurement with bounded noise.")
        return Query(margin=step.margin, mechanism=noise, label=step.label)


def _scales(budget: ApproxDP, part: Fraction, tables: Sequence[tuple[Sensitivity, Fraction]]) -> list[Fraction]:
    """s²/(2 σ²) = share · rho for each table, with the rho that the rest of delta allows; rounded up."""
    rho = cdp_rho(budget.epsilon, budget.delta * (1 - part))
    scales = [max(sqrt_up(moved.l2_squared / (2 * rho * share)), SMALLEST_SCALE) for moved, share in tables]
    if max(scales) > LARGEST_SCALE:
        raise InputError("a table needs noise of a scale above 2^40 (about 1.1e12). Use a larger budget.")
    return scales


def _ends(scales: Sequence[Fraction], tables: Sequence[tuple[Sensitivity, Fraction]], bound: int) -> Fraction:
    parts = zip(scales, tables, strict=True)
    return sum((outside_delta(TrimmedNoise(scale=scale, bound=bound).scale, bound, moved.l1, moved.linf)
                for scale, (moved, _) in parts), Fraction(0))  # fmt: skip


def _some_keep(budget: ApproxDP, tables: Sequence[tuple[Sensitivity, Fraction]], bound: int) -> bool:
    return any(_ends(_scales(budget, part, tables), tables, bound) <= budget.delta * part for part in END_SHARES)


def _rising(bound: int) -> list[int]:
    """Bounds to try, each a tenth larger than the one before."""
    tried = [bound + 1]
    while tried[-1] < MOST_BOUND:
        tried.append(min(max(tried[-1] + 1, tried[-1] * 11 // 10), MOST_BOUND))
    return tried
