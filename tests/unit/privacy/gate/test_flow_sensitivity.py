"""Sensitivities of tables of commutes against brute force: every way in which the jobs of one unit can change."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from understudy.privacy.gate.flow_gate import FlowTable, flow_sensitivity
from understudy.privacy.promise.definition import Unit

PLACES = 3
TABLES = {
    "pairs": FlowTable(label="pairs", cells=9, classify=lambda homes, jobs: homes.astype(np.int64) * PLACES + jobs),
    "homes": FlowTable(label="homes", cells=3, classify=lambda homes, _: homes.astype(np.int64)),
    "workplaces": FlowTable(
        label="workplaces", cells=3, classify=lambda _, jobs: jobs.astype(np.int64), by_destination=True
    ),
}


def changes(unit):
    """The jobs of one unit before and after, as lists of (home, workplace)."""
    pairs = list(product(range(PLACES), repeat=2))
    if unit.kind == "add_remove":
        for count in range(1, unit.rows_per_unit + 1):
            yield from (([], list(after)) for after in combinations_with_replacement(pairs, count))
        return
    for count in range(1, unit.rows_per_unit + 1):
        for before, after in product(combinations_with_replacement(pairs, count), product(pairs, repeat=count)):
            if not unit.fixed or all(one[1] == other[1] for one, other in zip(before, after, strict=True)):
                yield list(before), list(after)


def counted(table, jobs):
    homes, workplaces = (np.array([job[side] for job in jobs], dtype=np.int32) for side in (0, 1))
    return np.bincount(table.classify(homes, workplaces), minlength=table.cells)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("who", ["replace", "fixed", "add_remove"])
@pytest.mark.parametrize("name", TABLES)
def test_no_unit_moves_a_table_farther_and_some_unit_as_far(name, who, rows):
    table = TABLES[name]
    fixed = ("destination",) if who == "fixed" else ()
    unit = Unit(kind="add_remove" if who == "add_remove" else "replace", rows_per_unit=rows, fixed=fixed)
    moves = np.array([counted(table, after) - counted(table, before) for before, after in changes(unit)])
    stated = flow_sensitivity(table, unit)
    assert stated.l1 == np.abs(moves).sum(axis=1).max()
    assert stated.l2_squared == (moves**2).sum(axis=1).max()
    assert stated.linf == np.abs(moves).max()
