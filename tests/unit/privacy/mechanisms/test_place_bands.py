"""Bands around places: the tree of boxes against asking every place, on the very edges too."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.privacy.mechanisms.place_bands import PlaceBands
from understudy.privacy.mechanisms.place_tree_compiled import bands_around


def brute(points, edges, place):
    squared = np.zeros(len(points))
    for axis in range(3):
        squared = squared + (points[:, axis] - points[place, axis]) ** 2
    return np.searchsorted(edges, squared, side="right")


def cloud(count, kind):
    rng = np.random.default_rng(count)
    if kind == "lattice":  # many places exactly on an edge, many in the same place
        return rng.integers(0, 6, size=(count, 3)).astype(float)
    return rng.normal(size=(count, 3)) * [30.0, 10.0, 1.0] + [3000.0, -2000.0, 900.0]


@pytest.mark.parametrize("kind", ["lattice", "scattered"])
@pytest.mark.parametrize("count", [1, 2, 3, 31, 400])
@pytest.mark.parametrize("edges", [[9.0], [0.0, 4.0, 25.0, 600.0], [np.inf], [1e-9, np.inf]])
def test_every_place_is_in_the_band_of_its_distance(kind, count, edges):
    bands = PlaceBands(points=cloud(count, kind), edges=np.array(edges))
    places = np.arange(count)
    expected = np.array([np.bincount(brute(bands.points, edges, p), minlength=len(edges) + 1) for p in places])
    assert bands.sizes(places).tolist() == expected.tolist()
    room = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    for place in places[:: max(1, count // 20)]:
        used = bands_around(bands.points[place], bands.sorted_points, bands.boxes, bands.edges, *room)
        lows, highs, band_at = (part[:used] for part in room)
        found = np.empty(count, np.int64)
        for low, high, band in zip(lows, highs, band_at, strict=True):
            found[bands.order[low:high]] = band
        assert found.tolist() == brute(bands.points, edges, place).tolist()


def test_too_little_room_is_said():
    bands = PlaceBands(points=cloud(400, "scattered"), edges=np.array([4.0, 25.0]))
    room = np.empty(3, np.int64), np.empty(3, np.int64), np.empty(3, np.int64)
    assert bands_around(bands.points[7], bands.sorted_points, bands.boxes, bands.edges, *room) == -1
