"""How a number and the weight of a survey go together inside the cells of their table.

A release knows how many people are in a bin of the income and a bin of the weight. If the weight goes with the income,
it does so inside these cells too, and sums of weight times income miss a part of it. Here the fine grids of both and
their noisy table give one joint law: its dependence is that of a normal copula with the correlation that fits the table
best, raked to the table and to the shares inside bins. See docs/theory/survey-weights.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.bins import Bins

STRONGEST = 0.99  # correlation of the copula
FINE = 8  # points of a bin without counted cells
SWEEPS = 12  # of raking; the copula is near the table already
LEAST = 1e-6  # share of a cell that noise made empty or negative
CLEAR = 2.0  # mean squared standard deviations beyond which a table is said not to follow a law
PLACE = 1e-7  # how near a place in the order of all people may be to the ends


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Points inside the bins of an attribute: in which bin each is, and its share of that bin."""

    points: Floats
    bin: Integers
    share: Floats

    @classmethod
    def of(cls, bins: Bins, *, counted: Floats | None = None) -> Grid:
        """The cells on which bins were found, or a few points of each bin. ``counted``: other shares of the cells."""
        points, number, share = [], [], []
        for place in range(len(bins.low)):
            own, inside = bins.nodes(place)
            if bins.cells is None and len(own) > FINE:
                parts = np.array_split(np.arange(len(own)), FINE)
                own = np.array([inside[part] @ own[part] / inside[part].sum() for part in parts])
                inside = np.array([inside[part].sum() for part in parts])
            points.append(own)
            number.append(np.full(len(own), place))
            share.append(inside)
        found = np.concatenate(number)
        shares = np.concatenate(share) if counted is None else np.maximum(counted, 0.0) + LEAST
        shares = shares / np.bincount(found, weights=shares)[found]
        return cls(points=np.concatenate(points), bin=found, share=shares)

    def spread(self, mass: Floats) -> Floats:
        """The share of every point, for shares of the bins."""
        return np.asarray(mass[self.bin] * self.share)

    def starts(self) -> Integers:
        return np.flatnonzero(np.diff(self.bin, prepend=-1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inside:
    """Means over the people in a cell of a number (first axis) and the weight (second axis), weight one on average."""

    number: Grid
    table: Floats  # the shares of the cells, positive
    weight: Floats  # the mean weight
    square: Floats  # the mean squared weight
    at: Floats  # (points of the number, bins of the weight): the mean of the weight times being at that point
    square_at: Floats  # the same with the squared weight
    correlation: float
    copula: Floats  # the shares of the cells by the copula, before they are raked to the table

    def fine(self, which: str) -> Floats:
        """For every cell the values at all points of the number: (bins, bins of the weight, points)."""
        values: Floats = getattr(self, which)
        found = np.zeros((*self.weight.shape, len(values)))
        found[self.number.bin, :, np.arange(len(values))] = values
        return found


def inside_cells(number: Grid, weight: Grid, table: Floats, *, correlation: float | None = None) -> Inside:
    """The joint law of a number and the weight, from their noisy table of counts or shares.

    ``correlation``: that of the copula, if it is not the best one; with 0 both are independent inside every cell.
    """
    mass = np.maximum(table, LEAST)
    mass = mass / mass.sum()
    rows, columns = number.spread(mass.sum(axis=1)), weight.spread(mass.sum(axis=0))
    r = _correlation(number, weight, table / table.sum(), rows, columns) if correlation is None else correlation
    joint = _copula(rows, columns, r)
    starts = number.starts(), weight.starts()
    copula = _summed(joint, *starts)
    for _ in range(SWEEPS):
        ratio = mass / np.maximum(_summed(joint, *starts), 1e-300)
        joint = joint * ratio[number.bin][:, weight.bin]
        joint *= (rows / np.maximum(joint.sum(axis=1), 1e-300))[:, None]
        joint *= (columns / np.maximum(joint.sum(axis=0), 1e-300))[None, :]
    of_cell = np.maximum(_summed(joint, *starts), 1e-300)
    points = weight.points / float(joint.sum(axis=0) @ weight.points)
    sums = [np.add.reduceat(joint * power, starts[1], axis=1) for power in (points, points**2)]
    at, square_at = (one / of_cell[number.bin] for one in sums)
    return Inside(
        number=number,
        table=mass,
        weight=np.add.reduceat(at, starts[0], axis=0),
        square=np.add.reduceat(square_at, starts[0], axis=0),
        at=at,
        square_at=square_at,
        correlation=r,
        copula=copula,
    )


def _summed(joint: Floats, rows: Integers, columns: Integers) -> Floats:
    return np.asarray(np.add.reduceat(np.add.reduceat(joint, rows, axis=0), columns, axis=1))


def _places(shares: Floats) -> Floats:
    """Where points are in the order of all people, on the scale of a normal law; the middle of those at a point."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(np.cumsum(shares) - shares / 2, PLACE, 1 - PLACE)))


def _copula(rows: Floats, columns: Floats, r: float) -> Floats:
    x, y = _places(rows)[:, None], _places(columns)[None, :]
    log = (2 * r * x * y - r**2 * (x**2 + y**2)) / (2 * (1 - r**2))
    joint = rows[:, None] * columns[None, :] * np.exp(np.minimum(log, 700.0))
    return np.asarray(joint / joint.sum())


def _correlation(number: Grid, weight: Grid, table: Floats, rows: Floats, columns: Floats) -> float:
    """The correlation whose copula is nearest to the noisy table. Noise is equally large in every cell, so squares are
    compared, and nothing is divided by a noisy count."""
    from scipy.optimize import minimize_scalar

    starts = number.starts(), weight.starts()

    def apart(r: float) -> float:
        return float(((_summed(_copula(rows, columns, r), *starts) - table) ** 2).sum())

    found = minimize_scalar(apart, bounds=(-STRONGEST, STRONGEST), method="bounded", options={"xatol": 1e-3})
    return float(found.x)


def trend_of(table: Floats, logs: Floats) -> Floats:
    """The table of the same margins in which the share of every level (rows) is linear in the logarithm of the weight
    (the bins are columns)."""
    mass = np.maximum(table.sum(axis=0), LEAST)
    shares, away = table / mass, logs - mass @ logs / mass.sum()
    level = (shares * mass).sum(axis=1) / mass.sum()
    slope = (shares * mass * away).sum(axis=1) / max(float(mass @ away**2), np.finfo(float).tiny)
    return np.asarray(mass * (level[:, None] + slope[:, None] * away))


def roughness(table: Floats, law: Floats, variance: float, effect: float) -> float:
    """How far what is assumed inside cells may be wrong, as a share of what it changes: 0 if the table follows the law.

    Between cells the same law must hold as inside them. What a table has beyond noise and sampling (of ``effect`` times
    the variance of independent people) is divided into what the law explains and what it does not; returned is twice
    the root of the second over the first, at most 1.
    """
    total = max(float(table.sum()), 1.0)
    alone = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / total
    expected = law * (total / law.sum())
    spread = variance + effect * np.maximum(expected, alone.clip(min=0))
    free = max((table.shape[0] - 1) * (table.shape[1] - 1) - 1, 1)
    left = float(((table - expected) ** 2 / spread).sum())
    if left <= CLEAR * free:
        return 0.0
    explained = max(float(((table - alone) ** 2 / spread).sum()) - left, np.finfo(float).tiny)
    return float(min(2 * np.sqrt((left - free) / explained), 1.0))
