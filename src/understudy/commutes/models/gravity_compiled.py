"""Loops over a tree of places that numba compiles: what its nodes weigh, and looking at it from one destination.

The tree is that of ``place_tree_compiled``: a node is a range of positions in its order. Imported only by
``gravity``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.compiling import compiled
from understudy.privacy.mechanisms.place_tree_compiled import is_beyond

LEAF = 8  # places below which a node's centre is computed when it is needed instead of being kept
KNOTS_PER_OCTAVE = 8
SMALLEST_OCTAVE = -5  # distances below 2^-5 miles count as that: the same block
KNOTS = 144  # up to 2^13 miles


@compiled
def by_mass(share: float, low: int, high: int, sums: NDArray[Any]) -> int:
    """The position from ``low`` to ``high`` - 1 at which a share of their mass is reached; ``sums`` adds up masses."""
    target = sums[low] + share * (sums[high] - sums[low])
    while high - low > 1:
        middle = (low + high) // 2
        if sums[middle] <= target:
            low = middle
        else:
            high = middle
    return low


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
        nodes[node, 0], nodes[node, 1], nodes[node, 2], nodes[node, 3] = centre(points, mass, low, high)
    return nodes


@compiled
def centre(points: NDArray[Any], mass: NDArray[Any], low: int, high: int) -> tuple[float, float, float, float]:
    """Centre of mass and mean squared radius of a range, as single-precision numbers like those that are kept."""
    total, x, y, z, squares = 0.0, 0.0, 0.0, 0.0, 0.0
    for position in range(low, high):
        weight = mass[position]
        total += weight
        x += weight * points[position, 0]
        y += weight * points[position, 1]
        z += weight * points[position, 2]
    if total <= 0:
        return 0.0, 0.0, 0.0, 0.0
    x, y, z = x / total, y / total, z / total
    for position in range(low, high):
        squares += mass[position] * (
            (points[position, 0] - x) ** 2 + (points[position, 1] - y) ** 2 + (points[position, 2] - z) ** 2
        )
    return (
        np.float64(np.float32(x)),
        np.float64(np.float32(y)),
        np.float64(np.float32(z)),
        np.float64(np.float32(squares / total)),
    )


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
        cx, cy, cz, radius = centre(points, mass, low, high)
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
    return by_mass(share, lows[node], highs[node], sums)


@compiled
def view(  # noqa: PLR0917
    position: int,
    points: NDArray[Any],
    mass: NDArray[Any],
    sums: NDArray[Any],
    nodes: NDArray[Any],
    decay: NDArray[Any],
    openness: float,
    farthest: float,
    lows: NDArray[Any],
    highs: NDArray[Any],
    squares: NDArray[Any],
    totals: NDArray[Any],
    spare: NDArray[Any],
) -> int:
    """The closed nodes that the destination at a position sees, by distance, and how many they are.

    They are the nodes that ``look_around`` closes, with one exception: the destination's own place is never inside a
    closed node, even if it is far from the centre of that node. Fills their ranges (``lows`` to ``highs``), squared
    distances and summed pulls. Nodes farther than ``farthest`` (squared) are left out. ``spare`` is room for four
    numbers of each node. Nodes are sorted by the eighth of an octave, which their pull needs anyway, and then by
    insertion, which moves a node by a few steps.
    """
    at = points[position]
    heap_of, low_of, high_of = np.empty(256, np.int64), np.empty(256, np.int64), np.empty(256, np.int64)
    ends = np.zeros(KNOTS + 1, np.int64)
    heap_of[0], low_of[0], high_of[0] = 1, 0, len(points)
    top, closed, room = 1, 0, len(lows)
    while top:
        top -= 1
        heap, low, high = heap_of[top], low_of[top], high_of[top]
        if heap > 0:
            cx, cy, cz, radius = nodes[heap, 0], nodes[heap, 1], nodes[heap, 2], nodes[heap, 3]
        elif high - low == 1:
            cx, cy, cz, radius = points[low, 0], points[low, 1], points[low, 2], 0.0
        else:
            cx, cy, cz, radius = centre(points, mass, low, high)
        squared = (cx - at[0]) ** 2 + (cy - at[1]) ** 2 + (cz - at[2]) ** 2
        near = radius > openness * squared or low <= position < high
        if near and high - low > 1 and closed + top + 2 <= room:
            middle = (low + high) // 2
            first = 2 * heap if 0 < 2 * heap < len(nodes) else 0
            heap_of[top], low_of[top], high_of[top] = first, low, middle
            heap_of[top + 1], low_of[top + 1], high_of[top + 1] = first + (first > 0), middle, high
            top += 2
            continue
        squared += radius
        if is_beyond(squared, farthest):
            continue
        place = (np.log2(max(squared, 1e-30)) * 0.5 - SMALLEST_OCTAVE) * KNOTS_PER_OCTAVE
        below = min(max(int(place), 0), KNOTS - 1)
        strength = decay[below]
        if place > 0.0 and below < KNOTS - 1:
            strength += (decay[below + 1] - strength) * (place - below)
        ends[below + 1] += 1
        spare[0, closed], spare[1, closed], spare[2, closed] = low, high, squared
        spare[3, closed] = (sums[high] - sums[low]) * strength
        squares[closed] = below
        closed += 1
    for knot in range(KNOTS):
        ends[knot + 1] += ends[knot]
    for number in range(closed):  # ``totals`` holds the sorted order until the sums are taken
        knot = int(squares[number])
        totals[ends[knot]] = number
        ends[knot] += 1
    for number in range(1, closed):
        mover = totals[number]
        back = number
        while back > 0 and spare[2, int(totals[back - 1])] > spare[2, int(mover)]:
            totals[back] = totals[back - 1]
            back -= 1
        totals[back] = mover
    total = 0.0
    for number in range(closed):
        node = int(totals[number])
        lows[number], highs[number], squares[number] = int(spare[0, node]), int(spare[1, node]), spare[2, node]
        total += spare[3, node]
        totals[number] = total
    return closed


@compiled
def inside_ring(ring: int, count: int, grade: float) -> float:
    """The share of the pull that lies inside the inner bound of a ring, as ``ring_bounds`` has it."""
    left = 1.0 - ring / count
    return 1.0 - left if grade == 1.0 else 1.0 - left**grade


@compiled
def ring_edges(  # noqa: PLR0917
    closed: int, count: int, grade: float, squares: NDArray[Any], totals: NDArray[Any], edges: NDArray[Any]
) -> None:
    """The squared distances at which ``count`` rings end; the last one is endless."""
    at_edge = 0
    for number in range(closed):
        while at_edge < count - 1 and totals[number] >= totals[closed - 1] * inside_ring(at_edge + 1, count, grade):
            edges[at_edge] = squares[number]
            at_edge += 1
    edges[at_edge:count] = np.inf
    edges[count - 1] = np.inf
