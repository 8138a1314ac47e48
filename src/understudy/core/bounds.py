"""Attributes with bounds and no edges: what may be said of them, and the fine grid that bins are found on."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.errors import SchemaError

if TYPE_CHECKING:
    from understudy.core.schema import Attribute, Edge, Schema
    from understudy.core.structural_zeros import Condition

LARGEST_RATIO = 1e15  # of a bound to the scale of a grid; beyond, doubles do not tell its cells apart


def taken_bounds(attribute: Attribute) -> tuple[Edge, ...]:
    """The edges of an attribute with bounds, which are checked: those of its grid, unless others were found."""
    where = f"attribute '{attribute.name}'"
    if not attribute.bounds:
        found = attribute.found and not attribute.most_codes
        given = attribute.heavy_tail or found or attribute.scale is not None
        if given or attribute.measured_in or attribute.spikes or attribute.cuts or attribute.inside:
            raise SchemaError(f"{where}: heavy_tail, scale, measured_in, spikes and cuts go with bounds = [low, high].")
        return attribute.edges
    if attribute.levels:
        raise SchemaError(f"{where} has levels and bounds; bounds are for numbers and dates.")
    _checked_bounds(attribute, where)
    if attribute.density != "uniform":
        raise SchemaError(f"{where}: with bounds the density inside bins is found; leave density out.")
    if attribute.found:
        _check_found(attribute, where)
        return attribute.edges
    grid = grid_of(attribute)[0]
    _check_special(attribute, where, grid)
    if attribute.edges and attribute.edges != grid:
        raise SchemaError(f"{where} has edges and bounds; leave edges out, and bins are found inside the budget.")
    return grid


def _checked_bounds(attribute: Attribute, where: str) -> None:
    from understudy.core.schema import level_text

    dates = [isinstance(one, datetime.date) and not isinstance(one, datetime.datetime) for one in attribute.bounds]
    numbers = [isinstance(one, int | float) and not isinstance(one, bool) for one in attribute.bounds]
    if len(attribute.bounds) != 2 or not (all(dates) or all(numbers)):
        raise SchemaError(f"{where}: bounds must be two numbers or two dates, the lowest and the highest possible.")
    low, high = attribute.bounds
    if all(numbers) and not all(abs(one) <= LARGEST_EDGE for one in attribute.bounds):  # type: ignore[arg-type]
        raise SchemaError(
            f"{where}: bounds must be finite, between -{LARGEST_EDGE:g} and {LARGEST_EDGE:g}; give the public "
            "lowest and highest possible value."
        )
    if low >= high:  # type: ignore[operator]
        raise SchemaError(
            f"{where}: bounds ({level_text(low)}, {level_text(high)}) must be the lowest possible value and then a "
            "higher one."
        )
    if all(dates):
        numbers_only = (attribute.heavy_tail, attribute.integer, attribute.spikes, attribute.scale, attribute.decimals)
        if any(part not in (False, (), None) for part in numbers_only):
            raise SchemaError(f"{where}: heavy_tail, scale, decimals, spikes and integer are for numbers.")
        if (high - low).days > MOST_DAYS:  # type: ignore[operator, union-attr]
            raise SchemaError(f"{where}: bounds of dates may be at most {MOST_DAYS:,} days apart.")
    else:
        _check_amounts(attribute, where, float(low), float(high))  # type: ignore[arg-type]
    for part in ("spikes", "cuts"):
        for value in getattr(attribute, part):
            if isinstance(value, datetime.date) != all(dates) or isinstance(value, bool | str):
                raise SchemaError(f"{where}: {part} must be of the kind of the bounds.")
            if not low <= value <= high:
                raise SchemaError(f"{where}: {part} ({level_text(value)}) must lie within the bounds.")


def _check_amounts(attribute: Attribute, where: str, low: float, high: float) -> None:
    if attribute.integer and (low != int(low) or high != int(high)):
        raise SchemaError(f"{where}: integer = true needs whole-number bounds.")
    scale = attribute.scale
    if scale is not None and (
        isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale < high - low
    ):
        raise SchemaError(f"{where}: scale ({attribute.scale!r}) must be a positive number smaller than the range.")
    if attribute.scale is not None and not attribute.heavy_tail:
        raise SchemaError(f"{where}: scale goes with heavy_tail = true.")
    small = scale or (low if low > 0 else 0.0)  # below it the grid is about linear
    if attribute.heavy_tail and small and small < max(abs(low), abs(high)) / LARGEST_RATIO:
        raise SchemaError(
            f"{where}: with heavy_tail the scale (or a lowest value above 0) must be at least a {LARGEST_RATIO:g}th of "
            "the largest bound; give a larger scale."
        )
    step = 10.0**-attribute.digits
    if (not attribute.integer and (high - low) / step < 2) or low + step == low or high - step == high:
        raise SchemaError(
            f"{where}: {attribute.digits} decimals are too few or too many for these bounds; say how many (decimals)."
        )


def _check_special(attribute: Attribute, where: str, grid: tuple[Edge, ...]) -> None:
    """A special code may lie among the numbers, but must not fill a cell alone: then no number could be drawn there."""
    if any(isinstance(end, datetime.date) for end in grid):
        return
    ends: list[float] = [end for end in grid if isinstance(end, int | float)]
    codes = [code for code, _ in attribute.special if isinstance(code, int | float)]
    for place in range(len(ends) - 1):
        if codes and _only_special(ends, place, codes, 10.0**-attribute.digits):
            from understudy.core.schema import level_text

            code = next(one for one in codes if ends[place] <= one <= ends[place + 1])
            raise SchemaError(
                f"{where}: the special code {level_text(code)} lies within the bounds and is a cell of its own; "
                "let the bounds end before it, or take it out of spikes or special."
            )


def grid_of(attribute: Attribute) -> tuple[tuple[Edge, ...], tuple[Edge, ...]]:
    """The ends of the cells of the grid, and the beginnings of those that hold one value each."""
    low, high = attribute.bounds
    if isinstance(low, datetime.date) and isinstance(high, datetime.date):
        return day_grid(low, high), ()
    return number_grid(
        low, high, decimals=attribute.digits, heavy_tail=attribute.heavy_tail, scale=attribute.scale,
        spikes=tuple(attribute.spikes), cuts=tuple(attribute.cuts), integer=attribute.integer,
        special=tuple(code for code, _ in attribute.special if isinstance(code, int | float)),
    )  # fmt: skip


def _check_found(attribute: Attribute, where: str) -> None:
    grid = grid_of(attribute)[0]
    starts = tuple(start for start, _ in attribute.inside)
    shares = [share for _, share in attribute.inside]
    if not all(isinstance(share, int | float) and math.isfinite(share) and share >= 0 for share in shares):
        raise SchemaError(f"{where}: the shares inside found bins must be numbers of at least 0.")
    if attribute.edges[:1] != grid[:1] or attribute.edges[-1:] != grid[-1:] or not set(attribute.edges) <= set(grid):
        raise SchemaError(f"{where}: found edges must be some of its grid's, with the first and the last.")
    if starts != grid[:-1]:
        raise SchemaError(f"{where}: the cells inside found bins must be those of its grid.")


def canonical_bounds(attribute: Attribute) -> dict[str, object]:
    """What bounds say, for a fingerprint. The grid follows from it, and is part of ``edges``."""
    from understudy.core.schema import level_text

    plain: dict[str, object] = {
        "bounds": [level_text(one) for one in attribute.bounds],
        "heavy_tail": attribute.heavy_tail,
        "scale": None if attribute.scale is None else level_text(attribute.scale),
        "decimals": attribute.digits,
        "measured_in": attribute.measured_in,
        "spikes": [level_text(one) for one in attribute.spikes],
        "cuts": [level_text(one) for one in attribute.cuts],
    }
    if attribute.found:
        plain["found"] = [[level_text(start), repr(float(share))] for start, share in attribute.inside]
    return plain


def with_cuts(schema: Schema) -> tuple[Attribute, ...]:
    """A bin begins wherever a structural zero, a rule or a derived attribute draws a line.

    So a condition names any number, and no bin is half possible.
    """
    from understudy.core.rules import Asked

    ruled = [pair for rule in schema.impossible for pair in rule.conditions]
    ruled += [pair for rule in schema.rules if isinstance(rule, Asked) for pair in rule.conditions]
    told = _lines(ruled)
    derived = _lines([pair for one in schema.derived for case in one.cases for pair in case.when])
    for one in schema.derived:
        if one.edges:
            derived.setdefault(one.sources[0], set()).update(one.edges)
    return tuple(
        _cut(one, told.get(one.name, set()) | (derived.get(one.name, set()) if one.open else set()))
        for one in schema.attributes
    )


def _lines(conditions: Sequence[tuple[str, Condition]]) -> dict[str, set[Edge]]:
    """The numbers and dates at which conditions begin or end."""
    lines: dict[str, set[Edge]] = {}
    for name, condition in conditions:
        lines.setdefault(name, set()).update(
            one for one in (condition.below, condition.above) if one is not None and not isinstance(one, str | bool)
        )
    return lines


def _cut(attribute: Attribute, asked: set[Edge]) -> Attribute:
    if attribute.levels or attribute.found or not asked or (attribute.open and not attribute.bounds):
        return attribute
    low, high = attribute.bounds or (attribute.edges[0], attribute.edges[-1])
    kind = datetime.date if isinstance(low, datetime.date) else (int, float)
    inside = {one for one in asked if isinstance(one, kind) and low < one < high}  # type: ignore[operator]
    if not attribute.bounds:
        more = inside - set(attribute.edges)
        return replace(attribute, edges=tuple(sorted({*attribute.edges, *more}))) if more else attribute
    more = inside - set(attribute.cuts)
    return replace(attribute, cuts=tuple(sorted({*attribute.cuts, *more})), edges=()) if more else attribute


def joined_cells(cells: Attribute, found: Attribute) -> NDArray[np.int64]:
    """The bin of every cell, then the special codes and the missing value."""
    place = {edge: number for number, edge in enumerate(found.edges[:-1])}
    begins = np.array([edge in place for edge in cells.edges[:-1]])
    rest = np.arange(found.bins, found.size)
    return np.concatenate([np.cumsum(begins) - 1, rest]).astype(np.int64)


# A fine public grid between two bounds: what numbers are counted on before their bins are found.
#
# Nothing here is learned from data. With a long tail, cells are of equal width on the scale of asinh(x / small): about
# linear up to the small amount, about logarithmic beyond it. Without one they are of equal width, but near zero on that
# scale too, so that amounts much smaller than generous bounds have fine cells. Values that many may share (zero, and
# what the schema names as ``spikes``) have a cell of their own, one step of the last digit wide. If there are few
# values, each is a cell.


LARGEST_EDGE = 1e300  # the difference of two edges is then a finite number too
CELLS = 100  # between two bounds, where all are of equal width
WHOLE = 366  # up to so many whole numbers, each is a cell: hours of a week, days of a year
RELATIVE = 0.1  # of an amount: how wide cells near zero are
MOST_CELLS = 300  # that follow amounts, on one side of zero
SMALL_PART = 100_000  # the small amount, if nobody names one, is the larger absolute bound divided by this
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Spacing:
    """How wide the cells of a grid are."""

    small: float
    """An amount below which cells are of about equal width; beyond it they are the wider the larger the amount."""
    even: float
    """An amount from which on they are of equal width again. Infinite with a long tail, 0 if all are."""

    @property
    def long(self) -> bool:
        """Whether the grid follows amounts of very different size."""
        return self.even > 0


def spacing_between(low: float, high: float, *, heavy_tail: bool, scale: float | None = None) -> Spacing:
    """How wide the cells between two bounds are.

    Without a long tail they are a hundredth of the range wide, or a tenth of an amount where that is less.

    >>> spacing_between(900, 1100, heavy_tail=False).long, spacing_between(0, 10**6, heavy_tail=False).long
    (False, True)
    """
    least = max(abs(low), abs(high)) / SMALL_PART
    if heavy_tail:
        return Spacing(small=scale if scale is not None else low if low > 0 else least, even=math.inf)
    small, widest = max(low, -high, least), (high - low) / CELLS / RELATIVE
    return Spacing(small=small, even=widest if widest > 2 * small else 0.0)


def _cell_ends(low: float, high: float, spacing: Spacing) -> list[float]:
    """The ends of the cells, before single values are cells of their own."""
    if math.isinf(spacing.even):
        return _rising(low, high, spacing.small, CELLS)
    ends = np.linspace(low, high, CELLS + 1)
    found: list[float] = ends[np.abs(ends) >= spacing.even].tolist()
    if not spacing.long:
        return found
    for side in (1, -1):  # from the bound or zero to where cells of equal width begin
        first, last = sorted((side * low, side * high))
        last = min([side * end for end in found if side * end > 0], default=last)
        first = max(first, 0.0)
        if first < last:
            found += [side * end for end in _rising(first, last, spacing.small)]
    return found


def _rising(low: float, high: float, small: float, fewest: int = 1) -> list[float]:
    """The ends of cells of equal width on the scale of asinh(x / small)."""
    first, last = math.asinh(low / small), math.asinh(high / small)
    cells = max(math.ceil(min((last - first) / RELATIVE, MOST_CELLS)), fewest)
    with np.errstate(over="ignore"):
        ends = np.sinh(np.linspace(first, last, cells + 1)) * small
    found: list[float] = ends.tolist()
    return found


@lru_cache(maxsize=256, typed=True)  # asked for again whenever an attribute is checked or copied
def number_grid(
    low: float,
    high: float,
    *,
    decimals: int,
    heavy_tail: bool,
    scale: float | None,
    spikes: tuple[float, ...],
    cuts: tuple[float, ...],
    integer: bool = False,
    special: tuple[float, ...] = (),
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The ends of the cells, and the cells of single values by where they begin.

    The last cell is closed on both sides. Of whole numbers it can be the largest alone: then its two ends are equal. A
    ``special`` code among the numbers has no cell of its own, because no number could be drawn there.

    >>> number_grid(0, 1000, decimals=0, heavy_tail=True, scale=10, spikes=(), cuts=())[0][:6]
    (0, 1, 2, 3, 4, 5)
    >>> number_grid(0, 3, decimals=0, heavy_tail=False, scale=None, spikes=(), cuts=(), integer=True)[0]
    (0, 1, 2, 3, 3)
    >>> number_grid(0, 5, decimals=0, heavy_tail=False, scale=None, spikes=(), cuts=(), integer=True, special=(3,))[0]
    (0, 1, 2, 4, 5, 5)
    """
    step = Fraction(1, 10**decimals)
    if (high - low) / float(step) <= WHOLE and all(_is_on(end, step) for end in (low, high)):
        places = range(round(Fraction(low) / step), round(Fraction(high) / step) + 1)
        listed = [_plain(place * step, decimals) for place in places]
        alone_too = tuple(one for one in spikes if integer or one < high)
        wanted = {*cuts, *(_plain(Fraction(one) + more, decimals) for one in spikes for more in (0, step))}
        return _without(listed + listed[-1:] * integer, special, wanted, float(step)), alone_too
    ends = _cell_ends(low, high, spacing_between(low, high, heavy_tail=heavy_tail, scale=scale))
    first, last = Fraction(low), Fraction(high)
    inner = {one for one in (_on_step(end, step) for end in ends if low < end < high) if first < one < last}
    alone = {Fraction(spike) for spike in spikes}
    if low <= 0 < high and 0 not in special:
        alone.add(Fraction(0))
    points = {spike + more for spike in alone for more in (0, step)} | {Fraction(cut) for cut in cuts}
    if last in alone and not integer:  # the last cell holds its upper end
        points.add(last - step)
    # A cell between two others that is no wider than a step would be a spike that nobody named.
    every = sorted({first, last} | points | {end for end in inner if all(abs(end - one) > step for one in alone)})
    kept = [end for end in every if first <= end <= last]
    single = sorted(one if one < last or integer else last - step for one in alone)
    if integer and last in alone:
        kept.append(last)
    ends = [_plain(end, decimals) for end in kept]
    wanted = {_plain(one, decimals) for one in points}
    return _without(ends, special, wanted, float(step)), tuple(_plain(one, decimals) for one in single)


def _without(ends: list[float], special: tuple[float, ...], wanted: set[float], step: float) -> tuple[float, ...]:
    """The ends of cells, of which none holds special codes alone: such a cell joins the one before, or the next. Ends
    that the schema asks for (``wanted``) stay."""
    place = 0
    while special and place < len(ends) - 1:
        drop = place if place and ends[place] not in wanted else place + 1
        if not _only_special(ends, place, special, step) or drop == len(ends) - 1 or ends[drop] in wanted:
            place += 1
            continue
        del ends[drop]
        place = max(place - 1, 0)
    return tuple(ends)


def _only_special(ends: Sequence[float], place: int, special: Sequence[float], step: float) -> bool:
    """Whether a cell holds special codes and no other value. The last one holds its upper end too."""
    low, high, last = ends[place], ends[place + 1], place == len(ends) - 2
    codes = sum(low <= code < high or (last and code == high) for code in special)
    return codes > 0 and codes >= round((high - low) / step) + last


def day_grid(first: datetime.date, last: datetime.date) -> tuple[datetime.date, ...]:
    """Every day, as the beginning of a cell; the last cell ends with the day it begins with."""
    days = (last - first).days
    return (*(first + datetime.timedelta(days=day) for day in range(days + 1)), last)


def _is_on(value: float, step: Fraction) -> bool:
    return float(_on_step(value, step)) == value


def _on_step(value: float, step: Fraction) -> Fraction:
    return Fraction(round(Fraction(float(value)) / step)) * step


def _plain(value: Fraction, decimals: int) -> float:
    return float(value) if decimals else int(value)
