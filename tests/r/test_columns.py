"""Every kind of column comes to R as it is: levels of all types, empty texts, dates, special codes, missing values."""

from __future__ import annotations

import pyarrow as pa
import pytest

import understudy as us
from tests.r.asking import run_r
from tests.unit.release.test_export import FRAME, LONG, SCHEMA
from understudy.core.schema_file import parse_schema

pytestmark = pytest.mark.r

COLUMNS = """
release <- suppressWarnings(read_release(given$folder))
rows <- raw_table(release, 1)
table <- lapply(names(release$columns), function(name) as_column(rows[[name]], release$columns[[name]]))
listed <- function(texts) I(as.character(texts))
names(table) <- names(release$columns)
found <- list(
  values = lapply(table, function(one) I(as.character(one))),
  kinds = lapply(table, function(one) class(one)[1]),
  labels = lapply(table, function(one) {
    list(label = attr(one, "label"), codes = listed(names(attr(one, "labels"))),
         levels = listed(attr(one, "level_labels")))
  }),
  counts = lapply(release$names, function(name) I(counts_of(release, 1, name)))
)
"""


@pytest.fixture
def exported(tmp_path):
    folder = us.wrap(FRAME, SCHEMA).write(tmp_path / "release")
    return us.export(folder, to="r")


def test_columns_have_their_values_types_and_labels(exported, tmp_path):
    found = run_r(COLUMNS, tmp_path, folder=str(exported))
    assert found["kinds"] == {
        "sex": "factor", LONG: "factor", "grade": "ordered", "works": "factor", "born": "Date", "kids": "integer",
        "income": "numeric", "sex in words": "factor",
    }  # fmt: skip
    values = found["values"]
    assert values["sex"] == ["1", "2", None, "2"]
    assert values[LONG] == ["02", "01", "", "01"]  # an empty text is a level and not missing
    assert values["works"] == ["true", None, "false", "true"]
    assert values["born"] == ["1900-01-01", None, "1969-12-31", "1999-12-31"]
    assert values["kids"] == ["0", "-8", None, "20"]
    assert [None if one is None else float(one) for one in values["income"]] == [0.1, 1234.56789012346, None, 5000.5]
    assert values["sex in words"] == ["man", "woman", None, "woman"]
    assert found["labels"]["sex"]["label"] == "Sex at registration"
    assert found["labels"]["sex"]["levels"] == ["male", "female"]
    assert found["labels"]["kids"]["codes"] == ["refused"]


def test_codes_are_those_of_python(exported, tmp_path):
    release = us.wrap(FRAME, SCHEMA)
    counts = run_r(COLUMNS, tmp_path, folder=str(exported))["counts"]
    for name, of_r in zip(release.schema.names, counts, strict=True):
        assert of_r == release.coded(1).counts((name,)).tolist(), name


TEXTS = """
version = 1
[[attribute]]
name = "hours"
edges = [0, 20, 60]
integer = true
special = { N = "not applicable" }
missing = true
[[attribute]]
name = "=sum"
levels = ["-x", "+y"]
[[attribute]]
name = "rooms"
levels = [1, 2, 5]
"""
RULES = """
release <- suppressWarnings(read_release(given$folder))
answers <- lapply(given$questions, function(question) {
  rows <- infer(release, question, synthesis = "posterior", records = 500)$estimates
  list(value = I(rows$estimate), low = I(rows$low), high = I(rows$high), label = I(rows$label))
})
people <- as_column(raw_table(release, 1)$hours, release$columns$hours)
found <- list(answers = answers, codes = I(as.numeric(attr(people, "labels"))), named = names(attr(people, "labels")),
              first = I(utils::head(as.character(people), 3)))
"""


def test_texts_beside_numbers_and_levels_like_formulas(tmp_path):
    hours = ["N", "5", None, "40", "20"] * 100
    signs = ["-x", "+y"] * 250
    rooms = [1, 2, 5, 2] * 125
    release = us.wrap(pa.table({"hours": hours, "=sum": signs, "rooms": rooms}), parse_schema(TEXTS))
    folder = us.export(release.write(tmp_path / "release"), to="r")
    questions = ["proportion(`=sum` == '-x')", "proportion(hours == 'N')", "proportion(missing(hours))", "mean(hours)"]
    questions += ["mean(rooms)", "proportion(rooms > 1)", "proportion(rooms == 5)"]  # levels that are numbers
    found = run_r(RULES, tmp_path, folder=str(folder), questions=questions)
    assert found["first"] == ["-1", "5", None]
    assert found["codes"] == [-1.0]
    assert found["named"] == "N: not applicable"
    for question, of_r in zip(questions, found["answers"], strict=True):
        answer = us.infer(release, question, synthesis="posterior", records=500)
        assert of_r["value"] == pytest.approx([answer.value], abs=1e-8)
        assert [*of_r["low"], *of_r["high"]] == pytest.approx(list(answer.interval), abs=1e-8)
        assert of_r["label"] == list(answer.labels)
