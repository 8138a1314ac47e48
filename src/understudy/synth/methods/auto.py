"""The default: the method that public facts favour, with the reason in the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.definition import NonPrivate, PureDP
from understudy.privacy.promise.plan import Plan
from understudy.synth.methods.histogram import MAX_CELLS, Histogram
from understudy.synth.methods.independent import Independent
from understudy.synth.methods.ipf import Ipf
from understudy.synth.methods.mst import Mst
from understudy.synth.methods.one_look import OneLook
from understudy.synth.shared.expected_error import USUAL_STRENGTH, forecast
from understudy.synth.shared.margin_methods import check_copies, check_rows, rows_law
from understudy.synth.shared.merged_bins import check_refined, read_refinement
from understudy.synth.shared.method import Request, Synthesis, check_request, configure, synthesizers
from understudy.synth.shared.required_tables import (
    ANSWERS_OF_EPSILON,
    ANSWERS_OF_RHO,
    SHARE,
    Musts,
    ordinary_needs,
    says_nothing,
)

CLEARLY_BETTER = 0.5
# The most noise on all cells of the full table together, as a share of the records. More noise hides the small cells.
# Chosen on 14 cuts and generated tables of NLTCS, S7, MA, trees, classes and dense ones, with 32 to 1,750 cells.
SPARSE = 0.1
# Choosing is preferred if its expected error is below this part of that of measuring all pairs: the first where all
# pairs are expected to be good (below 10), the second elsewhere. Measuring all pairs leaves every answer valid; after a
# choice answers rest on a small share of the budget. On 21 random cuts of four real files where all pairs were expected
# to be good (4 to 8 attributes, 1,000 to 14,827 records), they had at most 1.26 times the error of choosing; intervals
# were 1.4 times as wide after choosing with delta, and 4 to 6 times pure. Where noise is heavy, 2.2 times was seen.
MUCH_LESS, CLEARLY_LESS = 0.6, 0.8
GOOD = 10.0
# Weak, usual and strong dependence, as parts of the largest possible one. Independent columns have none, the real files
# of the benchmarks .21 to .48.
STRENGTHS = (0.05, USUAL_STRENGTH, 0.5)
NEGLIGIBLE = 1.0  # the S_pMSE of a sample of the data: below it no method is called better than another
MOST_ATTRIBUTES = 16
MODEL_CELLS = 500_000
MOST_CHOSEN = 60  # attributes of which all pairs are looked at; with more attributes only a tree of pairs is chosen


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """Picks ``histogram``, ``ipf``, ``independent``, ``one_look`` or ``mst`` by schema, unit and budget.

    The full table is measured if its noise, summed to all two-way tables, is clearly below that of measuring the
    two-way tables themselves, and small compared with the number of records. Else the expected error decides. It is
    computed from public facts, for weak, usual and strong dependence; the method is taken that is never far from the
    best. The choices are: all two-way tables, if one model holds them; one-way margins alone; or ``one_look``.
    ``one_look`` spends budget inside its run to learn how strong dependences are, and ends with one-way margins, a tree
    or more. For very many attributes a tree is chosen. The plan is the plan of the chosen method.
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
    """What must be answerable, one item per line: questions such as ``crosstab(sex, age)``, formulas,
    ``predict(income)``. It is added to what the schema asks for."""
    must_share: str = SHARE
    """The share of the budget that is set aside for the tables that this needs."""

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
        if whole is not None and _whole_is_clearer(schema, whole, pairs) and not _sparse(schema, whole, request):
            reason = "histogram: the full table is small enough that its noise is below that of separate margins."
            return _with_reason(whole, reason)
        if pairs is not None and (self.draws == "posterior" or self.refine):
            return _with_reason(pairs, "ipf: all two-way tables fit in one model, so all are measured and none chosen.")
        if len(schema.names) > MOST_CHOSEN:
            reason = f"mst: more than {MOST_CHOSEN} attributes; only a tree of pairs is chosen."
            return _with_reason(self._with_answers(Mst, schema, request), reason)
        return self._by_expected_error(schema, request, pairs)

    def _by_expected_error(self, schema: Schema, request: Request, pairs: Plan | None) -> Plan:
        """One-way margins, all pairs, or a look that decides inside the run: the one with the least expected error."""
        try:
            looking = self._with_answers(OneLook, schema, request)  # what would run is what is compared
        except UnsupportedError:
            if pairs is None:
                raise
            return _with_reason(pairs, "ipf: all two-way tables fit in one model, so all are measured and none chosen.")
        offered = {"one_look": looking}
        if pairs is not None:
            offered["ipf"] = pairs
        if not self.refine and self.draws == "fit" and (request.records or request.rows):
            law = rows_law(self.draws, self.rows_by)
            offered["independent"] = Independent(rows_by=law, **self._musts).plan(schema, request)
        chosen = _least_regret(offered, schema)
        if chosen == "one_look":
            reason = "one_look: a noisy look inside the run decides how many pairs are worth their noise, none to many."
            return _with_reason(looking, reason)
        reasons = {
            "independent": "independent: with this budget and so few rows, noise would hide what two-way tables add.",
            "ipf": "ipf: one model holds all two-way tables, and choosing would not leave clearly less error.",
        }
        return _with_reason(offered[chosen], reasons[chosen])

    def _with_answers(self, method: type[Mst | OneLook], schema: Schema, request: Request) -> Plan:
        """The plan of a method that chooses, with tables for ordinary questions beside it if nobody named others.

        They are fixed beforehand, so answers from them are valid; rows do not have to follow them.
        """
        if Musts(must=self.must).read(schema, request.unit).needs or self.refine:
            return method(**self._shared).plan(schema, request)
        plain = method(**self._shared).plan(schema, request)
        # Where nothing of delta is used, parts of epsilon are divided, and shares are those of a pure budget.
        divided = isinstance(request.budget, PureDP) or plain.options.get("noise") == "geometric"
        asked = ordinary_needs(schema, request, divided=divided)
        share = ANSWERS_OF_EPSILON if divided else ANSWERS_OF_RHO
        if asked:
            options = {**self._shared, "must": asked, "must_share": share, "must_rows": False}
            if "noise" in plain.options:
                options["noise"] = plain.options["noise"]
            plan = method(**options).plan(schema, request)
            if not says_nothing(plan, schema):
                return plan
        return plain

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

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        return configure(plan.method, plan.options).run(plan, schema, gate, stream)


def _least_regret(offered: Mapping[str, Plan], schema: Schema) -> str:
    """The method whose expected error is never far from the least, whether dependences are weak, usual or strong.

    Data may not be looked at, so no single strength can be assumed. A method is judged by its worst ratio to the best
    of them; errors below that of a sample count as equal. Without a forecast (very many attributes) the look decides,
    inside its run.
    """
    errors = {name: [forecast(plan, schema, strength) for strength in STRENGTHS] for name, plan in offered.items()}
    known = {name: [one for one in found if one is not None] for name, found in errors.items()}
    if any(len(found) < len(STRENGTHS) for found in known.values()):
        return "one_look"
    preferred = MUCH_LESS if known.get("ipf", [GOOD] * len(STRENGTHS))[1] < GOOD else CLEARLY_LESS
    least: list[float] = [min(column) for column in zip(*known.values(), strict=True)]

    def regret(name: str) -> float:
        worst = max(max(one / max(best, NEGLIGIBLE), 1.0) for one, best in zip(known[name], least, strict=True))
        return worst * (preferred if name == "ipf" else 1.0)

    return min(known, key=regret)


def _whole_is_clearer(schema: Schema, whole: Plan, pairs: Plan | None) -> bool:
    """Whether the full table, summed to two-way tables, is clearly less noisy than those measured by themselves.

    If no single model holds all pairs, there are so many cells that the noise in their sums hides every pair, unless
    the full table is itself the only pair.
    """
    if pairs is None:
        return len(schema.names) <= 2
    return _noise(whole, len(pairs.steps)) < CLEARLY_BETTER * _noise(pairs, 1)


def _sparse(schema: Schema, whole: Plan, request: Request) -> bool:
    """Whether the full table has so many cells and so few records that noise hides them. Needs a public number of rows.

    Cells cannot be negative, so noise does not cancel in sums over many empty cells.
    """
    # If the number of records is public, the number of rows that was asked for says nothing about it.
    size = request.records if request.unit.public_total else request.records or request.rows
    # The mean size of whole-number noise is at most its standard deviation, and at most its variance.
    sizes = [(step.cells, step.standard_deviation or 0.0) for step in whole.steps if step.margin]
    noise = sum(cells * min(deviation, deviation**2) for cells, deviation in sizes)
    return len(schema.names) > 2 and size is not None and noise > SPARSE * size


def _noise(plan: Plan, tables: int) -> float:
    """Noise variance summed over the cells of all measured tables; a full table is summed to each of ``tables``."""
    return tables * sum(step.cells * (step.standard_deviation or 0.0) ** 2 for step in plan.steps if step.margin)


def _with_reason(plan: Plan, reason: str) -> Plan:
    return replace(plan, notes=(f"Chosen by public facts: {reason}", *plan.notes))
