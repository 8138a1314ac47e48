"""Segments of jobs (age, earnings, industry): measured by area of the home and of the work, then given to jobs.

A partition says of every job in which one of its segments it is, so in a table of areas and segments a job is in one
cell, like in every other table (sensitivities do not change). The tables are measured with noise, each with its part of
the budget. Which synthetic job is in which segment is post-processing. See docs/theory/commute.md, "Segments".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from understudy.commutes.shared.settings import share
from understudy.core.arrays import Floats, Integers
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.places import Places
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.privacy.gate.flow_gate import FlowTable
from understudy.privacy.randomness.draws import unit_interval

LODES = {
    "age": ("SA01", "SA02", "SA03"),
    "earnings": ("SE01", "SE02", "SE03"),
    "industry": ("SI01", "SI02", "SI03"),
}
MOST_AREAS = 500  # the finest level of at most so many areas has its segments measured
MOST_JOBS = 50_000_000  # synthetic jobs that are given segments one by one
ROUNDS = 25  # of proportional fitting
HOME, WORK = "home", "work"
NAMES = {
    "SA01": "age 29 or younger", "SA02": "age 30 to 54", "SA03": "age 55 or older", "SE01": "$1,250 a month or less",
    "SE02": "$1,251 to $3,333 a month", "SE03": "more than $3,333 a month", "SI01": "goods producing",
    "SI02": "trade, transportation and utilities", "SI03": "all other services",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Columns of the data, of which every job is in exactly one."""

    name: str
    columns: tuple[str, ...]


def read_segments(text: str) -> tuple[Partition, ...]:
    """Partitions from an option: ``age,earnings`` for those of LODES, ``sex=F+M`` for columns of one's own.

    >>> [one.columns for one in read_segments("age, sex=F+M")]
    [('SA01', 'SA02', 'SA03'), ('F', 'M')]
    """
    found = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, equals, columns = part.partition("=")
        if not equals and name not in LODES:
            raise unknown_name("partition into segments", name, (*LODES, "NAME=COLUMN+COLUMN"))
        own = tuple(one.strip() for one in columns.split("+")) if equals else LODES[name]
        if len(own) < 2 or len(set(own)) < len(own) or not all(own):
            raise InputError(
                f"segments ({part!r}): a partition has at least two different columns, NAME=COLUMN+COLUMN."
            )
        found.append(Partition(name=name.strip(), columns=own))
    columns_of = [column for one in found for column in one.columns]
    if len({one.name for one in found}) < len(found) or len(set(columns_of)) < len(columns_of):
        raise InputError(f"segments ({text!r}): every partition and every column may be named once.")
    return tuple(found)


def segment_part(segments: str, segment_share: str) -> Fraction:
    """The part of the budget for segments; nothing if none are asked for."""
    part = share(segment_share, "segment_share")
    if not read_segments(segments):
        return Fraction(0)
    if not 0 < part < 1:
        raise InputError(f"segment_share ({segment_share}) must be above 0 and below 1 where there are segments.")
    return part


def segment_level(places: Places) -> str:
    """The level of areas whose segments are measured, from public places alone."""
    fine = [level for level, ids in places.areas.items() if len(np.unique(ids)) <= MOST_AREAS]
    if not fine:
        raise UnsupportedError(f"segments are measured by area, and no level has at most {MOST_AREAS} areas.")
    return fine[-1]


def label_of(partition: Partition, side: str) -> str:
    return f"{partition.name} by {side} area"


def segment_tables(places: Places, segments: str) -> list[FlowTable]:
    """What is measured: for each partition a table by area of the home and one by area of the work."""
    partitions = read_segments(segments)
    if not partitions:
        return []
    area = np.unique(places.areas[segment_level(places)], return_inverse=True)[1].astype(np.int64)
    count = int(area.max()) + 1

    def by_home(origins: NDArray[np.int32], destinations: NDArray[np.int32]) -> Integers:  # noqa: ARG001
        return area[origins]

    def by_work(origins: NDArray[np.int32], destinations: NDArray[np.int32]) -> Integers:  # noqa: ARG001
        return area[destinations]

    return [
        FlowTable(
            label=label_of(one, side), cells=count * len(one.columns), classify=classify, segments=one.columns
        )
        for one in partitions
        for side, classify in ((HOME, by_home), (WORK, by_work))
    ]  # fmt: skip


# What every synthetic job gets, from noisy tables and the synthetic table alone.


def fitted(pairs: Floats, home: Floats, work: Floats) -> Floats:
    """Jobs by area of the home, of the work and segment: the sums over segments are ``pairs``, and the segments of each
    area follow its noisy counts, as far as both can be met (iterative proportional fitting)."""
    overall = np.maximum(home.sum(axis=0) + work.sum(axis=0), 1e-9)
    overall = overall / overall.sum()
    at_home, at_work = (
        _shares(noisy, overall)[:, :] * totals[:, None]
        for noisy, totals in ((home, pairs.sum(axis=1)), (work, pairs.sum(axis=0)))
    )
    # Both sides say how many jobs of each segment there are; the mean of what they say is taken.
    wanted = (at_home.sum(axis=0) + at_work.sum(axis=0)) / 2
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


def assign_segments(
    file: Path,
    target: Path,
    places: Places,
    segments: str,
    *,
    measurements: tuple[Measurement, ...],
    stream: Stream,
    copy: int,
    codes: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
) -> Path:
    """Writes a synthetic table again with a column for each segment. ``codes`` are its origins, destinations, jobs."""
    origins, destinations, jobs = (np.asarray(part, dtype=np.int64) for part in codes)
    if int(jobs.sum()) > MOST_JOBS:
        raise UnsupportedError(f"segments are given to at most {MOST_JOBS:,} synthetic jobs.")
    area = np.unique(places.areas[segment_level(places)], return_inverse=True)[1].astype(np.int64)
    count = int(area.max()) + 1
    home, work = np.where(origins >= 0, area[origins], count), area[destinations]
    pairs = np.zeros((count + 1, count))  # the last row is elsewhere, of which nothing was measured
    np.add.at(pairs, (home, work), jobs)
    noisy = {one.label: one.values.astype(np.float64) for one in measurements}
    table = pq.read_table(file)
    for partition in read_segments(segments):
        size = len(partition.columns)
        by_home, by_work = (noisy[label_of(partition, side)].reshape(count, size) for side in (HOME, WORK))
        shares = fitted(pairs, np.vstack([by_home, by_home.sum(axis=0)]), by_work)
        found = drawn_segments(home, work, jobs, shares, stream, "segments", partition.name, copy)
        for number, column in enumerate(partition.columns):
            table = table.append_column(pa.field(column, pa.int64(), nullable=False), pa.array(found[:, number]))
    pq.write_table(table, target, compression="zstd")
    return target
