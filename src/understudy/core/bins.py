"""Numbers known by their bins: the public density inside a bin gives means and quantiles, and says what is lost.

A release knows an age by its bin. Inside the bin the schema's public density stands in for the truth: uniform over the
whole numbers, days or reals of the bin, or proportional to 1/x with ``density = "log"``. What follows from that is an
assumption, not a measurement: ``low`` and ``last`` are the least and the largest value of a bin. Where bins were found
inside the budget of a release, values are spread over the cells of a fine grid by shares from its noisy counts.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.schema import Attribute
from understudy.core.schema import as_number as number_in
from understudy.errors import InputError

EPOCH = datetime.date(1970, 1, 1)
NODES = 64
FINE_STEPS = 4  # steps of the last digit from which on the density inside a cell is not even
MANY = 8  # with at least so many bins, a wider last bin makes no difference


def as_number(edge: object) -> float:
    """An edge as a number; dates count days since 1970."""
    return float((edge - EPOCH).days) if isinstance(edge, datetime.date) else float(edge)  # type: ignore[arg-type]


def ends_of(attribute: Attribute) -> Floats:
    """The edges as numbers. A last bin that is one value alone is a step wide, like any other bin of one value."""
    edges = np.array([as_number(edge) for edge in attribute.edges])
    if edges[-1] == edges[-2]:
        edges[-1] += 1
    return edges


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bins:
    """Bins of numbers or dates with their public density. A level that is a number is a bin of one value."""

    name: str
    low: Floats
    high: Floats
    whole: bool
    log: bool
    cells: Floats | None = None  # of found bins: the ends of the cells of the grid,
    shares: Floats | None = None  # the share that each has of its bin,
    tilts: Floats | None = None  # and how its density rises (``tilts_of``)

    def nodes(self, bin_number: int) -> tuple[Floats, Floats]:
        """Points and weights inside a bin: all whole numbers of a short bin, equal shares of any other."""
        low, high = self.low[bin_number], self.high[bin_number]
        if self.cells is not None and self.shares is not None:
            first, after = self._cells_of(low, high)
            ends = self.cells[first : after + 1]
            middle = (ends[:-1] + ends[1:] - float(self.whole)) / 2
            if self.tilts is not None:
                middle = middle + self.tilts[first:after] * np.diff(ends) / 6
            return np.maximum(middle, low), self.shares[first:after] / self.shares[first:after].sum()
        if self.whole and high - low <= 4096:
            points = np.arange(low, high)
            weights = np.log((points + 1) / points) if self.log else np.ones(len(points))
            return points, weights / weights.sum()
        middle = (np.arange(NODES) + 0.5) / NODES
        points = low * (high / low) ** middle if self.log else low + (high - low) * middle
        if self.whole:
            points = np.floor(points)
        return points, np.full(NODES, 1 / NODES)

    def means(self, of: Callable[[Floats], Floats] | None = None) -> Floats:
        """The mean of the attribute in every bin, or of a function of its values, which may have several columns."""
        result = []
        for number in range(len(self.low)):
            points, weights = self.nodes(number)
            result.append(weights @ (points if of is None else of(points)))
        return np.array(result)

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the largest value there can be."""
        return float(self.low[0]), float(self.last[-1])

    @property
    def last(self) -> Floats:
        """The largest value of every bin; equal to ``low`` where a bin is one whole number."""
        return np.asarray(self.high - 1 if self.whole else self.high)

    @property
    def of_one_value(self) -> bool:
        """Whether a bin is one whole number. The last of many may be two: it holds its upper edge by convention."""
        wide = self.last - self.low
        return not wide[:-1].any() and (len(wide) >= MANY or not wide[-1]) and bool(wide[-1] <= 1)

    def places(self, shares: Floats, at: float) -> Integers:
        """The bin that a quantile lies in, for each row of shares of the bins."""
        cumulative = np.cumsum(shares, axis=1)
        return np.asarray(np.minimum((cumulative < at * cumulative[:, -1:]).sum(axis=1), shares.shape[1] - 1))

    def quantiles(self, shares: Floats, at: float) -> Floats:
        """The quantile for each row of shares of the bins; whole numbers are its whole part."""
        cumulative = np.cumsum(shares, axis=1)
        target = at * cumulative[:, -1:]
        place = self.places(shares, at)
        rows = np.arange(len(shares))
        inside = shares[rows, place]
        before = cumulative[rows, place] - inside
        part = np.clip((target[:, 0] - before) / np.maximum(inside, np.finfo(float).tiny), 0, 1)
        low, high = self.low[place], self.high[place]
        if self.cells is not None:
            return np.asarray(np.interp(place + part, self._upto(), self.cells))
        value = low * (high / low) ** part if self.log else low + (high - low) * part
        return np.asarray(value)

    def share_below(self, shares: Floats, values: Floats) -> Floats:
        """For each row of shares of the bins, the share below its own value."""
        cumulative = np.cumsum(shares, axis=1)
        bins = np.clip(np.searchsorted(self.low, values, side="right") - 1, 0, len(self.low) - 1)
        low, high = self.low[bins], self.high[bins]
        if self.cells is not None and self.shares is not None:
            part = np.interp(values, self.cells, self._upto()) - bins
        elif self.log:
            part = np.log(np.maximum(values, low) / low) / np.log(high / low)
        else:
            part = (values - low) / np.maximum(high - low, np.finfo(float).tiny)  # a level is one point
        rows = np.arange(len(shares))
        inside = shares[rows, bins]
        below = cumulative[rows, bins] - inside + np.clip(part, 0, 1) * inside
        return np.asarray(below / np.maximum(cumulative[:, -1], np.finfo(float).tiny))

    def _cells_of(self, low: float, high: float) -> tuple[int, int]:
        assert self.cells is not None  # noqa: S101
        first, after = np.searchsorted(self.cells, [low, high])
        return int(first), int(after)

    def _upto(self) -> Floats:
        """At every end of a cell: the number of bins below it, and the share of its own bin that lies below it."""
        assert self.cells is not None and self.shares is not None  # noqa: S101, PT018
        found = [np.zeros(1)]
        for number, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            first, after = self._cells_of(low, high)
            upto = np.cumsum(self.shares[first:after])
            found.append(number + upto / upto[-1])
        return np.concatenate(found)


def level_numbers(attribute: Attribute) -> tuple[float, ...] | None:
    """The levels as numbers: whole numbers in increasing order, or ``ordered`` texts that are such numbers.

    ``None`` if the levels are no numbers, or in another order.
    """
    first = attribute.levels[0] if attribute.levels else True
    if isinstance(first, bool) or (isinstance(first, str) and not attribute.ordered):
        return None
    numbers = [number_in(level) if isinstance(level, str) else float(level) for level in attribute.levels]
    found = tuple(number for number in numbers if number is not None and math.isfinite(number))
    rising = all(low < high for low, high in pairwise(found))
    return found if len(found) == len(numbers) and rising else None


def bins_of(attribute: Attribute) -> Bins:
    """The bins of an attribute with edges, or one for each level where the levels are numbers."""
    if attribute.kind == "levels":
        numbers = level_numbers(attribute)
        if numbers is None:
            raise InputError(
                f"'{attribute.name}' has levels, not numbers; ask for proportions of its levels. Levels are numbers "
                "if the schema lists whole numbers in increasing order, or such texts with ordered = true."
            )
        points = np.array(numbers)
        whole = not isinstance(attribute.levels[0], str)
        return Bins(name=attribute.name, low=points, high=points + whole, whole=whole, log=False)
    edges = np.array([as_number(edge) for edge in attribute.edges])
    low, high = edges[:-1].copy(), edges[1:].copy()
    whole = attribute.integer or attribute.kind == "date"
    if whole:
        high[-1] += 1  # the last bin holds its upper edge
    bins = Bins(name=attribute.name, low=low, high=high, whole=whole, log=attribute.density == "log")
    if not attribute.found:
        return bins
    cells = np.array([*(as_number(start) for start, _ in attribute.inside), high[-1]])
    shares = np.array([share for _, share in attribute.inside])
    begins = np.searchsorted(cells, low)
    return replace(
        bins,
        cells=cells,
        shares=shares / np.repeat(np.add.reduceat(shares, begins), np.diff([*begins, len(shares)])),
        tilts=tilts_of(attribute),
    )


def tilts_of(attribute: Attribute) -> Floats:
    """How the density of values rises or falls inside each cell on which bins were found, from -1 to 1.

    At the place u inside a cell, from 0 to 1, the density is 1 + t (2u - 1) times that of the whole cell. The tilt t is
    that of the line through the densities of the cell and a neighbour, of the two lines the less steep, and 0 at a peak
    or in a hollow. So densities continue from cell to cell, also where a bin ends, and a spike does not tilt what is
    beside it. Cells of dates, of whole numbers a few of which fill a cell, and of one value are even.
    """
    ends = np.array([*(as_number(start) for start, _ in attribute.inside), ends_of(attribute)[-1]])
    widths = np.diff(ends)
    single = np.isin(ends[:-1], [as_number(one) for one in attribute.single_values])
    flat = single | (widths < FINE_STEPS * 10.0**-attribute.digits)
    if attribute.kind == "date" or flat.all():
        return np.zeros(len(widths))
    shares = np.array([share for _, share in attribute.inside])
    middles, density = (ends[:-1] + ends[1:]) / 2, shares / widths
    slopes = np.diff(density) / np.diff(middles)
    slopes[single[:-1] | single[1:]] = np.nan  # no neighbour: a value of its own lies between
    before, after = np.concatenate([[np.nan], slopes]), np.concatenate([slopes, [np.nan]])
    before, after = np.where(np.isnan(before), after, before), np.where(np.isnan(after), before, after)
    less = np.where(before * after > 0, np.where(np.abs(before) < np.abs(after), before, after), 0.0)
    tilt = np.divide(less * widths / 2, density, out=np.zeros(len(widths)), where=density > 0)
    return np.asarray(np.where(flat, 0.0, np.clip(tilt, -1.0, 1.0)))
