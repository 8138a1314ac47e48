"""Whole numbers looked up in a span, and dictionaries remembered: the same codes as by a search for distinct values."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.core.schema import Attribute, Schema
from understudy.engines.reading.encode import FEW_BOUNDS, SPAN, Encoder, _last_not_above
from understudy.errors import SchemaError

KINDS = {
    pa.int8(): (-128, 127),
    pa.uint8(): (0, 255),
    pa.int16(): (-(2**15), 2**15 - 1),
    pa.int64(): (-(2**63), 2**63 - 1),
}
KINDS |= {pa.uint16(): (0, 2**16 - 1), pa.uint32(): (0, 2**32 - 1), pa.uint64(): (0, 2**64 - 1)}


def encoded(attribute, arrays):
    """Codes of several batches by one encoder, and what it found wrong."""
    encoder = Encoder(Schema(attributes=(attribute,)))
    codes = [encoder.encode(pa.record_batch({"x": array}))["x"] for array in arrays]
    try:
        encoder.violations.check()
    except SchemaError as problem:
        return [part.tolist() for part in codes], {part.dtype for part in codes}, str(problem)
    return [part.tolist() for part in codes], {part.dtype for part in codes}, ""


def attributes(low, high):
    levels = st.lists(st.integers(max(low, -(2**63)), min(high, 2**63 - 1)), min_size=1, max_size=6, unique=True)
    near = st.integers(max(low, -300), min(high, 300))
    edges = st.lists(near, min_size=2, max_size=5, unique=True).map(sorted)
    return st.one_of(
        st.builds(lambda v, m: Attribute(name="x", levels=tuple(v), missing=m), levels, st.booleans()),
        st.builds(
            lambda a, n, m: Attribute(name="x", levels=tuple(range(a, a + n)), missing=m),
            st.integers(max(low, -20), 20),
            st.integers(1, 100),
            st.booleans(),
        ),
        st.builds(
            lambda e, o: Attribute(name="x", edges=tuple(e), outside=o), edges, st.sampled_from(["clip", "error"])
        ),
        st.builds(lambda e, c: Attribute(name="x", edges=tuple(e), special=((c, "?"),), missing=True), edges, near),
    )


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_integers_of_every_width_are_coded_as_if_their_distinct_values_were_listed(data):
    kind = data.draw(st.sampled_from(list(KINDS)))
    low, high = KINDS[kind]
    attribute = data.draw(attributes(low, high))
    public = attribute.levels or attribute.edges
    values = st.one_of(
        st.sampled_from([v for v in public if low <= v <= high] or [low]),
        st.integers(max(low, -130), min(high, 130)),
        st.integers(low, high),
        st.sampled_from([low, high]),
        st.none(),
    )
    batches = data.draw(st.lists(st.lists(values, max_size=8), min_size=1, max_size=4))
    arrays = [pa.array(batch, kind) for batch in batches]
    assert encoded(attribute, arrays) == encoded(attribute, [array.dictionary_encode() for array in arrays])


@given(st.lists(st.lists(st.booleans() | st.none(), max_size=5), min_size=1, max_size=3), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_booleans(batches, missing, turned):
    attribute = Attribute(name="x", levels=(True, False) if turned else (False, True), missing=missing)
    arrays = [pa.array(batch, pa.bool_()) for batch in batches]
    assert encoded(attribute, arrays) == encoded(attribute, [array.dictionary_encode() for array in arrays])


@given(st.lists(st.lists(st.dates(datetime.date(1999, 1, 1), datetime.date(2002, 1, 1)) | st.none(), max_size=5)))
@settings(max_examples=60, deadline=None)
def test_days(batches):
    edges = (datetime.date(2000, 1, 1), datetime.date(2000, 6, 1), datetime.date(2001, 1, 1))
    arrays = [pa.array(batch, pa.date32()) for batch in batches]
    for attribute in (
        Attribute(name="x", edges=edges, outside="missing", missing=True),
        Attribute(name="x", levels=("2000-01-01", "2001-05-05"), missing=True),
    ):
        assert encoded(attribute, arrays) == encoded(attribute, [array.dictionary_encode() for array in arrays])


def test_a_span_grows_with_the_batches_and_starts_anew_when_it_would_grow_too_far():
    attribute = Attribute(name="x", levels=(0, 10, SPAN - 1, 2 * SPAN), missing=True, outside="missing")
    rows = np.zeros(2 * SPAN, np.int64)
    rows[:2] = SPAN - 1, 10
    arrays = [
        pa.array([0, 10, 9]),
        pa.array([-3, 0]),
        pa.array(rows),
        pa.array([2 * SPAN, 2 * SPAN - 7]),
        pa.array([0]),
    ]
    codes, _, problem = encoded(attribute, arrays)
    assert codes[:2] == [[0, 1, 4], [4, 0]]
    assert codes[2][:3] == [2, 1, 0]
    assert codes[3:] == [[3, 4], [0]]
    assert not problem


def test_null_slots_may_hold_any_bytes():
    """Under a null the buffer may hold a number far outside the span."""
    array = pa.Array.from_buffers(
        pa.int64(), 3, [pa.py_buffer(bytes([0b101])), pa.py_buffer(np.array([1, 2**60, 2], np.int64))]
    )
    codes, _, problem = encoded(Attribute(name="x", levels=(1, 2), missing=True), [array])
    assert (codes, problem) == ([[0, 2, 1]], "")


def test_levels_in_order_need_no_table_and_wrap_correctly():
    attribute = Attribute(name="x", levels=tuple(range(-100, 156)))
    values = np.arange(-100, 156)
    codes, kinds, problem = encoded(attribute, [pa.array(values), pa.array(values[::-1])])
    assert codes == [list(range(256)), list(range(255, -1, -1))]
    assert kinds == {np.dtype(np.uint8)}
    assert not problem
    codes, kinds, _ = encoded(
        Attribute(name="x", levels=tuple(range(1000, 1300))), [pa.array([1000, 1299], pa.int16())]
    )
    assert (codes, kinds) == ([[0, 299]], {np.dtype(np.uint16)})


def test_a_changed_dictionary_is_looked_up_again():
    attribute = Attribute(name="x", levels=("a", "b", "c"), missing=True)
    indices = pa.array([0, 1, None], pa.int32())
    arrays = [pa.DictionaryArray.from_arrays(indices, pa.array(pair)) for pair in (["a", "b"], ["a", "b"], ["c", "a"])]
    assert encoded(attribute, arrays)[0] == [[0, 1, 3], [0, 1, 3], [2, 0, 3]]


@pytest.mark.parametrize("count", [1, 2, FEW_BOUNDS, FEW_BOUNDS + 1, 200])
def test_few_bounds_and_many_are_searched_alike(count):
    bounds = np.cumsum(np.random.default_rng(count).random(count) + 0.1)
    values = np.concatenate([bounds, bounds - 1e-9, bounds + 1e-9, [np.nan, np.inf, -np.inf, 0.0]])
    np.testing.assert_array_equal(_last_not_above(bounds, values), np.searchsorted(bounds, values, side="right") - 1)


def test_batches_may_differ_in_type():
    """Files read together need not agree: the integer 1 is not the boolean true, whatever was looked up before."""
    attribute = Attribute(name="x", levels=(False, True), missing=True, outside="missing")
    codes, _, problem = encoded(attribute, [pa.array([True, False]), pa.array([1, 0]), pa.array([False, True])])
    assert (codes, problem) == ([[1, 0], [2, 2], [0, 1]], "")
