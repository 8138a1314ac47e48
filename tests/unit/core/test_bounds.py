"""Attributes with bounds and no edges: the fine grid, what may be said, and what is refused."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from understudy import Attribute, Condition, Impossible, Schema
from understudy.core.schema_file import parse_schema, write_schema
from understudy.errors import SchemaError
from understudy.models.found_bins import find_bins, number_of_bins

INCOME = Attribute(name="income", bounds=(0, 500_000), heavy_tail=True, spikes=(12_000,), missing=True)


def test_zero_and_spikes_are_cells_of_their_own():
    starts = list(INCOME.edges)
    for value in (0, 12_000):
        place = starts.index(value)
        assert starts[place + 1] == value + 0.01
    assert INCOME.single_values == (0, 12_000)
    assert INCOME.open
    assert INCOME.kind == "numeric"


def test_the_grid_is_fine_where_amounts_are_small():
    widths = np.diff(np.array(INCOME.edges))
    assert widths[widths > 0.02][0] < 10
    assert widths[-1] > 10_000


def test_every_whole_number_of_a_short_range_is_a_cell():
    """Also the largest: the last cell is closed, so it ends where it begins."""
    assert Attribute(name="age", bounds=(0, 110), integer=True).edges == (*range(111), 110)
    assert Attribute(name="children", bounds=(0, 5), integer=True).bins == 6


def test_hours_of_a_week_days_of_a_year_and_marks_with_a_digit_have_a_cell_for_each_value():
    for bounds, more, cells in (((0, 168), {}, 169), ((1, 366), {}, 366), ((0, 168), {"heavy_tail": True}, 169)):
        assert Attribute(name="x", bounds=bounds, integer=True, **more).bins == cells
    assert Attribute(name="mark", bounds=(1, 5), decimals=1).edges[:3] == (1, 1.1, 1.2)
    week = Attribute(name="hours", bounds=(0, 168), integer=True, spikes=(40,))
    found = find_bins(week, np.ones(week.bins), number_of_bins(week, 8))
    assert {40, 41} <= set(found.edges)


def test_special_codes_among_the_numbers_have_no_cell_of_their_own():
    """No number could be drawn there. The cells near zero are one value wide, and so are those of short ranges."""
    amounts = Attribute(name="x", bounds=(-1000, 10**6), decimals=0, heavy_tail=True, special={-8: "no", -9: "no idea"})
    ages = Attribute(name="age", bounds=(0, 110), integer=True, special={99: "unknown", 98: "refused"})
    for one, codes, beside in ((amounts, (-8, -9), (-10, -7)), (ages, (98, 99), (97, 100))):
        assert not set(codes) & set(one.edges)
        assert set(beside) & set(one.edges)
    for wrong in (
        {"bounds": (0, 3), "special": {code: str(code) for code in range(4)}},
        {"bounds": (0, 110), "special": {99: "unknown"}, "spikes": (99,)},
    ):
        with pytest.raises(SchemaError, match="special code"):
            Attribute(name="x", integer=True, **wrong)


def test_without_a_long_tail_cells_are_even_but_near_zero():
    edges = np.array(Attribute(name="x", bounds=(-1000, 100_000)).edges)
    widths = np.diff(edges)
    assert widths.max() == pytest.approx(1010, abs=0.01)
    assert (widths[edges[:-1] > 10_100] > 1009).all()
    assert len(edges[(edges > 0) & (edges < 100)]) > 30
    assert np.allclose(np.diff(Attribute(name="pressure", bounds=(900, 1100)).edges), 2)
    assert Attribute(name="year", bounds=(1500, 2030), heavy_tail=True).bins == 100


def test_a_schema_with_bounds_comes_back_from_its_file_with_what_was_found():
    schema = Schema(
        attributes=(INCOME, Attribute(name="day", bounds=(datetime.date(2024, 1, 1), datetime.date(2025, 12, 31)))),
        impossible=(
            Impossible(
                conditions=(("income", Condition(above=100_000)), ("day", Condition(below=datetime.date(2024, 3, 1))))
            ),
        ),
    )
    assert schema["income"].cuts == (100_000,)
    assert parse_schema(write_schema(schema)).fingerprint == schema.fingerprint
    found = Schema(
        attributes=tuple(find_bins(one, np.ones(one.bins), number_of_bins(one, 8)) for one in schema.attributes),
        impossible=schema.impossible,
    )
    assert 100_000 in found["income"].edges
    assert datetime.date(2024, 3, 1) in found["day"].edges
    again = parse_schema(write_schema(found))
    assert again.fingerprint == found.fingerprint != schema.fingerprint
    assert again.declared.fingerprint == schema.fingerprint


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"bounds": (500, 0)}, "lowest possible value and then a higher one"),
        ({"bounds": (0, 0)}, "lowest possible value and then a higher one"),
        ({"bounds": (0, float("inf"))}, "must be finite"),
        ({"bounds": (0, float("nan"))}, "must be finite"),
        ({"bounds": (0, 1e308)}, "must be finite, between"),
        ({"bounds": (0, 10**400)}, "must be finite, between"),
        ({"bounds": (0, 5e-324)}, "decimals"),
        ({"bounds": (0, 100), "spikes": (200,)}, "must lie within the bounds"),
        ({"bounds": (0, 100), "spikes": ("x",)}, "of the kind of the bounds"),
        ({"bounds": (0, 100), "cuts": (-1,)}, "must lie within the bounds"),
        ({"bounds": (0, 100), "edges": (0, 50, 100)}, "edges and bounds"),
        ({"bounds": (0, 100), "levels": ("a",)}, "levels and bounds"),
        ({"bounds": (0, 100), "density": "log"}, "leave density out"),
        ({"bounds": (0, 100), "scale": 5}, "heavy_tail"),
        ({"bounds": (0, 100), "heavy_tail": True, "scale": -5}, "positive number"),
        ({"bounds": (0, 100), "decimals": 99}, "decimals"),
        ({"bounds": (0.5, 100), "integer": True}, "whole-number bounds"),
        ({"bounds": (0,)}, "two numbers or two dates"),
        ({"bounds": ("a", "b")}, "two numbers or two dates"),
        ({"edges": (0, 1), "heavy_tail": True}, "go with bounds"),
        ({"levels": ("a",), "spikes": (1,)}, "go with bounds"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_is_refused(fields, said):
    with pytest.raises(SchemaError, match=said):
        Attribute(name="x", **fields)
