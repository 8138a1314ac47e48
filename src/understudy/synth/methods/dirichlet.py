"""Multinomial-Dirichlet synthesis (Abowd and Vilhuber; Machanavajjhala et al., Algorithm 1; Charest).

Every copy is a fresh draw from the posterior predictive of the data themselves. The prior protects, and the budget is
split over copies. The beta-binomial synthesizer is its two-cell case. Only the draw is released. The posterior contains
the data and is never saved, so further rows need a further charge.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from understudy.core.apportion import apportion
from understudy.core.domain import Domain
from understudy.core.exact_numbers import read_exact, show_up
from understudy.core.mechanism import Stream
from understudy.core.prior_weights import PriorWeights
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import BudgetError, InputError, UnsupportedError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.table_draws import strata_domains
from understudy.privacy.mechanisms.breach_prior import priors_of_tables
from understudy.privacy.mechanisms.dirichlet_draw import (
    DirichletDraw,
    exact_loss,
    exact_prior_for,
    prior_for,
    pure_loss,
    row_unit,
    weighted_prior_for,
)
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.mechanisms.preconditions import epsilon_of, exact_is_known
from understudy.privacy.promise.calibrate_dirichlet import round_prior
from understudy.privacy.promise.definition import ApproxDP, Definition, ProbabilisticDP, PureDP, Unit
from understudy.privacy.promise.event import ApproxLoss, PureLoss, Strata, breach_loss, promises_definition_6
from understudy.privacy.promise.plan import Option, Plan, Step
from understudy.synth.shared.method import Request, Synthesis, check_request, planned, synthesizers
from understudy.synth.shared.required_tables import named_needs

MAX_STRATA = 10_000
BREACH_NOTE = (
    "Priors are set by breach probabilities, which add over strata and copies: delta is that of all together "
    "(docs/theory/probabilistic-dp.md)."
)
MOST_COMPARED = 100_000  # records or rows up to which a plan computes both priors
ROWS_DRAWN = "drawn from the Dirichlet posterior of the data (each copy a fresh draw)"


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Dirichlet:
    """Posterior-predictive draws with a Dirichlet prior.

    Raises
    ------
    InputError
        If an option is not what it should be, or options do not go together.
    """

    name: ClassVar[str] = "dirichlet"
    summary: ClassVar[str] = "draws from the Dirichlet posterior of the full cross-tabulation, or of each fixed stratum"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "probabilistic")
    inference: ClassVar[str] = "valid"

    prior: str = "auto"
    """Prior strength in records of each possible cell. ``auto`` takes the smallest that keeps the budget: under an
    approximate budget that of the exact delta (unit ``replace``, one row per unit), otherwise the pure one, which keeps
    the budget too."""
    weights: str = ""
    """A public prior that differs between cells: one number for each level of some attributes, or for each cell of a
    public table, in the order of the schema (``sex = 2 1; age*job = 3 1 4 1 5 9``). The weight of a cell multiplies its
    prior; the prior is set for the cells with the smallest weights. Empty: all cells alike."""
    strata: str = "auto"
    """``auto`` draws within each combination of the unit's ``fixed`` attributes; ``none`` draws from the full
    cross-tabulation."""
    must: str = ""
    """What must be answerable, one item per line: questions such as ``crosstab(sex, age)``, formulas,
    ``predict(income)``. This method holds every table; the plan says where each answer comes from."""

    def __post_init__(self) -> None:
        if self.strata not in ("auto", "none"):
            raise InputError(f"strata ({self.strata!r}) must be 'auto' or 'none'; strata are the fixed attributes.")
        if self.weights:
            PriorWeights(text=self.weights)  # which checks the text
        if self.prior != "auto" and read_exact(self.prior, "prior") <= 0:
            raise InputError(f"prior ({self.prior}) must be positive: with 0 an empty cell stays empty.")

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        if request.rows is None and not request.unit.public_total:
            raise InputError(
                "under add_remove the number of rows to draw must be a constant that does not come from the data; "
                "give rows."
            )
        strata = self._strata_of(schema, request)
        margin = schema.names
        domain = Domain(schema=schema, margin=margin)
        self._check_weights(schema, request, strata)
        budget, loss, notes = self._loss(schema, request, strata, domain.possible)
        event = Strata(strata=((loss,),) * schema.cells(strata)) if strata else loss
        steps = tuple(
            Step(label=f"copy {copy}", margin=margin, action="draw", event=event, cells=domain.possible)
            for copy in range(1, request.copies + 1)
        )
        options: dict[str, Option] = {"strata": self.strata, "prior": self.prior, **named_needs(schema, self.must)}
        if self.weights:
            options["weights"] = self.weights
        return planned(
            schema,
            request,
            method=self.name,
            budget=budget,
            steps=steps,
            options=options,
            notes=notes,
        )

    def _strata_of(self, schema: Schema, request: Request) -> tuple[str, ...]:
        strata = schema.margin(request.unit.fixed) if self.strata == "auto" else ()
        if strata == schema.names:
            raise UnsupportedError("every attribute is fixed under this unit; nothing is left to protect.")
        if schema.cells(strata) > MAX_STRATA:
            raise UnsupportedError(
                f"the fixed attributes make {schema.cells(strata):,} strata; at most {MAX_STRATA:,} are drawn apart. "
                "Use strata=none, or fix fewer attributes."
            )
        return strata

    @property
    def _prior_weights(self) -> PriorWeights | None:
        return PriorWeights(text=self.weights) if self.weights else None

    def _check_weights(self, schema: Schema, request: Request, strata: tuple[str, ...]) -> None:
        """Refuse what cannot be drawn before anything is charged: weights of each stratum are made once here."""
        weights = self._prior_weights
        if weights is None:
            return
        if isinstance(request.budget, ProbabilisticDP):
            raise UnsupportedError(
                "probabilistic differential privacy (Definition 6) is proved for equal priors only. Leave weights out, "
                "or use the guarantee approx or pure."
            )
        for domain in strata_domains(schema, strata):
            weights.over(domain)

    def _smallest_weight(self, schema: Schema, strata: tuple[str, ...]) -> Fraction:
        """The smallest weight of a possible cell, over all strata; 1 where all cells are alike."""
        weights = self._prior_weights
        if weights is None:
            return Fraction(1)
        made = [weights.over(domain) for domain in strata_domains(schema, strata)]
        return min((one.smallest_two[0] * one.part for one in made if one.smallest_two[0]), default=Fraction(1))

    def _loss(
        self, schema: Schema, request: Request, strata: tuple[str, ...], cells: int
    ) -> tuple[Definition, PureLoss | ApproxLoss, tuple[str, ...]]:
        """What one copy may cost, in each stratum, and what the release then promises.

        The rows of one unit may lie in as many strata as it has rows, so a stratum's loss is stated for one row.
        """
        asked = request.budget
        assert isinstance(asked, PureDP | ApproxDP | ProbabilisticDP)  # noqa: S101 - checked by the caller
        if isinstance(asked, ProbabilisticDP) and not exact_is_known(request.unit):
            raise UnsupportedError(
                "probabilistic differential privacy (Definition 6) is proved for one row that is replaced. Use unit "
                "replace with one row per unit, or the guarantee approx or pure."
            )
        times = request.unit.rows_per_unit if strata else 1
        if self.prior == "auto":
            notes = (f"Each copy is charged epsilon / {request.copies}.",) if request.copies > 1 else ()
            if isinstance(asked, ApproxDP) and exact_is_known(request.unit):
                loss = exact_loss(asked.epsilon / request.copies, asked.delta / request.copies)
                return asked, loss, (*notes, "The prior is set by the exact delta of the draw.")
            if isinstance(asked, ProbabilisticDP):
                loss = breach_loss(asked.epsilon / request.copies, asked.delta / request.copies)
                return asked, loss, (*notes, BREACH_NOTE, *self._compared(request, loss, strata, cells))
            return asked, pure_loss(asked.epsilon / (request.copies * times)), notes
        rows = request.rows if request.rows is not None else request.records
        if rows is None:
            raise InputError("with a prior of your own, say how many rows are drawn (rows): epsilon depends on both.")
        least = round_prior(read_exact(self.prior, "prior")) * self._smallest_weight(schema, strata)
        each = epsilon_of(least, rows, row_unit(request.unit, strata))
        # Rounded up to a short decimal, so that what is charged can be read.
        total = Fraction(show_up(each * request.copies * times, 6))
        if total > asked.epsilon:
            raise BudgetError(
                f"a prior of {self.prior} with {rows:,} rows and {request.copies} copies costs epsilon = "
                f"{show_up(total)}, and the budget is {show_up(asked.epsilon)}. Nothing was drawn; use a larger prior, "
                "fewer rows, or a larger budget."
            )
        return (
            PureDP(epsilon=total),
            pure_loss(total / (request.copies * times)),
            (f"The prior of {self.prior} per cell implies epsilon = {show_up(total)} for {request.copies} copies.",),
        )

    def _compared(self, request: Request, loss: ApproxLoss, strata: tuple[str, ...], cells: int) -> tuple[str, ...]:
        """What the stronger promise costs beside approx, where the public number of records is known."""
        records = request.records
        rows = request.rows if request.rows is not None else records
        if strata or records is None or rows is None or max(records, rows) > MOST_COMPARED:
            return ()
        (prior,) = priors_of_tables([(records, rows, cells)], loss)
        beside = exact_prior_for(exact_loss(loss.epsilon, loss.delta), rows, records, cells)
        return (
            f"The prior of a cell is {float(prior):.4g}. Approx with the same epsilon and delta would take "
            f"{float(beside):.4g}.",
        )

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:  # noqa: ARG002
        strata = schema.margin(plan.unit.fixed) if self.strata == "auto" else ()
        sizes = [int(size) for size in gate.public(strata).ravel()] if strata else [self._records(plan, gate)]
        rows = self._rows(plan, sizes, strata)
        domains = strata_domains(schema, strata)
        draws = []
        for copy, step in enumerate(plan.steps, start=1):
            loss = step.event.strata[0][0] if isinstance(step.event, Strata) else step.event
            assert isinstance(loss, PureLoss | ApproxLoss)  # noqa: S101 - planned above
            priors = self._priors(loss, list(zip(sizes, rows, domains, strict=True)), row_unit(plan.unit, strata))
            mechanisms = [
                DirichletDraw(prior=prior, rows=count, loss=loss, weights=self._prior_weights)
                for prior, count in zip(priors, rows, strict=True)
            ]
            draws.append(gate.draw(mechanisms, margin=schema.names, label=step.label, copy=copy, strata=strata))
        tables = tuple(CodedTable.from_cells(schema, np.repeat(draw.cells, draw.counts)) for draw in draws)
        return Synthesis(tables=tables, draws=tuple(draws), rows_drawn=ROWS_DRAWN)

    def _records(self, plan: Plan, gate: Gate) -> int:
        """The number of records where it is public, else 0: then nothing below depends on it."""
        return gate.records if plan.unit.public_total else 0

    def _rows(self, plan: Plan, sizes: list[int], strata: tuple[str, ...]) -> list[int]:
        """Rows to draw in each stratum: its public number of records, or its share of the rows asked for."""
        if plan.rows is None:
            return sizes
        return [int(share) for share in apportion(np.array(sizes), plan.rows)] if strata else [plan.rows]

    def _priors(self, loss: PureLoss | ApproxLoss, strata: list[tuple[int, int, Domain]], unit: Unit) -> list[Fraction]:
        """The prior of each stratum, given its records, the rows to draw and its cells."""
        if self.prior != "auto":
            return [round_prior(read_exact(self.prior, "prior"))] * len(strata)
        weights = self._prior_weights
        if weights is not None:
            return [
                weighted_prior_for(
                    loss, weights.over(domain), rows=rows,
                    facts=TableFacts(unit=unit, cells=domain.possible, records=records, domain=domain),
                )
                for records, rows, domain in strata
            ]  # fmt: skip
        parts = [(records, rows, domain.possible) for records, rows, domain in strata]
        if isinstance(loss, PureLoss):
            return [prior_for(loss.epsilon, rows, unit) for _, rows, _ in parts]
        if promises_definition_6(loss):
            return priors_of_tables(parts, loss)
        return [exact_prior_for(loss, rows, records, cells) for records, rows, cells in parts]
