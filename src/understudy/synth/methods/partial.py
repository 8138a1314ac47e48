"""Partially synthetic and hybrid releases (Little 1993, Reiter 2003): chosen attributes, or chosen people, stay real.

It has no guarantee. It is offered because agencies release such files, so that they can be attacked and compared, and
because their copies have a combining rule of their own, T_p. Attributes that are public for everybody can be kept
*with* a guarantee for all others: name them ``fixed`` in the unit and use ``dirichlet``. The law is in
``privacy/mechanisms/partial_draw.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InputError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.mechanisms.partial_draw import PartialDraw
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
    "NO GUARANTEE: partially synthetic. Kept values, and how many people have each combination of them, are those of "
    "the confidential records; whoever knows a person by them can look the other values up."
)


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """One row for each record: kept attributes as they are, the others drawn among the people who share them.

    If a number of rows is asked for, they are a random sample of that table.

    Raises
    ------
    InputError
        If an option is not what it should be.
    """

    name: ClassVar[str] = "partial"
    summary: ClassVar[str] = "keeps chosen attributes, or a share of the records, as they are; without a guarantee"
    guarantees: ClassVar[tuple[str, ...]] = ("none",)
    inference: ClassVar[str] = "valid"

    keep: str = ""
    """The attributes that stay as they are, joined by ``+`` (``sex+age``). None: every value is drawn."""
    real: str = "0"
    """The probability with which a whole record stays as it is (a hybrid release), at least 0 and below 1."""
    prior: str = "0"
    """Prior strength in records of each group of people who share the kept values, spread over its possible cells. With
    0 every combination that comes out is that of a real person."""
    sdc: str = ""
    """``uniques`` removes rows that repeat a person who is unique in the data. It is no guarantee."""

    def __post_init__(self) -> None:
        check_sdc(self.sdc)
        self._mechanism()  # which checks the options

    def _mechanism(self, rows: int | None = None) -> PartialDraw:
        names = tuple(name.strip() for name in self.keep.replace("+", ",").split(",") if name.strip())
        if len(set(names)) != len(names):
            raise InputError(f"keep ({self.keep}) names an attribute twice.")
        return PartialDraw(keep=names, prior=self.prior, real=self.real, rows=rows)

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        kept = schema.margin(self._mechanism().keep)
        if kept == schema.names:
            raise InputError("keep names every attribute: nothing is left to draw, and the release would be the data.")
        require_rows(request)
        options: dict[str, Option] = {"keep": self.keep, "real": self.real, "prior": self.prior, **sdc_option(self.sdc)}
        return plan_draws(schema, request, method=self.name, options=options, notes=(WARNING, *sdc_notes(self.sdc)))

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:  # noqa: ARG002
        return draw_copies(
            plan,
            schema,
            gate,
            self._mechanism(plan.rows),
            rows_drawn="kept values are real, the others drawn among the people who share them (each copy anew)",
            warning=WARNING,
            sdc=self.sdc,
        )
