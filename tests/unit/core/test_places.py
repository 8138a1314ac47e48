"""Places are checked when they are made: what is missing, swapped or listed twice is refused with a reason."""

import numpy as np
import pytest

from understudy.core.places import Places, make_places
from understudy.errors import InputError

IDS, LAT, LON = ["b", "a", "c"], [41.0, 41.1, 41.2], [-71.0, -71.1, -71.2]


def test_any_order_gives_the_same_places():
    one = make_places(IDS, LAT, LON, areas={"county": ["x", "y", "x"]}, population=[1, 2, 3])
    other = make_places(IDS[::-1], LAT[::-1], LON[::-1], areas={"county": ["x", "y", "x"]}, population=[3, 2, 1])
    assert one.fingerprint == other.fingerprint
    assert one.ids.tolist() == [b"a", b"b", b"c"]
    assert one.population.tolist() == [2, 1, 3]
    assert one.fingerprint != make_places(IDS, LAT, LON, population=[1, 2, 3]).fingerprint


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ids": ["a", "a", "b"]}, "twice"),
        ({"ids": ["a", "elsewhere", "b"]}, "elsewhere"),
        ({"ids": ["a", "", "b"]}, "no id"),
        ({"ids": ["a", None, "b"]}, "text"),
        ({"latitude": [41.0, np.nan, 41.0]}, "no latitude"),
        ({"latitude": [-171.0, 40, 41.0], "longitude": [41.0, 42.0, 43.0]}, "swapped"),
        ({"latitude": LON, "longitude": LAT}, "Antarctic"),
        ({"longitude": [200.0, 0.0, 0.0]}, "longitude"),
        ({"latitude": [41.0, 41.0]}, "latitude"),
        ({"population": [1, -1, 2]}, "population"),
        ({"population": [1.5, 1, 2]}, "population"),
        ({"areas": {"county": ["x", "", "y"]}}, "no area of level 'county'"),
    ],
)
def test_bad_places_are_refused(change, says):
    given = {"ids": IDS, "latitude": LAT, "longitude": LON, **change}
    with pytest.raises(InputError, match=says):
        make_places(**given)


def test_ids_out_of_order_are_refused_by_the_value_itself():
    with pytest.raises(InputError, match="increasing"):
        Places(ids=np.array([b"b", b"a"]), latitude=np.zeros(2), longitude=np.zeros(2))


def test_distances_are_great_circles():
    places = make_places(["a", "b", "c"], [0.0, 0.0, 45.0], [0.0, 180.0, 0.0])
    half = np.pi * 3958.8
    assert places.miles(np.array([0, 0]), np.array([1, 2])) == pytest.approx([half, half / 4])
    assert np.linalg.norm(places.points(), axis=1) == pytest.approx([3958.8] * 3)


def test_unknown_places_and_levels_are_named():
    places = make_places(IDS, LAT, LON)
    with pytest.raises(InputError, match="'z'"):
        places.codes_of(["z"])
    with pytest.raises(InputError, match="level"):
        places.area("county")
    assert places.id_texts(np.array([0, -1])) == ["a", "elsewhere"]
    assert repr(places) == "Places(3)"
