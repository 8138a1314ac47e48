"""Segments given to synthetic jobs, from noisy tables, public sizes and the synthetic table alone.

Everything here is post-processing. Sums agree: the segments of a pair add up to its jobs in every partition, those of a
partition that was measured together with others are sums of its combinations, and those of a fixed partition add up to
the public number of jobs of each workplace. See docs/theory/commute.md, "Segments".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from understudy.commutes.shared.segments import (
    HOME,
    WORK,
    Group,
    label_of,
    measured_jointly,
    planned_design,
    released_partitions,
    segment_level,
)
from understudy.core.arrays import Floats, Integers
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.places import Places
from understudy.errors import InternalError, UnsupportedError
from understudy.privacy.promise.plan import Plan
from understudy.privacy.randomness.draws import unit_interval

MOST_JOBS = 50_000_000  # synthetic jobs that are given segments one by one
ROUNDS = 25  # of proportional fitting


def assign_segments(
    file: Path,
    target: Path,
    places: Places,
    plan: Plan,
    *,
    measurements: tuple[Measurement, ...],
    fixed: Mapping[str, Integers],
    stream: Stream,
    copy: int,
    codes: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
) -> Path:
    """Writes a synthetic table again with a column for each segment. ``codes`` are its origins, destinations, jobs;
    ``fixed`` has the public jobs by workplace and segment of each fixed partition."""
    design = planned_design(places, plan)
    if design is None:
        raise InternalError("the plan has no segments.")
    origins, destinations, jobs = (np.asarray(part, dtype=np.int64) for part in codes)
    if int(jobs.sum()) > MOST_JOBS:
        raise UnsupportedError(f"segments are given to at most {MOST_JOBS:,} synthetic jobs.")
    area = np.unique(places.areas[segment_level(places)], return_inverse=True)[1].astype(np.int64)
    count = int(area.max()) + 1
    home, work = np.where(origins >= 0, area[origins], count), area[destinations]
    pairs = np.zeros((count + 1, count))  # the last row is elsewhere, of which nothing was measured
    np.add.at(pairs, (home, work), jobs)
    noisy = {one.label: one.values.astype(np.float64) for one in measurements}
    columns: dict[str, Integers] = {}
    for group in design.parts:
        joint = measured_jointly(group)
        purpose = ("segments", joint.name, copy)
        by_home = noisy[label_of(group, HOME)].reshape(count, -1)
        by_home = np.vstack([by_home, by_home.sum(axis=0)])
        sizes = fixed.get(joint.name)
        if sizes is None:
            shares = fitted(pairs, by_home, noisy[label_of(group, WORK)].reshape(count, -1))
            found = drawn_segments(home, work, jobs, shares, stream, *purpose)
        else:
            by_work = np.zeros((count, sizes.shape[1]))
            np.add.at(by_work, area, sizes)
            shares = fitted(pairs, by_home, by_work, public_work=True)
            found = drawn_to_sizes(destinations, jobs, shares[home, work], sizes, stream, *purpose)
        columns |= dict(zip(joint.columns, found.T, strict=True)) | _margins(group, found)
    table = pq.read_table(file)
    for column in (column for one in released_partitions(plan) for column in one.columns):
        table = table.append_column(pa.field(column, pa.int64(), nullable=False), pa.array(columns[column]))
    pq.write_table(table, target, compression="zstd")
    return target


def _margins(group: Group, found: Integers) -> dict[str, Integers]:
    """The jobs of each pair in every segment, as sums over the combinations of a group."""
    by_segment = found.reshape(len(found), *(len(one.columns) for one in group))
    return {
        column: by_segment.take(number, axis=1 + axis).reshape(len(found), -1).sum(axis=1)
        for axis, one in enumerate(group)
        for number, column in enumerate(one.columns)
    }


def fitted(pairs: Floats, home: Floats, work: Floats, *, public_work: bool = False) -> Floats:
    """Jobs by area of the home, of the work and segment: the sums over segments are ``pairs``, and the segments of each
    area follow its noisy counts, as far as both can be met (iterative proportional fitting). Counts by area of the work
    may be public: then they are not shrunk, and they say how many jobs of each segment there are."""
    overall = np.maximum(home.sum(axis=0) + work.sum(axis=0), 1e-9)
    overall = overall / overall.sum()
    at_home = _shares(home, overall) * pairs.sum(axis=1)[:, None]
    at_work = work if public_work else _shares(work, overall) * pairs.sum(axis=0)[:, None]
    # Both sides say how many jobs of each segment there are; the mean of what they say is taken.
    wanted = work.sum(axis=0) if public_work else (at_home.sum(axis=0) + at_work.sum(axis=0)) / 2
    table = pairs[:, :, None] * overall
    for _ in range(ROUNDS):
        for axis, target in ((1, at_home), (0, at_work)):
            meant = target * (wanted / np.maximum(target.sum(axis=0), 1e-12))
            sums = table.sum(axis=axis)
            table = table * np.expand_dims(meant / np.maximum(sums, 1e-12), axis)
        table *= (pairs / np.maximum(table.sum(axis=2), 1e-12))[:, :, None]
    return np.asarray(table)


def _shares(noisy: Floats, overall: Floats) -> Floats:
    """Shares of segments in each area, none negative: small areas lean on all jobs together."""
    counts = np.maximum(noisy, 0.0)
    spread = np.median(np.abs(noisy[noisy <= 0])) if (noisy <= 0).any() else 1.0  # about the size of the noise
    leaning = counts + (1.0 + spread) * overall
    return np.asarray(leaning / leaning.sum(axis=1, keepdims=True))


def drawn_segments(
    home: Integers, work: Integers, jobs: Integers, shares: Floats, stream: Stream, *purpose: str | int
) -> Integers:
    """Whole jobs by segment for every pair: as many as it has jobs, in proportion within each pair of areas.

    ``home`` and ``work`` are the areas of each pair, ``shares`` the jobs by area of the home, of the work and segment.
    Within a pair of areas jobs in random order meet the segments in turn, from a random start, so that every job has
    the probabilities of its pair of areas and their sums are met within one job.
    """
    group = home * shares.shape[1] + work
    row = np.repeat(np.arange(len(jobs)), jobs)
    of_job = group[row]
    order = np.lexsort((unit_interval(stream, len(row), *purpose, "order"), of_job))
    groups, starts, sizes = np.unique(of_job[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(starts, sizes)
    begin = unit_interval(stream, len(groups), *purpose, "start")
    at = (rank + np.repeat(begin, sizes)) / np.repeat(sizes, sizes)
    probability = shares.reshape(-1, shares.shape[2])[groups]
    ends = np.cumsum(probability, axis=1)
    ends /= np.maximum(ends[:, -1:], 1e-12)
    which = (at[:, None] >= np.repeat(ends, sizes, axis=0)[:, :-1]).sum(axis=1)
    found = np.zeros((len(jobs), shares.shape[2]), dtype=np.int64)
    np.add.at(found, (row[order], which), 1)
    return found


def drawn_to_sizes(
    destinations: Integers, jobs: Integers, shares: Floats, sizes: Integers, stream: Stream, *purpose: str | int
) -> Integers:
    """Whole jobs by segment for every pair, of which each destination has exactly its ``sizes``.

    ``shares`` are the jobs of each pair by segment, as far as the areas of the pair tell. Of the jobs of a destination
    as many as a segment has are drawn without replacement, each with the odds of being in it and not in a later one
    (the largest of log(u) / odds), segment by segment.
    """
    row = np.repeat(np.arange(len(jobs)), jobs)
    if not np.array_equal(np.bincount(destinations, jobs, len(sizes)), sizes.sum(axis=1)):
        raise InternalError("public segments do not add up to the jobs of every workplace.")
    left = np.arange(len(row))
    found = np.zeros_like(shares, dtype=np.int64)
    for segment in range(shares.shape[1]):
        at = destinations[row[left]]
        own, later = shares[row[left], segment], shares[row[left], segment + 1 :].sum(axis=1)
        odds = np.maximum(own, 1e-12) / np.maximum(later, 1e-12)
        with np.errstate(divide="ignore"):
            key = np.log(unit_interval(stream, len(left), *purpose, "order", segment)) / odds
        order = np.lexsort((-key, at))
        rank = np.arange(len(order)) - np.searchsorted(at[order], at[order])
        taken = np.zeros(len(left), dtype=bool)
        taken[order] = rank < sizes[at[order], segment]
        found[:, segment] = np.bincount(row[left[taken]], minlength=len(jobs))
        left = left[~taken]
    return found
