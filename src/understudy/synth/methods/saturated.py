"""Saturated count models (Jackson, Mitra, Francis and Dove 2022): Raab's catall with counts that are more spread out.

It has no guarantee. It is offered because agencies use it, and to compare what over-dispersed counts hide
with what a guarantee hides. The law is in ``privacy/mechanisms/saturated_draw.py``.
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
from understudy.privacy.mechanisms.saturated_draw import SaturatedDraw
from understudy.privacy.promise.event import NoNoise
from understudy.privacy.promise.plan import Option, Plan, Step
from understudy.synth.shared.method import Request, Synthesis, check_request, planned, synthesizers

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

    def __post_init__(self) -> None:
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
        if not self.random_rows and request.rows is None and not request.unit.public_total:
            raise InputError("without a guarantee and under add_remove, say how many rows to draw (rows).")
        self._mechanism().check_size(schema.cells())
        possible = Domain(schema=schema, margin=schema.names).possible
        steps = tuple(
            Step(label=f"copy {copy}", margin=schema.names, action="draw", event=NoNoise(), cells=possible)
            for copy in range(1, request.copies + 1)
        )
        options: dict[str, Option] = {
            "law": self.law, "sigma": self.sigma, "alpha": self.alpha, "random_rows": self.random_rows,
        }  # fmt: skip
        return planned(schema, request, method=self.name, steps=steps, options=options, notes=(WARNING,))

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:  # noqa: ARG002
        rows = plan.rows
        if rows is None and not self.random_rows:
            rows = gate.records
        mechanism = self._mechanism(rows)
        draws = tuple(
            gate.draw([mechanism], margin=schema.names, label=step.label, copy=copy)
            for copy, step in enumerate(plan.steps, start=1)
        )
        tables = tuple(CodedTable.from_cells(schema, np.repeat(draw.cells, draw.counts)) for draw in draws)
        return Synthesis(
            tables=tables,
            draws=draws,
            rows_drawn="a random count for each cell of the table (each copy a fresh draw)",
            warnings=(WARNING,),
        )
