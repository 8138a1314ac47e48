"""The values behind the bins of a numeric or date attribute, as they stand in the data."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.schema import Attribute
from understudy.core.table import Codes
from understudy.engines.values import plain

Floats = NDArray[np.float64]
EPOCH = datetime.date(1970, 1, 1)


def values_of(column: pa.ChunkedArray, codes: Codes, attribute: Attribute) -> Floats:
    """One number per row, NaN where the value is missing or a special code; dates as days since 1970.

    ``codes`` are those of the same rows: they say which rows have a value at all, by the rules of the schema.
    """
    has_value = np.asarray(codes) < attribute.bins
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = plain(array if not isinstance(array, pa.ChunkedArray) else pa.concat_arrays(array.chunks))
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    array = pc.if_else(pa.array(has_value), array, pa.scalar(None, array.type))
    numbers = _dates(array) if attribute.kind == "date" else _numbers(array)
    values = np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)
    if attribute.outside == "clip":
        values = np.clip(values, as_number(attribute.edges[0]), as_number(attribute.edges[-1]))
    return values


def as_number(edge: Any) -> float:
    return float((edge - EPOCH).days) if isinstance(edge, datetime.date) else float(edge)


def _numbers(array: pa.Array) -> pa.Array:
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = pc.replace_substring_regex(pc.utf8_trim_whitespace(array), r"^\+", "")
    elif pa.types.is_decimal(array.type):
        array = array.cast(pa.large_string())
    return array.cast(pa.float64(), safe=False)


def _dates(array: pa.Array) -> pa.Array:
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = pc.utf8_trim_whitespace(array)
    elif pa.types.is_timestamp(array.type):
        array = pc.local_timestamp(array) if array.type.tz is not None else array
        array = pc.floor_temporal(array, unit="day")
    return array.cast(pa.date32()).cast(pa.int32()).cast(pa.float64())
