"""A small world of places in nested areas."""

import numpy as np
import pytest

from understudy.core.places import make_places


def make_world(places=60, seed=3, levels=3):
    """Places on a plain 300 miles wide, in nested squares."""
    rng = np.random.default_rng(seed)
    latitude, longitude = 40 + 4 * rng.random(places), -100 + 5 * rng.random(places)
    areas = {}
    for number in range(levels):
        size = 2.0 / 2**number
        areas[f"level{number}"] = [f"{a:g} {b:g}" for a, b in zip(latitude // size, longitude // size, strict=True)]
    return make_places([f"p{k:03d}" for k in range(places)], latitude, longitude, areas=areas)


@pytest.fixture
def world():
    return make_world
