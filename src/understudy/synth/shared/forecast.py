"""How good a plan will be, before anything is spent: its expected error from public facts and an assumed dependence.

Noise follows from the plan. The data are not known, so an assumption is made and stated: levels have shares in the
ratio 1, 1/2, 1/3 and so on, and the dependence of pairs varies around a fifth of the largest possible one. The real
files of the benchmarks have means of .21, .21, .26 and .48 of it. Nothing here reads data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import sqrt

import numpy as np

from understudy.core.schema import Schema
from understudy.models.junction_tree import tree_cells
from understudy.privacy.promise.definition import NonPrivate, PureDP
from understudy.privacy.promise.plan import Plan
from understudy.synth.shared.expected_error import PairChoice, crossed, powers
from understudy.synth.shared.margins import is_public
from understudy.synth.shared.required import LABEL

USUAL_RECORDS = 10_000  # where nobody says how many there are
USUAL_STRENGTH = 0.2  # the mean over pairs, as a part of the largest possible departure from independence
MOST_FORECAST = 60  # attributes; with more, trying all pairs would take longer than the plan is worth
HARDLY = 1e12  # a factor on the noise so large that nothing more is measured
GOLDEN = (sqrt(5) - 1) / 2


def forecast(plan: Plan, schema: Schema, strength: float = USUAL_STRENGTH) -> float | None:
    """The expected mean S_pMSE of all two-way tables; None where a plan does not measure tables, or is too wide.

    Tables that the plan fixes are taken with their noise. Pairs that are chosen during the run are taken as the choice
    that ``one_look`` would make with the budget left for them.
    """
    choice = assumed_choice(plan, schema, strength)
    if choice is None:
        return None
    return choice.error(_measured(plan, schema, choice))


def with_forecast(plan: Plan, schema: Schema) -> Plan:
    """The plan with a sentence about its expected error, and what that assumes."""
    error = forecast(plan, schema)
    if error is None:
        return plan
    records = plan.records or plan.rows
    people = f"{records:,} records" if records else f"{USUAL_RECORDS:,} records, as nobody says how many there are"
    said = (
        f"Expected error of two-way tables: mean S_pMSE about {error:.2g} (1 is what a sample of the data has, below "
        f"10 is good, below 30 usable). This assumes {people}, and dependences as in usual surveys; with stronger or "
        "weaker ones it can be several times as much or as little."
    )
    return replace(plan, notes=(*plan.notes, said))


def assumed_choice(plan: Plan, schema: Schema, strength: float) -> PairChoice | None:
    """What a plan knows of every pair before it chooses, under the assumptions above."""
    names = [name for name in schema.names if schema[name].size > 1]
    steps = [step for step in plan.steps if step.action == "measure" and step.standard_deviation is not None]
    in_rows = plan.options.get("must_rows", True) in (True, "true")
    told = [step for step in steps if step.margin and (in_rows or not step.label.startswith(LABEL))]
    if isinstance(plan.budget, NonPrivate) or not told or not 2 <= len(names) <= MOST_FORECAST:
        return None
    records = float(plan.records or plan.rows or USUAL_RECORDS)
    levels = {name: _levels(schema[name].size) for name in names}
    even = {name: (1.0 - float((one**2).sum())) * one.size / (one.size - 1) for name, one in levels.items()}
    place = {name: number for number, name in enumerate(names)}
    ones = np.array([powers(records * levels[name]) for name in names])
    pairs = list(combinations(names, 2))
    first, known = np.zeros(len(names)), np.zeros(len(pairs))
    for step in told:
        inside = [name for name in step.margin if name in place]
        variance = max((step.standard_deviation or 0.0) ** 2, 1e-9) * schema.cells(step.margin)
        for name in inside:
            first[place[name]] += schema[name].size / variance
        for number, pair in enumerate(pairs):
            if len(inside) > 1 and set(pair) <= set(inside):
                known[number] += schema[pair[0]].size * schema[pair[1]].size / variance
    least = min(max((step.standard_deviation or 0.0) ** 2, 1e-9) for step in told)
    most = np.array([2 * records * min(1.0 - float((levels[name] ** 2).sum()) for name in pair) for pair in pairs])
    protected = np.array([[0.0 if is_public(schema, (name,), plan.unit) else 1.0] for name in names])
    left = _left(plan)
    return PairChoice(
        one_powers=ones * protected,
        first=first,
        pair_powers=np.array([crossed(ones[place[a]], ones[place[b]], records) for a, b in pairs]),
        known=known,
        ends=np.array([[place[a], place[b]] for a, b in pairs]),
        departures=np.minimum(_strengths(len(pairs), strength) * most, most),
        most=most,
        evenness=np.array([records * even[a] * even[b] for a, b in pairs]),
        noise=HARDLY * least if left is None else left,
        concentrated=not isinstance(plan.budget, PureDP),
        implied=0.0,  # nobody knows which pairs others imply, so none are assumed to be
    )


def _measured(plan: Plan, schema: Schema, choice: PairChoice) -> list[int]:
    """The pairs that rows follow: those that a plan fixes, and those it would choose during the run."""
    fixed = [int(number) for number in np.flatnonzero(choice.known > 0)]
    if _left(plan) is None:
        return fixed
    names = [name for name in schema.names if schema[name].size > 1]
    sizes = {name: schema[name].size for name in names}
    limit = int(plan.options.get("model_cells", 0) or 0)

    def fits(numbers: Sequence[int]) -> bool:
        groups = [tuple(names[end] for end in choice.ends[number]) for number in numbers]
        return tree_cells(sizes, groups) <= limit

    held: list[int] = []
    for number in fixed:
        if fits([*held, number]):
            held.append(number)
    return replace(choice, held=tuple(held)).choose(fits)


def _left(plan: Plan) -> float | None:
    """The variance on a cell, if one table got all that a plan spends on tables chosen during the run."""
    for step in plan.steps:
        if step.action == "measure" and not step.margin and step.repeats > 1 and step.standard_deviation is not None:
            power = 2 if isinstance(plan.budget, PureDP) else 1
            return float(step.standard_deviation**2 / step.repeats**power)
    return None


def _levels(size: int) -> np.ndarray:
    shares = 1.0 / np.arange(1, size + 1)
    return np.asarray(shares / shares.sum())


def _strengths(count: int, mean: float) -> np.ndarray:
    """Strengths from an exponential law, strong and weak ones mixed over the pairs."""
    places = (np.arange(1, count + 1) * GOLDEN) % 1.0
    return np.asarray(-mean * np.log1p(-(np.argsort(np.argsort(places)) + 0.5) / count))
