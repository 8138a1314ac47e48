"""The map of a release: only releases are drawn, what is drawn is the release, and bad input is answered in words."""

from __future__ import annotations

import base64
import gzip
import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from understudy import commute_map
from understudy.commutes.commute_release import TABLE_SCHEMA, CommuteRelease
from understudy.commutes.map import commute_map as module
from understudy.core.places import make_places
from understudy.core.schema import Attribute, Schema
from understudy.errors import DisclosureError, InputError, UnknownNameError, UnsupportedError
from understudy.privacy.promise.definition import ApproxDP, Unit
from understudy.release.statement import Provenance, Statement
from understudy.release.table_release import wrap

PAIRS = [("b", "a", 3), ("elsewhere", "a", 2), ("c", "b", 1), ("a", "a", 4)]
URN = {"mechanism": "commute_urn", "sizes_from": [1], "cells": [3], "priors": ["1/2"], "rows_per_job": [1]}


@pytest.fixture
def make_release(tmp_path):
    def make(pairs=PAIRS, *, latitude=(1.0, 1.1, 1.2), epsilon="2", draws=()):
        file = tmp_path / f"table-{len(list(tmp_path.iterdir()))}.parquet"
        columns = list(zip(*pairs, strict=True)) if pairs else ([], [], [])
        parquet.write_table(
            pa.table({name: list(column) for name, column in zip(TABLE_SCHEMA.names, columns, strict=True)}).cast(
                TABLE_SCHEMA
            ),
            file,
        )
        return CommuteRelease(
            places=make_places(
                ["a", "b", "c"],
                list(latitude),
                [2.0, 2.1, 2.2],
                areas={"county": ["k1", "k1", "k2"]},
                names=["Ana", "<b>", "Ce"],
            ),
            files=(file,),
            statement=Statement(unit=Unit(fixed=("destination",)), guarantee=ApproxDP(epsilon=epsilon, delta="1e-5")),
            provenance=Provenance(method="commute", package_version="0", draws=tuple(draws)),
        )

    return make


def inside(file):
    """The description and the arrays of a page."""
    text = file.read_text(encoding="utf-8")
    about = json.loads(text.split('id="understudy-about">')[1].split("</script>")[0])
    content = gzip.decompress(base64.b64decode(text.split('id="understudy-data">')[1].split("</script>")[0]))
    kinds = {
        "Uint8Array": "<u1",
        "Uint16Array": "<u2",
        "Uint32Array": "<u4",
        "Int32Array": "<i4",
        "Float32Array": "<f4",
    }
    arrays = {}
    for entry in about["arrays"]:
        start, length = entry["offset"], entry["length"]
        if entry["type"] == "json":
            arrays[entry["name"]] = json.loads(content[start : start + length])
        else:
            arrays[entry["name"]] = np.frombuffer(content, kinds[entry["type"]], length, start).tolist()
    return about, arrays


def test_the_page_holds_the_release_and_nothing_else(make_release, tmp_path):
    about, arrays = inside(commute_map(make_release(draws=[{"mechanisms": [URN]}]), to=tmp_path / "map.html"))
    assert arrays["ids"] == ["a", "b", "c"]
    assert arrays["names"] == ["Ana", "<b>", "Ce"]
    assert arrays["level_0_areas"] == ["k1", "k2"]
    assert arrays["destinations_0"] == [0, 1]
    assert arrays["starts_0"] == [0, 3, 4]
    assert arrays["origin_0"] == [0, 1, 3, 2]  # 3 is elsewhere
    assert arrays["jobs_0"] == [4, 3, 2, 1]
    assert all(0 < share < 1 for share in arrays["model_0"])
    assert all(noise > 1 for noise in arrays["noise_0"])
    assert arrays["cells_0"] == [3, 3, 3]
    assert set(arrays) == {
        "latitude", "longitude", "spread", "ids", "names", "level_0_areas", "level_0_of", "destinations_0", "starts_0",
        "origin_0", "jobs_0", "model_0", "noise_0", "cells_0",
    }  # fmt: skip
    assert about["releases"][0]["promise"].startswith("ε = 2, δ = 0.00001")


def test_the_same_release_gives_the_same_page(make_release, tmp_path):
    release = make_release()
    one, two = (commute_map(release, to=tmp_path / name).read_text() for name in ("1.html", "2.html"))
    assert one == two


def test_two_releases_of_the_same_places_share_a_page(make_release, tmp_path):
    about, arrays = inside(
        commute_map(make_release(), compare=make_release([("c", "c", 7)], epsilon="4"), to=tmp_path / "two.html")
    )
    assert len(about["releases"]) == 2
    assert arrays["jobs_1"] == [7]
    other = make_release(latitude=(1.0, 1.1, 1.3))
    with pytest.raises(InputError, match="different places"):
        commute_map(make_release(), compare=other, to=tmp_path / "x.html")


def test_one_area_of_a_large_release(make_release, tmp_path, monkeypatch):
    release = make_release()
    monkeypatch.setattr(module, "MOST_PAIRS", 3)
    with pytest.raises(InputError, match=r"4 pairs .* --within"):
        commute_map(release, to=tmp_path / "x.html")
    monkeypatch.setattr(module, "MOST_IDLE_PLACES", 2)
    _, arrays = inside(commute_map(make_release([*PAIRS, ("a", "c", 5)]), within="county=k2", to=tmp_path / "k2.html"))
    assert arrays["ids"] == ["a", "c"]  # places without a job are left out of a page of very many
    assert arrays["jobs_0"] == [5]
    for within, says in (("county", "level=area"), ("county=k9", "'k9'"), ("town=k1", "'town'")):
        with pytest.raises(InputError, match=says):
            commute_map(release, within=within, to=tmp_path / "y.html")
    with pytest.raises(UnknownNameError):
        commute_map(release, within="county=k9", to=tmp_path / "y.html")
    with pytest.raises(InputError, match="no jobs at workplaces in county=k2"):
        commute_map(release, within="county=k2", to=tmp_path / "y.html")


def test_no_rows_and_no_such_copy(make_release, tmp_path):
    with pytest.raises(InputError, match="no jobs, so there is nothing to draw"):
        commute_map(make_release([]), to=tmp_path / "x.html")
    with pytest.raises(InputError, match=r"copy \(2\)"):
        commute_map(make_release(), copy=2, to=tmp_path / "x.html")


@pytest.mark.parametrize("thing", [pa.table({"origin": ["a"]}), {"origin": ["a"]}, "release/", None])
def test_anything_but_a_release_is_refused(thing, tmp_path):
    with pytest.raises(DisclosureError, match="releases only"):
        commute_map(thing, to=tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


def test_a_release_of_people_has_no_map(make_release, tmp_path):
    people = wrap(pa.table({"sex": ["F"]}), Schema(attributes=(Attribute(name="sex", levels=("F", "M")),)))
    with pytest.raises(UnsupportedError, match="table of people"):
        commute_map(people, to=tmp_path / "x.html")
    with pytest.raises(DisclosureError):
        commute_map(make_release(), compare=[1, 2], to=tmp_path / "x.html")


def test_where_a_page_may_not_be_written(make_release, tmp_path):
    release = make_release()
    with pytest.raises(InputError, match="is a folder"):
        commute_map(release, to=tmp_path)
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="nothing is added to a release"):
        commute_map(release, to=tmp_path / "release" / "map.html")
    target = commute_map(release, to=tmp_path / "new" / "map.html")
    with pytest.raises(InputError, match="already exists"):
        commute_map(release, to=target)
    assert commute_map(release, to=target, overwrite=True) == target
    assert [file.name for file in target.parent.iterdir()] == ["map.html"]


def test_outlines_are_taken_without_their_properties(make_release, tmp_path):
    ring = [[1, 1], [3, 1], [3, 3], [1, 1]]
    shape = {"type": "Feature", "properties": {"secret": "zzz"}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    (tmp_path / "x.geojson").write_text(json.dumps(shape))
    file = commute_map(make_release(), outlines=tmp_path / "x.geojson", to=tmp_path / "map.html")
    _, arrays = inside(file)
    assert arrays["outline_starts"] == [0, 4]
    assert "zzz" not in str(arrays)
