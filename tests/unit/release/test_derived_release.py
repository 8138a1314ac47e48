"""Derived columns from a run to the folder and back: computed, written, checked, never measured."""

from __future__ import annotations

import hashlib
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.core.schema_file import parse_schema
from understudy.engines.systems.local.inputs import open_local
from understudy.errors import SchemaError, UntrackedWarning
from understudy.release import read_release, verify

SCHEMA = parse_schema("""
version = 1
[[attribute]]
name = "sex"
levels = ["F", "M"]
[[attribute]]
name = "kids"
edges = [0, 2, 10]
integer = true
missing = true
[[attribute]]
name = "adults"
edges = [1, 5]
integer = true
[[derived]]
name = "parent"
from = ["kids", "sex"]
function = "cross"
cases = [
    { when = { kids = { above = 2 }, sex = "F" }, value = "mother" },
    { when = { kids = { above = 2 } }, value = "father" },
]
default = "neither"
[[derived]]
name = "people"
label = "Persons in the household"
from = ["kids", "adults"]
function = "sum"
""")
FRAME = pd.DataFrame({"sex": ["F", "M"] * 50, "kids": [0.0, None, 3, 4] * 25, "adults": [1, 2, 3, 4] * 25})


@pytest.fixture
def folder(tmp_path):
    with pytest.warns(UntrackedWarning):
        us.synthesize(
            open_local(FRAME, SCHEMA),
            method="histogram",
            budget=us.PureDP(epsilon=1),
            copies=2,
            csv=True,
            out=tmp_path / "release",
        )
    return tmp_path / "release"


def test_a_release_has_its_derived_columns(folder):
    release = read_release(folder)
    assert [step.margin for step in release.provenance.plan.steps] == [("sex", "kids", "adults")]
    for copy in (1, 2):
        frame = release.frame(copy).to_pandas()
        assert list(frame) == ["sex", "kids", "adults", "parent", "people"]
        parent = frame["kids"] >= 2
        assert (frame["parent"] == "mother").equals(parent & (frame["sex"] == "F"))
        assert (frame["parent"] == "father").equals(parent & (frame["sex"] == "M"))
        assert frame["people"].equals(frame["kids"] + frame["adults"])
        assert set(release.coded(copy).columns) == {"sex", "kids", "adults"}
        assert pq.read_table(folder / f"synthetic_{copy}.parquet").column_names == list(SCHEMA.columns)
    assert (folder / "synthetic_1.csv").read_text().splitlines()[0].replace('"', "") == "sex,kids,adults,parent,people"
    assert all(check.passed for check in verify(folder))


def test_the_readme_names_them(folder):
    text = (folder / "README.md").read_text()
    assert "- `people`: Persons in the household (derived: sum of kids, adults; computed from" in text
    assert "people" in read_release(folder)._repr_html_()


def test_a_table_that_contradicts_its_rule_is_no_release(folder):
    release = read_release(folder)
    table = release.frame()
    changed = table.set_column(4, table.schema.field(4), pa.array([99] * table.num_rows))
    with pytest.raises(SchemaError, match=r"people: .* rows with a value that disagrees with its rule"):
        us.wrap(changed, SCHEMA)


def test_a_forged_file_does_not_pass(folder):
    """Even with a manifest that lists the hash of the changed file."""
    path = folder / "synthetic_1.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(4, "people", pa.array([99] * table.num_rows)), path)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    checks = verify(folder)
    assert not all(check.passed for check in checks)
    assert any("disagrees with its rule" in check.detail for check in checks)


def test_wrapping_computes_them():
    release = us.wrap(FRAME, SCHEMA)
    assert release.frame()["people"].to_pylist()[:4] == [1, None, 6, 8]
    assert release.frame()["parent"].to_pylist()[:4] == ["neither", "neither", "mother", "father"]
    again = us.wrap(release.frame(), SCHEMA)
    assert again.frame().equals(release.frame())
