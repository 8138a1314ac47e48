"""Areas that follow where people live: clusters of noisy counts of jobs by home (k-means, as in the SULQ framework).

Blum, Dwork, McSherry and Nissim (2005) run k-means on noisy sums and counts of every round. Here the places are public,
so one noisy count of each small public cell is enough: all rounds work on it, and cost nothing more. The areas are a
function of public places and of noisy counts that were charged, so that drawing over them is post-processing. It is the
same function whenever it is asked: a run that died after the second table was measured must find the areas again that
this table was measured by.
"""

from __future__ import annotations

import hashlib

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.places import Places
from understudy.privacy.randomness.draws import KeyedStream, unit_interval

ROUNDS = 30


def small_cells(places: Places, most: int) -> tuple[Integers, int]:
    """The cell of each place, and how many cells there are: halves of halves with equally many places.

    Every part is cut across its longest side. A function of the public coordinates alone.
    """
    points = places.points()
    parts = [np.arange(len(places))]
    while len(parts) < most and max(map(len, parts)) > 1:
        halves: list[Integers] = []
        for part in parts:
            if len(part) < 2:
                halves.append(part)
                continue
            own = points[part]
            axis = int(np.argmax(own.max(axis=0) - own.min(axis=0)))
            order = part[np.argsort(own[:, axis], kind="stable")]
            halves += [order[: len(order) // 2], order[len(order) // 2 :]]
        if len(halves) > most or len(halves) == len(parts):
            break
        parts = halves
    cell_of = np.empty(len(places), dtype=np.int64)
    for number, part in enumerate(parts):
        cell_of[part] = number
    return cell_of, len(parts)


def clusters(points: Floats, weights: Floats, number: int) -> Integers:
    """The cluster of each point: k-means for the weighted points, begun far apart (Arthur and Vassilvitskii 2007).

    Where it begins is drawn with words that follow from what is clustered, so equal points have equal clusters.
    """
    number = min(number, len(points))
    weights = np.asarray(weights, dtype=np.float64)
    if not weights.sum() > 0:
        weights = np.ones(len(points))
    known = hashlib.sha256(np.ascontiguousarray(points, dtype=np.float64).tobytes() + weights.tobytes())
    share = unit_interval(KeyedStream(key=known.digest()), number, "clusters")
    centres = points[[_picked(weights, share[0])]]
    away = ((points - centres[0]) ** 2).sum(axis=1)
    for one in share[1:]:
        pull = weights * away
        if not pull.sum() > 0:
            pull = away
        centres = np.vstack([centres, points[_picked(pull, one)]])
        away = np.minimum(away, ((points - centres[-1]) ** 2).sum(axis=1))
    nearest = _nearest(points, centres)
    for _ in range(ROUNDS):
        sums = np.stack([np.bincount(nearest, weights * axis, len(centres)) for axis in points.T], axis=1)
        sizes = np.bincount(nearest, weights, len(centres))
        filled = sizes > 0
        centres[filled] = sums[filled] / sizes[filled, None]
        now = _nearest(points, centres)
        if np.array_equal(now, nearest):
            break
        nearest = now
    return nearest


def _picked(weights: Floats, share: float) -> int:
    upper = np.cumsum(weights)
    return min(int(np.searchsorted(upper, share * upper[-1], side="right")), len(weights) - 1)


def _nearest(points: Floats, centres: Floats) -> Integers:
    from scipy.spatial import cKDTree

    found: Integers = cKDTree(centres).query(points)[1].astype(np.int64)
    return found


def found_areas(places: Places, cell_of: Integers, counts: Integers, number: int) -> Integers:
    """The area of each place: cells are clustered by where noisy counts say that people live."""
    middles = middles_of(places.points(), cell_of, len(counts))
    # Half of all empty cells have a positive noisy count; their weights are small beside those of towns.
    return clusters(middles, np.maximum(counts, 0), number)[cell_of]


def middles_of(points: Floats, group_of: Integers, number: int) -> Floats:
    """The middle of the points of each group."""
    sizes = np.maximum(np.bincount(group_of, minlength=number), 1)
    sums = [np.bincount(group_of, weights=axis, minlength=number) for axis in points.T]
    return np.asarray(np.stack(sums, axis=1) / sizes[:, None], dtype=np.float64)
