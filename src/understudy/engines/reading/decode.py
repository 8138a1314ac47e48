"""From codes back to values an analyst can use: the last step of every release.

Law of every value, given its code: a level is itself; a bin of an ``integer`` attribute or of dates
is uniform over its whole numbers or days, the last edge included, and so is one with ``decimals`` over the numbers that
have so many of them; a bin of other reals is uniform over the bin, or has a
density proportional to 1/x with ``density = "log"`` (for integers: the whole part of such a number). Numbers of one row
are not independent inside their bins where the bins themselves are correlated (``drawn_together``). A value that the
schema names as a special code is drawn again, so that every value has the code it came from. Codes are public when
they get here, so this is post-processing and costs no privacy; randomness is explicit all the same.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.bins import tilts_of
from understudy.core.derived_attributes import Derived
from understudy.core.mechanism import Stream
from understudy.core.raking import raked
from understudy.core.schema import Attribute, Schema, level_text
from understudy.core.survey_design import Weight, calibrated_column
from understudy.core.table import CodedTable, Codes
from understudy.engines.reading.drawn_together import places_together
from understudy.engines.reading.rule_values import keep_limits
from understudy.engines.reading.values import (
    EPOCH,
    calendar_days,
    canonical_texts,
    days_of_texts,
    is_text,
    on_clock,
    parse_numbers,
    plain,
    readable_column,
    with_decimals,
)
from understudy.errors import SchemaError
from understudy.privacy.randomness.draws import uniform_below_each, unit_interval

Purpose = tuple[str | int, ...]


def decode(table: CodedTable, stream: Stream, *purpose: str | int) -> pa.Table:
    """Values for a coded table, drawn from the substreams ``(*purpose, attribute)``."""
    schema, codes = table.schema, dict(zip(table.schema.names, table.columns.values(), strict=True))
    places = places_together(schema, codes, stream, *purpose)
    values = {
        one.name: _drawn_steps(one, codes[one.name], stream, (*purpose, one.name), places.get(one.name))
        for one in schema.attributes
        if not one.levels
    }

    def again(name: str, rows: Codes, number: int) -> NDArray[Any]:
        return _drawn_steps(schema[name], rows, stream, (*purpose, name, "again", number))

    keep_limits(schema, codes, values, again, stream, *purpose)
    arrays = [
        _levels(one, codes[one.name]) if one.levels else _column(one, codes[one.name], values[one.name])
        for one in schema.attributes
    ]
    return with_derived(pa.Table.from_arrays(arrays, schema=arrow_schema(table.schema)), table.schema)


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow types and labels of the attributes in a decoded table; derived columns follow them."""
    return pa.schema([_field(attribute) for attribute in schema.attributes])


def with_derived(table: pa.Table, schema: Schema) -> pa.Table:
    """The attributes of a table, then the derived columns, computed from the values, and then fakes of identifiers."""
    return _with_fakes(_with_calibrated(_with_rules(table, schema), table, schema), table, schema)


def _with_calibrated(result: pa.Table, table: pa.Table, schema: Schema) -> pa.Table:
    """Weights that agree with public totals. Those that are there already stay; others are raked over all rows."""
    if schema.weight is None:
        return result
    for name in calibrated_column(schema.weight):
        if name in table.column_names:
            column = table.column(name).cast(pa.float64())
        else:
            column = pa.array(_raked(result, schema, schema.weight), pa.float64())
        result = result.append_column(pa.field(name, pa.float64()), column)
    return result


def _raked(table: pa.Table, schema: Schema, weight: Weight) -> NDArray[np.float64]:
    from understudy.engines.reading.encode import encode_table

    plain_schema = replace(schema, impossible=(), rules=(), derived=())
    codes = encode_table(table.select(list(schema.names)), plain_schema).columns
    margins = []
    for total in weight.totals:
        told = dict(total.totals)
        totals = np.array([told[level_text(level)] for level in schema[total.attribute].levels], np.float64)
        margins.append((codes[total.attribute], totals))
    return raked(table.column(weight.column).to_numpy().astype(np.float64), margins)


def share_of_population(table: pa.Table, schema: Schema, share: float) -> pa.Table:
    """A block of a larger table: its calibrated weights stand for its share of the people."""
    for name in calibrated_column(schema.weight):
        column = pc.multiply(table.column(name), share)
        table = table.set_column(table.column_names.index(name), table.schema.field(name), column)
    return table


def _with_fakes(result: pa.Table, table: pa.Table, schema: Schema) -> pa.Table:
    """Fakes that are there already stay; others follow from the number of the row."""
    for one in schema.faked:
        there = one.name in table.column_names
        column = table.column(one.name).cast(pa.string()) if there else pa.array(one.fakes(table.num_rows), pa.string())
        result = result.append_column(pa.field(one.name, pa.string()), column)
    return result


def _with_rules(table: pa.Table, schema: Schema) -> pa.Table:
    from understudy.engines.reading.encode import encode_table

    result = table.select(list(schema.names))
    if not schema.derived:
        return result
    coded = encode_table(result, replace(schema, impossible=(), rules=(), derived=())).columns
    for derived in schema.derived:
        attribute = derived.attribute(schema)
        if attribute.levels:
            column = _levels(attribute, derived.codes(schema, coded))
        else:
            column = _added_up(derived, table, schema, coded)
        result = result.append_column(_field(attribute), column)
    return result


def _added_up(derived: Derived, table: pa.Table, schema: Schema, coded: Mapping[str, Codes]) -> pa.Array:
    """A sum or difference, in whole numbers of the last digit, so that it is exact."""
    digits = derived.digits(schema)
    total = pa.array(np.zeros(table.num_rows, np.int64))
    for name, sign in zip(derived.sources, derived.signs, strict=True):
        column = amounts(schema[name], table.column(name), coded[name])
        steps = pc.multiply(column, sign * 10**digits)
        total = pc.add(total, steps if pa.types.is_integer(steps.type) else pc.round(steps).cast(pa.int64()))
    return total if not digits else pc.divide(total.cast(pa.float64()), 10.0**digits)


def restore_types(table: pa.Table, schema: Schema) -> pa.Table:
    """The types of a decoded table after a trip through a file, which keeps no dictionary of integers or booleans."""
    from understudy.engines.reading.encode import encode_table

    coded = encode_table(table, schema)
    arrays = [
        _levels(attribute, coded.columns[attribute.name])
        if attribute.levels
        else _values(attribute, table.column(attribute.name))
        for attribute in schema.attributes
    ]
    made = pa.Table.from_arrays(arrays, schema=arrow_schema(schema))
    return _with_fakes(_with_calibrated(_with_rules(made, schema), table, schema), table, schema)


def amounts(attribute: Attribute, column: pa.ChunkedArray, codes: Codes) -> pa.Array:
    """The numbers or dates of a column, null where a value is missing or a special code, which have no amount."""
    amount = pa.array(np.asarray(codes) < attribute.bins)
    if attribute.text_codes:
        column = pc.if_else(amount, column, None)
        attribute = replace(attribute, special=())
    return pc.if_else(amount, _values(attribute, column), None)


def _values(attribute: Attribute, column: pa.ChunkedArray) -> pa.Array:
    """Numbers or dates in the type of their attribute, from whatever type somebody else's table has them in."""
    with readable_column(attribute.name):
        array = plain(column.combine_chunks())
        return _typed(attribute, on_clock(array, attribute.clock) if attribute.clock else array)


def _typed(attribute: Attribute, array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = plain(array.dictionary_decode())
    kind = _field(attribute).type
    if pa.types.is_string(kind):  # numbers and texts beside them: the column is text already, or has no such text
        return array.cast(kind) if is_text(array.type) else canonical_texts(array).cast(kind)
    if pa.types.is_timestamp(array.type):
        array = calendar_days(array)
    elif pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
    elif is_text(array.type):
        array = days_of_texts(array) if attribute.kind == "date" else parse_numbers(array)
    elif pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    return array.cast(kind)


def _field(attribute: Attribute) -> pa.Field:
    if attribute.levels:
        kinds = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}
        kind = pa.dictionary(pa.int32(), kinds[type(attribute.levels[0])], ordered=attribute.ordered)
    elif attribute.kind == "date":
        kind = pa.date32()
    elif attribute.text_codes:  # numbers beside texts can only be texts too
        kind = pa.string()
    else:
        kind = pa.int64() if attribute.integer else pa.float64()
    metadata = {"label": attribute.label} if attribute.label else {}
    if attribute.decimals:
        metadata["decimals"] = str(attribute.decimals)
    if attribute.clock:
        metadata["clock"] = attribute.clock
        metadata["no_times"] = json.dumps([code for code, _ in attribute.special])
    if attribute.level_labels:
        metadata["level_labels"] = json.dumps(list(attribute.level_labels), ensure_ascii=False)
    return pa.field(attribute.name, kind, nullable=True, metadata=metadata or None)


def _levels(attribute: Attribute, codes: Codes) -> pa.Array:
    kind = _field(attribute).type
    indices = codes.astype(np.int32)
    missing = None if attribute.missing_code is None else indices == attribute.missing_code
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, mask=missing), pa.array(attribute.levels, kind.value_type), ordered=attribute.ordered
    )


def _digits(attribute: Attribute) -> int | None:
    """Digits behind the point; None for numbers with all digits of a double."""
    if attribute.integer or attribute.kind == "date":
        return 0
    return attribute.digits if attribute.found else attribute.decimals


def _drawn_steps(
    attribute: Attribute, codes: Codes, stream: Stream, purpose: Purpose, places: NDArray[np.float64] | None = None
) -> NDArray[Any]:
    """A number for every code, in whole numbers of its last digit if it has a number of digits; dates as days.

    ``places`` say where in its bin each lies, from 0 to 1; without them it lies anywhere.
    """
    digits = _digits(attribute)
    if attribute.found:  # first the cell of the grid, by the shares that were found, then a value inside it
        codes, places = _draw_cells(attribute, np.asarray(codes, dtype=np.int64), stream, (*purpose, "cell"), places)
        attribute = _grid(attribute)
    if digits is None or attribute.integer or attribute.kind == "date":
        return _drawn(attribute, codes, stream, purpose, places)
    return _drawn(_in_steps(attribute, digits), codes, stream, purpose, places)


def _column(attribute: Attribute, codes: Codes, values: NDArray[Any]) -> pa.Array:
    """The Arrow column of drawn numbers."""
    digits = _digits(attribute)
    missing = None if attribute.missing_code is None else np.asarray(codes) == attribute.missing_code
    if attribute.kind == "date":
        return pa.array(values.astype(np.int32), pa.int32(), mask=missing).cast(pa.date32())
    if digits is not None and not attribute.integer:
        values = values / 10**digits
    column = pa.array(values, mask=missing)
    if not attribute.text_codes:
        return column
    texts = with_decimals(column, digits).cast(pa.large_string()) if digits else canonical_texts(column)
    for text, code in attribute.text_codes.items():
        texts = pc.if_else(pa.array(np.asarray(codes) == code), text, texts)
    return texts.cast(pa.string())


def _drawn(
    attribute: Attribute, codes: Codes, stream: Stream, purpose: Purpose, places: NDArray[np.float64] | None = None
) -> NDArray[Any]:
    """A number, or the number of a day, for every code; 0 where a value is missing or a text."""
    whole = attribute.integer or attribute.kind == "date"
    values = np.zeros(len(codes), np.int64 if whole else np.float64)
    named = {place: _number(code) for place, (code, _) in enumerate(attribute.special) if not isinstance(code, str)}
    special = list(named.values())
    for position, code in named.items():
        values[codes == attribute.bins + position] = code
    open_rows = np.flatnonzero(codes < attribute.bins)
    _refuse_full_bins(attribute, special, whole)
    while len(open_rows):  # again for draws that hit a special code; at most a few rounds, as no bin is all special
        bins = codes[open_rows].astype(np.int64)
        at = None if places is None else places[open_rows]
        draw = _draw_whole if whole else _draw_real
        drawn = draw(attribute, bins, stream, purpose, at)
        values[open_rows] = drawn
        open_rows, places = open_rows[np.isin(drawn, special)], None
    return values


def _in_steps(attribute: Attribute, digits: int) -> Attribute:
    """An attribute of numbers with so many digits behind the point, in units of the last of them."""

    def steps(value: Any) -> Any:
        return value if isinstance(value, str) else int(Decimal(str(value)).scaleb(digits))

    return replace(
        attribute,
        edges=tuple(map(steps, attribute.edges)),
        special=tuple((steps(code), text) for code, text in attribute.special),
        integer=True,
        decimals=None,
    )


def _grid(attribute: Attribute) -> Attribute:
    """The grid on which bins were found, as an attribute with edges."""
    whole = attribute.integer or attribute.kind == "date"
    return Attribute(
        name=attribute.name,
        edges=(*(start for start, _ in attribute.inside), attribute.edges[-1]),
        integer=attribute.integer,
        decimals=None if whole else attribute.digits,
        special=attribute.special,
        missing=attribute.missing,
    )


def _draw_cells(
    attribute: Attribute,
    codes: NDArray[np.int64],
    stream: Stream,
    purpose: Purpose,
    places: NDArray[np.float64] | None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Codes of the grid: a cell by the shares of the cells of its bin, and special codes and missing as they are; and
    where in its cell each value lies, by the density that continues from cell to cell."""
    shares = np.array([share for _, share in attribute.inside])
    bounds = set(attribute.edges[:-1])
    begins = [place for place, (start, _) in enumerate(attribute.inside) if start in bounds]
    first, after = np.array(begins), np.array([*begins[1:], len(shares)])
    # Of each bin by itself: beside the sum of all before, the cells of an almost empty bin would be lost.
    shares = shares / np.repeat(np.add.reduceat(shares, first), after - first)
    parts = [number + np.cumsum(shares[one:end]) for number, (one, end) in enumerate(zip(first, after, strict=True))]
    upto = np.concatenate([[0.0], *parts])
    drawn = codes + len(shares) - attribute.bins
    rows = np.flatnonzero(codes < attribute.bins)
    bins = codes[rows]
    target = bins + (unit_interval(stream, len(bins), *purpose) if places is None else places[rows])
    cells = np.clip(np.searchsorted(upto, target, side="right") - 1, first[bins], after[bins] - 1)
    drawn[rows] = cells
    within = np.zeros(len(codes))
    with np.errstate(invalid="ignore", divide="ignore"):
        rest = np.clip(np.nan_to_num((target - upto[cells]) / shares[cells]), 0.0, 1.0)
    tilt = tilts_of(attribute)[cells]
    # The place u at which (1 - t) u + t u^2, the share of the cell below it, is what is left of the draw.
    within[rows] = 2 * rest / np.maximum(1 - tilt + np.sqrt((1 - tilt) ** 2 + 4 * tilt * rest), 1e-300)
    return drawn, np.clip(within, 0.0, 1.0)


def _draw_whole(
    attribute: Attribute, bins: NDArray[np.int64], stream: Stream, purpose: Purpose, places: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    first, last = _whole_bins(attribute)
    if attribute.density == "log":
        drawn = np.floor(_log_uniform(first[bins], last[bins] + 1, stream, purpose, places)).astype(np.int64)
        return np.clip(drawn, first[bins], last[bins])
    if places is not None:
        within = np.floor((last - first + 1)[bins] * places).astype(np.int64)
        return np.asarray(np.minimum(first[bins] + within, last[bins]), np.int64)
    spread = (last - first + 1)[bins].astype(np.uint64)
    return first[bins] + uniform_below_each(stream, spread, *purpose).astype(np.int64)


def _draw_real(
    attribute: Attribute, bins: NDArray[np.int64], stream: Stream, purpose: Purpose, places: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    edges = np.array([_number(edge) for edge in attribute.edges], np.float64)
    low, high = edges[:-1][bins], edges[1:][bins]
    if attribute.density == "log":
        drawn = _log_uniform(low, high, stream, purpose, places)
    else:
        part = unit_interval(stream, len(bins), *purpose) if places is None else places
        drawn = low * (1 - part) + high * part  # never overflows, unlike low + (high - low) * part
    # Rounding may reach the upper edge, which belongs to the next bin.
    return np.clip(drawn, low, np.nextafter(high, low))


def _log_uniform(
    low: NDArray[np.generic],
    high: NDArray[np.generic],
    stream: Stream,
    purpose: Purpose,
    places: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    start, stop = np.log(low), np.log(high)
    part = unit_interval(stream, len(start), *purpose) if places is None else places
    result: NDArray[np.float64] = np.exp(start + (stop - start) * part)
    return result


def _whole_bins(attribute: Attribute) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last whole number (or day) of every bin; the last bin holds its upper edge too."""
    edges = np.array([int(_number(edge)) for edge in attribute.edges], np.int64)
    last = edges[1:] - 1
    last[-1] += 1
    return edges[:-1], last


def _refuse_full_bins(attribute: Attribute, special: list[int | float], whole: bool) -> None:
    """A bin whose every value is a special code could not be drawn from."""
    if not special:
        return
    full: list[int | float]
    if whole:
        first, last = _whole_bins(attribute)
        full = [int(a) for a, b in zip(first, last, strict=True) if sum(a <= c <= b for c in set(special)) > b - a]
    else:  # a bin of reals is full only if it is a single double
        edges = [_number(edge) for edge in attribute.edges]
        full = [a for a, b in pairwise(edges) if a in special and np.nextafter(a, b) >= b]
    if full:
        raise SchemaError(f"attribute '{attribute.name}': every value of the bin from {full[0]} on is a special code.")


def _number(value: float | datetime.date) -> int | float:
    if isinstance(value, datetime.date):
        return (value - EPOCH).days
    return int(value) if math.isfinite(value) and value == int(value) and abs(value) <= 2**53 else value
