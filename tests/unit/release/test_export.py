"""Exports: what goes out comes back with pyreadstat, labels and types included, and never into a release folder."""

from __future__ import annotations

import builtins
import datetime
import os

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyreadstat
import pytest

from understudy.api.exports import export
from understudy.core.schema import Attribute, Schema
from understudy.core.schema_file import parse_schema
from understudy.engines.systems.local.inputs import open_local
from understudy.errors import InputError, MissingExtraError, UnknownNameError
from understudy.release import read_release, wrap
from understudy.release.export import short_names, shortened

SCHEMA = parse_schema("""
version = 1
[[attribute]]
name = "sex"
label = "Sex at registration"
levels = [1, 2]
level_labels = ["male", "female"]
missing = true
[[attribute]]
name = "région of residence, as registered on the day"
levels = ["01", "02", ""]
[[attribute]]
name = "grade"
levels = ["low", "high"]
level_labels = ["up to nine years", "more"]
ordered = true
[[attribute]]
name = "works"
levels = [false, true]
missing = true
[[attribute]]
name = "born"
edges = [1900-01-01, 2000-01-01]
missing = true
[[attribute]]
name = "kids"
edges = [0, 20]
integer = true
special = { -8 = "refused" }
missing = true
[[attribute]]
name = "income"
edges = [0, 5000.5]
missing = true
[[derived]]
name = "sex in words"
label = "Sex, spelled out"
from = ["sex"]
function = "recode"
map = { 1 = "man", 2 = "woman" }
""")
LONG = "région of residence, as registered on the day"
FRAME = pd.DataFrame(
    {
        "sex": pd.array([1, 2, None, 2], "Int64"),
        LONG: ["02", "01", "", "01"],
        "grade": ["low", "high", "high", "low"],
        "works": pd.array([True, None, False, True], "boolean"),
        "born": [datetime.date(1900, 1, 1), None, datetime.date(1969, 12, 31), datetime.date(1999, 12, 31)],
        "kids": pd.array([0, -8, None, 20], "Int64"),
        "income": [0.1, 1234.5678901234567, None, 5000.5],
    }
)


@pytest.fixture
def release():
    return wrap(FRAME, SCHEMA)


@pytest.fixture
def folder(release, tmp_path):
    return release.write(tmp_path / "release")


def read_back(path):
    values, about = (pyreadstat.read_sav if path.suffix == ".sav" else pyreadstat.read_dta)(path, output_format="dict")
    return values, about


@pytest.mark.parametrize("to", ["sav", "dta"])
def test_what_goes_out_comes_back(to, folder):
    out = export(folder, to=to)
    assert out == folder.with_name(f"release-{to}")
    assert sorted(os.listdir(out)) == ["README.txt", f"synthetic_1.{to}"]
    values, about = read_back(out / f"synthetic_1.{to}")
    region = "r_gion_of_residence__as_registered_on_the_day"[: 64 if to == "sav" else 27]
    assert list(values) == ["sex", region, "grade", "works", "born", "kids", "income", "sex_in_words"]
    assert values["sex"] == [1, 2, None, 2]
    assert values[region] == [2, 1, 3, 1]
    assert values["grade"] == [1, 2, 2, 1]
    assert values["works"] == [1, None, 0, 1]
    assert values["born"] == list(FRAME["born"])
    assert values["kids"] == [0, -8, None, 20]
    assert values["income"] == [0.1, 1234.5678901234567, None, 5000.5]
    assert values["sex_in_words"] == [1, 2, None, 2]
    labels = about.column_names_to_labels
    assert labels["sex"] == "Sex at registration"
    assert labels[region] == LONG  # the name it had
    assert labels["sex_in_words"] == "Sex, spelled out"
    assert about.variable_value_labels == {
        "sex": {1: "male", 2: "female"},
        region: {1: "01", 2: "02", 3: "(empty text)"},
        "grade": {1: "low: up to nine years", 2: "high: more"},
        "works": {0: "false", 1: "true"},
        "kids": {-8: "refused"},
        "sex_in_words": {1: "man", 2: "woman"},
    }
    assert about.file_label.startswith("SYNTHETIC DATA")
    if to == "sav":
        assert about.variable_measure["grade"] == "ordinal"
        assert about.variable_measure["sex"] == "nominal"
        assert about.original_variable_types["sex"] == "F8.0"


@pytest.mark.parametrize("to", ["sav", "dta"])
def test_an_export_can_be_opened_by_its_codes(to, folder):
    """Where levels are whole numbers the exported file fits the very schema it came from."""
    schema = Schema(
        attributes=(SCHEMA["sex"], SCHEMA["kids"], SCHEMA["born"]),
        ignore=("works", "income", "grade", "sex_in_words", short_names([LONG], 64 if to == "sav" else 27)[LONG]),
    )
    source = open_local(export(folder, to=to) / f"synthetic_1.{to}", schema)
    assert [table.values.tolist() for table in source.count([("sex",), ("kids",), ("born",)])] == [
        [1, 2, 1],
        [2, 1, 1],
        [3, 1],
    ]


def test_csv(folder):
    out = export(folder, to="csv")
    kinds = {"sex": pa.int64(), LONG: pa.string(), "born": pa.date32(), "kids": pa.int64(), "sex in words": pa.string()}
    options = pyarrow.csv.ConvertOptions(column_types=kinds, strings_can_be_null=True, quoted_strings_can_be_null=False)
    table = pyarrow.csv.read_csv(out / "synthetic_1.csv", convert_options=options)
    release = read_release(folder)
    assert table.column_names == release.frame().column_names
    for name in table.column_names:
        assert table[name].to_pylist() == release.frame()[name].to_pylist()


def test_one_file_for_each_copy(tmp_path):
    release = wrap([FRAME, FRAME.iloc[:2]], SCHEMA)
    out = export(release, to="sav", out=tmp_path / "both")
    assert [len(read_back(out / f"synthetic_{copy}.sav")[0]["sex"]) for copy in (1, 2)] == [4, 2]


def test_somebody_elses_types(tmp_path):
    """Floats for whole numbers, NaN for missing: the file has the types of the schema all the same."""
    schema = Schema(attributes=(SCHEMA["sex"], SCHEMA["kids"]))
    release = wrap(pa.table({"sex": [1.0, float("nan")], "kids": [3.0, float("nan")]}), schema)
    values, _ = read_back(export(release, to="sav", out=tmp_path / "sav") / "synthetic_1.sav")
    assert values == {"sex": [1, None], "kids": [3, None]}
    text = (export(release, to="csv", out=tmp_path / "csv") / "synthetic_1.csv").read_text()
    assert text.splitlines()[1:] == ["1,3", ","]
    schema = Schema(attributes=(SCHEMA["kids"], SCHEMA["born"], SCHEMA["income"]))
    table = pa.table(
        {
            "kids": ["3.0", " 4 ", None],
            "born": pa.array([datetime.datetime(1950, 5, 1, 23, 59), None, datetime.datetime(1999, 1, 1)]),
            "income": pa.array(["1.50", None, "2"]).dictionary_encode(),
        }
    )
    values, _ = read_back(export(wrap(table, schema), to="dta", out=tmp_path / "dta") / "synthetic_1.dta")
    assert values["kids"] == [3, 4, None]
    assert values["born"] == [datetime.date(1950, 5, 1), None, datetime.date(1999, 1, 1)]
    assert values["income"] == [1.5, None, 2]


def test_a_release_without_rows(tmp_path):
    out = export(wrap(FRAME.iloc[:0], SCHEMA), to="dta", out=tmp_path / "none")
    assert read_back(out / "synthetic_1.dta")[1].number_rows == 0


@pytest.mark.parametrize("to", ["csv", "sav", "dta"])
def test_the_note_says_what_it_is(to, folder):
    text = (export(folder, to=to) / "README.txt").read_text()
    assert text.startswith("SYNTHETIC DATA. NO ROW IS A PERSON.")
    for line in read_release(folder).statement.lines():
        assert line in text
    assert "too narrow" in text
    assert "sex: Sex at registration [2 levels, may be missing]" in text
    assert "(derived: recode of sex)" in text
    assert "-8 = refused" in text
    assert ("1 = 01" in text) == (to != "csv")
    assert ("NAMES THAT WERE CHANGED" in text) == (to != "csv")
    if to != "csv":
        assert f"{short_names([LONG], 64 if to == 'sav' else 27)[LONG]}: {LONG}" in text


def test_an_export_stays_out_of_releases(folder, release, tmp_path):
    before = sorted(os.listdir(folder))
    for target in (folder, folder / "inside", folder / "a" / "b"):
        with pytest.raises(InputError, match="lies in the release"):
            export(folder, to="csv", out=target)
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(InputError, match="lies in the release"):
        export(folder, to="csv", out=link / "inside")
    assert sorted(os.listdir(folder)) == before
    export(folder, to="csv")
    with pytest.raises(InputError, match="already exists"):
        export(folder, to="csv")
    with pytest.raises(InputError, match="out= names a new folder"):
        export(release, to="csv")
    with pytest.raises(UnknownNameError, match="did you mean 'sav'"):
        export(folder, to="zav")
    with pytest.raises(InputError, match="not a release folder"):
        export(tmp_path / "nothing", to="csv")


def test_a_failed_export_leaves_nothing(folder, monkeypatch):
    original = builtins.__import__

    def absent(name, *rest, **options):
        if name == "pyreadstat":
            raise ImportError(name)
        return original(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", absent)
    before = sorted(os.listdir(folder.parent))
    with pytest.raises(MissingExtraError, match="pip install"):
        export(folder, to="sav")
    assert sorted(os.listdir(folder.parent)) == before


def test_names_are_short_valid_and_distinct():
    names = ["a" * 40, "a" * 41, "a" * 32, "A" * 32, "x", "X", "_n", "str5", "with", "1", "é", "è", "a.b", "a b", "v_1"]
    for length in (32, 64):
        short = short_names(names, length)
        assert list(short) == names
        assert len({name.lower() for name in short.values()}) == len(names)
        for old, new in short.items():
            assert len(new) <= length
            assert new.isascii()
            assert new[0].isalpha()
            assert new == old or old not in ("x", "v_1", "a" * 32)
        frame = pd.DataFrame({name: [1.0] for name in short.values()})
        assert list(frame) == list(short.values())
    many = [f"{'long name ' * 9}{number}" for number in range(1200)]
    assert len(set(short_names(many, 32).values())) == 1200


def test_labels_are_cut_between_characters():
    assert shortened("é" * 10, 20) == "é" * 10
    assert shortened("é" * 11, 20) == "é" * 8 + "..."
    assert shortened("two\nlines", 20) == "two lines"


def test_long_labels_and_large_codes(tmp_path):
    schema = Schema(
        attributes=(
            Attribute(name="place", label="é" * 300, levels=("x" * 200, "y"), level_labels=("long" * 50, "")),
            Attribute(name="id", levels=(1, 2**40), level_labels=("one", "many")),
        )
    )
    release = wrap(pa.table({"place": ["y", "x" * 200], "id": [2**40, 1]}), schema)
    for to in ("sav", "dta"):
        values, about = read_back(export(release, to=to, out=tmp_path / to) / f"synthetic_1.{to}")
        assert values == {"place": [2, 1], "id": [2**40, 1]}
        assert about.column_names_to_labels["place"].endswith("...")
        assert about.variable_value_labels["place"][2] == "y"
        assert about.variable_value_labels["id"][1] == "one"
