"""Tables of pairs of members, over all pairs of a household: partners, parent and child, siblings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.household_roles import CHILD, OTHER, PARTNER, REFERENCE
from understudy.households.linked_table import LinkedTable

PARTNERS, PARENT_CHILD, SIBLINGS, WITH_OTHERS, FELLOWS = (
    "partners", "parent and child", "siblings", "reference and other", "members",
)  # fmt: skip
KINDS = {
    PARTNERS: ((REFERENCE,), (PARTNER,)),
    PARENT_CHILD: ((REFERENCE, PARTNER), (CHILD,)),
    SIBLINGS: ((CHILD,), (CHILD,)),
    WITH_OTHERS: ((REFERENCE,), (OTHER,)),
    FELLOWS: (("member",), ("member",)),
}


def pairs_of(linked: LinkedTable, kind: str) -> tuple[Integers, Integers]:
    """The two members of every pair of a kind; pairs within one role are counted in both orders."""
    first, second = (
        np.flatnonzero(np.isin(linked.role, [linked.schema.role_names.index(one) for one in roles]))
        for roles in KINDS[kind]
    )
    begins, ends = (np.searchsorted(linked.owner[second], linked.owner[first], side) for side in ("left", "right"))
    counts = ends - begins
    one = np.repeat(first, counts)
    place = np.arange(len(one)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begins, counts)
    other = second[place]
    apart = one != other
    return one[apart], other[apart]


def kinds_of(linked: LinkedTable) -> tuple[str, ...]:
    """The kinds of pairs that the roles of a schema have."""
    names = set(linked.schema.role_names)
    return tuple(kind for kind, (first, second) in KINDS.items() if names >= {*first, *second})


def pair_tables(linked: LinkedTable, kind: str) -> Iterator[tuple[tuple[str, str], NDArray[np.int64]]]:
    """For each attribute of the first and each of the second member the table of all pairs."""
    one, other = pairs_of(linked, kind)
    schema = linked.schema.members
    for name in schema.names:
        mine = linked.members.columns[name][one].astype(np.int64)
        for theirs in schema.names:
            codes = linked.members.columns[theirs][other].astype(np.int64)
            shape = (schema[name].size, schema[theirs].size)
            flat = np.bincount(mine * shape[1] + codes, minlength=shape[0] * shape[1])
            yield (name, theirs), flat.reshape(shape)


def total_variation(one: NDArray[np.integer], other: NDArray[np.integer]) -> float:
    """Half the sum of the differences between two tables of shares; 1 if only one of them is empty."""
    sums = float(one.sum()), float(other.sum())
    if not all(sums):
        return float(sums[0] != sums[1])
    return float(np.abs(one / sums[0] - other / sums[1]).sum() / 2)
