"""Whole models drawn from the noise-aware posterior, one for each synthetic copy.

Copies from one fitted model share its errors, so the variance between them says nothing about the noise. A copy from a
model of its own, drawn from the posterior given all noisy tables, varies by noise and by sampling. Then the rules for
fully synthetic data (``T_f*``) hold. This is post-processing of public values: any number of draws costs no privacy.
All randomness comes from the stream of the run.

Small models (``DENSE_CELLS``, ``DENSE_EFFECTS``) are drawn from ``models/posterior.py`` by importance weights. If the
weights are uneven, random-walk Metropolis steps follow. For larger models each copy is fitted to a replicate of the
measurements: the noisy values, plus the sampling error of as many records from the fitted model, plus new noise of the
same law. To first order this is the same, apart from the prior strength in the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.models.effects import Effects, NoisyTable, effects_of, make_effects, reduce_tables
from understudy.models.fit import EXACT_VARIANCE, LEAST_VARIANCE, Known, build_tree, fit
from understudy.models.junction_tree import JunctionTree, Margin
from understudy.models.model import Model
from understudy.models.posterior import LEAST_EFFECTIVE, Posterior
from understudy.privacy.randomness.draws import unit_interval

DENSE_CELLS = 20_000
DENSE_EFFECTS = 120
STEPS_PER_PARAMETER = 15
JUMP = 2.38  # over the square root of the dimension: the best step of a random walk (Gelman, Roberts and Gilks 1996)


class StreamSource:
    """Normal and uniform numbers from the substream of a run. No privacy rests on them."""

    def __init__(self, stream: Stream, *purpose: str | int) -> None:
        self._stream = stream
        self._purpose = purpose

    def random(self, size: int) -> Floats:
        return unit_interval(self._stream, size, *self._purpose)

    def standard_normal(self, size: tuple[int, ...]) -> Floats:
        from scipy.special import ndtri

        drawn = ndtri(self.random(int(np.prod(size))) + 2.0**-54)
        return np.asarray(drawn).reshape(size)


def posterior_models(
    schema: Schema, measured: Sequence[Measurement], *, total: float, public_total: bool, copies: int,
    stream: Stream, known: Known, prior: float, fitted: Model,
) -> tuple[list[Model], str]:  # fmt: skip
    """One model for each copy, and how they were drawn."""
    margins = [margin for margin in dict.fromkeys([*(one.margin for one in measured), *known]) if margin]
    sizes = dict(zip(schema.names, schema.shape(), strict=True))
    effects = effects_of(margins)
    count = sum(int(np.prod([sizes[name] - 1 for name in effect])) for effect in effects)
    if schema.cells() <= DENSE_CELLS and count <= DENSE_EFFECTS:
        design = make_effects(schema, schema.names, margins)
        tables = [table_of(schema, one) for one in measured if one.margin or not public_total]
        tables += [_known_table(margin, values) for margin, values in known.items() if margin]
        records = round(total) if public_total else None
        posterior = Posterior(design, reduce_tables(design, tables, records), records)
        drawn = drawn_from(posterior, copies, StreamSource(stream, "posterior"))
        tree = build_tree(schema, margins)
        shares = posterior.shares(drawn)
        models = [_model(tree, design, share, total) for share in shares]
        return models, "Each copy has a model of its own, drawn from the noise-aware posterior of its parameters."
    models = [
        _replicate(schema, measured, copy=copy, stream=stream, known=known, prior=prior, fitted=fitted)
        for copy in range(1, copies + 1)
    ]
    return models, (
        "Each copy has a model of its own, fitted to its own replicate of the measurements (sampling and noise): the "
        "model is too large for draws from the posterior itself."
    )


def table_of(schema: Schema, measurement: Measurement) -> NoisyTable:
    """A measurement as it is, with its noise."""
    variance = max(float(measurement.mechanism.variance), LEAST_VARIANCE)
    cells = np.flatnonzero(schema.allowed(measurement.margin).reshape(-1)) if measurement.margin else np.zeros(1, int)
    if measurement.cells == "first":
        cells = cells[:1]
    values = measurement.values.reshape(-1)
    values = values if len(values) == len(cells) else values[cells]
    return NoisyTable(
        margin=measurement.margin,
        cells=cells,
        values=values.astype(np.float64),
        variances=np.full(len(cells), variance),
        excess=np.zeros(len(cells)),
    )


def _known_table(margin: Margin, values: NDArray[np.int64]) -> NoisyTable:
    flat = values.reshape(-1).astype(np.float64)
    cells = np.flatnonzero(flat)
    return NoisyTable(
        margin=margin,
        cells=cells,
        values=flat[cells],
        variances=np.full(len(cells), EXACT_VARIANCE),
        excess=np.zeros(len(cells)),
    )


def drawn_from(posterior: Posterior, copies: int, source: StreamSource) -> Floats:
    """Parameters of each copy: importance draws. If the weights are uneven, a random walk follows; the posterior is its
    stationary distribution."""
    sample = posterior.draw(source, max(LEAST_EFFECTIVE, 20 * copies))
    points = sample.resample(copies, source)
    if sample.effective >= max(LEAST_EFFECTIVE, 20 * copies) or not posterior.dimension:
        return points
    centre = sample.weights @ sample.parameters
    away = sample.parameters - centre
    spread = (sample.weights[:, None] * away).T @ away
    _, curvature = posterior.mode()
    factor = np.linalg.cholesky(spread + 0.05 * curvature) * (JUMP / np.sqrt(posterior.dimension))
    log = posterior.log_density(points)
    for _ in range(STEPS_PER_PARAMETER * posterior.dimension):
        moved = points + source.standard_normal(points.shape) @ factor.T
        found = posterior.log_density(moved)
        taken = np.log(source.random(copies) + 2.0**-54) < found - log
        points[taken], log[taken] = moved[taken], found[taken]
    return points


def _model(tree: JunctionTree, effects: Effects, share: Floats, total: float) -> Model:
    full = np.zeros(effects.shape)
    full.reshape(-1)[effects.possible] = share
    beliefs = []
    for clique in tree.cliques:
        others = tuple(place for place, name in enumerate(effects.margin) if name not in clique)
        beliefs.append(full.sum(axis=others))
    return Model(tree=tree, beliefs=tuple(beliefs), total=total)


def _replicate(
    schema: Schema, measured: Sequence[Measurement], *, copy: int, stream: Stream, known: Known, prior: float,
    fitted: Model,
) -> Model:  # fmt: skip
    """The model fitted to the noisy values after sampling error and noise were added once more."""
    rows = max(1, round(fitted.total))
    sample = fitted.draw(schema, rows, "multinomial", stream, "replicate", copy)
    moved = []
    for number, one in enumerate(measured):
        if not one.margin or one.cells == "first":
            moved.append(one)
            continue
        source = StreamSource(stream, "replicate noise", copy, number)
        noise = source.standard_normal(one.values.shape) * np.sqrt(one.mechanism.variance)
        sampling = sample.counts(one.margin) - fitted.project(one.margin)
        allowed = schema.allowed(one.margin)
        values = np.where(allowed, np.rint(one.values + sampling + noise), 0).astype(np.int64)
        moved.append(replace(one, values=values))
    model, _ = fit(schema, moved, total=fitted.total, prior=prior, stream=stream, known=known)
    return model
