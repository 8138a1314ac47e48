"""Ages in whole years that agree with the rule by which roles were given, inside the bins that were drawn.

The bins of a household always allow the rule (its structural zeros see to that, pair by pair). Inside them ages drawn
apart could break it: a child drawn ten years younger than its parent. So the age of the reference person is drawn from
those years that leave room for everybody else, and then everybody else's. Post-processing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.household_roles import CHILD, OTHER, PARTNER, REFERENCE
from understudy.core.mechanism import Stream
from understudy.households.linked_table import LinkedTable
from understudy.privacy.randomness.draws import unit_interval

FAR = 10**6


def ages_by_rule(linked: LinkedTable, ages: Integers, stream: Stream, *purpose: str | int) -> Integers:
    """The ages of all members. Where no age of the reference person leaves room for everybody, they stay as drawn."""
    roles = linked.schema.roles
    assert roles is not None  # noqa: S101 - the caller looked
    attribute = linked.schema.members[roles.age]
    edges = np.array([int(edge) for edge in attribute.edges])  # type: ignore[arg-type]
    codes = linked.members.columns[roles.age].astype(np.int64)
    known = codes < attribute.bins
    place = np.minimum(codes, attribute.bins - 1)
    low, high = edges[place], edges[place + 1] - (place < attribute.bins - 1)
    role = np.array(linked.schema.role_names)[linked.role]
    partner, child, other = ((role == name) & known for name in (PARTNER, CHILD, OTHER))
    low = np.where(partner, np.maximum(low, roles.adult), low)
    count = linked.households.rows
    least, most = np.full(count, -FAR), np.full(count, FAR)
    for chosen, edge, bound, shift in (
        (child, low, least, roles.child_younger),
        (partner, low, least, -roles.partner_within),
        (partner, high, most, roles.partner_within),
        (other, high, most, roles.child_younger - 1),
    ):
        (np.maximum if bound is least else np.minimum).at(bound, linked.owner[chosen], edge[chosen] + shift)
    first = np.flatnonzero(role == REFERENCE)
    beside = np.zeros(count, dtype=np.int64)
    beside[linked.owner[first]] = first
    begin, end = np.maximum(least, low[beside]), np.minimum(most, high[beside])
    room = known[beside] & (begin <= end)
    years = ages.copy()
    drawn = _years(begin, end, unit_interval(stream, count, *purpose, "reference"))
    years[beside] = np.where(room, drawn, ages[beside])
    centre = years[beside][linked.owner]
    begin = np.where(partner, np.maximum(low, centre - roles.partner_within), low)
    begin = np.where(other, np.maximum(begin, centre - roles.child_younger + 1), begin)
    end = np.where(partner, np.minimum(high, centre + roles.partner_within), high)
    end = np.where(child, np.minimum(end, centre - roles.child_younger), end)
    fits = (partner | child | other) & room[linked.owner] & (begin <= end)
    drawn = _years(begin, end, unit_interval(stream, len(years), *purpose, "others"))
    return np.asarray(np.where(fits, drawn, years))


def _years(begin: Integers, end: Integers, points: NDArray[np.float64]) -> Integers:
    width = np.maximum(end - begin + 1, 1)
    return np.asarray(begin + np.minimum((points * width).astype(np.int64), width - 1))
