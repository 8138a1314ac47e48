"""Outlines: the kinds of GeoJSON that are drawn, and clear words for those that are not."""

from __future__ import annotations

import json

import pytest

from understudy.commutes.map import commute_map
from understudy.commutes.map.commute_map import read_outlines
from understudy.errors import InputError

RING = [[0, 0], [2, 0], [2, 1], [0, 0]]


def written(tmp_path, document):
    file = tmp_path / "outlines.geojson"
    file.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return file


def feature(kind, coordinates):
    return {"type": "Feature", "properties": {"secret": "x"}, "geometry": {"type": kind, "coordinates": coordinates}}


@pytest.mark.parametrize(
    ("kind", "coordinates", "rings"),
    [
        ("Polygon", [RING], 1),
        ("Polygon", [RING, RING], 2),
        ("MultiPolygon", [[RING], [RING, RING]], 3),
        ("LineString", RING, 1),
        ("MultiLineString", [RING, RING[:2]], 2),
        ("LineString", [[0, 0, 17.5], [1, 1, 18.0]], 1),
    ],
)
def test_shapes_become_rings_of_latitude_and_longitude(tmp_path, kind, coordinates, rings):
    read = read_outlines(written(tmp_path, {"type": "FeatureCollection", "features": [feature(kind, coordinates)]}))
    assert len(read) == rings
    assert read[0].shape[1] == 2
    assert read[0][1].tolist() == [coordinates_of(coordinates)[1][1], coordinates_of(coordinates)[1][0]]


def coordinates_of(nested):
    while isinstance(nested[0][0], list):
        nested = nested[0]
    return nested


def test_bare_geometries_and_collections_are_read_too(tmp_path):
    bare = {"type": "Polygon", "coordinates": [RING]}
    assert len(read_outlines(written(tmp_path, bare))) == 1
    both = {"type": "GeometryCollection", "geometries": [bare, bare]}
    assert len(read_outlines(written(tmp_path, both))) == 2
    empty = {"type": "Feature", "geometry": None}
    several = {"type": "FeatureCollection", "features": [empty, feature("Polygon", [RING])]}
    assert len(read_outlines(written(tmp_path, several))) == 1


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("not json", "cannot be read as JSON"),
        ("[1, 2]", "without a type"),
        ({"type": "Topology", "objects": {}}, "'Topology'"),
        ({"type": "FeatureCollection"}, "'FeatureCollection'"),
        ({"type": "FeatureCollection", "features": []}, "no outlines"),
        (feature("Point", [1, 2]), "holds points"),
        (feature("Polygon", [[1, 2]]), r"\[longitude, latitude\] pairs"),
        (feature("Polygon", None), r"\[longitude, latitude\] pairs"),
        (feature("Polygon", [[["a", "b"], ["c", "d"]]]), r"\[longitude, latitude\] pairs"),
        (feature("MultiPolygon", [RING]), r"\[longitude, latitude\] pairs"),
        (feature("LineString", [[0, 0]]), r"\[longitude, latitude\] pairs"),
        (feature("LineString", [[0, 0], [float("inf"), 1]]), r"\[longitude, latitude\] pairs"),
        (feature("LineString", [[300_000, 4_600_000], [300_010, 4_600_000]]), "WGS 84"),
    ],
)
def test_anything_else_is_refused_in_words(tmp_path, document, says):
    with pytest.raises(InputError, match=says):
        read_outlines(written(tmp_path, document))


def test_a_missing_and_a_huge_file_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="does not exist"):
        read_outlines(tmp_path / "none.geojson")
    file = written(tmp_path, feature("Polygon", [RING]))
    monkeypatch.setattr(commute_map, "MOST_POINTS", 3)
    with pytest.raises(InputError, match="4 points"):
        read_outlines(file)
    monkeypatch.setattr(commute_map, "MOST_BYTES", 10)
    with pytest.raises(InputError, match="larger than"):
        read_outlines(file)


def test_deeply_nested_json_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read as JSON"):
        read_outlines(written(tmp_path, "[" * 100_000))
