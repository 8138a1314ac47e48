"""Small tables of people and their neighbours, the nasty ones among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import pyarrow as pa

import understudy as us

Row = tuple[int, ...]  # one code for each attribute

PEOPLE = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),  # the fixed one comes first: rows of a unit keep their order by it
        us.Attribute(name="age", edges=(0, 20, 40, 60, 80), integer=True),
        us.Attribute(name="job", levels=("a", "b", "c")),
    ),
    impossible=(
        us.Impossible(conditions=(("sex", us.Condition(levels=("M",))), ("job", us.Condition(levels=("c",))))),
    ),
    ignore=("id",),
)
TINY = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="age", edges=(0, 20, 40, 60), integer=True),
        us.Attribute(name="job", levels=("a", "b")),
    ),
    ignore=("id",),
)
AMOUNTS = us.Schema(  # bins of income are found inside the budget
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="income", bounds=(0, 40), integer=True),
        us.Attribute(name="job", levels=("a", "b")),
    ),
    ignore=("id",),
)
WRITTEN = us.Schema(  # the codes in the data, which the schema does not say
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="job", levels=("11", "12", "21", "22", "3")),
    ),
    ignore=("id",),
)
CODES = replace(
    WRITTEN, attributes=(WRITTEN["sex"], us.Attribute(name="job", levels="discover", prefixes=(1,), most_codes=3))
)
LISTED = replace(  # codes are found among those of a public list
    WRITTEN,
    attributes=(
        WRITTEN["sex"],
        us.Attribute(
            name="job", levels="discover", among=("1", "11", "12", "2", "21", "22", "3"),
            parents=("", "1", "1", "", "2", "2", ""),
        ),
    ),
)  # fmt: skip
WEIGHTED = us.Schema(  # a survey: the weight is one more private attribute, measured with each of the others
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="job", levels=("a", "b")),
    ),
    weight=us.Weight(column="weight", bounds=(1, 40), decimals=0),
    ignore=("id",),
)
CLUSTERED = replace(  # the same people in homes, whose design effects are measured inside the budget
    WEIGHTED, design=us.Design(clusters="home", measure_effects=True, largest_cluster=3)
)
BY_UNIT = replace(  # the clusters are the units themselves
    WEIGHTED, ignore=(), design=us.Design(clusters="id", measure_effects=True, largest_cluster=3, protects="cluster")
)
TWO_CELLS = us.Schema(attributes=(us.Attribute(name="answer", levels=("no", "yes")),), ignore=("id",))


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows as codes, and whose they are."""

    schema: us.Schema
    rows: tuple[Row, ...]
    ids: tuple[str, ...]
    written: us.Schema | None = None  # what the codes of the rows mean, where the schema leaves that open
    homes: tuple[str, ...] = ()  # the cluster of every row, where rows come in clusters

    def arrow(self) -> pa.Table:
        columns = {}
        for axis, attribute in enumerate((self.written or self.schema).attributes):
            codes = [row[axis] for row in self.rows]
            columns[attribute.name] = [
                attribute.levels[code] if attribute.levels else int(attribute.edges[code]) + (not attribute.bounds)
                for code in codes
            ]
        return pa.table({**columns, "id": list(self.ids), **({"home": list(self.homes)} if self.homes else {})})

    def cells(self) -> list[Row]:
        """Every possible cell."""
        schema = self.written or self.schema
        allowed = schema.allowed()
        return [cell for cell in product(*(range(size) for size in schema.shape())) if allowed[cell]]


def people() -> Table:
    """Twenty-two people: a crowded cell, single ones, empty ones, a unit of five rows and one of two."""
    rows = [(0, 0, 0)] * 7 + [(1, 1, 1)] * 3 + [(0, 1, 0), (1, 2, 0), (0, 2, 1), (1, 3, 1), (1, 0, 0)]
    ids = [f"u{number}" for number in range(len(rows))]
    rows += [(0, 1, 1), (0, 2, 0), (1, 1, 0), (1, 1, 1), (0, 3, 2), (0, 0, 1), (1, 2, 1)]
    ids += ["crowd"] * 5 + ["pair"] * 2
    return Table(schema=PEOPLE, rows=tuple(rows), ids=tuple(ids))


def tiny() -> Table:
    """Six people in twelve cells."""
    rows = ((0, 0, 0), (0, 0, 0), (1, 1, 1), (1, 2, 0), (0, 1, 1), (1, 2, 1))
    return Table(schema=TINY, rows=rows, ids=tuple(f"u{number}" for number in range(len(rows))))


def tiny_neighbour() -> Table:
    """One row differs in every attribute, from the first code to the last: it moves in every table there is."""
    return replace(tiny(), rows=((1, 2, 1), *tiny().rows[1:]))


def amounts() -> Table:
    """Nineteen people with incomes: a heap, single ones, the ends of the range, and units of five and two rows."""
    rows = [(0, 0, 0)] * 6 + [(1, 12, 1)] * 3 + [(0, 39, 0), (1, 5, 0), (0, 20, 1)]
    ids = [f"u{number}" for number in range(len(rows))]
    rows += [(0, 13, 1), (0, 14, 0), (1, 12, 0), (1, 13, 1), (0, 30, 1), (0, 0, 1), (1, 21, 1)]
    ids += ["crowd"] * 5 + ["pair"] * 2
    return Table(schema=AMOUNTS, rows=tuple(rows), ids=tuple(ids))


def weighted() -> Table:
    """Nineteen people with weights: equal ones, single ones, the smallest and the largest; units of five and two."""
    last = WEIGHTED["weight"].bins - 1
    rows = [(0, 0, 3)] * 6 + [(1, 1, 9)] * 3 + [(0, 0, last), (1, 0, 0), (0, 1, 12)]
    ids = [f"u{number}" for number in range(len(rows))]
    rows += [(0, 1, 4), (0, 0, 5), (1, 0, 3), (1, 1, 4), (0, 1, last), (0, 1, 0), (1, 1, 8)]
    ids += ["crowd"] * 5 + ["pair"] * 2
    return Table(schema=WEIGHTED, rows=tuple(rows), ids=tuple(ids))


def clustered() -> Table:
    """The same people in homes: one of more people than the largest that is counted, two of three, pairs, singles."""
    table = weighted()
    sizes = (5, 3, 3, 2, 2, 1, 1)
    homes = [f"h{number}" for number, size in enumerate(sizes) for _ in range(size)]
    return replace(table, schema=CLUSTERED, homes=(*homes, "h3", "h6"))


def by_unit() -> Table:
    """The same rows, where the rows of a unit are a cluster."""
    return replace(weighted(), schema=BY_UNIT)


def codes() -> Table:
    """Codes that many have, that few have, that one has alone, and one that nobody has; units of five and two rows."""
    rows = [(0, 0)] * 90 + [(1, 1)] * 70 + [(0, 2)] * 6 + [(1, 3)]
    ids = [f"u{number}" for number in range(len(rows))]
    rows += [(0, 0), (1, 0), (0, 1), (0, 2), (1, 2), (0, 0), (1, 3)]
    ids += ["crowd"] * 5 + ["pair"] * 2
    return Table(schema=CODES, rows=tuple(rows), ids=tuple(ids), written=WRITTEN)


def listed() -> Table:
    """The same rows, where the codes are found among those of a public list."""
    return replace(codes(), schema=LISTED)


def answers() -> Table:
    rows = [(0,)] * 6 + [(1,)]
    return Table(schema=TWO_CELLS, rows=tuple(rows), ids=tuple(f"u{number}" for number in range(len(rows))))


def neighbours(table: Table, unit: us.Unit) -> Iterator[tuple[str, Table]]:
    """At least six tables that differ in one unit, where they differ by much or in rare places."""
    if table.homes:
        yield from _in_other_homes(table, unit)
    else:
        yield from _changed(table, unit) if unit.kind == "replace" else _more_or_fewer(table, unit)


def _in_other_homes(table: Table, unit: us.Unit) -> Iterator[tuple[str, Table]]:
    """The home of a row is data about it: rows that change, or that come, are in the fullest home, alone or apart.

    Every row has a word by its place, and the others keep theirs: so rows come and go at the end of the table only.
    """
    if unit.kind == "replace":
        found = [(name, other) for name, other in _changed(table, unit)]
    else:
        count = unit.rows_per_unit + 3 if unit.unit_id is not None else unit.rows_per_unit
        last = len(table.rows) - min(2, unit.rows_per_unit)
        fewer = replace(table, rows=table.rows[:last], ids=table.ids[:last], homes=table.homes[:last])
        yield "the last unit removed", fewer
        found = [
            (name, replace(other, homes=(*table.homes, *["h0"] * count)))
            for name, other in _more_or_fewer(table, unit)
            if len(other.rows) > len(table.rows)
        ]
    for name, other in found:
        same = range(len(table.rows))
        moved = [n for n in range(len(other.rows)) if n not in same or other.rows[n] != table.rows[n]]
        for where, homes in (("the fullest home", ["h0"]), ("a new home", ["new"]), ("apart", ["h1", "h2", "h3"])):
            own = list(other.homes)
            for turn, number in enumerate(moved):
                own[number] = homes[turn % len(homes)]
            yield f"{name}, in {where}", replace(other, homes=tuple(own))


def _places(table: Table, unit: us.Unit) -> dict[str, list[int]]:
    """The rows of some units: alone in a cell, in the fullest cell, and the unit with most rows."""
    filled = Counter(table.rows)
    fullest = max(filled, key=lambda cell: filled[cell])
    alone = next((number for number, row in enumerate(table.rows) if filled[row] == 1), 0)
    crowded = table.rows.index(fullest)
    if unit.unit_id is not None:
        owner, _ = Counter(table.ids).most_common(1)[0]
        most = [number for number, one in enumerate(table.ids) if one == owner]
        lonely = [number for number, one in enumerate(table.ids) if one == table.ids[alone]]
        return {"the unit with most rows": most, "a row alone in its cell": lonely, "a row of many": [crowded]}
    most = [number for number, row in enumerate(table.rows) if row == fullest][: unit.rows_per_unit]
    return {
        "as many rows of one cell as a unit has": most,
        "a row alone in its cell": [alone],
        "a row of many": [crowded],
    }


def _changed(table: Table, unit: us.Unit) -> Iterator[tuple[str, Table]]:
    fixed = [table.schema.names.index(name) for name in unit.fixed]
    filled = Counter(table.rows)
    found = []
    for who, numbers in _places(table, unit).items():
        for where, target in _targets(table, filled).items():
            rows = list(table.rows)
            for number in numbers:
                options = [cell for cell in target if all(cell[axis] == rows[number][axis] for axis in fixed)]
                options = [cell for cell in options if cell != rows[number]]
                if options:
                    rows[number] = options[0]
            if tuple(rows) != table.rows:
                found.append((f"{who}, {where}", replace(table, rows=tuple(rows))))
        rows = list(table.rows)
        for turn, number in enumerate(numbers):
            options = [cell for cell in table.cells() if all(cell[axis] == rows[number][axis] for axis in fixed)]
            rows[number] = options[(5 * turn + 3) % len(options)]
        if tuple(rows) != table.rows:
            found.append((f"{who}, each to another cell", replace(table, rows=tuple(rows))))
    different: dict[tuple[Row, ...], tuple[str, Table]] = {}
    for name, other in found:
        different.setdefault(other.rows, (name, other))
    yield from different.values()


def _targets(table: Table, filled: Counter[Row]) -> dict[str, list[Row]]:
    cells = table.cells()
    return {
        "to an empty cell": [cell for cell in cells if not filled[cell]],
        "to the fullest cell": sorted(cells, key=lambda cell: -filled[cell]),
        "to the last cell": cells[::-1],
    }


def _more_or_fewer(table: Table, unit: us.Unit) -> Iterator[tuple[str, Table]]:
    filled = Counter(table.rows)
    for who, numbers in _places(table, unit).items():
        kept = [number for number in range(len(table.rows)) if number not in numbers]
        yield (
            f"{who}, removed",
            replace(
                table,
                rows=tuple(table.rows[number] for number in kept),
                ids=tuple(table.ids[number] for number in kept),
            ),
        )
    count = unit.rows_per_unit + 3 if unit.unit_id is not None else unit.rows_per_unit
    for where, target in _targets(table, filled).items():
        if target:
            yield (
                f"a unit added {where}",
                replace(table, rows=(*table.rows, *[target[0]] * count), ids=(*table.ids, *["new"] * count)),
            )
    cells = table.cells()
    spread = [cells[(5 * turn + 2) % len(cells)] for turn in range(count)]
    yield (
        "a unit added over many cells",
        replace(table, rows=(*table.rows, *spread), ids=(*table.ids, *["new"] * count)),
    )
