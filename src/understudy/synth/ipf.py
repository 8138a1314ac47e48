"""Synthesis from chosen margins (Raab's ipf), fitted jointly with the noise of every table known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import unknown_name
from understudy.models.fit import build_tree
from understudy.models.sample import ROWS_BY
from understudy.privacy.gate import Gate
from understudy.privacy.plan import Plan
from understudy.privacy.steps import query_of
from understudy.synth.base import Request, Synthesis, check_request, planned, synthesizers
from understudy.synth.margins import (
    check_margin_sizes,
    known_margins,
    measure_steps,
    public_records,
    read_margins,
    synthesis_from,
    total_of,
)

SPLITS = ("optimal", "equal")


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Ipf:
    """Noisy margins chosen beforehand, and the model nearest to independence that they allow.

    ``margins``: a number of ways (``2``: all pairs) or a list (``sex+age, age+income``). ``split`` divides the budget
    over the tables: ``optimal`` for the least total variance, or ``equal``. ``rows_by``: ``rounding`` or
    ``multinomial``.
    """

    name: ClassVar[str] = "ipf"
    summary: ClassVar[str] = "noise on chosen margins, fitted jointly; for a handful of attributes"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp")

    margins: str = "2"
    split: str = "optimal"
    rows_by: str = "rounding"

    def __post_init__(self) -> None:
        if self.rows_by not in ROWS_BY:
            raise unknown_name("rows_by", self.rows_by, ROWS_BY)
        if self.split not in SPLITS:
            raise unknown_name("split", self.split, SPLITS)

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        margins = read_margins(schema, self.margins)
        check_margin_sizes(schema, margins)
        build_tree(
            schema, [*margins, schema.margin(request.unit.fixed)]
        )  # refuses, before anything is charged, a model that would not fit in memory
        return planned(
            schema,
            request,
            method=self.name,
            steps=measure_steps(schema, margins, request.unit, request.budget, self.split),
            options={"margins": self.margins, "split": self.split, "rows_by": self.rows_by},
        )

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        measured = gate.measure([query_of(step) for step in plan.steps])
        total = total_of(schema, public_records(plan, gate), measured)
        known = known_margins(schema, gate, plan.unit)
        return synthesis_from(plan, schema, measured, total=total, rows_by=self.rows_by, stream=stream, known=known)[0]

    def again(
        self, plan: Plan, schema: Schema, measured: Sequence[Measurement], records: int | None, stream: Stream
    ) -> Synthesis:
        """Tables from what was measured: post-processing, as often as anybody likes."""
        total = total_of(schema, records, measured)
        return synthesis_from(plan, schema, measured, total=total, rows_by=self.rows_by, stream=stream, known={})[0]
