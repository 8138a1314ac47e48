"""What ``understudy verify`` checks of a release of tables: that it says what follows from what it was charged for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from understudy.core.apportion import apportion
from understudy.core.bins import bins_of
from understudy.core.measurement import CLASSES, CODES, NEIGHBOURS, SIZES, Measurement
from understudy.core.schema import Attribute
from understudy.engines.reading.encode import encode_table
from understudy.errors import BudgetError, InputError
from understudy.privacy.gate.table_draws import strata_domains
from understudy.privacy.mechanisms.dirichlet_draw import DirichletDraw, require_definition_6, row_unit
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.mechanisms.stability_threshold import StabilityThreshold
from understudy.privacy.promise.definition import NonPrivate
from understudy.privacy.promise.event import ApproxLoss, NoNoise, PureLoss, Sensitivity, Strata
from understudy.privacy.promise.plan import Plan
from understudy.privacy.promise.sensitivity import clusters_sensitivity, code_sensitivity, margin_sensitivity
from understudy.release.checks import events_add_up, measurements_are_charged, plan_covers
from understudy.release.kind import Check
from understudy.release.table_release import Release
from understudy.synth.shared.found_columns import found_schema


def _rows_fit(release: Release) -> str:
    for copy in range(1, release.copies + 1):
        release.check_rows(copy)
    return f"all rows of {release.copies} table(s) fit the schema and its structural zeros"


def _plan_covers(release: Release) -> str:
    plan = release.provenance.plan
    if plan is None:
        if not isinstance(release.statement.guarantee, NonPrivate):
            raise InputError("a guarantee is stated but there is no plan that says what was done for it.")
        return "no plan: the release was not made by understudy"
    fingerprint = release.schema.declared.fingerprint
    return plan_covers(plan, release.provenance, release.statement, domain=fingerprint, named="another schema")


def _same_bins(again: Attribute, stated: Attribute) -> bool:
    """The same codes or edges, and the same shares but for how another machine rounds."""
    if again.levels != stated.levels:
        return False
    if again.edges != stated.edges or not stated.inside:
        return again.edges == stated.edges and not again.inside
    ours, theirs = (bins_of(one).shares for one in (again, stated))
    return ours is not None and theirs is not None and np.allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def found_again(release: Release) -> str:
    """What the schema says was found is what follows from the noisy counts that found it."""
    declared = release.schema.declared
    if declared is release.schema:
        if release.finding:
            raise InputError("there are counts that found something, and the schema says that nothing was found.")
        return "nothing was left open by the schema"
    for one in release.finding:
        if isinstance(one.mechanism, StabilityThreshold) and np.any(one.values < one.mechanism.threshold):
            raise InputError(f"'{one.label}' tells a code below its threshold, which its mechanism never does.")
    again = found_schema(declared, release.finding)
    if not all(_same_bins(again[one.name], one) for one in release.schema.attributes if one.found):
        raise InputError("the bins in the schema are not those that follow from the noisy counts that found them.")
    stated, follow = (() if one.design is None else one.design.measured_effects for one in (release.schema, again))
    if [name for name, _ in stated] != [name for name, _ in follow] or not np.allclose(
        [factor for _, factor in stated], [factor for _, factor in follow], rtol=1e-6
    ):
        raise InputError(
            "the design effects in the schema are not those that follow from the noisy counts of clusters."
        )
    told = f"bins or codes of {sum(one.found for one in release.schema.attributes)} attribute(s)"
    if stated:
        told += f" and {len(stated)} design effect(s)"
    return f"{told} follow from their noisy counts"


def every_measurement_is_charged(release: Release) -> str:
    schema, unit = release.schema, release.statement.unit

    def sensitivity_of(one: Measurement) -> Sensitivity:
        if one.cells == CODES:
            return code_sensitivity(schema, one.margin, unit)
        if one.cells in (NEIGHBOURS, SIZES):
            return clusters_sensitivity(schema.design, unit, one.cells)
        # What finds was counted by the schema as it was declared.
        before = schema.declared if one.cells == CLASSES else schema
        return margin_sensitivity(before, one.margin, unit, "all" if one.cells == CLASSES else one.cells)

    told = measurements_are_charged((*release.finding, *release.measurements), release.provenance, sensitivity_of)
    for one in release.measurements:
        if one.cells == "all" and one.margin and np.any(one.values[~schema.allowed(one.margin)]):
            raise InputError(f"the measurement '{one.label}' has a value where the schema allows none.")
    return told


def _draws_are_charged(release: Release) -> str:
    """What each draw's stated law loses is no more than the loss that was charged for it."""
    plan, draws = release.provenance.plan, release.provenance.draws
    steps = [step for step in plan.steps if step.action == "draw"] if plan is not None else []
    if len(steps) != len(draws):
        raise InputError(f"the plan announces {len(steps)} draw(s) and the release records {len(draws)}.")
    if plan is None or not draws:
        return "no draw straight from the data"
    for copy, (step, draw) in enumerate(zip(steps, draws, strict=True), start=1):
        strata = release.schema.margin(plan.unit.fixed) if isinstance(step.event, Strata) else ()
        losses = step.event.strata if isinstance(step.event, Strata) else ((step.event,),)
        if len(losses) != len(draw["mechanisms"]):
            raise InputError(f"the draw '{draw['label']}' does not have a mechanism for each stratum of its plan.")
        domains = strata_domains(release.schema, strata)
        records = _records(release, plan, draw) if strata else [release.provenance.records]
        asked: list[tuple[DirichletDraw, TableFacts]] = []
        for (loss,), stated, domain, size in zip(losses, draw["mechanisms"], domains, records, strict=True):
            if isinstance(loss, NoNoise):
                continue  # no guarantee is claimed for it
            if stated["mechanism"] != DirichletDraw.name or not isinstance(loss, PureLoss | ApproxLoss):
                raise InputError(
                    f"the draw '{draw['label']}' is charged with an event that a draw by '{stated['mechanism']}' "
                    "does not have."
                )
            mechanism = DirichletDraw.from_json(stated, loss)
            facts = TableFacts(unit=row_unit(plan.unit, strata), cells=domain.possible, records=size, domain=domain)
            asked.append((mechanism, facts))
        if asked:
            _require_drawn(release, copy, draw, strata, records)
        try:
            for mechanism, facts in asked:
                mechanism.event_for(facts)
            require_definition_6([mechanism for mechanism, _ in asked], [facts for _, facts in asked])
        except BudgetError:
            raise InputError(f"the draw '{draw['label']}' costs more than was charged for it.") from None
    return f"{len(draws)} draw(s), each charged with what its mechanism costs"


def _require_drawn(
    release: Release, copy: int, draw: Mapping[str, Any], strata: tuple[str, ...], records: list[int | None]
) -> None:
    """The rows that a draw states are those of the released table, and as many as the plan makes of the public sizes:
    a cost that rests on other numbers is the cost of another draw."""
    stated = [int(one["rows"]) for one in draw["mechanisms"]]
    found = [release.rows[copy - 1]]
    if strata:
        counts = np.zeros(release.schema.shape(strata), dtype=np.int64)
        for piece in release.batches(copy):
            counts += encode_table(piece, release.schema).counts(strata)
        found = counts.ravel().tolist()
    if stated != found:
        raise InputError(f"the draw '{draw['label']}' states other numbers of rows than its table has.")
    sizes = [size for size in records if size is not None]
    asked, plan = sizes or stated, release.provenance.plan
    if plan is not None and plan.rows is not None:
        asked = apportion(np.array(sizes), plan.rows).tolist() if strata else [plan.rows]
    if stated != asked:
        raise InputError(f"the draw '{draw['label']}' states other numbers of rows than its plan and records ask for.")


def _records(release: Release, plan: Plan, draw: Mapping[str, Any]) -> list[int | None]:
    """The public sizes of the strata that a copy was drawn from."""
    if "sizes" not in draw and plan.rows is None:  # early releases do not state them; they drew as many rows
        return [int(stated["rows"]) for stated in draw["mechanisms"]]
    if "sizes" not in draw or sum(draw["sizes"]) != release.provenance.records:
        raise InputError(f"the public sizes of the strata that '{draw['label']}' was drawn from are not recorded.")
    return [int(size) for size in draw["sizes"]]


TABLE_CHECKS: tuple[Check[Release], ...] = (
    ("schema", _rows_fit),
    ("plan", _plan_covers),
    ("found", found_again),
    ("measurements", every_measurement_is_charged),
    ("draws", _draws_are_charged),
    ("guarantee", lambda release: events_add_up(release.provenance, release.statement)),
)
