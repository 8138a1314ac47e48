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
