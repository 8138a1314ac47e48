"""The default: the method that public facts favour, with the reason in the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb
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
from understudy.synth.shared.expected_error import (
    NEGLIGIBLE,
    divides_epsilon,
    forecast,
    least_regret,
    three_way_noise,
)
from understudy.synth.shared.margin_methods import check_copies, check_rows, rows_law
from understudy.synth.shared.merged_bins import check_refined, read_refinement
from understudy.synth.shared.method import Request, Synthesis, check_request, configure, synthesizers
from understudy.synth.shared.required_tables import (
    ANSWERS_OF_EPSILON,
    ANSWERS_OF_RHO,
    Musts,
    fewer_needs,
    ordinary_needs,
    says_nothing,
)

# Factors on the regret of what leaves every answer valid, which is preferred if errors are about equal. The full table
# is also right in tables of more than two attributes, which the error of two-way tables does not count.
PREFERRED = {"histogram": 0.9, "ipf": 0.95}
MOST_ATTRIBUTES = 16
MODEL_CELLS = 2_000_000  # of a model of all pairs; five attributes of 18 levels have 1.9 million, fitted in seconds
MOST_WORK = 10**8  # three-way tables times cells of their model: a fit of some seconds
MOST_TRIPLES = 220  # of twelve attributes; the 560 of sixteen take longer to fit than a default should
A_SAMPLE = 1.0  # the S_pMSE of a fresh sample: three-way tables with less noise than that are worth what they may show
# Attributes of which all pairs are looked at; with more only a tree of pairs is chosen. Noise on a look grows with the
# root of the number of pairs where rho is divided, and with their number where epsilon is.
MOST_CHOSEN, MOST_CHOSEN_EPSILON = 300, 60
MOST_JOINED = 1_000  # attributes of which a tree is chosen: half a million pairs; more take hours, and noise hides them

REASONS = {
    "histogram": "the full table is small enough that its noise does less harm than that of other tables.",
    "one_look": "a noisy look inside the run decides how many pairs are worth their noise, none to many.",
    "mst": "of what can be had with this budget a tree of pairs leaves the least expected error.",
    "independent": "with this budget and so few rows, noise would hide what two-way tables add.",
    "ipf": "one model holds all two-way tables, and choosing would not leave clearly less error.",
}


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """Picks ``histogram``, ``ipf``, ``independent``, ``one_look`` or ``mst`` by schema, unit and budget.

    The expected error of two-way tables decides. It is computed from public facts, from weak to strong dependence; the
    method is taken that is never far from the best. The choices are: the full table, if it is small; all two-way
    tables, if one model holds them, or all three-way tables, if their noise is below what a sample would show and
    two-way tables lose little; a tree of pairs (``mst``); one-way margins alone; or ``one_look``, which spends budget
    inside its run to learn how strong dependences are, and ends with one-way margins, a tree or more. The plan is the
    plan of the chosen method.
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
    must_share: str | None = None
    """The share of the budget that is set aside for the tables that this needs: by default 0.5, and 0.7 where the
    schema has a survey weight."""

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
        if pairs is not None and (self.draws == "posterior" or self.refine):
            return _with_reason(pairs, "ipf: all two-way tables fit in one model, so all are measured and none chosen.")
        most = MOST_CHOSEN_EPSILON if isinstance(request.budget, PureDP) else MOST_CHOSEN
        if len(schema.names) > MOST_JOINED and not self.refine and self.draws == "fit":
            alone = Independent(rows_by=rows_law(self.draws, self.rows_by), **self._musts).plan(schema, request)
            reason = f"independent: with more than {MOST_JOINED:,} attributes there are too many pairs to choose from."
            return _with_reason(alone, reason)
        if len(schema.names) > most:
            reason = f"mst: more than {most} attributes; only a tree of pairs is chosen."
            return _with_reason(self._with_answers(Mst, schema, request), reason)
        return self._by_expected_error(schema, request, whole, pairs)

    def _by_expected_error(self, schema: Schema, request: Request, whole: Plan | None, pairs: Plan | None) -> Plan:
        """The full table, one-way margins, a tree, all pairs, or a look that decides inside the run."""
        offered = self._offered(schema, request, whole, pairs)
        chosen = least_regret(offered, schema, prefer=PREFERRED)
        if chosen is None:  # nothing is forecast: fewer than two attributes vary, or very many
            chosen = "histogram" if whole is not None else "one_look" if "one_look" in offered else "ipf"
        triples = None if chosen == "histogram" else self._all_triples(schema, request, pairs)
        if triples is not None:
            reason = "ipf: with this budget all three-way tables add less noise than a sample of the data has."
            return _with_reason(triples, reason)
        return _with_reason(offered[chosen], f"{chosen}: {REASONS[chosen]}")

    def _offered(self, schema: Schema, request: Request, whole: Plan | None, pairs: Plan | None) -> dict[str, Plan]:
        """The plans that are compared, as they would run."""
        offered: dict[str, Plan] = {} if whole is None else {"histogram": whole}
        if pairs is not None:
            offered["ipf"] = pairs
        try:
            offered["one_look"] = self._with_answers(OneLook, schema, request)
            if not self.refine:
                offered["mst"] = self._with_answers(Mst, schema, request)
        except UnsupportedError:
            if not offered:
                raise
            return offered
        if not self.refine and self.draws == "fit" and (request.records or request.rows):
            alone = Independent(rows_by=rows_law(self.draws, self.rows_by), **self._musts).plan(schema, request)
            # A look that finds nothing ends with one-way margins alone, with Gaussian noise at little cost. But where
            # few tables are measured geometric noise is smaller, and all of it is for the taking only without a look.
            if divides_epsilon(alone):
                offered["independent"] = alone
        return offered

    def _with_answers(self, method: type[Mst | OneLook], schema: Schema, request: Request) -> Plan:
        """The plan of a method that chooses, with tables for ordinary questions beside it if nobody named others.

        They are fixed beforehand, so answers from them are valid; rows do not have to follow them.
        """
        if Musts(must=self.must).read(schema, request.unit).needs or self.refine:
            return method(**self._shared).plan(schema, request)
        plain = method(**self._shared).plan(schema, request)
        # Where nothing of delta is used, parts of epsilon are divided, and shares are those of a pure budget.
        divided = divides_epsilon(plain)
        asked = ordinary_needs(schema, request, divided=divided)
        share = ANSWERS_OF_EPSILON if divided else ANSWERS_OF_RHO
        while asked:
            options = {**self._shared, "must": asked, "must_share": share, "must_rows": False}
            if "noise" in plain.options:
                options["noise"] = plain.options["noise"]
            plan = method(**options).plan(schema, request)
            if not says_nothing(plan, schema):
                return plan
            asked = fewer_needs(plan, schema)
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

    def _all_triples(self, schema: Schema, request: Request, pairs: Plan | None) -> Plan | None:
        """All three-way tables instead of all pairs, where neither the three-way nor the two-way tables can lose much.

        How much they gain depends on the data, and nothing public shows it. What they cost is known. Needs a public
        number of rows. Questions that somebody named have their own tables, and are left to all pairs.
        """
        size = request.records or request.rows
        ways = [name for name in schema.names if schema[name].size > 1]
        if pairs is None or not size or len(ways) <= 3 or self.draws != "fit" or self.refine:
            return None
        tables = comb(len(ways), 3)
        if tables > MOST_TRIPLES or tables * schema.cells() > MOST_WORK:
            return None
        if Musts(must=self.must).read(schema, request.unit).needs:
            return None
        triples = Ipf(margins="3", **self._shared).plan(schema, request)
        three, two = three_way_noise(triples, schema), (forecast(triples, schema), forecast(pairs, schema))
        if three is None or two[0] is None or two[1] is None:
            return None
        return triples if three <= A_SAMPLE and two[0] <= two[1] + NEGLIGIBLE else None

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        return configure(plan.method, plan.options).run(plan, schema, gate, stream)


def _with_reason(plan: Plan, reason: str) -> Plan:
    return replace(plan, notes=(f"Chosen by public facts: {reason}", *plan.notes))
