"""What ``verify`` checks of a release of commutes, from its folder alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from understudy.commutes.methods.commute import Commute
from understudy.commutes.release import CommuteRelease
from understudy.commutes.shared.method import flow_synthesizers
from understudy.commutes.shared.settings import read_shrinking
from understudy.core.exact_numbers import from_text
from understudy.core.places import DESTINATION
from understudy.errors import BudgetError, InputError
from understudy.privacy.mechanisms.commute_prior import FEWEST_CELLS, SizedPrior
from understudy.privacy.mechanisms.draw_facts import FlowFacts
from understudy.privacy.mechanisms.flow_draws import CellUrn, FlowMechanism, ShrunkUrn
from understudy.privacy.mechanisms.flow_variants import AcceptingUrn, NoisyCells
from understudy.privacy.mechanisms.place_bands import PlaceBands
from understudy.privacy.promise.event import ApproxLoss, GeometricNoise, NoNoise, PureLoss, Sensitivity
from understudy.privacy.promise.plan import Plan, Step
from understudy.release.checks import events_add_up, measurements_are_charged, plan_covers
from understudy.synth.shared.method import configure_from


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
    """Asks every recorded draw again what it costs, with facts that are recomputed from the folder."""
    plan, draws = release.provenance.plan, release.provenance.draws
    if plan is None:
        raise InputError("a release of commutes needs its plan.")
    steps = [step for step in plan.steps if step.action == "draw"]
    if [draw["label"] for draw in draws] != [step.label for step in steps]:
        raise InputError("the draws recorded are not those the plan announces.")
    for copy, (step, draw) in enumerate(zip(steps, draws, strict=True), start=1):
        if isinstance(step.event, NoNoise):
            continue  # no guarantee is claimed for it
        if len(draw["mechanisms"]) != 1:
            raise InputError(f"the draw '{step.label}' does not state the one mechanism it was made by.")
        for record in draw["mechanisms"]:
            mechanism = _mechanism(record, step, plan, release)
            facts = _facts(release, copy, plan, record, int(draw.get("division", 1)))
            try:
                costs = mechanism.event_for(facts)
            except BudgetError:
                raise InputError(f"the draw '{step.label}' loses more than was charged for it.") from None
            if costs != step.event:
                raise InputError(f"the draw '{step.label}' costs something else than was charged for it.")
    return f"{len(steps)} draw(s), their priors as large as what was charged for them asks for"


def _facts(release: CommuteRelease, copy: int, plan: Plan, record: Mapping[str, Any], division: int) -> FlowFacts:
    """What the cost of a draw rests on: rows from the released table, cells from the public division of the places."""
    rows = np.zeros(len(release.places), dtype=np.int64)
    for _, destinations, jobs in release.coded_batches(copy):
        np.add.at(rows, destinations, jobs)
    drawing = np.flatnonzero(rows)
    method = configure_from(flow_synthesizers, plan.method, plan.options)
    if not isinstance(method, Commute):
        raise InputError(f"method '{plan.method}' makes no draw straight from the data.")
    if "sizes_from" in record and len(drawing) and not min(record["sizes_from"], default=np.inf) <= rows[drawing].min():
        raise InputError("no prior is stated for the smallest destinations.")
    chosen = SizedPrior.from_json(record).of(rows[drawing])[0] if "sizes_from" in record else rows[drawing]
    if method.coarsen == "rings" and "sizes_from" in record and int(chosen.min(initial=FEWEST_CELLS)) < FEWEST_CELLS:
        raise InputError("a draw over a single ring is recorded, which is never made.")
    return FlowFacts(
        unit=plan.unit,
        destinations=drawing,
        rows=rows[drawing],
        cells=method.drawn_cells(release.places, drawing, chosen, division),
        records=rows[drawing] if DESTINATION in plan.unit.fixed else None,
    )


def _mechanism(record: Mapping[str, Any], step: Step, plan: Plan, release: CommuteRelease) -> FlowMechanism:
    """The mechanism that a release states, with the loss that was charged for it."""
    name, event = record["mechanism"], step.event
    if name == NoisyCells.name and isinstance(event, GeometricNoise):
        return NoisyCells(scale=from_text(record["scale"], "scale"))
    if name == CellUrn.name and isinstance(event, PureLoss | ApproxLoss):
        return CellUrn(priors=SizedPrior.from_json(record), claim=event)
    if name == AcceptingUrn.name and isinstance(event, ApproxLoss):
        urn = CellUrn(priors=SizedPrior.from_json(record), claim=event)
        return AcceptingUrn(urn=urn, gamma=float(record["gamma"]))
    shrinking = read_shrinking(str(plan.options.get("shrink", "")))
    if name == ShrunkUrn.name and isinstance(event, ApproxLoss) and shrinking is not None:
        if record["retained_share_of_2^32"] != shrinking.thresholds.tolist():
            raise InputError(f"the draw '{step.label}' states other probabilities of retaining a place than its plan.")
        return ShrunkUrn(
            priors=SizedPrior.from_json(record), claim=event, keeps=shrinking.thresholds, elsewhere=True,
            bands=PlaceBands(points=release.places.points(), edges=shrinking.edges),
        )  # fmt: skip
    raise InputError(f"the draw '{step.label}' is charged with an event that a draw by '{name}' does not have.")


CHECKS: tuple[tuple[str, Callable[[CommuteRelease], str]], ...] = (
    ("places", pairs_fit),
    ("plan", _plan_covers),
    ("measurements", _measurements_are_charged),
    ("draws", draws_are_charged),
    ("guarantee", lambda release: events_add_up(release.provenance, release.statement)),
)
