"""Jobs by segment in areas, from the noisy tables that measured them, and segments of every area of a level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.commutes.answers.noise_reach import noise_reach
from understudy.commutes.answers.ranges import Counted, CountRanges, Mask
from understudy.commutes.commute_release import CommuteRelease
from understudy.commutes.shared.segments import (
    HOME,
    TOGETHER,
    WORK,
    label_of,
    measured_jointly,
    planned_design,
    released_partitions,
    segment_level,
)
from understudy.core.arrays import Integers
from understudy.core.flows import Partition
from understudy.core.measurement import Measurement
from understudy.errors import UnsupportedError, unknown_name

LEVEL = 0.95  # of the ranges of a profile


def segment_count(ranges: CountRanges, segment: str, homes: Mask | None, works: Mask | None) -> Counted:
    """The jobs of a segment in whole areas of the home or of the work: noisy counts, whose law is known. Those of a
    partition that the unit fixes are public by workplace, and have no range."""
    release = ranges.release
    plan = release.provenance.plan
    partitions = () if plan is None else released_partitions(plan)
    partition = next((one for one in partitions if segment in one.columns), None)
    if partition is None or plan is None:
        raise unknown_name("segment", segment, [column for one in partitions for column in one.columns])
    if homes is None and partition.name in plan.unit.fixed:
        jobs = np.asarray(release.flows(ranges.copy)[segment].to_numpy(), dtype=np.int64)
        kept = jobs if works is None else jobs[works[ranges.pairs[1]]]
        return Counted(value=np.array([float(kept.sum())]), variance=np.zeros(1), shared=np.zeros(1))
    if homes is not None and works is not None:
        raise UnsupportedError(
            "segments were measured by area of the home and by area of the work, not of both together."
        )
    level = segment_level(release.places)
    area = np.unique(release.places.areas[level], return_inverse=True)[1]
    chosen = np.ones(len(area), dtype=bool)
    chosen = homes if homes is not None else works if works is not None else chosen
    inside = np.unique(area[chosen])
    if np.isin(area, inside).sum() != chosen.sum():
        raise UnsupportedError(f"segments were measured for whole areas of level '{level}'; this is not made of them.")
    side = HOME if homes is not None or partition.name in plan.unit.fixed else WORK
    found, cells = _cells_of_segment(release, partition, segment, side)
    value = max(float(found.values.reshape(-1, len(cells))[np.ix_(inside, cells)].sum()), 0.0)
    number = len(inside) * int(cells.sum())
    return Counted(
        value=np.array([value]), variance=np.array([found.mechanism.variance * number]), shared=np.zeros(1),
        measured=(found.mechanism, number),
    )  # fmt: skip


def _cells_of_segment(
    release: CommuteRelease, partition: Partition, segment: str, side: str
) -> tuple[Measurement, NDArray[np.bool_]]:
    """The table that a segment was measured in, and which of the combinations of each area are in the segment."""
    plan = release.provenance.plan
    design = None if plan is None else planned_design(release.places, plan)
    assert design is not None  # noqa: S101 - the release has segments
    group = next(one for one in design.parts if partition in one or partition == measured_jointly(one))
    found = next(one for one in release.measurements if one.label == label_of(group, side))
    return found, np.array([segment in (one, *one.split(TOGETHER)) for one in measured_jointly(group).columns])


def segments_by_area(ranges: CountRanges, area: Integers, areas: int) -> dict[str, Any]:
    """Workers and residents of every area by segment, as columns. ``area`` is the area of each place; those of no area
    have the number ``areas``.

    Counts are those of the synthetic jobs, which add up. Ranges are those of the noisy counts (stretched to hold the
    synthetic count), and are empty where an area does not consist of whole areas that were measured.
    """
    release, plan = ranges.release, ranges.release.provenance.plan
    if plan is None or not release.segments:
        return {}
    origins, destinations, _ = ranges.pairs
    here = {HOME: np.where(origins >= 0, area[origins], areas), WORK: area[destinations]}
    measured = np.unique(release.places.areas[segment_level(release.places)], return_inverse=True)[1]
    count = int(measured.max()) + 1
    least, most = np.full(count, areas), np.zeros(count, dtype=np.int64)
    np.minimum.at(least, measured, area)
    np.maximum.at(most, measured, area)
    whole = least == most
    known = np.ones(areas + 1, dtype=bool)
    known[area[~whole[measured]]] = False  # it shares a measured area with another
    known = known[:areas]
    of = np.where(whole, least, areas)
    workers = np.bincount(area, ranges.sizes, areas + 1)[:areas].astype(np.int64)
    table = release.flows(ranges.copy)
    columns: dict[str, Any] = {}
    for one in released_partitions(plan):
        for segment in one.columns:
            jobs = table[segment].to_numpy()
            for side, name in ((WORK, "workers"), (HOME, "residents")):
                shown = np.bincount(here[side], jobs, areas + 1)[:areas].astype(np.int64)
                columns[f"{name}_{segment}"] = pa.array(shown)
                if side == WORK and one.name in plan.unit.fixed:
                    low = high = shown
                    told = np.ones(areas, dtype=bool)
                else:
                    found, cells = _cells_of_segment(release, one, segment, side)
                    each = found.values.reshape(count, -1)[:, cells].sum(axis=1)
                    noisy = np.maximum(np.bincount(of, each, areas + 1)[:areas], 0.0)
                    number = np.bincount(of, minlength=areas + 1)[:areas] * int(cells.sum())
                    reach = np.array([noise_reach(found.mechanism, int(n), LEVEL) if n else 0.0 for n in number])
                    low = np.minimum(np.maximum(noisy - reach, 0), shown).astype(np.int64)
                    high = np.maximum(noisy + reach, shown).astype(np.int64)
                    if side == WORK and ranges.public_sizes:  # more than work there cannot be in a segment
                        high = np.minimum(high, workers)
                    told = known & (number > 0)
                columns[f"{name}_{segment}_low"] = pa.array(low, mask=~told)
                columns[f"{name}_{segment}_high"] = pa.array(high, mask=~told)
    return columns
