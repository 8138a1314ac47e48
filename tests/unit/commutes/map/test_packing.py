"""Arrays of a map page: what goes in comes out, in little room."""

from __future__ import annotations

import base64
import gzip
import json

import numpy as np
import pytest

from understudy.commutes.map.page_arrays import (
    KM_PER_MILE,
    NOWHERE,
    MapFlows,
    MapLaw,
    MapPlaces,
    Packer,
    microdegrees,
    narrow,
    pack_flows,
    pack_outlines,
    pack_places,
    spread_km,
)
from understudy.core.places import make_places

KINDS = {"Uint8Array": "<u1", "Uint16Array": "<u2", "Uint32Array": "<u4", "Int32Array": "<i4", "Float32Array": "<f4"}


def unpacked(packer):
    content = gzip.decompress(base64.b64decode(packer.text()))
    arrays = {}
    for entry in packer.directory:
        if entry["type"] == "json":
            arrays[entry["name"]] = json.loads(content[entry["offset"] : entry["offset"] + entry["length"]])
        else:
            kind = KINDS[entry["type"]]
            assert entry["offset"] % np.dtype(kind).itemsize == 0
            arrays[entry["name"]] = np.frombuffer(content, kind, entry["length"], entry["offset"])
    return arrays


def test_places_and_flows_survive():
    packer = Packer()
    places = MapPlaces(
        ids=["a", "<b>", "c"],
        latitude=np.array([41.5, -10.25, np.nan]),
        longitude=np.array([-71.5, 179.999999, np.nan]),
        names=["Ä", "", "x"],
        areas={"county": ["k2", "k1", "k2"]},
    )
    assert pack_places(packer, places) == [{"name": "county"}]
    pack_flows(
        packer,
        0,
        MapFlows(
            origin=np.array([3, 0, 1, 0]),
            destination=np.array([2, 2, 0, 0]),
            jobs=np.array([300, 1, 2, 5]),
            law=MapLaw(model=np.array([0.5, 0.25, 1.0]), noise=np.array([1.5, 2.5, 3.5]), cells=np.array([2, 3, 400])),
        ),
    )
    arrays = unpacked(packer)
    assert arrays["latitude"].tolist() == [41_500_000, -10_250_000, NOWHERE]
    assert arrays["longitude"].tolist() == [-71_500_000, 179_999_999, NOWHERE]
    assert arrays["ids"] == ["a", "<b>", "c"]
    assert arrays["names"] == ["Ä", "", "x"]
    assert [arrays["level_0_areas"][code] for code in arrays["level_0_of"]] == ["k2", "k1", "k2"]
    assert arrays["destinations_0"].tolist() == [0, 2]
    assert arrays["starts_0"].tolist() == [0, 2, 4]
    assert arrays["origin_0"].tolist() == [0, 1, 0, 3]
    assert arrays["jobs_0"].tolist() == [5, 2, 1, 300]
    assert arrays["model_0"].tolist() == [0.5, 0.25, 1.0]
    assert arrays["noise_0"].tolist() == [1.5, 2.5, 3.5]
    assert arrays["cells_0"].tolist() == [2, 3, 400]


def test_outlines_are_one_list_of_points_with_starts():
    packer = Packer()
    pack_outlines(packer, [])
    assert packer.directory == []
    pack_outlines(packer, [np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0]] * 3)])
    arrays = unpacked(packer)
    assert arrays["outline_starts"].tolist() == [0, 2, 5]
    assert arrays["outline_points"].tolist()[:4] == [1_000_000, 2_000_000, 3_000_000, 4_000_000]


def test_the_same_data_give_the_same_text():
    def text():
        packer = Packer()
        packer.add("x", np.arange(100, dtype=np.uint8))
        return packer.text()

    assert text() == text()


def test_numbers_take_the_narrowest_type():
    assert [narrow(np.array([top])).dtype.itemsize for top in (255, 256, 65_535, 65_536)] == [1, 2, 2, 4]
    assert microdegrees(np.array([0.1234565])).dtype == np.int32


def test_dots_spread_half_way_to_the_nearest_neighbour():
    latitude, longitude = np.array([0.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.01, 0.01, 1.0])
    spread = spread_km(latitude, longitude)
    places = make_places(["a", "b"], [0.0, 0.0], [0.0, 0.01])
    half = places.miles(np.array([0]), np.array([1]))[0] * KM_PER_MILE / 2
    assert spread[:3] == pytest.approx([half] * 3)  # two places at one spot count as one
    assert spread[3] == 0.6
    assert spread_km(np.array([5.0, np.nan]), np.array([5.0, np.nan])).tolist() == [0.1, 0.0]


def test_a_hundred_thousand_commuters_take_less_than_a_megabyte():
    rng = np.random.default_rng(4)
    count = 20_000
    packer = Packer()
    pack_places(
        packer,
        MapPlaces(
            ids=[f"44{i:013d}" for i in range(count)],
            latitude=rng.uniform(41, 42, count),
            longitude=rng.uniform(-72, -71, count),
        ),
    )
    destination = np.sort(rng.choice(2_000, 100_000))
    origin = rng.integers(0, count, 100_000)
    pack_flows(packer, 0, MapFlows(origin=origin, destination=destination, jobs=np.ones(100_000, dtype=np.int64)))
    assert len(packer.text()) < 1_000_000
