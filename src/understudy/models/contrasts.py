"""Tables as effects: the main effect of every attribute, the interaction of every pair, and so on.

A table over some attributes is multiplied, axis by axis, by an orthonormal matrix whose first column is constant
(Helmert contrasts). The coefficients that are constant in all axes except those of a set A are the effect of A. Tables
that share attributes share effects, up to a factor: the effect of A in a table has the norm prod of 1/sqrt(size) over
the other attributes of the table. With one parameter for each *effect*, no parameter appears twice. With one parameter
for each cell of every table, a main effect appears once in every table that has the attribute, and the fit converges
slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.models.effects import contrasts
from understudy.models.junction_tree import Margin

Places = NDArray[np.int64]
LARGE = 64  # with more levels than this, cumulative sums are cheaper than a matrix


@lru_cache(maxsize=1024)
def helmert(levels: int) -> Floats:
    """An orthonormal matrix, one row per level, the first column constant."""
    return np.column_stack([np.full(levels, 1.0 / np.sqrt(levels)), contrasts(levels)])


def to_effects(table: Floats) -> Floats:
    """Coefficients of a table, of its own shape."""
    if max(table.shape, default=0) > LARGE:
        return _along_axes(table, _large_to)
    return _turn(table, [helmert(size) for size in table.shape])


def from_effects(coefficients: Floats) -> Floats:
    """The table that has these coefficients."""
    if max(coefficients.shape, default=0) > LARGE:
        return _along_axes(coefficients, _large_from)
    return _turn(coefficients, [helmert(size).T for size in coefficients.shape])


def second_moments(shares: Sequence[Floats]) -> Floats:
    """Mean square of every effect's function under independent attributes with these shares."""
    moments = np.ones(())
    for share in shares:
        place = np.arange(1.0, len(share))
        squares = (np.cumsum(share)[:-1] + place**2 * share[1:]) / (place * (place + 1))
        moments = np.multiply.outer(moments, np.concatenate([[share.sum() / len(share)], squares]))
    return moments


def _turn(table: Floats, matrices: Sequence[Floats]) -> Floats:
    """Each axis multiplied by the transpose of its matrix."""
    if table.ndim == 2:  # nearly all of them
        return np.asarray(matrices[0].T @ table @ matrices[1])
    if table.ndim == 1:
        return np.asarray(table @ matrices[0])
    for matrix in matrices:  # the axis done goes last; after all of them the order is the old one
        table = np.tensordot(table, matrix, axes=(0, 0))
    return np.asarray(table)


def _along_axes(table: Floats, one: Callable[[Floats], Floats]) -> Floats:
    for _ in range(table.ndim):  # the axis done goes last
        table = one(np.moveaxis(table, 0, -1))
    return np.ascontiguousarray(table)


def _large_to(rows: Floats) -> Floats:
    """The last axis multiplied, by cumulative sums: a matrix for 5,000 levels would have 25 million numbers."""
    levels = rows.shape[-1]
    place = np.arange(1.0, levels)
    sums = np.cumsum(rows, axis=-1)
    contrast = (sums[..., :-1] - place * rows[..., 1:]) / np.sqrt(place * (place + 1))
    return np.concatenate([sums[..., -1:] / np.sqrt(levels), contrast], axis=-1)


def _large_from(rows: Floats) -> Floats:
    """Back again."""
    levels = rows.shape[-1]
    place = np.arange(1.0, levels)
    scaled = rows[..., 1:] / np.sqrt(place * (place + 1))
    result = np.repeat(rows[..., :1] / np.sqrt(levels), levels, axis=-1)
    result[..., 1:] -= place * scaled
    result[..., :-1] += np.cumsum(scaled[..., ::-1], axis=-1)[..., ::-1]
    return result


class EffectBasis:
    """One number for every effect of some margins.

    ``places[t]``: for each coefficient of table t its number among the effects, -1 for the constant; ``factors[t]``:
    the norm of that effect in the table.
    """

    def __init__(self, sizes: Mapping[str, int], margins: Sequence[Margin]) -> None:
        self._sizes = sizes
        self.first: dict[Margin, int] = {}
        self.length = 0
        numbered = {margin: self._numbered(margin) for margin in dict.fromkeys(margins)}
        self.places: list[Places] = [numbered[margin][0] for margin in margins]
        self.factors: list[Floats] = [numbered[margin][1] for margin in margins]
        self.counts = {effect: prod(sizes[name] - 1 for name in effect) for effect in self.first}

    def _numbered(self, margin: Margin) -> tuple[Places, Floats]:
        """Places and factors of one table; effects not seen before get the next numbers."""
        shape = tuple(self._sizes[name] for name in margin)
        places, factors = np.full(shape, -1, dtype=np.int64), np.ones(shape)
        for ways in range(len(margin) + 1):
            for axes in combinations(range(len(margin)), ways):
                rest = prod(size for axis, size in enumerate(shape) if axis not in axes)
                where = tuple(slice(1, None) if axis in axes else 0 for axis in range(len(margin)))
                factors[where] = 1.0 / np.sqrt(rest)
                count = prod(shape[axis] - 1 for axis in axes)
                if not axes or not count:
                    continue
                effect = tuple(margin[axis] for axis in axes)
                if effect not in self.first:
                    self.first[effect] = self.length
                    self.length += count
                begin = self.first[effect]
                places[where] = np.arange(begin, begin + count).reshape([shape[axis] - 1 for axis in axes])
        return places, factors
