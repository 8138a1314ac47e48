"""What ``verify`` checks of every release, whatever it is of: that plan, measurements and guarantee were paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from understudy.errors import InputError
from understudy.privacy.promise.accountant import compose, satisfies, satisfies_definition_6
from understudy.privacy.promise.definition import NonPrivate, ProbabilisticDP
from understudy.privacy.promise.event import Event, Sensitivity
from understudy.privacy.promise.plan import Plan
from understudy.release.value import Provenance, Statement


def plan_covers(plan: Plan, provenance: Provenance, statement: Statement, *, domain: str, named: str) -> str:
    """The events are those the plan announces, for this domain (a fingerprint, and what it is called) and unit."""
    if plan.schema_fingerprint != domain:
        raise InputError(f"the plan was made for {named}.")
    if plan.unit != statement.unit:
        raise InputError("the plan protects another unit than the manifest states.")
    events = provenance.events
    if not plan.adaptive and Counter(events) != Counter(plan.events):
        raise InputError("the events recorded are not those the plan announces.")
    if not satisfies(compose(events, plan.unit, by=plan.by), plan.budget):
        raise InputError("the events recorded cost more than the plan's budget.")
    if isinstance(plan.budget, ProbabilisticDP) and not satisfies_definition_6(events, plan.unit, plan.budget):
        raise InputError("the events recorded do not keep Definition 6, which the plan's budget asks for.")
    return f"{len(events)} event(s), as planned"


def measurements_are_charged(
    measurements: Iterable[Any], provenance: Provenance, sensitivity_of: Callable[[Any], Sensitivity]
) -> str:
    """Each measurement has an event of its own, which is what its mechanism costs for its sensitivity."""
    charged, count = Counter(provenance.events), 0
    for count, one in enumerate(measurements, start=1):  # noqa: B007 - its last value is told
        event = one.mechanism.event(sensitivity_of(one))
        if not isinstance(event, Event) or charged[event] == 0:
            raise InputError(f"the measurement '{one.label}' was not charged as its mechanism and unit require.")
        charged[event] -= 1
    return f"{count} measurement(s), each charged with the noise it states"


def events_add_up(provenance: Provenance, statement: Statement) -> str:
    """The recorded events compose to no more than what is stated."""
    stated = statement.guarantee
    if isinstance(stated, NonPrivate):
        return "NO GUARANTEE is stated, so none is checked"
    if not provenance.events:
        raise InputError("a guarantee is stated but no event is recorded.")
    plan = provenance.plan
    if plan is not None and plan.adaptive and stated != plan.budget:
        # What it happened to spend was chosen by its answers: a statement about that is not a guarantee.
        raise InputError(f"a run that chooses on the way keeps the budget of its plan, {plan.budget}, not {stated}.")
    if not satisfies(compose(provenance.events, statement.unit, by=provenance.by), stated):
        raise InputError(f"the recorded events cost more than the stated {stated}.")
    if isinstance(stated, ProbabilisticDP) and not satisfies_definition_6(provenance.events, statement.unit, stated):
        raise InputError(f"the recorded events do not add up to the stated {stated}: not all of them are set for it.")
    return f"the recorded events compose to within {stated}"
