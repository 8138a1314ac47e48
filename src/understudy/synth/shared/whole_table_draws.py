"""Draws of the whole table, one for each copy: what methods without a guarantee plan and run in the same way.

Their laws are in ``privacy/mechanisms/``, and the gate runs them. Nothing is measured, so nothing is fitted.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from understudy.core.domain import Domain
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import InputError, unknown_name
from understudy.privacy.gate.gate import Gate
from understudy.privacy.mechanisms.uniques_removed import UniquesRemoved, Unprotected
from understudy.privacy.promise.event import NoNoise
from understudy.privacy.promise.plan import Option, Plan, Step
from understudy.synth.shared.method import Request, Synthesis, planned


def require_rows(request: Request) -> None:
    """Refuses a request whose number of rows would have to come from the records, where that number is not public."""
    if request.rows is None and not request.unit.public_total:
        raise InputError("without a guarantee and under add_remove, say how many rows to draw (rows).")


SDC = "uniques"  # the one measure of disclosure control that changes rows
SDC_WARNING = (
    "NO GUARANTEE: rows that repeat a unique person were removed (sdc). That is no guarantee either: who is missing "
    "depends on the data, and rows about people who are not unique stay."
)


def check_sdc(sdc: str) -> None:
    """The measures of disclosure control that are offered."""
    if sdc not in ("", SDC):
        raise unknown_name("sdc", sdc, (SDC,))


def sdc_option(sdc: str) -> dict[str, Option]:
    """What a plan records of it: nothing where it is not asked for."""
    return {"sdc": sdc} if sdc else {}


def sdc_notes(sdc: str) -> tuple[str, ...]:
    """What plan and release say of it."""
    return (SDC_WARNING,) if sdc else ()


def controlled(mechanism: Unprotected, sdc: str) -> Unprotected | UniquesRemoved:
    """The mechanism itself, or with its replicated uniques removed."""
    return UniquesRemoved(drawn_by=mechanism) if sdc else mechanism


def plan_draws(
    schema: Schema, request: Request, *, method: str, options: Mapping[str, Option], notes: tuple[str, ...]
) -> Plan:
    """A plan with one draw of the whole table for each copy, and no noise."""
    possible = Domain(schema=schema, margin=schema.names).possible
    steps = tuple(
        Step(label=f"copy {copy}", margin=schema.names, action="draw", event=NoNoise(), cells=possible)
        for copy in range(1, request.copies + 1)
    )
    return planned(schema, request, method=method, steps=steps, options=options, notes=notes)


def draw_copies(
    plan: Plan,
    schema: Schema,
    gate: Gate,
    mechanism: Unprotected,
    *,
    rows_drawn: str,
    warning: str,
    notes: tuple[str, ...] = (),
    sdc: str = "",
) -> Synthesis:
    """Run the draws of a plan through the gate: each copy is a fresh draw from the data."""
    draws = tuple(
        gate.draw([controlled(mechanism, sdc)], margin=schema.names, label=step.label, copy=copy)
        for copy, step in enumerate(plan.steps, start=1)
    )
    tables = tuple(CodedTable.from_cells(schema, np.repeat(draw.cells, draw.counts)) for draw in draws)
    return Synthesis(
        tables=tables, draws=draws, rows_drawn=rows_drawn, notes=notes, warnings=(warning, *sdc_notes(sdc))
    )
