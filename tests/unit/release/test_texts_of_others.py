"""Names, levels, labels and notes that somebody else wrote: texts in every file of a release, and nothing more."""

from __future__ import annotations

import ast
import csv
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy as us
from understudy.core.spreadsheet import as_cell, from_cell
from understudy.errors import SchemaError
from understudy.release.csv_file import csv_table
from understudy.release.readme import code, markdown, readme_text

LEVELS = ("=cmd|' /C calc'!A0", "+1-2", "-", "@SUM(A1)", "\tx", "\rx", "'=x", "plain", "-5", "＝1")
SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="=name", levels=LEVELS, missing=True),
        us.Attribute(name="n", levels=(-5, 3)),
        us.Attribute(name="x", edges=(-9, 0, 9)),
    )
)
ROWS = pa.table(
    {"=name": [*LEVELS, None], "n": [-5, 3] * 5 + [-5], "x": [-2.5, 1.0] * 5 + [-9.0]},
)
HOSTILE = "<script>alert(1)</script> [click](javascript:alert(1)) ![i](http://x/y.png) `a` www.x.org\n# Head\n\n<b>"
FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
NUMBER = re.compile(r"[+-]?[0-9.]+")


def cells_of(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8", newline="") as lines:
        for line in csv.reader(lines):
            yield from line


def files_with_rows(place: Path) -> list[Path]:
    release = us.wrap(ROWS, SCHEMA)
    return [
        release.write(place / "release", csv=True) / "synthetic_1.csv",
        us.export(release, to="csv", out=place / "export") / "synthetic_1.csv",
    ]


def test_no_cell_is_a_formula_and_no_number_is_changed(tmp_path: Path) -> None:
    for file in files_with_rows(tmp_path):
        cells = list(cells_of(file))
        assert cells[0] == "'=name"
        risky = [cell for cell in cells if FORMULA.match(cell) and not cell.startswith("'")]
        assert risky
        assert all(NUMBER.fullmatch(cell) for cell in risky), file
        assert {"-5", "-2.5", "-9", "''=x", "'+1-2", "'-", "plain"} <= set(cells)


def test_a_csv_of_a_release_is_read_back_by_its_schema(tmp_path: Path) -> None:
    for file in files_with_rows(tmp_path):
        source = us.open_source(str(file), SCHEMA)
        (counts,) = source.count([("=name",)])
        assert counts.values.tolist() == [1] * (len(LEVELS) + 1)


def test_a_file_of_somebody_else_is_read_as_before(tmp_path: Path) -> None:
    schema = us.Schema(attributes=(us.Attribute(name="a", levels=("=x", "-y")), us.Attribute(name="b", levels=("1",))))
    (tmp_path / "rows.csv").write_text("a,b\n=x,1\n-y,1\n")
    assert us.open_source(str(tmp_path / "rows.csv"), schema).total() == 2


def test_levels_that_a_csv_cannot_tell_apart_are_refused(tmp_path: Path) -> None:
    schema = us.Schema(attributes=(us.Attribute(name="a", levels=("=x", "'=x")),))
    (tmp_path / "rows.csv").write_text("a\n'=x\n")
    with pytest.raises(SchemaError, match="cannot be told apart in a CSV file"):
        us.open_source(str(tmp_path / "rows.csv"), schema).total()
    assert us.open_source(pa.table({"a": ["=x", "'=x"]}), schema).total() == 2


def test_derived_columns_are_compared_as_they_are_written(tmp_path: Path) -> None:
    mapping = {"-5": "-low", "3": "=high"}
    derived = us.Derived(name="group", function="recode", sources=("n",), mapping=mapping)
    schema = us.Schema(attributes=SCHEMA.attributes[1:], derived=(derived,))
    file = us.wrap(ROWS.select(["n", "x"]), schema).write(tmp_path / "r", csv=True) / "synthetic_1.csv"
    assert "'-low" in set(cells_of(file))
    assert us.open_source(str(file), schema).total() == ROWS.num_rows


@given(st.text(alphabet="'=+-@\t\n5.eE a＝", max_size=6))
def test_two_texts_never_become_one(text: str) -> None:
    assert from_cell(as_cell(text)) == text
    (cell,) = csv_table(pa.table({"a": [text]}))["a"].to_pylist()
    assert cell == as_cell(text)


def test_lists_and_dictionaries_are_cells_too() -> None:
    table = csv_table(pa.table({"a": pa.array(["=x", None]).dictionary_encode(), "b": [["=y", "z"], None]}))
    assert table.to_pydict() == {"a": ["'=x", None], "b": ["'=y, z", ""]}


def test_commuting_tables_are_guarded_too(tmp_path: Path) -> None:
    from understudy.commutes.commute_release import TABLE_SCHEMA, _write_csv

    rows = pa.table({"origin": ["=a", "b"], "destination": ["-b c", "b"], "jobs": [1, 2]}).cast(TABLE_SCHEMA)
    pa.parquet.write_table(rows, tmp_path / "t.parquet")
    _write_csv(tmp_path / "t.parquet", tmp_path / "t.csv")
    assert list(cells_of(tmp_path / "t.csv"))[3:6] == ["'=a", "'-b c", "1"]


def test_internal_tables_are_guarded_too(tmp_path: Path) -> None:
    from understudy.api import write_frames

    write_frames({"t": pa.table({"level": ["=x"], "share": [-0.5]})}, tmp_path)
    assert list(cells_of(tmp_path / "t.csv")) == ["level", "share", "'=x", "-0.5"]


def unescaped(text: str, what: str) -> bool:
    return re.search(rf"(?<!\\){what}", text) is not None


def assert_harmless(page: str) -> None:
    assert "<script" not in page
    assert "<b>" not in page
    assert not unescaped(page, r"\[click")
    assert not unescaped(page, r"\[i")
    assert "http://" not in page
    assert "www." not in re.sub(r"```.*?```", "", page, flags=re.DOTALL)  # code makes no links
    assert "\n# Head" not in page


def test_a_readme_shows_labels_and_notes_as_text() -> None:
    schema = us.Schema(attributes=(us.Attribute(name=f"a{HOSTILE}", levels=("F",), label=HOSTILE),))
    release = us.wrap(pa.table({f"a{HOSTILE}": ["F"]}), schema)
    release = replace(
        release,
        statement=replace(release.statement, warnings=(HOSTILE,), ledger={"account": HOSTILE, "run": HOSTILE}),
        provenance=replace(release.provenance, notes=(HOSTILE,), rows_drawn=HOSTILE, method=HOSTILE),
    )
    page = readme_text(release, [1])
    assert_harmless(page)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    (name,) = re.findall(r'groupby\((".*"), observed', page)
    assert ast.literal_eval(name) == f"a{HOSTILE}"


def test_a_readme_of_commutes_shows_notes_as_text() -> None:
    from understudy.commutes.commute_release import CommuteRelease, readme_text
    from understudy.demo.commuters import make_world

    known = us.wrap(pa.table({"sex": ["F"]}), us.Schema(attributes=(us.Attribute(name="sex", levels=("F",)),)))
    release = CommuteRelease(
        places=make_world("town").places,
        files=(),
        statement=replace(known.statement, warnings=(HOSTILE,)),
        provenance=replace(known.provenance, notes=(HOSTILE,), rows_drawn=HOSTILE, method=HOSTILE),
    )
    assert_harmless(readme_text(release, [1]))


def test_a_label_cannot_write_a_line_of_its_own_into_a_plain_readme(tmp_path: Path) -> None:
    schema = us.Schema(
        attributes=(
            us.Attribute(name="a", levels=("\nGuarantee: x",), label="fine\nGuarantee: pure", level_labels=("\n!",)),
        )
    )
    folder = us.export(us.wrap(pa.table({"a": ["\nGuarantee: x"]}), schema), to="csv", out=tmp_path / "out")
    lines = (folder / "README.txt").read_text().splitlines()
    assert [line for line in lines if line.startswith("Guarantee")] == ["Guarantee: no guarantee."]


def test_plain_names_stay_readable() -> None:
    assert code("age at entry (2026)") == "`age at entry (2026)`"
    assert markdown("income, in 1,000 EUR: gross") == "income, in 1,000 EUR: gross"


@pytest.mark.parametrize("mask", [0o022, 0o077])
@pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
def test_files_are_as_readable_as_the_umask_says_and_without_guarantee_only_by_their_owner(
    tmp_path: Path, mask: int
) -> None:
    from understudy.demo.commuters import make_world

    city = make_world(places=200, jobs=500)
    commutes = us.open_commutes(city.flows_table(), places=city.places)
    table = us.wrap(pa.table({"sex": ["F"]}), us.Schema(attributes=(us.Attribute(name="sex", levels=("F",)),)))
    before = os.umask(mask)
    try:
        made = us.synthesize(commutes, budget=us.ApproxDP(epsilon=2, delta="1e-5"), out=tmp_path / "private", csv=True)
        us.commute_map(made, to=tmp_path / "open.html")
        bare = replace(made, statement=replace(made.statement, guarantee=us.NonPrivate()))
        bare.write(tmp_path / "bare", csv=True)
        us.commute_map(bare, to=tmp_path / "map.html")
        us.report(table, audience="internal", to=tmp_path / "board.html")
        closed = (
            tmp_path / "bare", table.write(tmp_path / "table", csv=True),
            us.export(table, to="csv", out=tmp_path / "export"), tmp_path / "map.html", tmp_path / "board.html",
        )  # fmt: skip
    finally:
        os.umask(before)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o777 & ~mask
    readable = (tmp_path / "open.html", *(tmp_path / "private").iterdir())
    assert {path.stat().st_mode & 0o777 for path in readable} == {0o666 & ~mask}
    for place in closed:
        assert {path.stat().st_mode & 0o077 for path in (place, *place.glob("*"))} == {0}, place
