"""What an Arrow value is, however it is stored: the types that are read, their canonical texts, numbers and days."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.schema import level_text
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
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def as_numpy(array: pa.Array) -> NDArray[Any]:
    result: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return result


def parse_numbers(texts: pa.Array) -> pa.Array:
    trimmed = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"^\+", "")
    try:
        return trimmed.cast(pa.float64())
    except pa.ArrowInvalid:  # beyond the range of a double: Python reads those as infinite or 0
        return pa.array([None if text is None else float(text) for text in trimmed.to_pylist()], pa.float64())


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
    if text is None or len(text.strip()) != 10:
        return None
    try:
        return day_number(datetime.date.fromisoformat(text.strip()))
    except ValueError:
        return None


def _decimal_text(value: Decimal | None) -> str | None:
    if value is None:
        return None
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def _family(kind: pa.DataType) -> str:
    """The type without its parameters: a nested type's field names may say something about the data."""
    return str(kind).partition("<")[0].partition("[")[0]
