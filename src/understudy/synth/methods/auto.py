"""The default: the method that public facts favour, with the reason in the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.definition import NonPrivate, PureDP
from understudy.privacy.promise.plan import Plan, Step
from understudy.synth.methods.histogram import MAX_CELLS, Histogram
from understudy.synth.methods.independent import Independent
from understudy.synth.methods.ipf import Ipf
from understudy.synth.methods.mst import Mst
from understudy.synth.methods.one_look import OneLook
from understudy.synth.shared.margins import check_copies, check_rows, rows_law
from understudy.synth.shared.method import Request, Synthesis, check_request, configure, synthesizers
from understudy.synth.shared.refine import check_refined, read_refinement
from understudy.synth.shared.required import (
    ANSWERS_OF_EPSILON,
    ANSWERS_OF_RHO,
    SHARE,
    Musts,
    ordinary_needs,
    says_nothing,
)

CLEARLY_BETTER = 0.5
NOT_WORTH_IT = 0.8
MOST_ATTRIBUTES = 16
MODEL_CELLS = 500_000
MOST_CHOSEN = 60  # attributes whose pairs are all looked at; beyond, a tree of pairs is all that is looked for


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """Picks ``histogram``, ``ipf``, ``independent``, ``one_look`` or ``mst`` by schema, unit and budget.

    The full table is measured where its noise, summed to all two-way tables, is clearly below that of measuring the
    two-way tables themselves; those are measured all where one model can hold them (one-way margins alone, where the
    number of rows is public and noise would leave two-way tables clearly more wrong). Otherwise ``one_look`` chooses
    those that are worth their noise, inside its run and for a charge: it can end with one-way margins, a tree or more.
    Where attributes are very many, a tree is looked for. The plan it makes is the chosen method's own.
    """

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "the method that public facts favour (the default); the plan says which and why"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp", "none")
    inference: ClassVar[str] = "selection not modelled"  # the least of the methods it picks from

    rows_by: str | None = None
    """How synthetic rows are drawn from the model: ``rounding`` (low variance; the default) or ``multinomial``
    (independent rows; the default of ``draws = posterior``)."""
    draws: str = "fit"
    """How copies differ: ``fit`` (all are drawn from one fitted model) or ``posterior`` (each is drawn from its own
    draw of the noise-aware posterior, so that the combining rule ``T_f*`` reads them; needs two copies or more)."""
    refine: str = ""
    """Numeric attributes whose fine public bins are merged by noisy counts, and into how many bins each: ``age:8,
    income:10``. A tenth of the budget pays for it. The full table and one-way margins alone are then not considered."""
    must: str = ""
    """What must be answerable, one thing on a line: questions such as ``crosstab(sex, age)``, formulas,
    ``predict(income)``. It comes on top of what the schema asks for."""
    must_share: str = SHARE
    """The share of the budget that is set aside for the tables this takes."""

    def __post_init__(self) -> None:
        check_rows(self.draws, self.rows_by)
        check_refined(self.refine, self.draws)
        Musts(must=self.must, must_share=self.must_share)

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        check_copies(self.draws, request.copies)
        if isinstance(request.budget, NonPrivate) and self.draws == "posterior":
            raise InputError("draws = posterior is for noisy tables; without a guarantee there is no noise.")
        if isinstance(request.budget, NonPrivate) and not self.refine:
            if schema.cells() <= MAX_CELLS:
                plan = Histogram(must=self.must).plan(schema, request)
                return _with_reason(plan, "histogram: without a guarantee nothing is lost.")
            reason = "ipf: without a guarantee, and too many cells for the full table."
            return _with_reason(Ipf(rows_by=self.rows_by, **self._musts).plan(schema, request), reason)
        whole, pairs = self._whole_table(schema, request), self._all_pairs(schema, request)
        if whole is not None and _whole_is_clearer(schema, whole, pairs):
            reason = "histogram: the full table is small enough that its noise is below that of separate margins."
            return _with_reason(whole, reason)
        if pairs is not None and self._too_noisy(schema, pairs, request):
            plan = Independent(rows_by=rows_law(self.draws, self.rows_by), **self._musts).plan(schema, request)
            reason = "independent: with this budget and so few rows, noise would hide what two-way tables have to say."
            return _with_reason(plan, reason)
        if pairs is not None:
            return _with_reason(pairs, "ipf: all two-way tables fit in one model, so all are measured and none chosen.")
        if len(schema.names) > MOST_CHOSEN:
            reason = f"mst: more than {MOST_CHOSEN} attributes; a tree of pairs is all that is looked for."
            return _with_reason(self._with_answers(Mst, schema, request), reason)
        reason = (
            "one_look: all two-way tables together are too large for one model, so those worth their noise are chosen."
        )
        return _with_reason(self._with_answers(OneLook, schema, request), reason)

    def _with_answers(self, method: type[Mst | OneLook], schema: Schema, request: Request) -> Plan:
        """The plan of a method that chooses, with tables for ordinary questions beside it if nobody named others.

        They are fixed beforehand, so answers from them are valid; rows do not have to follow them.
        """
        if Musts(must=self.must).read(schema, request.unit).needs or self.refine:
            return method(**self._shared).plan(schema, request)
        concentrated = not isinstance(request.budget, PureDP)
        asked = ordinary_needs(schema, request.unit, concentrated=concentrated)
        share = ANSWERS_OF_RHO if concentrated else ANSWERS_OF_EPSILON
        if asked:
            options = {**self._shared, "must": asked, "must_share": share, "must_rows": False}
            plan = method(**options).plan(schema, request)
            if not says_nothing(plan, schema):
                return plan
        return method(**self._shared).plan(schema, request)

    @property
    def _shared(self) -> dict[str, Any]:
        """The options that every margin method has."""
        return {"rows_by": self.rows_by, "draws": self.draws, "refine": self.refine, **self._musts}

    @property
    def _musts(self) -> dict[str, Any]:
        return {"must": self.must, "must_share": self.must_share}

    def _whole_table(self, schema: Schema, request: Request) -> Plan | None:
        if self.draws == "posterior" or self.refine:
            return None  # the histogram has neither
        try:
            return Histogram(rows_by=rows_law(self.draws, self.rows_by), must=self.must).plan(schema, request)
        except UnsupportedError:
            return None

    def _all_pairs(self, schema: Schema, request: Request) -> Plan | None:
        modelled = read_refinement(schema, self.refine).coarse if self.refine else schema
        least = 1 if self.refine else 2  # the full table of one attribute is its only margin; with refine there is none
        if not least <= len(schema.names) <= MOST_ATTRIBUTES or modelled.cells() > MODEL_CELLS:
            return None
        try:
            return Ipf(**self._shared).plan(schema, request)
        except UnsupportedError:
            return None

    def _too_noisy(self, schema: Schema, pairs: Plan, request: Request) -> bool:
        """Whether one-way margins alone would leave two-way tables less wrong; needs a public number of rows."""
        size = request.records if request.records is not None else request.rows
        if size is None or self.draws == "posterior" or self.refine:
            return False
        single = Independent(**self._musts).plan(schema, request)
        alone, together = (expected_error(schema, plan.steps, size) for plan in (single, pairs))
        return alone < NOT_WORTH_IT * together

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        return configure(plan.method, plan.options).run(plan, schema, gate, stream)


def _whole_is_clearer(schema: Schema, whole: Plan, pairs: Plan | None) -> bool:
    """Whether the full table, summed to two-way tables, is clearly less noisy than those measured by themselves.

    Where no one model holds all pairs there are so many cells that the sum over them drowns every pair, unless the full
    table is the only pair there is.
    """
    if pairs is None:
        return len(schema.names) <= 2
    return _noise(whole, len(pairs.steps)) < CLEARLY_BETTER * _noise(pairs, 1)


def _noise(plan: Plan, tables: int) -> float:
    """Noise variance summed over the cells of all measured tables; a full table is summed to each of ``tables``."""
    return tables * sum(step.cells * (step.standard_deviation or 0.0) ** 2 for step in plan.steps if step.margin)


def _with_reason(plan: Plan, reason: str) -> Plan:
    return replace(plan, notes=(f"Chosen by public facts: {reason}", *plan.notes))


# How wrong two-way tables would be on average under a plan: public facts and one assumption, never the data.

ASSOCIATION = 200.0  # the prior strength, in records, that survey tables needed (S5, S7); see docs/theory/margins.md


def expected_error(schema: Schema, steps: Sequence[Step], size: int) -> float:
    """Expected squared error over the cells of all two-way tables of ``size`` records, after the regularised fit.

    Every cell of a table of c cells is taken to depart from independence with variance size^2 / (c r), r the usual
    number of prior records. Noise of variance v leaves the part v / (tau^2 + v) of that unknown; a table that is not
    measured leaves all of it. To that comes the error of the one-way margins, each averaged over all noisy tables that
    have it.
    """
    variances = {step.margin: (step.standard_deviation or 0.0) ** 2 for step in steps if step.margin}
    one_way: dict[str, float] = {}
    for name in schema.names:
        precision = sum(
            schema[name].size / (variance * schema.cells(margin))
            for margin, variance in variances.items()
            if name in margin and variance > 0
        )
        one_way[name] = 1 / precision if precision > 0 else float(size) ** 2
    error = 0.0
    for first, second in combinations(schema.names, 2):
        pair, left, right = (first, second), schema[first].size, schema[second].size
        departure = float(size) ** 2 / (schema.cells(pair) * ASSOCIATION)
        known = variances.get(pair)
        unknown = departure if known is None else departure * known / (departure + known)
        error += left * right * unknown + one_way[first] * left / right + one_way[second] * right / left
    return error
