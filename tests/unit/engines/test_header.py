"""A file without its line of column names: the first row of the data is never shown as names."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import InputError, SchemaError

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="sex", levels=("F", "M")),
        us.Attribute(name="town", levels=("A", "B")),
        us.Attribute(name="age", edges=(0, 50, 100)),
    )
)
MARKER = "ZQXMARKER"


@pytest.mark.parametrize(
    "lines",
    [
        [f"F,A,20,{MARKER}", "M,B,30,x"],
        [f"F,{MARKER},{MARKER}", "M,B,30"],  # a name that occurs twice
        [f"F,age,{MARKER}", "M,B,30"],  # one value that happens to be a name
    ],
)
@pytest.mark.parametrize("unit_id", [None, "id"])
def test_no_value_is_shown(tmp_path, lines, unit_id):
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(SchemaError, match="line of column names missing") as caught:
        us.open_source(str(path), SCHEMA, unit_id=unit_id)
    assert MARKER not in str(caught.value)


def test_a_header_with_a_mistake_is_still_told_what_is_wrong():
    with pytest.raises(SchemaError, match="Known: aeg, sex, town"):
        us.open_source(pa.table({"sex": ["F"], "town": ["A"], "aeg": [20]}), SCHEMA)


def test_other_spelling_is_a_header():
    with pytest.raises(SchemaError, match="SEX"):
        us.open_source(pa.table({"SEX": ["F"], "TOWN": ["A"], "AGE": [20]}), SCHEMA)


def test_a_row_that_is_too_long_and_not_text_is_refused_quietly(tmp_path, capfd):
    path = tmp_path / "people.csv"
    path.write_bytes(b"sex,town,age\nF,A,20\n\xffM,B,30,more\n")
    hook = sys.unraisablehook
    source = us.open_source(str(path), SCHEMA)
    with pytest.raises(InputError, match="not UTF-8"):
        source.count([("sex",)])
    assert capfd.readouterr().err == ""
    assert sys.unraisablehook is hook
