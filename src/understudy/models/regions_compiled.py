"""Rings and sectors around each destination as loops that numba compiles. Imported only by ``regions``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.models.gravity_compiled import KNOTS, KNOTS_PER_OCTAVE, SMALLEST_OCTAVE, ring_edges, view
from understudy.privacy.compiling import compiled

OPENNESS = 0.04
ROOM = 1 << 15


@compiled
def _sector(at: NDArray[Any], px: float, py: float, pz: float, sectors: int) -> int:
    """The compass sector of a point seen from another one."""
    if sectors == 1:
        return 0
    level = np.sqrt(at[0] ** 2 + at[1] ** 2) + 1e-9
    radius = np.sqrt(level**2 + at[2] ** 2)
    east = (-at[1] * (px - at[0]) + at[0] * (py - at[1])) / level
    north = (
        -at[2] * at[0] / level * (px - at[0]) - at[2] * at[1] / level * (py - at[1]) + level * (pz - at[2])
    ) / radius
    turn = (np.arctan2(east, north) + np.pi) / (2 * np.pi)
    return min(int(turn * sectors), sectors - 1)


@compiled
def views(  # noqa: PLR0917  (numba passes arguments by position)
    positions: NDArray[Any],
    groups: NDArray[Any],
    points: NDArray[Any],
    mass: NDArray[Any],
    sums: NDArray[Any],
    nodes: NDArray[Any],
    decays: NDArray[Any],
    farthest: float,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """What each destination sees, one after the other: where its nodes begin, and of each node its range of positions,
    squared distance and summed pull, by distance."""
    lows, highs, spare = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty((4, ROOM))
    squares, totals = np.empty(ROOM), np.empty(ROOM)
    starts = np.zeros(len(positions) + 1, np.int64)
    room = ROOM + 512 * len(positions)
    all_lows, all_highs = np.empty(room, np.int32), np.empty(room, np.int32)
    all_squares, all_totals = np.empty(room), np.empty(room)
    filled = 0
    for d in range(len(positions)):
        closed = view(
            positions[d], points, mass, sums, nodes, decays[groups[d]], OPENNESS, farthest,
            lows, highs, squares, totals, spare,
        )  # fmt: skip
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
    starts: NDArray[Any],
    origins: NDArray[Any],
    points: NDArray[Any],
    view_starts: NDArray[Any],
    squares: NDArray[Any],
    totals: NDArray[Any],
    farthest: float,
    found: NDArray[Any],
) -> None:
    """The cell of each pair: ring by distance, then sector by direction; beyond ``farthest`` the one after the last."""
    edges = np.empty(max(1, ring_counts.max()) if len(ring_counts) else 1)
    for d in range(len(positions)):
        at = points[positions[d]]
        first, last = view_starts[d], view_starts[d + 1]
        count, sectors = ring_counts[d], sector_counts[d]
        ring_edges(last - first, count, squares[first:last], totals[first:last], edges)
        for pair in range(starts[d], starts[d + 1]):
            there = points[origins[pair]]
            squared = (there[0] - at[0]) ** 2 + (there[1] - at[1]) ** 2 + (there[2] - at[2]) ** 2
            if squared > farthest:
                found[pair] = count * sectors
                continue
            ring = np.searchsorted(edges[:count], squared, side="right")
            ring = min(ring, count - 1)
            found[pair] = ring * sectors + _sector(at, there[0], there[1], there[2], sectors)


@compiled
def _position(word: np.uint64, node: int, lows: NDArray[Any], highs: NDArray[Any], sums: NDArray[Any]) -> Any:
    """A place of a node, by its mass."""
    low, high = lows[node], highs[node]
    target = sums[low] + np.float64(word >> np.uint64(11)) * 2.0**-53 * (sums[high] - sums[low])
    while high - low > 1:
        middle = (low + high) // 2
        if sums[middle] <= target:
            low = middle
        else:
            high = middle
    return low


@compiled
def _in_sector(  # noqa: PLR0917
    number: int, ring: int, sector: int, count: int, sectors: int, closed: int, at: NDArray[Any],
    totals: NDArray[Any], lows: NDArray[Any], highs: NDArray[Any], points: NDArray[Any],
) -> int:  # fmt: skip
    """The node of a ring nearest in pull to ``number`` that lies in a sector; that node itself if there is none."""
    total = totals[closed - 1]
    for step in range(closed):
        for way in range(2):
            other = number + step if way == 0 else number - step
            if 0 <= other < closed:
                before = totals[other - 1] if other > 0 else 0.0
                inside = min(int(0.5 * (before + totals[other]) / total * count), count - 1)
                if inside == ring:
                    there = points[(lows[other] + highs[other]) // 2]
                    if _sector(at, there[0], there[1], there[2], sectors) == sector:
                        return other
    return number


@compiled
def place(  # noqa: PLR0917
    positions: NDArray[Any], ring_counts: NDArray[Any], sector_counts: NDArray[Any], believed: NDArray[Any],
    starts: NDArray[Any], drawn: NDArray[Any], words: NDArray[np.uint64], word_starts: NDArray[Any],
    points: NDArray[Any], sums: NDArray[Any], view_starts: NDArray[Any],
    all_lows: NDArray[Any], all_highs: NDArray[Any], all_totals: NDArray[Any], found: NDArray[Any],
) -> None:  # fmt: skip
    """A position for each drawn row; -1 for elsewhere.

    A destination believes its drawn rows by a share and the gravity model by the rest. With rings only, the rows take
    the middles of strata of the blended distribution over distance, so that their mean has no noise of its own. With
    sectors, the share of rows that is not believed is placed over all rings, the others evenly over their own ring and
    in their sector. Which place of a node is taken is random.
    """
    for d in range(len(positions)):
        at = points[positions[d]]
        view_first, view_last = view_starts[d], view_starts[d + 1]
        lows, highs = all_lows[view_first:view_last], all_highs[view_first:view_last]
        totals, closed = all_totals[view_first:view_last], view_last - view_first
        count, sectors, belief = ring_counts[d], sector_counts[d], believed[d]
        total = totals[closed - 1]
        begin, end = starts[d], starts[d + 1]
        while end > begin and drawn[end - 1] >= count * sectors:  # rows are sorted: elsewhere comes last
            end -= 1
            found[end] = -1
        rows = end - begin
        if sectors == 1:
            row, ring, before, in_ring = begin, 0, 0.0, 0
            while row < end and drawn[row] == 0:
                row += 1
                in_ring += 1
            share = belief * in_ring / max(rows, 1) + (1.0 - belief) / count
            for number in range(rows):
                wanted = (number + 0.5) / rows
                while wanted >= before + share and ring < count - 1:
                    before += share
                    ring += 1
                    in_ring = 0
                    while row < end and drawn[row] == ring:
                        row += 1
                        in_ring += 1
                    share = belief * in_ring / rows + (1.0 - belief) / count
                inside = min(max((wanted - before) / max(share, 1e-12), 0.0), 1.0)
                at_node = np.searchsorted(totals[:closed], total * (ring + inside) / count, side="right")
                node = min(at_node, closed - 1)
                found[begin + number] = _position(words[word_starts[d] + number], node, lows, highs, sums)
            continue
        replaced = 0
        anywhere = int((1.0 - belief) * rows)
        first = begin
        while first < end:
            ring = drawn[first] // sectors
            last = first
            while last < end and drawn[last] // sectors == ring:
                last += 1
            for row in range(first, last):
                number = row - begin
                if int((number + 1) * (1.0 - belief)) > int(number * (1.0 - belief)):
                    level = (replaced + 0.5) / max(anywhere, 1)
                    replaced += 1
                    at_node = min(np.searchsorted(totals[:closed], total * min(level, 1.0), side="right"), closed - 1)
                else:
                    level = (ring + (row - first + 0.5) / (last - first)) / count
                    at_node = min(np.searchsorted(totals[:closed], total * level, side="right"), closed - 1)
                    at_node = _in_sector(
                        at_node, ring, drawn[row] - ring * sectors, count, sectors, closed, at, totals,
                        lows, highs, points,
                    )  # fmt: skip
                found[row] = _position(words[word_starts[d] + number], at_node, lows, highs, sums)
            first = last


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
