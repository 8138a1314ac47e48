"""A tree of places as loops that numba compiles: building it, and finding what lies in bands around a place.

The tree halves the places again and again across their widest axis. A node is a range of positions in the resulting
order, so a set of nodes that do not overlap is a partition of the places into ranges. Node 1 is the root, 2i and 2i + 1
are the halves of node i.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.compiling import compiled

LEAF = 16  # places from which on a node has a box of its own


@compiled
def _select(  # noqa: PLR0917
    points: NDArray[Any], order: NDArray[Any], low: int, high: int, middle: int, axis: int
) -> None:
    """Reorders positions low..high-1 so that those before ``middle`` are not above it along the axis."""
    left, right = low, high - 1
    while left < right:
        pivot = points[order[(left + right) // 2], axis]
        i, j = left, right
        while i <= j:
            while points[order[i], axis] < pivot:
                i += 1
            while points[order[j], axis] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            right = j
        elif middle >= i:
            left = i
        else:
            return


@compiled
def build_order(points: NDArray[Any]) -> NDArray[Any]:
    """The places in the order of the tree."""
    count = len(points)
    order = np.arange(count).astype(np.int32)
    lows, highs = np.empty(128, np.int64), np.empty(128, np.int64)
    lows[0], highs[0] = 0, count
    top = 1
    while top:
        top -= 1
        low, high = lows[top], highs[top]
        if high - low < 2:
            continue
        best, widest = np.int64(0), -1.0  # as a plain 0, numba would compile _select for that number, too
        for axis in range(3):
            smallest, largest = np.inf, -np.inf
            for position in range(low, high):
                value = points[order[position], axis]
                smallest, largest = min(smallest, value), max(largest, value)
            if largest - smallest > widest:
                best, widest = axis, largest - smallest
        middle = (low + high) // 2
        _select(points, order, low, high, middle, best)
        lows[top], highs[top] = low, middle
        lows[top + 1], highs[top + 1] = middle, high
        top += 2
    return order


@compiled
def node_ranges(count: int, depth: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where the positions of each node begin and end, by its number."""
    lows, highs = np.zeros(1 << depth, np.int64), np.zeros(1 << depth, np.int64)
    highs[1] = count
    for node in range(2, 1 << depth):
        middle = (lows[node // 2] + highs[node // 2]) // 2
        lows[node] = lows[node // 2] if node % 2 == 0 else middle
        highs[node] = middle if node % 2 == 0 else highs[node // 2]
    return lows, highs


@compiled
def node_boxes(points: NDArray[Any], depth: int) -> NDArray[Any]:
    """The smallest and largest coordinates of the places of each node, of points in the order of the tree."""
    boxes = np.empty((1 << depth, 6))
    lows, highs = node_ranges(len(points), depth)
    for node in range((1 << depth) - 1, 0, -1):
        for axis in range(3):
            smallest, largest = np.inf, -np.inf
            if 2 * node < 1 << depth:
                smallest = min(boxes[2 * node, axis], boxes[2 * node + 1, axis])
                largest = max(boxes[2 * node, 3 + axis], boxes[2 * node + 1, 3 + axis])
            else:
                for position in range(lows[node], highs[node]):
                    smallest, largest = min(smallest, points[position, axis]), max(largest, points[position, axis])
            boxes[node, axis], boxes[node, 3 + axis] = smallest, largest
    return boxes


@compiled
def squared_distance(at: NDArray[Any], there: NDArray[Any]) -> float:
    """Of two points. All comparisons with an edge or a cut are made with this number, so that they agree to the bit."""
    return float((there[0] - at[0]) ** 2 + (there[1] - at[1]) ** 2 + (there[2] - at[2]) ** 2)


@compiled
def is_beyond(squared: float, edge: float) -> bool:
    """Whether a squared distance lies beyond an edge. A place exactly at the edge does: for bands, cuts and rings."""
    return squared >= edge


@compiled
def beyond(
    points: NDArray[Any], destinations: NDArray[Any], starts: NDArray[Any], origins: NDArray[Any], edge: float
) -> NDArray[Any]:
    """Which pairs lie beyond an edge; those of the d-th destination lie at starts[d]:starts[d + 1]."""
    found = np.empty(len(origins), np.bool_)
    for d in range(len(destinations)):
        at = points[destinations[d]]
        for pair in range(starts[d], starts[d + 1]):
            found[pair] = is_beyond(squared_distance(at, points[origins[pair]]), edge)
    return found


@compiled
def band_of(squared: float, edges: NDArray[Any]) -> int:
    """The band of a squared distance; beyond the last edge lies the last band."""
    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) // 2
        if is_beyond(squared, edges[middle]):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def bands_around(  # noqa: PLR0917  (numba passes arguments by position)
    at: NDArray[Any],
    points: NDArray[Any],
    boxes: NDArray[Any],
    edges: NDArray[Any],
    lows: NDArray[Any],
    highs: NDArray[Any],
    bands: NDArray[Any],
) -> int:
    """Ranges of positions that lie in one band around a point each, and all together are everything; how many.

    A node is taken whole if the nearest and the farthest point of its box are in the same band. Rounded sums of squares
    grow with what is summed, so no place inside a box can be nearer or farther than that, and a range is exactly the
    places whose own squared distance is in the band. Without room for all ranges the answer is -1.
    """
    node_of, low_of, high_of = np.empty(256, np.int64), np.empty(256, np.int64), np.empty(256, np.int64)
    node_of[0], low_of[0], high_of[0] = 1, 0, len(points)
    top, used = 1, 0
    while top:
        top -= 1
        node, low, high = node_of[top], low_of[top], high_of[top]
        near, far = 0.0, 0.0
        for axis in range(3):
            below, above = boxes[node, axis] - at[axis], boxes[node, 3 + axis] - at[axis]
            least = below if below > 0.0 else (-above if above < 0.0 else 0.0)
            most = max(abs(below), abs(above))
            near += least * least
            far += most * most
        band = band_of(near, edges)
        whole = band == band_of(far, edges)
        if not whole and 2 * node < len(boxes):
            middle = (low + high) // 2
            node_of[top], low_of[top], high_of[top] = 2 * node + 1, middle, high
            node_of[top + 1], low_of[top + 1], high_of[top + 1] = 2 * node, low, middle
            top += 2
            continue
        position = low
        while position < high:
            end = high
            if not whole:
                end = position + 1
                band = band_of(squared_distance(at, points[position]), edges)
            if used > 0 and highs[used - 1] == position and bands[used - 1] == band:
                highs[used - 1] = end
            else:
                if used == len(lows):
                    return -1
                lows[used], highs[used], bands[used] = position, end, band
                used += 1
            position = end
    return used


@compiled
def count_bands(
    points: NDArray[Any], boxes: NDArray[Any], edges: NDArray[Any], positions: NDArray[Any]
) -> NDArray[Any]:
    """How many places lie in each band around each of some positions. Public."""
    found = np.zeros((len(positions), len(edges) + 1), np.int64)
    lows, highs, bands = (
        np.empty(len(points), np.int64),
        np.empty(len(points), np.int64),
        np.empty(len(points), np.int64),
    )
    for number in range(len(positions)):
        used = bands_around(points[positions[number]], points, boxes, edges, lows, highs, bands)
        for part in range(used):
            found[number, bands[part]] += highs[part] - lows[part]
    return found
