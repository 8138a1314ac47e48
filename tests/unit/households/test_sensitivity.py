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
from understudy.privacy.promise.sensitivity import linked_sensitivity, margin_sensitivity, members_per_unit

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
[[derived]]
name = "years"
function = "sum"
of = "age"
edges = [0, 50, 100, 270]
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


BY_COLUMN = SCHEMA.replace(
    'age = "age"\nadult = 18\npartner_within = 10\nchild_younger = 15', 'column = "r"\nreference = ["1"]\nchild = ["3"]'
)


def _counts(one: us.LinkedSchema, home, margin: tuple[str, ...]) -> np.ndarray:
    return linked(one, [home]).persons().counts(margin)


def _with_roles(one: us.LinkedSchema, members) -> LinkedTable:
    """A household whose first member is the reference person; the others say their role."""
    return LinkedTable(
        schema=one,
        households=CodedTable(schema=one.households, columns={"tenure": np.zeros(1, int)}),
        members=CodedTable(
            schema=one.members,
            columns={
                name: np.array([member[place] for member in members]) for place, name in enumerate(("age", "sex"))
            },
        ),
        owner=np.zeros(len(members), dtype=np.int64),
        role=np.array([0, *(member[2] for member in members[1:])], dtype=np.int8),
    )


@pytest.mark.parametrize("unit", ["household", "person", "add_remove"])
def test_tables_of_members_move_by_what_the_gate_derives(unit):
    """One row of a person; all rows of a household, which may all lie in one cell and move to another."""
    one = schema()
    who = unit_of(one, unit)
    assert members_per_unit(one, who) == (1 if unit == "person" else 3)
    assert one.persons.names == ("tenure", "age", "sex")  # a rule looks at everybody, so the role is not of one member
    tables = [("age",), ("sex",), ("age", "sex"), ("tenure", "age")]
    found = {margin: [0, 0, 0] for margin in tables}
    pairs = [(home, None) for home in MANY] if unit == "add_remove" else list(neighbours(unit))
    for margin in tables:
        counted = {home: _counts(one, home, margin) for home in MANY}
        for before, after in pairs:
            moved = counted[before] - (0 if after is None else counted[after])
            size = np.abs(moved)
            largest = int(size.sum()), int((moved**2).sum()), int(size.max())
            found[margin] = [max(old, new) for old, new in zip(found[margin], largest, strict=True)]
    for margin, (l1, l2_squared, linf) in found.items():
        derived = linked_sensitivity(one, margin, who)
        assert (derived.l1, derived.l2_squared, derived.linf) == (l1, l2_squared, linf), margin


def test_a_role_from_a_column_moves_with_its_member():
    one = parse_any_schema(BY_COLUMN)
    assert isinstance(one, us.LinkedSchema)
    assert one.persons.names == ("tenure", "role", "age", "sex")
    who = unit_of(one, "person")
    people = [(age, sex, role) for age, sex in PEOPLE for role in (2, 3)]
    worst = 0
    for before in product(people, repeat=3):
        for place, new in product(range(3), people):
            after = [*before]
            after[place] = new
            moved = [_with_roles(one, members).persons().counts(("role", "age")) for members in (before, after)]
            worst = max(worst, int(np.abs(moved[0] - moved[1]).sum()))
    assert worst == linked_sensitivity(one, ("role", "age"), who).l1 == 2


def test_who_is_left_out_can_depend_on_one_member():
    """So a person is not charged one row where large households are sampled."""
    text = BY_COLUMN.replace("at_most = 3", 'at_most = 3\nbeyond = "sample"')
    one = parse_any_schema(text)
    assert isinstance(one, us.LinkedSchema)
    who = unit_of(one, "person")
    assert members_per_unit(one, who) == 3
    assert linked_sensitivity(one, ("age",), who).l1 == 6


def test_a_unit_that_only_looks_like_a_person_is_charged_a_household():
    one = schema()
    for unit in (us.Unit(kind="replace"), us.Unit(kind="replace", unit_id=one.person_id),
                 us.Unit(kind="replace", unit_id="h", fixed=("tenure", "size"))):  # fmt: skip
        assert members_per_unit(one, unit) == 3


def alike() -> us.LinkedSchema:
    text = (
        SCHEMA.split("[roles]", maxsplit=1)[0].replace("at_most = 3", "at_most = 4")
        + SCHEMA.split("child_younger = 15")[1]
    )
    found = parse_any_schema(text)
    assert isinstance(found, us.LinkedSchema)
    return found


@pytest.mark.parametrize(("unit", "moved"), [("household", 2), ("person", 1), ("add_remove", 2)])
def test_tables_of_pairs_move_by_what_the_gate_derives(unit, moved):
    """Each member is in at most one pair, so a person moves one; a household has half as many pairs as members."""
    one = alike()
    who = unit_of(one, unit)
    margin = one.pairs.names
    assert margin == ("one_age", "other_age")
    homes = [(0, members) for size in (1, 2, 3, 4) for members in product([(0, 0), (1, 0), (2, 0)], repeat=size)]
    counted = {}
    for home in homes:
        owner = np.zeros(len(home[1]), dtype=np.int64)
        table = LinkedTable(
            schema=one,
            households=CodedTable(schema=one.households, columns={"tenure": np.zeros(1, int)}),
            members=CodedTable(schema=one.members, columns={
                "age": np.array([age for age, _ in home[1]]), "sex": np.zeros(len(owner), int)}),
            owner=owner,
            role=np.zeros(len(owner), dtype=np.int8),
        )  # fmt: skip
        words = member_words(table, np.array([11], dtype=np.int64), KEY)
        counted[home] = table.pairs(words).counts(margin)
        assert counted[home].sum() == len(owner) // 2
    found = [0, 0, 0]
    others = [(home, None) for home in homes] if unit == "add_remove" else combinations(homes, 2)
    for before, after in others:
        if unit == "person" and _members_changed(before[1], after[1]) != 1:
            continue
        apart = np.abs(counted[before] - (0 if after is None else counted[after]))
        largest = int(apart.sum()), int((apart**2).sum()), int(apart.max())
        found = [max(old, new) for old, new in zip(found, largest, strict=True)]
    derived = linked_sensitivity(one, margin, who)
    assert (derived.l1, derived.l2_squared, derived.linf) == tuple(found)
    assert derived.linf == moved


def test_the_size_is_known_of_a_person_and_not_of_a_household():
    one = alike()
    assert linked_sensitivity(one, ("size", "age"), unit_of(one, "person")).l1 == 2
    assert linked_sensitivity(one, ("size", "age"), unit_of(one, "household")).l1 == 8
    assert linked_sensitivity(one, ("size",), unit_of(one, "person")).l1 == 0
