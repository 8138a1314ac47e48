"""How far a person or a household can move a table: all neighbours of all small households, against what the gate
derives."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

import understudy as us
from understudy.core.linked_schema_file import parse_any_schema
from understudy.core.table import CodedTable
from understudy.households.linked_table import LinkedTable
from understudy.households.pair_tables import pairs_of
from understudy.households.shared.family_method import unit_of
from understudy.households.source import member_words, roles_by_rule
from understudy.privacy.promise.sensitivity import margin_sensitivity

SCHEMA = """version = 1
[[table]]
name = "homes"
id = "h"
[[table]]
name = "people"
parent = "homes"
at_most = 3
[roles]
age = "age"
adult = 18
partner_within = 10
child_younger = 15
[[attribute]]
table = "homes"
name = "tenure"
levels = ["owner", "tenant"]
[[attribute]]
table = "people"
name = "age"
edges = [0, 18, 40, 90]
integer = true
[[attribute]]
table = "people"
name = "sex"
levels = ["F", "M"]
"""
AGES = np.array([8, 30, 60])  # one in each bin
KEY = bytes(32)


def schema() -> us.LinkedSchema:
    found = parse_any_schema(SCHEMA)
    assert isinstance(found, us.LinkedSchema)
    return found


def linked(one: us.LinkedSchema, homes: list[tuple[int, tuple[tuple[int, int], ...]]]) -> LinkedTable:
    owner = np.repeat(np.arange(len(homes)), [len(members) for _, members in homes])
    ages, sexes = (np.array([member[part] for _, members in homes for member in members]) for part in (0, 1))
    return LinkedTable(
        schema=one,
        households=CodedTable(schema=one.households, columns={"tenure": np.array([own for own, _ in homes])}),
        members=CodedTable(schema=one.members, columns={"age": ages, "sex": sexes}),
        owner=owner,
        role=roles_by_rule(one.roles, AGES[ages].astype(float), None, owner, len(homes)),
    )


def row(one: us.LinkedSchema, home: tuple[int, tuple[tuple[int, int], ...]], ident: int) -> tuple[int, ...]:
    """The row of a household among others, by the words that its id gives it."""
    table = linked(one, [(0, ((1, 0),)), home])
    ids = np.array([7, ident], dtype=np.int64)
    wide = table.wide(member_words(table, ids, KEY))
    return tuple(int(wide.columns[name][1]) for name in one.wide.names)


PEOPLE = [(0, 0), (1, 0), (1, 1), (2, 1)]
MANY = [(own, members) for own in range(2) for size in (1, 2, 3) for members in product(PEOPLE, repeat=size)]


@pytest.fixture(scope="module")
def rows() -> dict[object, tuple[int, ...]]:
    one = schema()
    return {home: row(one, home, 11) for home in MANY}


def neighbours(unit: str):
    for before, after in combinations(MANY, 2):
        if unit == "household" or (before[0] == after[0] and _members_changed(before[1], after[1]) == 1):
            yield before, after


def _members_changed(before, after) -> int:
    """How many members differ; none can be compared where their number changes."""
    if len(before) != len(after):
        return 0
    return sum(mine != other for mine, other in zip(before, after, strict=True))


@pytest.mark.parametrize("unit", ["household", "person"])
def test_brute_force_over_all_neighbours_reaches_what_the_gate_derives(unit, rows):
    one = schema()
    who = unit_of(one, unit)
    pairs = list(neighbours(unit))
    assert len(pairs) > 100
    names = one.wide.names
    before, after = (np.array([rows[pair[side]] for pair in pairs]) for side in (0, 1))
    for margin in [(name,) for name in names] + list(combinations(names, 2)):
        places = [names.index(name) for name in margin]
        # Two tables that differ in the row of one household differ in two cells, or in none; so L2 squared is L1.
        found = 2 * int((before[:, places] != after[:, places]).any())
        derived = margin_sensitivity(one.wide, margin, who)
        assert found == derived.l1, margin
        assert (derived.l1, derived.l2_squared, derived.linf) in {(2, 2, 1), (0, 0, 0)}
    own = margin_sensitivity(one.wide, ("tenure", "size"), who)
    assert own.l1 == (0 if unit == "person" else 2)


def test_one_household_more_moves_every_table_by_one():
    one = schema()
    who = unit_of(one, "add_remove")
    for margin in combinations(one.wide.names, 2):
        derived = margin_sensitivity(one.wide, margin, who)
        assert (derived.l1, derived.l2_squared, derived.linf) == (1, 1, 1)


def test_what_is_chosen_in_one_household_does_not_depend_on_the_others():
    one = schema()
    home = (1, ((2, 0), (0, 0), (0, 1)))
    others = [(0, ((1, 1), (0, 1))), (1, ((2, 1), (2, 0), (0, 0)))]
    alone = row(one, home, 11)
    for number in range(len(others) + 1):
        table = linked(one, [*others[:number], home])
        ids = np.array([100 + place for place in range(number)] + [11], dtype=np.int64)
        wide = table.wide(member_words(table, ids, KEY))
        assert tuple(int(wide.columns[name][-1]) for name in one.wide.names) == alone


def test_raw_tables_of_pairs_would_move_by_many_pairs():
    """Why pairs are not counted as they are: m - 1 of them have one member, and m(m - 1)/2 one household."""
    text = SCHEMA.replace("at_most = 3", "at_most = 5").split("[roles]")[0] + SCHEMA.split("child_younger = 15")[1]
    one = parse_any_schema(text)
    assert isinstance(one, us.LinkedSchema)
    for size in range(2, 6):
        table = LinkedTable(
            schema=one,
            households=CodedTable(schema=one.households, columns={"tenure": np.zeros(1, int)}),
            members=CodedTable(schema=one.members, columns={"age": np.arange(size) % 3, "sex": np.zeros(size, int)}),
            owner=np.zeros(size, dtype=np.int64),
            role=np.zeros(size, dtype=np.int8),
        )
        first, second = pairs_of(table, "members")  # in both orders
        assert len(first) == size * (size - 1)
        assert ((first == 0) | (second == 0)).sum() == 2 * (size - 1)
        assert table.wide(np.arange(size, dtype=np.uint64)).rows == 1
