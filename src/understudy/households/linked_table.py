"""Households and their members as codes, and the one row that stands for each household.

The row of a household holds its own attributes, its size and composition, and a slot for each role. Where several
members have a role, one of them is chosen at random for the slot, and a second one for the slot of a sibling. What is
chosen depends on the words of that household's members alone. So two neighbours, which differ in one household, differ
in one row (docs/theory/households.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.household_roles import CHILD
from understudy.core.linked_schema import CHILDREN, COMPOSITION, ROLE, SIZE, LinkedSchema
from understudy.core.table import CodedTable, Codes
from understudy.errors import InputError, InternalError
from understudy.households.derived import derived_codes, derived_values, middles, needed_numbers

Words = NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LinkedTable:
    """Coded households and coded members. ``owner`` is the household of each member, ``role`` the place of its role."""

    schema: LinkedSchema
    households: CodedTable
    members: CodedTable
    owner: Integers
    role: NDArray[np.int8]
    numbers: Mapping[str, Floats] = field(default_factory=dict)
    """The numbers of members that derived columns need; without them, the middles of their bins."""

    def __repr__(self) -> str:
        return f"LinkedTable({self.households.rows} households, {self.members.rows} members)"

    @cached_property
    def by_role(self) -> Integers:
        """How many members of each role every household has."""
        roles = len(self.schema.role_names)
        flat = np.bincount(self.owner * roles + self.role, minlength=self.households.rows * roles)
        return flat.reshape(self.households.rows, roles).astype(np.int64)

    @cached_property
    def compositions(self) -> Integers:
        """The code of each household's composition; -1 where the schema knows no such composition."""
        kinds = np.array(self.schema.kinds)
        shape = tuple(int(most) + 1 for most in kinds.max(axis=0))
        known = np.full(shape, -1, dtype=np.int64)
        known[tuple(kinds.T)] = np.arange(len(kinds))
        inside = (self.by_role < np.array(shape)).all(axis=1)
        return np.where(inside, known[tuple(np.minimum(self.by_role, np.array(shape) - 1).T)], -1)

    def numbered(self, words: Words) -> Integers:
        """For each member its place among those of its household and role, in the order of their words."""
        roles = len(self.schema.role_names)
        group = self.owner * roles + self.role
        order = np.lexsort((words, group))
        inside = group[order]
        first = np.flatnonzero(np.append(True, inside[1:] != inside[:-1])) if len(order) else order
        begins = np.repeat(first, np.diff(np.append(first, len(order))))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order)) - begins
        return place

    def in_slots(self, words: Words) -> dict[str, Integers]:
        """For each slot the member that stands in it, -1 where nobody does."""
        place, found = self.numbered(words), {}
        for slot in self.schema.slots:
            here = np.flatnonzero((self.role == self.schema.role_names.index(slot.role)) & (place == int(slot.second)))
            found[slot.name] = np.full(self.households.rows, -1, dtype=np.int64)
            found[slot.name][self.owner[here]] = here
        return found

    def wide(self, words: Words) -> CodedTable:
        """The row of each household. ``words`` are random, one for each member."""
        schema, wide = self.schema, self.schema.wide
        if (self.compositions < 0).any():
            raise InputError("a household has a composition that the schema does not have.")
        columns: dict[str, Codes] = dict(self.households.columns)
        columns[SIZE] = (schema.sizes[self.compositions] - schema.at_least).astype(np.int64)
        columns[COMPOSITION] = self.compositions
        if children := schema.numbers_of(CHILD):
            columns[CHILDREN] = np.array(children)[self.compositions]
        in_slots = self.in_slots(words)
        for slot in schema.slots:
            chosen, always = in_slots[slot.name], schema.always_filled(slot)
            for name in schema.attributes_of(slot):
                columns[slot.column(name)] = slot_codes(schema, name, self.members.columns[name], chosen, always)
        columns |= self.derived_columns()
        sizes = dict(zip(wide.names, wide.shape(), strict=True))
        typed = {name: np.asarray(columns[name]).astype(np.min_scalar_type(sizes[name] - 1)) for name in wide.names}
        return CodedTable(schema=wide, columns=typed)

    def derived_columns(self) -> dict[str, Codes]:
        """The bins of derived columns that are counted."""
        schema = self.schema
        found: dict[str, Codes] = {}
        names = needed_numbers(schema)
        values = {name: middles(schema.members[name], self.members.columns[name]) for name in names} | dict(
            self.numbers
        )
        for one in schema.derived:
            if one.edges:
                made = derived_values(one, values, self.owner, self.households.rows)
                found[one.name] = derived_codes(schema.wide[one.name], made)
        return found

    def persons(self) -> CodedTable:
        """Single members, each with the attributes of its household, as ``LinkedSchema.persons`` describes them."""
        schema, columns = self.schema.persons, dict(self.members.columns)
        columns |= {name: codes[self.owner] for name, codes in self.households.columns.items()}
        if ROLE in schema.names and ROLE not in columns:
            columns[ROLE] = self.role
        if SIZE in schema.names and SIZE not in columns:
            columns[SIZE] = (self.by_role.sum(axis=1) - self.schema.at_least)[self.owner]
        return CodedTable(schema=schema, columns={name: columns[name] for name in schema.names})

    def pairs(self, words: Words) -> CodedTable:
        """Pairs of members who are alike, as ``LinkedSchema.pairs`` describes them.

        The members of a household, in the order of their words, are paired two by two. So each is in at most one pair,
        and who is with whom does not depend on what they say.
        """
        schema = self.schema.pairs
        if schema is None:
            raise InternalError("members with roles are not paired.")
        order = np.lexsort((words, self.owner))
        place = self.numbered(words)[order]
        first = np.flatnonzero((place[:-1] % 2 == 0) & (place[1:] == place[:-1] + 1))
        codes = self.members.columns[self.schema.anchor]
        columns = {name: codes[order[first + step]] for step, name in enumerate(schema.names)}
        return CodedTable(schema=schema, columns=columns)


def slot_codes(schema: LinkedSchema, name: str, codes: Codes, chosen: Integers, always: bool) -> Integers:
    """The codes of a slot: those of the chosen members, and that of an empty slot where there is none."""
    none = schema.none_code(name)
    if always:
        return codes[chosen].astype(np.int64)
    held = codes[chosen].astype(np.int64) if len(codes) else np.zeros(len(chosen), dtype=np.int64)
    return np.where(chosen < 0, none, held + (held >= none))


def member_codes(schema: LinkedSchema, name: str, codes: Codes, always: bool) -> Integers:
    """The code of a member from that of a slot that is filled."""
    held = codes.astype(np.int64)
    return held if always else held - (held > schema.none_code(name))
