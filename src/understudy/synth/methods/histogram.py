"""The noisy full cross-tabulation (Raab's catall, Abowd and Vilhuber's Laplace synthesizer), done well.

Every possible cell gets geometric or discrete Gaussian noise. Rows are drawn from the nearest table of counts. This is
the best method for small cross-tabulations. A large sparse one has more noise than people: use a margin-based method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.exact_numbers import read_exact
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.models.nearest_table import nearest_table
from understudy.models.sample import DESCRIPTIONS, ROWS_BY, draw_cells
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.measurement_steps import measure_step, query_of
from understudy.privacy.mechanisms.plain_multinomial import PlainMultinomial
from understudy.privacy.promise.calibrate import noise_for
from understudy.privacy.promise.definition import NonPrivate
from understudy.privacy.promise.event import NoNoise
from understudy.privacy.promise.plan import Option, Plan, Step
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.synth.shared.bounded_tables import BoundedNoise
from understudy.synth.shared.margin_methods import public_records
from understudy.synth.shared.method import (
    MAX_ROWS,
    Request,
    Synthesis,
    check_request,
    count_text,
    planned,
    synthesizers,
)
from understudy.synth.shared.required_tables import named_needs
from understudy.synth.shared.whole_table_draws import check_sdc, controlled, sdc_notes, sdc_option

MAX_CELLS = 10_000_000
TOTAL_SHARE = Fraction(1, 50)
POSTPROCESS = ("nearest", "published")
PRIOR = "1"  # synthpop's default (Raab 2022, footnote 17)
TABLE, TOTAL = "full cross-tabulation", "number of rows"


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Noise on the full cross-tabulation.

    Raises
    ------
    UnknownNameError
        If a value is none of those that an option offers.
    InputError
        If an option is not what it should be, or options do not go together.
    """

    name: ClassVar[str] = "histogram"
    summary: ClassVar[str] = "noise on every cell of the full cross-tabulation; best for small crosses"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp", "none")
    inference: ClassVar[str] = "valid"

    rows_by: str | None = None
    """How synthetic rows are drawn from the table: ``rounding`` (low variance; the default) or ``multinomial``
    (independent rows)."""
    postprocess: str = "nearest"
    """``nearest`` takes the nearest table of counts that are not negative. ``published`` does what Raab (2022)
    published: negative counts become zero, counts are scaled to shares, and a constant number of independent rows is
    drawn."""
    prior: str = PRIOR
    """Prior strength in records, spread over all possible cells. Used with ``postprocess = published`` and without a
    guarantee only."""
    noise: str = ""
    """Another noise than the usual one: ``trimmed`` (Gaussian noise that stays within ``bound``; needs a delta) or
    ``exponential`` (counts that are not negative; needs a pure epsilon and a public number of rows). Neither is more
    accurate; see docs/theory/bounded-noise.md."""
    bound: int = 0
    """With ``noise = trimmed``: how many people a noisy count may be off at most."""
    sdc: str = ""
    """``uniques`` removes rows that repeat a person who is unique in the data. Used without a guarantee only, and no
    guarantee either."""
    must: str = ""
    """What must be answerable, one item per line: questions such as ``crosstab(sex, age)``, formulas,
    ``predict(income)``. This method holds every table; the plan says how wide each answer will be."""

    def __post_init__(self) -> None:
        check_sdc(self.sdc)
        if self.rows_by is not None and self.rows_by not in ROWS_BY:
            raise unknown_name("rows_by", self.rows_by, ROWS_BY)
        if self.postprocess not in POSTPROCESS:
            raise unknown_name("postprocess", self.postprocess, POSTPROCESS)
        if self._bounded and self.postprocess == "published":
            raise InputError("postprocess = published has noise of its own; leave noise out.")
        if self.postprocess == "published" and self.rows_by == "rounding":
            raise InputError("postprocess = published means multinomial rows; leave rows_by out.")
        if read_exact(self.prior, "prior") < 0:
            raise InputError(f"prior ({self.prior}) must not be negative.")

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        cells = schema.cells()
        if cells > MAX_CELLS:
            raise UnsupportedError(
                f"the full cross-tabulation has {count_text(cells)} cells; histogram takes at most {MAX_CELLS:,}. Use "
                "a margin-based method, drop attributes ([[ignore]]), or use wider bins."
            )
        self._bounded.check(request.budget, request.unit)
        possible = int(schema.allowed().sum())
        if self.postprocess == "published" and request.rows is None and not request.unit.public_total:
            raise InputError(
                "the published method draws a constant number of rows; under add_remove say how many (rows)."
            )
        if isinstance(request.budget, NonPrivate):
            steps, notes = self._plain_steps(schema, request, cells)
        else:
            steps, notes = self._noisy_steps(schema, request, possible)
        options: dict[str, Option] = {"prior": self.prior, **sdc_option(self.sdc)}
        if self.sdc and not isinstance(request.budget, NonPrivate):
            raise InputError("sdc is for releases without a guarantee: what it removes depends on the data.")
        if not isinstance(request.budget, NonPrivate):
            options = {"rows_by": self._rows_by, **self._bounded.options}
            if self.postprocess != "published" and self.prior != PRIOR:
                raise InputError(f"prior ({self.prior}) belongs to postprocess = published; leave it out.")
            if self.postprocess == "published":
                options |= {"postprocess": self.postprocess, "prior": self.prior}
        options |= named_needs(schema, self.must)
        return planned(
            schema,
            request,
            method=self.name,
            steps=steps,
            options=options,
            notes=notes,
        )

    @property
    def _bounded(self) -> BoundedNoise:
        return BoundedNoise(noise=self.noise, bound=self.bound)

    @property
    def _rows_by(self) -> str:
        return self.rows_by or ("multinomial" if self.postprocess == "published" else "rounding")

    def _plain_steps(self, schema: Schema, request: Request, cells: int) -> tuple[tuple[Step, ...], tuple[str, ...]]:
        if request.rows is None and not request.unit.public_total:
            raise InputError("without a guarantee and under add_remove, say how many rows to draw (rows).")
        steps = tuple(
            Step(label=f"copy {copy}", margin=schema.names, action="draw", event=NoNoise(), cells=cells)
            for copy in range(1, request.copies + 1)
        )
        return steps, (
            "NO GUARANTEE: every copy is drawn from the confidential table itself.",
            *sdc_notes(self.sdc),
        )

    def _noisy_steps(self, schema: Schema, request: Request, possible: int) -> tuple[tuple[Step, ...], tuple[str, ...]]:
        unit = request.unit
        table = margin_sensitivity(schema, schema.names, unit)
        if table.l1 == 0:
            raise UnsupportedError(
                "everything in this schema is fixed or constant under this unit; nothing is left to protect."
            )
        if self._bounded:
            (bounded,) = self._bounded.noises(request.budget, [table], [Fraction(1)], [possible])
            step = measure_step(label=TABLE, margin=schema.names, noise=bounded, sensitivity=table, cells=possible)
            return (step,), self._bounded.notes
        if unit.public_total and possible == 2:
            # With a public total one number gives both cells, and one person changes it by half as much.
            sensitivity = margin_sensitivity(schema, schema.names, unit, "first")
            (noise,) = noise_for(request.budget, [sensitivity])
            return (measure_step(label=TABLE, margin=schema.names, noise=noise, sensitivity=sensitivity, cells=1),), (
                "Two cells with a public total: one is measured.",
            )
        (whole,) = noise_for(request.budget, [table])
        if unit.public_total or self.postprocess == "published":
            return (measure_step(label=TABLE, margin=schema.names, noise=whole, sensitivity=table, cells=possible),), ()
        # The sum of the noisy cells estimates the number of rows. With many cells a total measured by itself is better.
        total = margin_sensitivity(schema, (), unit)
        apart = noise_for(request.budget, [table, total], shares=[1 - TOTAL_SHARE, TOTAL_SHARE], cells=[possible, 1])
        if apart[1].variance >= whole.variance * possible:
            return (measure_step(label=TABLE, margin=schema.names, noise=whole, sensitivity=table, cells=possible),), (
                "The number of rows is estimated by the sum of the noisy cells.",
            )
        return (
            measure_step(label=TABLE, margin=schema.names, noise=apart[0], sensitivity=table, cells=possible),
            measure_step(label=TOTAL, margin=(), noise=apart[1], sensitivity=total, cells=1),
        ), (f"The number of rows is measured with a share of {TOTAL_SHARE} of the budget.",)

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        if isinstance(plan.budget, NonPrivate):
            return self._run_plain(plan, schema, gate)
        if self._bounded:
            measured = gate.measure([self._bounded.query(step, schema, plan.unit) for step in plan.steps])
            return self.redraw(plan, schema, measured, public_records(plan, gate), stream)
        first = int(schema.allowed().sum()) == 2 and plan.unit.public_total
        measured = gate.measure([query_of(step, "first" if first else "all") for step in plan.steps])
        return self.redraw(plan, schema, measured, public_records(plan, gate), stream)

    def redraw(
        self, plan: Plan, schema: Schema, measured: Sequence[Measurement], records: int | None, stream: Stream
    ) -> Synthesis:
        """Tables from the measurements. This is post-processing: it may be repeated, and costs no privacy."""
        if not measured:
            raise UnsupportedError(
                "this release was drawn from the data themselves; nothing was measured to draw from."
            )
        table, total = self._fit(schema, measured, records)
        notes: tuple[str, ...] = ()
        rows = plan.rows if plan.rows is not None else min(max(round(total), 0), MAX_ROWS)
        if not table.any():
            table = schema.allowed().astype(np.float64)
            notes = ("The noisy table has no positive part; rows are spread evenly over the possible cells.",)
        copies = tuple(
            CodedTable.from_cells(schema, draw_cells(table, rows, self._rows_by, stream, "rows", copy))
            for copy in range(1, plan.copies + 1)
        )
        return Synthesis(
            tables=copies,
            measurements=tuple(measured),
            rows_drawn=DESCRIPTIONS[self._rows_by],
            copies_share_measurements=True,
            notes=notes,
        )

    def _fit(
        self, schema: Schema, measured: Sequence[Measurement], records: int | None
    ) -> tuple[NDArray[np.float64], float]:
        """The nearest table of counts and its total, from noisy and public values only."""
        allowed = schema.allowed()
        if measured[0].cells == "first" and records is not None:
            one = min(max(int(measured[0].values), 0), records)
            table = np.zeros(allowed.shape)
            table[allowed] = (one, records - one)
            return table, records
        noisy = measured[0].values
        if self.postprocess == "published":
            raised = noisy + float(read_exact(self.prior, "prior")) / int(allowed.sum())
            return np.where(allowed, np.maximum(raised, 0.0), 0.0), float(records or 0)
        if records is not None:
            total = float(records)
        else:
            total = float(measured[1].values) if len(measured) == 2 else float(noisy.sum())
        return nearest_table(noisy, total, allowed), total

    def _run_plain(self, plan: Plan, schema: Schema, gate: Gate) -> Synthesis:
        rows = plan.rows if plan.rows is not None else gate.records
        mechanism = PlainMultinomial(prior=self.prior, rows=rows)
        draws = tuple(
            gate.draw([controlled(mechanism, self.sdc)], margin=schema.names, label=step.label, copy=copy)
            for copy, step in enumerate(plan.steps, start=1)
        )
        tables = tuple(CodedTable.from_cells(schema, np.repeat(draw.cells, draw.counts)) for draw in draws)
        return Synthesis(
            tables=tables, draws=draws, rows_drawn=DESCRIPTIONS["multinomial"], warnings=sdc_notes(self.sdc)
        )
