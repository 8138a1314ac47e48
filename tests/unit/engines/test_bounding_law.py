"""Which rows of a unit are kept has one law for neighbours that agree on fixed values, though not the same words."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from understudy.engines.bounding import kept_places

ROWS = 4


class OneOrder:
    """A stream that gives the words of one order of the rows."""

    def __init__(self, order):
        self.order = order

    def words(self, count, *_purpose):
        return np.array(self.order[:count], dtype=np.uint64)


def kept(rows, limit, order):
    """The kept rows of a unit, numbered by their codes as the engines do."""
    listed = sorted(rows)
    return [listed[place] for place in kept_places(len(listed), limit, OneOrder(order), "somebody")]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_fixed_values_of_kept_rows_have_one_law(limit):
    """A row is (protected value, fixed area); neighbours have the same areas and other values."""
    areas = "nnsw"
    first, second = ([(value, area) for value, area in zip(values, areas, strict=True)] for values in ("0123", "3201"))
    orders = list(permutations(range(ROWS)))
    laws = [
        Counter(tuple(sorted(area for _, area in kept(rows, limit, order))) for order in orders)
        for rows in (first, second)
    ]
    assert laws[0] == laws[1]
    same_words = [
        sorted(area for _, area in kept(first, limit, order)) == sorted(area for _, area in kept(second, limit, order))
        for order in orders
    ]
    assert not all(same_words)  # so the proof cannot hold the words fixed


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_every_subset_is_kept_equally_often(limit):
    rows = [(value, "n") for value in "0123"]
    found = Counter(tuple(kept(rows, limit, order)) for order in permutations(range(ROWS)))
    assert len(set(found.values())) == 1
    assert all(len(subset) == limit for subset in found)
