"""AIM: choose the margins that the model gets most wrong, measure them, and repeat (McKenna et al. 2022).

Every round spends a tenth of its part on choosing (a seventh, where the part is counted in mu^2) and the rest on
measuring. When a measurement no longer moves the model by more than its noise, rounds grow larger, inside the budget
that was reserved. Selection considers only margins with which the model still fits in memory. The final fit is
regularised towards independence by a rule that looks at noisy values only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import narrowed
from understudy.core.mechanism import Stream
from understudy.core.phases import tell
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError
from understudy.models.fit import Tracker, structural_groups
from understudy.models.junction_tree import tree_cells
from understudy.models.model import Model, PairMargins
from understudy.privacy.gate.gate import Candidate, Gate, Query
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.event import GumbelMax, NoisyMax, Sensitivity
from understudy.privacy.promise.plan import Plan, Step
from understudy.privacy.promise.sensitivity import margin_sensitivity, selection_sensitivity
from understudy.synth.shared.choosing_method import ChoosingMethod
from understudy.synth.shared.currency import Currency
from understudy.synth.shared.margin_methods import (
    Margin,
    check_copies,
    check_margin_sizes,
    check_model_size,
    combinations_up_to,
    is_public,
    known_margins,
    margin_label,
    margin_step,
    public_records,
    shares_by_cells,
    total_of,
)
from understudy.synth.shared.method import Request, Synthesis, check_request, planned, synthesizers
from understudy.synth.shared.pair_choice import least_variance_power, prior_while_choosing
from understudy.synth.shared.strata import Strata, read_strata, synthesis_of

MODEL_CELLS = 1_000_000
MOST_ATTRIBUTES = 100
# The factor by which a round grows. With Laplace noise, many small parts of epsilon achieve less than one large part;
# with rho they achieve as much.
MORE_RHO, MORE_EPSILON = Fraction(7, 5), 2


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Aim(ChoosingMethod):
    """Adaptive margins: the tables that the model gets most wrong are chosen and measured, round by round.

    Raises
    ------
    InputError
        If an option is not what it should be, or options do not go together.
    """

    name: ClassVar[str] = "aim"
    summary: ClassVar[str] = "adaptively chosen margins; for many attributes of mixed kinds"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp")
    inference: ClassVar[str] = "selection not modelled"
    chooses: ClassVar[str] = "in turn"  # the first table of a pair was chosen before its noise was drawn

    model_cells: int = MODEL_CELLS
    ways: int = 2
    """Tables of up to this many attributes are candidates."""
    rounds: int = 16
    """The budget is first divided into this many parts for each attribute; a round spends one part or more."""

    def __post_init__(self) -> None:
        ChoosingMethod.__post_init__(self)  # super() does not work in a class with slots
        if self.ways not in (2, 3):
            raise InputError(f"ways ({self.ways}) must be 2 or 3.")
        if not 2 <= self.rounds <= 1000:
            raise InputError(f"rounds ({self.rounds}) must be between 2 and 1,000.")

    def plan(self, schema: Schema, request: Request) -> Plan:
        check_request(type(self), schema, request)
        check_copies(self.draws, request.copies)
        if self.refine:
            return self._refined().plan(schema, request, lambda merged: self._looks_at(merged, request.unit))
        whole, required = Currency.for_choosing(request.budget), self._musts.read(schema, request.unit)
        currency, strata = required.left(whole), read_strata(schema, self.strata)
        margins = strata.joined_all([(name,) for name in strata.inner])
        ones = [margin for margin in margins if not is_public(schema, margin, request.unit)]
        if not ones:
            raise UnsupportedError("everything in this schema is fixed or constant; nothing is left to protect.")
        check_margin_sizes(schema, ones)
        check_model_size(schema, ones, [schema.margin(request.unit.fixed)])
        if len(schema.names) > MOST_ATTRIBUTES:
            raise UnsupportedError(
                f"aim looks at every pair in every round; {len(schema.names)} attributes are more than the "
                f"{MOST_ATTRIBUTES} it takes. Use method mst, or leave attributes out ([[ignore]])."
            )
        unit = request.unit
        first = ones if unit.public_total else [*ones, ()]
        candidates = self._affordable(strata, unit)
        rounds = self.rounds * len(schema.names) if candidates else len(first)
        part = currency.amount / rounds
        # One-way margins share their parts by size; the number of rows, on which every count rests, keeps a part.
        shares = shares_by_cells(schema, ones, least_variance_power(currency))
        amounts = [*(part * len(ones) * share for share in shares), part][: len(first)]
        steps = [
            margin_step(schema, margin, unit, currency.noise(amount, schema, margin, unit))
            for margin, amount in zip(first, amounts, strict=True)
        ]
        steps = [*required.steps(unit, whole), *steps]
        notes = (f"No model of at most {self.model_cells:,} cells holds a pair: all is spent on one-way margins.",)
        if candidates:
            left = max(rounds - len(first), 1)
            sensitivity = Fraction(selection_sensitivity([1], request.unit))
            choice = GumbelMax if currency.concentrated else NoisyMax
            scale = currency.choice_scale(part * currency.choosing, sensitivity)
            choosing = choice(sensitivity=sensitivity, scale=scale)
            steps.append(Step(label="choose a margin", margin=(), action="select", event=choosing, repeats=left))
            noise = currency.noise(part * (1 - currency.choosing), schema, candidates[0], unit)
            chosen = margin_step(schema, candidates[0], unit, noise)
            steps.append(Step(label="measure the chosen margin", margin=(), action="measure", event=chosen.event,
                              standard_deviation=chosen.standard_deviation, repeats=left))  # fmt: skip
            notes = (
                f"At most {left} rounds; rounds grow larger when measurements stop moving the model, and the last one "
                "spends what is left.",
            )
        return planned(
            schema,
            request,
            method=self.name,
            steps=tuple(steps),
            options={
                "strata": self.strata,
                "ways": self.ways,
                "rounds": self.rounds,
                "model_cells": self.model_cells,
                **self._options_of_rows(required),
            },
            adaptive=True,
            read_by=currency.bound,
            notes=notes,
        )

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        if self.refine:
            return self._refined().run(plan, schema, gate, stream)
        required = self._musts.read(schema, plan.unit)
        currency = required.left(Currency.named(plan.budget, plan.read_by))
        fixed = list(takewhile(lambda step: step.action == "measure", plan.steps))  # what comes before any choice
        strata = read_strata(schema, self.strata)
        candidates = self._affordable(strata, plan.unit)
        known = known_margins(schema, gate, plan.unit)
        gate.count_ahead([*(step.margin for step in fixed), *candidates])
        measured = gate.measure([query_of(step) for step in fixed])
        total = total_of(schema, public_records(plan, gate), measured)
        first = len(fixed) - len(required.tables)
        rounds = self.rounds * len(schema.names) if candidates else first
        spent = currency.amount * Fraction(first, rounds)
        part = currency.amount / rounds
        state = _Run(
            plan=plan, schema=schema, gate=gate, currency=currency, candidates=candidates, spent=spent,
            sensitivities={margin: margin_sensitivity(schema, margin, plan.unit) for margin in candidates},
            tracker=Tracker(
                schema, self._modelled(required, plan.unit, measured), known=known, total=max(total, 1.0),
                prior=prior_while_choosing(total),
            ),
        )  # fmt: skip
        while candidates and state.spent < currency.amount:
            state.number += 1
            tell("choosing and measuring tables", int(100 * state.spent / currency.amount), 100)
            if currency.amount - state.spent < 2 * part:
                part = currency.amount - state.spent  # a last round of less than a whole part would be wasted
            found = self._choose(state, part)
            if found is None:
                break
            margin, before = found
            noise = currency.noise(part * (1 - currency.choosing), schema, margin, plan.unit)
            label = f"round {state.number}: {margin_label(margin)}"
            (answer,) = gate.measure([Query(margin=margin, mechanism=noise, label=label)])
            measured.append(answer)
            state.spent += part
            state.tracker.add(answer)
            moved = float(np.abs(state.tracker.model.project(margin) - before).sum())
            if moved <= math.sqrt(2 / math.pi * noise.variance) * before.size:
                part *= MORE_RHO if currency.concentrated else MORE_EPSILON
        notes = (f"{state.number} rounds of choosing and measuring.",)
        return synthesis_of(
            plan, strata, measured, total=total, stream=stream, draws=self.draws, rows_by=self.rows_by, known=known,
            notes=notes, modelled=self._modelled(required, plan.unit, measured),
        )  # fmt: skip

    def _looks_at(self, schema: Schema, unit: Unit) -> list[Margin]:
        strata = read_strata(schema, self.strata)
        return [*strata.joined_all([(name,) for name in strata.inner]), *self._affordable(strata, unit)]

    def _affordable(self, strata: Strata, unit: Unit) -> list[Margin]:
        """Candidates that fit into a model one by one, structural zeros included. Strata are joined to each of them."""
        schema = strata.schema
        sizes = dict(zip(schema.names, schema.shape(), strict=True))
        zeros = structural_groups(schema)
        fixed = schema.margin(unit.fixed)
        varying = [name for name in strata.inner if sizes[name] > 1]  # one level depends on nothing
        return [
            margin
            for margin in map(strata.joined, combinations_up_to(varying, self.ways))
            if not is_public(schema, margin, unit) and tree_cells(sizes, [margin, fixed, *zeros]) <= self.model_cells
        ]

    def _choose(self, state: _Run, part: Fraction) -> tuple[Margin, NDArray[np.float64]] | None:
        """Choose privately the margin whose error in the model is largest beyond the noise of measuring it.

        It comes with the counts that the model expects there.
        """
        tracker, currency, plan = state.tracker, state.currency, state.plan
        # The model may grow in step with what was spent, so that early rounds cannot use up the room.
        room = max(self.model_cells * float((state.spent + part) / currency.amount), tracker.model.tree.cells)
        cells = tracker.cells_with(state.candidates)
        if not (cells <= room).any():  # the first choice has to be large; waiting for more room would spend nothing
            room = self.model_cells
        fitting = [margin for margin, needed in zip(state.candidates, cells, strict=True) if needed <= room]
        tables = _expected(tracker.model, fitting)
        if not tables:
            return None
        offered = []
        deviations: dict[Sensitivity, float] = {}  # margins of one sensitivity get the same noise
        for margin, table in tables.items():
            sensitivity = state.sensitivities[margin]
            if sensitivity not in deviations:
                noise = currency.noise(part * (1 - currency.choosing), state.schema, margin, plan.unit)
                deviations[sensitivity] = math.sqrt(2 / math.pi * noise.variance)
            expected = narrowed(table)
            penalty = deviations[sensitivity] * expected.size
            offered.append(Candidate(margin=margin, model=expected, weight=1, offset=round(penalty)))
        scale = currency.choice_scale(part * currency.choosing, Fraction(selection_sensitivity([1], plan.unit)))
        chosen = state.gate.select(offered, scale=scale, label=f"round {state.number}: choose", law=currency.choice_law)
        margin = offered[chosen].margin
        return margin, tables[margin]


def _expected(model: Model, margins: Sequence[Margin]) -> dict[Margin, NDArray[np.float64]]:
    """The counts that a model expects in some margins, without those that need too large a table to compute."""
    pairs = PairMargins(model).tables(margin for margin in margins if len(margin) == 2)
    found = {}
    for margin in margins:
        with suppress(UnsupportedError):
            found[margin] = pairs[margin] if margin in pairs else model.project(margin)
    return found


@dataclass(slots=True, kw_only=True)
class _Run:
    """Where an adaptive run stands."""

    plan: Plan
    schema: Schema
    gate: Gate
    currency: Currency
    candidates: Sequence[Margin]
    sensitivities: Mapping[Margin, Sensitivity]
    tracker: Tracker
    spent: Fraction
    number: int = 0
