"""Profiles of areas: who works there, who lives there, who does both, how far and in which direction people commute.

Every number has its range. A profile is made from a release alone, so it is as public as the release.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.commutes.answers.ranges import Counted, CountRanges, ranges_of
from understudy.commutes.answers.segment_counts import segments_by_area
from understudy.commutes.commute_release import CommuteRelease
from understudy.core.arrays import Floats, Integers
from understudy.core.places import Places
from understudy.errors import InputError, UnsupportedError, unknown_name

DIRECTIONS = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")
RINGS = (0.0, 10.0, 25.0, 50.0)  # miles at which the classes of distance begin, as planners use them
MOST_FLOWS = 2_000_000

Columns = dict[str, Any]


def area_profiles(release: CommuteRelease, level: str, copy: int = 1) -> pa.Table:
    """For each area of a level: workers, residents, inflow and outflow, the mean distance of its workers, and where the
    release has segments workers and residents in each, with ranges. The range of a number that the release does not
    tell is empty."""
    ranges = ranges_of(release, copy)
    names, area, areas = _areas(release.places, level)
    origins, destinations, jobs = ranges.pairs
    home = np.where(origins >= 0, area[origins], areas)
    work = area[destinations]
    total = max(float(jobs.sum()), 1.0)
    workers = _sums(work, jobs, areas + 1)[:areas]
    works_part = workers / total
    inside = home == work
    columns: Columns = {
        "area": pa.array(names),
        "name": pa.array(_called(release.places, level, names)),
        "workers": pa.array(workers.astype(np.int64)),
    }
    asked = {
        "residents": (home < areas, home, np.ones(areas)),
        "live_and_work": (inside & (home < areas), home, works_part),
        "live_only": (~inside & (home < areas), home, 1 - works_part),
    }
    for name, (kept, group, part) in asked.items():
        columns |= _with_range(
            name, _by_area(ranges, name, kept=kept, group=np.minimum(group, areas - 1), area=area, part=part)
        )
    kept = inside & (home < areas)
    group = np.minimum(home, areas - 1)
    together = _by_area(ranges, "live_and_work", kept=kept, group=group, area=area, part=works_part)
    # Where workers are public, what is not known of one part is not known of the other; otherwise neither has a range.
    unknown = together.variance if ranges.public_sizes else np.full(areas, np.nan)
    only = Counted(value=workers - together.value, variance=unknown, shared=together.shared)
    columns |= _with_range("work_only", only)
    columns |= _distances(ranges, area, areas)
    columns |= segments_by_area(ranges, area, areas)
    return pa.table(columns)


def area_flows(release: CommuteRelease, level: str, copy: int = 1) -> pa.Table:
    """Jobs from each area of homes to each area of work, where there are any, with ranges."""
    ranges = ranges_of(release, copy)
    names, area, areas = _areas(release.places, level)
    origins, destinations, jobs = ranges.pairs
    home, work = np.where(origins >= 0, area[origins], areas), area[destinations]
    kept = (home < areas) & (work < areas)
    keys, group = np.unique((home * (areas + 1) + work)[kept], return_inverse=True)
    if len(keys) > MOST_FLOWS:
        raise InputError(f"there are {len(keys):,} flows between areas of level '{level}'; choose a coarser level.")
    of_pair = np.zeros(len(jobs), dtype=np.int64)
    of_pair[kept] = group
    work_jobs = _sums(work, jobs, areas + 1) / max(float(jobs.sum()), 1.0)
    if ranges.law[0] is not None:
        counted = ranges.counted(kept, of_pair, len(keys), part=work_jobs[keys % (areas + 1)])
        from_to = zip((keys // (areas + 1)).tolist(), (keys % (areas + 1)).tolist(), strict=True)
        near = np.array([ranges.near(area == one) if one == other else 0.0 for one, other in from_to])
        counted = Counted(value=counted.value, variance=counted.variance, shared=np.maximum(counted.shared, near))
    else:
        counted = ranges.counted_pairs(level, _sums(group, jobs[kept], len(keys)))
    ids = np.array(names)
    columns: Columns = {
        "home": pa.array(ids[keys // (areas + 1)].tolist()),
        "work": pa.array(ids[keys % (areas + 1)].tolist()),
    }
    return pa.table(columns | _with_range("jobs", counted))


def directions(release: CommuteRelease, level: str, copy: int = 1) -> pa.Table:
    """Workers of each area by the direction in which they live, seen from their work, and by distance, with ranges.

    Homes outside have no direction and are left out, as are homes at the workplace itself.
    """
    ranges = ranges_of(release, copy)
    if ranges.law[0] is None:
        raise UnsupportedError("directions need to know single homes and workplaces; this release knows whole areas.")
    names, area, areas = _areas(release.places, level)
    origins, destinations, jobs = ranges.pairs
    known = np.isfinite(ranges.miles) & (area[destinations] < areas)
    turn = bearings(release.places, destinations[known], origins[known])
    sector = np.full(len(jobs), 0, dtype=np.int64)
    sector[known] = np.floor((turn + 22.5) / 45).astype(np.int64) % len(DIRECTIONS)
    ring = np.searchsorted(RINGS, np.nan_to_num(ranges.miles), side="right") - 1
    cells = len(DIRECTIONS) * len(RINGS)
    group = np.minimum(area[destinations], areas - 1) * cells + sector * len(RINGS) + ring
    work_jobs = _sums(area[destinations], jobs, areas + 1)[:areas] / max(float(jobs.sum()), 1.0)
    counted = ranges.counted(known, group, areas * cells, part=np.repeat(work_jobs, cells))
    shown = np.flatnonzero(counted.value > 0)
    ends = (*(f"{high:g}" for high in RINGS[1:]), "")
    columns: Columns = {
        "work": pa.array([names[one] for one in (shown // cells).tolist()]),
        "direction": pa.array([DIRECTIONS[one] for one in (shown % cells // len(RINGS)).tolist()]),
        "from_miles": pa.array([RINGS[one] for one in (shown % len(RINGS)).tolist()]),
        "to_miles": pa.array([ends[one] for one in (shown % len(RINGS)).tolist()]),
    }
    picked = Counted(value=counted.value[shown], variance=counted.variance[shown], shared=counted.shared[shown])
    return pa.table(columns | _with_range("jobs", picked))


def bearings(places: Places, here: Integers, there: Integers) -> Floats:
    """The direction from one place to another in degrees: 0 is north, 90 east.

    >>> from understudy.core.places import make_places
    >>> places = make_places(["a", "b", "c"], [41, 42, 41], [-71, -71, -70])
    >>> bearings(places, np.array([0, 0]), np.array([1, 2])).round().tolist()
    [0.0, 90.0]
    """
    a, b = np.radians(places.latitude[here]), np.radians(places.latitude[there])
    across = np.radians(places.longitude[there] - places.longitude[here])
    east = np.sin(across) * np.cos(b)
    north = np.cos(a) * np.sin(b) - np.sin(a) * np.cos(b) * np.cos(across)
    found: Floats = np.degrees(np.arctan2(east, north)) % 360
    return found


def _areas(places: Places, level: str) -> tuple[list[str], Integers, int]:
    """Ids of the areas of a level, the area of each place, and how many there are; the last stands for none."""
    if level not in places.groupings:
        raise unknown_name("level of areas", level, places.groupings)
    ids, area = np.unique(places.groupings[level], return_inverse=True)
    if ids[0] == b"":  # places in no group come first in order, and are put last
        area = np.where(area == 0, len(ids) - 1, area - 1)
        ids = ids[1:]
    return [one.decode() for one in ids.tolist()], area.astype(np.int64), len(ids)


def _called(places: Places, level: str, ids: list[str]) -> list[str]:
    names = places.area_names.get(level, {})
    return [names.get(one, one) for one in ids]


def _by_area(
    ranges: CountRanges, name: str, *, kept: NDArray[np.bool_], group: Integers, area: Integers, part: Floats
) -> Counted:
    """Counts by area of the home: of all its residents, of those who work there, or of those who work elsewhere."""
    count = len(part)
    if ranges.law[0] is not None:
        found_all = ranges.counted(kept, group, count, part=part)
        if name == "residents":
            return _measured_where_known(ranges, found_all, area)
        if name == "live_and_work":
            near = np.array([ranges.near(area == one) for one in range(count)])
            return Counted(
                value=found_all.value, variance=found_all.variance, shared=np.maximum(found_all.shared, near)
            )
        return found_all
    found = []
    for one in range(count):
        here = area == one
        works = {"residents": np.ones_like(here), "live_and_work": here, "live_only": ~here}[name]
        try:
            found.append(ranges.counted_areas(here, works))
        except UnsupportedError:  # a level finer than what was measured
            value = _sums(group[kept], ranges.pairs[2][kept], count)
            return Counted(value=value, variance=np.full(count, np.nan), shared=np.zeros(count))
    return Counted(
        value=np.array([one.value[0] for one in found]),
        variance=np.array([one.variance[0] for one in found]),
        shared=np.array([one.shared[0] for one in found]),
    )


def _measured_where_known(ranges: CountRanges, counted: Counted, area: Integers) -> Counted:
    """Residents by area, taken from the noisy counts of home areas where an area consists of them."""
    value, variance, shared = counted.value.copy(), counted.variance.copy(), counted.shared.copy()
    for one in range(len(value)):
        known = ranges.residents(area == one)
        if known is not None:
            value[one], variance[one], shared[one] = known.value[0], 0.0, known.reach()[0]
    return Counted(value=value, variance=variance, shared=shared)


def _distances(ranges: CountRanges, area: Integers, areas: int) -> Columns:
    """The mean distance of the workers of each area, in miles."""
    found: list[tuple[float | None, float | None, float | None]] = []
    for one in range(areas):
        try:
            value, reach, _ = ranges.mean_miles(None, area == one)
            found.append((value, max(value - reach, 0.0), value + reach))
        except UnsupportedError:
            found.append((None, None, None))
    names = ("mean_miles_of_workers", "mean_miles_of_workers_low", "mean_miles_of_workers_high")
    return {name: pa.array([row[place] for row in found], type=pa.float64()) for place, name in enumerate(names)}


def _with_range(name: str, counted: Counted) -> Columns:
    reach = counted.reach()
    known = np.isfinite(reach)
    ends = (np.maximum(np.ceil(counted.value - reach - 1e-9), 0), np.floor(counted.value + reach + 1e-9))
    whole = {
        f"{name}{end}": pa.array(np.where(known, values, 0).astype(np.int64), mask=~known)
        for end, values in zip(("_low", "_high"), ends, strict=True)
    }
    return {name: pa.array(counted.value.astype(np.int64)), **whole}


def _sums(groups: NDArray[Any], values: NDArray[Any], count: int) -> Floats:
    return np.asarray(np.bincount(groups, values, count), dtype=np.float64)
