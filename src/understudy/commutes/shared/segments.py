"""Segments of jobs (age, earnings, industry): what is asked for, in which tables it is measured, and what that costs.

A partition says of every job in which one of its segments it is, so in a table of areas and segments a job is in one
cell, like in every other table (sensitivities do not change). Partitions are measured apart, or where combinations are
known in one table, whichever is expected to be nearer. A partition that the unit fixes is public by workplace, and
is measured by home alone. See docs/theory/commute.md, "Segments".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.shared.settings import share
from understudy.core.arrays import Integers
from understudy.core.flows import Partition
from understudy.core.places import DESTINATION, Places
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.privacy.gate.flow_gate import FlowTable
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.plan import Plan

LODES = {
    "age": ("SA01", "SA02", "SA03"),
    "earnings": ("SE01", "SE02", "SE03"),
    "industry": ("SI01", "SI02", "SI03"),
}
MOST_AREAS = 500  # the finest level of at most so many areas has its segments measured
MOST_COMBINATIONS = 200
HOME, WORK = "home", "work"
JOBS = "jobs"  # by home and work area they are other tables of a run
TOGETHER = "*"  # between partitions whose combinations are known, and between the segments of a combination
NAMES = {
    "SA01": "age 29 or younger", "SA02": "age 30 to 54", "SA03": "age 55 or older", "SE01": "$1,250 a month or less",
    "SE02": "$1,251 to $3,333 a month", "SE03": "more than $3,333 a month", "SI01": "goods producing",
    "SI02": "trade, transportation and utilities", "SI03": "all other services",
}  # fmt: skip

Group = tuple[Partition, ...]  # partitions whose combinations are known; most are alone


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDesign:
    """Tables in which segments are measured; ``parts`` says which partitions each table is about."""

    parts: tuple[Group, ...]
    tables: tuple[FlowTable, ...]

    def off_by(self, variances: Sequence[float]) -> float:
        """The standard deviation of the count of a segment in an area, over all partitions: a partition of a table of
        combinations is a sum of cells."""
        found = [
            variance * table.combinations / len(one.columns)
            for table, variance in zip(self.tables, variances, strict=True)
            for one in table.segments
        ]
        return math.sqrt(sum(found) / len(found))


def read_groups(text: str) -> tuple[Group, ...]:
    """Partitions from an option: ``age,earnings`` for those of LODES, ``sex=F+M`` for columns of one's own, and
    ``age=young+old*sex=F+M`` where the combinations are known, because a row is one job.

    >>> [[one.columns for one in group] for group in read_groups("age, sex=F+M*staff=yes+no")]
    [[('SA01', 'SA02', 'SA03')], [('F', 'M'), ('yes', 'no')]]
    """
    groups = tuple(
        tuple(_read_partition(part.strip()) for part in group.split(TOGETHER))
        for group in filter(None, (one.strip() for one in text.split(",")))
    )
    found = list(itertools.chain(*groups))
    columns_of = [column for one in found for column in one.columns]
    if len({one.name for one in found}) < len(found) or len(set(columns_of)) < len(columns_of):
        raise InputError(f"segments ({text!r}): every partition and every column may be named once.")
    for taken in (DESTINATION, JOBS):
        if any(one.name == taken for one in found):
            raise InputError(f"segments ({text!r}): a partition cannot be called '{taken}'.")
    for group in groups:
        if math.prod(len(one.columns) for one in group) > MOST_COMBINATIONS:
            raise InputError(
                f"segments ({text!r}): there are more than {MOST_COMBINATIONS} combinations; write a comma."
            )
    return groups


def _read_partition(part: str) -> Partition:
    name, equals, columns = part.partition("=")
    name = name.strip()
    if not equals and name not in LODES:
        raise unknown_name("partition into segments", name, (*LODES, "NAME=COLUMN+COLUMN"))
    own = tuple(one.strip() for one in columns.split("+")) if equals else LODES[name]
    if not name or len(own) < 2 or len(set(own)) < len(own) or not all(own):
        raise InputError(f"segments ({part!r}): a partition has at least two different columns, NAME=COLUMN+COLUMN.")
    return Partition(name=name, columns=own)


def read_segments(text: str) -> tuple[Partition, ...]:
    """All partitions of an option, one by one.

    >>> [one.columns for one in read_segments("age, sex=F+M")]
    [('SA01', 'SA02', 'SA03'), ('F', 'M')]
    """
    return tuple(itertools.chain(*read_groups(text)))


def check_fixed(segments: str, unit: Unit) -> tuple[str, ...]:
    """Which partitions the unit fixes; refuses what has no meaning."""
    names = {one.name for one in read_segments(segments)}
    fixed = tuple(sorted(names & set(unit.fixed)))
    if not fixed:
        return ()
    if DESTINATION not in unit.fixed:
        raise InputError(
            f"segments ({', '.join(fixed)}) can be fixed only together with the destination: what is then public is "
            "the number of jobs in each segment at every workplace. Say --fixed destination," + ",".join(fixed) + "."
        )
    for group in read_groups(segments):
        if len(group) > 1 and any(one.name in fixed for one in group):
            raise InputError("a partition that is fixed is not crossed with others; write a comma instead of '*'.")
    return fixed


def fixed_partitions(plan: Plan) -> tuple[Partition, ...]:
    """The partitions that are public by workplace."""
    return tuple(one for one in read_segments(_asked(plan)) if one.name in plan.unit.fixed)


def _asked(plan: Plan) -> str:
    return str(plan.options.get("segments", ""))


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


def label_of(group: Group, side: str) -> str:
    return f"{TOGETHER.join(one.name for one in group)} by {side} area"


def measured_jointly(group: Group) -> Partition:
    """A group as one partition, whose segments are the combinations.

    >>> measured_jointly(read_groups("sex=F+M*staff=yes+no")[0]).columns
    ('F*yes', 'F*no', 'M*yes', 'M*no')
    """
    if len(group) == 1:
        return group[0]
    combinations = itertools.product(*(one.columns for one in group))
    return Partition(
        name=TOGETHER.join(one.name for one in group), columns=tuple(TOGETHER.join(one) for one in combinations)
    )


def segment_designs(places: Places, segments: str, unit: Unit) -> list[SegmentDesign]:
    """What may be measured: for each partition a table by area of the home and one by area of the work (which a fixed
    partition does not need), and where combinations are known the same for all of a group at once. Every choice of
    apart or at once is a design; the first measures everything apart."""
    groups = read_groups(segments)
    if not groups:
        return []
    area = np.unique(places.areas[segment_level(places)], return_inverse=True)[1].astype(np.int64)
    count = int(area.max()) + 1

    def by_home(origins: NDArray[np.int32], destinations: NDArray[np.int32]) -> Integers:  # noqa: ARG001
        return area[origins]

    def by_work(origins: NDArray[np.int32], destinations: NDArray[np.int32]) -> Integers:  # noqa: ARG001
        return area[destinations]

    ways: list[list[tuple[Group, ...]]] = []
    for group in groups:
        apart = tuple((one,) for one in group)
        ways.append([apart] if len(group) == 1 else [apart, (group,)])
    designs = []
    for chosen in itertools.product(*ways):
        parts = tuple(itertools.chain(*chosen))
        tables = tuple(
            FlowTable(
                label=label_of(part, side), cells=count * len(measured_jointly(part).columns), classify=classify,
                segments=part,
            )
            for part in parts
            for side, classify in ((HOME, by_home), (WORK, by_work))
            if side == HOME or part[0].name not in unit.fixed
        )  # fmt: skip
        designs.append(SegmentDesign(parts=parts, tables=tables))
    return designs


def choose_design(
    designs: list[SegmentDesign], variances_of: Callable[[SegmentDesign], Sequence[float]], part: Fraction
) -> tuple[SegmentDesign, tuple[str, ...]]:
    """The design with the least expected error, which public facts decide, and what the plan says about it."""
    errors = [one.off_by(variances_of(one)) for one in designs]
    best = int(np.argmin(errors))
    chosen = designs[best]
    told = "; ".join(" and ".join(one.name for one in part) for part in chosen.parts)
    notes = [
        f"Segments: {len(chosen.tables)} table(s), of {told}; a segment of an area is expected to be off by "
        f"{errors[best]:.3g} jobs (standard deviation)."
        + "".join(
            f" {_way(design)} it would be {error:.3g}."
            for number, (design, error) in enumerate(zip(designs, errors, strict=True))
            if number != best
        ),
        f"Segments take {float(part):.3g} of the budget: a pure epsilon for all else is that much smaller, so its "
        f"noise is {float(1 / (1 - part)):.3g} times what it would be without segments.",
    ]
    return chosen, tuple(notes)


def _way(design: SegmentDesign) -> str:
    joint = [TOGETHER.join(one.name for one in part) for part in design.parts if len(part) > 1]
    return f"With one table of {' and of '.join(joint)}" if joint else "Each partition by itself,"


def planned_design(places: Places, plan: Plan) -> SegmentDesign | None:
    """The design that a plan has, by the labels of its steps."""
    labels = {step.label for step in plan.steps}
    found = [
        one
        for one in segment_designs(places, _asked(plan), plan.unit)
        if {table.label for table in one.tables} <= labels
    ]
    return found[0] if found else None


def released_partitions(plan: Plan) -> tuple[Partition, ...]:
    """The partitions whose segments are columns of the release: all that were asked for, and combinations that were
    measured as one table."""
    labels: Collection[str] = {step.label for step in plan.steps}
    joint = [
        measured_jointly(group)
        for group in read_groups(_asked(plan))
        if len(group) > 1 and label_of(group, HOME) in labels
    ]
    return (*read_segments(_asked(plan)), *joint)
