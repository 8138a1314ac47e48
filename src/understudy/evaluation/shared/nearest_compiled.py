"""Loops that numba compiles: a tree of distinct points, the nearest of them with every tie, the k nearest.

Imported only where an attack runs, because numba takes a second to load. Distances are sums or maxima of weighted
differences per attribute; a nominal attribute differs by its whole weight or not at all. A node's bound adds its terms
in the order in which a point's distance does, and rounding is monotone, so a node is left out only if each of its
points is farther than the best: the tree gives what comparing every pair gives, bit for bit, ties included.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers
from understudy.privacy.compiling import compiled

LEAF = 12  # points in a leaf; between 8 and 24 the time differs by little
DEEP = 256  # more than twice the depth of a tree of 2**63 points


@compiled
def build(points: Floats, nominal: Flags, weights: Floats) -> Any:
    """Median splits along the widest attribute, down to leaves; each node keeps the box around its points."""
    count, width = points.shape
    most = 4 * (count // LEAF + 1) + 3
    order = np.arange(count)
    first, last, child = (
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.full(most, -1, np.int64),
    )
    low, high = np.empty((most, width)), np.empty((most, width))
    last[0] = count
    made, node = 1, 0
    while node < made:
        begin, end = first[node], last[node]
        widest, spread = 0, -1.0
        for j in range(width):
            least, greatest = np.inf, -np.inf
            for place in range(begin, end):
                value = points[order[place], j]
                least, greatest = min(least, value), max(greatest, value)
            low[node, j], high[node, j] = least, greatest
            apart = (weights[j] if greatest > least else 0.0) if nominal[j] else (greatest - least) * weights[j]
            if apart > spread:
                widest, spread = j, apart
        if end - begin > LEAF:
            part = order[begin:end].copy()
            values = np.empty(end - begin)
            for place in range(end - begin):
                values[place] = points[part[place], widest]
            sort = np.argsort(values)
            for place in range(end - begin):
                order[begin + place] = part[sort[place]]
            middle = begin + (end - begin) // 2
            child[node] = made
            first[made], last[made], first[made + 1], last[made + 1] = begin, middle, middle, end
            made += 2
        node += 1
    return order, first[:made].copy(), last[:made].copy(), child[:made].copy(), low[:made].copy(), high[:made].copy()


@compiled
def _to_box(  # noqa: PLR0917
    query: Floats, low: Floats, high: Floats, nominal: Flags, weights: Floats, largest: bool, best: float
) -> float:
    total: float = 0.0
    for j in range(len(query)):
        value = query[j]
        if nominal[j]:
            term = weights[j] if value < low[j] or value > high[j] else 0.0
        else:
            term = max(low[j] - value, value - high[j], 0.0) * weights[j]
        total = max(total, term) if largest else total + term
        if total > best:
            return total
    return total


@compiled
def _to_point(  # noqa: PLR0917
    query: Floats, point: Floats, nominal: Flags, weights: Floats, largest: bool, best: float
) -> float:
    """The distance, or something above ``best`` as soon as it is clear that it is above."""
    total: float = 0.0
    for j in range(len(query)):
        apart = 1.0 * (query[j] != point[j]) if nominal[j] else abs(query[j] - point[j])
        term = apart * weights[j]
        total = max(total, term) if largest else total + term
        if total > best:
            return total
    return total


@compiled
def nearest(  # noqa: PLR0917  (numba passes arguments by position)
    points: Floats, first: Integers, last: Integers, child: Integers, low: Floats, high: Floats,
    nominal: Flags, weights: Floats, largest: bool, queries: Floats, visit: Integers,
) -> Any:  # fmt: skip
    """The least distance of each query to a point and how many points have it. Points come in the tree's order."""
    distance, ties = np.empty(len(queries)), np.zeros(len(queries), np.int64)
    nodes, bounds = np.empty(DEEP, np.int64), np.empty(DEEP)
    near = 0
    for number in visit:
        query = queries[number]
        # The nearest point of the previous query, which lies close by, bounds the search from the start.
        best = _to_point(query, points[near], nominal, weights, largest, np.inf)
        tied, top = 0, 1
        nodes[0], bounds[0] = 0, 0.0
        while top > 0:
            top -= 1
            if bounds[top] > best:
                continue
            node = nodes[top]
            if child[node] < 0:
                for place in range(first[node], last[node]):
                    apart = _to_point(query, points[place], nominal, weights, largest, best)
                    if apart < best:
                        best, tied, near = apart, 1, place
                    elif apart == best:
                        tied += 1
                continue
            one, other = child[node], child[node] + 1
            to_one = _to_box(query, low[one], high[one], nominal, weights, largest, best)
            to_other = _to_box(query, low[other], high[other], nominal, weights, largest, best)
            if to_one < to_other:
                one, other, to_one, to_other = other, one, to_other, to_one
            if to_one <= best:
                nodes[top], bounds[top] = one, to_one
                top += 1
            if to_other <= best:
                nodes[top], bounds[top] = other, to_other
                top += 1
        distance[number], ties[number] = best, tied
    return distance, ties


@compiled
def within(  # noqa: PLR0917
    points: Floats, first: Integers, last: Integers, child: Integers, low: Floats, high: Floats,
    nominal: Flags, weights: Floats, largest: bool, queries: Floats, radius: Floats, offsets: Integers,
) -> Any:  # fmt: skip
    """The points at no more than each query's radius; ``offsets`` says how many there are, as ``nearest`` counted."""
    found = np.empty(offsets[-1], np.int64)
    nodes = np.empty(DEEP, np.int64)
    for number in range(len(queries)):
        query, reach, place_of = queries[number], radius[number], offsets[number]
        top, nodes[0] = 1, 0
        while top > 0:
            top -= 1
            node = nodes[top]
            if _to_box(query, low[node], high[node], nominal, weights, largest, reach) > reach:
                continue
            if child[node] >= 0:
                nodes[top], nodes[top + 1] = child[node], child[node] + 1
                top += 2
                continue
            for place in range(first[node], last[node]):
                if _to_point(query, points[place], nominal, weights, largest, reach) <= reach:
                    found[place_of] = place
                    place_of += 1
    return found


@compiled
def k_nearest(  # noqa: PLR0917
    points: Floats, copies: Integers, first: Integers, last: Integers, child: Integers, low: Floats, high: Floats,
    nominal: Flags, weights: Floats, largest: bool, queries: Floats, visit: Integers, k: int, own: Integers,
) -> Any:  # fmt: skip
    """The k least distances to records (``copies`` records lie on each point), one record on point ``own`` left out."""
    distances = np.full((len(queries), k), np.inf)
    nodes, bounds = np.empty(DEEP, np.int64), np.empty(DEEP)
    for number in visit:
        query, kept = queries[number], distances[number]
        top, nodes[0], bounds[0] = 1, 0, 0.0
        while top > 0:
            top -= 1
            if bounds[top] >= kept[k - 1]:
                continue
            node = nodes[top]
            if child[node] < 0:
                for place in range(first[node], last[node]):
                    apart = _to_point(query, points[place], nominal, weights, largest, kept[k - 1])
                    times = copies[place] - (1 if own[number] == place else 0)
                    while times > 0 and apart < kept[k - 1]:
                        slot = k - 1
                        while slot > 0 and kept[slot - 1] > apart:
                            kept[slot] = kept[slot - 1]
                            slot -= 1
                        kept[slot] = apart
                        times -= 1
                continue
            one, other = child[node], child[node] + 1
            to_one = _to_box(query, low[one], high[one], nominal, weights, largest, kept[k - 1])
            to_other = _to_box(query, low[other], high[other], nominal, weights, largest, kept[k - 1])
            if to_one < to_other:
                one, other, to_one, to_other = other, one, to_other, to_one
            nodes[top], bounds[top], nodes[top + 1], bounds[top + 1] = one, to_one, other, to_other
            top += 2
    return distances


@compiled
def without_each(  # noqa: PLR0917
    points: Floats, counts: Integers, ranks: Floats, codes: Integers, queries: Floats, targets: Integers,
    nominal: Flags, weights: Floats, kind: int, begins: Integers,
) -> Any:  # fmt: skip
    """For each query and target: what the points nearest in all attributes but the target say about the target.

    A pass over the points serves all targets: the distance without attribute j joins what stands before j with what
    stands behind it, so equal differences give equal distances, whatever the target's own. ``kind``: 0 the sum, 1 the
    maximum, 2 the minimum of the differences. Attributes of negative weight are not known. ``ranks`` and ``codes`` are
    of the points, by target; ``counts`` says how many records lie on each; ``begins`` where each target's codes begin
    in the table.
    """
    width, asked = points.shape[1], len(targets)
    shape = (len(queries), asked)
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    first, table = np.zeros(shape, np.int64), np.zeros((len(queries), begins[-1]), np.int64)
    start = np.inf if kind == 2 else 0.0
    before, behind, best = np.empty(width + 1), np.empty(width + 1), np.empty(asked)
    for number in range(len(queries)):
        query = queries[number]
        best[:] = np.inf
        worst = np.inf  # the greatest of the best distances
        for place in range(len(points)):
            point = points[place]
            before[0] = start
            greatest, next_greatest = 0.0, 0.0
            for j in range(width):
                apart = 1.0 * (query[j] != point[j]) if nominal[j] else abs(query[j] - point[j])
                term = apart * weights[j] if weights[j] >= 0 else start
                behind[j] = term
                if term > greatest:
                    greatest, next_greatest = term, greatest
                elif term > next_greatest:
                    next_greatest = term
                if kind == 0:
                    before[j + 1] = before[j] + term
                elif kind == 1:
                    before[j + 1] = max(before[j], term)
                else:
                    before[j + 1] = min(before[j], term)
            # No distance without one attribute is less than this (except for rounding, in sums).
            least: Any = before[width]
            if kind == 0:
                least = (least - greatest) * (1 - 1e-9)
            elif kind == 1:
                least = next_greatest
            if least > worst:
                continue
            behind[width] = start
            for back in range(width):
                j = width - 1 - back
                if kind == 0:
                    behind[j] += behind[j + 1]
                elif kind == 1:
                    behind[j] = max(behind[j], behind[j + 1])
                else:
                    behind[j] = min(behind[j], behind[j + 1])
            better = False
            for t in range(asked):
                j = targets[t]
                if kind == 0:
                    away = before[j] + behind[j + 1]
                elif kind == 1:
                    away = max(before[j], behind[j + 1])
                else:
                    away = min(before[j], behind[j + 1])
                if away > best[t]:
                    continue
                if away < best[t]:
                    best[t] = away
                    low[number, t], high[number, t], first[number, t] = np.inf, -np.inf, place
                    table[number, begins[t] : begins[t + 1]] = 0
                    better = True
                low[number, t] = min(low[number, t], ranks[place, t])
                high[number, t] = max(high[number, t], ranks[place, t])
                table[number, begins[t] + codes[place, t]] += counts[place]
            if better:
                worst = best.max()
    return low, high, first, table


@compiled
def summarise(  # noqa: PLR0917
    offsets: Integers, members: Integers, record_offsets: Integers, ranks: Floats, codes: Integers, levels: int,
) -> Any:  # fmt: skip
    """For each group of points, over all records on them: least and greatest rank, counts per code (as a table)."""
    groups = len(offsets) - 1
    least, greatest = np.full(groups, np.inf), np.full(groups, -np.inf)
    table = np.zeros((groups, levels), np.int64)
    for group in range(groups):
        for place in range(offsets[group], offsets[group + 1]):
            point = members[place]
            for record in range(record_offsets[point], record_offsets[point + 1]):
                least[group] = min(least[group], ranks[record])
                greatest[group] = max(greatest[group], ranks[record])
                table[group, codes[record]] += 1
    return least, greatest, table
