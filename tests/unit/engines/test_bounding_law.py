"""Which rows of a unit are kept: every subset equally often, and the same fixed values for neighbours."""

from collections import Counter
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.engines.counting.bounding import kept_places
from understudy.privacy.randomness.streams import SeededStream

ROWS = 4


class OneOrder:
    """A stream that gives the words of one order of the rows."""

    def __init__(self, order):
        self.order = order

    def words(self, count, *_purpose):
        return np.array(self.order[:count], dtype=np.uint64)


def kept(rows, limit, order):
    """The kept rows of a unit, numbered by their codes as the engines do: fixed attributes first."""
    listed = sorted(rows)
    return [listed[place] for place in kept_places(len(listed), limit, OneOrder(order), "somebody")]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_neighbours_keep_rows_with_the_same_fixed_values_under_the_same_words(limit):
    """A row is (fixed area, protected value); neighbours have the same areas and other values."""
    areas = "nnsw"
    first, second = (list(zip(areas, values, strict=True)) for values in ("0123", "3201"))
    for order in permutations(range(ROWS)):
        found = [[area for area, _ in kept(rows, limit, order)] for rows in (first, second)]
        assert found[0] == found[1]


SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="a", levels=tuple(range(9))),
        us.Attribute(name="area", levels=tuple("nsw")),
        us.Attribute(name="b", levels=tuple(range(5))),
    ),
    ignore=("person",),
)


@pytest.mark.parametrize("limit", [1, 3])
def test_the_engine_keeps_the_same_fixed_values_of_neighbours(limit):
    """Every value that is not fixed differs between the two tables, and no word does."""
    rng = np.random.default_rng(1)
    shared = {"area": np.array(list("nsw"))[rng.integers(0, 3, 400)], "person": rng.integers(0, 50, 400)}
    unit = us.Unit(rows_per_unit=limit, unit_id="person", fixed=("area",))
    sizes = []
    for seed in (2, 3):
        values = np.random.default_rng(seed)
        table = pa.table({"a": values.integers(0, 9, 400), "b": values.integers(0, 5, 400), **shared})
        source = us.open_source(table, SCHEMA, unit_id="person").bounded(unit, SeededStream(7))
        sizes.append(source.count([("area",)])[0].values.tolist())
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_every_subset_is_kept_equally_often(limit):
    rows = [(value, "n") for value in "0123"]
    found = Counter(tuple(kept(rows, limit, order)) for order in permutations(range(ROWS)))
    assert len(set(found.values())) == 1
    assert all(len(subset) == limit for subset in found)
