"""The loop that gives the workers of generated destinations their homes. Imported only by ``commuters``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.gravity_compiled import descend, look_around
from understudy.privacy.compiling import compiled


@compiled
def homes(  # noqa: PLR0917  (numba passes arguments by position)
    positions: NDArray[Any],
    starts: NDArray[Any],
    shares: NDArray[Any],
    points: NDArray[Any],
    mass: NDArray[Any],
    sums: NDArray[Any],
    nodes: NDArray[Any],
    decay: NDArray[Any],
    room: int,
) -> NDArray[Any]:
    """For the jobs of each destination (at a position of the tree) the position of the worker's home."""
    heaps, lows, highs = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    halves, pulls = np.empty(room, np.int64), np.empty(room)
    found = np.empty(len(shares), np.int32)
    for number in range(len(positions)):
        if starts[number] == starts[number + 1]:
            continue
        at = points[positions[number]]
        look_around(at[0], at[1], at[2], points, mass, sums, nodes, decay, heaps, lows, highs, halves, pulls, 0.25)
        for job in range(starts[number], starts[number + 1]):
            found[job] = descend(shares[job], 0, sums, lows, highs, halves, pulls)
    return found
