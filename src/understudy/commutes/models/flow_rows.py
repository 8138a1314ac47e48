"""Jobs between places from expected jobs between areas: whole numbers first, then places by public weights.

Only noisy values and public facts come in, so everything here is post-processing. Whole numbers are made by one random
start per destination area and steps of one along the cumulated expectations: each cell gets its expectation rounded up
or down, and the areas' totals are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.area_pairs import AreaPairs
from understudy.core.arrays import Floats, Integers
from understudy.core.mechanism import Stream
from understudy.core.places import Places
from understudy.privacy.randomness.draws import unit_interval


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedJobs:
    """Synthetic jobs: pairs of places, sorted by destination and then origin, and how many jobs each has."""

    origins: Integers
    destinations: Integers
    jobs: Integers


def draw_jobs(
    places: Places, pairs: AreaPairs, expected: Floats, at_places: Integers, stream: Stream, *purpose: str | int
) -> PairedJobs:
    """Synthetic jobs: ``at_places`` of them at each place, coming from areas as ``expected`` says.

    Who of an area's workers works at which of its places is drawn at random; the home within an area is drawn by the
    public weights of places.
    """
    fine = pairs.finest
    totals = np.bincount(fine.area_of_place, at_places, len(fine)).astype(np.int64)
    levels, areas, works = _far_jobs(pairs, expected, totals, stream, *purpose, "far")
    near = totals - np.bincount(works, minlength=len(fine))
    cell, times = _near_jobs(pairs, expected, near, stream, *purpose, "near")
    level = np.concatenate([levels, np.full(int(times.sum()), len(pairs.levels) - 1)])
    home_area = np.concatenate([areas, np.repeat(pairs.origin[cell], times)])
    work_area = np.concatenate([works, np.repeat(pairs.destination[cell], times)])
    homes = np.empty(len(level), dtype=np.int64)
    for number, one in enumerate(pairs.levels):
        own = np.flatnonzero(level == number)
        homes[own] = draw_places(one.area_of_place, places.mass, home_area[own], stream, *purpose, "home", number)
    # Workers of an area in random order meet its jobs in the order of its places.
    order = np.lexsort((unit_interval(stream, len(homes), *purpose, "who"), work_area))
    by_area = np.argsort(fine.area_of_place, kind="stable")
    workplaces = np.repeat(by_area, at_places[by_area])
    return _counted(homes[order], workplaces, len(places))


def _counted(origins: Integers, destinations: Integers, places: int) -> PairedJobs:
    keys, jobs = np.unique(destinations * np.int64(places) + origins, return_counts=True)
    return PairedJobs(origins=keys % places, destinations=keys // places, jobs=jobs.astype(np.int64))


def _far_jobs(
    pairs: AreaPairs, expected: Floats, totals: Integers, stream: Stream, *purpose: str | int
) -> tuple[Integers, Integers, Integers]:
    """Jobs of cells of coarser areas, one entry each: level and area of the home, finest area of the work.

    The finest area of the work is drawn by the areas' totals; an area never gets more jobs than it has.
    """
    first = pairs.near.start
    if first == 0:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty
    times = steps_of_one(expected[:first], np.array([0, first]), stream, *purpose, "cells")
    cell = np.repeat(np.arange(first), times)
    level, home, work = pairs.level[cell].astype(np.int64), pairs.origin[cell].astype(np.int64), np.empty_like(cell)
    for number in range(len(pairs.levels) - 1):
        own = np.flatnonzero(level == number)
        ancestor = pairs.ancestors(number)
        work[own] = draw_places(
            ancestor, totals.astype(np.float64), pairs.destination[cell[own]], stream, *purpose, "work", number
        )
    order = np.argsort(work, kind="stable")
    place_in_area = np.arange(len(work)) - np.searchsorted(work[order], work[order])
    kept = np.sort(order[place_in_area < totals[work[order]]])
    return level[kept], home[kept], work[kept]


def _near_jobs(
    pairs: AreaPairs, expected: Floats, totals: Integers, stream: Stream, *purpose: str | int
) -> tuple[Integers, Integers]:
    """Cells of the finest areas and their whole numbers of jobs, with the exact total of every destination area."""
    start = pairs.near.start
    destination = pairs.destination[pairs.near]
    order = start + np.argsort(destination, kind="stable")
    bounds = np.searchsorted(pairs.destination[order], np.arange(len(totals) + 1))
    wanted = expected[order]
    sums = np.add.reduceat(np.append(wanted, 0.0), np.minimum(bounds[:-1], len(wanted)))
    scale = totals / np.maximum(sums, np.finfo(float).tiny)
    times = steps_of_one(wanted * scale[pairs.destination[order]], bounds, stream, *purpose, totals=totals)
    return order, times


def steps_of_one(
    expected: Floats, bounds: NDArray[np.integer], stream: Stream, *purpose: str | int, totals: Integers | None = None
) -> Integers:
    """Whole numbers whose expectations are given: systematic sampling within each group of entries.

    Group g is ``expected[bounds[g]:bounds[g + 1]]``. With ``totals`` its sum is a whole number known exactly, whatever
    was lost in adding up.
    """
    groups = len(bounds) - 1
    sums = np.concatenate(([0.0], np.cumsum(expected)))
    group = np.repeat(np.arange(groups), np.diff(bounds))
    within = sums[1:] - sums[bounds[:-1]][group]
    start = unit_interval(stream, groups, *purpose, "start")
    reached = np.floor(within + start[group]).astype(np.int64)
    if totals is not None:
        reached = np.minimum(reached, totals[group])
        filled = np.diff(bounds) > 0
        reached[bounds[1:][filled] - 1] = totals[filled]
    before = np.concatenate(([0], reached[:-1]))
    before[bounds[:-1][np.diff(bounds) > 0]] = 0
    return np.asarray(reached - before, dtype=np.int64)


def draw_places(
    group_of: Integers, weights: Floats, groups: NDArray[np.integer], stream: Stream, *purpose: str | int
) -> Integers:
    """For each entry of ``groups`` a member of that group, drawn by the members' weights."""
    if len(groups) == 0:
        return np.zeros(0, dtype=np.int64)
    order = np.argsort(group_of, kind="stable")
    sums = np.cumsum(weights[order])
    counts = np.bincount(group_of)
    last = np.cumsum(counts) - 1
    low = np.concatenate(([0.0], sums[last]))[:-1]
    point = low[groups] + unit_interval(stream, len(groups), *purpose) * (sums[last] - low)[groups]
    found = np.searchsorted(sums, point, side="right")
    return np.asarray(order[np.clip(found, (last - counts + 1)[groups], last[groups])], dtype=np.int64)
