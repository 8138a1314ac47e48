"""Sequential classification trees, as synthpop does by default: the reference that people compare with.

It has no guarantee. It is offered so that what a guarantee costs can be seen on one's own table, with one command and
one evaluation. The law is in ``privacy/mechanisms/cart_draw.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.core.domain import Domain
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import InputError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.mechanisms.cart_draw import CartDraw
from understudy.privacy.promise.event import NoNoise
from understudy.privacy.promise.plan import Plan, Step
from understudy.synth.shared.method import Request, Synthesis, check_request, planned, synthesizers

WARNING = (
    "NO GUARANTEE: values are drawn from leaves of trees that were grown on the confidential records, so rows of real "
    "people can come out; for comparison inside the building."
)


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Cart:
    """Each attribute is drawn from the leaf of a tree that predicts it from the attributes before it in the schema.

    Raises
    ------
    InputError
        If an option is not what it should be.
    """

    name: ClassVar[str] = "cart"
    summary: ClassVar[str] = "classification trees, one attribute after another; without a guarantee, to compare with"
    guarantees: ClassVar[tuple[str, ...]] = ("none",)
    inference: ClassVar[str] = "refused"

    smallest_leaf: int = 5
    """The least number of people in a leaf, from whom values are drawn (5 is synthpop's default)."""

    def __post_init__(self) -> None:
        if self.smallest_leaf < 1:
            raise InputError(f"smallest_leaf ({self.smallest_leaf}) must be at least 1.")

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        if request.rows is None and not request.unit.public_total:
            raise InputError("without a guarantee and under add_remove, say how many rows to draw (rows).")
        possible = Domain(schema=schema, margin=schema.names).possible
        steps = tuple(
            Step(label=f"copy {copy}", margin=schema.names, action="draw", event=NoNoise(), cells=possible)
            for copy in range(1, request.copies + 1)
        )
        options = {"smallest_leaf": self.smallest_leaf}
        return planned(schema, request, method=self.name, steps=steps, options=options, notes=(WARNING,))

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:  # noqa: ARG002
        mechanism = CartDraw(
            rows=plan.rows if plan.rows is not None else gate.records, smallest_leaf=self.smallest_leaf
        )
        draws = tuple(
            gate.draw([mechanism], margin=schema.names, label=step.label, copy=copy)
            for copy, step in enumerate(plan.steps, start=1)
        )
        tables = tuple(CodedTable.from_cells(schema, np.repeat(draw.cells, draw.counts)) for draw in draws)
        return Synthesis(
            tables=tables,
            draws=draws,
            rows_drawn="drawn from the leaves of trees grown on the data (each copy a fresh draw)",
            warnings=(WARNING,),
        )
