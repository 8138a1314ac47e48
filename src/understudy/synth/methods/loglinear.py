"""Rows from the posterior predictive of a log-linear model (Charest 2010, Section 5.1).

Charest asks for synthetic contingency tables from the posterior predictive distribution of a log-linear model: main
effects with a random effect for every cell (Skinner and Holmes 1998), or main effects and interactions, with a prior
that is perturbed until the draw is private. A perturbed prior alone protects small tables only, and at a high price
(docs/theory/loglinear.md has the exact law). Here the sufficient statistics of the model pass the gate with noise, and
the posterior is that given the noisy statistics, with the law of the noise in the likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.core.exact_numbers import read_exact
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.models.fit import Known, fit
from understudy.models.junction_tree import Margin
from understudy.models.model import Model
from understudy.models.posterior import StreamSource, posterior_models
from understudy.models.random_effects import SHAPES, NoisyCells, draw_rates, mean_rates, rake, shape_weights
from understudy.models.sample import DESCRIPTIONS, draw_cells
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.promise.plan import Option, Plan, Step
from understudy.synth.shared.margin_methods import (
    check_copies,
    check_margin_sizes,
    check_model_size,
    check_rows,
    fitted_model,
    known_margins,
    measure_steps,
    public_records,
    read_margins,
    rows_law,
    total_of,
)
from understudy.synth.shared.method import (
    MAX_ROWS,
    Request,
    Synthesis,
    check_request,
    count_text,
    planned,
    synthesizers,
)
from understudy.synth.shared.required_tables import LABEL, SHARE, Musts, Required, is_required, named_needs

EFFECTS = {"main": "1", "pairs": "2"}
MOST_CELLS = 200_000  # of a full table whose cells get an effect each
MODEL_CELLS = 1_000_000  # the largest model in which rows follow required tables beside the margins


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Loglinear:
    """Noisy sufficient statistics of a log-linear model, and every copy from a draw of its own of the posterior.

    Raises
    ------
    UnknownNameError
        If a value is none of those that an option offers.
    InputError
        If an option is not what it should be.
    """

    name: ClassVar[str] = "loglinear"
    summary: ClassVar[str] = "posterior predictive of a log-linear model, with an effect for every cell; small crosses"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp")
    inference: ClassVar[str] = "valid"

    effects: str = "main"
    """The effects of the model: ``main`` (attributes by themselves; the default) or ``pairs`` (all two-way effects)."""
    cells_share: str = "0.5"
    """The share of the budget for the cells of the full table, from which a random effect is learned for each of them:
    what the effects of the model leave out. ``0``: no random effect."""
    rows_by: str | None = None
    """How synthetic rows are drawn: ``rounding`` (low variance; the default) or ``multinomial`` (independent rows; the
    default of ``draws = posterior``)."""
    draws: str = "fit"
    """How copies differ: ``fit`` (all are drawn from one fitted model; the default) or ``posterior`` (each is drawn
    from its own draw of the posterior; needs two copies or more). Without a random effect the combining rule ``T_f*``
    reads such copies."""
    must: str = ""
    """What must be answerable, one item per line: questions such as ``crosstab(sex, age)``, formulas,
    ``predict(income)``. It is added to what the schema asks for."""
    must_share: str = SHARE
    """The share of the budget that is set aside for the tables that this needs. With a random effect nothing is set
    aside: the full table holds every question."""

    def __post_init__(self) -> None:
        self._musts  # noqa: B018 - checks the options
        check_rows(self.draws, self.rows_by)
        if self.effects not in EFFECTS:
            raise unknown_name("effects", self.effects, EFFECTS)
        if not 0 <= self._cells_share < 1:
            raise InputError(f"cells_share ({self.cells_share}) must be at least 0 and below 1, such as 0.5.")

    @property
    def _musts(self) -> Musts:
        return Musts(must=self.must, must_share=self.must_share)

    @property
    def _cells_share(self) -> Fraction:
        return read_exact(self.cells_share, "cells_share")

    def _margins(self, schema: Schema) -> list[Margin]:
        return read_margins(schema, EFFECTS[self.effects])

    def _has_random_effect(self, schema: Schema) -> bool:
        """A model that has the full table already has nothing left out."""
        return bool(self._cells_share) and schema.names not in self._margins(schema)

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        margins = self._margins(schema)
        check_margin_sizes(schema, margins)
        check_model_size(schema, margins, [schema.margin(request.unit.fixed)])
        random = self._has_random_effect(schema)
        if random and schema.cells() > MOST_CELLS:
            raise UnsupportedError(
                f"the full table has {count_text(schema.cells())} cells; at most {MOST_CELLS:,} get an effect each. "
                "Leave cells_share out, drop attributes ([[ignore]]), or use wider bins."
            )
        required = Required(schema=schema) if random else self._musts.read(schema, request.unit)
        check_copies(self.draws, request.copies)
        options: dict[str, Option] = {"effects": self.effects, "cells_share": self.cells_share}
        options["rows_by"] = rows_law(self.draws, self.rows_by)
        options |= named_needs(schema, self.must) if random else self._musts.options(required)
        if self.draws == "posterior":
            options["draws"] = self.draws  # what reads the copies is told how they were made
        return planned(
            schema,
            request,
            method=self.name,
            steps=self._steps(schema, margins, request, required, random=random),
            options=options,
            notes=("A random effect is learned for every cell of the full table.",) if random else (),
        )

    def _steps(
        self, schema: Schema, margins: Sequence[Margin], request: Request, required: Required, *, random: bool
    ) -> tuple[Step, ...]:
        """The statistics of the model, and beside them the full table or the required tables."""
        if random:
            aside, share = [schema.names], self._cells_share
        else:
            aside, share = list(required.tables), required.share
        more = [table for table in aside if table not in margins]
        steps = measure_steps(
            schema, [*margins, *more], request.unit, request.budget, "optimal", required=aside, set_aside=share,
            extra=more,
        )  # fmt: skip
        if random:
            return steps
        return tuple(replace(one, label=f"{LABEL}{one.label}") if one.margin in more else one for one in steps)

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        measured = gate.measure([query_of(step) for step in plan.steps])
        known = known_margins(schema, gate, plan.unit)
        return self._rows(plan, schema, measured, public_records(plan, gate), stream, known)

    def redraw(
        self, plan: Plan, schema: Schema, measured: Sequence[Measurement], records: int | None, stream: Stream
    ) -> Synthesis:
        """Tables from the measurements. This is post-processing: it may be repeated, and costs no privacy."""
        return self._rows(plan, schema, measured, records, stream, {})

    def _rows(  # noqa: PLR0917 - what was planned, what was measured, what is public
        self, plan: Plan, schema: Schema, measured: Sequence[Measurement], records: int | None, stream: Stream,
        known: Known,
    ) -> Synthesis:  # fmt: skip
        total = total_of(schema, records, measured)
        random, law = self._has_random_effect(schema), rows_law(self.draws, self.rows_by)
        cells = [one for one in measured if one.margin == schema.names] if random else []
        own = [one for one in measured if one not in cells and not is_required(one)]
        modelled = own
        if not random:
            required = self._musts.read(schema, plan.unit)
            modelled = required.in_model(measured, MODEL_CELLS, [schema.margin(plan.unit.fixed)])
        model, report = fit(schema, modelled, total=max(total, 1.0), stream=stream, known=known)
        rows = plan.rows if plan.rows is not None else min(max(round(total), 0), MAX_ROWS)
        models, told = [model] * plan.copies, "Copies are drawn from one fitted model."
        if self.draws == "posterior":
            models, told = posterior_models(
                schema, modelled, total=max(total, 1.0), public_total=plan.unit.public_total, copies=plan.copies,
                stream=stream, known=known, prior=report.prior, fitted=model,
            )  # fmt: skip
        if cells:
            tables, more = self._with_effects(schema, models, model, cells[0], rows, stream)
            told = f"{told} {more}"
        else:
            tables = [one.draw(schema, rows, law, stream, "rows", copy) for copy, one in enumerate(models, start=1)]
        return Synthesis(
            tables=tuple(tables),
            measurements=tuple(measured),
            rows_drawn=DESCRIPTIONS[law],
            copies_share_measurements=True,
            notes=(told, *report.notes),
            warnings=report.warnings,
            fitted=None if cells or self.draws == "posterior" else fitted_model(model, law),
        )

    def _with_effects(  # noqa: PLR0917 - models, cells, and how rows are drawn
        self, schema: Schema, models: Sequence[Model], fitted: Model, cells: Measurement, rows: int, stream: Stream
    ) -> tuple[list[CodedTable], str]:
        """A table for each copy: rates of the model times the effects of the cells, with the model's margins."""
        possible, law = np.flatnonzero(schema.allowed().reshape(-1)), rows_law(self.draws, self.rows_by)
        noisy = NoisyCells(values=cells.values.reshape(-1)[possible], mechanism=cells.mechanism)
        margins = self._margins(schema)
        expected = fitted.project(schema.names).reshape(-1)[possible]
        weights = shape_weights(noisy, expected)
        at_mode = mean_rates(noisy, expected, weights) if self.draws == "fit" else expected
        tables = []
        for copy, model in enumerate(models, start=1):
            rates = at_mode
            if self.draws == "posterior":
                source = StreamSource(stream, "effects", copy)
                shape = SHAPES[min(int(np.searchsorted(np.cumsum(weights), source.random(1)[0])), len(SHAPES) - 1)]
                rates = draw_rates(noisy, model.project(schema.names).reshape(-1)[possible], shape, source)
            whole = np.zeros(schema.shape())
            whole.reshape(-1)[possible] = rates
            raked = rake(whole, margins, schema.names, [model.project(margin) for margin in margins])
            tables.append(CodedTable.from_cells(schema, draw_cells(raked, rows, law, stream, "rows", copy)))
        low, high = (SHAPES[int(np.searchsorted(np.cumsum(weights), level))] ** -0.5 for level in (0.95, 0.05))
        return (
            tables,
            f"The standard deviation of the effects of cells is between {low:.2f} and {high:.2f} (90 percent).",
        )
