"""Divisions into nested areas as loops that numba compiles. Imported only by ``nested_areas``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.gravity_compiled import by_mass
from understudy.privacy.compiling import compiled


@compiled
def divide(  # noqa: PLR0917  (numba passes arguments by position)
    points: NDArray[Any],
    starts: NDArray[Any],
    level_starts: NDArray[Any],
    balls: NDArray[Any],
    places: int,
    miles: NDArray[Any],
    cut: float,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """For each point where its list begins, the first position of each part in increasing order, and how many cells.

    A part that is elsewhere is listed as the complement (-1 - position) of its first position; neighbouring ones are
    one part. The areas of a level are in the order of positions, so those inside an area are found by searching.
    """
    levels = len(miles)
    where = np.zeros(len(points) + 1, np.int64)
    cells = np.zeros(len(points), np.int64)
    room, used = 64 * len(points) + 64, 0
    firsts = np.empty(room, np.int64)
    next_area = np.empty(levels, np.int64)  # the next area of each level that is being looked through
    last_area = np.empty(levels, np.int64)
    for d in range(len(points)):
        depth = 0
        next_area[0], last_area[0] = level_starts[0], level_starts[1]
        while depth >= 0:
            if next_area[depth] == last_area[depth]:
                depth -= 1
                continue
            area = next_area[depth]
            next_area[depth] += 1
            squared = 0.0
            for axis in range(3):
                squared += (balls[area, axis] - points[d, axis]) ** 2
            nearest = np.sqrt(squared) - balls[area, 3]
            if depth < levels - 1 and nearest < miles[depth]:
                end = starts[area + 1] if area + 1 < level_starts[depth + 1] else places
                inner = starts[level_starts[depth + 1] : level_starts[depth + 2]]
                next_area[depth + 1] = level_starts[depth + 1] + np.searchsorted(inner, starts[area])
                last_area[depth + 1] = level_starts[depth + 1] + np.searchsorted(inner, end)
                depth += 1
                continue
            if used == room:
                room *= 2
                longer = np.empty(room, np.int64)
                longer[:used] = firsts
                firsts = longer
            if nearest > cut:
                if used > where[d] and firsts[used - 1] < 0:
                    continue
                firsts[used] = -1 - starts[area]
            else:
                firsts[used] = starts[area]
                cells[d] += 1
            used += 1
        where[d + 1] = used
    return where, firsts[:used], cells


@compiled
def encode(  # noqa: PLR0917
    where: NDArray[Any], firsts: NDArray[Any], cells: NDArray[Any], starts: NDArray[Any], origins: NDArray[Any],
    found: NDArray[Any],
) -> None:  # fmt: skip
    """The cell of each origin (a position): its number among the parts that are not elsewhere, which comes last."""
    longest = 1
    for d in range(len(cells)):
        longest = max(longest, where[d + 1] - where[d])
    begins, numbers = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for d in range(len(cells)):
        count = where[d + 1] - where[d]
        number = 0
        for part in range(count):
            first = firsts[where[d] + part]
            begins[part] = first if first >= 0 else -1 - first
            numbers[part] = number if first >= 0 else cells[d]
            number += first >= 0
        for pair in range(starts[d], starts[d + 1]):
            found[pair] = numbers[np.searchsorted(begins[:count], origins[pair], side="right") - 1]


@compiled
def place(  # noqa: PLR0917
    where: NDArray[Any], firsts: NDArray[Any], cells: NDArray[Any], starts: NDArray[Any], drawn: NDArray[Any],
    words: NDArray[np.uint64], word_starts: NDArray[Any], sums: NDArray[Any], found: NDArray[Any],
) -> None:  # fmt: skip
    """A position for each drawn row, by mass inside its cell; -1 for elsewhere. Rows are sorted by cell."""
    for d in range(len(cells)):
        part, number = where[d] - 1, -1
        for row in range(starts[d], starts[d + 1]):
            if drawn[row] >= cells[d]:
                found[row] = -1
                continue
            while number < drawn[row]:
                part += 1
                number += firsts[part] >= 0
            low, high = firsts[part], len(sums) - 1
            if part + 1 < where[d + 1]:
                high = firsts[part + 1] if firsts[part + 1] >= 0 else -1 - firsts[part + 1]
            share = np.float64(words[word_starts[d] + row - starts[d]] >> np.uint64(11)) * 2.0**-53
            found[row] = by_mass(share, low, high, sums)
