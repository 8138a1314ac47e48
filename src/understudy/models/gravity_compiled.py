"""Loops over a tree of places that numba compiles: building it, and looking at it from one destination.

The tree halves the places again and again across their widest axis. A node is a range of positions in the resulting
order, so a set of nodes that do not overlap is a partition of the places into ranges. Imported only by ``gravity``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

LEAF = 8  # places below which a node's centre is computed when it is needed instead of being kept
KNOTS_PER_OCTAVE = 8
SMALLEST_OCTAVE = -5  # distances below 2^-5 miles count as that: the same block
KNOTS = 144  # up to 2^13 miles


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba found no folder to keep machine code in
        return numba.njit(nogil=True)(function)


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
        best, widest = 0, -1.0
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
def node_centres(points: NDArray[Any], mass: NDArray[Any], depth: int) -> NDArray[Any]:
    """Centre of mass and mean squared radius of each node by its number: 1 is the root, 2i and 2i+1 its halves."""
    count = len(points)
    nodes = np.zeros((1 << depth, 4), np.float32)
    lows, highs = np.zeros(1 << depth, np.int64), np.zeros(1 << depth, np.int64)
    highs[1] = count
    for node in range(1, 1 << depth):
        low, high = lows[node], highs[node]
        if node > 1:
            parent_low, parent_high = lows[node // 2], highs[node // 2]
            middle = (parent_low + parent_high) // 2
            low, high = (parent_low, middle) if node % 2 == 0 else (middle, parent_high)
            lows[node], highs[node] = low, high
        nodes[node] = centre(points, mass, low, high)
    return nodes


@compiled
def centre(points: NDArray[Any], mass: NDArray[Any], low: int, high: int) -> NDArray[Any]:
    found = np.zeros(4, np.float32)
    total, x, y, z, squares = 0.0, 0.0, 0.0, 0.0, 0.0
    for position in range(low, high):
        weight = mass[position]
        px, py, pz = points[position, 0], points[position, 1], points[position, 2]
        total += weight
        x += weight * px
        y += weight * py
        z += weight * pz
    if total <= 0:
        return found
    x, y, z = x / total, y / total, z / total
    for position in range(low, high):
        squares += mass[position] * (
            (points[position, 0] - x) ** 2 + (points[position, 1] - y) ** 2 + (points[position, 2] - z) ** 2
        )
    found[0], found[1], found[2], found[3] = x, y, z, squares / total
    return found


@compiled
def pull(decay: NDArray[Any], squared: float) -> Any:
    """The decay at a squared distance, by interpolation between knots at eighths of an octave."""
    place = (np.log2(max(squared, 1e-30)) * 0.5 - SMALLEST_OCTAVE) * KNOTS_PER_OCTAVE
    if place <= 0.0:
        return decay[0]
    if place >= KNOTS - 1:
        return decay[KNOTS - 1]
    below = int(place)
    share = place - below
    return decay[below] * (1.0 - share) + decay[below + 1] * share


@compiled
def _look(  # noqa: PLR0917  (numba passes arguments by position)
    heap: int,
    low: int,
    high: int,
    x: float,
    y: float,
    z: float,
    points: NDArray[Any],
    mass: NDArray[Any],
    sums: NDArray[Any],
    nodes: NDArray[Any],
    decay: NDArray[Any],
) -> tuple[float, float, float]:
    """How strongly a node pulls, its squared distance, and its mean squared radius, seen from (x, y, z)."""
    if 0 < heap < len(nodes):
        cx, cy, cz, radius = nodes[heap, 0], nodes[heap, 1], nodes[heap, 2], nodes[heap, 3]
    elif high - low == 1:
        cx, cy, cz, radius = points[low, 0], points[low, 1], points[low, 2], 0.0
    else:
        found = centre(points, mass, low, high)
        cx, cy, cz, radius = found[0], found[1], found[2], found[3]
    squared = (cx - x) ** 2 + (cy - y) ** 2 + (cz - z) ** 2
    return (sums[high] - sums[low]) * pull(decay, squared + radius), squared, radius


@compiled
def look_around(  # noqa: PLR0917
    x: float,
    y: float,
    z: float,
    points: NDArray[Any],
    mass: NDArray[Any],
    sums: NDArray[Any],
    nodes: NDArray[Any],
    decay: NDArray[Any],
    heaps: NDArray[Any],
    lows: NDArray[Any],
    highs: NDArray[Any],
    halves: NDArray[Any],
    pulls: NDArray[Any],
    openness: float,
) -> int:
    """The tree as one destination sees it, near nodes opened and far ones closed (Barnes and Hut 1986).

    Fills the node list (heap number, range, number of the first half or -1, pull) and gives its length. The pull of an
    opened node is the sum of its halves'.
    """
    heaps[0], lows[0], highs[0] = 1, 0, len(points)
    pulls[0], squared, radius = _look(1, 0, len(points), x, y, z, points, mass, sums, nodes, decay)
    opened = np.empty(len(heaps), np.bool_)
    opened[0] = len(points) > 1
    halves[0] = -1
    used, scan = 1, 0
    while scan < used:
        if opened[scan] and used + 2 <= len(heaps):
            middle = (lows[scan] + highs[scan]) // 2
            halves[scan] = used
            for half in range(2):
                low = lows[scan] if half == 0 else middle
                high = middle if half == 0 else highs[scan]
                heap = heaps[scan] * 2 + half if heaps[scan] > 0 else 0
                if heap >= len(nodes):
                    heap = 0
                strength, squared, radius = _look(heap, low, high, x, y, z, points, mass, sums, nodes, decay)
                heaps[used], lows[used], highs[used], halves[used], pulls[used] = heap, low, high, -1, strength
                opened[used] = high - low > 1 and radius > openness * squared
                used += 1
        scan += 1
    for node in range(used - 1, -1, -1):
        if halves[node] >= 0:
            pulls[node] = pulls[halves[node]] + pulls[halves[node] + 1]
    return used


@compiled
def descend(  # noqa: PLR0917
    share: float,
    node: int,
    sums: NDArray[Any],
    lows: NDArray[Any],
    highs: NDArray[Any],
    halves: NDArray[Any],
    pulls: NDArray[Any],
) -> Any:
    """The position inside a node at a share of its pull in [0, 1): opened halves first, then by mass alone."""
    while halves[node] >= 0:
        first = halves[node]
        total = pulls[first] + pulls[first + 1]
        if total <= 0.0:
            break
        wanted = share * total
        if wanted < pulls[first]:
            share = wanted / pulls[first]
            node = first
        else:
            share = (wanted - pulls[first]) / pulls[first + 1] if pulls[first + 1] > 0 else 0.0
            node = first + 1
        share = min(max(share, 0.0), 1.0 - 1e-15)
    low, high = lows[node], highs[node]
    target = sums[low] + share * (sums[high] - sums[low])
    while high - low > 1:
        middle = (low + high) // 2
        if sums[middle] <= target:
            low = middle
        else:
            high = middle
    return low


@compiled
def rings(  # noqa: PLR0917
    x: float,
    y: float,
    z: float,
    used: int,
    count: int,
    points: NDArray[Any],
    mass: NDArray[Any],
    nodes: NDArray[Any],
    heaps: NDArray[Any],
    lows: NDArray[Any],
    highs: NDArray[Any],
    halves: NDArray[Any],
    pulls: NDArray[Any],
    edges: NDArray[Any],
    order: NDArray[Any],
    sums_by_ring: NDArray[Any],
    squares: NDArray[Any],
    farthest: float,
) -> int:
    """Cuts what one destination sees into ``count`` rings of equal pull; gives the number of closed nodes.

    ``order`` holds the closed nodes by distance, ``squares`` their squared distances, ``sums_by_ring`` their summed
    pulls, ``edges`` the squared distances at which a ring ends (the last one endless). Nodes farther than ``farthest``
    (squared) are left out.
    """
    distances = np.empty(used)
    closed = 0
    for node in range(used):
        if halves[node] < 0:
            low, high = lows[node], highs[node]
            at = nodes[heaps[node]] if 0 < heaps[node] < len(nodes) else centre(points, mass, low, high)
            squared = (at[0] - x) ** 2 + (at[1] - y) ** 2 + (at[2] - z) ** 2 + at[3]
            if squared <= farthest:
                distances[closed] = squared
                order[closed] = node
                closed += 1
    ranked = np.argsort(distances[:closed])
    kept = order[:closed].copy()
    total = 0.0
    for number in range(closed):
        node = kept[ranked[number]]
        order[number] = node
        total += pulls[node]
        sums_by_ring[number] = total
        squares[number] = distances[ranked[number]]
    at_edge = 0
    for number in range(closed):
        while at_edge < count - 1 and sums_by_ring[number] >= total * (at_edge + 1) / count:
            edges[at_edge] = distances[ranked[number]]
            at_edge += 1
    while at_edge < count:
        edges[at_edge] = np.inf
        at_edge += 1
    edges[count - 1] = np.inf
    return closed
