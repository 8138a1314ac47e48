"""Sensitivities against brute force: every neighbour of every small table."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from understudy.core.schema import Attribute, Schema
from understudy.core.structural_zeros import Condition, Impossible
from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.sensitivity import margin_sensitivity, selection_sensitivity

Row = tuple[int, ...]
SEX = Attribute(name="sex", levels=("F", "M"))
AGE = Attribute(name="age", levels=("young", "middle", "old"))
HOME = Attribute(name="home", levels=("here", "there"))


def rule(**levels: str) -> Impossible:
    return Impossible(conditions=tuple((name, Condition(levels=(level,))) for name, level in levels.items()))


SCHEMAS = {
    "two": Schema(attributes=(SEX, HOME)),
    "two of three levels": Schema(attributes=(SEX, AGE)),
    "zeros": Schema(attributes=(SEX, AGE), impossible=(rule(sex="F", age="old"), rule(sex="M", age="young"))),
    "one cell per sex": Schema(
        attributes=(SEX, HOME), impossible=(rule(sex="F", home="here"), rule(sex="M", home="there"))
    ),
    "one left": Schema(
        attributes=(SEX, HOME),
        impossible=(rule(sex="F", home="here"), rule(sex="M", home="there"), rule(sex="M", home="here")),
    ),
    "three": Schema(attributes=(SEX, HOME, Attribute(name="job", levels=("yes", "no")))),
    "constant": Schema(attributes=(Attribute(name="only", levels=("one",)), SEX)),
}


def possible_rows(schema: Schema) -> list[Row]:
    return [tuple(int(code) for code in row) for row in np.argwhere(schema.allowed())]


def moves(schema: Schema, unit: Unit) -> Iterator[tuple[Counter[Row], Counter[Row]]]:
    """Rows taken from and given to one unit, over all neighbours.

    A query that is a sum over rows changes by given minus taken whatever the other rows are; tables of up to three
    rows are added below for queries that are not sums.
    """
    rows = possible_rows(schema)
    fixed = [schema.names.index(name) for name in unit.fixed]
    for size in range(1, unit.rows_per_unit + 1):
        for before in itertools.combinations_with_replacement(rows, size):
            if unit.kind == "add_remove":
                yield Counter(before), Counter()
                continue
            for after in itertools.product(rows, repeat=size):
                if all(old[i] == new[i] for old, new in zip(before, after, strict=True) for i in fixed):
                    yield Counter(before), Counter(after)


def table_of(schema: Schema, margin: tuple[str, ...], rows: Counter[Row]) -> np.ndarray:
    axes = [schema.names.index(name) for name in margin]
    table = np.zeros(schema.shape(margin), dtype=np.int64)
    for row, count in rows.items():
        table[tuple(row[axis] for axis in axes)] += count
    return table


def units(schema: Schema) -> Iterator[Unit]:
    for rows in (1, 2):
        yield Unit(kind="add_remove", rows_per_unit=rows)
        for size in range(len(schema.names) + 1):
            for fixed in itertools.combinations(schema.names, size):
                yield Unit(kind="replace", rows_per_unit=rows, fixed=fixed)


@pytest.mark.parametrize("name", SCHEMAS)
def test_margins_move_exactly_as_far_as_stated(name: str) -> None:
    schema = SCHEMAS[name]
    for unit in units(schema):
        pairs = list(moves(schema, unit))
        for size in range(len(schema.names) + 1):
            for margin in itertools.combinations(schema.names, size):
                found = margin_sensitivity(schema, margin, unit)
                changes = [table_of(schema, margin, new) - table_of(schema, margin, old) for old, new in pairs]
                true = (
                    max(int(np.abs(change).sum()) for change in changes),
                    max(int((change**2).sum()) for change in changes),
                    max(int(np.abs(change).max()) for change in changes),
                )
                stated = (found.l1, found.l2_squared, found.linf)
                assert all(s >= t for s, t in zip(stated, true, strict=True)), (unit, margin)
                # Attained, unless a structural zero reaches outside the margin and forbids what the margin allows.
                if all(set(zero.attributes) <= set(margin) for zero in schema.impossible):
                    assert stated == true, (unit, margin)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("name", ["two", "zeros", "one cell per sex", "constant"])
def test_one_cell_of_two_moves_half_as_far(name: str, rows: int) -> None:
    schema = SCHEMAS[name]
    seen = 0
    for fixed in [(), *((attribute,) for attribute in schema.names)]:
        unit = Unit(rows_per_unit=rows, fixed=fixed)
        for size in range(1, len(schema.names) + 1):
            for margin in itertools.combinations(schema.names, size):
                allowed = schema.allowed(margin)
                if allowed.sum() != 2:
                    with pytest.raises(UnsupportedError, match="two possible cells"):
                        margin_sensitivity(schema, margin, unit, "first")
                    continue
                found = margin_sensitivity(schema, margin, unit, "first")
                true = max(
                    abs(int((table_of(schema, margin, new) - table_of(schema, margin, old))[allowed][0]))
                    for old, new in moves(schema, unit)
                )
                stated = (found.l1, found.l2_squared, found.linf)
                assert all(s >= t for s, t in zip(stated, (true, true**2, true), strict=True)), (unit, margin)
                if all(set(zero.attributes) <= set(margin) for zero in schema.impossible):
                    assert stated == (true, true**2, true), (unit, margin)
                    seen += 1
    assert seen >= (2 if name != "zeros" else 0)


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("rows", [1, 2])
def test_selection_scores_move_exactly_as_far_as_stated(kind: str, rows: int) -> None:
    """Not a sum over rows: enumerate whole tables of up to three other rows, and models around them."""
    schema = Schema(attributes=(SEX,))
    unit = Unit(kind=kind, rows_per_unit=rows)  # type: ignore[arg-type]
    weights = [1, 3]
    worst = 0
    for others in range(4):
        for rest in itertools.combinations_with_replacement(possible_rows(schema), others):
            for old, new in moves(schema, unit):
                before, after = (table_of(schema, ("sex",), Counter(rest) + part) for part in (old, new))
                for model in itertools.product(range(5), repeat=2):
                    distances = [int(np.abs(table - np.array(model)).sum()) for table in (before, after)]
                    worst = max(worst, *(weight * abs(distances[0] - distances[1]) for weight in weights))
    assert selection_sensitivity(weights, unit) == worst


def test_a_huge_margin_is_never_built() -> None:
    attributes = tuple(Attribute(name=f"a{i}", levels=tuple(range(100))) for i in range(12))
    zero = Impossible(conditions=(("a0", Condition(levels=(1,))), ("a1", Condition(levels=(1,)))))
    schema = Schema(attributes=attributes, impossible=(zero,))
    assert margin_sensitivity(schema, schema.names, Unit()).l1 == 2
    with pytest.raises(UnsupportedError, match="two possible cells"):
        margin_sensitivity(schema, schema.names, Unit(), "first")


def test_what_is_refused() -> None:
    schema = SCHEMAS["two"]
    with pytest.raises(UnsupportedError, match="public total"):
        margin_sensitivity(schema, ("sex",), Unit(kind="add_remove"), "first")
    with pytest.raises(InputError, match="cells"):
        margin_sensitivity(schema, ("sex",), Unit(), "second")
    with pytest.raises(UnknownNameError, match="sexx"):
        margin_sensitivity(schema, ("sexx",), Unit())
    with pytest.raises(UnknownNameError, match="hoem"):
        margin_sensitivity(schema, ("sex",), Unit(fixed=("hoem",)))
    with pytest.raises(InputError, match="whole-number"):
        selection_sensitivity([1.5], Unit())  # type: ignore[list-item]
    with pytest.raises(InputError, match="at least one"):
        selection_sensitivity([], Unit())
    with pytest.raises(InputError, match="add_remove"):
        Unit(kind="add_remove", fixed=("sex",))
