"""CSV files as they come: mixed encodings, decimal commas, dates in several formats, workbooks with a wrong ending."""

from __future__ import annotations

import datetime
import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from understudy.core.schema import Attribute, Schema
from understudy.engines.systems.local.inputs import open_local
from understudy.errors import InputError, SchemaError

MARKER = "ZQ7secret"
AGE = Schema(attributes=(Attribute(name="age", edges=(0, 10.5, 100), missing=True),), ignore=("note",))
BORN = Schema(attributes=(Attribute(name="born", edges=(datetime.date(1990, 1, 1), datetime.date(2030, 1, 1))),))


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(data, schema, error=InputError, **options):
    with pytest.raises(error) as caught:
        open_local(data, schema, **options).total()
    assert MARKER not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
def test_mixed_encodings_are_told_from_one_wrong_encoding(packed, tmp_path):
    lines = ["age,note", "1,caf\u00e9", "2,na\u00efve", f"3,{MARKER}"]
    good = "\n".join(lines).encode()
    mixed = good + b"\n4,caf\xe9 " + MARKER.encode() + b"\n"
    name, pack = ("a.csv.gz", gzip.compress) if packed else ("a.csv", bytes)
    message = refused(write(tmp_path / name, pack(mixed)), Schema(attributes=(*AGE.attributes, note())))
    assert "mixes encodings. 1 line(s) are not UTF-8 and 2 are" in message
    latin = "\n".join(lines).encode("latin-1")
    message = refused(write(tmp_path / name, pack(latin)), Schema(attributes=(*AGE.attributes, note())))
    assert "not UTF-8 text (2 line(s)); say how its letters are written" in message


def note():
    return Attribute(name="note", levels=("a", "b"))


COMMAS = 'age;note\n10,4;a\n10,5;a\n"100,0";a\n,5;a\n 7;a\n;a\n1,0e1;a\n+3,;a\n'


def test_decimal_commas_on_request(tmp_path):
    path = write(tmp_path / "a.csv", COMMAS)
    source = open_local(path, AGE, delimiter=";", decimal_comma=True)
    assert source.count([("age",)])[0].values.tolist() == [5, 2, 1]
    message = refused(path, AGE, SchemaError, delimiter=";")
    assert "age: 6 rows with a value that is not a number" in message
    assert "decimal_comma=True (--decimal ,)" in message


@pytest.mark.parametrize("text", ["1.500", "1.500,0", "1,5,0", "1'500,0", MARKER])
def test_a_point_beside_decimal_commas_is_not_guessed_at(text, tmp_path):
    path = write(tmp_path / "a.csv", f"age;note\n{text};a\n")
    assert "age: 1 row with a value that is not a number" in refused(
        path, AGE, SchemaError, delimiter=";", decimal_comma=True
    )


def test_decimal_commas_leave_levels_and_missing_texts_alone(tmp_path):
    schema = Schema(attributes=(*AGE.attributes, Attribute(name="note", levels=("1,5", "2.5"))))
    path = write(tmp_path / "a.csv", "age;note\n.;1,5\n11,5;2.5\n")
    source = open_local(path, schema, delimiter=";", decimal_comma=True, missing_text=".")
    assert source.count([("age",), ("note",)])[0].values.tolist() == [0, 1, 1]
    assert source.count([("note",)])[0].values.tolist() == [1, 1]
    path = write(tmp_path / "b.csv", "age;note\n-9,5;1,5\n")
    assert open_local(path, schema, delimiter=";", decimal_comma=True, missing_text="-9,5").total() == 1


def test_decimal_commas_go_with_csv(tmp_path):
    assert "goes with CSV" in refused(pd.DataFrame({"age": [1.5]}), AGE, decimal_comma=True)


def test_unquoted_decimal_commas_between_commas(tmp_path):
    message = refused(write(tmp_path / "a.csv", "age,note\n10,4,a\n1,a\n"), AGE)
    assert "1 row(s) do not have the 2 fields" in message
    assert "decimal commas" in message


def test_dates_in_several_formats_are_counted(tmp_path):
    dates = ["2026-01-31", "31.01.2026", "01/31/2026", "20260131", "2026-02-30", "31 Jan 2026", "46053"]
    message = refused(write(tmp_path / "a.csv", "\n".join(["born", *dates])), BORN, SchemaError)
    assert "born: 6 rows with a value that is not a date (YYYY-MM-DD)" in message
    assert "dates are written with the year first, or in the one order" in message
    assert not any(text in message for text in dates)


def test_a_workbook_with_the_ending_of_a_text_file(tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as workbook:
        workbook.writestr("xl/workbook.xml", MARKER)
    assert "Excel" in refused(write(tmp_path / "a.csv", content.getvalue()), AGE)
    assert "Excel" in refused(write(tmp_path / "b.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)), AGE)


def test_other_files_with_the_ending_of_a_text_file(tmp_path):
    frame = pd.DataFrame({"age": np.arange(3.0)})
    frame.to_parquet(tmp_path / "a.parquet")
    assert ".parquet" in refused((tmp_path / "a.parquet").rename(tmp_path / "a.csv"), AGE)
    assert ".gz" in refused(write(tmp_path / "b.csv", gzip.compress(b"age\n1\n")), AGE)
