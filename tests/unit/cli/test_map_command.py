"""``map`` and ``demo commute``: the file, where it goes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from understudy.commutes.commute_release import TABLE_SCHEMA, CommuteRelease
from understudy.core.places import make_places
from understudy.privacy.promise.definition import ApproxDP, Unit
from understudy.release.statement import Provenance, Statement


@pytest.fixture
def release(folder):
    """A folder ``city`` that holds a small commuting release."""
    table = pa.table({"origin": ["a", "b"], "destination": ["b", "b"], "jobs": [3, 4]}).cast(TABLE_SCHEMA)
    parquet.write_table(table, folder / "table.parquet")
    CommuteRelease(
        places=make_places(["a", "b"], [1.0, 1.1], [2.0, 2.1], areas={"county": ["k1", "k2"]}),
        files=(folder / "table.parquet",),
        statement=Statement(unit=Unit(fixed=("destination",)), guarantee=ApproxDP(epsilon=2, delta="1e-5")),
        provenance=Provenance(method="commute", package_version="0"),
    ).write(folder / "city")
    return folder / "city"


def test_the_map_lies_beside_the_release(release, run, folder):
    shown = run("map city").stdout
    assert "city-map.html" in shown
    text = (folder / "city-map.html").read_text(encoding="utf-8")
    assert "ε = 2, δ = 0.00001" in text
    assert str(folder) not in text


def test_json_names_the_file_and_open_opens_it(release, run, folder, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    document = json.loads(run("map city --out x/y.html --miles --title Here --open --json").stdout)
    file = Path(document["map"])
    assert file == folder / "x" / "y.html"
    assert document["bytes"] == file.stat().st_size
    assert opened == [file.as_uri()]
    assert "<title>Here</title>" in file.read_text(encoding="utf-8")


def test_two_releases_and_one_area(release, run, folder):
    run("map city --compare city --within county=k2 --out two.html")
    text = (folder / "two.html").read_text(encoding="utf-8")
    assert 'data-release="1"' in text
    assert "Only jobs at workplaces in county=k2" in text


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("map people.csv", 2, "is not a release folder"),
        ("map nowhere", 2, "is not a release folder"),
        ("map . --out x.html", 2, "it is not a release folder"),
        ("map city --out city/map.html", 2, "nothing is added to a release"),
        ("map city --out people.csv", 2, "already exists"),
        ("map city --outlines none.geojson", 2, "does not exist"),
        ("map city --outlines people.csv", 2, "cannot be read as JSON"),
        ("map city --within county", 2, "level=area"),
        ("map city --within county=k1", 2, "no jobs at workplaces"),
        ("map city --copy 2", 2, "copy (2)"),
        ("map city --compare people.csv", 2, "is not a release folder"),
        ("demo nonsense", 2, "'nonsense' is unknown"),
    ],
)
def test_what_is_refused(release, refused, line, code, says):
    refused(line, code=code, says=says)


def test_a_changed_release_is_not_drawn(release, refused):
    (release / "synthetic_1.parquet").write_bytes((release / "places.parquet").read_bytes())
    refused("map city", says="was changed after the release was written")


def test_a_release_of_people_has_no_map(folder, run, refused):
    run("synthesize people.csv --schema people.toml --method histogram --epsilon 1 --out people")
    refused("map people", says="not of commutes")


def test_the_demonstration_of_commutes_ends_with_a_map(folder, run):
    text = run("demo commute --rows 4000 --out shown").stdout
    for part in ("$ understudy synthesize", "INTERNAL", "$ understudy map", "map.html"):
        assert part in text
    assert {path.name for path in (folder / "shown").iterdir()} == {
        *("ABOUT.txt", "budget.db", "confidential", "places.parquet", "release", "map.html")
    }
    run("verify shown/release")
    page = (folder / "shown" / "map.html").read_text(encoding="utf-8")
    assert "Synthetic data" in page
