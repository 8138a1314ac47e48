"""One look at all pairs, then everything is measured once: as many pairs as the budget can say something about.

A small part of the budget measures the one-way margins, another looks once at how far every pair is from independence:
all these distances together, each with noise. From these noisy numbers and from sizes alone follows which pairs are
worth their noise. They and the one-way margins are then measured with shares that make the expected error of all
two-way tables least, and fitted once. A run can end with no pair (it is then ``independent``), a tree, or many.

Cousins: McKenna, Miklau and Sheldon (2021) choose a tree in as many rounds as it has edges, AIM (2022) chooses and
measures in turn. One look costs the noise of all pairs at once, and nothing has to be fitted between choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import pi, sqrt
from typing import ClassVar

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Mechanism, Stream
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError
from understudy.models.junction_tree import tree_cells
from understudy.privacy.gate.gate import Candidate, Gate, Query
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.mechanisms.noise import Geometric
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.plan import Plan, Step
from understudy.privacy.promise.sensitivity import comparison_sensitivity
from understudy.synth.shared.currency import Currency
from understudy.synth.shared.margins import (
    Margin,
    check_copies,
    check_margin_sizes,
    check_model_size,
    check_rows,
    drawn_option,
    known_margins,
    margin_label,
    margin_step,
    public_records,
    rows_law,
    total_of,
    total_variance,
)
from understudy.synth.shared.method import Request, Synthesis, check_request, planned, synthesizers
from understudy.synth.shared.pairs import (
    Independence,
    kept_together,
    one_way_margins,
    one_way_steps,
    possible_pairs,
)
from understudy.synth.shared.refine import Refined, check_refined, refuse_without_model
from understudy.synth.shared.required import SHARE, Musts, Required
from understudy.synth.shared.rows import synthesis_of
from understudy.synth.shared.strata import Strata, read_strata

MODEL_CELLS = 300_000
LOOK = "look at every pair"
FIRST = Fraction(1, 10)  # of the budget, for the first one-way margins
# The look. Noise falls with the root of a share of rho, and with a share of epsilon itself.
LOOKING, LOOKING_EPSILON = Fraction(1, 12), Fraction(1, 6)


@synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class OneLook:
    """Pairs chosen from one noisy look at all of them.

    Raises
    ------
    InputError
        If an option is not what it should be, or options do not go together.
    """

    name: ClassVar[str] = "one_look"
    summary: ClassVar[str] = "pairs chosen from one noisy look at all of them; for many attributes, in seconds"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp")
    inference: ClassVar[str] = "selection not modelled"

    strata: str = ""
    """Attributes whose combinations get a model each, for example ``region`` or ``region+sex``; empty: one model for
    all rows. The same pairs are chosen for all."""
    model_cells: int = MODEL_CELLS
    """The largest model that may be fitted, in cells of all its tables together."""
    rows_by: str | None = None
    """How synthetic rows are drawn from the model: ``rounding`` (low variance; the default) or ``multinomial``
    (independent rows; the default of ``draws = posterior``)."""
    draws: str = "fit"
    """How copies differ: ``fit`` (all are drawn from one fitted model) or ``posterior`` (each is drawn from its own
    draw of the noise-aware posterior, so that the combining rule ``T_f*`` reads them; needs two copies or more)."""
    refine: str = ""
    """Numeric attributes whose fine public bins are merged by noisy counts, and into how many bins each: ``age:8,
    income:10``. A tenth of the budget pays for it."""
    must: str = ""
    """What must be answerable, one thing on a line: questions such as ``crosstab(sex, age)``, formulas,
    ``predict(income)``. It comes on top of what the schema asks for."""
    must_share: str = SHARE
    """The share of the budget that is set aside for the tables this takes."""
    must_rows: bool = True
    """Whether rows follow these tables too, as far as a model holds them; ``false``: they are for ``infer`` alone,
    unless the method chooses them as well."""

    def __post_init__(self) -> None:
        check_refined(self.refine, self.draws)
        check_rows(self.draws, self.rows_by)
        self._musts  # noqa: B018 - checks the options
        if self.draws == "posterior" and self.strata:
            raise InputError("draws = posterior is for one model of all rows; leave strata out.")
        if not 1000 <= self.model_cells <= 20_000_000:
            raise InputError(f"model_cells ({self.model_cells}) must be between 1,000 and 20,000,000.")

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
        for rules in {part.schema.impossible: part.schema for part in strata.parts}.values():
            check_model_size(rules, [], [strata.inside(schema.margin(unit.fixed))])
        whole, required = Currency.for_choosing(request.budget), self._musts.read(schema, unit)
        currency = required.left(whole)
        pairs = possible_pairs(strata, unit, self.model_cells)
        first, looking = _shares(currency) if pairs else (Fraction(1), Fraction(0))
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
                "larger its share of what is left, so most have less noise than stated.",
            )
        return planned(
            schema,
            request,
            method=self.name,
            steps=tuple(steps),
            options={
                "strata": self.strata,
                "model_cells": self.model_cells,
                "rows_by": rows_law(self.draws, self.rows_by),
                **drawn_option(self.draws),
                **self._musts.options(required),
            },
            adaptive=True,
            read_by=currency.bound,
            notes=notes,
        )

    def _looks_at(self, schema: Schema, unit: Unit) -> list[Margin]:
        strata = read_strata(schema, self.strata)
        pairs = possible_pairs(strata, unit, self.model_cells)
        return [*one_way_margins(strata, unit), *strata.joined_all(pairs)]

    def run(self, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
        if self.refine:
            return self._refined().run(plan, schema, gate, stream)
        strata, unit = read_strata(schema, self.strata), plan.unit
        required = self._musts.read(schema, unit)
        currency = required.left(Currency.named(plan.budget, plan.read_by))
        pairs = possible_pairs(strata, unit, self.model_cells)
        ones = one_way_margins(strata, unit)
        first = plan.steps[: -2 if pairs else None]
        known = known_margins(schema, gate, unit)
        gate.count_ahead([*(step.margin for step in first), *(strata.joined(pair) for pair in pairs)])
        measured = gate.measure([query_of(step) for step in first])
        notes = ("No pairs: one-way margins only.",)
        total = total_of(schema, public_records(plan, gate), measured)
        if pairs:
            left = currency.amount * (1 - sum(_shares(currency), Fraction(0)))
            singles = measured[len(required.tables) :]
            choice = self._choice(strata, currency, gate, singles, pairs=pairs, total=total, left=left)
            sizes = {name: schema[name].size for name in strata.inner}
            always = kept_together(strata, unit)
            always += map(strata.inside, required.groups(self.model_cells, always))

            def fits(numbers: Sequence[int]) -> bool:
                return tree_cells(sizes, [*always, *(pairs[number] for number in numbers)]) <= self.model_cells

            numbers = choice.choose(fits)
            margins = [*ones, *(strata.joined(pairs[number]) for number in numbers)]
            measured += gate.measure([
                Query(margin=margin, mechanism=currency.noise(left * share, schema, margin, unit),
                      label=f"table {number}: {margin_label(margin)}")
                for number, (margin, share) in enumerate(zip(margins, choice.shares(numbers), strict=True), start=1)
            ])  # fmt: skip
            if numbers:
                notes = (f"Pairs: {'; '.join(margin_label(pairs[number]) for number in numbers)}.",)
            total = total_of(schema, public_records(plan, gate), measured)
        return synthesis_of(
            plan, strata, measured, total=total, stream=stream, draws=self.draws, rows_by=self.rows_by, known=known,
            notes=notes, modelled=self._modelled(required, unit, measured),
        )  # fmt: skip

    def _modelled(self, required: Required, unit: Unit, measured: Sequence[Measurement]) -> list[Measurement]:
        return required.in_model(measured, self.model_cells, [required.schema.margin(unit.fixed)])

    @property
    def _musts(self) -> Musts:
        return Musts(must=self.must, must_share=self.must_share, must_rows=self.must_rows)

    def _refined(self) -> Refined:
        return Refined(method=replace(self, refine=""), refine=self.refine)

    def redraw(
        self, plan: Plan, schema: Schema, measured: Sequence[Measurement], records: int | None, stream: Stream
    ) -> Synthesis:
        """Tables from the measurements. This is post-processing: it may be repeated, and costs no privacy."""
        refuse_without_model(self.refine)
        strata, total = read_strata(schema, self.strata), total_of(schema, records, measured)
        required = self._musts.read(schema, plan.unit)
        return synthesis_of(
            plan, strata, measured, total=total, stream=stream, draws=self.draws, rows_by=self.rows_by,
            modelled=self._modelled(required, plan.unit, measured),
        )  # fmt: skip

    def _choice(
        self, strata: Strata, currency: Currency, gate: Gate, measured: Sequence[Measurement], *,
        pairs: Sequence[Margin], total: float, left: Fraction,
    ) -> PairChoice:  # fmt: skip
        """The noisy look, and all that follows from it before anything is chosen."""
        schema, unit = strata.schema, gate.unit
        independence = Independence(strata, gate, measured, total)
        offered = [
            Candidate(margin=strata.joined(pair), model=np.rint(independence.counts(pair)).astype(np.int64))
            for pair in pairs
        ]
        looking = currency.amount * _shares(currency)[1]
        noise = currency.noise_on(looking, comparison_sensitivity([1] * len(pairs), unit))
        noisy = gate.compare(offered, mechanism=noise, label=LOOK)
        place = {name: number for number, name in enumerate(strata.inner)}
        errors, one_cells = np.zeros(len(place)), np.zeros(len(place), dtype=np.int64)
        for one in measured:
            for name in strata.inside(one.margin):
                one_cells[place[name]] = one.values.size
                errors[place[name]] = independence.one_way_error(name, _mean_noise(one.mechanism))
        ends = np.array([[place[name] for name in pair] for pair in pairs])
        # Where the number of rows is not public, every distance holds the error of its estimate too.
        rows = 0.0 if unit.public_total else sqrt(2 / pi * total_variance(schema, measured))
        explained = np.hypot(np.hypot(*errors[ends].T), rows)
        most = np.array([independence.largest_departure(pair) for pair in pairs])
        return PairChoice(
            one_cells=one_cells,
            ends=ends,
            pair_cells=np.array([schema.cells(one.margin) for one in offered]),
            departures=shrunk_departures(noisy.astype(float), explained, noise.variance, most),
            most=most,
            noise=_mean_noise(currency.noise(left, schema, offered[0].margin, unit)),
            concentrated=currency.concentrated,
        )


def _shares(currency: Currency) -> tuple[Fraction, Fraction]:
    """What the first one-way margins and the look get."""
    return FIRST, LOOKING if currency.concentrated else LOOKING_EPSILON


def _mean_noise(noise: Mechanism) -> float:
    """The mean absolute noise on one cell."""
    return sqrt(noise.variance / 2) if isinstance(noise, Geometric) else sqrt(2 / pi * noise.variance)


# Which pairs are worth their noise, and what share of the budget each table gets: public or noisy numbers only.
#
# The aim is the least expected L1 error, summed over all two-way tables. A pair that is measured has the error of its
# own noise. One that is not has its departure from independence, as far as chosen pairs do not imply it, and the
# errors of its two one-way margins. So a one-way margin counts once for every pair that rests on it.
#
# With c cells, w pairs that rest on a table and a share s, the error is w c k s^(-1/2) under rho and w c k / s under
# epsilon, k the mean absolute noise on a cell if one table got everything. The sum is least for shares in proportion
# to (w c)^(2/3) and (w c)^(1/2); with S the sum of these it is k S^(3/2) and k S^2. Pairs are added as long as that
# grows by less than the departure that goes away. See docs/theory/one-look.md.

Fits = Callable[[Sequence[int]], bool]
# Chosen on MA 2019 and one generated population each of sequences, latent classes and skewed wide tables; how they did
# elsewhere stands in docs/benchmarks.md.
COUNTED = (
    0.4  # of the noise of a table: the fit takes the rest away, where cells cannot be negative or look independent
)
IMPLIED = 0.7  # of the dependence that a chain of pairs implies: a part of it is not what the chain says
WEIGHT = 10**6  # shares are whole numbers over their sum; a table gets at least one part of so many


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairChoice:
    """What is known when the pairs are chosen.

    ``one_cells``: cells of each attribute's one-way table, 0 where it is public. ``ends``: the two attributes of each
    pair, by number. ``pair_cells``: cells of each pair's table. ``departures``: how far each pair is from independence,
    in records (L1). ``most``: how far it could be. ``noise``: k. ``concentrated``: whether shares are of rho.
    """

    one_cells: Integers
    ends: Integers
    pair_cells: Integers
    departures: Floats
    most: Floats
    noise: float
    concentrated: bool

    def choose(self, fits: Fits) -> list[int]:
        """The pairs that are worth it, best first; ``fits``: whether a model holds some pairs together."""
        chosen: list[int] = []
        left = np.ones(len(self.ends), dtype=bool)
        implied = np.eye(len(self.one_cells))
        strength = np.clip(self.departures / np.maximum(self.most, 1e-9), 0.0, 1.0)
        resting = self._resting([])
        first, second = self.ends.T
        while left.any():
            unexplained = np.maximum(self.departures - implied[first, second] * self.most, 0.0)
            gains = np.where(left, unexplained - COUNTED * self._more_noise(resting, chosen), -np.inf)
            best = int(np.argmax(gains))
            if gains[best] <= 0:
                break
            left[best] = False
            if fits([*chosen, best]):
                chosen.append(best)
                resting = self._resting(chosen)
                implied = _with_edge(implied, int(first[best]), int(second[best]), IMPLIED * float(strength[best]))
        return chosen

    def shares(self, chosen: Sequence[int]) -> list[Fraction]:
        """Shares of the one-way tables that are not public and then of the pairs, which add up to one."""
        ones = self._power(self._resting(chosen) * self.one_cells)[self.one_cells > 0]
        parts = np.concatenate([ones, self._power(self.pair_cells[list(chosen)].astype(float))])
        weights = [max(1, round(WEIGHT * float(part / parts.sum()))) for part in parts]
        return [Fraction(weight, sum(weights)) for weight in weights]

    def _resting(self, chosen: Sequence[int]) -> Floats:
        """How many pairs rest on each one-way margin; the margin itself is one of them."""
        resting = np.full(len(self.one_cells), float(len(self.one_cells)))
        np.subtract.at(resting, self.ends[list(chosen)].ravel(), 1.0)
        return resting

    def _power(self, weighted: Floats) -> Floats:
        return np.asarray(weighted ** (2 / 3 if self.concentrated else 1 / 2))

    def _more_noise(self, resting: Floats, chosen: Sequence[int]) -> Floats:
        """By how much the expected error from noise grows with each pair."""
        ones = self._power(resting * self.one_cells)
        fewer = self._power((resting - 1.0) * self.one_cells) - ones
        pairs = self._power(self.pair_cells.astype(float))
        now = float(ones.sum() + pairs[list(chosen)].sum())
        then = now + pairs + fewer[self.ends].sum(axis=1)
        power = 3 / 2 if self.concentrated else 2.0
        return np.asarray(self.noise * (then**power - now**power))


def _with_edge(implied: Floats, first: int, second: int, strength: float) -> Floats:
    """How strongly attributes depend on one another along the best path, as correlations of a chain multiply."""
    through = strength * np.outer(implied[:, first], implied[second])
    return np.maximum(implied, np.maximum(through, through.T))


def shrunk_departures(noisy: Floats, explained: Floats, variance: float, most: Floats) -> Floats:
    """Departures from noisy distances: less what the noise of one-way margins explains, drawn towards their mean.

    Errors of one-way margins and departures add up like squares. What the noise of the look scatters the distances by
    is taken off by the rule of James and Stein: the largest of many noisy numbers is large mostly by its noise.
    ``most``: how large each could be.
    """
    found = np.sign(noisy) * np.sqrt(np.maximum(noisy**2 - explained**2, 0.0))  # signs keep the mean what it is
    mean = float(found.mean())
    spread = float(found.var())
    kept = max(1.0 - variance / spread, 0.0) if spread > 0 else 0.0
    return np.asarray(np.clip(mean + kept * (found - mean), 0.0, most))
