"""Noise on Fourier coefficients of margins (Barak, Chaudhuri, Dwork, Kale, McSherry and Talwar 2007).

Tables share their coefficients, so that noisy tables made from them never contradict one another, and few coefficients
stand for all tables if attributes have two levels. The published method finds a table of counts by a linear program
over all cells; here the tables go to the joint fit of the other methods, so that a comparison is one of what was
measured. With more than two levels there are far more coefficients than the noise can pay for: see
docs/theory/fourier.md for when it wins and when it loses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.core.walsh import CONTRASTS, bits_of, contrasts, masks_of, parts_of, table_of
from understudy.errors import UnsupportedError, unknown_name
from understudy.models.sample import ROWS_BY
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.measurement_steps import measure_step, query_of
from understudy.privacy.mechanisms.noise import DiscreteGaussian
from understudy.privacy.promise.calibrate import noise_for
from understudy.privacy.promise.definition import PureDP
from understudy.privacy.promise.plan import Plan, Step
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.synth.shared.margin_methods import (
    TOTAL,
    Margin,
    check_margin_sizes,
    check_model_size,
    known_margins,
    margin_label,
    public_records,
    read_margins,
    shares_by_cells,
    synthesis_from,
)
from understudy.synth.shared.method import Request, Synthesis, check_request, planned, synthesizers
from understudy.synth.shared.required_tables import LABEL, Musts, is_required

LEAST_DEVIATION = 1e-3  # of a cell, for the fit: a table that is known exactly has no noise
MOST_COEFFICIENTS = 2_000_000
MODEL_CELLS = 20_000_000  # the largest model in which rows follow required tables beside the margins


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Fourier:
    """Noise of one size on every Fourier coefficient of the margins, and the joint fit of the tables they give.

    Raises
    ------
    UnknownNameError
        If a value is none of those that an option offers.
    """

    name: ClassVar[str] = "fourier"
    summary: ClassVar[str] = "noise on Fourier coefficients of margins; for attributes of two levels"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp")
    inference: ClassVar[str] = "valid"  # of the tables that `must` names: coefficients are not read

    margins: str = "2"
    """Which tables are wanted: a number of ways (``2``: all pairs) or a list (``sex+age, age+income``)."""
    rows_by: str = "rounding"
    """How synthetic rows are drawn from the model: ``rounding`` (low variance; the default) or ``multinomial``
    (independent rows)."""
    must: str = ""
    """What must be answerable, one item per line: questions such as ``crosstab(sex, age)``, formulas,
    ``predict(income)``. ``infer`` answers from the tables that this needs, and from nothing else."""
    must_share: str | None = None
    """The share of the budget that is set aside for the tables that this needs: by default 0.5, and 0.7 where the
    schema has a survey weight."""

    def __post_init__(self) -> None:
        self._musts  # noqa: B018 - checks the options
        if self.rows_by not in ROWS_BY:
            raise unknown_name("rows_by", self.rows_by, ROWS_BY)

    @property
    def _musts(self) -> Musts:
        return Musts(must=self.must, must_share=self.must_share)

    def _parts(self, schema: Schema) -> tuple[list[Margin], list[Margin]]:
        """The margins wanted, and those whose coefficients they need; an attribute of one level has none."""
        wanted = read_margins(schema, self.margins)
        needed = dict.fromkeys(part for margin in wanted for part in parts_of(margin) if part)
        return wanted, [part for part in needed if all(schema[name].size > 1 for name in part)]

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        wanted, needed = self._parts(schema)
        check_margin_sizes(schema, wanted)
        check_model_size(schema, wanted, [schema.margin(request.unit.fixed)])
        counts = {part: math.prod(masks_of(schema[name].size) for name in part) for part in needed}
        if sum(counts.values()) > MOST_COEFFICIENTS:
            raise UnsupportedError(
                f"these margins have {sum(counts.values()):,} Fourier coefficients; at most {MOST_COEFFICIENTS:,} are "
                "measured. Use ipf, or a method that chooses margins (one_look, aim)."
            )
        unit, pure = request.unit, isinstance(request.budget, PureDP)
        moved = {part: margin_sensitivity(schema, part, unit, CONTRASTS) for part in needed}
        moved = {part: one for part, one in moved.items() if one.l1}
        if not unit.public_total:
            moved[()], counts[()] = margin_sensitivity(schema, (), unit), 1
        if not moved:
            raise UnsupportedError("no unit can change any of these margins; nothing is left to protect.")
        # Shares by which every coefficient has noise of one size.
        weights = [Fraction(one.l1 if pure else one.l2_squared) for one in moved.values()]
        required = self._musts.read(schema, unit)
        shares = [(1 - required.share) * weight / sum(weights) for weight in weights]
        if required:
            power = Fraction(1, 3) if pure else Fraction(1, 2)
            shares += [required.share * part for part in shares_by_cells(schema, required.tables, power)]
        margins = [*moved, *required.tables]
        sensitivities = [*moved.values(), *(margin_sensitivity(schema, table, unit) for table in required.tables)]
        cells = [*(counts[part] for part in moved), *(int(schema.allowed(one).sum()) for one in required.tables)]
        noises = noise_for(request.budget, sensitivities, shares=shares, cells=cells)
        labels = [margin_label(part) or TOTAL for part in moved]
        labels += [f"{LABEL}{margin_label(table)}" for table in required.tables]
        steps = tuple(
            measure_step(label=label, margin=margin, noise=noise, sensitivity=sensitivity, cells=count)
            for label, margin, noise, sensitivity, count in zip(
                labels, margins, noises, sensitivities, cells, strict=True
            )
        )
        said = f"{sum(counts[part] for part in moved):,} Fourier coefficients are measured, for {len(wanted)} table(s)."
        return planned(
            schema,
            request,
            method=self.name,
            steps=steps,
            options={"margins": self.margins, "rows_by": self.rows_by, **self._musts.options(required)},
            notes=(said,),
        )

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        measured = gate.measure([query_of(step, _asked(step)) for step in plan.steps])
        records = public_records(plan, gate)
        wanted, needed = self._parts(schema)
        own = [one for one in measured if not is_required(one)]
        values: dict[Margin, Floats] = {one.margin: one.values.astype(np.float64) for one in own}
        noise = {one.margin: float(one.mechanism.variance) for one in own}
        for part in needed:
            if part not in values:  # no unit can move it
                values[part] = contrasts(gate.public(part)).astype(np.float64)
        total = float(values[()]) if records is None else float(records)
        values[()] = np.asarray(max(total, 0.0))
        tables = [*_tables(schema, wanted, values, noise), *(one for one in measured if is_required(one))]
        required = self._musts.read(schema, plan.unit)
        made, _ = synthesis_from(
            plan, schema, required.in_model(tables, MODEL_CELLS, [schema.margin(plan.unit.fixed)]),
            total=max(total, 0.0), rows_by=self.rows_by, stream=stream, known=known_margins(schema, gate, plan.unit),
        )  # fmt: skip
        return replace(made, measurements=tuple(measured))


def _asked(step: Step) -> str:
    """What a step measures: coefficients, but for the number of rows and for tables that must be answerable."""
    return CONTRASTS if step.margin and not step.label.startswith(LABEL) else "all"


def _tables(
    schema: Schema, wanted: Sequence[Margin], values: Mapping[Margin, Floats], noise: Mapping[Margin, float]
) -> list[Measurement]:
    """The tables that noisy coefficients give, as the fit takes them: with normal noise of the same variance a cell.

    Noise of cells that share coefficients is dependent, which the fit does not know.
    """
    sizes = dict(zip(schema.names, schema.shape(), strict=True))
    tables = []
    for margin in wanted:
        allowed = schema.allowed(margin)
        table = np.where(allowed, np.rint(table_of(margin, sizes, values)), 0).astype(np.int64)
        spread = sum(
            noise.get(part, 0.0) * math.prod(masks_of(sizes[name]) for name in part) for part in parts_of(margin)
        )
        deviation = math.sqrt(spread) / 2 ** sum(bits_of(sizes[name]) for name in margin)
        mechanism = DiscreteGaussian(scale=max(deviation, LEAST_DEVIATION))
        tables.append(Measurement(margin=margin, values=table, mechanism=mechanism, label=margin_label(margin)))
    return tables
