"""Which places lie in which band of distance around a place, without asking each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PlaceBands:
    """Bands of squared distance (``edges`` are their ends, the last band endless) around any of some points.

    The places lie in a tree of boxes: around a place most boxes are in one band as a whole, and only those across an
    edge are opened. Public.
    """

    points: Floats
    edges: Floats
    order: NDArray[np.int32] = field(init=False)  # the place at each position of the tree
    rank: NDArray[np.int32] = field(init=False)  # the position of each place
    sorted_points: Floats = field(init=False)
    boxes: Floats = field(init=False)

    def __post_init__(self) -> None:
        from understudy.privacy.mechanisms import place_tree_compiled as loops

        order = loops.build_order(self.points)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        points = np.ascontiguousarray(self.points[order])
        depth = max(len(order) // loops.LEAF, 1).bit_length()
        for name, value in (("order", order), ("rank", rank), ("sorted_points", points)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "boxes", loops.node_boxes(points, depth))

    def sizes(self, places: Integers) -> Integers:
        """How many places lie in each band (columns) around each of some places (rows)."""
        from understudy.privacy.mechanisms import place_tree_compiled as loops

        found: Integers = loops.count_bands(self.sorted_points, self.boxes, self.edges, self.rank[places])
        return found


def squared_edges(miles: Sequence[float]) -> Floats:
    """Distances as the squares that places are compared with: one rounding, whoever asks."""
    ends = np.array(miles, dtype=np.float64)
    return ends * ends


def squared_cut(miles: float | None) -> float:
    """A cut as the square that places are compared with; without a cut nothing is beyond it."""
    return np.inf if miles is None else float(squared_edges([miles])[0])


def beyond_cut(
    points: Floats, destinations: Integers, starts: Integers, origins: NDArray[np.int32], miles: float | None
) -> NDArray[np.bool_]:
    """Which pairs lie beyond a cut: those whose origin is not in the bands that end there."""
    from understudy.privacy.mechanisms import place_tree_compiled as loops

    if miles is None:
        return np.zeros(len(origins), dtype=bool)
    found: NDArray[np.bool_] = loops.beyond(points, destinations, starts, origins, squared_cut(miles))
    return found
