"""Sequential classification trees, as synthpop does by default: the reference that people compare with.

It has no guarantee. It is offered so that what a guarantee costs can be seen on one's own table, with one command and
one evaluation. The law is in ``privacy/mechanisms/cart_draw.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InputError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.mechanisms.cart_draw import CartDraw
from understudy.privacy.promise.plan import Option, Plan
from understudy.synth.shared.method import Request, Synthesis, check_request, synthesizers
from understudy.synth.shared.whole_table_draws import (
    check_sdc,
    draw_copies,
    plan_draws,
    require_rows,
    sdc_notes,
    sdc_option,
)

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
    sdc: str = ""
    """``uniques`` removes rows that repeat a person who is unique in the data. It is no guarantee."""

    def __post_init__(self) -> None:
        check_sdc(self.sdc)
        if self.smallest_leaf < 1:
            raise InputError(f"smallest_leaf ({self.smallest_leaf}) must be at least 1.")

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        require_rows(request)
        options: dict[str, Option] = {"smallest_leaf": self.smallest_leaf, **sdc_option(self.sdc)}
        return plan_draws(schema, request, method=self.name, options=options, notes=(WARNING, *sdc_notes(self.sdc)))

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:  # noqa: ARG002
        mechanism = CartDraw(
            rows=plan.rows if plan.rows is not None else gate.records, smallest_leaf=self.smallest_leaf
        )
        return draw_copies(
            plan,
            schema,
            gate,
            mechanism,
            rows_drawn="drawn from the leaves of trees grown on the data (each copy a fresh draw)",
            warning=WARNING,
            sdc=self.sdc,
        )
