"""A fine public grid between two bounds: what numbers are counted on before their bins are found.

Nothing here is learned from data. Cells are of equal width, or of equal width on the scale of asinh(x / scale) where
amounts have long tails: about linear up to the scale, about logarithmic beyond it. Values that many may share (zero,
the ends of the range, what the schema names as ``spikes``) have a cell of their own, one step of the last digit wide.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

LARGEST_EDGE = 1e300  # the difference of two edges is then a finite number too
CELLS = 100  # between two bounds, besides the cells of single values
WHOLE = 150  # up to so many whole numbers, each is a cell
SMALL_PART = 10_000  # the default scale is the larger absolute bound divided by this
MOST_DECIMALS = 9
MOST_DAYS = 40_000
DIGITS = 6  # of the range, which numbers have if the schema does not state the decimals


def default_decimals(low: float, high: float, integer: bool) -> int:
    """Digits after the point that values are written with: two, or more where the range is narrow.

    >>> default_decimals(0, 500000, False), default_decimals(0, 0.01, False), default_decimals(0, 9, True)
    (2, 8, 0)
    """
    if integer:
        return 0
    return min(max(2, DIGITS - math.floor(math.log10(high - low))), MOST_DECIMALS)


def small_amount(low: float, high: float, scale: float | None) -> float:
    """The amount below which a grid with a long tail is about linear: what the schema says, or by its bounds."""
    return scale if scale is not None else low if low > 0 else max(abs(low), abs(high)) / SMALL_PART


def number_grid(
    low: float,
    high: float,
    *,
    decimals: int,
    heavy_tail: bool,
    scale: float | None,
    spikes: Iterable[float],
    cuts: Iterable[float],
    without_zero: bool = False,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The ends of the cells, and the cells of single values by where they begin.

    >>> number_grid(0, 1000, decimals=0, heavy_tail=True, scale=10, spikes=(), cuts=())[0][:6]
    (0, 1, 2, 3, 4, 5)
    """
    step = Fraction(1, 10**decimals)
    if decimals == 0 and high - low <= WHOLE and not heavy_tail:  # every whole number has a cell of its own
        return tuple(range(int(low), int(high) + 1)), ()
    if heavy_tail:
        least = small_amount(low, high, scale)
        places = np.linspace(math.asinh(low / least), math.asinh(high / least), CELLS + 1)
        with np.errstate(over="ignore"):
            ends = np.sinh(places) * least
    else:
        ends = np.linspace(low, high, CELLS + 1)
    inner = {_on_step(end, step) for end in ends[1:-1]}
    first, last = Fraction(low), Fraction(high)
    alone = {Fraction(spike) for spike in spikes}
    if low <= 0 < high and not without_zero:
        alone.add(Fraction(0))
    points = {spike + more for spike in alone for more in (0, step)} | {Fraction(cut) for cut in cuts}
    if last in alone:  # the last cell holds its upper end
        points.add(last - step)
    # A cell between two others that is no wider than a step would be a spike that nobody named.
    every = sorted({first, last} | points | {end for end in inner if all(abs(end - one) > step for one in alone)})
    kept = [end for end in every if first <= end <= last]
    single = sorted(one if one < last else last - step for one in alone)
    return tuple(_plain(end, decimals) for end in kept), tuple(_plain(one, decimals) for one in single)


def day_grid(first: datetime.date, last: datetime.date) -> tuple[datetime.date, ...]:
    """Every day, as the beginning of a cell; the last cell holds its end too, so it begins a day earlier."""
    days = (last - first).days
    return tuple(first + datetime.timedelta(days=day) for day in range(days + 1))


def _on_step(value: float, step: Fraction) -> Fraction:
    return Fraction(round(Fraction(float(value)) / step)) * step


def _plain(value: Fraction, decimals: int) -> float:
    return float(value) if decimals else int(value)
