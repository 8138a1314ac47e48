"""What was done to the data. What it costs is not stated here: the accountant knows that.

Events are public: they name margins and noise scales, never counts. Description and accounting are kept apart, so
that an accountant can refuse an event it does not know instead of trusting the event's own word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from understudy.core.exact_numbers import from_text, to_text
from understudy.errors import InputError, unknown_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """How far one unit can move a query. ``l2_squared`` is exact where the L2 norm itself is irrational."""

    l1: int
    l2_squared: int
    linf: int


class Event:
    """Base of all events."""

    __slots__ = ()
    kind: ClassVar[str]
    numbers: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, object]:
        """Lossless public form, for ledgers, plans and manifests.

        Returns
        -------
        dict[str, object]
            The name of the event and its exact parameters as texts.
        """
        source = {"source": self.source} if hasattr(self, "source") else {}
        return {"event": self.kind, **{key: to_text(Fraction(getattr(self, key))) for key in self.numbers}, **source}


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometricNoise(Event):
    """Discrete Laplace noise of a scale added to each cell of a query with the given L1 sensitivity."""

    l1: Fraction
    scale: Fraction
    kind: ClassVar[str] = "geometric"
    numbers: ClassVar[tuple[str, ...]] = ("l1", "scale")


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianNoise(Event):
    """Discrete Gaussian noise of a scale added to each cell of a query with the given squared L2 sensitivity."""

    l2_squared: Fraction
    scale: Fraction
    kind: ClassVar[str] = "discrete_gaussian"
    numbers: ClassVar[tuple[str, ...]] = ("l2_squared", "scale")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdedNoise(Event):
    """Discrete Gaussian noise on the counts of the codes that occur, of which those that reach the threshold are told.

    ``rows`` is how many rows one unit can have. What the threshold hides with too small a probability is a delta, which
    the accountant computes.
    """

    l2_squared: Fraction
    scale: Fraction
    threshold: Fraction
    rows: Fraction
    kind: ClassVar[str] = "thresholded_gaussian"
    numbers: ClassVar[tuple[str, ...]] = ("l2_squared", "scale", "threshold", "rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimmedGaussianNoise(Event):
    """Discrete Gaussian noise of a scale that stays within a bound, on each cell of a query.

    Noise that a neighbour's cannot imitate, at the ends, is a delta, which the accountant computes.
    """

    l1: Fraction
    l2_squared: Fraction
    linf: Fraction
    scale: Fraction
    bound: Fraction
    kind: ClassVar[str] = "trimmed_gaussian"
    numbers: ClassVar[tuple[str, ...]] = ("l1", "l2_squared", "linf", "scale", "bound")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialCounts(Event):
    """The exponential mechanism on each count of a query with the given L1 sensitivity: results are not negative."""

    l1: Fraction
    scale: Fraction
    kind: ClassVar[str] = "exponential_counts"
    numbers: ClassVar[tuple[str, ...]] = ("l1", "scale")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyMax(Event):
    """One choice by exponential-noise maximum (permute and flip), scores of the given sensitivity, non-monotonic."""

    sensitivity: Fraction
    scale: Fraction
    kind: ClassVar[str] = "noisy_max"
    numbers: ClassVar[tuple[str, ...]] = ("sensitivity", "scale")


@dataclass(frozen=True, slots=True, kw_only=True)
class GumbelMax(Event):
    """One choice by Gumbel-noise maximum (the exponential mechanism), non-monotonic scores of given sensitivity."""

    sensitivity: Fraction
    scale: Fraction
    kind: ClassVar[str] = "gumbel_max"
    numbers: ClassVar[tuple[str, ...]] = ("sensitivity", "scale")


@dataclass(frozen=True, slots=True, kw_only=True)
class PureLoss(Event):
    """A mechanism proved to be epsilon-differentially private, named by ``source`` (the theorem)."""

    epsilon: Fraction
    source: str
    kind: ClassVar[str] = "pure"
    numbers: ClassVar[tuple[str, ...]] = ("epsilon",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproxLoss(Event):
    """A mechanism proved to be (epsilon, delta)-differentially private, named by ``source`` (the theorem)."""

    epsilon: Fraction
    delta: Fraction
    source: str
    kind: ClassVar[str] = "approx"
    numbers: ClassVar[tuple[str, ...]] = ("epsilon", "delta")


# The source of a loss that was set for Definition 6: the draw is (epsilon, delta)-probabilistically differentially
# private, all its parts (destinations, strata) together, and hence (epsilon, delta)-differentially private.
DEFINITION_6 = "docs/theory/probabilistic-dp.md, Theorem 9"


def breach_loss(epsilon: Fraction, delta: Fraction) -> ApproxLoss:
    """The loss of a draw whose breach probabilities add up to at most delta."""
    return ApproxLoss(epsilon=epsilon, delta=delta, source=DEFINITION_6)


def promises_definition_6(event: Event) -> bool:
    """Whether a loss claims Definition 6, and not only the approximate privacy that follows from it."""
    return type(event) is ApproxLoss and event.source == DEFINITION_6


@dataclass(frozen=True, slots=True, kw_only=True)
class NoNoise(Event):
    """Confidential values used without protection: infinite loss."""

    kind: ClassVar[str] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strata(Event):
    """The same work in each stratum of the population: one tuple of events per stratum."""

    strata: tuple[tuple[Event, ...], ...]
    kind: ClassVar[str] = "strata"

    def to_json(self) -> dict[str, object]:
        return {"event": self.kind, "strata": [[event.to_json() for event in events] for events in self.strata]}


EVENTS: dict[str, type[Event]] = {
    c.kind: c
    for c in (
        GeometricNoise,
        GaussianNoise,
        ThresholdedNoise,
        TrimmedGaussianNoise,
        ExponentialCounts,
        NoisyMax,
        GumbelMax,
        PureLoss,
        ApproxLoss,
        NoNoise,
        Strata,
    )
}


def event_from_json(data: Mapping[str, object]) -> Event:
    """Read back what ``to_json`` wrote; an unknown event is an error, never skipped."""
    kind = str(data.get("event", ""))
    if kind not in EVENTS:
        raise unknown_name("event", kind, EVENTS)
    if kind == "strata":
        strata = data.get("strata")
        if not isinstance(strata, list):
            raise InputError("a strata event needs a list of lists of events.")
        return Strata(strata=tuple(tuple(event_from_json(event) for event in events) for events in strata))
    cls = EVENTS[kind]
    numbers = {key: from_text(str(data.get(key, "")), key) for key in cls.numbers}
    extra = {"source": str(data.get("source", ""))} if kind in ("pure", "approx") else {}
    return cls(**numbers, **extra)
