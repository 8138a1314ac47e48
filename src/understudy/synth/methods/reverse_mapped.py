"""The reverse-mapped release of Ruiz, Muralidhar and Domingo-Ferrer (2018): original margins, and no guarantee.

The paper proposes to release a synthetic table whose values are replaced by the original values of the same rank. It is
offered so that it can be compared with, and without any guarantee, because it has none: each margin is that of the
confidential data, extremes and rare levels included (docs/decisions/0008-reverse-mapped-release.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.core.exact_numbers import read_exact
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InputError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.mechanisms.reverse_draw import ReverseMappedDraw
from understudy.privacy.promise.plan import Plan
from understudy.synth.shared.method import Request, Synthesis, check_request, synthesizers
from understudy.synth.shared.whole_table_draws import (
    check_sdc,
    draw_copies,
    plan_draws,
    require_rows,
    sdc_notes,
    sdc_option,
)

PRIOR = "1"  # synthpop's default (Raab 2022, footnote 17), as in the histogram without a guarantee
WARNING = (
    "NO GUARANTEE: reverse-mapped. Every one-way margin is that of the confidential data exactly, in the levels and "
    "bins of the schema, rare levels and extremes included; for comparison inside the building."
)
REPAIRED = "Where the mapping broke a structural zero, values were exchanged between rows; no margin was changed by it."
SCALED = "The number of rows was set: the margins are those of a systematic sample of the records, not of all records."


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseMapped:
    """Rows drawn from the full cross-tabulation, every value replaced by the original value of the same rank.

    Levels are ranked in the order of the schema, missing and special codes last.

    Raises
    ------
    InputError
        If an option is not what it should be, or options do not go together.
    """

    name: ClassVar[str] = "reverse_mapped"
    summary: ClassVar[str] = "restores every one-way margin exactly; without a guarantee, to compare with"
    guarantees: ClassVar[tuple[str, ...]] = ("none",)
    inference: ClassVar[str] = "refused"

    prior: str = PRIOR
    """Prior strength in records, spread over all possible cells before rows are drawn."""
    sdc: str = ""
    """``uniques`` removes rows that repeat a person who is unique in the data. It is no guarantee."""

    def __post_init__(self) -> None:
        check_sdc(self.sdc)
        if read_exact(self.prior, "prior") < 0:
            raise InputError(f"prior ({self.prior}) must not be negative.")

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        require_rows(request)
        notes = (WARNING, *sdc_notes(self.sdc), *((REPAIRED,) if schema.zeros else ()))
        return plan_draws(
            schema, request, method=self.name, options={"prior": self.prior, **sdc_option(self.sdc)}, notes=notes
        )

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:  # noqa: ARG002
        rows = plan.rows if plan.rows is not None else gate.records
        mechanism = ReverseMappedDraw(prior=self.prior, rows=rows)
        return draw_copies(
            plan,
            schema,
            gate,
            mechanism,
            rows_drawn="drawn from the data and mapped to their margins (each copy a fresh draw)",
            warning=WARNING,
            sdc=self.sdc,
            notes=(SCALED,) if plan.rows is not None else (),
        )
