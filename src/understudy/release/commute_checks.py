"""What ``verify`` checks of a release of commutes, from its folder alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from understudy.core.exact import float_down, from_text
from understudy.core.places import DESTINATION
from understudy.errors import InputError
from understudy.privacy.exact.dirichlet_breach import breach_union_bound, thresholds
from understudy.privacy.exact.dirichlet_profile import PriorShape, delta
from understudy.privacy.mechanisms.commute_prior import size_step
from understudy.privacy.mechanisms.flow_draws import CellUrn, ShrunkUrn
from understudy.privacy.mechanisms.place_bands import PlaceBands
from understudy.privacy.mechanisms.private_sizes import private_delta
from understudy.privacy.mechanisms.shrinking import TAIL_SHARE, shrunk_delta, surely_retained
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.event import ApproxLoss, GeometricNoise, NoNoise, PureLoss, Sensitivity
from understudy.privacy.promise.plan import Plan, Step
from understudy.release.charge_checks import events_add_up, measurements_are_charged, plan_covers
from understudy.release.commutes import CommuteRelease
from understudy.synth.commutes.mechanisms import AcceptingUrn, NoisyCells
from understudy.synth.commutes.priors import least_domain, one_job
from understudy.synth.commutes.settings import read_shrinking


def pairs_fit(release: CommuteRelease) -> str:
    """Every pair names known places, is listed once, and has jobs."""
    for copy in range(1, release.copies + 1):
        last = -1
        for origins, destinations, jobs in release.coded_batches(copy):
            if (destinations < 0).any():
                raise InputError("a destination is not a place; only an origin can be elsewhere.")
            if (jobs < 1).any():
                raise InputError("a pair has no jobs; only pairs with jobs are listed.")
            # By destination and origin, as they are written: then a pair listed twice is seen without holding them all.
            keys = destinations.astype(np.int64) * (len(release.places) + 1) + origins + 1
            if (np.diff(keys, prepend=last) <= 0).any():
                raise InputError(
                    "pairs are not listed once each, by destination and origin in the order of the places."
                )
            last = int(keys[-1]) if len(keys) else last
    return f"all pairs of {release.copies} table(s) are between known places"


def _plan_covers(release: CommuteRelease) -> str:
    plan = release.provenance.plan
    if plan is None:
        raise InputError("a release of commutes needs its plan.")
    fingerprint = release.places.fingerprint
    return plan_covers(plan, release.provenance, release.statement, domain=fingerprint, named="other places")


def _measurements_are_charged(release: CommuteRelease) -> str:
    """A job is in one cell of every table that is measured, so the unit alone says how far it moves one."""
    unit = release.statement.unit
    moved, rows = (2 if unit.kind == "replace" else 1), unit.rows_per_unit
    sensitivity = Sensitivity(l1=moved * rows, l2_squared=moved * rows**2, linf=rows)
    return measurements_are_charged(release.measurements, release.provenance, lambda _: sensitivity)


def draws_are_charged(release: CommuteRelease) -> str:
    plan, draws = release.provenance.plan, release.provenance.draws
    if plan is None:
        raise InputError("a release of commutes needs its plan.")
    steps = [step for step in plan.steps if step.action == "draw"]
    if [draw["label"] for draw in draws] != [step.label for step in steps]:
        raise InputError("the draws recorded are not those the plan announces.")
    for step, draw in zip(steps, draws, strict=True):
        for mechanism in draw["mechanisms"]:
            _draw_suffices(mechanism, step, plan, release)
    return f"{len(steps)} draw(s), their priors as large as what was charged for them asks for"


def _draw_suffices(mechanism: Mapping[str, Any], step: Step, plan: Plan, release: CommuteRelease) -> None:
    """Recomputes what the stated law of a draw loses, and compares it with what was charged."""
    name, event = mechanism["mechanism"], step.event
    if isinstance(event, NoNoise):
        return  # no guarantee is claimed for it
    if name == NoisyCells.name and isinstance(event, GeometricNoise):
        enough = event.scale == from_text(mechanism["scale"], "scale") and event.l1 == 2 * plan.unit.rows_per_unit
    elif name == CellUrn.name and isinstance(event, PureLoss | ApproxLoss):
        enough = _priors_suffice(mechanism, one_job(event, plan.unit), plan)
    elif name == AcceptingUrn.name and isinstance(event, ApproxLoss):
        enough = _accepting_suffices(mechanism, event, plan)
    elif name == ShrunkUrn.name and isinstance(event, ApproxLoss):
        enough = _shrunk_suffices(mechanism, event, plan, release)
    else:
        raise InputError(f"the draw '{step.label}' is charged with an event that a draw by '{name}' does not have.")
    if not enough:
        raise InputError(f"the draw '{step.label}' loses more than was charged for it.")


def _steps_of(mechanism: Mapping[str, Any]) -> Iterator[tuple[int, int, int, float]]:
    """For each step of sizes the least, the most rows drawn, the cells, and the prior of each."""
    names = ("sizes_from", "cells", "priors", "rows_per_job")
    for least, cells, text, times in zip(*(mechanism[name] for name in names), strict=True):
        yield int(least), size_step(int(least))[1] * int(times), int(cells), float(from_text(text, "prior"))


def _extra_cells(plan: Plan) -> int:
    return int(bool(plan.options.get("cut_miles")))


def _priors_suffice(mechanism: Mapping[str, Any], loss: PureLoss | ApproxLoss, plan: Plan) -> bool:
    for least, most, cells, prior in _steps_of(mechanism):
        if math.log1p(most / prior) <= float(loss.epsilon) * (1 + 1e-9):
            continue  # by Theorem 4.1
        if isinstance(loss, ApproxLoss) and DESTINATION not in plan.unit.fixed:
            if private_delta(prior, (cells + _extra_cells(plan)) * prior, most, float(loss.epsilon)) > loss.delta:
                return False
            continue
        shape = PriorShape.symmetric(prior, cells + _extra_cells(plan), most)
        if isinstance(loss, PureLoss) or delta(shape, least, Unit(), float(loss.epsilon)) > loss.delta:
            return False
    return True


def _accepting_suffices(mechanism: Mapping[str, Any], loss: ApproxLoss, plan: Plan) -> bool:
    """Lemma 5.2 for every size: ln((gamma + 1) / (1 - p)) <= epsilon and p <= delta, p bounded by a union."""
    level = math.log1p(float(mechanism["gamma"]))
    for least, most, cells, prior in _steps_of(mechanism):
        if math.log1p(most / prior) <= level <= float(loss.epsilon):
            continue  # nothing is ever rejected
        for size in range(least, most + 1):
            safe = thresholds(prior, size, size, level)
            rejected = breach_union_bound(prior, cells + _extra_cells(plan), size, size, safe)
            if rejected > loss.delta or level - math.log1p(-rejected) > float(loss.epsilon) * (1 + 1e-9):
                return False
    return True


def _shrunk_suffices(mechanism: Mapping[str, Any], loss: ApproxLoss, plan: Plan, release: CommuteRelease) -> bool:
    """The sound bound of docs/theory/commute.md, first for the smallest domain that can occur."""
    shrinking = read_shrinking(str(plan.options.get("shrink", "")))
    if shrinking is None or mechanism["retained_share_of_2^32"] != shrinking.thresholds.tolist():
        return False

    def holds(others: int) -> bool:
        tail = TAIL_SHARE * float(loss.delta) if others else 0.0
        return all(
            tail + shrunk_delta(
                prior, epsilon=float_down(loss.epsilon), least_keep=float_down(shrinking.least),
                records=least, rows=most, others=others,
            ) <= loss.delta
            for least, most, _, prior in _steps_of(mechanism)
        )  # fmt: skip

    if holds(0):
        return True
    bands = PlaceBands(points=release.places.points(), edges=shrinking.edges)
    retained = least_domain(shrinking, bands, np.unique(release.coded(1)[1]).astype(np.int64))
    return holds(surely_retained(retained, float_down(loss.delta)))


CHECKS: tuple[tuple[str, Callable[[CommuteRelease], str]], ...] = (
    ("places", pairs_fit),
    ("plan", _plan_covers),
    ("measurements", _measurements_are_charged),
    ("draws", draws_are_charged),
    ("guarantee", lambda release: events_add_up(release.provenance, release.statement)),
)
