"""MST: one-way margins, a maximum spanning tree of pairs chosen privately, and the pairs of that tree (McKenna et al.).

The tree is grown by Kruskal's algorithm. Each step looks at the pairs that would join two separate parts, and chooses
the one farthest from independence by a noisy maximum. It ends when all attributes are connected. A tree model is small
whatever the number of attributes, so this is the quick method for very many of them. Where attributes depend on one
another in more ways than a tree has edges, ``aim`` and ``ipf`` are better.

McKenna, Miklau and Sheldon (2021), Winning the NIST contest, arXiv:2108.04978, Algorithm 1. The differences: geometric
noise and permute-and-flip choices under a pure budget, shares of the budget by the size of a table, and the
regularised joint fit instead of unregularised mirror descent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import pi, sqrt
from typing import ClassVar

from understudy.core.arrays import narrowed
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.phases import tell
from understudy.core.schema import Schema
from understudy.errors import UnsupportedError
from understudy.privacy.exact.gaussian_profile import Bound
from understudy.privacy.gate.gate import Candidate, Gate, Query
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.promise.definition import ApproxDP, Definition, Unit
from understudy.privacy.promise.event import GumbelMax, NoisyMax
from understudy.privacy.promise.plan import Plan, Step
from understudy.privacy.promise.sensitivity import selection_sensitivity
from understudy.synth.shared.choosing_method import ChoosingMethod
from understudy.synth.shared.currency import Currency
from understudy.synth.shared.margin_methods import (
    TOTAL,
    Margin,
    check_copies,
    check_margin_sizes,
    check_model_size,
    known_margins,
    margin_label,
    margin_step,
    public_records,
    shares_by_cells,
    total_of,
)
from understudy.synth.shared.method import Request, Synthesis, check_request, planned, synthesizers
from understudy.synth.shared.pair_choice import (
    Independence,
    least_variance_power,
    one_way_margins,
    one_way_steps,
    possible_pairs,
)
from understudy.synth.shared.required_tables import Required
from understudy.synth.shared.strata import Strata, read_strata, synthesis_of

ONE_WAY, CHOOSING = Fraction(1, 3), Fraction(1, 6)  # of the budget; the pairs get the rest
MODEL_CELLS = 5_000_000
PRIOR_WHILE_CHOOSING = 100.0


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Mst(ChoosingMethod):
    """A tree of two-way tables, chosen privately.

    Raises
    ------
    InputError
        If an option is not what it should be, or options do not go together.
    """

    name: ClassVar[str] = "mst"
    summary: ClassVar[str] = "a privately chosen tree of two-way margins; for very many attributes"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp")
    inference: ClassVar[str] = "selection not modelled"
    chooses: ClassVar[str] = "first"  # what is measured after the last choice influences none

    model_cells: int = MODEL_CELLS

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        check_copies(self.draws, request.copies)
        if self.refine:
            return self._refined().plan(schema, request, lambda merged: self._looks_at(merged, request.unit))
        strata, unit = read_strata(schema, self.strata), request.unit
        ones = one_way_margins(strata, unit)
        if not ones:
            raise UnsupportedError("everything in this schema is fixed or constant; nothing is left to protect.")
        check_margin_sizes(schema, ones)
        for rules in {part.schema.zeros: part.schema for part in strata.parts}.values():
            check_model_size(rules, [], [strata.inside(schema.margin(unit.fixed))])
        edges = possible_pairs(strata, unit, self.model_cells)
        required = self._musts.read(schema, unit)
        joins = _most_joins(strata, unit, edges, self._linked(required, unit))
        whole = _currency(strata, request.budget, unit, edges, joins, share=CHOOSING * (1 - required.share))
        currency = required.left(whole)
        steps = one_way_steps(schema, ones, unit, currency, currency.amount * (ONE_WAY if joins else Fraction(1)))
        steps = [*required.steps(unit, whole), *steps]
        if joins:
            sensitivity = Fraction(selection_sensitivity([1], unit))
            event = GumbelMax if currency.concentrated else NoisyMax
            scale = currency.choice_scale(currency.amount * CHOOSING / joins, sensitivity)
            choosing = event(sensitivity=sensitivity, scale=scale)
            steps.append(Step(label="choose a pair", margin=(), action="select", event=choosing, repeats=joins))
            example = strata.joined(edges[0])
            noise = currency.noise(currency.amount * (1 - ONE_WAY - CHOOSING) / joins, schema, example, unit)
            shown = margin_step(schema, example, unit, noise)
            steps.append(Step(label="measure a chosen pair", margin=(), action="measure", event=shown.event,
                              standard_deviation=shown.standard_deviation, repeats=joins))  # fmt: skip
        return planned(
            schema,
            request,
            method=self.name,
            steps=tuple(steps),
            options={
                "strata": self.strata,
                "model_cells": self.model_cells,
                **self._options_of_rows(required),
            },
            adaptive=True,
            read_by=currency.bound,
            notes=("Larger pairs get larger shares of what the pairs have together, once the tree is known.",),
        )

    def _looks_at(self, schema: Schema, unit: Unit) -> list[Margin]:
        strata = read_strata(schema, self.strata)
        return [*one_way_margins(strata, unit), *strata.joined_all(possible_pairs(strata, unit, self.model_cells))]

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        if self.refine:
            return self._refined().run(plan, schema, gate, stream)
        strata = read_strata(schema, self.strata)
        edges = possible_pairs(strata, plan.unit, self.model_cells)
        required = self._musts.read(schema, plan.unit)
        linked = self._linked(required, plan.unit)
        joins = _most_joins(strata, plan.unit, edges, linked)
        share = CHOOSING * (1 - required.share)
        currency = required.left(
            _currency(strata, plan.budget, plan.unit, edges, joins, share=share, bound=plan.read_by)
        )
        first = [step for step in plan.steps if step.action == "measure" and (step.margin or step.label == TOTAL)]
        known = known_margins(schema, gate, plan.unit)
        gate.count_ahead([*(step.margin for step in first), *(strata.joined(edge) for edge in edges)])
        measured = gate.measure([query_of(step) for step in first])
        total = total_of(schema, public_records(plan, gate), measured)
        tree: list[Margin] = []
        if joins:
            known_now = self._modelled(required, plan.unit, measured)
            tree = self._grow(strata, currency, gate, known_now, edges=edges, total=total, joins=joins, linked=linked)
        if tree:
            part = currency.amount * (1 - ONE_WAY - CHOOSING)
            margins = [strata.joined(edge) for edge in tree]
            shares = shares_by_cells(schema, margins, least_variance_power(currency))
            measured += gate.measure([
                Query(margin=margin, mechanism=currency.noise(part * share, schema, margin, plan.unit),
                      label=f"pair {number}: {margin_label(margin)}")
                for number, (margin, share) in enumerate(zip(margins, shares, strict=True), start=1)
            ])  # fmt: skip
        notes = (f"Tree: {'; '.join(margin_label(edge) for edge in tree) or 'no pairs'}.",)
        total = total_of(schema, public_records(plan, gate), measured)
        return synthesis_of(
            plan, strata, measured, total=total, stream=stream, draws=self.draws, rows_by=self.rows_by, known=known,
            notes=notes, modelled=self._modelled(required, plan.unit, measured),
        )  # fmt: skip

    def _linked(self, required: Required, unit: Unit) -> list[Margin]:
        """Required tables in the model. Their attributes are connected before a pair is chosen."""
        return required.groups(self.model_cells, [required.schema.margin(unit.fixed)])

    def _grow(
        self, strata: Strata, currency: Currency, gate: Gate, measured: Sequence[Measurement], *,
        edges: Sequence[Margin], total: float, joins: int, linked: Sequence[Margin],
    ) -> list[Margin]:  # fmt: skip
        """Kruskal's algorithm with a noisy maximum: the pair farthest from independence between two parts."""
        unit = gate.unit
        expected = Independence(strata, gate, measured, total)
        each = currency.amount * (1 - ONE_WAY - CHOOSING) / joins
        offered = {}
        for edge in edges:
            margin = strata.joined(edge)
            model = narrowed(expected.counts(edge))
            noise = currency.noise(each, strata.schema, margin, unit)
            penalty = round(sqrt(2 / pi * noise.variance) * model.size)
            offered[edge] = Candidate(margin=margin, model=model, offset=penalty)
        part = currency.amount * CHOOSING / joins
        scale = currency.choice_scale(part, Fraction(selection_sensitivity([1], unit)))
        joined, tree = _Parts(strata, unit, linked), []
        for number in range(1, joins + 1):
            tell("choosing pairs", number - 1, joins)
            left = [edge for edge in edges if not joined.same(edge)]
            if not left:
                break
            chosen = gate.select(
                [offered[edge] for edge in left], scale=scale, label=f"choose pair {number}", law=currency.choice_law
            )
            tree.append(left[chosen])
            joined.join(left[chosen])
        return tree


def _currency(
    strata: Strata, budget: Definition, unit: Unit, edges: Sequence[Margin], joins: int, *, share: Fraction,
    bound: Bound | None = None,
) -> Currency:  # fmt: skip
    """What to spend, with this share of it for choices. Under (epsilon, delta) it is a pure epsilon if that gives less
    noise, as with few pairs; else noise and choices are composed, unless too few or too many of them gain nothing.

    ``bound``: the one that a plan was made by. A resumed run keeps to the plan that it was charged for.
    """
    currency = Currency.of(budget)
    if not joins or not isinstance(budget, ApproxDP):
        return currency
    pure = Currency(amount=budget.epsilon, concentrated=False)
    composed = Currency.with_choices(budget, joins, share) if bound != "concentrated" else currency
    if bound == "composed":
        return composed

    def variance(one: Currency) -> float:
        part = one.amount * (1 - ONE_WAY - CHOOSING) / joins
        return one.noise(part, strata.schema, strata.joined(edges[0]), unit).variance

    return min(pure, currency, composed, key=variance)


def _most_joins(strata: Strata, unit: Unit, edges: Sequence[Margin], linked: Sequence[Margin]) -> int:
    """How many pairs a spanning forest of the possible pairs has; fixed attributes and required tables are connected
    already."""
    parts = _Parts(strata, unit, linked)
    count = 0
    for edge in edges:
        if not parts.same(edge):
            parts.join(edge)
            count += 1
    return count


class _Parts:
    """Which attributes are connected so far."""

    def __init__(self, strata: Strata, unit: Unit, linked: Sequence[Margin]) -> None:
        self._part = {name: number for number, name in enumerate(strata.inner)}
        for group in (unit.fixed, *linked):
            inside = [name for name in strata.inner if name in group]
            for name in inside[1:]:
                self.join((inside[0], name))

    def same(self, edge: Margin) -> bool:
        return self._part[edge[0]] == self._part[edge[1]]

    def join(self, edge: Margin) -> None:
        old, new = self._part[edge[0]], self._part[edge[1]]
        self._part = {name: new if part == old else part for name, part in self._part.items()}
