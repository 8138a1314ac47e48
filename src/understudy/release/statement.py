"""What a release promises and how it was made: the same for every kind of release. Public by type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from understudy.core.exact_numbers import show_up
from understudy.privacy.exact.gaussian_profile import Bound
from understudy.privacy.promise.definition import Definition, NonPrivate, ProbabilisticDP, Unit
from understudy.privacy.promise.event import Event
from understudy.privacy.promise.plan import Plan

NOT_TRACKED = "not tracked across runs"
TEST_RANDOMNESS = "made with test randomness that anybody can repeat: no guarantee"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What is promised: to whom, how much, and whether an account keeps track of it."""

    unit: Unit
    """Who is protected."""
    guarantee: Definition
    """How much is promised."""
    ledger: Mapping[str, Any] | None = None
    """Account, run, head and sequence of the charge; ``None``: not tracked across runs."""
    warnings: tuple[str, ...] = ()
    """What everybody who is handed the release must be told."""
    record: str = "row"
    """What a record of the confidential data is called."""

    @property
    def protected(self) -> str:
        """Who is protected, in words."""
        return self.guarantee.protects(self.unit, self.record)

    @property
    def protects_nobody(self) -> bool:
        """Whether there is no guarantee. Its tables may then be the confidential ones: only their owner reads them."""
        return isinstance(self.guarantee, NonPrivate)

    def lines(self) -> tuple[str, ...]:
        """Say the promise in plain words, warnings first.

        Returns
        -------
        tuple[str, ...]
            One text for each statement.
        """
        if self.ledger is None:
            tracked = f"Privacy account: {NOT_TRACKED}."
        else:
            tracked = f"Privacy account: {self.ledger['account']}, run {self.ledger['run']}."
        warnings = tuple(f"WARNING: {text}." for text in self.warnings)
        drawn = of_the_raw_draw(self.guarantee)
        said = (f"Guarantee: {self.guarantee}.", *([drawn] if drawn else []), self.protected)
        return (*warnings, *said, tracked)


def of_the_raw_draw(guarantee: Definition) -> str | None:
    """What the probability of Definition 6 is over, and what it does not say; nothing for other guarantees."""
    if not isinstance(guarantee, ProbabilisticDP):
        return None
    factor, delta = f"e^{show_up(guarantee.epsilon)}", show_up(guarantee.delta)
    return (
        "This is Definition 6 of Machanavajjhala et al. (2008), for what was drawn. Whatever the table with these "
        f"public sizes is: with probability at least 1 - {delta} the draws give a result that is at most {factor} "
        "times likelier with one set of values of any protected unit than with another. It is a probability over the "
        "randomness of the draws alone, and the worst case over tables. A failure in any destination, stratum or copy "
        "counts: there probabilities add. Later processing, such as placing workers, does not preserve this form; "
        f"it preserves the {guarantee.implied()} that follows from it, and accounts charge that."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A table that was measured after a release was made, and joined it: a confirmation that somebody asked for."""

    plan: Plan
    """The plan of the measurement: one step, with its cost."""
    ledger: Mapping[str, Any]
    """Account, run, head and sequence of its charge."""

    def to_json(self) -> dict[str, Any]:
        """The addition as plain values, for manifests.

        Returns
        -------
        dict[str, Any]
            The fields.
        """
        return {"plan": self.plan.to_json(), "ledger": dict(self.ledger)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """How the tables were made, from public facts only."""

    method: str
    """The name of the method."""
    package_version: str
    """The version of understudy that made it."""
    plan: Plan | None = None
    """The plan that was run."""
    events: tuple[Event, ...] = ()
    """What was charged."""
    draws: tuple[Mapping[str, Any], ...] = ()
    """Tables that were drawn straight from the data: how, and no cell of them."""
    rows_drawn: str = ""
    """How the rows were drawn, in words."""
    copies_share_measurements: bool = False
    """Whether all copies rest on one set of noisy measurements."""
    notes: tuple[str, ...] = ()
    """Remarks about the run."""
    records: int | None = None
    """The exact number of confidential rows, only where the unit makes it public."""
    added: tuple[Addition, ...] = ()
    """What was measured later and joined the release; its events are the last of ``events``."""

    @property
    def by(self) -> Bound:
        """By which bound the loss of its events may be read."""
        # What is added later is chosen after the release was seen, so only a bound that adds up adaptively holds.
        return "concentrated" if self.plan is None or self.added else self.plan.by

    @property
    def planned_events(self) -> tuple[Event, ...]:
        """What was charged for the release itself, before anything joined it."""
        later = sum(len(one.plan.events) for one in self.added)
        return self.events[: len(self.events) - later]
