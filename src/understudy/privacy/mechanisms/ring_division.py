"""Into how many rings and sectors the homes around a destination are divided, and how much of a public model each has.

A draw over K cells is charged for K cells, so these functions are a part of what it costs: the number that the prior or
noise is chosen for must be the number that is drawn over. How wide a ring is, costs nothing.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers

RINGS_ONLY = 8  # up to so many cells only distances are distinguished, and no directions
DIVISION = 3  # version of the division: the first is in ``cells_of_first_division``, the third has cells outside
WITH_CELLS_OUTSIDE = 3
GRADE = 4 / 3  # many rings hold less of the model the farther out they are; see ``ring_bounds``


def _sectors(cells: Integers) -> Integers:
    """Into how many sectors each ring is cut: one below 16 cells, and later about two thirds of their square root."""
    rings = np.maximum(RINGS_ONLY, np.rint(1.5 * np.sqrt(cells)))
    return np.asarray(np.maximum(cells // rings, 1).astype(np.int64))


def usable_cells(cells: Integers) -> Integers:
    """The largest number of cells, up to a given one, that is a whole number of rings times its sectors.

    A usable number stays the same, so the function may be applied several times.

    >>> usable_cells(np.array([2, 8, 15, 17, 50])).tolist(), usable_cells(np.array([48, 44])).tolist()
    ([2, 8, 15, 16, 48], [48, 44])
    """
    usable = np.array(cells, dtype=np.int64)
    while True:
        over = np.flatnonzero(usable % _sectors(usable))
        if len(over) == 0:
            return usable
        usable[over] -= 1


def rings_and_sectors(cells: Integers) -> tuple[Integers, Integers]:
    """How a number of cells is divided: few cells are rings; more get sectors as well, never more cells than asked.

    >>> [part.tolist() for part in rings_and_sectors(np.array([2, 8, 50]))]
    [[2, 8, 12], [1, 1, 4]]
    """
    usable = usable_cells(cells)
    sectors = _sectors(usable)
    return usable // sectors, sectors


def cells_of_first_division(cells: Integers) -> Integers:
    """The number of cells that the first released versions drew over when they stated ``cells``. They rounded a rounded
    number once more, so it can be smaller, and ``verify`` must know it.

    >>> cells_of_first_division(np.array([8, 48, 44])).tolist()
    [8, 40, 40]
    """
    rings = np.where(cells <= RINGS_ONLY, cells, np.maximum(RINGS_ONLY, np.rint(1.5 * np.sqrt(cells)))).astype(np.int64)
    return np.asarray(rings * np.maximum(cells // np.maximum(rings, 1), 1))


@lru_cache(maxsize=4096)
def ring_bounds(rings: int, graded: bool) -> Floats:
    """The share of the public model that lies inside each bound of the rings, from 0 to 1.

    Equal rings hold 1/R each. Graded ones leave (1 - k/R)^(4/3) beyond the k-th bound, so that the outer ones, where
    distances differ most, are thinner (docs/theory/commute.md, "Which law").

    >>> ring_bounds(4, False).tolist(), ring_bounds(4, True).round(2).tolist()
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.32, 0.6, 0.84, 1.0])
    """
    return np.asarray(1 - (1 - np.arange(rings + 1) / rings) ** (GRADE if graded else 1.0))


@lru_cache(maxsize=4096)
def cell_shares(cells: int, graded: bool) -> Floats:
    """The share of the public model that one cell of each ring has, for a usable number of cells."""
    rings, sectors = (int(part[0]) for part in rings_and_sectors(np.array([cells])))
    return np.asarray(np.diff(ring_bounds(rings, graded)) / sectors)


def is_graded(cells: Integers) -> NDArray[np.bool_]:
    """Whether noise on so many cells is noise on graded rings. With few rings, grading them would gain nothing."""
    return np.asarray(np.asarray(cells) > RINGS_ONLY)
