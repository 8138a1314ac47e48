"""Where the factor of each cell has its mass: whole numbers far from there are never evaluated.

A cell of a table of 100,000 people could hold any number from 0 to 100,000, but given a release it holds one of a few
hundred. The mass is found on a coarse grid around a first guess (steps grow with the distance, so a narrow peak near
the guess is seen and a far one is too), with the tilt that the wanted total needs; then only that window is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.inference.latent import NATS, Column, newton_tilt

Factor = Callable[[Integers, Integers], Floats]  # classes (D, 1) and whole numbers (D, P) or (1, P): log factors
SMALL = 300_000  # numbers up to which every column is evaluated everywhere
GROWTH = 1.08


def find_columns(factor: Factor, guesses: Floats, top: int, times: Integers, total: int | None) -> tuple[Column, ...]:
    """The columns of all classes on 0, ..., top, cut to where they matter for the wanted total (if it is known)."""
    count = len(guesses)
    if count * (top + 1) <= SMALL:
        everywhere = factor(np.arange(count)[:, None], np.arange(top + 1)[None, :])
        return tuple(Column(start=0, log=row) for row in everywhere)
    grid = _grids(guesses, top)
    log = factor(np.arange(count)[:, None], grid)
    tilt = 0.0
    if total is not None:
        with np.errstate(divide="ignore"):
            weighted = log + np.log(_weights(grid))  # a point stands for the whole numbers around it
        lengths = np.full(count, grid.shape[1])
        tilt = newton_tilt(grid.ravel().astype(np.float64), weighted.ravel(), lengths, times, total)
    value = log + tilt * grid
    inside = value > value.max(axis=1, keepdims=True) - NATS
    first = np.argmax(inside, axis=1)
    last = grid.shape[1] - 1 - np.argmax(inside[:, ::-1], axis=1)
    rows = np.arange(count)
    low = grid[rows, np.maximum(first - 1, 0)]
    high = grid[rows, np.minimum(last + 1, grid.shape[1] - 1)]
    columns = []
    for index in range(count):
        x = np.arange(low[index], high[index] + 1)
        columns.append(Column(start=int(low[index]), log=factor(np.array([[index]]), x[None, :])[0]))
    return tuple(columns)


def _grids(guesses: Floats, top: int) -> Integers:
    """For each class the points 0 to 3, the top, and points around its guess at growing distances; sorted."""
    steps = [0]
    while steps[-1] <= top:
        steps.append(max(steps[-1] + 1, round(steps[-1] * GROWTH)))
    around = np.array(steps)
    offsets = np.concatenate([-around[::-1], around[1:]])
    near = np.clip(np.rint(guesses).astype(np.int64), 0, top)[:, None] + offsets[None, :]
    ends = np.broadcast_to(np.array([0, 1, 2, 3, top]), (len(guesses), 5))
    return np.sort(np.clip(np.concatenate([near, ends], axis=1), 0, top), axis=1)


def _weights(grid: Integers) -> Floats:
    """How many whole numbers each point of a grid stands for; repeated points share nothing twice."""
    gaps = np.diff(grid, axis=1).astype(np.float64)
    weights = np.zeros(grid.shape)
    weights[:, 1:] += gaps / 2
    weights[:, :-1] += gaps / 2
    return weights
