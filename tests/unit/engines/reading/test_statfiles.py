"""Files of Stata, SPSS and SAS: codes and not labels, what is missing, dates, chunks, and damaged files."""

from __future__ import annotations

import builtins
import datetime
import inspect

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from understudy.core.schema_file import parse_schema
from understudy.engines.reading import statfiles
from understudy.engines.systems.local.inputs import open_local
from understudy.errors import InputError, MissingExtraError, SchemaError, UnsupportedError
from understudy.privacy.promise.definition import Unit
from understudy.privacy.randomness.streams import SeededStream

MARKER = "ZQ7secret"
SCHEMA = parse_schema("""
version = 1
[[attribute]]
name = "sex"
levels = [1, 2]
missing = true
[[attribute]]
name = "born"
edges = [1900-01-01, 1960-01-01, 2000-01-01]
missing = true
[[attribute]]
name = "income"
edges = [0, 1000, 5000]
special = { -8 = "refused" }
missing = true
[[attribute]]
name = "region"
levels = ["01", "02"]
missing = true
[[ignore]]
columns = ["name"]
""")
FRAME = pd.DataFrame(
    {
        "sex": [1.0, 2.0, 9.0, np.nan, 1.0],
        "born": [datetime.date(1959, 12, 31), datetime.date(1960, 1, 1), None, None, datetime.date(1900, 1, 1)],
        "income": [999.5, 1000.0, np.nan, -8.0, 5000.0],
        "region": ["01", "02", "", "01", "02"],
        "name": [MARKER] * 5,
    }
)
LABELS = {"sex": {1: "male", 2: "female", 9: "no answer"}}
EXPECTED = {"sex": [2, 1, 2], "born": [2, 1, 2], "income": [1, 2, 1, 1], "region": [2, 2, 1]}


def write(path, frame=FRAME, **options):
    if path.suffix == ".dta":
        # Stata writes a user's missing value as a letter, in a column of whole numbers.
        sex = pd.Series([None if pd.isna(v) else "b" if v == 9 else int(v) for v in frame["sex"]], dtype=object)
        labels = {"sex": {1: "male", 2: "female", "b": "no answer"}}
        pyreadstat.write_dta(
            frame.assign(sex=sex), path, variable_value_labels=labels, missing_user_values={"sex": ["b"]}, **options
        )
    else:
        options = {"missing_ranges": {"sex": [9]}, "compress": path.suffix == ".zsav", **options}
        pyreadstat.write_sav(frame, path, variable_value_labels=LABELS, **options)
    return path


def counts(source, names=tuple(EXPECTED)):
    return {name: table.values.tolist() for name, table in zip(names, source.count([(n,) for n in names]), strict=True)}


def refused(data, error=InputError, schema=SCHEMA, **options):
    with pytest.raises(error) as caught:
        open_local(data, schema, **options).total()
    assert MARKER not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


@pytest.mark.parametrize("ending", ["dta", "sav", "zsav"])
def test_codes_missing_values_dates_and_texts(ending, tmp_path):
    source = open_local(write(tmp_path / f"a.{ending}"), SCHEMA)
    for _ in range(2):
        assert counts(source) == EXPECTED
    assert source.total() == 5


@pytest.mark.parametrize("ending", ["dta", "sav"])
def test_a_file_is_read_in_chunks_and_in_order(ending, tmp_path, monkeypatch):
    monkeypatch.setattr(statfiles, "LEAST_CHUNK", 2)
    monkeypatch.setattr(statfiles, "CHUNK_VALUES", 2)
    reader = statfiles.StatReader([str(write(tmp_path / f"a.{ending}"))])
    batches = list(reader.batches(["region", "sex"]))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert [value for batch in batches for value in batch.column("region").to_pylist()] == list(FRAME["region"])
    assert batches[0].schema.names == ["region", "sex"]
    assert counts(open_local(tmp_path / f"a.{ending}", SCHEMA)) == EXPECTED


def test_several_files_are_one_table(tmp_path):
    paths = [write(tmp_path / "1.sav"), write(tmp_path / "2.sav")]
    assert open_local(paths, SCHEMA).total() == 10
    (tmp_path / "3.csv").write_text("sex\n1\n")
    assert "one kind" in refused([paths[0], tmp_path / "3.csv"])


def test_a_user_missing_code_that_is_not_declared_is_a_value(tmp_path):
    path = write(tmp_path / "a.sav", missing_ranges={})
    assert "sex: 1 row with a level that is not listed" in refused(path, SchemaError)


def test_a_code_without_a_label_is_named_by_its_attribute_only(tmp_path):
    frame = FRAME.assign(sex=[1.0, 2.0, 73.0, 73.0, 1.0])
    message = refused(write(tmp_path / "a.sav", frame), SchemaError)
    assert "sex: 2 rows with a level that is not listed" in message
    assert "73" not in message


def test_levels_may_be_texts_of_numbers(tmp_path):
    schema = parse_schema(
        'version = 1\n[[attribute]]\nname = "sex"\nlevels = ["1", "2"]\nmissing = true\n'
        '[[ignore]]\ncolumns = ["born", "income", "region", "name"]'
    )
    assert counts(open_local(write(tmp_path / "a.dta"), schema), ("sex",)) == {"sex": [2, 1, 2]}


def test_an_empty_text_can_be_a_level(tmp_path):
    schema = parse_schema(
        'version = 1\n[[attribute]]\nname = "region"\nlevels = ["", "01", "02"]\n'
        '[[ignore]]\ncolumns = ["born", "income", "sex", "name"]'
    )
    assert counts(open_local(write(tmp_path / "a.sav"), schema), ("region",)) == {"region": [1, 2, 2]}


def test_labels_are_kept_for_the_draft(tmp_path):
    reader = statfiles.StatReader([str(write(tmp_path / "a.sav", column_labels={"sex": "Sex at birth"}))])
    assert reader.labels.columns == {"sex": "Sex at birth"}
    assert reader.labels.levels == {"sex": {1.0: "male", 2.0: "female"}}  # 9 is declared missing


@pytest.mark.parametrize("ending", ["dta", "sav", "zsav", "sas7bdat"])
@pytest.mark.parametrize("keep", [0, 10, 300, -1, -60])
def test_files_cut_short(ending, keep, tmp_path):
    whole = write(tmp_path / f"whole.{'sav' if ending == 'sas7bdat' else ending}").read_bytes()
    path = tmp_path / f"a.{ending}"
    path.write_bytes(whole[:keep])
    assert "cut short" in refused(path)


def test_files_of_another_kind(tmp_path):
    write(tmp_path / "a.sav").rename(tmp_path / "a.dta")
    assert "cannot be read as a Stata file" in refused(tmp_path / "a.dta")
    (tmp_path / "a.sav").write_text("sex,age\n1,2\n" * 100)
    assert "cannot be read as an SPSS file" in refused(tmp_path / "a.sav")
    (tmp_path / "a.xlsx").write_bytes(b"PK\x03\x04")
    assert "save the sheet as CSV" in refused(tmp_path / "a.xlsx", UnsupportedError)


def test_columns_must_be_those_of_the_schema(tmp_path):
    path = write(tmp_path / "a.sav", FRAME.assign(extra=1.0))
    assert '"extra"' in refused(path, SchemaError)
    assert "goes with CSV" in refused(path, missing_text="NA")
    assert "goes with CSV" in refused(path, decimal_comma=True)


def test_rows_per_unit(tmp_path):
    path = write(tmp_path / "a.dta", FRAME.assign(person=[7, 7, 7, 8, 9]))
    source = open_local(path, SCHEMA, unit_id="person")
    assert source.bounded(Unit(rows_per_unit=2, unit_id="person"), SeededStream(1)).total() == 4


def test_a_unit_without_an_id_is_refused(tmp_path):
    for person in ([7.0, np.nan, 7, 8, 9], ["a", "", "c", "d", "e"]):
        path = write(tmp_path / "a.sav", FRAME.assign(person=person))
        source = open_local(path, SCHEMA, unit_id="person")
        with pytest.raises(InputError, match=r"1 row\(s\) have no 'person'"):
            source.bounded(Unit(rows_per_unit=2, unit_id="person"), SeededStream(1))


def test_an_empty_file(tmp_path):
    path = tmp_path / "a.sav"
    pyreadstat.write_sav(FRAME.iloc[:0].astype({"sex": float, "region": str}), path)
    assert open_local(path, SCHEMA).total() == 0


def test_without_pyreadstat_the_message_says_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path / "a.sav")
    original = builtins.__import__

    def absent(name, *rest, **options):
        if name == "pyreadstat":
            raise ImportError(name)
        return original(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=r"pip install 'understudy\[stat\]'"):
        open_local(path, SCHEMA)


def test_sas_files_go_through_the_sas_reader(tmp_path, monkeypatch):
    """No free program writes .sas7bdat, so SAS's other format stands in for it behind the same function."""
    accepted = set(inspect.signature(pyreadstat.read_sas7bdat).parameters)
    assert {"metadataonly", "usecols", "row_offset", "row_limit", "output_format"} <= accepted
    frame = FRAME.drop(columns="sex").assign(sex=[1.0, 2.0, np.nan, np.nan, 1.0])
    path = tmp_path / "a.sas7bdat"
    pyreadstat.write_xport(frame, path, file_format_version=8)
    monkeypatch.setattr(pyreadstat, "read_sas7bdat", pyreadstat.read_xport)
    assert counts(open_local(path, SCHEMA)) == EXPECTED
