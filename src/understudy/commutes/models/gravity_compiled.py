"""Loops over a tree of places that numba compiles: what its nodes weigh, and looking at it from one destination.

The tree is that of ``place_tree_compiled``: a node is a range of positions in its order. Imported only by
``gravity``. numba compiles a loop anew for every type of its arguments, and a number in the source has a type of its
own: callers write ``np.int64(1)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.compiling import compiled
from understudy.privacy.mechanisms.place_tree_compiled import is_beyond, node_ranges

LEAF = 8  # places below which a node's centre is computed when it is needed instead of being kept
KNOTS_PER_OCTAVE = 8
SMALLEST_OCTAVE = -5  # distances below 2^-5 miles count as that: the same block
KNOTS = 144  # up to 2^13 miles
SORTED_PARTS = 4  # parts of the way from one knot to the next by which nodes are sorted first
MOST_LOOKS = 5  # how often a destination looks closer until it sees enough nodes
CLOSER = 0.75  # nodes grow about as much as openness falls; a little more, so that one look is mostly enough


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
    """Centre of mass and mean squared radius of each node by its number: 1 is the root, 2i and 2i+1 its halves.

    The smallest nodes are added up from their places, all others from their halves.
    """
    nodes = np.zeros((1 << depth, 4), np.float32)
    lows, highs = node_ranges(len(points), depth)
    exact = np.zeros((1 << depth, 5))  # mass, centre and mean squared radius
    for node in range((1 << depth) - 1, 0, -1):
        into = exact[node]
        if 2 * node >= 1 << depth:
            for position in range(lows[node], highs[node]):
                into[0] += mass[position]
            into[1], into[2], into[3], into[4] = centre(points, mass, lows[node], highs[node])
        else:
            one, other = exact[2 * node], exact[2 * node + 1]
            into[0] = one[0] + other[0]
            if into[0] > 0:
                share, apart = other[0] / into[0], 0.0
                for axis in range(1, 4):
                    into[axis] = one[axis] + share * (other[axis] - one[axis])
                    apart += (other[axis] - one[axis]) ** 2
                into[4] = (1.0 - share) * one[4] + share * other[4] + share * (1.0 - share) * apart
        nodes[node, 0], nodes[node, 1], nodes[node, 2], nodes[node, 3] = into[1], into[2], into[3], into[4]
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
    pulls[0], squared, radius = _look(np.int64(1), np.int64(0), len(points), x, y, z, points, mass, sums, nodes, decay)
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
def _open_nodes(  # noqa: PLR0917
    position: int,
    points: NDArray[Any],
    mass: NDArray[Any],
    nodes: NDArray[Any],
    openness: float,
    count: int,
    before: NDArray[Any],
    after: NDArray[Any],
) -> int:
    """Opens those of ``count`` nodes that are large for their distance, and gives how many there are then.

    A node is a row: its number, the range of its positions, its squared distance and its mean squared radius. Rows stay
    in the order of positions. The destination's own place is always alone, even if it is far from everything else.
    """
    at, room, filled = points[position], len(after), 0
    stack = np.empty((64, 5))  # one node for each level of the tree, and one more
    for number in range(count):
        stack[0] = before[number]
        top, waiting = 1, count - 1 - number
        while top:
            node = stack[top - 1]
            low, high = int(node[1]), int(node[2])
            near = node[4] > openness * node[3] or low <= position < high
            if not near or high - low == 1 or filled + top + waiting >= room:
                after[filled] = node
                filled += 1
                top -= 1
                continue
            middle, first = (low + high) // 2, 2 * int(node[0])
            if first >= len(nodes):
                first = 0
            for half in range(2):  # the first half lies on top
                into, kept = stack[top - half], first + half if first else 0
                start, end = (low, middle) if half == 0 else (middle, high)
                if kept:
                    cx, cy, cz, radius = nodes[kept, 0], nodes[kept, 1], nodes[kept, 2], nodes[kept, 3]
                elif end - start == 1:
                    cx, cy, cz, radius = points[start, 0], points[start, 1], points[start, 2], 0.0
                else:
                    cx, cy, cz, radius = centre(points, mass, start, end)
                into[0], into[1], into[2], into[4] = kept, start, end, radius
                into[3] = (cx - at[0]) ** 2 + (cy - at[1]) ** 2 + (cz - at[2]) ** 2
            top += 1
    return filled


@compiled
def view(  # noqa: PLR0917
    position: int,
    points: NDArray[Any],
    mass: NDArray[Any],
    sums: NDArray[Any],
    nodes: NDArray[Any],
    decay: NDArray[Any],
    openness: float,
    wanted: int,
    farthest: float,
    lows: NDArray[Any],
    highs: NDArray[Any],
    squares: NDArray[Any],
    totals: NDArray[Any],
    places: NDArray[Any],
    spare: NDArray[Any],
) -> tuple[int, int]:
    """The closed nodes that the destination at a position sees, by distance. Gives how many they are, and how many
    there are with those that are too far.

    They are the nodes that ``look_around`` closes, with one exception: the destination's own place is never inside a
    closed node. If they are fewer than ``wanted``, it looks closer, up to ``MOST_LOOKS`` times. Fills their ranges
    (``lows`` to ``highs``), squared distances and summed pulls. Nodes farther than ``farthest`` (squared) are left out.
    ``places`` gets the nodes in the order of positions: where each begins, and its number by distance, or -1 if it is
    too far. ``spare`` is room for two lists of nodes. Nodes are sorted by small parts of an octave, and then by
    insertion, which moves a node by a few steps.
    """
    now, other = spare[0], spare[1]
    now[0, 0], now[0, 1], now[0, 2], now[0, 3] = 1, 0, len(points), 0.0
    now[0, 4] = np.inf if len(points) > 1 else 0.0
    count = _open_nodes(position, points, mass, nodes, openness, np.int64(1), now, other)
    now, other = other, now
    for _ in range(MOST_LOOKS - 1):
        seen = 0
        for number in range(count):
            seen += not is_beyond(now[number, 3] + now[number, 4], farthest)
        if seen >= wanted:
            break
        openness *= CLOSER * seen / wanted if seen else 0.1
        count = _open_nodes(position, points, mass, nodes, openness, count, now, other)
        now, other = other, now
    ends = np.zeros(SORTED_PARTS * KNOTS + 1, np.int64)
    closed = 0
    for number in range(count):
        node = now[number]
        places[number, 0], places[number, 1] = node[1], -1
        squared = node[3] + node[4]
        if is_beyond(squared, farthest):
            continue
        place = (np.log2(max(squared, 1e-30)) * 0.5 - SMALLEST_OCTAVE) * KNOTS_PER_OCTAVE
        below = min(max(int(place), 0), KNOTS - 1)
        strength = decay[below]
        if place > 0.0 and below < KNOTS - 1:
            strength += (decay[below + 1] - strength) * (place - below)
        part = min(max(int(place * SORTED_PARTS), 0), SORTED_PARTS * KNOTS - 1)
        ends[part + 1] += 1
        low, high = int(node[1]), int(node[2])
        kept = other[closed]
        kept[0], kept[1], kept[2], kept[3], kept[4] = part, low, high, squared, (sums[high] - sums[low]) * strength
        squares[closed] = number  # until nodes are sorted
        closed += 1
    for part in range(SORTED_PARTS * KNOTS):
        ends[part + 1] += ends[part]
    for number in range(closed):  # ``totals`` holds the sorted order until the sums are taken
        part = int(other[number, 0])
        totals[ends[part]] = number
        ends[part] += 1
    for number in range(1, closed):
        mover = totals[number]
        squared, back = other[int(mover), 3], number
        while back > 0 and other[int(totals[back - 1]), 3] > squared:
            totals[back] = totals[back - 1]
            back -= 1
        totals[back] = mover
    for number in range(closed):
        places[int(squares[int(totals[number])]), 1] = number
    total = 0.0
    for number in range(closed):
        node = other[int(totals[number])]
        lows[number], highs[number], squares[number] = int(node[1]), int(node[2]), node[3]
        total += node[4]
        totals[number] = total
    return closed, count


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
