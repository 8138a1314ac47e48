"""How files are written: every text that can be read is read right, and what is unclear is not read."""

from __future__ import annotations

import pytest

import understudy as us
from understudy.core.file_format import THOUSANDS, Written
from understudy.core.schema_file import parse_schema, write_schema
from understudy.errors import SchemaError

STYLES = [(decimal, mark) for decimal in ".," for mark in THOUSANDS if mark != decimal]


@pytest.mark.parametrize(("decimal", "mark"), STYLES)
def test_numbers_written_in_a_style_are_read_back(decimal, mark):
    written = Written(kind="numeric", decimal=decimal, thousands=mark)
    for number in (0, 7, 999, 1000, 12345, 1234567, -4321, 0.5, 12.25, 1234.5, -1234567.125):
        text = f"{number:,}".replace(",", "_").replace(".", decimal).replace("_", mark)
        assert float(written(text)) == number
        assert float(written(f"  {text} ")) == number
        assert float(written(str(number).replace(".", decimal))) == number  # marks may be left out


@pytest.mark.parametrize(
    ("decimal", "mark", "text"),
    [
        (",", "", "1.500"), (",", "", "1.5"), (",", ".", "1.50"), (",", ".", "12.3456"), (".", "", "1,5"),
        (".", ",", "1,50"), (".", ",", "1,2345"), (".", "'", "1'00"), (".", "", "x"), (",", ".", "1,2,3"),
    ],
)  # fmt: skip
def test_numbers_that_could_mean_something_else_are_not_read(decimal, mark, text):
    with pytest.raises(ValueError, match="could not convert"):
        float(Written(kind="numeric", decimal=decimal, thousands=mark)(text))


def test_days():
    day_first, month_first = (Written(kind="date", dates=order) for order in ("dmy", "mdy"))
    assert day_first("3.4.2024") == month_first("4/3/2024") == "2024-04-03"
    assert day_first("17-11-2026") == "2026-11-17"
    assert day_first("2024-04-03") == "2024-04-03"
    assert day_first("3.4.24") == "3.4.24"  # which century is not said


def test_levels():
    written = Written(
        kind="levels",
        own=("male", "NA"),
        missing=("NA", "k.A."),
        spellings=(("M", "male"),),
        trim=True,
        ignore_case=True,
    )
    assert [written(text) for text in ("M", "M ", "MALE", " male", "NA", "k.A.", "other ")] == [
        "male", "male", "male", "male", "NA", None, "other",
    ]  # fmt: skip


FILE = us.FileFormat(
    delimiter=";", encoding="latin-1", decimal=",", thousands=".", missing_values=("", "k.A."), dates="dmy", trim=True,
    ignore_case=True, columns={"sex": us.ColumnFormat(spellings={"M": "male"}, missing_values=("9",))},
)  # fmt: skip
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("female", "male"), missing=True),
        us.Attribute(name="pay", edges=(0, 5000), decimals=2, missing=True),
    ),
    file=FILE,
)


def test_it_survives_a_schema_file_and_is_no_part_of_the_fingerprint():
    again = parse_schema(write_schema(SCHEMA))
    assert again.file == FILE
    assert again.fingerprint == us.Schema(attributes=SCHEMA.attributes).fingerprint


def test_a_file_is_read_as_declared(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("sex;pay\r\nM;1.234,50\nFEMALE ;k.A.\r\n9;12\n".encode("latin-1"))
    table, rows = us.open_source(path, SCHEMA).confidential_table()
    assert table.columns["sex"].tolist() == [1, 0, 2]
    assert rows.column("pay").to_pylist() == ["1234.50", None, "12"]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('decimal = ";"', "a point or a comma"),
        ('decimal = ","\nthousands = ","', "they must differ"),
        ('delimiter = ";;"', "one character"),
        ('dates = "ydm"', "ymd"),
        ('missing_values = "NA"', "list of texts"),
        ("trim = 1", "true or false"),
        ('comma = ","', "comma"),
        ('[file.columns.nobody]\ndecimal = ","', "nobody"),
        ('[file.columns.sex]\nspellings = { M = "man" }', "man"),
        ('[file.columns.sex]\nspellings = { male = "female" }', "is a level and a spelling"),
        ('[file.columns.pay]\nspellings = { M = "male" }', "'pay' has none"),
    ],
)
def test_what_cannot_be_declared(table, says):
    attributes = write_schema(us.Schema(attributes=SCHEMA.attributes)).partition("version = 1\n")[2]
    with pytest.raises(SchemaError, match=says):
        parse_schema(f"version = 1\n[file]\n{table}\n{attributes}")
