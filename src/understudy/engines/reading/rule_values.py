"""Orders and ratios between columns, value by value: checked in data, and obeyed when synthetic values are drawn.

Structural zeros of the schema say which bins are allowed together. Inside bins, rows whose values break a rule are
drawn again by the same law, so that values have the law of independent draws given that the rule holds. Rows that are
still wrong after some rounds, because their bins hardly overlap, are drawn one attribute after the other: each
uniformly between the smallest and the largest value that leaves values for the others. Everything is in whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.core.arrays import Flags
from understudy.core.mechanism import Stream
from understudy.core.rules import Limit, bin_ends, limits_of, linked_limits, steps_of
from understudy.core.schema import Schema
from understudy.core.table import Codes
from understudy.engines.reading.values import values_of
from understudy.errors import InternalError
from understudy.privacy.randomness.draws import uniform_below_each

ROUNDS = 30  # of drawing again before values are drawn between limits
CLOSE = 1e-6  # a product with a power of ten that is this close to a whole number is taken as that number

Steps = NDArray[np.int64]


class LimitCheck:
    """Counts rows of data that break an order or a ratio."""

    def __init__(self, schema: Schema, names: Sequence[str]) -> None:
        self._schema = schema
        self._limits = [one for one in limits_of(schema) if not one.implied and {one.small, one.large} <= set(names)]
        self._allowed = {
            one: schema.allowed((one.small, one.large))
            for one in self._limits
            if not (schema[one.small].open or schema[one.large].open)
        }

    def broken(
        self, batch: pa.RecordBatch, codes: Mapping[str, Codes], bad: Mapping[str, Flags]
    ) -> Iterator[tuple[str, int]]:
        """Each rule with the number of rows that break it; rows with an unreadable value are left out."""
        numbers: dict[str, NDArray[np.float64]] = {}
        for name in {name for one in self._limits for name in (one.small, one.large)}:
            attribute = self._schema[name]
            readable = np.array(codes[name], np.int64)
            if name in bad:
                readable[bad[name]] = attribute.size  # no value
            numbers[name] = in_steps(values_of(batch.column(name), readable, attribute), 10 ** steps_of(attribute))
        found: dict[str, Flags] = {}
        for one in self._limits:
            small, large = numbers[one.small], numbers[one.large]
            both = ~np.isnan(small) & ~np.isnan(large)
            wrong = np.zeros(len(both), bool)
            wrong[both] = _is_above(small[both], one.down, large[both], one.up)
            if one in self._allowed:
                possible = self._allowed[one][codes[one.small], codes[one.large]]
                wrong |= both & ~possible
            found[one.rule] = found.get(one.rule, np.zeros(len(both), bool)) | wrong
        for rule, wrong in found.items():
            if rows := int(np.count_nonzero(wrong)):
                yield rule, rows


def in_steps(values: NDArray[np.float64], power: int) -> NDArray[np.float64]:
    """Numbers in units of their last digit: whole numbers exactly, and others as they are."""
    scaled = values * power
    near = np.rint(scaled)
    return np.where(np.abs(scaled - near) <= CLOSE * np.maximum(1.0, np.abs(near)), near, scaled)


def _is_above(small: NDArray[np.float64], down: int, large: NDArray[np.float64], up: int) -> Flags:
    """Whether ``small * down`` is above ``large * up``; exact for whole numbers."""
    whole = (small == np.rint(small)) & (large == np.rint(large))
    result = np.asarray(small * down > large * up)
    result[whole] = small[whole].astype(np.int64) * down > large[whole].astype(np.int64) * up
    return result


Draw = Callable[[str, Codes, int], NDArray[Any]]  # values of an attribute in its steps, for codes, in one round


def keep_limits(
    schema: Schema,
    codes: Mapping[str, Codes],
    values: dict[str, NDArray[Any]],
    draw: Draw,
    stream: Stream,
    *purpose: Any,
) -> None:
    """Changes drawn values, in whole steps, until every order and ratio holds. Missing and special values stay."""
    limits = limits_of(schema)
    if not limits:
        return
    amounts = {name: np.asarray(codes[name]) < schema[name].bins for one in limits for name in (one.small, one.large)}
    for group in linked_limits(limits):
        names = [name for name in schema.names if any(name in (one.small, one.large) for one in group)]
        wrong = _wrong(group, values, amounts)
        for number in range(ROUNDS):
            rows = np.flatnonzero(wrong)
            if not len(rows):
                break
            for name in names:
                values[name][rows] = draw(name, np.asarray(codes[name])[rows], number)
            wrong = _wrong(group, values, amounts)
        rows = np.flatnonzero(wrong)
        if len(rows):
            _between(
                schema,
                group,
                names,
                codes=codes,
                values=values,
                amounts=amounts,
                rows=rows,
                stream=stream,
                purpose=purpose,
            )
            if _wrong(group, values, amounts).any():
                raise InternalError("a synthetic row could not be made to obey a rule of the schema.")


def _wrong(limits: Sequence[Limit], values: Mapping[str, NDArray[Any]], amounts: Mapping[str, Flags]) -> Flags:
    wrong = np.zeros(len(next(iter(amounts.values()))), bool)
    for one in limits:
        both = amounts[one.small] & amounts[one.large]
        wrong |= both & (values[one.small] * one.down > values[one.large] * one.up)
    return wrong


def _between(
    schema: Schema,
    limits: Sequence[Limit],
    names: Sequence[str],
    *,
    codes: Mapping[str, Codes],
    values: dict[str, NDArray[Any]],
    amounts: Mapping[str, Flags],
    rows: NDArray[np.intp],
    stream: Stream,
    purpose: tuple[Any, ...],
) -> None:
    """Draws one attribute after the other, within the limits of its bin and of the values drawn before."""
    low: dict[str, Steps] = {}
    high: dict[str, Steps] = {}
    for name in names:
        ends = np.array([*bin_ends(schema[name]), *[(0, 0)] * (schema[name].size - schema[name].bins)], np.int64)
        mine = ends[np.asarray(codes[name])[rows]]
        low[name], high[name] = mine[:, 0].copy(), mine[:, 1].copy()
    active = [(one, amounts[one.small][rows] & amounts[one.large][rows]) for one in limits]
    for name in names:
        _raise_lows(active, low)
        _lower_highs(active, high)
        spread = np.maximum(high[name] - low[name] + 1, 1).astype(np.uint64)
        low[name] = low[name] + uniform_below_each(stream, spread, *purpose, name, "between").astype(np.int64)
        _raise_lows(active, low)
        high[name] = low[name].copy()
    for name in names:
        filled = amounts[name][rows]
        values[name][rows[filled]] = low[name][filled]


def _raise_lows(active: Sequence[tuple[Limit, Flags]], low: dict[str, Steps]) -> None:
    changed = True
    while changed:
        changed = False
        for one, both in active:
            needed = -(-low[one.small] * one.down // one.up)
            above = both & (needed > low[one.large])
            if above.any():
                low[one.large] = np.where(above, needed, low[one.large])
                changed = True


def _lower_highs(active: Sequence[tuple[Limit, Flags]], high: dict[str, Steps]) -> None:
    changed = True
    while changed:
        changed = False
        for one, both in active:
            most = high[one.large] * one.up // one.down
            below = both & (most < high[one.small])
            if below.any():
                high[one.small] = np.where(below, most, high[one.small])
                changed = True
