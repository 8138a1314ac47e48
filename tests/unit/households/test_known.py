"""What is known of households under the unit of a person, where one table of all of it has too many cells."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.core.linked_schema_file import parse_any_schema
from understudy.households.methods import families

LEVELS = {"kind": 3, "area": 4, "funds": 3}
KNOWN = (*LEVELS, "size")
TEXT = """version = 1
[[table]]
name = "schools"
id = "school"
[[table]]
name = "pupils"
parent = "schools"
at_most = 5
""" + "".join(
    f'[[attribute]]\ntable = "{table}"\nname = "{name}"\nlevels = {list(range(count))}\n'
    for table, name, count in [*(("schools", *one) for one in LEVELS.items()), ("pupils", "mark", 3)]
)


def schools(count=500):
    rng = np.random.default_rng(1)
    kind = rng.integers(0, 3, count)
    area = np.minimum(rng.poisson(1 + kind / 2), 3)
    funds = np.where(rng.random(count) < 0.7, kind, rng.integers(0, 3, count))
    whose = np.repeat(np.arange(count), np.clip(rng.poisson(1 + area), 1, 5))
    mark = np.clip(np.rint(rng.normal(kind[whose] / 2 + 0.5, 0.7)), 0, 2).astype(int)
    above = pa.table({"school": np.arange(count), "kind": kind, "area": area, "funds": funds})
    return {"schools": above, "pupils": pa.table({"school": whose, "mark": mark})}


def rows_of(linked):
    return linked.wide(np.zeros(len(linked.owner), np.uint64))


@pytest.mark.parametrize(
    ("paired", "held"),
    [(200_000, 6), (100, 5)],  # all pairs; those that a small model holds
)
def test_tables_of_two_are_known_where_one_of_all_is_too_large(monkeypatch, paired, held):
    monkeypatch.setattr(families, "KNOWN_CELLS", 60)
    monkeypatch.setattr(families, "PAIRED_CELLS", paired)
    schema, data = parse_any_schema(TEXT), schools()
    with warnings.catch_warnings(action="ignore"):
        release = us.synthesize(data, schema=schema, unit="person", budget=us.ApproxDP(epsilon=1, delta="1e-6"))
    truth, made = rows_of(us.open_households(data, schema).confidential_families()), rows_of(release.linked())
    (part,) = release.fitted.parts
    off = {pair: np.abs(part.model.project(pair) - truth.counts(pair)).max() for pair in combinations(KNOWN, 2)}
    known = [pair for pair, distance in off.items() if distance < 0.05]
    assert len(known) == held
    assert all(distance > 5 for pair, distance in off.items() if pair not in known)  # so the others are not known
    for name in KNOWN:
        assert np.abs(part.model.project((name,)) - truth.counts((name,))).max() < 0.05
        assert np.abs(made.counts((name,)).astype(int) - truth.counts((name,))).max() <= 12  # rows are whole
    for pair in known:
        assert np.abs(made.counts(pair).astype(int) - truth.counts(pair)).max() <= 8
