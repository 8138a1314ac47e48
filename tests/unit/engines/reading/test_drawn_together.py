"""Places inside bins: each number alone is spread evenly, and correlations do not end at the edges of bins."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.core.rules import Order
from understudy.core.schema import Attribute, Schema
from understudy.core.table import CodedTable
from understudy.engines.reading.decode import decode
from understudy.engines.reading.drawn_together import places_together
from understudy.privacy.randomness.streams import SeededStream

ROWS = 20_000
EDGES = (-5, -1, -0.3, 0.3, 1, 5)


def correlated(rho: float, seed: int = 1) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    values = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], ROWS).clip(-4.9, 4.9)
    codes = {name: np.searchsorted(EDGES, values[:, place], side="right") - 1 for place, name in enumerate("xy")}
    return values, codes


SCHEMA = Schema(attributes=tuple(Attribute(name=name, edges=EDGES, missing=True) for name in "xy"))


@pytest.mark.parametrize("rho", [0.7, -0.5])
def test_a_correlation_does_not_end_at_the_edges_of_bins(rho):
    values, codes = correlated(rho)
    places = places_together(SCHEMA, codes, SeededStream(2), "test")
    for code in range(5):  # inside one bin of x, the places of x and y go together as the values do
        for other in range(5):
            here = (codes["x"] == code) & (codes["y"] == other)
            if here.sum() > 1200:
                made = np.corrcoef(places["x"][here], places["y"][here])[0, 1]
                true = np.corrcoef(values[here].T)[0, 1]
                assert np.sign(made) == np.sign(rho)
                assert abs(made - true) < 0.12


def test_every_number_alone_has_the_law_that_its_bin_has():
    _, codes = correlated(0.7)
    places = places_together(SCHEMA, codes, SeededStream(3), "test")
    for name in "xy":
        for code in range(5):
            own = np.sort(places[name][codes[name] == code])
            even = (np.arange(len(own)) + 0.5) / len(own)
            assert np.abs(own - even).max() <= 0.5 / len(own) + 1e-12


def test_independent_numbers_stay_independent():
    _, codes = correlated(0.0)
    places = places_together(SCHEMA, codes, SeededStream(4), "test")
    assert abs(np.corrcoef(places["x"], places["y"])[0, 1]) < 0.03  # four standard deviations of a sample


def test_missing_values_and_tiny_tables():
    _, codes = correlated(0.7)
    codes["y"][::3] = 5
    places = places_together(SCHEMA, codes, SeededStream(5), "test")
    assert all(np.isfinite(one).all() and one.min() >= 0 and one.max() < 1 for one in places.values())
    for rows in (0, 1, 3):
        few = {name: one[:rows] for name, one in codes.items()}
        assert all(len(one) == rows for one in places_together(SCHEMA, few, SeededStream(6), "test").values())
    everybody_missing = {name: np.full(400, 5) for name in "xy"}
    assert len(places_together(SCHEMA, everybody_missing, SeededStream(7), "test")["x"]) == 400


def test_values_keep_their_codes_and_numbers_in_an_order_are_left_alone():
    _, codes = correlated(0.7)
    table = CodedTable(schema=SCHEMA, columns={name: one.astype(np.uint8) for name, one in codes.items()})
    made = decode(table, SeededStream(8), "test").to_pandas()
    for name in "xy":
        assert (np.searchsorted(EDGES, made[name], side="right") - 1 == codes[name]).all()
    whole = tuple(Attribute(name=name, edges=(0, 5, 9, 20, 40, 50), integer=True) for name in "xy")
    ordered = Schema(attributes=whole, rules=(Order(attributes=("x", "y")),))
    assert places_together(ordered, codes, SeededStream(9), "test") == {}
