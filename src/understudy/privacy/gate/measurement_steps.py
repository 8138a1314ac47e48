"""Between noise and plan: a step that announces a measurement, and the query that carries it out."""

from __future__ import annotations

import math

from understudy.errors import InternalError
from understudy.privacy.gate.gate import Query
from understudy.privacy.mechanisms.bounded_noise import ExponentialNoise, TrimmedNoise
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Exact, Geometric
from understudy.privacy.promise.event import GaussianNoise, GeometricNoise, NoNoise, Sensitivity
from understudy.privacy.promise.plan import Step

Noise = Geometric | DiscreteGaussian | TrimmedNoise | ExponentialNoise


def measure_step(*, label: str, margin: tuple[str, ...], noise: Noise, sensitivity: Sensitivity, cells: int) -> Step:
    """The plan's announcement of one noisy margin."""
    return Step(
        label=label,
        margin=margin,
        action="measure",
        event=noise.event(sensitivity),
        cells=cells,
        standard_deviation=math.sqrt(noise.variance),
    )


def query_of(step: Step, cells: str = "all") -> Query:
    """The query that runs exactly what a step announced: its noise is read back from the event."""
    if isinstance(step.event, GeometricNoise):
        return Query(margin=step.margin, mechanism=Geometric(scale=step.event.scale), label=step.label, cells=cells)
    if isinstance(step.event, GaussianNoise):
        return Query(
            margin=step.margin, mechanism=DiscreteGaussian(scale=step.event.scale), label=step.label, cells=cells
        )
    if isinstance(step.event, NoNoise) and step.action == "measure":
        return Query(margin=step.margin, mechanism=Exact(), label=step.label, cells=cells)
    raise InternalError(f"step '{step.label}' is not a measurement.")
