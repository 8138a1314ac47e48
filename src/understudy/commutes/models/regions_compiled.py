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
from understudy.privacy.mechanisms.place_tree_compiled import is_beyond, squared_distance

OPENNESS = 0.04
ROOM = 1 << 15
NODES_PER_CELL = 6  # nodes are opened until a destination sees so many for each cell
MOST_LOOKS = 5


@compiled
def _angle(at: NDArray[Any], there: NDArray[Any]) -> float:
    """The compass direction of a point seen from another one, from -pi to pi."""
    level = np.sqrt(at[0] ** 2 + at[1] ** 2) + 1e-9
    radius = np.sqrt(level**2 + at[2] ** 2)
    x, y, z = there[0] - at[0], there[1] - at[1], there[2] - at[2]
    east = (-at[1] * x + at[0] * y) / level
    north = (-at[2] * at[0] / level * x - at[2] * at[1] / level * y + level * z) / radius
    return float(np.arctan2(east, north))


@compiled
def divide(  # noqa: PLR0917  (numba passes arguments by position)
    at: NDArray[Any], rings: int, sectors: int, grade: float, points: NDArray[Any], lows: NDArray[Any],
    highs: NDArray[Any], totals: NDArray[Any],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:  # fmt: skip
    """Divides the nodes that one destination sees into rings by their pull, and each ring into sectors of equal pull.

    A node is in the part that holds the middle of its pull. Sectors begin in the south and go round by the west. Gives
    the cell of each node, the nodes by cell (nearest first), their summed pulls in that order, and the start of cells.
    """
    closed, cells = len(totals), rings * sectors
    cell_of, pulls = np.empty(closed, np.int64), np.empty(closed)
    ring = 0  # nodes come by distance
    for node in range(closed):
        before = totals[node - 1] if node else 0.0
        pulls[node] = totals[node] - before
        middle = 0.5 * (before + totals[node]) / totals[closed - 1]
        while ring < rings - 1 and middle >= inside_ring(ring + 1, rings, grade):
            ring += 1
        cell_of[node] = ring
    first = 0
    while first < closed:
        ring, last, total = cell_of[first], first, 0.0
        while last < closed and cell_of[last] == ring:
            total += pulls[last]
            last += 1
        angles = np.empty(last - first)
        for node in range(first, last):
            angles[node - first] = _angle(at, points[(lows[node] + highs[node]) // 2])
        passed = 0.0
        for turned in np.argsort(angles):
            node = first + turned
            sector = min(int((passed + 0.5 * pulls[node]) / max(total, 1e-300) * sectors), sectors - 1)
            cell_of[node] = ring * sectors + sector
            passed += pulls[node]
        first = last
    begins = np.zeros(cells + 1, np.int64)
    for node in range(closed):
        begins[cell_of[node] + 1] += 1
    for cell in range(cells):
        begins[cell + 1] += begins[cell]
    order, following = np.empty(closed, np.int64), begins[:cells].copy()
    for node in range(closed):
        order[following[cell_of[node]]] = node
        following[cell_of[node]] += 1
    return cell_of, order, np.cumsum(pulls[order]), begins


@compiled
def views(  # noqa: PLR0917  (numba passes arguments by position)
    positions: NDArray[Any],
    groups: NDArray[Any],
    cells: NDArray[Any],
    points: NDArray[Any],
    mass: NDArray[Any],
    sums: NDArray[Any],
    nodes: NDArray[Any],
    decays: NDArray[Any],
    farthest: float,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """What each destination sees, one after the other: where its nodes begin, and of each node its range of positions,
    squared distance and summed pull, by distance. The more cells a destination has, the finer it looks."""
    lows, highs, spare = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty((4, ROOM))
    squares, totals = np.empty(ROOM), np.empty(ROOM)
    starts = np.zeros(len(positions) + 1, np.int64)
    room = ROOM + 512 * len(positions)
    all_lows, all_highs = np.empty(room, np.int32), np.empty(room, np.int32)
    all_squares, all_totals = np.empty(room), np.empty(room)
    filled = 0
    for d in range(len(positions)):
        wanted, openness, closed = min(NODES_PER_CELL * cells[d], len(points), ROOM // 2), OPENNESS, 0
        for _ in range(MOST_LOOKS):
            closed = view(
                positions[d], points, mass, sums, nodes, decays[groups[d]], openness, farthest,
                lows, highs, squares, totals, spare,
            )  # fmt: skip
            if closed >= wanted:
                break
            openness *= 0.5 * closed / wanted if closed else 0.1
        if filled + closed > room:
            room = 2 * (filled + closed)
            all_lows, all_highs = _longer(all_lows, filled, room), _longer(all_highs, filled, room)
            all_squares, all_totals = _longer(all_squares, filled, room), _longer(all_totals, filled, room)
        for node in range(closed):
            all_lows[filled + node], all_highs[filled + node] = lows[node], highs[node]
            all_squares[filled + node], all_totals[filled + node] = squares[node], totals[node]
        filled += closed
        starts[d + 1] = filled
    return starts, all_lows[:filled], all_highs[:filled], all_squares[:filled], all_totals[:filled]


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
    grades: NDArray[Any],
    starts: NDArray[Any],
    origins: NDArray[Any],
    points: NDArray[Any],
    view_starts: NDArray[Any],
    lows: NDArray[Any],
    highs: NDArray[Any],
    squares: NDArray[Any],
    totals: NDArray[Any],
    farthest: float,
    found: NDArray[Any],
) -> None:
    """The cell of each pair; beyond ``farthest`` the one after the last. Rings alone are told apart by distance, rings
    and sectors by the node that holds the place."""
    edges = np.empty(max(1, ring_counts.max()) if len(ring_counts) else 1)
    for d in range(len(positions)):
        at = points[positions[d]]
        first, last = view_starts[d], view_starts[d + 1]
        count, sectors = ring_counts[d], sector_counts[d]
        if sectors == 1:
            ring_edges(last - first, count, grades[d], squares[first:last], totals[first:last], edges)
            cell_of, by_low, begins = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32)
        else:
            cell_of, _, _, _ = divide(
                at, count, sectors, grades[d], points, lows[first:last], highs[first:last], totals[first:last]
            )
            by_low = np.argsort(lows[first:last])
            begins = lows[first:last][by_low]
        for pair in range(starts[d], starts[d + 1]):
            squared = squared_distance(at, points[origins[pair]])
            if is_beyond(squared, farthest):
                found[pair] = count * sectors
            elif sectors == 1:
                found[pair] = min(np.searchsorted(edges[:count], squared, side="right"), count - 1)
            else:
                before = np.searchsorted(begins, origins[pair], side="right") - 1
                node = by_low[max(before, 0)]
                inside = before >= 0 and origins[pair] < highs[first + node]
                # A node whose centre is beyond the cut is not seen. Its places that are nearer go to the last cell.
                found[pair] = cell_of[node] if inside else count * sectors - 1


@compiled
def _position(word: np.uint64, node: int, lows: NDArray[Any], highs: NDArray[Any], sums: NDArray[Any]) -> Any:
    """A place of a node, by its mass."""
    return by_mass(np.float64(word >> np.uint64(11)) * 2.0**-53, lows[node], highs[node], sums)


@compiled
def place(  # noqa: PLR0917
    positions: NDArray[Any], ring_counts: NDArray[Any], sector_counts: NDArray[Any], grades: NDArray[Any],
    believed: NDArray[Any], starts: NDArray[Any], drawn_starts: NDArray[Any], drawn: NDArray[Any],
    words: NDArray[np.uint64], word_starts: NDArray[Any],
    points: NDArray[Any], sums: NDArray[Any], view_starts: NDArray[Any],
    all_lows: NDArray[Any], all_highs: NDArray[Any], all_totals: NDArray[Any], found: NDArray[Any],
) -> None:  # fmt: skip
    """A position for each row; -1 for elsewhere. ``drawn`` may hold more rows than are placed.

    The distribution is a mixture of the drawn rows, with the share by which they are believed, and the gravity model.
    It is divided into as many strata as there are rows, cell by cell and inside a cell by distance. Each row takes the
    middle of a stratum, so that placing adds no noise to the mean distance. The place inside a node is random.
    """
    for d in range(len(positions)):
        at = points[positions[d]]
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
        order, by_cell, begins = np.empty(0, np.int64), totals, np.empty(0, np.int64)
        if sectors > 1:
            _, order, by_cell, begins = divide(at, count, sectors, grade, points, lows, highs, totals)
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
            if sectors > 1 and begins[cell + 1] > begins[cell]:
                first, last = begins[cell], begins[cell + 1]
                low = by_cell[first - 1] if first else 0.0
                level = low + inside * (by_cell[last - 1] - low)
                at_node = min(first + np.searchsorted(by_cell[first:last], level, side="right"), last - 1)
            else:  # a ring; or a cell whose share of the pull a single place has beside its own
                level = total * (inside_ring(cell // sectors, count, grade) + (cell % sectors + inside) * modelled)
                at_node = min(np.searchsorted(by_cell, level, side="right"), closed - 1)
            node = order[at_node] if sectors > 1 else at_node
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
    lows, highs, spare = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty((4, ROOM))
    squares, totals = np.empty(ROOM), np.empty(ROOM)
    seen = np.zeros((len(positions), KNOTS))
    for d in range(len(positions)):
        closed = view(
            positions[d], points, mass, sums, nodes, flat, OPENNESS, farthest, lows, highs, squares, totals, spare
        )
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
    lows, highs, spare = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty((4, ROOM))
    squares, totals = np.empty(ROOM), np.empty(ROOM)
    steps = np.zeros(len(points) + 1)
    for d in range(len(positions)):
        closed = view(
            positions[d], points, mass, sums, nodes, decays[groups[d]], OPENNESS, farthest,
            lows, highs, squares, totals, spare,
        )  # fmt: skip
        for node in range(closed):
            weight = sums[highs[node]] - sums[lows[node]]
            if weight > 0.0:
                pull = totals[node] - (totals[node - 1] if node else 0.0)
                level = jobs[d] * pull / totals[closed - 1] / weight
                steps[lows[node]] += level
                steps[highs[node]] -= level
    return np.cumsum(steps[:-1])
