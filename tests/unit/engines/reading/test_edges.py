"""Round edges cover the range with few bins, whatever the range."""

from __future__ import annotations

import datetime

from hypothesis import given
from hypothesis import strategies as st

from understudy.core.schema import Attribute
from understudy.engines.reading.edges import MOST_BINS, round_dates, round_edges, skewed_edges

NUMBERS = st.floats(-1e12, 1e12, allow_nan=False, allow_infinity=False)


def check(edges, low, high, whole):
    attribute = Attribute(name="x", edges=tuple(edges), integer=whole)  # increasing, finite, whole where it must be
    assert edges[0] <= low
    assert high <= edges[-1]
    assert attribute.bins <= MOST_BINS


@given(NUMBERS, NUMBERS)
def test_real_numbers(one, other):
    low, high = sorted((one, other))
    check(round_edges(low, high, whole=False), low, high, False)


@given(st.integers(-(10**12), 10**12), st.integers(0, 10**6))
def test_whole_numbers(low, span):
    edges = round_edges(low, low + span, whole=True)
    check(edges, low, low + span, True)
    assert span < 10 or len(edges) > 4  # at least four bins once there is something to divide


@given(st.integers(1, 10**12))
def test_skewed_numbers(high):
    check(skewed_edges(high, whole=True), 0, high, True)
    check(skewed_edges(high / 7, whole=False), 0, high / 7, False)


@given(st.dates(), st.dates())
def test_dates(one, other):
    first, last = sorted((one, other))
    edges = round_dates(first, last)
    check(edges, first, last, False)


@given(st.dates(min_value=datetime.date(1900, 1, 1)), st.integers(0, 70))
def test_days(first, span):
    last = min(first, datetime.date(9999, 10, 1)) + datetime.timedelta(days=span)
    check(round_dates(min(first, last), last), min(first, last), last, False)
