"""Noisy tables of the same number of two members, such as the ages of partners, made smooth along their difference.

In the table of the ages of two members what matters is how far they are apart. So its counts are taken as
exp(row + column + f(difference)), with f piecewise linear and its second differences held small: few numbers, each of
which rests on many cells, where a cell by itself is mostly noise. They minimise the squared distances from the noisy
counts divided by their variance, plus the squares of those numbers divided by what they may be. What the table says
beyond this is kept as far as it stands clear of noise (Stein's rule): with D the mean squared distance that noise does
not explain and v the variance of the noise, D / (D + v) of it. Cells of special codes and of empty slots stay as they
are. This is post-processing: only noisy counts, public edges and structural zeros are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.core.bins import bins_of
from understudy.core.linked_schema import LinkedSchema
from understudy.core.measurement import Measurement
from understudy.privacy.mechanisms.noise import DiscreteGaussian

FEWEST_BINS, MOST_BINS = 4, 64  # with fewer a difference says nothing new; with more it takes too long
BEND, LEVEL = 1.0, 4.0  # how large second differences of f, and rows, columns and f, may well be on a logarithmic scale
STEPS, SETTLED = 60, 1e-6
LARGEST_LOG = 20.0


def smoothed(schema: LinkedSchema, measured: Sequence[Measurement]) -> list[Measurement]:
    """The tables of households, those of the first attribute of two members smooth where it is a number."""
    if not has_differences(schema):
        return list(measured)
    anchor = schema.members[schema.anchor]
    columns = {slot.column(schema.anchor) for slot in schema.slots}
    inside = (slice(anchor.bins), slice(anchor.bins))
    found = []
    for one in measured:
        if len(one.margin) != 2 or not set(one.margin) <= columns or one.cells != "all":
            found.append(one)
            continue
        noisy, variance = one.values[inside].astype(np.float64), max(one.mechanism.variance, 1.0)
        possible = schema.wide.allowed(one.margin)[inside]
        table, left = by_difference(noisy, variance, bins_of(anchor).means(), possible)
        values = one.values.copy()
        values[inside] = np.rint(table)
        noise = DiscreteGaussian(scale=Fraction(math.sqrt(left)).limit_denominator(1000))
        found.append(replace(one, values=values, mechanism=noise))
    return found


def has_differences(schema: LinkedSchema) -> bool:
    """Whether the first attribute of members is a number with neither few nor many bins."""
    anchor = schema.members[schema.anchor]
    return anchor.kind == "numeric" and FEWEST_BINS <= anchor.bins <= MOST_BINS


def smooth_pairs(schema: LinkedSchema, pairs: Measurement) -> tuple[Floats, float]:
    """The table of pairs of members who are alike, the same from both sides, and the variance of its cells."""
    both, variance = (pairs.values + pairs.values.T) / 2.0, max(pairs.mechanism.variance / 2.0, 1.0)
    if has_differences(schema):
        anchor = schema.members[schema.anchor]
        inside = (slice(anchor.bins), slice(anchor.bins))
        possible = np.ones((anchor.bins, anchor.bins), dtype=np.bool_)
        both[inside], variance = by_difference(both[inside], variance, bins_of(anchor).means(), possible)
    return np.maximum(both, 0.0), variance


def by_difference(noisy: Floats, variance: float, middles: Floats, possible: NDArray[np.bool_]) -> tuple[Floats, float]:
    """The smooth table, and the variance that is left in a cell on average."""
    size, cells = len(middles), np.flatnonzero(possible)
    apart = (middles[None, :] - middles[:, None]).reshape(-1)[cells]
    knots = np.unique(np.round(np.quantile(apart, np.linspace(0, 1, 2 * size - 1)), 6)) if len(cells) else np.zeros(0)
    counts = noisy.reshape(-1)[cells]
    if len(knots) < FEWEST_BINS or counts.sum() <= 0:
        return noisy, variance
    deviation = math.sqrt(variance)
    sides = [np.maximum(np.where(possible, noisy, 0.0).sum(axis=axis), deviation) for axis in (1, 0)]
    base = np.log(np.outer(*sides) / counts.sum()).reshape(-1)[cells]
    parts = np.hstack([np.eye(size)[cells // size], np.eye(size)[cells % size], _between(apart, knots)])
    held = np.eye(parts.shape[1]) / LEVEL
    bends = np.diff(np.eye(len(knots)), 2, axis=0) / BEND
    held = np.vstack([held, np.hstack([np.zeros((len(bends), 2 * size)), bends])])
    smooth = _nearest(counts / deviation, base - math.log(deviation), parts, held) * deviation
    freedom = len(cells) - parts.shape[1] / 2  # what is held small counts for less than a parameter each
    beyond = max(float(((counts - smooth) ** 2).sum()) - variance * freedom, 0.0) / len(cells)
    kept = beyond / (beyond + variance)
    table = np.zeros(noisy.size)
    table[cells] = smooth + kept * (counts - smooth)
    return table.reshape(noisy.shape), variance * max(kept, 1.0 - freedom / len(cells))


def _between(values: Floats, knots: Floats) -> Floats:
    """The weights of the knots on both sides of each value."""
    place = np.clip(np.searchsorted(knots, values, side="right") - 1, 0, len(knots) - 2)
    share = (values - knots[place]) / (knots[place + 1] - knots[place])
    unit = np.eye(len(knots))
    return np.asarray(unit[place] * (1.0 - share)[:, None] + unit[place + 1] * share[:, None])


def _nearest(counts: Floats, base: Floats, parts: Floats, held: Floats) -> Floats:
    """exp(base + parts t), where t minimises the squared distance from the counts plus that of ``held`` t from 0: steps
    of Levenberg and Marquardt."""
    pull = held.T @ held

    def at(point: Floats) -> tuple[float, Floats]:
        found = np.exp(np.minimum(base + parts @ point, LARGEST_LOG))
        return float(((found - counts) ** 2).sum() + point @ pull @ point), found

    point, damping = np.zeros(parts.shape[1]), 1e-2
    value, found = at(point)
    for _ in range(STEPS):
        slopes = parts * found[:, None]
        bend = slopes.T @ slopes + pull
        downhill = slopes.T @ (counts - found) - pull @ point
        step = np.linalg.solve(bend + damping * np.diag(np.diag(bend)), downhill)
        below, tried = at(point + step)
        if below >= value:
            damping *= 10.0
            continue
        settled = value - below < SETTLED * value
        point, value, found, damping = point + step, below, tried, damping / 10.0
        if settled:
            break
    return found
