"""Round edges that cover what a column holds: what a person would write who knows roughly how large the numbers get.

For the draft of a schema and nothing else.
"""

from __future__ import annotations

import datetime
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

MOST_BINS = 10
# Shares of the rows at which amounts are divided: about as many rows in each bin, but for the few that are very large.
CUTS = (1 / 7, 2 / 7, 3 / 7, 4 / 7, 5 / 7, 6 / 7, 0.95, 0.99)
BELOW_ZERO = (0.01, 0.05)  # where amounts can be negative, the lowest are as few as the highest
FAR = 3.5  # times as far from the middle as 95 of 100 values
ROUNDED, FINE = 0.3, 25  # by how much of the way to the next edge an edge is moved; parts of a bin that is divided
MOST_MOVED, MOST_DIVISIONS = 0.05, 4  # of a standard deviation, by which one bin may move the mean; edges added for it
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


def far_above(spread: Mapping[float, int], high: float) -> bool:
    """Whether some values lie far above nearly all others, as large amounts do; years of school and scores do not.

    >>> far_above({60: 5, 90: 45, 95: 45, 100: 5}, 100), far_above({0: 50, 10: 45, 400: 5}, 400)
    (False, True)
    """
    middle, most = _value_at(0.5, spread), _value_at(0.95, spread)
    return high - middle > FAR * (most - middle)


def far_below(spread: Mapping[float, int], low: float) -> bool:
    """Whether some values lie far below nearly all others, as large losses do.

    >>> far_below({-900: 1, 4: 50, 8: 50}, -900)
    True
    """
    return far_above({-value: rows for value, rows in spread.items()}, -low)


def _value_at(share: float, spread: Mapping[float, int]) -> float:
    """The smallest value that at least a share of the rows do not exceed."""
    values = sorted(spread)
    return values[
        min(
            bisect_left(list(accumulate(spread[value] for value in values)), share * sum(spread.values())),
            len(values) - 1,
        )
    ]


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
    is the smallest positive number with as many decimals as there are. Edges are as round as their neighbours allow.

    >>> spread_edges({60: 5, 70: 6, 85: 10, 90: 30, 95: 30, 98: 19}, 60, 100, whole=True)
    [60, 70, 85, 90, 95, 98, 100]
    >>> spread_edges({0: 40, 800: 10, 1200: 20, 2100: 20, 9000: 9, 150_000: 1}, 0, 150_000, whole=True, spikes=[0])
    [0, 1, 1000, 2000, 10000, 150000]
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
    cuts = (*BELOW_ZERO, *CUTS) if low < 0 or far_below(spread, low) else CUTS
    values = []
    for value, count in rows:
        if seen and any(seen < cut * total <= seen + count for cut in cuts):
            values.append(value)
        seen += count
    for before, value, after in zip([low, *values], values, [*values[1:], high], strict=False):
        found.add(near(value, ROUNDED * min(value - before, after - value), whole=whole))
    evenly = round_edges(low, high, whole=whole)
    start = 0 if 0 <= low < 0.1 * high else max(_round(low, up=False, whole=whole), evenly[0])
    stop = min(_round(high, up=True, whole=whole), evenly[-1])
    return _divided([start, *sorted(edge for edge in found if start < edge < stop), stop], spread, whole=whole)


def _divided(edges: list[int | float], spread: Mapping[float, int], *, whole: bool) -> list[int | float]:
    """Edges with some more, where values drawn uniformly from a bin would move the mean: in a long, thin tail.

    >>> _divided([0, 1, 2, 50], {0: 800, 1: 180, 2: 12, 3: 5, 5: 2, 48: 1}, whole=True)
    [0, 1, 2, 4, 50]
    """
    total = sum(spread.values())
    mean = sum(value * rows for value, rows in spread.items()) / max(total, 1)
    sd = math.sqrt(sum(rows * (value - mean) ** 2 for value, rows in spread.items()) / max(total, 1))
    for _ in range(min(MOST_DIVISIONS, max(MOST_BINS + 1 - len(edges), 0))):
        moved = [_moved(spread, pair, whole=whole) / max(total, 1) for pair in pairwise(edges)]
        worst = max(range(len(moved)), key=moved.__getitem__)
        low, high = edges[worst], edges[worst + 1]
        inside = {near(value, (high - low) / FINE, whole=whole) for value in spread if low < value < high}
        inside = {edge for edge in inside if low < edge < high}
        if moved[worst] <= MOST_MOVED * sd or not inside:
            break
        best = min(
            sorted(inside),
            key=lambda edge: sum(_moved(spread, pair, whole=whole) for pair in ((low, edge), (edge, high))),
        )
        edges = [*edges[: worst + 1], best, *edges[worst + 1 :]]
    return edges


def _moved(spread: Mapping[float, int], ends: tuple[float, float], *, whole: bool) -> float:
    """How far the sum of the values of a bin moves if they are drawn uniformly from it."""
    low, high = ends
    inside = [(value, rows) for value, rows in spread.items() if low <= value < high]
    middle = (low + high - whole) / 2  # the last whole number of a bin is below its end
    return abs(sum(rows * (value - middle) for value, rows in inside))


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


def near(number: float, tolerance: float, *, whole: bool) -> int | float:
    """The roundest number that is hardly farther away than told.

    >>> near(1130, 120, whole=True), near(93.7, 0.4, whole=True), near(0.333, 0.01, whole=False)
    (1200, 94, 0.34)
    """
    exact, found = Fraction(number), Fraction(number)
    for step in _steps(Fraction(max(tolerance, abs(number) * 2.0**-40, 2.0**-900)), whole):
        if step > max(10 * tolerance, 1):
            break
        candidate = round(exact / step) * step
        if abs(candidate - exact) < tolerance or (whole and step == 1):
            found = candidate
    return _number(found)


def _round(number: float, *, up: bool, whole: bool) -> int | float:
    """The next round number up or down."""
    if not number:
        return 0
    if number < 0:
        return -_round(-number, up=not up, whole=whole)
    power = Fraction(10) ** math.floor(math.log10(number))
    choices = [step * power for step in (*(Fraction(digit, 10) for digit in ROUND), Fraction(10), Fraction(12))]
    if whole:
        choices = sorted({Fraction(round(choice)) for choice in choices if choice >= 1} | {Fraction(0)})
    exact = Fraction(number)
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


def rounded_down(number: float) -> float:
    """A number cut to six binary digits after the first: enough to choose round edges by.

    >>> rounded_down(1000), rounded_down(-3.3), rounded_down(0)
    (1000.0, -3.3125, 0.0)
    """
    if not number:
        return 0.0
    part, power = math.frexp(number)
    return math.ldexp(math.floor(part * 128) / 128, power)


def tail_offers(
    spread: Mapping[float, int], low: float, high: float, edges: Sequence[object], *, weight: bool
) -> list[str]:
    """What else can be written for amounts with a long tail: round bounds far outside, a density."""
    offers = []
    if not weight:  # its bins are found anyway
        least, most = [_round(10 * end, up=end > 0, whole=False) for end in (min(low, 0.0), max(high, 0.0))]
        lines = f"bounds = [{least}, {most}]\nheavy_tail = true"
        offers.append(f"or let a release find bins: replace edges by public bounds.\n{lines}")
    if low > 0 and edges[0] != 0:
        offers.append('density = "log" draws synthetic values inside a bin in proportion to 1/x.')
    elif low >= 0 and not spread.get(0.0):
        offers.append('if 0 is not possible, begin the edges above 0 and write density = "log".')
    return offers
