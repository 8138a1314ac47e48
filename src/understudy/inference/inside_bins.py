"""Numbers known only by their bins: the variance, the Gini coefficient, the correlation, and their largest and smallest
possible values.

Each function takes the shares (or numbers) of people in every bin, one row for each draw. The value uses the public
density inside bins. ``lowest`` and ``highest`` are bounds over every way in which people can lie inside their bins.
Those of one number are attained. Proofs: docs/theory/noise-aware.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.bins import Bins

TINY = np.finfo(float).tiny
Function = Callable[[Floats], Floats]  # (S, bins): (S,)
STEPS = 60  # of a search that keeps a half, or two thirds, of an interval


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Functional:
    """A quantity of a number with its bounds inside bins."""

    value: Function
    lowest: Function
    highest: Function


def _shares(inside: Floats) -> Floats:
    inside = np.maximum(inside, 0)  # noisy values may be negative, numbers of people may not
    return np.asarray(inside / np.maximum(inside.sum(axis=1, keepdims=True), TINY))


def variance_of(bins: Bins) -> Functional:
    """The variance. Its largest value is min over c of E max((low - c)^2, (last - c)^2), by the minimax theorem: the
    variance is the minimum over c of E (x - c)^2, which is linear in where people lie and convex in c. At its smallest
    value every x is as near to c as its bin allows."""
    first, second = bins.means(), bins.means(np.square)
    low, last = bins.low, bins.last

    def value(inside: Floats) -> Floats:
        total = np.where(np.abs(inside.sum(axis=1)) > TINY, inside.sum(axis=1), TINY)
        return np.asarray(np.maximum(inside @ second / total - (inside @ first / total) ** 2, 0.0))

    def farthest(inside: Floats) -> Floats:
        return _least(_shares(inside), lambda c: np.maximum((low - c) ** 2, (last - c) ** 2), bins)

    def nearest(inside: Floats) -> Floats:
        return _least(_shares(inside), lambda c: np.maximum(np.maximum(low - c, c - last), 0.0) ** 2, bins)

    return Functional(value=value, lowest=nearest, highest=farthest)


def _least(shares: Floats, distance: Callable[[Floats], Floats], bins: Bins) -> Floats:
    """The minimum over c of a convex mean distance for each row, by ternary search."""
    low, high = (np.full(len(shares), end) for end in bins.bounds)

    def at(c: Floats) -> Floats:
        return np.asarray((shares * distance(c[:, None])).sum(axis=1))

    for _ in range(2 * STEPS):
        one, two = low + (high - low) / 3, high - (high - low) / 3
        left = at(one) <= at(two)
        low, high = np.where(left, low, one), np.where(left, two, high)
    return at((low + high) / 2)


def root_of(one: Functional) -> Functional:
    """The square root of a quantity; of the variance it is the standard deviation."""

    def rooted(function: Function) -> Function:
        return lambda inside: np.asarray(np.sqrt(np.maximum(function(inside), 0.0)))

    return Functional(value=rooted(one.value), lowest=rooted(one.lowest), highest=rooted(one.highest))


def gini_of(bins: Bins) -> Functional:
    """The Gini coefficient of a number that cannot be negative.

    It is at least g where the integral of 2 (1 - F)(F - g) over all values reaches 2 g times the least value. Inside a
    bin F is any rising function between its ends; the integrand is concave in F, so it is largest at a constant F as
    near to (1 + g) / 2 as possible, and least at one of its ends. Both are attained by people at the ends of bins.
    """
    points = [bins.nodes(number) for number in range(len(bins.low))]
    means = bins.means()
    inner = np.array([float(np.abs(x[:, None] - x) @ w @ w) for x, w in points])
    between = np.abs(means[:, None] - means)
    np.fill_diagonal(between, inner)
    width, gap = bins.last - bins.low, np.append(bins.low[1:] - bins.last[:-1], 0.0)

    def value(inside: Floats) -> Floats:
        total = np.where(np.abs(inside.sum(axis=1)) > TINY, inside.sum(axis=1), TINY)
        away = np.einsum("si,ij,sj->s", inside, between, inside) / total
        return np.asarray(away / (2 * np.maximum(inside @ means, TINY)))

    def end(inside: Floats, *, most: bool) -> Floats:
        shares = _shares(inside)
        above = np.cumsum(shares, axis=1)
        below = above - shares
        low, high = np.zeros(len(shares)), np.ones(len(shares))
        for _ in range(STEPS):
            g = ((low + high) / 2)[:, None]

            def height(f: Floats, g: Floats = g) -> Floats:
                return np.asarray(2 * (1 - f) * (f - g))

            if most:
                inside_bins = height(np.clip((1 + g) / 2, below, above))
            else:
                inside_bins = np.minimum(height(below), height(above))
            reached = (inside_bins * width + height(above) * gap).sum(axis=1) >= 2 * g[:, 0] * bins.low[0]
            low, high = np.where(reached, g[:, 0], low), np.where(reached, high, g[:, 0])
        return low if not most else high

    return Functional(value=value, lowest=lambda v: end(v, most=False), highest=lambda v: end(v, most=True))


def middles_and_reach(bins: Sequence[Bins]) -> Floats:
    """For each pair of bins: both middles, their squares, their product, and the squares of half the lengths."""
    x, y = np.meshgrid(*((one.low + one.last) / 2 for one in bins), indexing="ij")
    of_x, of_y = np.meshgrid(*((one.last - one.low) / 2 for one in bins), indexing="ij")
    return np.stack([one.ravel() for one in (x, y, x * x, y * y, x * y, of_x**2, of_y**2)], axis=1)


def turned(moments: Sequence[Floats], sign: float) -> Floats:
    """The least (``sign`` 1) or the largest (-1) correlation, wherever in their bins both numbers lie.

    A correlation is the cosine of the angle between two centred numbers. A number differs from the middle of its bin by
    at most half the bin's length, so it is turned away from its middle by at most the arc sine of the root mean square
    of those halves over the standard deviation of the middles. Angles between three vectors obey the triangle
    inequality. See docs/theory/noise-aware.md.
    """
    mx, my, sx, sy, both, of_x, of_y = moments
    vx, vy = np.maximum(sx - mx**2, TINY), np.maximum(sy - my**2, TINY)
    angle = np.arccos(np.clip((both - mx * my) / np.sqrt(vx * vy), -1, 1))
    away = sum(np.arcsin(np.sqrt(np.clip(reach / spread, 0, 1))) for reach, spread in ((of_x, vx), (of_y, vy)))
    return np.asarray(np.cos(np.clip(angle + sign * away, 0, np.pi))[:, None])
