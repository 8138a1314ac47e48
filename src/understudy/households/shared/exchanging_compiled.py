"""Households exchanged for others while that brings tables of members nearer to the wanted ones; numba compiles it."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from understudy.privacy.compiling import compiled


@compiled
def exchange(  # noqa: PLR0917 - compiled loops take arrays by position
    chosen: NDArray[Any],
    others: NDArray[Any],
    cells: NDArray[Any],
    begins: NDArray[Any],
    homes: NDArray[Any],
    counts: NDArray[Any],
    wanted: NDArray[Any],
) -> None:
    """Try each chosen household against the other at its place; ``chosen`` and ``counts`` are changed in place.

    An exchange is kept if the sum of squared distances from the wanted counts, each divided by the count (plus one),
    becomes smaller. ``cells[i, t]`` is the cell of member i in table t; the members of household h are those from
    ``begins[h]`` up to ``begins[h + 1]``. ``homes[h, t]`` is the cell of household h; the last one is its stratum, and
    both must be in the same.
    """
    last = homes.shape[1] - 1
    for place in range(len(chosen)):
        old, new = chosen[place], others[place]
        if old == new or homes[old, last] != homes[new, last]:
            continue
        change = _move(cells, begins, homes, counts, wanted, old, -1.0)
        change += _move(cells, begins, homes, counts, wanted, new, 1.0)
        if change < 0.0:
            chosen[place] = new
        else:
            _move(cells, begins, homes, counts, wanted, new, -1.0)
            _move(cells, begins, homes, counts, wanted, old, 1.0)


@compiled
def _move(  # noqa: PLR0917
    cells: NDArray[Any],
    begins: NDArray[Any],
    homes: NDArray[Any],
    counts: NDArray[Any],
    wanted: NDArray[Any],
    home: int,
    step: float,
) -> float:
    """One household more (``step`` 1) or fewer (-1); gives the change of the distance."""
    change = 0.0
    for table in range(homes.shape[1]):
        cell = homes[home, table]
        change += (1.0 + 2.0 * step * (counts[cell] - wanted[cell])) / (wanted[cell] + 1.0)
        counts[cell] += step
    for member in range(begins[home], begins[home + 1]):
        for table in range(cells.shape[1]):
            cell = cells[member, table]
            change += (1.0 + 2.0 * step * (counts[cell] - wanted[cell])) / (wanted[cell] + 1.0)
            counts[cell] += step
    return change
