"""A derived column that the data hold already must agree with its rule: checked row by row, and never counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.derived_attributes import Derived
from understudy.core.schema import Schema, level_text
from understudy.core.spreadsheet import as_cell
from understudy.engines.reading.values import canonical_texts, check_type, plain, readable_column
from understudy.engines.reading.violations import DISAGREES, Violations


def check_derived(
    batch: pa.RecordBatch,
    schema: Schema,
    *,
    codes: Mapping[str, NDArray[Any]],
    bad: Mapping[str, NDArray[np.bool_]],
    violations: Violations,
    missing_text: str | None,
) -> None:
    """Counts rows whose derived value is not the one that the rule gives. Rows with a bad source are left aside."""
    for derived in schema.derived:
        if derived.name not in batch.schema.names or not codes.keys() >= set(derived.sources):
            continue
        check_type(batch.column(derived.name).type, derived.name)
        with readable_column(derived.name):
            wrong = _wrong(batch, schema, codes, derived, missing_text)
        for name in derived.sources:
            if name in bad:
                wrong &= ~bad[name]
        if rows := int(np.count_nonzero(wrong)):
            violations.add_value(derived.name, DISAGREES, rows)


def _wrong(
    batch: pa.RecordBatch, schema: Schema, codes: Mapping[str, NDArray[Any]], derived: Derived, missing_text: str | None
) -> NDArray[np.bool_]:
    """Which rows disagree."""
    column = plain(batch.column(derived.name))
    column.validate(full=True)
    if derived.function == "sum":
        return _wrong_sums(batch, schema, codes, derived, _plain(column, missing_text))
    levels = [level_text(level) for level in derived.attribute(schema).levels]
    recorded = _plain(column, None if missing_text in levels else missing_text)
    cells = [] if missing_text is None else [as_cell(level) for level in levels]  # as a CSV file may hold them
    found = _numpy(
        pc.fill_null(pc.index_in(_texts(recorded), value_set=pa.array(levels + cells, pa.large_string())), -1)
    )
    places = np.where(_numpy(recorded.is_null()), len(levels), np.where(found < 0, -1, found % len(levels)))
    result: NDArray[np.bool_] = places != derived.codes(schema, codes)
    return result


def _wrong_sums(
    batch: pa.RecordBatch, schema: Schema, codes: Mapping[str, NDArray[Any]], derived: Derived, recorded: pa.Array
) -> NDArray[np.bool_]:
    """Compares with the sum of the data's own numbers, which a clipped value still has."""
    total = np.zeros(batch.num_rows)
    for name in derived.sources:
        amounts = _numbers(_plain(batch.column(name), None))
        amounts[codes[name] >= schema[name].bins] = np.nan  # special codes and missing
        total += amounts
    found = _numbers(recorded)
    present = ~_numpy(recorded.is_null())
    unreadable = present & np.isnan(found)
    differs = present & ~np.isnan(total) & (found != total)
    result: NDArray[np.bool_] = differs | unreadable | (present == np.isnan(total))
    return result


def _plain(array: pa.Array, missing_text: str | None) -> pa.Array:
    array = plain(array)
    if pa.types.is_dictionary(array.type):
        array = plain(array.dictionary_decode())
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
    if missing_text is not None and (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        array = pc.if_else(pc.equal(array, missing_text), None, array)
    return array


def _texts(array: pa.Array) -> pa.Array:
    if pa.types.is_null(array.type):
        return array.cast(pa.large_string())
    return canonical_texts(array)


def _numbers(array: pa.Array) -> NDArray[np.float64]:
    """Numbers as doubles, exact up to 2^53; anything else is NaN."""
    texts = _texts(array)
    values = [_number(text) for text in pc.unique(texts).to_pylist()]
    places = pc.index_in(texts, value_set=pc.unique(texts))
    result: NDArray[np.float64] = np.array(values, np.float64)[_numpy(places)]
    return result


def _number(text: str | None) -> float:
    try:
        return float("nan") if text is None else float(text)
    except ValueError:
        return float("nan")


def _numpy(array: pa.Array) -> NDArray[Any]:
    result: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return result
