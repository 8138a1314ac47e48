"""One look at all pairs, then everything is measured once: as many pairs as are worth their noise.

A small part of the budget measures the one-way margins. Another part measures once, with noise, how far every pair is
from independence. These noisy distances and public sizes alone decide which pairs are worth their noise. These pairs
and the one-way margins are then measured, with the shares that give the least expected error of all two-way tables, and
fitted once. A run can end with no pair (it is then ``independent``), a tree, or many. If noise is small, a second
look shows which other pairs the model of the first ones gets wrong.

Related: McKenna, Miklau and Sheldon (2021) choose a tree in as many rounds as it has edges, AIM (2022) chooses and
measures in turn. One look costs the noise of all pairs at once, and nothing has to be fitted between choices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import pi, sqrt
from statistics import fmean
from typing import ClassVar

import numpy as np

from understudy.core.arrays import narrowed
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Mechanism, Stream
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.models.fit import Known, Tracker
from understudy.models.junction_tree import tree_cells
from understudy.models.model import PairMargins
from understudy.privacy.exact.gaussian_profile import Bound
from understudy.privacy.gate.gate import Candidate, Gate, Query
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.mechanisms.noise import Geometric
from understudy.privacy.promise.definition import ApproxDP, Definition, PureDP, Unit
from understudy.privacy.promise.plan import Plan, Step
from understudy.privacy.promise.sensitivity import comparison_sensitivity
from understudy.synth.shared.choosing_method import AGAIN, ChoosingMethod
from understudy.synth.shared.currency import Currency
from understudy.synth.shared.expected_error import (
    OF_EMPTY,
    USUAL_RECORDS,
    PairChoice,
    least_regret,
    noise_without_pairs,
    shrunk_departures,
)
from understudy.synth.shared.margin_methods import (
    Margin,
    check_copies,
    check_margin_sizes,
    check_model_size,
    known_margins,
    margin_label,
    margin_step,
    public_records,
    total_of,
    total_variance,
)
from understudy.synth.shared.method import Request, Synthesis, check_request, planned, synthesizers
from understudy.synth.shared.pair_choice import (
    Independence,
    kept_together,
    one_way_margins,
    one_way_steps,
    possible_pairs,
    prior_while_choosing,
)
from understudy.synth.shared.required_tables import Required
from understudy.synth.shared.strata import Strata, read_strata, synthesis_of

MODEL_CELLS = 1_000_000
FIRST_CELLS = 0.3  # the part of the model for pairs chosen by the first look; the rest is for pairs of a second look
LOOK, LOOK_AGAIN = "look at every pair", "look again at the other pairs"
# A second look of rho costs a tenth of what is left, so the error from noise grows by about a tenth. It is taken if
# chains of pairs are trusted to explain more than all noise: then it pays if a tenth of that trust is wrong. There is
# none of a pure epsilon: two halves have twice the variance of the whole, and where chains are true, much is lost.
TRUSTED = 1.0
LOOKS = ("auto", "always", "never")
NOISES = ("auto", "gaussian", "geometric")
HALF = Fraction(1, 2)  # of the budget after a second look is paid, this part is spent before it
LEAST_VARIANCE = 1e-6  # noise that is almost surely 0 must not make an infinite precision
LOOKING = Fraction(1, 12)  # the share of the budget for the look
# The share for the first one-way margins: enough that their error is SMALL, as a part of all records. Two halves of
# epsilon say half as much as the whole, of rho as much. So where epsilon is divided the most is less.
LEAST_FIRST, MOST_FIRST, MOST_FIRST_EPSILON, SMALL = Fraction(1, 10), Fraction(1, 3), Fraction(1, 8), 0.05


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class OneLook(ChoosingMethod):
    """Pairs chosen from one noisy look at all of them.

    Raises
    ------
    UnknownNameError
        If a value is none of those that an option offers.
    InputError
        If an option is not what it should be, or options do not go together.
    """

    name: ClassVar[str] = "one_look"
    summary: ClassVar[str] = "pairs chosen from one noisy look at all of them; for many attributes, in seconds"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp")
    inference: ClassVar[str] = "selection not modelled"
    # What is measured after the choice does not influence it, unless there was a second look (AGAIN).
    chooses: ClassVar[str] = "first"  # what is measured after the last choice influences none

    model_cells: int = MODEL_CELLS
    look_again: str = "auto"
    """Whether there is a second look, at the distance of the other pairs from a model of what was measured so far:
    ``auto`` (if noise is small compared with what chains of pairs should explain), ``always`` or ``never``. After a
    second look, ``infer`` does not call answers from chosen tables valid."""
    noise: str = "auto"
    """Which noise an (epsilon, delta) budget buys: ``gaussian``, ``geometric`` (nothing of delta is used; less noise
    where few tables are measured), or ``auto`` (the one whose forecast has less error). Other budgets have one kind."""

    def __post_init__(self) -> None:
        ChoosingMethod.__post_init__(self)  # super() does not work in a class with slots
        if self.noise not in NOISES:
            raise unknown_name("noise", self.noise, NOISES)
        if self.look_again not in LOOKS:
            raise unknown_name("look_again", self.look_again, LOOKS)
        if self.look_again == "always" and self.strata:
            raise InputError("a second look needs one model of all rows; leave out strata or look_again.")

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
        if self.noise == "auto" and isinstance(request.budget, ApproxDP):
            return self._with_less_error(schema, request)
        whole, required = self._currency(request.budget), self._musts.read(schema, unit)
        currency = required.left(whole)
        pairs = possible_pairs(strata, unit, self.model_cells)
        first = _first(schema, ones, unit, currency, request.records or request.rows)
        first, looking = (first, LOOKING) if pairs else (Fraction(1), Fraction(0))
        steps = [*required.steps(unit, whole), *one_way_steps(schema, ones, unit, currency, currency.amount * first)]
        notes = (f"No model of at most {self.model_cells:,} cells holds a pair: all is spent on one-way margins.",)
        if pairs:
            sensitivity = comparison_sensitivity([1] * len(pairs), unit)
            noise = currency.noise_on(currency.amount * looking, sensitivity)
            steps.append(Step(label=LOOK, margin=(), action="compare", event=noise.event(sensitivity),
                              cells=len(pairs), standard_deviation=sqrt(noise.variance)))  # fmt: skip
            most = len(ones) + len(pairs)
            example = strata.joined(pairs[0])
            each = currency.noise(currency.amount * (1 - first - looking) / most, schema, example, unit)
            shown = margin_step(schema, example, unit, each)
            steps.append(Step(label="measure one-way margins and chosen pairs", margin=(), action="measure",
                              event=shown.event, standard_deviation=shown.standard_deviation,
                              repeats=most))  # fmt: skip
            notes = (
                f"At most {most} tables are measured after the look. The fewer there are, and the larger one is, the "
                "larger its share of what is left, so most have less noise than stated. If chains of pairs explain "
                "much and noise is small, a part of what is left pays for a second look, at the distance of the other "
                "pairs from a model of what was measured so far.",
            )
        return planned(
            schema,
            request,
            method=self.name,
            steps=tuple(steps),
            options={
                "strata": self.strata,
                "model_cells": self.model_cells,
                **({} if self.look_again == "auto" else {"look_again": self.look_again}),
                **({} if self.noise in ("auto", "gaussian") else {"noise": self.noise}),
                **self._options_of_rows(required),
            },
            adaptive=True,
            read_by=currency.bound,
            notes=notes,
        )

    def _with_less_error(self, schema: Schema, request: Request) -> Plan:
        """The plan with Gaussian or with geometric noise, whichever is forecast to be less far from the better.

        Geometric noise grows with the number of tables, Gaussian noise with its root. So if geometric noise is larger
        when no pair is chosen, it is larger whatever is chosen, and no forecast is needed.
        """
        plans = {noise: replace(self, noise=noise).plan(schema, request) for noise in ("gaussian", "geometric")}
        usual, other = (noise_without_pairs(plan) for plan in plans.values())
        if other >= usual:
            return plans["gaussian"]
        return plans[least_regret(plans, schema) or "gaussian"]

    def _currency(self, budget: Definition, bound: Bound | None = None) -> Currency:
        """What is spent: parts of epsilon if geometric noise is asked for, else what the budget calls for."""
        if self.noise == "geometric" and isinstance(budget, ApproxDP):
            return Currency(amount=budget.epsilon, concentrated=False)
        if self.noise == ("gaussian" if isinstance(budget, PureDP) else "geometric"):
            raise InputError(f"noise = {self.noise} is not what {budget.title} can buy; leave noise out.")
        return Currency.for_choosing(budget) if bound is None else Currency.named(budget, bound)

    def _looks_at(self, schema: Schema, unit: Unit) -> list[Margin]:
        strata = read_strata(schema, self.strata)
        pairs = possible_pairs(strata, unit, self.model_cells)
        return [*one_way_margins(strata, unit), *strata.joined_all(pairs)]

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        if self.refine:
            return self._refined().run(plan, schema, gate, stream)
        strata, unit = read_strata(schema, self.strata), plan.unit
        required = self._musts.read(schema, unit)
        currency = required.left(self._currency(plan.budget, plan.read_by))
        pairs = possible_pairs(strata, unit, self.model_cells)
        ones = one_way_margins(strata, unit)
        first = plan.steps[: -2 if pairs else None]
        known = known_margins(schema, gate, unit)
        gate.count_ahead([*(step.margin for step in first), *(strata.joined(pair) for pair in pairs)])
        measured = gate.measure([query_of(step) for step in first])
        notes: tuple[str, ...] = ("No pairs: one-way margins only.",)
        total = total_of(schema, public_records(plan, gate), measured)
        if pairs:
            first_share = _first(schema, ones, unit, currency, plan.records or plan.rows)
            left = currency.amount * (1 - first_share - LOOKING)
            answers, singles = measured[: len(required.tables)], measured[len(required.tables) :]
            choice = self._choice(strata, currency, gate, singles, pairs=pairs, total=total, left=left, answers=answers)
            fits = self._fitting(strata, unit, required, pairs)

            def asked(
                choice: PairChoice, numbers: Sequence[int], amount: Fraction
            ) -> Iterable[tuple[Margin, Fraction]]:
                margins = [*ones, *(strata.joined(pairs[number]) for number in numbers)]
                return zip(margins, (amount * share for share in choice.shares(numbers)), strict=True)

            numbers = choice.choose(lambda chosen: fits(chosen) <= FIRST_CELLS * self.model_cells)
            again = not strata.names and len(numbers) < len(pairs) and self._looks_again(currency, choice, numbers)
            if not again and len(numbers) < len(pairs):  # no second look needs the room
                numbers = choice.choose(lambda chosen: fits(chosen) <= self.model_cells)
            if again:
                left -= currency.amount * LOOKING
                measured += _tables(gate, schema, currency, asked(choice, numbers, left * HALF), label="")
                total = total_of(schema, public_records(plan, gate), measured)
                left *= 1 - HALF
                seen = self._modelled(required, unit, measured)
                choice = self._choice_again(choice, numbers, currency, gate, seen, pairs=pairs, known=known,
                                            total=total, left=left, strata=strata)  # fmt: skip
                numbers = choice.choose(lambda chosen: fits(chosen) <= self.model_cells)
            label = AGAIN if again else ""
            measured += _tables(gate, schema, currency, asked(choice, numbers, left), label=label)
            if numbers:
                notes = (f"Pairs: {'; '.join(margin_label(pairs[number]) for number in numbers)}.",)
            notes = (*notes, f"Expected error of two-way tables, by the noisy look: mean S_pMSE about "
                             f"{choice.error(numbers):.2g} (1 is what a sample of the data has).")  # fmt: skip
            total = total_of(schema, public_records(plan, gate), measured)
        return synthesis_of(
            plan, strata, measured, total=total, stream=stream, draws=self.draws, rows_by=self.rows_by, known=known,
            notes=notes, modelled=self._modelled(required, unit, measured),
        )  # fmt: skip

    def _looks_again(self, currency: Currency, choice: PairChoice, numbers: Sequence[int]) -> bool:
        """Whether a second look is worth its cost, by the first one."""
        if self.look_again != "auto":
            return self.look_again == "always"
        trusted, noise = choice.relied_on(numbers)
        return currency.concentrated and trusted > TRUSTED * noise

    def _fitting(
        self, strata: Strata, unit: Unit, required: Required, pairs: Sequence[Margin]
    ) -> Callable[[Sequence[int]], int]:
        """How many cells a model of some pairs has, beside what is in it in any case."""
        schema = strata.parts[0].schema
        sizes = {name: schema[name].size for name in strata.inner}
        always = kept_together(strata, unit)
        always += map(strata.inside, required.groups(self.model_cells, always))
        return lambda numbers: tree_cells(sizes, [*always, *(pairs[number] for number in numbers)])

    def _choice_again(
        self, before: PairChoice, held: Sequence[int], currency: Currency, gate: Gate,
        measured: Sequence[Measurement], *, pairs: Sequence[Margin], known: Known, total: float, left: Fraction,
        strata: Strata,
    ) -> PairChoice:  # fmt: skip
        """A second look, at how far the other pairs are from a model of all that was measured."""
        schema, unit = strata.schema, gate.unit
        model = Tracker(schema, measured, known=known, total=max(total, 1.0), prior=prior_while_choosing(total)).model
        others = [number for number in range(len(pairs)) if number not in set(held)]
        expected = PairMargins(model).tables(pairs[number] for number in others)
        offered = [Candidate(margin=pairs[number], model=narrowed(expected[pairs[number]])) for number in others]
        noise = currency.noise_on(currency.amount * LOOKING, comparison_sensitivity([1] * len(others), unit))
        noisy = gate.compare(offered, mechanism=noise, label=LOOK_AGAIN).astype(float)
        first, certain = np.zeros(len(before.first)), np.zeros(len(pairs))
        place = {name: number for number, name in enumerate(strata.inner)}
        numbers = {pair: number for number, pair in enumerate(pairs)}
        errors = np.zeros(len(place))
        for one in measured:
            for name in one.margin:
                summed = one.values.size / schema[name].size
                first[place[name]] += 1.0 / max(one.mechanism.variance * summed, LEAST_VARIANCE)
            if one.margin in numbers:
                certain[numbers[one.margin]] += 1.0 / max(one.mechanism.variance, LEAST_VARIANCE)
        for name, number in place.items():
            counts = model.project((name,))
            off = sqrt(2 / pi / first[number]) if first[number] else 0.0
            errors[number] = float(np.minimum(off, counts + OF_EMPTY * off).sum())
        explained = np.hypot(*errors[before.ends[others]].T)
        departures = before.departures.copy()
        departures[others] = shrunk_departures(noisy, explained, noise.variance, before.most[others])
        return replace(
            before, first=first, known=certain, departures=departures, held=tuple(held),
            noise=max(currency.noise(left, schema, pairs[0], unit).variance, LEAST_VARIANCE),
        )  # fmt: skip

    def _choice(
        self, strata: Strata, currency: Currency, gate: Gate, measured: Sequence[Measurement], *,
        pairs: Sequence[Margin], total: float, left: Fraction, answers: Sequence[Measurement],
    ) -> PairChoice:  # fmt: skip
        """The noisy look, and all that follows from it before anything is chosen.

        ``answers`` are tables that must be measured. Rows follow one of them if its pair is chosen too, so that pair is
        known so far already.
        """
        schema, unit = strata.schema, gate.unit
        independence = Independence(strata, gate, measured, total)
        offered = [Candidate(margin=strata.joined(pair), model=narrowed(independence.counts(pair))) for pair in pairs]
        noise = currency.noise_on(currency.amount * LOOKING, comparison_sensitivity([1] * len(pairs), unit))
        noisy = gate.compare(offered, mechanism=noise, label=LOOK)
        place = {name: number for number, name in enumerate(strata.inner)}
        errors, protected, known = np.zeros(len(place)), np.zeros((len(place), 1)), np.zeros(len(place))
        for one in measured:
            for name in strata.inside(one.margin):
                protected[place[name]] = 1.0
                known[place[name]] = 1.0 / max(one.mechanism.variance, LEAST_VARIANCE)
                errors[place[name]] = independence.one_way_error(name, _mean_noise(one.mechanism))
        ends = np.array([[place[name] for name in pair] for pair in pairs])
        # If the number of rows is not public, every distance includes the error of its estimate.
        rows = 0.0 if unit.public_total else sqrt(2 / pi * total_variance(schema, measured))
        explained = np.hypot(np.hypot(*errors[ends].T), rows)
        most = np.array([independence.largest_departure(pair) for pair in pairs])
        one_powers, pair_powers = independence.powers(pairs)
        already = {one.margin: 1.0 / max(one.mechanism.variance, LEAST_VARIANCE) for one in answers}
        return PairChoice(
            one_powers=one_powers * protected,
            first=known,
            pair_powers=pair_powers,
            known=np.array([already.get(strata.joined(pair), 0.0) for pair in pairs]),
            ends=ends,
            departures=shrunk_departures(noisy.astype(float), explained, noise.variance, most),
            most=most,
            evenness=np.array([independence.evenness(pair) for pair in pairs]),
            noise=max(currency.noise(left, schema, offered[0].margin, unit).variance, LEAST_VARIANCE),
            concentrated=currency.concentrated,
        )


def _tables(
    gate: Gate, schema: Schema, currency: Currency, asked: Iterable[tuple[Margin, Fraction]], *, label: str
) -> list[Measurement]:
    """Measure some margins, each with its part of the budget."""
    return gate.measure([
        Query(margin=margin, mechanism=currency.noise(amount, schema, margin, gate.unit),
              label=f"{label}table {number}: {margin_label(margin)}")
        for number, (margin, amount) in enumerate(asked, start=1)
    ])  # fmt: skip


def _first(schema: Schema, ones: Sequence[Margin], unit: Unit, currency: Currency, records: int | None) -> Fraction:
    """The share of the budget for the first one-way margins, by public facts.

    Errors of the one-way margins make a pair look dependent. With a small budget that hides everything else, and
    one-way margins are most of what can be learned anyway.
    """
    steps = one_way_steps(schema, ones, unit, currency, currency.amount)
    wrong = fmean(step.cells * sqrt(2 / pi) * (step.standard_deviation or 0.0) for step in steps if step.margin)
    share = wrong / (SMALL * (records or USUAL_RECORDS))
    found, most = (share**2, MOST_FIRST) if currency.concentrated else (share, MOST_FIRST_EPSILON)
    return min(max(Fraction(found).limit_denominator(100), LEAST_FIRST), most)


def _mean_noise(noise: Mechanism) -> float:
    """The mean absolute noise on one cell."""
    return sqrt(noise.variance / 2) if isinstance(noise, Geometric) else sqrt(2 / pi * noise.variance)
