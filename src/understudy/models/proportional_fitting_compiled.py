"""Sweeps of iterative proportional fitting over the cells of one clique, as a loop that numba compiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.compiling import compiled


@compiled
def sweep(cells: NDArray[Any], places: NDArray[Any], starts: NDArray[Any], wanted: NDArray[Any], times: int) -> float:
    """Scale the cells to each table in turn, ``times`` times; ``cells`` is changed in place.

    ``places[t, c]`` is where cell c lies among the cells of table t. The cells of table t are those of ``wanted`` from
    ``starts[t]`` up to ``starts[t + 1]``. One pass over the cells multiplies by the factors of one table and sums the
    next one, so a sweep is one pass for each table. The result is the largest change of a cell in the last sweep.
    """
    tables = len(starts) - 1
    before = cells.copy()
    for time in range(times):
        if time == times - 1:
            before[:] = cells
        sums = np.zeros(starts[1] - starts[0])
        for cell in range(len(cells)):
            sums[places[0, cell]] += cells[cell]
        for table in range(tables):
            factors = np.zeros(len(sums))
            for place in range(len(sums)):
                if sums[place] > 0:
                    factors[place] = wanted[starts[table] + place] / sums[place]
            following = table + 1
            if following == tables:
                for cell in range(len(cells)):
                    cells[cell] *= factors[places[table, cell]]
            else:
                sums = np.zeros(starts[following + 1] - starts[following])
                for cell in range(len(cells)):
                    cells[cell] *= factors[places[table, cell]]
                    sums[places[following, cell]] += cells[cell]
        whole = cells.sum()
        cells /= whole
    return float(np.abs(cells - before).max())


BLOCK = 256  # cells that one loop goes through at a time, at least: as many as a processor adds without looking up


@compiled
def sweep_pairs(cells: NDArray[Any], sizes: NDArray[Any], wanted: NDArray[Any], times: int) -> float:
    """The same sweeps where the tables are all pairs of attributes, in their usual order, several times as fast.

    ``cells`` are those of a table of ``sizes``. The pairs (0, 1), (0, 2), ..., (1, 2), ... stand in ``wanted`` one
    after the other. Once the pairs with attribute 0 hold, the others do not tell its levels apart: they are fitted
    to the table without it, which is smaller, and what changed there is multiplied onto the whole. So on through
    the attributes. Every table is scaled in the same order as in ``sweep``, so the result is the same but for
    rounding.
    """
    ways = len(sizes)
    lengths = np.ones(ways + 1, dtype=np.int64)  # cells of the table of attributes a, a + 1, ...
    for way in range(ways - 1, -1, -1):
        lengths[way] = lengths[way + 1] * sizes[way]
    levels = [cells]
    for way in range(1, ways - 1):
        levels.append(np.zeros(lengths[way]))
    unscaled = [level.copy() for level in levels]
    previous = cells.copy()
    block = np.zeros(lengths[0])
    for time in range(times):
        if time == times - 1:
            previous[:] = cells
        start = 0
        for way in range(ways - 1):
            if way > 0:
                _without_first(levels[way - 1], levels[way])
                unscaled[way][:] = levels[way]
            for other in range(way + 1, ways):
                long = lengths[other]
                for axis in range(other - 1, way, -1):
                    if long < BLOCK:
                        long = lengths[axis]
                _hold(levels[way], sizes[way], sizes[other], lengths[other + 1], wanted[start:], block[:long])
                start += sizes[way] * sizes[other]
        for way in range(ways - 3, -1, -1):
            after, before = levels[way + 1], unscaled[way + 1]
            for place in range(len(after)):
                before[place] = after[place] / before[place] if before[place] > 0 else 0.0
            _times(levels[way], before)
        cells /= cells.sum()
    return float(np.abs(cells - previous).max())


@compiled
def _without_first(table: NDArray[Any], smaller: NDArray[Any]) -> None:
    """Sum the first attribute out."""
    smaller[:] = 0.0
    for first in range(0, len(table), len(smaller)):
        part = table[first : first + len(smaller)]
        for place in range(len(smaller)):
            smaller[place] += part[place]


@compiled
def _times(table: NDArray[Any], factors: NDArray[Any]) -> None:
    """Multiply every stretch of a table, as long as ``factors``, by them."""
    for first in range(0, len(table), len(factors)):
        part = table[first : first + len(factors)]
        for place in range(len(factors)):
            part[place] *= factors[place]


@compiled
def _hold(  # noqa: PLR0917 - compiled loops take their arguments by position
    table: NDArray[Any], size: int, other: int, after: int, wanted: NDArray[Any], block: NDArray[Any]
) -> None:
    """Scale a table so that its first attribute and another one have the wanted counts.

    The other attribute has ``other`` levels, of ``after`` cells each. ``block`` has room for some turns of it.
    """
    rest = len(table) // size
    sums = np.zeros(other)
    for level in range(size):
        part = table[level * rest : (level + 1) * rest]
        _without_first(part, block)
        sums[:] = 0.0
        for turn in range(0, len(block), other * after):
            for place in range(other):
                first = turn + place * after
                sums[place] += block[first : first + after].sum()
        for place in range(other):
            aim = wanted[level * other + place]
            factor = aim / sums[place] if sums[place] > 0 else 0.0
            for turn in range(0, len(block), other * after):
                first = turn + place * after
                block[first : first + after] = factor
        _times(part, block)
