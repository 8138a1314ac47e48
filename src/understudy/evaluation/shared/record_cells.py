"""Which cell a record falls into, over any attributes, and how many fall into each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.evaluation.shared.neighbours import distinct_rows


def numbers_of(tables: Sequence[NDArray[Any]]) -> tuple[list[Integers], int]:
    """Equal rows of all tables get equal numbers, from 0; also how many there are."""
    pooled = np.concatenate([np.asarray(table, dtype=np.float64) for table in tables])
    if pooled.shape[1] == 0:
        return [np.zeros(len(table), np.int64) for table in tables], 1
    distinct = distinct_rows(pooled)
    stops = np.cumsum([len(table) for table in tables])[:-1]
    return list(np.split(distinct.point_of, stops)), len(distinct.points)


def cell_numbers(
    tables: Sequence[Integers], columns: Sequence[int], sizes: Sequence[int]
) -> tuple[list[Integers], int]:
    """The same for codes, by arithmetic where the cells are few enough to number."""
    space = 1
    for column in columns:
        space *= sizes[column]
    if space > 2**62:
        return numbers_of([table[:, list(columns)] for table in tables])
    flat = []
    for table in tables:
        number = np.zeros(len(table), np.int64)
        for column in columns:
            number = number * sizes[column] + table[:, column]
        flat.append(number)
    if space <= 4 * sum(len(table) for table in tables) + 1024:
        return flat, space
    _, place = np.unique(np.concatenate(flat), return_inverse=True)
    stops = np.cumsum([len(table) for table in tables])[:-1]
    return list(np.split(place.astype(np.int64), stops)), int(place.max()) + 1
