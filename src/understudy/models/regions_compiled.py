"""Rings and sectors around each destination as loops that numba compiles. Imported only by ``regions``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.models.gravity_compiled import KNOTS, KNOTS_PER_OCTAVE, SMALLEST_OCTAVE, compiled, ring_edges, view

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
def encode(  # noqa: PLR0917  (numba passes arguments by position)
    positions: NDArray[Any],
    ring_counts: NDArray[Any],
    sector_counts: NDArray[Any],
    groups: NDArray[Any],
    starts: NDArray[Any],
    origins: NDArray[Any],
    points: NDArray[Any],
    mass: NDArray[Any],
    sums: NDArray[Any],
    nodes: NDArray[Any],
    decays: NDArray[Any],
    farthest: float,
    found: NDArray[Any],
) -> None:
    """The cell of each pair: ring by distance, then sector by direction; beyond ``farthest`` the one after the last."""
    lows, highs, spare = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty((4, ROOM))
    squares, totals, edges = np.empty(ROOM), np.empty(ROOM), np.empty(ROOM)
    for d in range(len(positions)):
        at = points[positions[d]]
        decay = decays[groups[d]]
        closed = view(at, points, mass, sums, nodes, decay, OPENNESS, farthest, lows, highs, squares, totals, spare)
        count, sectors = ring_counts[d], sector_counts[d]
        ring_edges(closed, count, squares, totals, edges)
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
    positions: NDArray[Any], ring_counts: NDArray[Any], sector_counts: NDArray[Any], groups: NDArray[Any],
    believed: NDArray[Any],
    starts: NDArray[Any], drawn: NDArray[Any], words: NDArray[np.uint64], word_starts: NDArray[Any],
    points: NDArray[Any], mass: NDArray[Any], sums: NDArray[Any], nodes: NDArray[Any], decays: NDArray[Any],
    farthest: float, found: NDArray[Any],
) -> None:  # fmt: skip
    """A position for each drawn row; -1 for elsewhere.

    A destination believes its drawn rows by a share and the gravity model by the rest. With rings only, the rows take
    the middles of strata of the blended distribution over distance, so that their mean has no noise of its own. With
    sectors, the share of rows that is not believed is placed over all rings, the others evenly over their own ring and
    in their sector. Which place of a node is taken is random.
    """
    lows, highs, spare = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty((4, ROOM))
    squares, totals = np.empty(ROOM), np.empty(ROOM)
    for d in range(len(positions)):
        at = points[positions[d]]
        decay = decays[groups[d]]
        closed = view(at, points, mass, sums, nodes, decay, OPENNESS, farthest, lows, highs, squares, totals, spare)
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
        at = points[positions[d]]
        closed = view(at, points, mass, sums, nodes, flat, OPENNESS, farthest, lows, highs, squares, totals, spare)
        for number in range(closed):
            knot = (np.log2(max(squares[number], 1e-30)) * 0.5 - SMALLEST_OCTAVE) * KNOTS_PER_OCTAVE
            seen[d, min(max(int(knot + 0.5), 0), KNOTS - 1)] += sums[highs[number]] - sums[lows[number]]
    return seen
