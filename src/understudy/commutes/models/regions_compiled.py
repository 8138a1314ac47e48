"""Rings and sectors around each destination as loops that numba compiles. Imported by the models beside it only.

Where directions are told apart, a cell is a set of nodes of the tree as the destination sees it: every place is in
exactly one node, hence in one cell, and what is drawn in a cell is placed in it by the pulls of its nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.gravity_compiled import (
    KNOTS,
    KNOTS_PER_OCTAVE,
    SMALLEST_OCTAVE,
    by_mass,
    inside_ring,
    ring_edges,
    view,
)
from understudy.privacy.compiling import compiled
from understudy.privacy.mechanisms.place_tree_compiled import band_of, is_beyond, squared_distance

OPENNESS = 0.04
ROOM = 1 << 15
NODES_PER_CELL = 6  # nodes are opened until a destination sees so many for each cell
TURNS = 64  # parts of a turn by which the nodes of a ring are sorted first


@compiled
def _turn(east: float, north: float) -> float:
    """A number from -2 to 2 that grows with the compass direction as the angle does, from south by west and north."""
    across = east / max(abs(east) + abs(north), 1e-300)
    if north >= 0.0:
        return across
    return 2.0 - across if east >= 0.0 else -2.0 - across


@compiled
def _sort_by_turn(turns: NDArray[Any], order: NDArray[Any], spare: NDArray[Any]) -> None:
    """Puts the numbers of some directions in their order: by parts of a turn, and then by insertion."""
    count = len(turns)
    ends = np.zeros(TURNS + 1, np.int64)
    for number in range(count):
        spare[number] = min(int((turns[number] + 2.0) * (TURNS / 4)), TURNS - 1)
        ends[spare[number] + 1] += 1
    for part in range(TURNS):
        ends[part + 1] += ends[part]
    for number in range(count):
        order[ends[spare[number]]] = number
        ends[spare[number]] += 1
    for number in range(1, count):
        mover, back = order[number], number
        while back > 0 and turns[order[back - 1]] > turns[mover]:
            order[back] = order[back - 1]
            back -= 1
        order[back] = mover


@compiled
def divide(  # noqa: PLR0917  (numba passes arguments by position)
    at: NDArray[Any], rings: int, sectors: int, grade: float, points: NDArray[Any], lows: NDArray[Any],
    highs: NDArray[Any], totals: NDArray[Any], cell_of: NDArray[Any], turns: NDArray[Any], spare: NDArray[Any],
) -> None:  # fmt: skip
    """Divides the nodes that one destination sees into rings by their pull, and each ring into sectors of equal pull.

    A node is in the part that holds the middle of its pull. Sectors begin in the south and go round by the west. Fills
    the cell of each node. ``turns`` and ``spare`` are room for a number and for two whole numbers of each node.
    """
    closed = len(totals)
    level = np.sqrt(at[0] ** 2 + at[1] ** 2) + 1e-9
    radius = np.sqrt(level**2 + at[2] ** 2)
    ring = 0  # nodes come by distance
    bound = inside_ring(1, rings, grade) if rings > 1 else 2.0
    for node in range(closed):
        before = totals[node - 1] if node else 0.0
        middle = 0.5 * (before + totals[node]) / totals[closed - 1]
        while ring < rings - 1 and middle >= bound:
            ring += 1
            bound = inside_ring(ring + 1, rings, grade)
        cell_of[node] = ring
        there = points[(lows[node] + highs[node]) // 2]
        x, y, z = there[0] - at[0], there[1] - at[1], there[2] - at[2]
        east = (-at[1] * x + at[0] * y) / level
        turns[node] = _turn(east, (-at[2] * (at[0] * x + at[1] * y) / level + level * z) / radius)
    first = 0
    while first < closed:
        ring, last = cell_of[first], first
        while last < closed and cell_of[last] == ring:
            last += 1
        start = totals[first - 1] if first else 0.0
        total = max(totals[last - 1] - start, 1e-300)
        _sort_by_turn(turns[first:last], spare[0, : last - first], spare[1, : last - first])
        passed = 0.0
        for number in range(last - first):
            node = first + spare[0, number]
            pull = totals[node] - (totals[node - 1] if node else 0.0)
            cell_of[node] = ring * sectors + min(int((passed + 0.5 * pull) / total * sectors), sectors - 1)
            passed += pull
        first = last


@compiled
def views(  # noqa: PLR0917  (numba passes arguments by position)
    positions: NDArray[Any],
    groups: NDArray[Any],
    ring_counts: NDArray[Any],
    sector_counts: NDArray[Any],
    grades: NDArray[Any],
    points: NDArray[Any],
    mass: NDArray[Any],
    sums: NDArray[Any],
    nodes: NDArray[Any],
    decays: NDArray[Any],
    farthest: float,
) -> tuple[NDArray[Any], ...]:
    """What each destination sees, one after the other, divided into its cells.

    Of the nodes, by cell and inside a cell by distance: where those of a destination begin, their ranges of positions
    and their summed pulls. To find a place, if there are sectors: where the nodes of a destination begin, and in the
    order of positions where each node begins and its cell. Of the cells: where those of a destination begin, and the
    squared distance at which each ring ends, or with sectors how many nodes lie before the end of each cell. The more
    cells a destination has, the finer it looks.
    """
    lows, highs, places = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty((ROOM, 2), np.int64)
    squares, totals, spare = np.empty(ROOM), np.empty(ROOM), np.empty((2, ROOM, 5))
    cell_of, orders = np.empty(ROOM, np.int64), np.empty((2, ROOM), np.int64)
    starts, place_starts, bound_starts = (
        np.zeros(len(positions) + 1, np.int64),
        np.zeros(len(positions) + 1, np.int64),
        np.zeros(len(positions) + 1, np.int64),
    )
    for d in range(len(positions)):
        bound_starts[d + 1] = bound_starts[d] + ring_counts[d] * sector_counts[d]
    bounds = np.empty(bound_starts[len(positions)])
    room = ROOM + 512 * len(positions)
    all_lows, all_highs, all_totals = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room)
    begins, cells_there = np.empty(room, np.int32), np.empty(room, np.int32)
    filled, located = np.int64(0), np.int64(0)
    for d in range(len(positions)):
        rings, sectors = ring_counts[d], sector_counts[d]
        wanted = np.int64(min(NODES_PER_CELL * rings * sectors, len(points), ROOM // 2))
        closed, count = view(
            np.int64(positions[d]), points, mass, sums, nodes, decays[groups[d]], OPENNESS, wanted, farthest,
            lows, highs, squares, totals, places, spare,
        )  # fmt: skip
        if max(filled, located) + count > room:
            room = 2 * (max(filled, located) + count)
            all_lows, all_highs = _longer(all_lows, filled, room), _longer(all_highs, filled, room)
            all_totals = _longer(all_totals, filled, room)
            begins, cells_there = _longer(begins, located, room), _longer(cells_there, located, room)
        own = bounds[bound_starts[d] : bound_starts[d + 1]]
        if sectors == 1:
            ring_edges(closed, rings, grades[d], squares, totals, own)
            for node in range(closed):
                all_lows[filled + node], all_highs[filled + node] = lows[node], highs[node]
                all_totals[filled + node] = totals[node]
        else:
            divide(
                points[positions[d]], rings, sectors, grades[d], points, lows[:closed], highs[:closed],
                totals[:closed], cell_of, squares, orders,
            )  # fmt: skip
            for number in range(count):
                begins[located + number] = places[number, 0]
                # A node whose centre is beyond the cut is not seen. Its places that are nearer go to the last cell.
                there = places[number, 1]
                cells_there[located + number] = cell_of[there] if there >= 0 else rings * sectors - 1
            located += count
            own[:] = 0
            for node in range(closed):
                own[cell_of[node]] += 1
            before = 0.0
            for cell in range(rings * sectors):
                in_cell = own[cell]
                own[cell] = before
                before += in_cell
            for node in range(closed):
                into = int(own[cell_of[node]])
                own[cell_of[node]] += 1  # in the end this is where the cell ends
                all_lows[filled + into], all_highs[filled + into] = lows[node], highs[node]
                all_totals[filled + into] = totals[node] - (totals[node - 1] if node else 0.0)
            passed = 0.0
            for node in range(filled, filled + closed):
                passed += all_totals[node]
                all_totals[node] = passed
        filled += closed
        starts[d + 1], place_starts[d + 1] = filled, located
    return (
        starts, all_lows[:filled], all_highs[:filled], all_totals[:filled],
        place_starts, begins[:located], cells_there[:located], bound_starts, bounds,
    )  # fmt: skip


@compiled
def _longer(values: NDArray[Any], filled: int, room: int) -> NDArray[Any]:
    longer = np.empty(room, values.dtype)
    longer[:filled] = values[:filled]
    return longer


@compiled
def encode(  # noqa: PLR0917
    positions: NDArray[Any],
    ring_counts: NDArray[Any],
    sector_counts: NDArray[Any],
    starts: NDArray[Any],
    origins: NDArray[Any],
    points: NDArray[Any],
    place_starts: NDArray[Any],
    begins: NDArray[Any],
    cells_there: NDArray[Any],
    bound_starts: NDArray[Any],
    bounds: NDArray[Any],
    farthest: float,
    found: NDArray[Any],
) -> None:
    """The cell of each pair; beyond ``farthest`` the one after the last. Rings alone are told apart by distance, rings
    and sectors by the node that holds the place."""
    for d in range(len(positions)):
        at = points[positions[d]]
        count, sectors = ring_counts[d], sector_counts[d]
        edges = bounds[bound_starts[d] : bound_starts[d + 1]]
        first, last = place_starts[d], place_starts[d + 1]
        for pair in range(starts[d], starts[d + 1]):
            squared = squared_distance(at, points[origins[pair]])
            if is_beyond(squared, farthest):
                found[pair] = count * sectors
            elif sectors == 1:
                found[pair] = min(np.searchsorted(edges, squared, side="right"), count - 1)
            else:
                before = np.searchsorted(begins[first:last], origins[pair], side="right") - 1
                found[pair] = cells_there[first + before]


@compiled
def _position(word: np.uint64, node: int, lows: NDArray[Any], highs: NDArray[Any], sums: NDArray[Any]) -> Any:
    """A place of a node, by its mass."""
    return by_mass(np.float64(word >> np.uint64(11)) * 2.0**-53, lows[node], highs[node], sums)


@compiled
def place(  # noqa: PLR0917
    positions: NDArray[Any], ring_counts: NDArray[Any], sector_counts: NDArray[Any], grades: NDArray[Any],
    believed: NDArray[Any], starts: NDArray[Any], drawn_starts: NDArray[Any], drawn: NDArray[Any],
    words: NDArray[np.uint64], word_starts: NDArray[Any],
    sums: NDArray[Any], view_starts: NDArray[Any], all_lows: NDArray[Any], all_highs: NDArray[Any],
    all_totals: NDArray[Any], bound_starts: NDArray[Any], bounds: NDArray[Any], found: NDArray[Any],
) -> None:  # fmt: skip
    """A position for each row; -1 for elsewhere. ``drawn`` may hold more rows than are placed.

    The distribution is a mixture of the drawn rows, with the share by which they are believed, and the gravity model.
    It is divided into as many strata as there are rows, cell by cell and inside a cell by distance. Each row takes the
    middle of a stratum, so that placing adds no noise to the mean distance. The place inside a node is random.
    """
    for d in range(len(positions)):
        view_first, view_last = view_starts[d], view_starts[d + 1]
        lows, highs = all_lows[view_first:view_last], all_highs[view_first:view_last]
        totals, closed = all_totals[view_first:view_last], view_last - view_first
        count, sectors, grade, belief = ring_counts[d], sector_counts[d], grades[d], believed[d]
        total = totals[closed - 1]
        begin, rows = starts[d], starts[d + 1] - starts[d]
        first_drawn, end = drawn_starts[d], drawn_starts[d + 1]
        handed = end - first_drawn
        while end > first_drawn and drawn[end - 1] >= count * sectors:  # rows are sorted: elsewhere comes last
            end -= 1
        elsewhere = int((drawn_starts[d + 1] - end) * rows / max(handed, 1) + 0.5)
        for number in range(rows - elsewhere, rows):
            found[begin + number] = -1
        rows -= elsewhere
        inside_drawn = max(end - first_drawn, 1)
        if end == first_drawn:  # nothing was drawn here, so the model places whoever is
            belief = 0.0
        ends = bounds[bound_starts[d] : bound_starts[d + 1]]
        cells = count * sectors
        row, cell, before, share, modelled = first_drawn, -1, 0.0, 0.0, 0.0
        for number in range(rows):
            wanted = (number + 0.5) / rows
            while cell < 0 or (wanted >= before + share and cell < cells - 1):
                before += share
                cell += 1
                in_cell = 0
                while row < end and drawn[row] == cell:
                    row += 1
                    in_cell += 1
                ring = cell // sectors
                modelled = (inside_ring(ring + 1, count, grade) - inside_ring(ring, count, grade)) / sectors
                share = belief * in_cell / inside_drawn + (1.0 - belief) * modelled
            inside = min(max((wanted - before) / max(share, 1e-12), 0.0), 1.0)
            first = int(ends[cell - 1]) if sectors > 1 and cell else 0
            last = int(ends[cell]) if sectors > 1 else 0
            if last > first:
                low = totals[first - 1] if first else 0.0
                level = low + inside * (totals[last - 1] - low)
                node = min(first + np.searchsorted(totals[first:last], level, side="right"), last - 1)
            else:  # a ring; or a cell whose share of the pull a single place has beside its own
                level = total * (inside_ring(cell // sectors, count, grade) + (cell % sectors + inside) * modelled)
                node = min(np.searchsorted(totals, level, side="right"), closed - 1)
            found[begin + number] = _position(words[word_starts[d] + number], node, lows, highs, sums)


@compiled
def exposures(  # noqa: PLR0917
    positions: NDArray[Any],
    points: NDArray[Any],
    mass: NDArray[Any],
    sums: NDArray[Any],
    nodes: NDArray[Any],
    flat: NDArray[Any],
    farthest: float,
) -> NDArray[Any]:
    """The mass that each destination sees at each knot of distance."""
    lows, highs, places = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty((ROOM, 2), np.int64)
    squares, totals, spare = np.empty(ROOM), np.empty(ROOM), np.empty((2, ROOM, 5))
    seen = np.zeros((len(positions), KNOTS))
    for d in range(len(positions)):
        closed, _ = view(
            np.int64(positions[d]), points, mass, sums, nodes, flat, OPENNESS, np.int64(0), farthest,
            lows, highs, squares, totals, places, spare,
        )  # fmt: skip
        for number in range(closed):
            knot = (np.log2(max(squares[number], 1e-30)) * 0.5 - SMALLEST_OCTAVE) * KNOTS_PER_OCTAVE
            seen[d, min(max(int(knot + 0.5), 0), KNOTS - 1)] += sums[highs[number]] - sums[lows[number]]
    return seen


@compiled
def expected_at_knots(
    decays: NDArray[Any], seen: NDArray[Any], share: NDArray[Any], group: NDArray[Any]
) -> NDArray[Any]:
    """Jobs that the model expects at each knot of distance, by group. Destination d is in ``group[d]``, stands for
    ``share[d]`` jobs and sees the mass ``seen[d]`` at the knots."""
    expected = np.zeros(decays.shape)
    for d in range(len(group)):
        decay, into, total = decays[group[d]], expected[group[d]], 0.0
        for knot in range(KNOTS):
            total += seen[d, knot] * decay[knot]
        weight = share[d] / max(total, 1e-300)
        for knot in range(KNOTS):
            into[knot] += weight * seen[d, knot] * decay[knot]
    return expected


@compiled
def attractions(  # noqa: PLR0917
    positions: NDArray[Any], jobs: NDArray[Any], groups: NDArray[Any], points: NDArray[Any], mass: NDArray[Any],
    sums: NDArray[Any], nodes: NDArray[Any], decays: NDArray[Any], farthest: float,
) -> NDArray[Any]:  # fmt: skip
    """Workers that the model expects at each position, for one unit of its mass, from jobs at some positions."""
    lows, highs, places = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty((ROOM, 2), np.int64)
    squares, totals, spare = np.empty(ROOM), np.empty(ROOM), np.empty((2, ROOM, 5))
    steps = np.zeros(len(points) + 1)
    for d in range(len(positions)):
        closed, _ = view(
            np.int64(positions[d]), points, mass, sums, nodes, decays[groups[d]], OPENNESS, np.int64(0), farthest,
            lows, highs, squares, totals, places, spare,
        )  # fmt: skip
        for node in range(closed):
            weight = sums[highs[node]] - sums[lows[node]]
            if weight > 0.0:
                pull = totals[node] - (totals[node - 1] if node else 0.0)
                level = jobs[d] * pull / totals[closed - 1] / weight
                steps[lows[node]] += level
                steps[highs[node]] -= level
    return np.cumsum(steps[:-1])


@compiled
def groups_and_bands(
    points: NDArray[Any], origins: NDArray[Any], destinations: NDArray[Any], groups: NDArray[Any], edges: NDArray[Any]
) -> NDArray[Any]:
    """The class of each pair: the group of its destination times the band of its distance. ``edges`` are squares, and
    a distance at an edge is in the outer band."""
    bands = len(edges) + 1
    found = np.empty(len(origins), np.int64)
    for pair in range(len(origins)):
        squared = squared_distance(points[destinations[pair]], points[origins[pair]])
        found[pair] = groups[destinations[pair]] * bands + band_of(squared, edges)
    return found
