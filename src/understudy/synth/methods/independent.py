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
from understudy.synth.shared.margins import drawn_option, rows_law
from understudy.synth.shared.method import Request, Synthesis, renamed, synthesizers
from understudy.synth.shared.required import SHARE


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Independent:
    """Noisy one-way margins and no dependence beyond structural zeros: what ``ipf`` does with ``margins = 1``."""

    name: ClassVar[str] = "independent"
    summary: ClassVar[str] = "one-way margins only, attributes independent; a baseline"
    guarantees: ClassVar[tuple[str, ...]] = Ipf.guarantees
    inference: ClassVar[str] = "valid"

    rows_by: str | None = None
    """How synthetic rows are drawn from the model: ``rounding`` (low variance; the default) or ``multinomial``
    (independent rows; the default of ``draws = posterior``)."""
    strata: str = ""
    """Attributes whose combinations get a model each, for example ``region`` or ``region+sex``; empty: one model for
    all rows."""
    draws: str = "fit"
    """How copies differ: ``fit`` (all are drawn from one fitted model) or ``posterior`` (each is drawn from its own
    draw of the noise-aware posterior, so that the combining rule ``T_f*`` reads them; needs two copies or more)."""
    must: str = ""
    """What must be answerable, one thing on a line: questions such as ``crosstab(sex, age)``, formulas,
    ``predict(income)``. It comes on top of what the schema asks for."""
    must_share: str = SHARE
    """The share of the budget that is set aside for the tables this takes."""
    must_rows: bool = True
    """Whether rows follow these tables too, as far as a model holds them; ``false``: they are for ``infer`` alone,
    unless the method chooses them as well."""

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
