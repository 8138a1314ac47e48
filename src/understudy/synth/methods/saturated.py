"""Saturated count models (Jackson, Mitra, Francis and Dove 2022): Raab's catall with counts that are more spread out.

It has no guarantee. It is offered because agencies use it, and to compare what over-dispersed counts hide
with what a guarantee hides. The law is in ``privacy/mechanisms/saturated_draw.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InputError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.mechanisms.saturated_draw import SaturatedDraw
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
    "NO GUARANTEE: every cell of the confidential table is drawn around its own count, so rows of real people come "
    "out; for comparison inside the building."
)


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Saturated:
    """Every cell of the full cross-tabulation gets a count of its own, around the confidential one.

    Raises
    ------
    UnknownNameError
        If the law is none of those that are offered.
    InputError
        If an option is not what it should be, or options do not go together.
    """

    name: ClassVar[str] = "saturated"
    summary: ClassVar[str] = "a random count for each cell around its own; without a guarantee, to compare with"
    guarantees: ClassVar[tuple[str, ...]] = ("none",)
    inference: ClassVar[str] = "refused"

    law: str = "poisson"
    """The law of a count with mean m: ``poisson`` (variance m), ``negative_binomial`` or ``inverse_gaussian`` (the
    Poisson-inverse-Gaussian; both have variance m + sigma m²)."""
    sigma: float = 0.0
    """The over-dispersion: the variance of a count is m + sigma m². Used with the other two laws only."""
    alpha: float = 0.0
    """Records added to every possible cell; with 0 an empty cell stays empty."""
    random_rows: bool = False
    """Whether the number of rows is the sum of the random counts, as in Jackson et al. Otherwise as many rows as
    there are records, or as are asked for, are drawn from the table of random counts."""
    sdc: str = ""
    """``uniques`` removes rows that repeat a person who is unique in the data. It is no guarantee."""

    def __post_init__(self) -> None:
        check_sdc(self.sdc)
        self._mechanism()  # which checks the options
        if (self.law == "poisson") != (self.sigma == 0):
            raise InputError(
                f"sigma ({self.sigma:g}) must be above 0 with the laws negative_binomial and inverse_gaussian, and is "
                "left out with poisson."
            )

    def _mechanism(self, rows: int | None = None) -> SaturatedDraw:
        return SaturatedDraw(law=self.law, sigma=self.sigma, alpha=self.alpha, rows=rows)

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        if self.random_rows and request.rows is not None:
            raise InputError("with random_rows the number of rows is random; leave rows out.")
        if not self.random_rows:
            require_rows(request)
        self._mechanism().check_size(schema.cells())
        options: dict[str, Option] = {
            "law": self.law, "sigma": self.sigma, "alpha": self.alpha, "random_rows": self.random_rows,
            **sdc_option(self.sdc),
        }  # fmt: skip
        return plan_draws(schema, request, method=self.name, options=options, notes=(WARNING, *sdc_notes(self.sdc)))

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:  # noqa: ARG002
        rows = plan.rows
        if rows is None and not self.random_rows:
            rows = gate.records
        mechanism = self._mechanism(rows)
        return draw_copies(
            plan,
            schema,
            gate,
            mechanism,
            rows_drawn="a random count for each cell of the table (each copy a fresh draw)",
            warning=WARNING,
            sdc=self.sdc,
        )
