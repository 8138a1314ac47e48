"""What an Arrow value is, however it is stored: the types that are read, their canonical texts, numbers and days."""

from __future__ import annotations

import datetime
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.clock import CLOCKS, clock_number
from understudy.core.file_format import ISO_DAY
from understudy.core.schema import Attribute, Edge, level_text
from understudy.core.table import Codes
from understudy.errors import SchemaError

EPOCH = datetime.date(1970, 1, 1)


def canonical_texts(values: pa.Array) -> pa.Array:
    """The one text by which each value is compared: '3' for 3 and 3.0, 'true', '2026-01-31'; null stays null."""
    kind = values.type
    if is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return values.cast(pa.large_string())
    if pa.types.is_floating(kind):
        numbers = values.cast(pa.float64()).to_pylist()
        return pa.array([None if v is None or math.isnan(v) else level_text(v) for v in numbers], pa.large_string())
    if pa.types.is_decimal(kind):
        return pa.array([_decimal_text(v) for v in values.to_pylist()], pa.large_string())
    return calendar_days(values).cast(pa.large_string())


@contextmanager
def readable_column(column: str) -> Iterator[None]:
    """Turns an Arrow error (bytes that are not UTF-8, an unknown time zone) into ours, without its text."""
    try:
        yield
    except (pa.ArrowException, UnicodeError) as problem:
        raise SchemaError(
            f"column '{column}' cannot be read ({type(problem).__name__}): it holds bytes that are not UTF-8 text, a "
            "time zone this system does not know, or a damaged value."
        ) from None


def check_type(kind: pa.DataType, column: str) -> None:
    """Refuse a column whose values are not plain ones."""
    while pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (
        is_text,
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_date,
        pa.types.is_timestamp,
        pa.types.is_null,
    )
    if not any(test(kind) for test in tests):
        raise SchemaError(
            f"column '{column}' has the Arrow type {_family(kind)}, which cannot be read; "
            "give text, numbers, booleans, dates or timestamps."
        )


def plain(array: pa.Array) -> pa.Array:
    """Without wrappers that say how values are stored rather than what they are."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_float16(array.type):  # older versions of Arrow have few functions for it; nothing is rounded
        return array.cast(pa.float32())
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def on_clock(array: pa.Array, clock: str) -> pa.Array:
    """Times and durations as numbers of minutes or seconds. Of texts, those that are no time stay as they are."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(array.indices, on_clock(plain(array.dictionary), clock))
    if is_text(kind):
        numbers = ((text, None if text is None else clock_number(text, clock)) for text in array.to_pylist())
        return pa.array([text if number is None else str(number) for text, number in numbers], pa.large_string())
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        parts = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        whole = array.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64()).cast(pa.int64())
        return pc.floor(pc.divide(whole.cast(pa.float64()), parts * CLOCKS[clock])).cast(pa.int64())
    return array


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def as_numpy(array: pa.Array) -> NDArray[Any]:
    result: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return result


def with_decimals(numbers: pa.Array | pa.ChunkedArray, digits: int) -> pa.Array | pa.ChunkedArray:
    """Numbers as decimal fractions with so many digits behind the point: 12.5 as 12.50."""
    return pc.round(numbers, digits).cast(pa.decimal128(38, digits))


def absent_texts(missing_text: str, kind: pa.DataType, *, but: Collection[str] = ()) -> pa.Array:
    """What stands for a missing value in a file of texts: what was said, and nothing at all; ``but`` are levels."""
    return pa.array(sorted({missing_text, ""} - set(but)), kind)


def parse_numbers(texts: pa.Array) -> pa.Array:
    trimmed = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^\+", "")
    try:
        return trimmed.cast(pa.float64())
    except pa.ArrowInvalid:  # beyond the range of a double: Python reads those as infinite or 0
        return pa.array([None if text is None else float(text) for text in trimmed.to_pylist()], pa.float64())


def values_of(column: pa.ChunkedArray | pa.Array, codes: Codes, attribute: Attribute) -> NDArray[np.float64]:
    """The numbers behind the bins of an attribute, NaN where a value is missing or a special code; dates as days.

    ``codes`` are those of the same rows: they say which rows have a value at all, by the rules of the schema. With
    ``outside = "clip"`` values are cut to the edges, as their bins are.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = plain(pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array)
    if attribute.clock:
        array = on_clock(array, attribute.clock)
    with readable_column(attribute.name):
        if pa.types.is_dictionary(array.type):
            array = plain(array.dictionary_decode())
        array = pc.if_else(pa.array(np.asarray(codes) < attribute.bins), array, pa.scalar(None, array.type))
        if attribute.kind == "date":
            numbers = (days_of_texts(array) if is_text(array.type) else calendar_days(array)).cast(pa.int32())
        elif is_text(array.type):
            numbers = parse_numbers(array)
        else:  # a decimal through its text, which rounds once and correctly
            numbers = array.cast(pa.large_string()) if pa.types.is_decimal(array.type) else array
        values = np.array(as_numpy(numbers.cast(pa.float64(), safe=False)), np.float64)
    if attribute.outside == "clip":
        values = np.clip(values, as_number(attribute.edges[0]), as_number(attribute.edges[-1]))
    return values


def as_number(edge: Edge) -> float:
    """An edge as a number; of a date the day."""
    return float(day_number(edge)) if isinstance(edge, datetime.date) else float(edge)


def calendar_days(values: pa.Array) -> pa.Array:
    """The calendar day, a timestamp's in its own time zone."""
    if pa.types.is_timestamp(values.type):
        if values.type.tz is not None:
            values = pc.local_timestamp(values)
        values = pc.floor_temporal(values, unit="day")
    return values.cast(pa.date32())


def day_number(value: datetime.date) -> int:
    return (value - EPOCH).days


def iso_day_number(text: str | None) -> int | None:
    """The day of a text such as 2026-11-17, or 2026-11-17T08:30 as it is written, whatever the time zone."""
    found = None if text is None else ISO_DAY.fullmatch(text.strip())
    try:
        return None if found is None else day_number(datetime.date.fromisoformat(found[1]))
    except ValueError:
        return None


def days_of_texts(texts: pa.Array) -> pa.Array:
    """Texts of days, with or without a time of day, as days."""
    return pc.utf8_slice_codeunits(pc.utf8_trim_whitespace(texts), 0, 10).cast(pa.date32())


def _decimal_text(value: Decimal | None) -> str | None:
    if value is None:
        return None
    if not value:
        return "0"  # also minus zero
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _family(kind: pa.DataType) -> str:
    """The type without its parameters: a nested type's field names may say something about the data."""
    return str(kind).partition("<")[0].partition("[")[0]
