"""Executes docs/tutorials/values.md: every row of its table, nothing more and nothing less."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from understudy.core.schema_file import parse_schema
from understudy.engines.systems.local.inputs import open_local
from understudy.errors import SchemaError

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorials" / "values.md"
ROWS = [
    tuple(cell.strip() for cell in line.strip("|\n").split("|"))
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| The column")
]


def series(values: list[object], dtype: object = None) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype=dtype)})


def arrow(values: pa.Array) -> pa.Table:
    return pa.table({"x": values})


VIENNA = pd.Series(pd.to_datetime(["2025-12-31T23:30:00Z"])).dt.tz_convert("Europe/Vienna")
COLUMNS: dict[str, Callable[[], object]] = {
    'pandas object `"a"`, `None`, `nan`': lambda: series(["a", None, float("nan")], object),
    'pandas `string` `"a"`, `pd.NA`': lambda: series(["a", pd.NA], "string"),
    'pandas object `""`': lambda: series([""], object),
    "pandas category of text, one missing": lambda: series(["a", None], "category"),
    "pandas category with an unused, unlisted category": lambda: series(
        ["a", "b"], pd.CategoricalDtype(["b", "z", "a"])
    ),
    "pandas category of integers": lambda: series([3, 1], "category"),
    "pandas `Int64` with `pd.NA`": lambda: series([3, pd.NA], "Int64"),
    "pandas `int64` 3": lambda: series([3], "int64"),
    "pandas `float64` 3.0 and `NaN` (integers with gaps)": lambda: series([3.0, np.nan], "float64"),
    "pandas `float64` 9.0 and infinity": lambda: series([9.0, np.inf], "float64"),
    "pandas `boolean` with `pd.NA`": lambda: series([True, pd.NA], "boolean"),
    "pandas `bool`": lambda: series([True, False], "bool"),
    "pandas `datetime64[ns]` with `NaT`": lambda: series([pd.Timestamp("2026-01-31 23:59"), pd.NaT], "datetime64[ns]"),
    "pandas `datetime64[ns, Europe/Vienna]`, 23:30 UTC on 31 December": lambda: pd.DataFrame({"x": VIENNA}),
    "polars `String` with null": lambda: pl.DataFrame({"x": ["b", None]}),
    "polars `Categorical` with null": lambda: pl.DataFrame({"x": pl.Series(["b", None], dtype=pl.Categorical)}),
    "polars `Date` before 1970": lambda: pl.DataFrame({"x": [datetime.date(1969, 12, 31)]}),
    "Arrow dictionary with a null in its dictionary": lambda: arrow(
        pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array([None, "a"]))
    ),
    "Arrow decimal 2.50": lambda: arrow(pa.array([Decimal("2.50")])),
    "Arrow decimal 3.00": lambda: arrow(pa.array([Decimal("3.00")])),
    "Arrow timestamp, one second before 1970": lambda: arrow(pa.array([-1], pa.timestamp("s"))),
    "Arrow column of type null": lambda: arrow(pa.nulls(1)),
    "Arrow run-end encoded text": lambda: arrow(pa.RunEndEncodedArray.from_arrays(pa.array([2]), pa.array(["b"]))),
    "Arrow list": lambda: arrow(pa.array([["a"]])),
}


def csv_case(cell: str, folder: Path) -> tuple[object, dict[str, str]]:
    """A CSV file with one value, and a second column so that an empty field is not an empty line."""
    value = re.match(r"CSV text `([^`]*)`", cell)
    path = folder / "one.csv"
    path.write_text(f"x,other\n{value[1] if value else ''},0\n", encoding="utf-8")
    option = re.search(r'`missing_text="([^"]*)"`', cell)
    return path, {"missing_text": option[1]} if option else {}


def test_every_case_is_documented():
    assert set(COLUMNS) == {row[0] for row in ROWS if not row[0].startswith("CSV")}
    assert len(ROWS) > 45


@pytest.mark.parametrize(("holds", "says", "read_as"), ROWS)
def test_row_of_the_table(holds, says, read_as, tmp_path):
    settings = "\n".join(re.findall(r"`([^`]*)`", says))
    schema = parse_schema(
        f'version = 1\n[[attribute]]\nname = "x"\nmissing = true\n{settings}\n[[ignore]]\ncolumns = ["other"]'
    )
    data, options = csv_case(holds, tmp_path) if holds.startswith("CSV") else (COLUMNS[holds](), {})
    source = open_local(data, schema, **options)
    if read_as.startswith("error: "):
        with pytest.raises(SchemaError, match=re.escape(read_as.removeprefix("error: "))):
            source.total()
        return
    expected = [""] if read_as == "the empty level" else re.split(r", ", read_as)
    (counts,) = source.count([("x",)])
    names = schema["x"].code_names
    assert {name: int(n) for name, n in zip(names, counts.values, strict=True) if n} == {
        name: expected.count(name) for name in expected
    }
