"""Design effects that are measured inside the budget: the steps that count clusters, and what follows from them.

See docs/theory/survey-weights.md, design effects measured inside the budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from understudy.core.measurement import NEIGHBOURS, SIZES, Measurement
from understudy.core.schema import Attribute, Schema
from understudy.core.survey_design import effects_to_measure
from understudy.errors import InputError
from understudy.models.cluster_effects import design_effect
from understudy.privacy.gate.cluster_counts import ClusterQuery
from understudy.privacy.gate.measurement_steps import measure_step, query_of
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.plan import Step
from understudy.privacy.promise.sensitivity import neighbours_sensitivity, sizes_sensitivity
from understudy.synth.shared.currency import Currency

SHARE = Fraction(1, 10)  # of the budget, for all counts of clusters together
CLASSES = 4  # of an attribute with more codes: neighbouring codes together
LABEL = "clusters"


def effects_share(schema: Schema) -> Fraction:
    """The share of the budget that counts of clusters take."""
    return SHARE if effects_to_measure(schema) else Fraction(0)


def classes_of(attribute: Attribute) -> tuple[int, ...]:
    """The class of each code: itself, or, if there are many, codes side by side in about equal numbers."""
    classes = min(attribute.size, CLASSES)
    return tuple(code * classes // attribute.size for code in range(attribute.size))


def effect_steps(schema: Schema, unit: Unit, currency: Currency) -> tuple[Step, ...]:
    """One step for the neighbours by each attribute, and one for the sizes of clusters, each with an equal part."""
    names, design = effects_to_measure(schema), schema.design
    if not names or design is None:
        return ()
    part = currency.amount * SHARE / (len(names) + 1)
    sizes = sizes_sensitivity(unit, design.clusters, design.largest_cluster)
    if sizes.l1 == 0:
        raise InputError(
            "a unit of one row is the cluster itself, so there are no neighbours to count: leave measure_effects out."
        )
    neighbours = neighbours_sensitivity(unit, design.clusters)
    noise = currency.noise_on(part, neighbours)
    steps = [
        measure_step(
            label=f"{LABEL}: neighbours by {name}", margin=(name,), noise=noise, sensitivity=neighbours,
            cells=(max(classes_of(schema[name])) + 1) ** 2,
        )
        for name in names
    ]  # fmt: skip
    own = measure_step(
        label=f"{LABEL}: sizes", margin=(), noise=currency.noise_on(part, sizes), sensitivity=sizes, cells=2
    )
    return (*steps, own)


def effect_queries(schema: Schema, steps: Sequence[Step]) -> list[ClusterQuery]:
    """The queries to the gate, by the codes of a schema whose bins were found."""
    return [
        ClusterQuery(
            margin=step.margin,
            mechanism=query_of(step).mechanism,
            label=step.label,
            classes=classes_of(schema[step.margin[0]]) if step.margin else (),
        )
        for step in steps
    ]


def with_measured_effects(schema: Schema, measured: Sequence[Measurement]) -> Schema:
    """The schema with the design effects that follow from noisy counts of clusters. Post-processing."""
    sizes = next((one for one in measured if one.cells == SIZES), None)
    if sizes is None or schema.design is None:
        return schema
    effects = []
    for one in measured:
        if one.cells == NEIGHBOURS:
            variances = one.mechanism.variance, sizes.mechanism.variance
            factor = design_effect(one.values, sizes.values, variances, largest=schema.design.largest_cluster)
            effects.append((one.margin[0], float(f"{factor:.4g}")))
    return replace(schema, design=replace(schema.design, measured_effects=tuple(effects)))


def announced_effects(steps: Sequence[Step]) -> tuple[str, ...]:
    """What a plan says of the counts of clusters."""
    if not steps:
        return ()
    names = ", ".join(step.margin[0] for step in steps if step.margin)
    return (
        f"Design effects of {names} are measured inside the budget: {float(SHARE):.0%} of it counts how alike the rows "
        f"of a cluster are, with noise of standard deviation {steps[0].standard_deviation or 0.0:.3g}.",
    )


def told_effects(schema: Schema) -> tuple[str, ...]:
    """What a release says of the design effects it measured."""
    if schema.design is None or not schema.design.measured_effects:
        return ()
    effects = ", ".join(f"{name} {factor:.3g}" for name, factor in schema.design.measured_effects)
    return (f"Measured design effects, each with one standard error added: {effects}.",)
