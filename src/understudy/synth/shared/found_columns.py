"""What a schema leaves open is found first, inside the budget; then any method runs with what was found.

A share of the budget, fixed by public facts, counts every attribute that has bounds and no edges on a fine public grid,
with noise, on several levels. The number of its bins is fixed beforehand. Their edges, and how values are spread
inside them, follow from these noisy counts alone. The method plans with the same number of bins, and runs with the
bins that were found, as if the schema had listed them. See docs/theory/found-columns.md.

Unlisted codes are found by noisy counts too: over a public list, or among those that occur, with a threshold
whose delta is charged first. Their number is not known beforehand, so the method plans again, with the same
part of the budget, once they are found. See docs/theory/discovered-codes.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import log, sqrt

import numpy as np

from understudy.core.discovered_codes import OTHER, generations, parent_chain
from understudy.core.exact_numbers import sqrt_down
from understudy.core.measurement import CLASSES, CODES, Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Attribute, Schema, level_text
from understudy.core.survey_design import effects_to_measure
from understudy.errors import BudgetError, GuaranteeNotOfferedError, InputError, UnsupportedError
from understudy.models.found_bins import cell_counts, find_bins, levels_of, number_of_bins
from understudy.privacy.exact.stability_delta import least_threshold
from understudy.privacy.gate.discovering import CodeQuery
from understudy.privacy.gate.gate import Gate, Query
from understudy.privacy.gate.measurement_steps import measure_step, query_of
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric
from understudy.privacy.mechanisms.stability_threshold import StabilityThreshold
from understudy.privacy.promise.accountant import compose, loss_of, satisfies
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, PureDP, Unit
from understudy.privacy.promise.event import ThresholdedNoise
from understudy.privacy.promise.plan import Plan, Step
from understudy.privacy.promise.sensitivity import code_sensitivity, margin_sensitivity
from understudy.synth.shared.currency import Currency
from understudy.synth.shared.expected_error import forecast
from understudy.synth.shared.measured_effects import (
    announced_effects,
    effect_queries,
    effect_steps,
    effects_share,
    told_effects,
    with_measured_effects,
)
from understudy.synth.shared.method import Request, Synthesis, configure

Planner = Callable[[Schema, Request], Plan]
Runner = Callable[[Plan, Schema, Gate, Stream], Synthesis]

LEAST_SHARE, EACH, MOST_SHARE = Fraction(1, 10), Fraction(1, 20), Fraction(3, 10)
BINS = 16  # besides the bins of single values and of cuts
ROOM = Fraction(101, 100)  # noise is charged slightly more mu^2 than twice its rho
DELTA_SHARE = Fraction(1, 4)  # of delta, for codes that occur; elsewhere only the logarithm of delta matters
NO_DELTA = "No delta is used: for so few tables the noise of a pure guarantee is smaller, and it keeps this one too."
CLEARLY_LESS = 0.9  # of the expected error, for a plan without delta
CODE_WEIGHT = 2  # parts for a look at codes; a level of a grid gets one part
INVENTED = 0.01  # the probability that noise alone makes a level of any code of a public list


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One noisy look at an open attribute: what is counted, and under which name."""

    attribute: Attribute
    label: str
    groups: tuple[int, ...] | None = None  # of a public grid or list; None if codes are found among those that occur
    names: tuple[str, ...] = ()  # of the groups of a public list
    length: int | None = None  # of the prefixes of codes that are counted

    @property
    def weight(self) -> int:
        return CODE_WEIGHT if self.attribute.most_codes else 1


def looks(schema: Schema) -> list[Look]:
    """Every look at what is open: grids and public lists first, then codes that occur."""
    return [
        *(look for one in schema.open if not _occurring(one) for look in _public_looks(one)),
        *(look for one in schema.open if _occurring(one) for look in _looks_at_codes(one)),
    ]


def _occurring(attribute: Attribute) -> bool:
    return attribute.open and bool(attribute.most_codes) and not attribute.among


def _public_looks(attribute: Attribute) -> list[Look]:
    if not attribute.most_codes:
        return [
            Look(attribute=attribute, label=f"find bins of {attribute.name}: level {place}", groups=level)
            for place, level in enumerate(levels_of(attribute), start=1)
        ]
    found = []
    for place, generation in enumerate(generations(attribute), start=1):
        names = tuple(sorted(set(generation.values())))
        number = {name: group for group, name in enumerate(names)}
        groups = [number[generation[str(code)]] for code in attribute.levels]
        rest = range(len(names), len(names) + attribute.size - attribute.bins)
        label = f"find codes of {attribute.name}: level {place}"
        found.append(Look(attribute=attribute, label=label, groups=(*groups, *rest), names=names))
    return found


def _looks_at_codes(attribute: Attribute) -> list[Look]:
    label = f"find codes of {attribute.name}"
    beginnings = [
        Look(attribute=attribute, label=f"{label}: first {length}", length=length)
        for length in reversed(attribute.prefixes)
    ]
    return [Look(attribute=attribute, label=label), *beginnings]


def share_of(schema: Schema) -> Fraction:
    """The share of the budget that is spent before the method begins: on finding, and on clusters."""
    return _share_of_looks(schema) + effects_share(schema)


def _share_of_looks(schema: Schema) -> Fraction:
    """The share for finding: a tenth, plus a twentieth for each open attribute, at most three tenths."""
    return min(LEAST_SHARE + EACH * len(schema.open), MOST_SHARE) if schema.open else Fraction(0)


def plan_finding(planner: Planner, schema: Schema, request: Request, *, left: Definition | None = None) -> Plan:
    """The plan of a method for a schema; with the steps that find what the schema leaves open, if there is anything.

    ``left``: the budget that an earlier plan left to the method, for making that plan again. ``auto`` may have tried
    other methods with another form of that budget first. Its sum is checked like any other.

    Raises
    ------
    InputError
        If an attribute that the unit calls fixed has bounds only.
    UnsupportedError
        If the guarantee cannot be divided between finding and the method, or has no delta for codes that occur.
    """
    if not schema.open and not effects_to_measure(schema):
        return planner(schema, request)
    pure = _without_delta(schema, request.budget)
    if left is not None:
        spent = pure if pure is not None and isinstance(left, PureDP) else request.budget
        return _divided(planner, schema, request, spent, left=left)
    plan = _divided(planner, schema, request, request.budget)
    if pure is None:
        return plan
    try:
        other = _divided(planner, schema, request, pure)
    except (BudgetError, InputError, UnsupportedError):
        return plan  # the method does not offer it, or needs more of it
    return replace(other, notes=(*other.notes, NO_DELTA)) if _less_error(other, plan, schema, request) else plan


def _without_delta(schema: Schema, budget: Definition) -> PureDP | None:
    """A promise that keeps the budget and more, and divides otherwise: with few tables it has less noise."""
    if not isinstance(budget, ApproxDP) or any(one.most_codes for one in schema.open):
        return None
    return PureDP(epsilon=budget.epsilon)


def _less_error(pure: Plan, plan: Plan, schema: Schema, request: Request) -> bool:
    """Whether the pure plan has clearly less expected error in two-way tables, and every table that the other fixes
    with no more noise, by itself or within a larger one.

    Both plans are made from public facts. Answers rest on the tables that are fixed, rows on all.
    """
    likely = _likely(schema, request, plan.steps[: plan.finding])
    without, by_delta = (after_finding(one, likely) for one in (pure, plan))
    noise = {step.margin: step.standard_deviation or 0.0 for step in by_delta.steps if step.margin}
    if any(_noise_within(without, margin, likely) > noise[margin] for margin in noise):
        return False
    least, most = forecast(without, likely), forecast(by_delta, likely)
    if least is None or most is None:  # one attribute has no two-way tables; then its own noise counts
        own = [step.standard_deviation or 0.0 for step in without.steps if step.margin]
        return len(likely.names) == 1 and sum(own) < CLEARLY_LESS * sum(noise.values())
    return least < CLEARLY_LESS * most


def _noise_within(plan: Plan, margin: tuple[str, ...], schema: Schema) -> float:
    """The least standard deviation of noise that a plan's tables give the cells of a margin, summed where needed."""
    tables = [step for step in plan.steps if step.margin and set(margin) <= set(step.margin)]
    return min(
        (
            (step.standard_deviation or 0.0) * float(np.sqrt(schema.cells(step.margin) / schema.cells(margin)))
            for step in tables
        ),
        default=float("inf"),
    )


def _divided(
    planner: Planner, schema: Schema, request: Request, spent: Definition, *, left: Definition | None = None
) -> Plan:
    """The steps that find and the plan of the method, which together spend ``spent``; ``left`` is for the method."""
    steps = finding_steps(schema, request.unit, spent)
    clusters = effect_steps(schema, request.unit, Currency.of(_beside_delta(schema, spent)))
    codes = any(one.most_codes for one in schema.open)
    likely = _likely(schema, request, steps)
    rests = _rests(schema, spent) if left is None else [left]
    for rest in rests:
        try:
            plan = planner(likely, replace(request, budget=rest))
        except UnsupportedError as refused:
            if rest is not rests[0]:
                break  # the method does not offer that form of what is left
            if isinstance(refused, GuaranteeNotOfferedError) and rest.name != spent.name:
                raise UnsupportedError(
                    f"codes are found first, and what they leave of {spent.title} is {rest.title}: {refused} List the "
                    "levels, or choose a method that measures tables (auto, ipf, mst)."
                ) from None
            raise
        whole = replace(
            plan,
            schema_fingerprint=schema.fingerprint,
            budget=request.budget,
            steps=(*steps, *clusters, *plan.steps),
            finding=len(steps) + len(clusters),
            left=rest,
            notes=(*_announced(schema, steps, request.unit), *announced_effects(clusters), *plan.notes),
        )
        if codes:  # what is measured after they were found depends on how many there are, within what is left of rho
            whole = replace(whole, adaptive=True, read_by="concentrated")
            _require_replanning(plan, schema, replace(request, budget=rest))
        if satisfies(compose(whole.events, whole.unit, by=whole.by), whole.budget):
            return whole
    raise UnsupportedError(
        f"{request.budget.title} cannot be divided between finding and this method; give edges instead of bounds, "
        "levels instead of codes to discover, or choose another method."
    )


def _require_replanning(plan: Plan, schema: Schema, request: Request) -> None:
    """A plan is made again once codes are found; refused here if that could fail, before anything is charged."""
    if any(step.action == "draw" for step in plan.steps):
        raise UnsupportedError(
            f"method '{plan.method}' draws from the data by the number of codes, which is not known before they are "
            "found; list the levels, or choose a method that measures tables (auto, ipf, mst)."
        )
    # The fewest levels there can be. More of them only divide cells.
    _plan_again(plan, _likely(schema, request, (), most=0), request)


def finding_steps(schema: Schema, unit: Unit, budget: Definition) -> tuple[Step, ...]:
    """One step for every look at every open attribute, each with its part of the share."""
    fixed = [attribute.name for attribute in schema.open if attribute.name in unit.fixed]
    if fixed:
        raise InputError(
            f"'{fixed[0]}' is fixed, so its counts are public; give it edges instead of bounds, or list its levels."
        )
    if not isinstance(budget, PureDP | ApproxDP | ZCDP):
        names = ", ".join(f"'{attribute.name}'" for attribute in schema.open)
        what = f"finding bins and codes of {names}" if names else "measuring design effects"
        raise UnsupportedError(
            f"{what} needs a guarantee that can be divided (pure, approx, zcdp); asked for is {budget.title}. Give "
            "edges instead of bounds, list the levels, and declare design effects."
        )
    if not schema.open:
        return ()
    currency, planned = Currency.of(_beside_delta(schema, budget)), looks(schema)
    part = currency.amount * _share_of_looks(schema) / sum(look.weight for look in planned)
    occurring = sum(look.groups is None for look in planned)
    steps = []
    for look in planned:
        margin = (look.attribute.name,)
        if look.groups is None:
            assert isinstance(budget, ApproxDP)  # noqa: S101  (else refused above)
            sensitivity = code_sensitivity(schema, margin, unit)
            # rho = L2^2 / (2 sigma^2), rounded to more noise
            scale = DiscreteGaussian(scale=1 / sqrt_down(2 * part * look.weight / sensitivity.l2_squared)).scale
            threshold = least_threshold(scale, unit.rows_per_unit, budget.delta * DELTA_SHARE / occurring)
            found = StabilityThreshold(scale=scale, threshold=threshold)
            steps.append(
                Step(label=look.label, margin=margin, action="discover", event=found.event(sensitivity),
                     standard_deviation=sqrt(found.variance))
            )  # fmt: skip
            continue
        sensitivity = margin_sensitivity(schema, margin, unit)
        noise = currency.noise_on(part * look.weight, sensitivity)
        steps.append(
            measure_step(
                label=look.label, margin=margin, noise=noise, sensitivity=sensitivity, cells=max(look.groups) + 1
            )
        )
    return tuple(steps)


def _beside_delta(schema: Schema, budget: Definition) -> Definition:
    """What is left of a budget when delta for codes that occur is set aside, before anything else is planned."""
    occurring = [one.name for one in schema.open if _occurring(one)]
    if not occurring:
        return budget
    if not isinstance(budget, ApproxDP):
        raise UnsupportedError(
            f"codes of '{occurring[0]}' are found among those that occur. One person's code can then be published, "
            f"with a small probability, which needs a delta; {budget.title} has none. Give a delta, or a public list "
            "that has every possible code (among), or list the levels."
        )
    return ApproxDP(epsilon=budget.epsilon, delta=budget.delta * (1 - DELTA_SHARE))


def _rests(schema: Schema, budget: Definition) -> list[Definition]:
    """The budget left for the method, in several forms: the best form first, the one that always adds up last."""
    share = share_of(schema)
    whole = Currency.of(_beside_delta(schema, budget)).part(1 - share)
    if not isinstance(budget, ApproxDP) or any(one.most_codes for one in schema.open):
        return [whole]
    left = _left(budget, share)
    return [whole] if left is None else [left, whole]


@lru_cache(maxsize=64)
def _left(budget: ApproxDP, share: Fraction) -> ApproxDP | None:
    """The (epsilon', delta) that costs the rest of rho and of mu^2 after the share, to about a thousandth."""
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


def _likely(schema: Schema, request: Request, steps: Sequence[Step], *, most: int | None = None) -> Schema:
    """A schema with as many bins as will be found, at any edges, and as many codes as are possible, or ``most``."""
    grids = {one.name: np.diff(np.arange(one.bins + 1.0)) for one in schema.open if one.bounds}
    codes = {}
    for one in schema.open:
        if one.most_codes:
            number = min(one.most_codes, len(one.among) or one.most_codes)
            events = [step.event for step in steps if step.margin == (one.name,)]
            if request.records and events and isinstance(events[0], ThresholdedNoise):
                number = min(number, max(int(request.records // events[0].threshold), 1))
            names = one.among or tuple(f"code {place}" for place in range(1, number + 1))
            levels = (*names[: number if most is None else most], OTHER)
            codes[one.name] = replace(one, found=True, levels=levels, longest_code=1000)
    return _with(schema, grids, codes)


def _bins(schema: Schema, attribute: Attribute) -> int:
    """How many bins are found. A weight has few: each of its tables is multiplied by them, and so is the noise."""
    weights = () if schema.weight is None else (schema.weight, *schema.weight.other)
    return next((one.bins for one in weights if one.column == attribute.name), BINS)


def _with(schema: Schema, counts: dict[str, np.ndarray], codes: dict[str, Attribute]) -> Schema:
    return replace(
        schema,
        attributes=tuple(
            codes[one.name]
            if one.name in codes
            else find_bins(
                one, counts[one.name], number_of_bins(one, _bins(schema, one)), even=one.name in schema.weights
            )
            if one.open
            else one
            for one in schema.attributes
        ),
    )


def found_schema(schema: Schema, measured: Sequence[Measurement]) -> Schema:
    """The schema with what was found, from the noisy counts. Post-processing: everybody gets the same result."""
    counts, codes = {}, {}
    for attribute in schema.open:
        own = [one for one in measured if one.margin == (attribute.name,) and one.cells in (CLASSES, CODES)]
        if attribute.most_codes:
            codes[attribute.name] = find_codes(attribute, _generations(attribute, own))
        else:
            counts[attribute.name] = cell_counts(
                attribute, [one.values for one in own], _variances(own), weight=attribute.name in schema.weights
            )
    return with_measured_effects(_with(schema, counts, codes), measured)


def _generations(attribute: Attribute, measured: Sequence[Measurement]) -> list[Generation]:
    """The noisy counts of codes and then of their parents. A look that found no code has no measurement."""
    told = {one.label: one for one in measured}
    found = []
    for look in looks(Schema(attributes=(attribute,))):
        one = told.get(look.label)
        if one is None:
            found.append(Generation(counts={}, variance=0.0, least=0.0))
        elif look.groups is None:
            counts = dict(zip(one.codes, one.values.tolist(), strict=True))
            found.append(Generation(counts=counts, variance=one.mechanism.variance, least=0.0))
        else:
            counts = dict(zip(look.names, one.values[: len(look.names)].tolist(), strict=True))
            least = _clear_of_noise(one, len(attribute.levels))
            found.append(Generation(counts=counts, variance=one.mechanism.variance, least=least))
    return found


def _clear_of_noise(measured: Measurement, codes: int) -> float:
    """The noisy count that noise alone reaches, for any of ``codes`` codes, with probability at most ``INVENTED``."""
    wanted, noise = log(codes / INVENTED), measured.mechanism
    if isinstance(noise, Geometric):
        return float(noise.scale) * wanted
    if isinstance(noise, DiscreteGaussian):
        return float(noise.scale) * sqrt(2 * wanted)
    raise InputError(f"codes are not found with noise by '{noise.name}'.")


def _variances(measured: Sequence[Measurement]) -> list[float]:
    return [max(one.mechanism.variance, 1e-6) for one in measured]


def finding_queries(schema: Schema, steps: Sequence[Step]) -> tuple[list[Query], list[CodeQuery]]:
    """The queries to the gate: the steps in order, each with its groups, or with the length of the prefix."""
    queries, codes = [], []
    for look, step in zip(looks(schema), steps, strict=True):
        if look.groups is not None:
            queries.append(replace(query_of(step, CLASSES), groups=look.groups))
        elif isinstance(step.event, ThresholdedNoise):
            mechanism = StabilityThreshold(scale=step.event.scale, threshold=int(step.event.threshold))
            codes.append(CodeQuery(margin=step.margin, mechanism=mechanism, label=step.label, length=look.length))
    return queries, codes


def run_finding(runner: Runner, plan: Plan, schema: Schema, gate: Gate, stream: Stream) -> Synthesis:
    """Run a plan: first the steps that find, then the method with what was found."""
    if not plan.finding:
        return runner(plan, schema, gate, stream)
    looked = len(looks(schema))
    queries, codes = finding_queries(schema, plan.steps[:looked])
    measured = [*(gate.measure(queries) if queries else ()), *(gate.discover(codes) if codes else ())]
    found = found_schema(schema, measured)
    gate.adopt(found)
    if looked < plan.finding:  # classes of an attribute are those of the bins that were found
        measured += gate.count_clusters(effect_queries(found, plan.steps[looked : plan.finding]))
        found = found_schema(schema, measured)
    made = runner(after_finding(plan, found), found, gate, stream)
    return replace(made, found=found, finding=tuple(measured), notes=(*_told(found), *told_effects(found), *made.notes))


def after_finding(plan: Plan, found: Schema) -> Plan:
    """The rest of a plan: the plan of the method, with its own budget, for the schema that was found."""
    if plan.left is None:
        return plan
    if any(one.most_codes and one.found for one in found.attributes):
        request = Request(budget=plan.left, unit=plan.unit, copies=plan.copies, rows=plan.rows, records=plan.records)
        return _plan_again(plan, found, request)
    steps = plan.steps[plan.finding :]
    return replace(plan, steps=steps, budget=plan.left, finding=0, left=None, schema_fingerprint=found.fingerprint)


def _plan_again(plan: Plan, schema: Schema, request: Request) -> Plan:
    return configure(plan.method, plan.options).plan(schema, request)


def _announced(schema: Schema, steps: Sequence[Step], unit: Unit) -> tuple[str, ...]:
    lines = []
    public = [one for one in schema.open if not _occurring(one)]
    for what, counted, names in (
        ("Bins", "a fine public grid", [one.name for one in public if not one.most_codes]),
        ("Codes of a public list", "the list", [one.name for one in public if one.most_codes]),
    ):
        spreads = [step.standard_deviation or 0.0 for step in steps if step.margin and step.margin[0] in names]
        if names:
            lines.append(
                f"{what} are found inside the budget for {', '.join(names)}: a part of it counts {counted}, on each "
                f"level with noise of standard deviation {max(spreads):.3g}. Finding takes "
                f"{float(_share_of_looks(schema)):.0%} of the budget in all."
            )
    for step in steps:
        if isinstance(step.event, ThresholdedNoise):
            threshold, spread = int(step.event.threshold), step.standard_deviation or 0.0
            length = step.label.partition(": first ")[2]
            what = f"Prefixes of {step.margin[0]} ({length} long)" if length else f"Codes of {step.margin[0]}"
            lines.append(
                f"{what} are published if their noisy count reaches {threshold:,} (noise of standard deviation "
                f"{spread:.3g}). Those of {round(threshold + 3 * spread):,} rows or more are hardly ever missed. The "
                "probability that one of a single unit is published is at most "
                f"{float(loss_of(step.event, unit).approx_delta):.2g}, and is charged first."
            )
    return tuple(lines)


def _told(found: Schema) -> tuple[str, ...]:
    lines = []
    for one in found.attributes:
        if one.found and one.most_codes:
            codes = ", ".join(level_text(level) for level in one.levels[:-1])
            told = f"{len(one.levels) - 1} code(s): {codes}" if codes else "no code that is frequent enough"
            lines.append(f"Found: {one.name} has {told}; everything else is '{OTHER}'.")
        elif one.found:
            unit = f" ({one.measured_in})" if one.measured_in else ""
            ends = ", ".join(level_text(edge) for edge in one.edges)
            lines.append(f"Found: {one.name}{unit} has {one.bins} bins, at {ends}.")
    return tuple(lines)


# Levels from noisy counts of codes and of their parents. Post-processing: no record is seen here.
#
# A code whose count is clear of the noise is a level. The counts of such codes are subtracted from that of their
# parent; if the rest is clear of the noise, the parent is a level too, and rare codes roll up to it. If there are
# more than the schema allows, the smallest roll up as well. See docs/theory/discovered-codes.md.


CLEAR = 3.0  # standard deviations above 0 that the rest of a parent needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Noisy counts of one level of a hierarchy: codes, or their parents."""

    counts: dict[str, int]
    """The noisy count of each."""
    variance: float
    """Of the noise on each."""
    least: float
    """The smallest noisy count that is not taken for noise."""


def find_codes(attribute: Attribute, generations: Sequence[Generation]) -> Attribute:
    """The attribute with the levels that were found, sorted by text, and then ``other``. In ``generations`` the codes
    come first, and then their parents, the nearest first."""
    first, *above = generations
    mass = {code: float(count) for code, count in first.counts.items() if count >= first.least}
    spread = dict.fromkeys(mass, first.variance)
    for generation in above:
        rest = {node: (float(count), generation.variance) for node, count in generation.counts.items()}
        for code, own in mass.items():
            for node in parent_chain(attribute, code):
                if node in rest:
                    rest[node] = (rest[node][0] - own, rest[node][1] + spread[code])
        for node, (left, variance) in sorted(rest.items()):
            clear = generation.counts[node] >= generation.least and left >= CLEAR * variance**0.5
            if clear and node not in mass:
                mass[node], spread[node] = left, variance
    while len(mass) > attribute.most_codes:
        smallest = min(mass, key=lambda code: (mass[code], code))
        own = mass.pop(smallest)
        kept = next((node for node in parent_chain(attribute, smallest) if node in mass), None)
        if kept is not None:
            mass[kept] += own
    return replace(attribute, found=True, levels=(*sorted(mass), OTHER))
