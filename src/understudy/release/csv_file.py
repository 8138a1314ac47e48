"""Tables as CSV files: plain values, lists in one cell, and no cell that a spreadsheet would compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from understudy.core.clock import clock_text
from understudy.core.spreadsheet import BEGINS, NUMBER, as_cell
from understudy.engines.reading.values import with_decimals


def csv_table(table: pa.Table) -> pa.Table:
    """A table as its CSV file holds it; see ``core.spreadsheet`` for texts and names that look like formulas."""
    columns = [_plain(column, field) for column, field in zip(table.columns, table.schema, strict=True)]
    return pa.table(columns, names=[as_cell(name) for name in table.column_names])


def write_csv(table: pa.Table, path: Path) -> None:
    """Every CSV file of tables is written here, or block by block by a ``CSVWriter`` of ``csv_table``."""
    pyarrow.csv.write_csv(csv_table(table), path)


def _plain(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    about = field.metadata or {}
    if b"clock" in about:
        return _as_times(column, about[b"clock"].decode(), {str(code) for code in json.loads(about[b"no_times"])})
    digits = about.get(b"decimals")
    if digits is not None and pa.types.is_floating(column.type):
        return with_decimals(column, int(digits))
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_nested(column.type):
        column = pa.chunked_array([[_joined(value) for value in column.to_pylist()]], pa.string())
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    formula = pc.and_not(
        pc.match_substring_regex(column, f"^{BEGINS}"), pc.match_substring_regex(column, f"^({NUMBER})$")
    )
    if not pc.any(formula).as_py():
        return column
    return pc.if_else(formula, pc.binary_join_element_wise("'", column, "", null_handling="emit_null"), column)


def _as_times(column: pa.ChunkedArray, clock: str, others: set[str]) -> pa.ChunkedArray:
    """Numbers of minutes or seconds as they are written; special codes stay as they are."""
    texts = column.cast(pa.string())
    told = {
        text: clock_text(int(text), clock) if text not in others and text.isdigit() else text
        for text in pc.unique(texts).to_pylist()
        if text is not None
    }
    return pa.chunked_array([[None if text is None else told[text] for text in texts.to_pylist()]], pa.string())


def _joined(value: Any) -> str:
    return ", ".join(map(str, value or ()))
