"""``understudy verify``: does a release folder hold together, and do its events add up to what it states?

It recomputes; it does not trust. Hashes detect corruption, not forgery by somebody who rewrites the whole folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.exact import from_text
from understudy.errors import InputError, UnderstudyError
from understudy.privacy.accountant import compose, satisfies
from understudy.privacy.definition import NonPrivate
from understudy.privacy.dirichlet_draw import SLACK, DirichletDraw, epsilon_of, row_unit
from understudy.privacy.event import Event, NoNoise, PureLoss, Strata
from understudy.privacy.plain import PlainMultinomial
from understudy.privacy.reverse_draw import ReverseMappedDraw
from understudy.privacy.sensitivity import margin_sensitivity
from understudy.release.commute_checks import CHECKS as COMMUTE_CHECKS
from understudy.release.commutes import CommuteRelease
from understudy.release.folder import build_release, check_files, read_manifest
from understudy.release.value import Release

WITHOUT_PROTECTION = (PlainMultinomial.name, ReverseMappedDraw.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was checked, and what came of it."""

    name: str
    passed: bool
    detail: str


def verify(path: str | Path) -> tuple[Check, ...]:
    """Every check that needs nothing but the folder. All must pass.

    >>> import tempfile, understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> table = us.wrap(make_people(50).select(list(small_schema().names)), small_schema())
    >>> all(check.passed for check in us.verify(table.write(tempfile.mkdtemp() + "/release")))
    True
    """
    path = Path(path)
    manifest = read_manifest(path)
    try:
        check_files(path, manifest)
        release = build_release(path, manifest)
    except UnderstudyError as problem:
        return (Check(name="files", passed=False, detail=str(problem)),)
    return (
        Check(name="files", passed=True, detail=f"{len(manifest['files'])} files listed, none else, every hash right"),
        *_checks(release),
    )


def _checks(release: Any) -> Iterator[Check]:
    of_commutes = isinstance(release, CommuteRelease)
    checks: tuple[tuple[str, Callable[[Any], str]], ...] = (
        COMMUTE_CHECKS
        if of_commutes
        else (
            ("schema", _rows_fit),
            ("plan", _plan_covers),
            ("measurements", _measurements_are_charged),
            ("draws", _draws_are_charged),
            ("guarantee", _events_add_up),
        )
    )
    for name, check in checks:
        try:
            yield Check(name=name, passed=True, detail=check(release))
        except UnderstudyError as problem:
            yield Check(name=name, passed=False, detail=str(problem))


def _rows_fit(release: Release) -> str:
    for copy in range(1, release.copies + 1):
        release.check_rows(copy)
    return f"all rows of {release.copies} table(s) fit the schema and its structural zeros"


def _plan_covers(release: Release) -> str:
    plan, events = release.provenance.plan, release.provenance.events
    if plan is None:
        return "no plan: the release was not made by understudy"
    if plan.schema_fingerprint != release.schema.fingerprint:
        raise InputError("the plan was made for another schema.")
    if plan.unit != release.statement.unit:
        raise InputError("the plan protects another unit than the manifest states.")
    beyond = Counter(events) - Counter(plan.events)
    if beyond and not plan.adaptive:
        raise InputError(f"{sum(beyond.values())} event(s) were not announced by the plan.")
    if not plan.adaptive and Counter(events) != Counter(plan.events):
        raise InputError("the events recorded are not all those the plan announces.")
    if not satisfies(compose(events, plan.unit), plan.budget):
        raise InputError("the events recorded cost more than the plan's budget.")
    return f"{len(events)} event(s), as planned"


def _measurements_are_charged(release: Release) -> str:
    charged = Counter(release.provenance.events)
    for one in release.measurements:
        sensitivity = margin_sensitivity(release.schema, one.margin, release.statement.unit, one.cells)
        event = one.mechanism.event(sensitivity)
        if not isinstance(event, Event) or charged[event] == 0:
            raise InputError(f"the measurement '{one.label}' was not charged as its mechanism and unit require.")
        charged[event] -= 1
        if one.cells == "all" and one.margin and np.any(one.values[~release.schema.allowed(one.margin)]):
            raise InputError(f"the measurement '{one.label}' has a value where the schema allows none.")
    return f"{len(release.measurements)} measurement(s), each charged with the noise it states"


def _draws_are_charged(release: Release) -> str:
    """Each Dirichlet draw's prior and rows cost no more than the loss that was charged for it."""
    plan, draws = release.provenance.plan, release.provenance.draws
    if plan is None or not draws:
        return "no draw straight from the data"
    steps = [step for step in plan.steps if step.action == "draw"]
    if len(steps) != len(draws):
        raise InputError(f"the plan announces {len(steps)} draw(s) and the release records {len(draws)}.")
    for step, draw in zip(steps, draws, strict=True):
        strata = isinstance(step.event, Strata)
        losses = step.event.strata if isinstance(step.event, Strata) else ((step.event,),)
        if len(losses) != len(draw["mechanisms"]):
            raise InputError(f"the draw '{draw['label']}' does not have a mechanism for each stratum of its plan.")
        unit = row_unit(plan.unit, plan.unit.fixed if strata else ())
        for (loss,), mechanism in zip(losses, draw["mechanisms"], strict=True):
            if mechanism["mechanism"] == DirichletDraw.name and isinstance(loss, PureLoss):
                prior, rows = from_text(mechanism["prior"], "prior"), int(mechanism["rows"])
                # The loss was set first and the prior rounded up from it, so only the last digits can differ.
                if epsilon_of(prior, rows, unit) > loss.epsilon * (1 + 4 * SLACK):
                    raise InputError(f"the draw '{draw['label']}' costs more than was charged for it.")
            elif mechanism["mechanism"] in WITHOUT_PROTECTION and not isinstance(loss, NoNoise):
                raise InputError(f"the draw '{draw['label']}' has no protection, but was charged as if it had.")
    return f"{len(draws)} draw(s), each charged with what its mechanism costs"


def _events_add_up(release: Release) -> str:
    stated = release.statement.guarantee
    if isinstance(stated, NonPrivate):
        return "NO GUARANTEE is stated, so none is checked"
    if not release.provenance.events:
        raise InputError("a guarantee is stated but no event is recorded.")
    if not satisfies(compose(release.provenance.events, release.statement.unit), stated):
        raise InputError(f"the recorded events cost more than the stated {stated}.")
    return f"the recorded events compose to within {stated}"
