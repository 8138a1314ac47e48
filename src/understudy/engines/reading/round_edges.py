"""Round edges that cover a range: what a person would write down who knows roughly how large the numbers get."""

from __future__ import annotations

import datetime
import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

MOST_BINS = 10
# Shares of the rows at which amounts are divided: about as many rows in each bin, but for the few that are very large.
CUTS = (1 / 7, 2 / 7, 3 / 7, 4 / 7, 5 / 7, 6 / 7, 0.95, 0.99)
BELOW_ZERO = (0.01, 0.05)  # where amounts can be negative, the lowest are as few as the highest
ROUND = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80)  # first two digits of a round number
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
            edges = [_number(number * step) for number in range(start, max(stop, start + 1) + 1)]
            if len({*edges}) == len(edges):  # steps can be finer than what numbers of a computer tell apart
                return edges
    raise AssertionError("the steps grow without end")


def spread_edges(
    spread: Mapping[float, int],
    low: float,
    high: float,
    *,
    whole: bool,
    spikes: Sequence[float] = (),
    smallest: float | None = None,
) -> list[int | float]:
    """Round edges with about as many rows in each bin, for amounts of which most are far below the largest.

    ``spread`` gives rows by (rounded) value. The largest values get narrower shares, because their bins are the widest.
    ``spikes`` are values that very many rows have; a whole number, and zero, then get a bin of their own. ``smallest``
    is the smallest positive number with as many decimals as there are.

    >>> spread_edges({0: 40, 800: 10, 1200: 20, 2100: 20, 9000: 9, 150_000: 1}, 0, 150_000, whole=True, spikes=[0])
    [0, 1, 1200, 2000, 8000, 150000]
    """
    found: set[int | float] = set()
    for spike in spikes:
        if whole:
            found |= {int(spike), int(spike) + 1}
        elif not spike and high > 0:
            found |= {
                0,
                *(() if smallest is None else (smallest,)),
                _round(min((value for value in spread if value > 0), default=high), up=False, whole=False),
            }
    alone = {max((value for value in spread if value <= spike), default=spike) for spike in spikes} if found else set()
    rows = sorted((value, count) for value, count in spread.items() if value not in alone)
    total, seen = sum(count for _, count in rows), 0
    cuts = (*BELOW_ZERO, *CUTS) if low < 0 else CUTS
    for value, count in rows:
        if seen and any(seen < cut * total <= seen + count for cut in cuts):
            found.add(_round(value, up=None, whole=whole))
        seen += count
    start = 0 if 0 <= low < 0.1 * high else _round(low, up=False, whole=whole)
    stop = _round(high, up=True, whole=whole)
    return [start, *sorted(edge for edge in found if start < edge < stop), stop]


def largest_share(spread: Mapping[float, int], edges: Sequence[float]) -> float:
    """The share of the fullest bin among those that hold more than one value, of the rows in ``spread``."""
    rows: dict[int, list[int]] = {}
    for value, count in spread.items():
        place = min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)
        rows.setdefault(place, []).append(count)
    total = sum(spread.values())
    return max((sum(counts) / total for counts in rows.values() if len(counts) > 1), default=0.0)


def misplaced(spread: Mapping[float, int], edges: Sequence[float]) -> float:
    """How far a value moves on average if it is drawn uniformly from its bin: the earth mover's distance.

    >>> misplaced({1: 10, 9: 10}, [0, 10]), misplaced({1: 10, 9: 10}, [0, 2, 8, 10])
    (1.5, 0.0)
    """
    rows: dict[int, list[tuple[float, int]]] = {}
    for value, count in spread.items():
        place = min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)
        rows.setdefault(place, []).append((value, count))
    moved, total = 0.0, sum(spread.values())
    for place, found in rows.items():
        low, high = edges[place], edges[place + 1]
        inside, seen = sum(count for _, count in found), 0.0
        for value, count in sorted(found):
            middle = low + (high - low) * (seen + count / 2) / inside
            moved += count * abs(value - middle)
            seen += count
    return moved / max(total, 1)


def _round(number: float, *, up: bool | None, whole: bool) -> int | float:
    """The nearest round number, or the next one up or down."""
    if not number:
        return 0
    if number < 0:
        return -_round(-number, up=None if up is None else not up, whole=whole)
    power = Fraction(10) ** math.floor(math.log10(number))
    choices = [step * power for step in (*(Fraction(digit, 10) for digit in ROUND), Fraction(10), Fraction(12))]
    if whole:
        choices = sorted({Fraction(round(choice)) for choice in choices if choice >= 1} | {Fraction(0)})
    exact = Fraction(number)
    if up is None:
        return _number(min(choices, key=lambda choice: abs(choice - exact)))
    if up:
        return _number(next(choice for choice in choices if choice >= exact))
    return _number(max(choice for choice in [Fraction(0), *choices] if choice <= exact))


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
