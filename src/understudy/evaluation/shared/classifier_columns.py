"""Codes as columns that a classifier can learn from, and which attribute each column belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.schema import Schema
from understudy.core.table import CodedTable

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """A matrix with one row per person; ``owner`` names the attribute of each column."""

    matrix: Matrix
    owner: tuple[str, ...]


def tree_features(schema: Schema, parts: Sequence[tuple[CodedTable, Integers]], names: Sequence[str]) -> Features:
    """Columns for trees, of the chosen rows of several tables put below each other.

    An ordered attribute is one column of its codes and one per special or missing code; others have one per level.
    """
    columns: list[NDArray[np.float32]] = []
    owner: list[str] = []
    for name in names:
        attribute = schema[name]
        codes = np.concatenate([np.asarray(table.columns[name])[rows] for table, rows in parts])
        ordered = attribute.ordered or not attribute.levels
        alone = list(range(attribute.bins if ordered else 0, attribute.size))
        if ordered:
            columns.append(np.where(codes < attribute.bins, codes, -1).astype(np.float32))
            owner.append(name)
        if len(alone) == 2 and not ordered:
            alone = alone[1:]
        for code in alone:
            columns.append((codes == code).astype(np.float32))
            owner.append(name)
    return Features(np.stack(columns, axis=1), tuple(owner))


def dummy_features(schema: Schema, codes: NDArray[np.int64], *, interactions: bool, most: int) -> Floats | None:
    """Intercept, dummies of the levels that occur and (if asked) their pairwise products; None if more than ``most``.

    ``codes`` has one row per distinct combination of codes.
    """
    dummies = []
    for place in range(len(schema.names)):
        levels = np.unique(codes[:, place])[1:]
        dummies.append((codes[:, place][:, None] == levels).astype(np.float64))
    width = 1 + sum(one.shape[1] for one in dummies)
    if interactions:
        width += sum(a.shape[1] * b.shape[1] for a, b in combinations(dummies, 2))
    if width > most:
        return None
    parts = [np.ones((len(codes), 1)), *dummies]
    if interactions:
        parts += [(a[:, :, None] * b[:, None, :]).reshape(len(codes), -1) for a, b in combinations(dummies, 2)]
    design = np.concatenate(parts, axis=1)
    return design[:, design.any(axis=0)]
