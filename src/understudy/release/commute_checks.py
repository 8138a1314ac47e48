"""What ``verify`` checks of a release of commutes, from its folder alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from understudy.core.exact import from_text
from understudy.errors import InputError
from understudy.privacy.accountant import compose, satisfies
from understudy.privacy.commute_prior import size_step
from understudy.privacy.definition import NonPrivate, Unit
from understudy.privacy.dirichlet_profile import PriorShape, delta
from understudy.privacy.event import ApproxLoss, GeometricNoise, NoNoise, PureLoss
from understudy.privacy.flow_draws import CellUrn
from understudy.privacy.plan import Plan, Step
from understudy.release.commutes import CommuteRelease
from understudy.synth.commutes.priors import one_job


def pairs_fit(release: CommuteRelease) -> str:
    """Every pair names known places once, has jobs, and all copies have the same total where jobs are public."""
    for copy in range(1, release.copies + 1):
        origins, destinations, jobs = release.coded(copy)
        if (destinations < 0).any():
            raise InputError("a destination is not a place; only an origin can be elsewhere.")
        if (jobs < 1).any():
            raise InputError("a pair has no jobs; only pairs with jobs are listed.")
        keys = destinations.astype(np.int64) * (len(release.places) + 1) + origins + 1
        if len(np.unique(keys)) != len(keys):
            raise InputError("a pair of origin and destination is listed twice.")
    return f"all pairs of {release.copies} table(s) are between known places"


def plan_covers(release: CommuteRelease) -> str:
    plan, events = release.provenance.plan, release.provenance.events
    if plan is None:
        raise InputError("a release of commutes needs its plan.")
    if plan.schema_fingerprint != release.places.fingerprint:
        raise InputError("the plan was made for other places.")
    if plan.unit != release.statement.unit:
        raise InputError("the plan protects another unit than the manifest states.")
    if not plan.adaptive and Counter(events) != Counter(plan.events):
        raise InputError("the events recorded are not those the plan announces.")
    if not satisfies(compose(events, plan.unit), plan.budget):
        raise InputError("the events recorded cost more than the plan's budget.")
    return f"{len(events)} event(s), as planned"


def measurements_are_charged(release: CommuteRelease) -> str:
    charged = Counter(release.provenance.events)
    moved = release.statement.unit.rows_per_unit * (2 if release.statement.unit.kind == "replace" else 1)
    for one in release.measurements:
        scale = getattr(one.mechanism, "scale", None)
        hits = [
            e for e in charged if isinstance(e, GeometricNoise) and e.scale == scale and e.l1 == moved and charged[e]
        ]
        if one.mechanism.name == "geometric" and not hits:
            raise InputError(f"the measurement '{one.label}' was not charged as its mechanism and unit require.")
        if hits:
            charged[hits[0]] -= 1
    return f"{len(release.measurements)} measurement(s), each charged with the noise it states"


def draws_are_charged(release: CommuteRelease) -> str:
    plan = release.provenance.plan
    if plan is None:
        raise InputError("a release of commutes needs its plan.")
    steps = [step for step in plan.steps if step.action == "draw"]
    for step, draw in zip(steps, release.provenance.draws, strict=True):
        if draw["label"] != step.label:
            raise InputError("the draws recorded are not those the plan announces.")
        if not isinstance(step.event, PureLoss | ApproxLoss | GeometricNoise | NoNoise):
            raise InputError(f"the draw '{step.label}' is charged with an event that no draw has.")
        for mechanism in draw["mechanisms"]:
            if mechanism["mechanism"] == CellUrn.name and isinstance(step.event, PureLoss | ApproxLoss):
                _priors_suffice(mechanism, step, plan)
    return f"{len(steps)} draw(s), their priors as large as what was charged for them asks for"


def _priors_suffice(mechanism: Mapping[str, Any], step: Step, plan: Plan) -> None:
    """Recomputes, for the smallest size of each step, what the stated prior loses."""
    loss = one_job(step.event, plan.unit)  # type: ignore[arg-type]
    extra = int(bool(plan.options.get("cut_miles")))
    epsilon = float(loss.epsilon) * (1 + 1e-9)
    names = ("sizes_from", "cells", "priors", "rows_per_job")
    for least, cells, text, times in zip(*(mechanism[name] for name in names), strict=True):
        prior, most = float(from_text(text, "prior")), size_step(int(least))[1] * int(times)
        if math.log1p(most / prior) <= epsilon:
            continue  # by Theorem 4.1
        shape = PriorShape.symmetric(prior, int(cells) + extra, most)
        if isinstance(loss, PureLoss) or delta(shape, int(least), Unit(), float(loss.epsilon)) > loss.delta:
            raise InputError(f"the prior of destinations with {least} jobs is too small for what was charged.")


def events_add_up(release: CommuteRelease) -> str:
    stated = release.statement.guarantee
    if isinstance(stated, NonPrivate):
        return "NO GUARANTEE is stated, so none is checked"
    if not satisfies(compose(release.provenance.events, release.statement.unit), stated):
        raise InputError(f"the recorded events cost more than the stated {stated}.")
    return f"the recorded events compose to within {stated}"


CHECKS = (
    ("places", pairs_fit),
    ("plan", plan_covers),
    ("measurements", measurements_are_charged),
    ("draws", draws_are_charged),
    ("guarantee", events_add_up),
)
