"""Many tables counted at once, from the cells that a row is in; numba compiles the loops."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from understudy.privacy.compiling import compiled


@compiled
def add_counts(cells: NDArray[Any], weights: NDArray[Any], counts: NDArray[Any]) -> None:
    """Adds the weight of each row to its cell in every table; ``cells[i, t]`` is that of row i in table t."""
    for row in range(cells.shape[0]):
        weight = weights[row]
        for table in range(cells.shape[1]):
            counts[cells[row, table]] += weight


@compiled
def add_values(cells: NDArray[Any], values: NDArray[Any], sums: NDArray[Any]) -> None:
    """Adds for each row the values of its cells in all tables."""
    for row in range(cells.shape[0]):
        total = 0.0
        for table in range(cells.shape[1]):
            total += values[cells[row, table]]
        sums[row] += total
