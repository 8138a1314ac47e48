"""What a schema leaves open is found first, inside the budget; then any method goes on with what was found.

A share of the budget, fixed by public facts, counts every attribute that has bounds and no edges on a fine public grid,
with noise, on several levels. The number of its bins is fixed beforehand; where they lie, and how values are spread
inside them, follows from these noisy counts alone. The method plans with the same number of bins, and runs with the
bins that were found, as if the schema had listed them. See docs/theory/found-columns.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from understudy.core.measurement import CLASSES, Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema, level_text
from understudy.errors import InputError, UnsupportedError
from understudy.models.found_bins import cell_counts, find_bins, levels_of, number_of_bins
from understudy.privacy.gate.gate import Gate, Query
from understudy.privacy.gate.measurement_steps import measure_step, query_of
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, PureDP, Unit
from understudy.privacy.promise.plan import Plan, Step
from understudy.privacy.promise.sensitivity import margin_sensitivity
from understudy.synth.shared.currency import Currency
from understudy.synth.shared.method import Request, Synthesis

Planner = Callable[[Schema, Request], Plan]
Runner = Callable[[Plan, Schema, Gate, Stream], Synthesis]

LEAST_SHARE, EACH, MOST_SHARE = Fraction(1, 10), Fraction(1, 20), Fraction(3, 10)
BINS = 16  # besides the bins of single values and of cuts
ROOM = Fraction(101, 100)  # noise is charged slightly more mu^2 than twice its rho


def share_of(schema: Schema) -> Fraction:
    """The share of the budget that finds bins: a tenth, and a twentieth for each attribute, up to three tenths."""
    return min(LEAST_SHARE + EACH * len(schema.open), MOST_SHARE)


def plan_finding(planner: Planner, schema: Schema, request: Request, *, left: Definition | None = None) -> Plan:
    """The plan of a method for a schema; with the steps that find what the schema leaves open, if there is anything.

    ``left``: the budget that an earlier plan left to the method, for making that plan again. ``auto`` may have tried
    other methods with another form of that budget first. Its sum is checked like any other.

    Raises
    ------
    InputError
        If an attribute that the unit calls fixed has bounds only.
    UnsupportedError
        If the guarantee cannot be divided between finding and the method.
    """
    if not schema.open:
        return planner(schema, request)
    steps = finding_steps(schema, request.unit, request.budget)
    likely = _likely(schema)
    best, *others = _rests(schema, request.budget) if left is None else [left]
    for rest in (best, *others):
        try:
            plan = planner(likely, replace(request, budget=rest))
        except UnsupportedError:
            if rest is best:
                raise
            break  # the method does not offer that form of what is left
        whole = replace(
            plan,
            schema_fingerprint=schema.fingerprint,
            budget=request.budget,
            steps=(*steps, *plan.steps),
            finding=len(steps),
            left=rest,
            notes=(_announced(schema, steps), *plan.notes),
        )
        if satisfies(compose(whole.events, whole.unit, by=whole.by), whole.budget):
            return whole
    raise UnsupportedError(
        f"{request.budget.title} cannot be divided between finding bins and this method; give edges instead of "
        "bounds, or choose another method."
    )


def finding_steps(schema: Schema, unit: Unit, budget: Definition) -> tuple[Step, ...]:
    """Every attribute that is open, on every level of its grid: equal parts of the share."""
    fixed = [attribute.name for attribute in schema.open if attribute.name in unit.fixed]
    if fixed:
        raise InputError(f"'{fixed[0]}' is fixed, so its counts are public; give it edges instead of bounds.")
    if not isinstance(budget, PureDP | ApproxDP | ZCDP):
        names = ", ".join(f"'{attribute.name}'" for attribute in schema.open)
        raise UnsupportedError(
            f"bins of {names} are found under a guarantee that can be divided (pure, approx, zcdp), which "
            f"{budget.title} is not; give edges instead of bounds."
        )
    currency = Currency.of(budget)
    levels = [(attribute, level) for attribute in schema.open for level in levels_of(attribute)]
    part = currency.amount * share_of(schema) / len(levels)
    steps = []
    for number, (attribute, level) in enumerate(levels):
        margin = (attribute.name,)
        sensitivity = margin_sensitivity(schema, margin, unit)
        place = sum(one is attribute for one, _ in levels[: number + 1])
        label = f"find bins of {attribute.name}: level {place}"
        noise = currency.noise_on(part, sensitivity)
        steps.append(
            measure_step(label=label, margin=margin, noise=noise, sensitivity=sensitivity, cells=max(level) + 1)
        )
    return tuple(steps)


def _rests(schema: Schema, budget: Definition) -> list[Definition]:
    """The budget left for the method, in several forms: the best form first, the one that always adds up last."""
    share = share_of(schema)
    whole = Currency.of(budget).part(1 - share)
    if not isinstance(budget, ApproxDP):
        return [whole]
    left = _left(budget, share)
    return [whole] if left is None else [left, whole]


@lru_cache(maxsize=64)
def _left(budget: ApproxDP, share: Fraction) -> ApproxDP | None:
    """The (epsilon', delta) that costs what the share leaves of rho and of mu^2, to about a thousandth."""
    currency, profile = Currency.of(budget), Currency.for_choosing(budget)
    amount = profile.amount - currency.amount * share * ROOM
    guess = budget.epsilon * Fraction(f"{float(1 - share) ** 0.5:.4f}")
    for smaller in range(20):  # epsilon is about proportional to the root of what it costs
        epsilon = Fraction(int(guess * (1 - Fraction(smaller, 500)) * 10**6), 10**6)
        if epsilon <= 0:
            return None
        left = ApproxDP(epsilon=epsilon, delta=budget.delta)
        chosen = Currency.for_choosing(left)
        cheap = chosen.bound != "gaussian" or profile.bound != "gaussian" or chosen.amount <= amount
        if cheap and Currency.of(left).amount <= currency.amount * (1 - share):
            return left
    return None


def _likely(schema: Schema) -> Schema:
    """A schema with as many bins as will be found, wherever they will lie."""
    return _with(schema, {one.name: np.diff(np.arange(one.bins + 1.0)) for one in schema.open})


def _with(schema: Schema, counts: dict[str, np.ndarray]) -> Schema:
    return replace(
        schema,
        attributes=tuple(
            find_bins(one, counts[one.name], number_of_bins(one, BINS)) if one.open else one
            for one in schema.attributes
        ),
    )


def found_schema(schema: Schema, measured: Sequence[Measurement]) -> Schema:
    """The schema with what was found, from what was measured to find it. Post-processing, the same for everybody."""
    counts = {}
    for attribute in schema.open:
        own = [one for one in measured if one.margin == (attribute.name,)]
        counts[attribute.name] = cell_counts(attribute, [one.values for one in own], _variances(own))
    return _with(schema, counts)


def _variances(measured: Sequence[Measurement]) -> list[float]:
    return [max(one.mechanism.variance, 1e-6) for one in measured]


def finding_queries(schema: Schema, steps: Sequence[Step]) -> list[Query]:
    """What the gate is asked for: the steps in order, each with its groups."""
    levels = [level for one in schema.open for level in levels_of(one)]
    return [replace(query_of(step, CLASSES), groups=level) for step, level in zip(steps, levels, strict=True)]


def run_finding(runner: Runner, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
    """Run a plan: first what finds, then the method with what was found."""
    if not plan.finding:
        return runner(plan, schema, gate, stream)
    measured = gate.measure(finding_queries(schema, plan.steps[: plan.finding]))
    found = found_schema(schema, measured)
    gate.adopt(found)
    made = runner(after_finding(plan, found), found, gate, stream)
    return replace(made, found=found, finding=tuple(measured), notes=(*_told(found), *made.notes))


def after_finding(plan: Plan, found: Schema) -> Plan:
    """What is left of a plan: that of the method, with its own budget, for the schema that was found."""
    if plan.left is None:
        return plan
    steps = plan.steps[plan.finding :]
    return replace(plan, steps=steps, budget=plan.left, finding=0, left=None, schema_fingerprint=found.fingerprint)


def _announced(schema: Schema, steps: Sequence[Step]) -> str:
    spread = max(step.standard_deviation or 0.0 for step in steps)
    return (
        f"Bins are found inside the budget for {', '.join(one.name for one in schema.open)}: "
        f"{float(share_of(schema)):.0%} of it counts a fine public grid, on each level with noise of standard "
        f"deviation {spread:.3g}."
    )


def _told(found: Schema) -> tuple[str, ...]:
    lines = []
    for one in found.attributes:
        if one.found:
            unit = f" ({one.measured_in})" if one.measured_in else ""
            ends = ", ".join(level_text(edge) for edge in one.edges)
            lines.append(f"Found: {one.name}{unit} has {one.bins} bins, at {ends}.")
    return tuple(lines)
