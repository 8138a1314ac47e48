"""A random effect for every cell of a log-linear model (Skinner and Holmes 1998), learned from noisy cells.

The model says that cell x has the rate m_x. With the random effect the rate is m_x u_x, where the u_x are independent
with mean 1. Skinner and Holmes take them log-normal; here they are Gamma(v, v), which is as free and makes the law of a
count exact: given u a count is Poisson, so it is negative binomial with mean m_x and shape v. A noisy count y_x of the
cell then gives

    P(n_x = c | y_x)  ~  NB(c; v, m_x) P(noise = y_x - c),        u_x | n_x = c  ~  Gamma(v + c, v + m_x),

which is summed over c and drawn from exactly. The shape v is not known: every copy draws it from its posterior, given
the noisy cells, over a grid of values (a large one: no effects beyond the model).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.mechanism import Mechanism
from understudy.models.junction_tree import Margin, axes_outside, spread
from understudy.models.posterior import Source

SHAPES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 6.0, 12.0, 25.0, 50.0, 100.0, 1000.0)
REACH = 10.0  # standard deviations of noise and of a count beyond which no count is thought of
FAR = 40.0  # on the log scale: less likely than this is never
TINY = 1e-12
TOGETHER = 2_000_000  # counts that are weighed at once
LEAST_RATE = 1e-12
LEAST_WEIGHT = 1e-3  # of a shape that a mean is taken over
SWEEPS = 30
HELD = 1e-6  # largest distance of a raked margin from its aim, as a share


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyCells:
    """Noisy counts of all possible cells of the full table, with the law of their noise."""

    values: Integers
    mechanism: Mechanism

    def chunks(self, rates: Floats) -> Iterator[tuple[slice, Integers, Integers, Integers]]:
        """Cells by and by: which, the counts that each may have (one after the other), where they begin, whose."""
        deviation = float(self.mechanism.variance) ** 0.5
        around = REACH * (deviation + 1)
        low = np.floor(np.maximum(np.minimum(self.values, rates - REACH * np.sqrt(rates)) - around, 0)).astype(np.int64)
        high = np.maximum(self.values, rates) + around
        # Far out a count gets less likely by the factor 1 + v / m at each step, and the noise at most by this much more
        # likely. Where noise is large this ends the search long before the noise does.
        slope = np.log1p(SHAPES[0] / rates) - np.maximum(2**0.5, np.abs(self.values) / deviation) / deviation
        far = rates + FAR / np.maximum(slope, TINY) + FAR
        lengths = np.maximum(np.ceil(np.minimum(high, far)).astype(np.int64) - low, 0) + 1
        ends = np.cumsum(lengths)
        first = 0
        while first < len(lengths):
            before = ends[first - 1] if first else 0
            last = max(int(np.searchsorted(ends, before + TOGETHER, side="right")), first + 1)
            own = lengths[first:last]
            starts = np.concatenate([[0], np.cumsum(own)[:-1]])
            whose = np.repeat(np.arange(last - first), own)
            yield slice(first, last), np.arange(own.sum()) - starts[whose] + low[first:last][whose], starts, whose
            first = last


def shape_weights(cells: NoisyCells, rates: Floats) -> Floats:
    """The posterior of the shape over the grid ``SHAPES``, all of them equally likely beforehand."""
    found = np.zeros(len(SHAPES))
    rates = np.maximum(rates, LEAST_RATE)
    for own, counts, starts, whose in cells.chunks(rates):
        noise = cells.mechanism.log_pmf(cells.values[own][whose], counts)
        for place, shape in enumerate(SHAPES):
            log = noise + _log_counts(counts, rates[own], whose, shape)
            most = np.maximum.reduceat(log, starts)
            found[place] += float((most + np.log(np.add.reduceat(np.exp(log - most[whose]), starts))).sum())
    weights = np.exp(found - found.max())
    return np.asarray(weights / weights.sum())


def mean_rates(cells: NoisyCells, rates: Floats, weights: Floats) -> Floats:
    """The mean of the posterior of every cell's rate, over the shapes by their weights."""
    rates = np.maximum(rates, LEAST_RATE)
    found = np.zeros(len(rates))
    for own, counts, starts, whose in cells.chunks(rates):
        noise = cells.mechanism.log_pmf(cells.values[own][whose], counts)
        for shape, weight in zip(SHAPES, weights, strict=True):
            if weight < LEAST_WEIGHT:
                continue
            log = noise + _log_counts(counts, rates[own], whose, shape)
            likely = np.exp(log - np.maximum.reduceat(log, starts)[whose])
            mean = np.add.reduceat(likely * counts, starts) / np.add.reduceat(likely, starts)
            found[own] += weight * rates[own] * (shape + mean) / (shape + rates[own])
    return found


def draw_rates(cells: NoisyCells, rates: Floats, shape: float, source: Source) -> Floats:
    """A rate for every cell, drawn from its posterior given its noisy count."""
    from scipy.special import gammaincinv

    rates = np.maximum(rates, LEAST_RATE)
    drawn = np.zeros(len(rates))
    for own, counts, starts, whose in cells.chunks(rates):
        log = cells.mechanism.log_pmf(cells.values[own][whose], counts) + _log_counts(counts, rates[own], whose, shape)
        weights = np.exp(log - np.maximum.reduceat(log, starts)[whose])
        totals = np.add.reduceat(weights, starts)
        upper = np.cumsum(weights)
        before = upper[starts] - weights[starts]
        points = before + source.random(len(starts)) * totals
        picked = np.minimum(np.searchsorted(upper, points, side="right"), len(counts) - 1)
        last = np.concatenate([starts[1:], [len(counts)]]) - 1
        chosen = counts[np.clip(picked, starts, last)]
        effects = gammaincinv(shape + chosen, source.random(len(starts)) + 2.0**-54) / (shape + rates[own])
        drawn[own] = rates[own] * effects
    return drawn


def rake(table: Floats, margins: Sequence[Margin], names: Margin, aims: Sequence[Floats]) -> Floats:
    """The table scaled until it has the wanted margins: the effects of the model stay as they were drawn."""
    raked = np.array(table)
    for _ in range(SWEEPS):
        furthest = 0.0
        for margin, aim in zip(margins, aims, strict=True):
            now = raked.sum(axis=axes_outside(names, margin))
            furthest = max(furthest, float(np.abs(now - aim).max()))
            raked *= spread(np.divide(aim, now, out=np.zeros_like(now), where=now > 0), margin, names)
        if furthest <= HELD * float(aims[0].sum()):
            break
    return raked


def _log_counts(counts: Integers, rates: Floats, whose: Integers, shape: float) -> Floats:
    """Log NB(c; shape, rate) for the counts of each cell."""
    from scipy.special import gammaln

    none = shape * (np.log(shape) - np.log(shape + rates))
    more = np.log(rates) - np.log(shape + rates)
    listed = np.arange(int(counts.max()) + 1)  # counts repeat, and the logarithms of factorials are slow
    each = gammaln(listed + shape) - gammaln(shape) - gammaln(listed + 1.0)
    return np.asarray(each[counts] + none[whose] + counts * more[whose])
