"""Round edges that cover a range: what a person would write down who knows roughly how large the numbers get."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from fractions import Fraction

MOST_BINS = 10
MONTHS_OF_STEP = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
DAYS_OF_STEP = (1, 2, 5, 7, 14)


def round_edges(low: float, high: float, *, whole: bool) -> list[int | float]:
    """At most ten bins of one width, which is 1, 2 or 5 times a power of ten.

    >>> round_edges(17, 93, whole=True), round_edges(0.12, 0.48, whole=False)
    ([10, 20, 30, 40, 50, 60, 70, 80, 90, 100], [0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5])
    """
    first, last = Fraction(low), Fraction(high)
    for step in _steps(last - first or Fraction(max(abs(high), 1)) / 10, whole):
        start, stop = math.floor(first / step), math.ceil(last / step)
        if stop - start <= MOST_BINS:
            return [_number(number * step) for number in range(start, max(stop, start + 1) + 1)]
    raise AssertionError("the steps grow without end")


def skewed_edges(high: float, *, whole: bool) -> list[int | float]:
    """From zero on, each edge about twice the one before: for amounts of which most are far below the largest.

    >>> skewed_edges(16000, whole=True)
    [0, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000]
    """
    edges: list[Fraction] = []
    for step in _steps(Fraction(high) / 1000, whole):
        edges.append(step)
        if step >= high:
            break
    return [0, *map(_number, edges[-(MOST_BINS - 1) :])]


def round_dates(first: datetime.date, last: datetime.date) -> list[datetime.date]:
    """At most ten bins of whole years, months or days that cover both days.

    >>> [edge.isoformat() for edge in round_dates(datetime.date(1931, 5, 2), datetime.date(2003, 12, 31))][::4]
    ['1930-01-01', '1970-01-01', '2010-01-01']
    """
    days = (last - first).days
    if days < 60 and last.year < 9999:
        step = next(step for step in DAYS_OF_STEP if days < step * MOST_BINS)
        ends = first + datetime.timedelta(days=(days // step + 1) * step)
        return [first + datetime.timedelta(days=number) for number in range(0, (ends - first).days + 1, step)]
    start, stop = first.year * 12 + first.month - 1, last.year * 12 + last.month  # months since the year 0
    for months in MONTHS_OF_STEP:
        numbers = range(start // months, -(-stop // months) + 1)
        if len(numbers) - 1 <= MOST_BINS:
            return [_month(number * months) for number in numbers]
    return [datetime.date.min, datetime.date.max]


def _month(months: int) -> datetime.date:
    year, month = divmod(months, 12)
    if year < 1:
        return datetime.date.min
    return datetime.date(year, month + 1, 1) if year <= 9999 else datetime.date.max


def _steps(span: Fraction, whole: bool) -> Iterator[Fraction]:
    """1, 2, 5, 10, 20, ... and the tenths, beginning far below the span."""
    power = math.floor(math.log10(span)) - 2
    while True:
        for digit in (1, 2, 5):
            step = digit * Fraction(10) ** power
            if not whole or step >= 1:
                yield step
        power += 1


def _number(value: Fraction) -> int | float:
    """A whole number as such, while a double still tells it from its neighbours."""
    return int(value) if value.denominator == 1 and abs(value) <= 2**53 else float(value)
