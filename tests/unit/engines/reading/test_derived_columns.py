"""Derived columns in data: absent, or checked row by row; and computed for what is released."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from understudy.core.schema_file import parse_schema
from understudy.engines.reading.decode import decode, restore_types
from understudy.engines.reading.encode import encode_table
from understudy.engines.systems.local.inputs import open_local
from understudy.errors import SchemaError
from understudy.privacy.randomness.streams import SeededStream

MARKER = "ZQ7secret"
SCHEMA = parse_schema("""
version = 1
[[attribute]]
name = "sex"
levels = [1, 2]
missing = true
[[attribute]]
name = "kids"
edges = [0, 2, 10]
integer = true
special = { -8 = "refused" }
outside = "clip"
[[attribute]]
name = "adults"
edges = [1, 10]
integer = true
missing = true
[[derived]]
name = "sex text"
from = ["sex"]
function = "recode"
map = { 1 = "man", 2 = "woman" }
[[derived]]
name = "kind"
from = ["sex", "kids"]
function = "cross"
cases = [{ when = { sex = 2, kids = { above = 2 } }, value = 7 }]
default = 0
[[derived]]
name = "people"
from = ["kids", "adults"]
function = "sum"
""")
GOOD = pd.DataFrame(
    {
        "sex": [1, 2, None, 2],
        "kids": [0, 3, -8, 12],  # 12 is clipped when it is counted
        "adults": [1, 2, 3, None],
        "sex text": ["man", "woman", None, "woman"],
        "kind": [0, 7, 0, 7],
        "people": [1, 5, None, None],
    }
)


def as_csv(frame, folder):
    path = folder / "a.csv"
    gaps = {name: "Int64" for name in ("sex", "adults", "people") if name in frame and frame[name].dtype == float}
    frame.astype(gaps).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_columns_that_agree_or_are_absent(kind, tmp_path):
    for frame in (GOOD, GOOD.drop(columns=["kind"]), GOOD[["sex", "kids", "adults"]], GOOD[GOOD.columns[::-1]]):
        data = frame if kind == "frame" else as_csv(frame, tmp_path)
        if kind == "parquet":
            data = tmp_path / "a.parquet"
            frame.to_parquet(data)
        source = open_local(data, SCHEMA)
        assert source.total() == 4
        assert source.count([("sex", "kids")])[0].values.sum() == 4
        assert source.schema.names == ("sex", "kids", "adults")


WRONG = {
    "another class": ("sex text", ["woman", "woman", None, "woman"], 1),
    "a class nobody knows": ("sex text", [MARKER, MARKER, None, "woman"], 2),
    "missing where it is not": ("sex text", ["man", None, None, "woman"], 1),
    "there where it is missing": ("sex text", ["man", "woman", "man", "woman"], 1),
    "a number": ("kind", [0, 0, 7, 7], 2),
    "a sum": ("people", [1, 6, None, None], 1),
    "a sum where there is none": ("people", [1, 5, 3, 12], 2),
    "a sum that is missing": ("people", [None, 5, None, None], 1),
    "a sum that is no number": ("people", [MARKER, "5", None, None], 1),
}


@pytest.mark.parametrize("kind", ["frame", "csv"])
@pytest.mark.parametrize("case", WRONG)
def test_columns_that_disagree(case, kind, tmp_path):
    name, values, rows = WRONG[case]
    frame = GOOD.assign(**{name: values})
    with pytest.raises(SchemaError) as caught:
        open_local(frame if kind == "frame" else as_csv(frame, tmp_path), SCHEMA).total()
    said = "1 row" if rows == 1 else f"{rows} rows"
    assert f"{name}: {said} with a value that disagrees with its rule" in str(caught.value)
    assert MARKER not in str(caught.value)


def test_columns_that_cannot_be_read():
    table = pa.Table.from_pandas(GOOD, preserve_index=False)
    place = table.column_names.index("kind")
    nested = table.set_column(place, "kind", pa.array([[1]] * 4))
    with pytest.raises(SchemaError, match="'kind' has the Arrow type list"):
        open_local(nested, SCHEMA).total()
    broken = pa.Array.from_buffers(pa.string(), 1, [*pa.array(["ab"]).buffers()[:2], pa.py_buffer(b"\xff\xfe")])
    garbled = table.set_column(place, "kind", pa.chunked_array([pa.concat_arrays([broken] * 4)]))
    with pytest.raises(SchemaError, match="'kind' cannot be read"):
        open_local(garbled, SCHEMA).total()


def test_a_listed_level_wins_over_the_missing_text(tmp_path):
    schema = parse_schema(
        'version = 1\n[[attribute]]\nname = "a"\nlevels = ["x", "y"]\n[[derived]]\nname = "b"\nfrom = ["a"]\n'
        'function = "recode"\nmap = { x = "", y = "NA" }'
    )
    (tmp_path / "a.csv").write_text("a,b\nx,\ny,NA\n")
    assert open_local(tmp_path / "a.csv", schema).total() == 2
    assert open_local(tmp_path / "a.csv", schema, missing_text="NA").total() == 2


def test_sums_with_decimal_commas(tmp_path):
    frame = GOOD.assign(people=["1,0", "5,0", None, None])
    frame.astype({"sex": "Int64", "adults": "Int64"}).to_csv(tmp_path / "a.csv", index=False, sep=";")
    assert open_local(tmp_path / "a.csv", SCHEMA, delimiter=";", decimal_comma=True).total() == 4
    with pytest.raises(SchemaError, match="people: 2 rows"):
        open_local(tmp_path / "a.csv", SCHEMA, delimiter=";").total()


def test_a_row_whose_source_is_bad_is_reported_once():
    frame = GOOD.assign(sex=[3, 2, None, 2])
    with pytest.raises(SchemaError) as caught:
        open_local(frame, SCHEMA).total()
    assert "sex: 1 row" in str(caught.value)
    assert "disagrees" not in str(caught.value)


def test_decoded_tables_have_the_derived_columns():
    base = GOOD[["sex", "kids", "adults"]].assign(kids=[0, 3, -8, 9])
    coded = encode_table(pa.Table.from_pandas(base, preserve_index=False), SCHEMA)
    table = decode(coded, SeededStream(1), "test")
    assert tuple(table.column_names) == SCHEMA.columns
    assert table["sex text"].to_pylist() == ["man", "woman", None, "woman"]
    assert table["kind"].to_pylist() == [0, 7, 0, 7]
    kids, adults = table["kids"].to_pylist(), table["adults"].to_pylist()
    assert table["people"].to_pylist() == [kids[0] + adults[0], kids[1] + adults[1], None, None]
    assert restore_types(table, SCHEMA).equals(table)
    np.testing.assert_array_equal(encode_table(table, SCHEMA).columns["sex"], coded.columns["sex"])


def test_a_table_whose_derived_column_was_changed_is_refused():
    base = GOOD[["sex", "kids", "adults"]]
    table = decode(encode_table(pa.Table.from_pandas(base, preserve_index=False), SCHEMA), SeededStream(1), "test")
    place = table.column_names.index("people")
    changed = table.set_column(place, "people", pa.array([99, 99, None, None]))
    with pytest.raises(SchemaError, match="people: 2 rows with a value that disagrees"):
        encode_table(changed, SCHEMA)


def test_a_table_without_rows():
    coded = encode_table(pa.Table.from_pandas(GOOD[["sex", "kids", "adults"]].iloc[:0], preserve_index=False), SCHEMA)
    table = decode(coded, SeededStream(1), "test")
    assert table.num_rows == 0
    assert tuple(table.column_names) == SCHEMA.columns
