"""Rings and sectors around each destination as loops that numba compiles. Imported only by ``regions``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.models.gravity_compiled import KNOTS, KNOTS_PER_OCTAVE, SMALLEST_OCTAVE, compiled, look_around, rings

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
    heaps, lows, highs = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    halves, pulls, order = np.empty(ROOM, np.int64), np.empty(ROOM), np.empty(ROOM, np.int64)
    totals, edges, squares = np.empty(ROOM), np.empty(ROOM), np.empty(ROOM)
    for d in range(len(positions)):
        at = points[positions[d]]
        decay = decays[groups[d]]
        used = look_around(
            at[0], at[1], at[2], points, mass, sums, nodes, decay, heaps, lows, highs, halves, pulls, OPENNESS
        )
        count, sectors = ring_counts[d], sector_counts[d]
        rings(
            at[0],
            at[1],
            at[2],
            used,
            count,
            points,
            mass,
            nodes,
            heaps,
            lows,
            highs,
            halves,
            pulls,
            edges,
            order,
            totals,
            squares,
            farthest,
        )
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
def place(  # noqa: PLR0917
    positions: NDArray[Any],
    ring_counts: NDArray[Any],
    sector_counts: NDArray[Any],
    groups: NDArray[Any],
    starts: NDArray[Any],
    drawn: NDArray[Any],
    words: NDArray[np.uint64],
    word_starts: NDArray[Any],
    points: NDArray[Any],
    mass: NDArray[Any],
    sums: NDArray[Any],
    nodes: NDArray[Any],
    decays: NDArray[Any],
    farthest: float,
    found: NDArray[Any],
) -> None:
    """A position for each drawn row of a cell: evenly over the pull of its ring, in its sector; -1 for elsewhere.

    The rows of a ring take the middles of as many strata of equal pull, so that the mean distance has hardly any noise
    of its own; which place of a node is taken is random.
    """
    heaps, lows, highs = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    halves, pulls, order = np.empty(ROOM, np.int64), np.empty(ROOM), np.empty(ROOM, np.int64)
    totals, edges, squares = np.empty(ROOM), np.empty(ROOM), np.empty(ROOM)
    for d in range(len(positions)):
        at = points[positions[d]]
        decay = decays[groups[d]]
        used = look_around(
            at[0], at[1], at[2], points, mass, sums, nodes, decay, heaps, lows, highs, halves, pulls, OPENNESS
        )
        count, sectors = ring_counts[d], sector_counts[d]
        closed = rings(
            at[0],
            at[1],
            at[2],
            used,
            count,
            points,
            mass,
            nodes,
            heaps,
            lows,
            highs,
            halves,
            pulls,
            edges,
            order,
            totals,
            squares,
            farthest,
        )
        total = totals[closed - 1]
        begin = starts[d]
        while begin < starts[d + 1]:
            ring = drawn[begin] // sectors
            end = begin
            while end < starts[d + 1] and drawn[end] // sectors == ring:
                end += 1
            for row in range(begin, end):
                word = words[word_starts[d] + row - starts[d]]
                if ring >= count:
                    found[row] = -1
                    continue
                share = (row - begin + 0.5) / (end - begin)
                number = np.searchsorted(totals[:closed], total * (ring + share) / count, side="right")
                number = min(number, closed - 1)
                sector = drawn[row] - ring * sectors
                if sectors > 1:
                    # The nearest node of the ring that lies in the sector; none there: the one at hand.
                    for step in range(closed):
                        hit = -1
                        for way in range(2):
                            other = number + step if way == 0 else number - step
                            if 0 <= other < closed:
                                inside = min(
                                    int((totals[other] - 0.5 * pulls[order[other]]) / total * count), count - 1
                                )
                                middle = (lows[order[other]] + highs[order[other]]) // 2
                                there = points[middle]
                                if inside == ring and _sector(at, there[0], there[1], there[2], sectors) == sector:
                                    hit = other
                                    break
                        if hit >= 0:
                            number = hit
                            break
                node = order[number]
                low, high = lows[node], highs[node]
                target = sums[low] + np.float64(word >> np.uint64(11)) * 2.0**-53 * (sums[high] - sums[low])
                while high - low > 1:
                    middle = (low + high) // 2
                    if sums[middle] <= target:
                        low = middle
                    else:
                        high = middle
                found[row] = low
            begin = end


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
    heaps, lows, highs = np.empty(ROOM, np.int64), np.empty(ROOM, np.int64), np.empty(ROOM, np.int64)
    halves, pulls, order = np.empty(ROOM, np.int64), np.empty(ROOM), np.empty(ROOM, np.int64)
    totals, edges, squares = np.empty(ROOM), np.empty(ROOM), np.empty(ROOM)
    seen = np.zeros((len(positions), KNOTS))
    for d in range(len(positions)):
        at = points[positions[d]]
        used = look_around(
            at[0], at[1], at[2], points, mass, sums, nodes, flat, heaps, lows, highs, halves, pulls, OPENNESS
        )
        closed = rings(
            at[0],
            at[1],
            at[2],
            used,
            1,
            points,
            mass,
            nodes,
            heaps,
            lows,
            highs,
            halves,
            pulls,
            edges,
            order,
            totals,
            squares,
            farthest,
        )
        for number in range(closed):
            node = order[number]
            knot = (np.log2(max(squares[number], 1e-30)) * 0.5 - SMALLEST_OCTAVE) * KNOTS_PER_OCTAVE
            seen[d, min(max(int(knot + 0.5), 0), KNOTS - 1)] += sums[highs[node]] - sums[lows[node]]
    return seen
