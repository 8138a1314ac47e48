"""Round edges cover the range with few bins, whatever the range."""

from __future__ import annotations

import datetime
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from understudy.core.schema import Attribute
from understudy.engines.reading.drafted_edges import (
    MOST_BINS,
    largest_share,
    round_dates,
    round_edges,
    rounded_down,
    spread_edges,
)

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


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200), st.booleans())
def test_amounts_of_any_spread(amounts, whole):
    numbers = amounts if whole else [amount / 7 for amount in amounts]
    spread = Counter(map(rounded_down, numbers))
    if min(numbers) < max(numbers):
        check(spread_edges(spread, min(numbers), max(numbers), whole=whole), min(numbers), max(numbers), whole)


def test_no_bin_holds_nearly_all_of_a_skewed_column():
    amounts = np.exp(np.random.default_rng(3).normal(10, 1.2, 20_000)).round()
    for zeros in (0, 9_000):
        numbers = np.where(np.arange(20_000) < zeros, 0, amounts)
        spread = Counter(map(rounded_down, numbers.tolist()))
        edges = spread_edges(spread, numbers.min(), numbers.max(), whole=True)
        shares = np.histogram(numbers, edges)[0] / 20_000
        assert shares[1 if zeros else 0 :].max() < 0.3  # zeros have a bin of their own
        assert largest_share(spread, round_edges(numbers.min(), numbers.max(), whole=True)) > 0.8  # equal widths fail


@given(st.dates(), st.dates())
def test_dates(one, other):
    first, last = sorted((one, other))
    edges = round_dates(first, last)
    check(edges, first, last, False)


@given(st.dates(min_value=datetime.date(1900, 1, 1)), st.integers(0, 70))
def test_days(first, span):
    last = min(first, datetime.date(9999, 10, 1)) + datetime.timedelta(days=span)
    check(round_dates(min(first, last), last), min(first, last), last, False)
