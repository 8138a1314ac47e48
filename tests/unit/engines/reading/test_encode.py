"""Codes from values: binning against exact arithmetic, and text against typed columns."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.core.schema import Attribute, Schema, level_text
from understudy.core.structural_zeros import Condition, Impossible
from understudy.engines.reading.encode import Encoder, encode_table
from understudy.engines.reading.violations import Violations
from understudy.errors import SchemaError

MARKER = "ZQ7secret"
LARGE = 2**53
numbers = st.integers(-12, 12) | st.integers(-LARGE, LARGE) | st.floats(-1e20, 1e20) | st.sampled_from([0.1, 0.3, 2.5])
edges_of = st.lists(numbers, min_size=2, max_size=6, unique_by=lambda v: v or 0).map(sorted)


def exact_code(edges, value):
    """The code of a value by rational arithmetic, or None outside."""
    value, bounds = Fraction(value), [Fraction(edge) for edge in edges]
    if value == bounds[-1]:
        return len(edges) - 2
    if not bounds[0] <= value < bounds[-1]:
        return None
    return next(i for i, bound in enumerate(bounds[1:]) if value < bound)


def codes_of(attribute, array):
    table = pa.table({attribute.name: array})
    return encode_table(table, Schema(attributes=(attribute,))).columns[attribute.name].tolist()


@given(edges_of, st.data())
@settings(max_examples=200, deadline=None)
def test_bins_are_exact_for_integers_floats_and_text(edges, data):
    near = [v + d for v in edges for d in (-1, 0, 1)]
    whole = data.draw(st.lists(st.sampled_from([int(v) for v in near]) | st.integers(-(2**63), 2**63 - 1), max_size=8))
    whole = [value for value in whole if -(2**63) <= value < 2**63]
    real = [float(v) for v in near]
    real += [float(np.nextafter(v, direction)) for v in real for direction in (-np.inf, np.inf)]
    attribute = Attribute(name="x", edges=tuple(edges), outside="missing", missing=True)

    def expected(values):
        codes = [exact_code(edges, value) for value in values]
        return [attribute.missing_code if code is None else code for code in codes]

    assert codes_of(attribute, pa.array(whole, pa.int64())) == expected(whole)
    assert codes_of(attribute, pa.array(real, pa.float64())) == expected(real)
    assert codes_of(attribute, pa.array([repr(v) for v in real], pa.string())) == expected(real)


@pytest.mark.parametrize(
    "edges", [(-LARGE, 1e20), (-2e20, -1e20), (1e20, 2e20), (-1e20, 0, 1e20), (-float(2**63), float(2**63))]
)
def test_whole_numbers_are_not_rounded_where_an_edge_is_beyond_64_bits(edges):
    values = [-(2**63), -LARGE - 1, -LARGE, 0, LARGE + 1, 2**63 - 1]
    attribute = Attribute(name="x", edges=edges, outside="missing", missing=True)
    codes = [exact_code(edges, value) for value in values]
    expected = [attribute.missing_code if code is None else code for code in codes]
    assert codes_of(attribute, pa.array(values, pa.int64())) == expected


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint64(), pa.float32(), pa.float16()]
)
def test_every_width_of_numbers(kind):
    assert codes_of(Attribute(name="x", edges=(0, 5, 10)), pa.array([0, 5, 10]).cast(kind)) == [0, 1, 1]
    assert codes_of(Attribute(name="x", levels=(10, 0, 5)), pa.array([0, 5, 10]).cast(kind)) == [1, 2, 0]


def test_numbers_beyond_64_bits_keep_their_place():
    huge = pa.array([2**64 - 1, 2**63, 5], pa.uint64())
    assert codes_of(Attribute(name="x", edges=(0, 1e19, 1e20)), huge) == [1, 0, 0]
    assert codes_of(Attribute(name="x", edges=(0, 10), outside="missing", missing=True), huge) == [1, 1, 0]
    text = pa.array(["1e999", "-1e999", "1e-999"])
    assert codes_of(Attribute(name="x", edges=(0, 1, 2), outside="clip"), text) == [1, 0, 0]


@given(st.lists(st.sampled_from(["a", "b", "", "01", "1", None]), max_size=30))
@settings(max_examples=60, deadline=None)
def test_dictionaries_and_plain_text_read_the_same(values):
    attribute = Attribute(name="x", levels=("1", "01", "", "b", "a"), missing=True)
    plain = pa.array(values, pa.string())
    expected = [5 if v is None else attribute.levels.index(v) for v in values]
    for array in (plain, plain.cast(pa.large_string()), plain.cast(pa.string_view()), plain.dictionary_encode()):
        assert codes_of(attribute, array) == expected


@given(st.lists(st.sampled_from([0, 1, 7, -3, None]), max_size=20))
@settings(max_examples=40, deadline=None)
def test_whole_levels_read_the_same_from_every_type(values):
    attribute = Attribute(name="x", levels=(7, 0, -3, 1), missing=True)
    expected = [4 if v is None else attribute.levels.index(v) for v in values]
    array = pa.array(values, pa.int64())
    decimals = pa.array(
        [None if v is None else Decimal(v).quantize(Decimal("0.01")) for v in values], pa.decimal128(9, 2)
    )
    for typed in (array, array.cast(pa.float64()), array.cast(pa.string()), decimals, array.dictionary_encode()):
        assert codes_of(attribute, typed) == expected


@given(
    st.lists(st.dates() | st.none(), max_size=10), st.lists(st.dates(), min_size=2, max_size=4, unique=True).map(sorted)
)
@settings(max_examples=60, deadline=None)
def test_dates_read_the_same_as_text_and_typed(values, edges):
    attribute = Attribute(name="x", edges=tuple(edges), outside="missing", missing=True)
    day = [None if v is None else v.toordinal() for v in values]
    codes = [None if d is None else exact_code([e.toordinal() for e in edges], d) for d in day]
    expected = [attribute.missing_code if code is None else code for code in codes]
    array = pa.array(values, pa.date32())
    text = pa.array([None if v is None else v.isoformat() for v in values], pa.string())
    noon = [None if v is None else datetime.datetime.combine(v, datetime.time(12, 30)) for v in values]
    for typed in (array, text, array.cast(pa.date64()), pa.array(noon, pa.timestamp("us")), array.dictionary_encode()):
        assert codes_of(attribute, typed) == expected


def test_special_codes_come_first():
    attribute = Attribute(name="x", edges=(-10, 0, 10), special=((-8, "a"), (0.5, "b"), (99, "c")))
    assert codes_of(attribute, pa.array([-8, -7, 99])) == [2, 0, 4]
    assert codes_of(attribute, pa.array(["-8", " -8.0", "0.5", "99", "10"])) == [2, 2, 3, 4, 1]
    born = Attribute(
        name="x",
        edges=(datetime.date(2000, 1, 1), datetime.date(2001, 1, 1)),
        special=((datetime.date(1900, 1, 1), "?"),),
    )
    assert codes_of(born, pa.array(["1900-01-01", "2001-01-01"])) == [1, 0]


def test_violations_are_counted_row_by_row_and_never_quoted():
    schema = Schema(
        attributes=(Attribute(name="s", levels=("F", "M")), Attribute(name="n", edges=(0, 9), integer=True)),
        impossible=(Impossible(conditions=(("s", Condition(levels=("F",))), ("n", Condition(below=9)))),),
    )
    encoder = Encoder(schema)
    batch = pa.record_batch({"s": [MARKER, MARKER, "M", None, "F", "M"], "n": ["1", "2", MARKER, "1.5", "3", "77"]})
    columns = encoder.encode(batch)
    encoder.encode(batch)
    assert all(len(codes) == 6 for codes in columns.values())
    with pytest.raises(SchemaError) as caught:
        encoder.violations.check()
    message = str(caught.value)
    for part in (
        "s: 4 rows with a level that is not listed",
        "s: 2 rows with a missing value",
        "n: 2 rows with a value that is not a number",
        "n: 2 rows with a value that is not a whole number",
        "n: 2 rows with a value outside the edges",
        "impossible (s in (F) and n below 9): 2 rows",
        'outside = "missing"',
        "missing = true",
    ):
        assert part in message
    assert MARKER not in message


def test_unused_dictionary_values_are_no_violation():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 0, 2]), pa.array(["F", MARKER, "M"]))
    assert codes_of(Attribute(name="x", levels=("F", "M")), array) == [0, 0, 1]


def test_no_violation_is_silent():
    violations = Violations()
    violations.add_value("x", -1, 0)
    violations.check()
    assert not violations


def test_codes_use_the_smallest_type():
    levels = tuple(f"L{i}" for i in range(300))
    array = pa.array(levels)
    schema = Schema(attributes=(Attribute(name="x", levels=levels), Attribute(name="y", levels=levels[:256])))
    table = encode_table(pa.table({"x": array[:256], "y": array[:256]}), schema)
    assert table.columns["x"].dtype == np.uint16
    assert table.columns["y"].dtype == np.uint8
    assert table.columns["x"].tolist() == list(range(256))


@pytest.mark.parametrize("level", [True, 3, "text", -5])
def test_the_canonical_text_is_matched(level):
    assert codes_of(Attribute(name="x", levels=(level,)), pa.array([level_text(level)])) == [0]


@pytest.mark.parametrize(
    "attribute",
    [
        Attribute(name="x", levels=("F", "M")),
        Attribute(name="x", edges=(0, 9)),
        Attribute(name="x", edges=(datetime.date(2000, 1, 1), datetime.date(2001, 1, 1))),
    ],
)
def test_text_that_is_not_utf8_is_refused_without_being_quoted(attribute):
    raw = pa.array([b"F", MARKER.encode() + b"\xff"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    for array in (text, pa.DictionaryArray.from_arrays(pa.array([0, 1]), text)):
        with pytest.raises(SchemaError, match="column 'x' cannot be read") as caught:
            codes_of(attribute, array)
        assert MARKER not in str(caught.value)
        assert caught.value.__suppress_context__


def test_an_unknown_time_zone_is_refused():
    times = pa.array([0], pa.timestamp("s", tz="Mars/Olympus"))
    with pytest.raises(SchemaError, match="time zone"):
        codes_of(Attribute(name="x", edges=(datetime.date(1970, 1, 1), datetime.date(1971, 1, 1))), times)


def test_whole_number_levels_are_also_written_as_data_frames_with_gaps_write_them():
    score = Attribute(name="score", levels=(-1, 0, 2), missing=True)
    assert codes_of(score, pa.array(["2.0", "2", "-1.0", None, "0.0"])) == [2, 2, 0, 3, 1]
    with pytest.raises(SchemaError):
        codes_of(score, pa.array(["2.5"]))
    with pytest.raises(SchemaError):
        codes_of(Attribute(name="score", levels=("-1", "0", "2")), pa.array(["2.0"]))
