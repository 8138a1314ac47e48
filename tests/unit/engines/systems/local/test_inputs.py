"""Opening data: every kind that is read, every kind that is refused, and never a value in a message."""

from __future__ import annotations

import gzip
import os
import pickle
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from understudy.core.schema import Attribute, Schema
from understudy.core.schema_file import parse_schema
from understudy.engines.engine import Engine, engines
from understudy.engines.systems.local.inputs import open_local
from understudy.errors import DisclosureError, InputError, SchemaError, UnsupportedError

MARKER = "ZQ7secret"
SCHEMA = parse_schema("""
version = 1
[[attribute]]
name = "sex"
levels = ["F", "M"]
[[attribute]]
name = "age"
edges = [16, 28, 97]
integer = true
[[attribute]]
name = "work"
levels = ["yes", "no"]
missing = true
[[impossible]]
age = { below = 28 }
work = ["no"]
""")
CSV = "sex,age,work\nF,20,yes\nM,97,no\nF,28,\nF,16,yes\n"
EXPECTED = [[[2, 0, 0], [0, 0, 1]], [[0, 0, 0], [0, 1, 0]]]


def frame():
    return pd.DataFrame({"sex": ["F", "M", "F", "F"], "age": [20, 97, 28, 16], "work": ["yes", "no", None, "yes"]})


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(data, error=InputError, schema=SCHEMA, **options):
    """The message of the refusal, at opening or at the first scan."""
    with pytest.raises(error) as caught:
        open_local(data, schema, **options).total()
    message = str(caught.value)
    assert MARKER not in message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None  # no hidden text in a traceback either
    return message


def good(kind, folder):
    if kind == "csv":
        return write(folder / "a.csv", CSV), {}
    if kind == "csv with carriage returns and BOM":
        return write(folder / "a.csv", b"\xef\xbb\xbf" + CSV.replace("\n", "\r\n").encode()), {}
    if kind == "csv without a last newline":
        return write(folder / "a.csv", CSV.rstrip("\n")), {}
    if kind == "csv with blank lines at the end":
        return write(folder / "a.csv", CSV + "\n\n"), {}
    if kind == "csv with everything quoted":
        quoted = "\n".join(",".join(f'"{v}"' for v in line.split(",")) for line in CSV.splitlines())
        return write(folder / "a.csv", quoted), {}
    if kind == "csv.gz":
        return write(folder / "a.csv.gz", gzip.compress(CSV.encode())), {}
    if kind == "tsv":
        return write(folder / "a.tsv", CSV.replace(",", "\t")), {}
    if kind == "semicolons":
        return write(folder / "a.csv", CSV.replace(",", ";")), {"delimiter": ";"}
    if kind in ("parquet", "text path", "list", "glob", "glob characters in the name"):
        path = folder / ("a[1].parquet" if kind.startswith("glob ch") else "a.parquet")
        frame().iloc[:3].to_parquet(path) if kind in ("list", "glob") else frame().to_parquet(path)
        if kind in ("list", "glob"):
            frame()[["work", "age", "sex"]].iloc[3:].to_parquet(folder / "b.parquet")
        return {"list": [path, folder / "b.parquet"], "glob": str(folder / "*.parquet"), "text path": str(path)}.get(
            kind, path
        ), {}
    if kind in ("database table", "database query", "database view"):
        path, people = folder / "it's.duckdb", frame()
        with duckdb.connect(str(path)) as connection:
            connection.register("people", people)
            connection.execute('CREATE TABLE "the ""people" AS SELECT * FROM people')
            connection.execute('CREATE SCHEMA s; CREATE VIEW s.v AS SELECT * FROM "the ""people"')
        options = {
            "database table": {"table": 'the "people'},
            "database view": {"table": "s.v"},
            "database query": {"query": 'SELECT * FROM "the ""people" ORDER BY random() ;\n'},
        }
        return path, options[kind]
    frames = {
        "pandas": frame,
        "pandas filtered": lambda: pd.concat([frame(), frame()]).iloc[:4],
        "pandas categories": lambda: frame().astype({"sex": "category", "work": "category"}),
        "polars": lambda: pl.from_pandas(frame()),
        "arrow table": lambda: pa.Table.from_pandas(frame(), preserve_index=False),
        "arrow batch": lambda: pa.RecordBatch.from_pandas(frame(), preserve_index=False),
        "arrow stream read once": lambda: pa.Table.from_pandas(frame(), preserve_index=False).to_reader(),
    }
    return frames[kind](), {}


KINDS = [
    *("csv", "csv with carriage returns and BOM", "csv without a last newline", "csv with blank lines at the end"),
    *("csv with everything quoted", "csv.gz", "tsv", "semicolons", "parquet", "text path", "list", "glob"),
    *("glob characters in the name", "database table", "database view", "database query", "pandas"),
    *("pandas filtered", "pandas categories", "polars", "arrow table", "arrow batch", "arrow stream read once"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_counts_again_and_again(kind, tmp_path):
    data, options = good(kind, tmp_path)
    source = open_local(data, SCHEMA, **options)
    for _ in range(2):
        full, work_by_sex, total = source.count([("sex", "age", "work"), ("work", "sex"), ()])
        np.testing.assert_array_equal(full.values, EXPECTED)
        np.testing.assert_array_equal(work_by_sex.values, np.array(EXPECTED).sum(axis=1).T)
        assert total.values == source.total() == 4
    assert repr(source) == "LocalSource(3 attributes, confidential)"
    assert str(tmp_path) not in repr(source)
    with pytest.raises(DisclosureError):
        pickle.dumps(source)


def test_one_database_can_be_opened_twice(tmp_path):
    path, options = good("database table", tmp_path)
    sources = [open_local(path, SCHEMA, **options) for _ in range(2)]
    assert [source.total() for source in sources] == [4, 4]


def test_the_engine_is_registered():
    assert engines.names() == ("local", "spark")
    assert isinstance(open_local(frame(), SCHEMA), engines["local"])
    assert isinstance(open_local(frame(), SCHEMA), Engine)


BAD_ROWS = {
    "unknown level": (f"{MARKER},20,yes", "sex: 1 row with a level that is not listed"),
    "out of range": ("F,98,yes", "age: 1 row with a value outside the edges"),
    "below the range": ("F,15,yes", "age: 1 row with a value outside the edges"),
    "missing where not allowed": (",20,yes", "sex: 1 row with a missing value where none is allowed"),
    "missing number where not allowed": ("F,,yes", "age: 1 row with a missing value where none is allowed"),
    "not a number": (f"F,{MARKER},yes", "age: 1 row with a value that is not a number"),
    "not whole": ("F,20.5,yes", "age: 1 row with a value that is not a whole number"),
    "structural zero": ("F,20,no", "impossible (age below 28 and work in (no)): 1 row"),
    "case differs": ("f,20,yes", "sex: 1 row with a level that is not listed"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_rows_that_do_not_fit(case, tmp_path):
    row, message = BAD_ROWS[case]
    assert message in refused(write(tmp_path / "a.csv", f"{CSV}{row}\n"), SchemaError)


def test_all_violations_of_the_whole_source_are_reported_at_once(tmp_path):
    files = [
        write(tmp_path / "1.csv", CSV + "".join(f"{MARKER}{i},20,yes\n" for i in range(1500))),
        write(tmp_path / "2.csv", f"{CSV}F,{MARKER},no\nF,200,{MARKER}\n,20,no\n{MARKER},20,no\n"),
    ]
    message = refused(files, SchemaError)
    for part in (
        "sex: 1,501 rows with a level that is not listed",
        "sex: 1 row with a missing value",
        "age: 1 row with a value that is not a number",
        "age: 1 row with a value outside the edges",
        "work: 1 row with a level that is not listed",
        "impossible (age below 28 and work in (no)): 2 rows",  # not the row whose age is no number
    ):
        assert part in message


def test_a_source_that_does_not_fit_never_answers(tmp_path):
    source = open_local(write(tmp_path / "a.csv", f"{CSV}{MARKER},20,yes\n"), SCHEMA)
    for ask in (source.total, lambda: source.count([("sex",)]), lambda: source.count_sparse(("sex",)), source.total):
        with pytest.raises(SchemaError):
            ask()


COLUMNS = {
    "unlisted": ("sex,age,work,name", 'columns = ["name"]'),
    "duplicate": ("sex,age,work,sex", "column 'sex' occurs twice"),
    "absent": ("sex,age,wrok", "did you mean 'wrok'?"),
    "case": ("Sex,age,work", "'sex' is unknown"),
    "empty names": ("sex,,age,,work", "a name is empty"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_must_be_those_of_the_schema(case, tmp_path):
    header, message = COLUMNS[case]
    row = ",".join([MARKER] * (header.count(",") + 1))
    assert message in refused(write(tmp_path / "a.csv", f"{header}\n{row}\n"))


def test_a_delimiter_is_taken_from_the_first_line_unless_it_was_said(tmp_path):
    path = write(tmp_path / "a.csv", "sex;age;work\nF;20;yes\n")
    assert open_local(path, SCHEMA).total() == 1
    with pytest.raises(InputError, match="try the delimiter ';'"):
        open_local(path, SCHEMA, delimiter=",")
    one = Schema(attributes=(Attribute(name="a;b", levels=("x",)),))
    assert open_local(write(tmp_path / "b.csv", "a;b\nx\n"), one).total() == 1  # a name that is expected is a name


def test_the_column_of_row_numbers_without_a_name(tmp_path):
    path = write(tmp_path / "a.csv", ",sex,age,work\n1,F,20,yes\n2,M,30,no\n")
    assert 'columns = ["unnamed"]' in refused(path)
    assert open_local(path, replace(SCHEMA, ignore=("unnamed",))).total() == 2


def test_nothing_is_missing_too_where_a_text_stands_for_it(tmp_path):
    maybe = Schema(
        attributes=(Attribute(name="sex", levels=("F", "M"), missing=True), Attribute(name="x", levels=(1,)))
    )
    path = write(tmp_path / "a.csv", "sex,x\nF,1\nNA,1\n,1\n")
    assert open_local(path, maybe, missing_text="NA").count([("sex",)])[0].values.tolist() == [1, 0, 2]
    listed = Schema(attributes=(Attribute(name="sex", levels=("F", ""), missing=True), maybe.attributes[1]))
    assert open_local(path, listed, missing_text="NA").count([("sex",)])[0].values.tolist() == [1, 1, 1]


def test_duplicate_columns_of_frames_and_files(tmp_path):
    table = pa.table([pa.array([MARKER])] * 4, names=["sex", "age", "work", "sex"])
    assert "occurs twice" in refused(table, SchemaError)
    pq.write_table(table, tmp_path / "a.parquet")
    assert "occurs twice" in refused(tmp_path / "a.parquet", SchemaError)
    refused(pd.DataFrame([[MARKER] * 4], columns=["sex", "age", "work", "sex"]))


def test_ignored_columns_are_not_read(tmp_path):
    schema = Schema(attributes=SCHEMA.attributes, ignore=("name",))
    path = write(tmp_path / "a.csv", 'sex,age,name,work\nF,20,"' + MARKER + ', x\ny",yes\n')
    assert open_local(path, schema).total() == 1


FILES = {
    "empty": (b"", "is empty"),
    "not UTF-8": (b"sex,age,work\nF,20,\xff" + MARKER.encode() + b"\n", "not UTF-8"),
    "UTF-16": ("sex,age,work\n".encode("utf-16"), "UTF-16"),
    "row too long": (f"sex,age,work\nF,20,yes,{MARKER}\nF,20,yes\n", "1 row(s) do not have the 3 fields"),
    "row too short": (f"sex,age,work\n{MARKER}\nF,20,yes\n", "1 row(s) do not have the 3 fields"),
    "ragged only at the end": (f"{CSV * 1}{MARKER},20", "1 row(s) do not have the 3 fields"),
    "open quotation mark": (f'{CSV}F,20,"{MARKER}\nF,20,yes\nF,20,yes\n', "quotation mark"),
}


@pytest.mark.parametrize("case", FILES)
def test_csv_files_that_cannot_be_read(case, tmp_path):
    content, message = FILES[case]
    assert message in refused(write(tmp_path / "a.csv", content))


def test_an_open_quotation_mark_in_an_ignored_column_loses_no_row(tmp_path):
    schema = Schema(attributes=SCHEMA.attributes, ignore=("note",))
    text = f'sex,age,work,note\nF,20,yes,"{MARKER}\nF,20,yes,a\nF,20,yes,b\n'
    assert "quotation mark" in refused(write(tmp_path / "a.csv", text), schema=schema)


@pytest.mark.parametrize("keep", [0, 3, 10, 200, -8, -1])
def test_parquet_cut_short(keep, tmp_path):
    frame().to_parquet(tmp_path / "whole.parquet")
    path = write(tmp_path / "a.parquet", (tmp_path / "whole.parquet").read_bytes()[:keep])
    assert "cannot be read as Parquet" in refused(path)


def test_parquet_damaged_inside(tmp_path):
    table = pa.table({"sex": ["F", "M"] * 5000, "age": [20, 30] * 5000, "work": ["yes", "no"] * 5000})
    pq.write_table(table, tmp_path / "whole.parquet", compression="zstd")
    content = bytearray((tmp_path / "whole.parquet").read_bytes())
    content[4:200] = bytes(196)
    refused(write(tmp_path / "a.parquet", bytes(content)))


def test_damaged_gzip(tmp_path):
    refused(write(tmp_path / "a.csv.gz", gzip.compress(CSV.encode() * 2000)[:60]))
    refused(write(tmp_path / "b.csv.gz", CSV))


def test_paths_that_are_no_files(tmp_path):
    assert "give a file or a glob" in refused(tmp_path)
    assert "does not exist" in refused(tmp_path / "none.csv")
    assert "no file matches" in refused(tmp_path / "*.csv")
    assert "empty" in refused([])
    os.mkfifo(tmp_path / "pipe.csv")
    assert "not a regular file" in refused(tmp_path / "pipe.csv")
    for ending, advice in {
        "xlsx": "save the sheet as CSV",
        "rds": "Parquet or CSV",
        "pkl": "convert",
        "gz": "convert",
    }.items():
        assert advice in refused(write(tmp_path / f"a.{ending}", MARKER), UnsupportedError)
    write(tmp_path / "a.csv", CSV)
    frame().to_parquet(tmp_path / "a.parquet")
    assert "one kind" in refused([tmp_path / "a.csv", tmp_path / "a.parquet"])
    write(tmp_path / "b.csv", "sex,age\n")
    assert "must agree" in refused([tmp_path / "a.csv", tmp_path / "b.csv"])


def test_a_file_that_may_not_be_read(tmp_path):
    path = write(tmp_path / "a.csv", CSV)
    path.chmod(0)
    if os.access(path, os.R_OK):  # the superuser may read everything, and must then succeed
        assert open_local(path, SCHEMA).total() == 4
    else:
        assert "may not be read" in refused(path)


def test_databases(tmp_path):
    path, _ = good("database table", tmp_path)
    assert "either table= or query=" in refused(path)
    assert "either table= or query=" in refused(path, table="a", query="SELECT 1")
    assert "did you mean" in refused(path, table="the people")
    for query in ("DROP TABLE x", "SELECT 1; SELECT 2", "SELEC 1", ""):
        assert "one SELECT statement" in refused(path, query=query)
    assert "BinderException" in refused(path, query=f"SELECT '{MARKER}'::INT + nowhere")
    failing = (
        f"SELECT 'F' AS sex, 20 AS age, CAST(concat('{MARKER}', sex) AS INT)::TEXT AS work FROM \"the \"\"people\""
    )
    assert "ConversionException" in refused(path, query=failing)
    assert "cannot be opened as a DuckDB" in refused(write(tmp_path / "a.db", MARKER * 1000), table="x")
    assert "not several" in refused([path, path], table="x")


def test_frames_that_cannot_be_handed_over():
    mixed = pd.DataFrame({"sex": [MARKER, 3, b"x"], "age": [1, 2, 3], "work": [None, None, None]})
    assert "mixed types" in refused(mixed)
    assert "collect() first" in refused(pl.from_pandas(frame()).lazy(), UnsupportedError)
    assert "dict" in refused({"sex": [MARKER]}, UnsupportedError)
    assert "must be a schema" in refused(frame(), schema={"a": 1})


def test_options_that_do_not_apply_are_refused(tmp_path):
    assert "goes with CSV" in refused(frame(), missing_text="NA")
    assert "goes with CSV" in refused(frame(), delimiter=";")
    assert "goes with a DuckDB" in refused(frame(), table="x")
    assert "goes with a DuckDB" in refused(write(tmp_path / "a.csv", CSV), query="SELECT 1")
    assert "one character" in refused(write(tmp_path / "a.csv", CSV), delimiter=";;")


@pytest.mark.parametrize("text", ["sex,age,work", "sex,age,work\n", "sex,age,work\r\n\r\n"])
def test_zero_rows(text, tmp_path):
    source = open_local(write(tmp_path / "a.csv", text), SCHEMA)
    assert source.total() == 0
    assert source.count([("sex", "age")])[0].values.tolist() == [[0, 0], [0, 0]]
    assert open_local(frame().iloc[:0], SCHEMA).total() == 0


def test_one_row(tmp_path):
    assert open_local(write(tmp_path / "a.csv", "sex,age,work\nM,97,no"), SCHEMA).count([("sex",)])[
        0
    ].values.tolist() == [0, 1]


def test_an_empty_line_is_a_missing_value_only_in_a_file_of_one_column(tmp_path):
    schema = Schema(attributes=(Attribute(name="sex", levels=("F", "M"), missing=True),))
    source = open_local(write(tmp_path / "a.csv", "sex\nF\n\n\nM\n"), schema)
    assert source.count([("sex",)])[0].values.tolist() == [1, 1, 2]
    assert open_local(write(tmp_path / "b.csv", "sex\n\n"), schema).total() == 1


def test_ten_thousand_levels(tmp_path):
    levels = tuple(f"L{i:05d}" for i in range(10_000))
    schema = Schema(attributes=(Attribute(name="x", levels=levels), Attribute(name="y", levels=(0, 1))))
    rows = "".join(f"{level},{i % 2}\n" for i, level in enumerate(levels * 2))
    one, two = open_local(write(tmp_path / "a.csv", "x,y\n" + rows), schema).count([("x",), ("x", "y")])
    assert (one.values == 2).all()
    assert two.values.shape == (10_000, 2)
    assert (two.values[::2, 0] == 2).all()
    assert two.values[::2, 1].sum() == 0
