"""A street of households, and its neighbours: a household changed with all its members, or one member changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

import understudy as us
from understudy.core.linked_schema_file import parse_any_schema

SCHEMA = """version = 1
[[table]]
name = "households"
id = "home"
[[table]]
name = "persons"
parent = "households"
id = "number"
at_most = 4
beyond = "sample"
[roles]
age = "age"
adult = 18
child_younger = 15
[[attribute]]
table = "households"
name = "tenure"
levels = ["owner", "tenant"]
[[attribute]]
table = "persons"
name = "age"
edges = [0, 18, 45, 100]
integer = true
[[attribute]]
table = "persons"
name = "sex"
levels = ["F", "M"]
"""
# Nobody is left out and roles come from a column, so tables of single members are measured for a person.
WHOLE = SCHEMA.replace('at_most = 4\nbeyond = "sample"', "at_most = 6").replace(
    'age = "age"\nadult = 18\nchild_younger = 15', 'column = "relation"\nreference = ["1"]\nchild = ["3"]'
)
# All members are alike, so pairs of them are measured for a person; and what is derived is counted.
ALIKE = (
    SCHEMA.replace('at_most = 4\nbeyond = "sample"', "at_most = 6").replace(
        '[roles]\nage = "age"\nadult = 18\nchild_younger = 15\n', ""
    )
    + """[[derived]]
name = "years"
function = "sum"
of = "age"
edges = [0, 40, 90, 200]
"""
)
# A weight of households: with what they are it goes from one of them to the one that takes its place.
WEIGHTED = (
    WHOLE
    + """[weight]
table = "households"
column = "hw"
edges = [50, 150, 250, 600]
public_design = true
"""
)
Member = tuple[int, str]
Home = tuple[str, tuple[Member, ...]]


@lru_cache(maxsize=4)
def schema(text: str = SCHEMA) -> us.LinkedSchema:
    found = parse_any_schema(text)
    assert isinstance(found, us.LinkedSchema)
    return found


@dataclass(frozen=True, kw_only=True)
class Homes:
    homes: tuple[Home, ...]
    text: str = SCHEMA

    @property
    def schema(self) -> us.LinkedSchema:
        return schema(self.text)

    def arrow(self) -> pa.Table:
        rows = [
            {"home": f"h{place}", "number": number, "tenure": tenure, "age": age, "sex": sex}
            for place, (tenure, members) in enumerate(self.homes)
            for number, (age, sex) in enumerate(members)
        ]
        if self.text == WEIGHTED:
            for row in rows:
                tenure, members = self.homes[int(str(row["home"])[1:])]
                row["hw"] = 100 * len(members) - (40 if tenure == "owner" else 0)
        if self.text in (WHOLE, WEIGHTED):  # what a member says of itself
            for row in rows:
                row["relation"] = "1" if row["number"] == 0 else "3" if int(str(row["age"])) < 18 else "4"
        return pa.Table.from_pylist(rows)


def whole_homes() -> Homes:
    """The same households, none of them too large."""
    return replace(homes(), text=WHOLE)


def weighted_homes() -> Homes:
    """The same households, each with a weight."""
    return replace(homes(), text=WEIGHTED)


def alike_homes() -> Homes:
    """The same households, with nothing said of who is who."""
    return replace(homes(), text=ALIKE)


def homes() -> Homes:
    """Twelve households; one has more members than the schema allows, so that some are left out."""
    single: Home = ("tenant", ((30, "F"),))
    couple: Home = ("owner", ((50, "M"), (48, "F")))
    family: Home = ("owner", ((40, "F"), (41, "M"), (8, "F"), (5, "M")))
    alone: Home = ("tenant", ((35, "F"), (3, "M")))
    shared: Home = ("tenant", ((25, "M"), (24, "M"), (26, "F")))
    large: Home = ("owner", ((44, "M"), (43, "F"), (15, "M"), (12, "F"), (9, "M"), (70, "F")))
    return Homes(homes=(single, couple, family, alone, shared, large, single, couple, family, single, couple, alone))


def neighbours(table: Homes, unit: us.Unit) -> Iterator[tuple[str, Homes]]:
    others: dict[str, Home] = {
        "an old couple": ("owner", ((80, "M"), (79, "F"))),
        "one person": ("tenant", ((20, "M"),)),
        "a full house": ("tenant", ((60, "F"), (62, "M"), (30, "F"), (31, "M"))),
    }

    def changed(place: int, home: Home) -> Homes:
        kept = list(table.homes)
        kept[place] = home
        return replace(table, homes=tuple(kept))

    if unit.kind == "add_remove":
        for place in (len(table.homes) - 1,):
            yield f"household {place} removed", replace(table, homes=table.homes[:place])
        for name, home in others.items():
            yield f"{name} added", replace(table, homes=(*table.homes, home))
        yield "a family added", replace(table, homes=(*table.homes, table.homes[2]))
        yield "a large household added", replace(table, homes=(*table.homes, table.homes[5]))
        return
    if unit.fixed:
        for place in (0, 1, 2, 4, 5):
            tenure, members = table.homes[place]
            for number in (0, len(members) - 1):
                for value in ((1, "F"), (77, "M")):
                    if number == 0 and len(members) == 1 and value[0] == 1:
                        continue
                    mine = (*members[:number], value, *members[number + 1 :])
                    yield f"member {number} of household {place} is now {value}", changed(place, (tenure, mine))
        return
    for place in (0, 2, 5):
        for name, home in others.items():
            yield f"household {place} is now {name}", changed(place, home)
