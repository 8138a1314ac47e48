"""Whole numbers that keep the gaps between roles, such as a child 15 years younger than both parents, inside the bins.

The bins of a household allow every gap, pair by pair (structural zeros). No role is above in one gap and below in
another, so pairs suffice: with those above as high, and those below as low, as their bins allow, all gaps hold. Numbers
of a household that keep its gaps stay as they were drawn. In the others, first those above are drawn from what leaves
room for everybody below, then those below from what is left. Post-processing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.linked_rules import Gap
from understudy.core.mechanism import Stream
from understudy.core.slot_columns import ranges_of
from understudy.households.linked_table import LinkedTable
from understudy.privacy.randomness.draws import unit_interval

Marks = NDArray[np.bool_]


def too_near(linked: LinkedTable, attribute: str, values: Floats) -> Marks:
    """Which households break a gap, whoever of their members does; NaN is no number and breaks none."""
    wrong = np.zeros(linked.households.rows, dtype=bool)
    for gap in _gaps_of(linked, attribute):
        below, above = _members(linked, gap)
        wrong |= _highest(linked, values, below) > _lowest(linked, values, above) - gap.by
    return wrong


def with_gaps(linked: LinkedTable, attribute: str, values: Floats, stream: Stream, *purpose: str | int) -> Floats:
    """The numbers of all members, drawn anew in households that break a gap; NaN stays NaN."""
    gaps = _gaps_of(linked, attribute)
    here = too_near(linked, attribute, values)[linked.owner] & ~np.isnan(values)
    low, high = _ends(linked, attribute)
    lowest, highest = np.where(here, low, np.nan), np.where(here, high, np.nan)
    points = unit_interval(stream, len(values), *purpose)
    drawn = values.copy()
    for gap in gaps:
        below, above = _members(linked, gap)
        room = _highest(linked, lowest, below)[linked.owner] + gap.by
        lowest = np.where(above, np.fmax(lowest, room), lowest)
    moved = np.logical_or.reduce([_members(linked, gap)[1] for gap in gaps]) & here
    drawn = np.where(moved, _whole(lowest, highest, points), drawn)
    for gap in gaps:
        below, above = _members(linked, gap)
        room = _lowest(linked, np.where(here, drawn, np.nan), above)[linked.owner] - gap.by
        highest = np.where(below, np.fmin(highest, room), highest)
    moved = np.logical_or.reduce([_members(linked, gap)[0] for gap in gaps]) & here
    return np.where(moved, _whole(lowest, highest, points), drawn)


def _gaps_of(linked: LinkedTable, attribute: str) -> list[Gap]:
    return [gap for gap in linked.schema.gaps if gap.attribute == attribute]


def _members(linked: LinkedTable, gap: Gap) -> tuple[Marks, Marks]:
    """The members below and those above."""
    places = [linked.schema.role_names.index(role) for role in (gap.below, gap.above)]
    return linked.role == places[0], linked.role == places[1]


def _highest(linked: LinkedTable, values: Floats, chosen: Marks) -> Floats:
    """The highest number of the chosen members of each household, -inf where there is none."""
    found = np.full(linked.households.rows, -np.inf)
    known = chosen & ~np.isnan(values)
    np.maximum.at(found, linked.owner[known], values[known])
    return found


def _lowest(linked: LinkedTable, values: Floats, chosen: Marks) -> Floats:
    return -_highest(linked, -values, chosen)


def _ends(linked: LinkedTable, attribute: str) -> tuple[Integers, Integers]:
    """The lowest and the highest whole number in the bin of each member."""
    ranges = np.array(ranges_of(linked.schema.members[attribute]), dtype=np.int64)
    place = np.minimum(linked.members.columns[attribute].astype(np.int64), len(ranges) - 1)
    return ranges[place, 0], ranges[place, 1]


def _whole(low: Floats, high: Floats, points: Floats) -> Floats:
    """Whole numbers from low to high, evenly."""
    return np.minimum(low + np.floor(points * (high - low + 1)), high)
