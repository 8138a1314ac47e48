"""Cells of area pairs: every pair of places is in exactly one, near ones fine, far ones coarse."""

import numpy as np
import pytest

from understudy.commutes.models.area_pairs import make_area_pairs
from understudy.core.places import make_places
from understudy.errors import InputError, UnsupportedError


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("near", [1.0, 40.0, 5000.0])
def test_every_pair_of_places_is_in_one_cell_that_holds_it(world, levels, near):
    places = world(levels=levels)
    pairs = make_area_pairs(places, near)
    one, other = (grid.ravel() for grid in np.meshgrid(np.arange(len(places)), np.arange(len(places)), indexing="ij"))
    cells = pairs.classify(one, other)
    assert cells.min() >= 0
    assert cells.max() < len(pairs)
    for number, level in enumerate(pairs.levels):
        own = pairs.level[cells] == number
        assert (level.area_of_place[one[own]] == pairs.origin[cells[own]]).all()
        assert (level.area_of_place[other[own]] == pairs.destination[cells[own]]).all()
    assert (pairs.level[pairs.near] == levels - 1).all()
    assert set(np.unique(cells)) == set(range(len(pairs)))  # areas are made of places, so no cell is without pairs


def test_far_pairs_are_coarse_and_near_pairs_fine(world):
    pairs = make_area_pairs(world(), 20.0)
    kinds = set(pairs.level.tolist())
    assert kinds == {0, 1, 2}
    middle = pairs.levels[1]
    own = pairs.level == 1
    gap = middle.distance(pairs.origin[own], pairs.destination[own])
    gap = gap - middle.radius[pairs.origin[own]] - middle.radius[pairs.destination[own]]
    assert (gap > 20).all()
    everything = make_area_pairs(world(), 5000.0)
    assert (everything.level == 2).all()
    assert len(everything) == len(everything.finest) ** 2


def test_areas_must_be_nested_and_present(world):
    plain = make_places(["a", "b"], [40, 41], [-100, -101])
    with pytest.raises(InputError, match="no areas"):
        make_area_pairs(plain, 10)
    crossed = make_places(
        ["a", "b", "c"], [40, 41, 42], [-100, -101, -102], areas={"county": ["x", "x", "y"], "tract": ["1", "2", "2"]}
    )
    with pytest.raises(InputError, match="not inside areas of level 'county'"):
        make_area_pairs(crossed, 10)
    with pytest.raises(InputError, match="positive"):
        make_area_pairs(world(), 0)


def test_too_many_cells_are_refused_with_the_level(world, monkeypatch):
    monkeypatch.setattr("understudy.commutes.models.area_pairs.MOST_CELLS", 50)
    with pytest.raises(UnsupportedError, match="level 'level1'"):
        make_area_pairs(world(), 5000.0)
