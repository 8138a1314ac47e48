"""One-way margins only: the baseline every other method has to beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.plan import Plan
from understudy.synth.methods.ipf import Ipf
from understudy.synth.shared.choosing_method import FittedMethod
from understudy.synth.shared.margin_methods import drawn_option, rows_law
from understudy.synth.shared.method import Request, Synthesis, renamed, synthesizers


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Independent(FittedMethod):
    """Noisy one-way margins and no dependence beyond structural zeros: what ``ipf`` does with ``margins = 1``."""

    name: ClassVar[str] = "independent"
    summary: ClassVar[str] = "one-way margins only, attributes independent; a baseline"
    guarantees: ClassVar[tuple[str, ...]] = Ipf.guarantees
    inference: ClassVar[str] = "valid"

    def __post_init__(self) -> None:
        self._ipf()  # checks the options

    def _ipf(self) -> Ipf:
        return Ipf(
            margins="1", rows_by=self.rows_by, strata=self.strata, draws=self.draws, must=self.must,
            must_share=self.must_share, must_rows=self.must_rows,
        )  # fmt: skip

    def plan(self, schema: Schema, request: Request) -> Plan:
        rows_by = rows_law(self.draws, self.rows_by)
        plan = self._ipf().plan(schema, request)
        musts = {name: value for name, value in plan.options.items() if name.startswith("must")}
        options = {"rows_by": rows_by, "strata": self.strata, **drawn_option(self.draws), **musts}
        return renamed(plan, self.name, options)

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        return self._ipf().run(plan, schema, gate, stream)

    def redraw(
        self, plan: Plan, schema: Schema, measured: Sequence[Measurement], records: int | None, stream: Stream
    ) -> Synthesis:
        """Tables from the measurements. This is post-processing: it may be repeated, and costs no privacy."""
        return self._ipf().redraw(plan, schema, measured, records, stream)
