"""A column as a form and back: nothing is lost, and what contradicts itself is refused by name."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.core.schema import Attribute
from understudy.errors import SchemaError
from understudy.studio.column_form import LEFT_OUT, Column, column_from, fields_of

DAY = datetime.date(2000, 1, 1)
ATTRIBUTES = (
    Attribute(name="a", levels=("F", "M"), level_labels=("female", "male"), missing=True, label="Sex"),
    Attribute(name="a", levels=(1, 2, 9), ordered=True),
    Attribute(name="a", levels=("01", "02")),
    Attribute(name="a", levels=(False, True)),
    Attribute(name="a", levels=("x | y", "z")),
    Attribute(name="a", levels=("n", "d"), tree=("health/n", "health/d")),
    Attribute(name="a", edges=(0, 10, 20), integer=True, special=((-8, "none"), ("N", "not asked")), outside="clip"),
    Attribute(name="a", edges=(0.5, 1.25, 2.0), decimals=2, density="log"),
    Attribute(name="a", edges=(DAY, DAY.replace(year=2010)), missing=True, outside="missing"),
    Attribute(name="a", bounds=(0, 1000), heavy_tail=True, integer=True, spikes=(450,), scale=10.0),
)


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=range(len(ATTRIBUTES)))
def test_a_form_that_nobody_changed_changes_nothing(attribute):
    column = Column(name="a", attribute=attribute)
    again = column_from(column, {key: text for key, text in fields_of(column).items() if text})
    assert again.attribute == attribute
    assert again.reviewed
    assert column.in_short


@given(
    st.lists(
        st.text("ab1 |-ß", min_size=1, max_size=6).map(str.strip).filter(bool), min_size=1, max_size=6, unique=True
    )
)
def test_any_values_survive_the_form(values):
    try:
        attribute = Attribute(name="a", levels=tuple(values))
    except SchemaError:
        return
    column = Column(name="a", attribute=attribute)
    assert column_from(column, fields_of(column)).attribute == attribute


def test_a_column_is_left_out_and_taken_back():
    column = Column(name="a", attribute=ATTRIBUTES[0])
    out = column_from(column, {"kind": LEFT_OUT})
    assert out.attribute is None
    assert out.in_short == "left out"
    back = column_from(out, {"kind": "numbers", "edges": "0, 5; 10", "missing": "yes"})
    assert back.attribute == Attribute(name="a", edges=(0, 5, 10), missing=True)


def test_edges_become_bounds_and_bounds_edges():
    column = Column(name="a", attribute=Attribute(name="a", edges=(1, 2, 3), density="log"))
    found = column_from(column, {"kind": "numbers", "found": "yes", "low": "0", "high": "100"})
    assert found.attribute.bounds == (0, 100)
    assert found.attribute.density == "uniform"
    again = column_from(found, {"kind": "numbers", "edges": "0, 50, 100"})
    assert again.attribute == Attribute(name="a", edges=(0, 50, 100))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"kind": "levels"},
        {"kind": "levels", "levels": "a\na"},
        {"kind": "numbers", "edges": "5"},
        {"kind": "numbers", "edges": "5, 4"},
        {"kind": "numbers", "edges": "5, many"},
        {"kind": "numbers", "edges": "0, 9", "decimals": "ten"},
        {"kind": "numbers", "found": "yes", "low": "1"},
        {"kind": "dates", "edges": "2000-01-01, 2010-13-01"},
        {"kind": "dates", "edges": "2000-01-01, 2010-01-01", "special": "N | none"},
        {"kind": "levels", "levels": "a\nb", "outside": "clip"},
    ],
)
def test_what_contradicts_itself_is_refused_by_name(fields):
    with pytest.raises(SchemaError, match="'a'"):
        column_from(Column(name="a", attribute=None), fields)
