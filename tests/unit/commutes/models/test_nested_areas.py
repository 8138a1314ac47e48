"""Areas by distance: a true division around every destination, fine within the stated distances, by brute force."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.commutes.models.nested_areas import AreaStep, NestedAreas
from understudy.core.places import make_places
from understudy.demo.commuters import make_world
from understudy.errors import InputError

STEPS = (
    AreaStep(level="county", miles=9.0), AreaStep(level="tract", miles=3.0), AreaStep(level="place", miles=0.0)
)  # fmt: skip


@pytest.fixture(scope="module")
def places():
    made = make_world("city", places=2_000, jobs=9_000, seed=3).places
    number = np.arange(len(made))  # neighbours have neighbouring numbers
    areas = {"county": (number // 250).astype("S"), "tract": (number // 12 + 1000 * (number // 250)).astype("S")}
    return make_places(made.ids, made.latitude, made.longitude, areas=areas, population=made.population)


def straight(places, one):
    points = places.points()
    return np.sqrt(((points - points[one]) ** 2).sum(axis=1))


def encoded(regions, destinations):
    everyone = np.tile(np.arange(len(regions.places), dtype=np.int32), len(destinations))
    starts = np.arange(len(destinations) + 1) * len(regions.places)
    around = regions.around(np.array(destinations))
    return around, around.encode(starts, everyone).reshape(len(destinations), -1)


@pytest.mark.parametrize("steps", [STEPS, STEPS[:2], STEPS[1:]], ids=["three", "areas only", "without counties"])
def test_cells_are_areas_and_near_ones_are_fine(places, steps):
    regions = NestedAreas(places=places, steps=steps)
    destinations = [0, 77, 1500, 1999]
    around, cells = encoded(regions, destinations)
    levels = [np.arange(len(places)) if s.level == "place" else places.area(s.level) for s in steps]
    for number, one in enumerate(destinations):
        found = cells[number]
        assert set(found.tolist()) == set(range(around.domains[number]))  # none is empty, none is missing
        distance = straight(places, one)
        sizes = np.bincount(found)
        for cell in range(len(sizes)):
            members = np.flatnonzero(found == cell)
            whole = [  # the levels of which this cell is exactly one area
                k for k, level in enumerate(levels)
                if len(set(level[members].tolist())) == 1 and (level == level[members[0]]).sum() == len(members)
            ]  # fmt: skip
            assert whole, "a cell is one area of some level"
            coarsest = min(whole)
            if coarsest < len(steps) - 1 and max(whole) == coarsest:
                # It was not opened, so nothing of it is near; a level below may hold the same places.
                assert distance[members].min() >= steps[coarsest].miles
        near = distance < steps[-2].miles
        assert all(
            (levels[-1][found == cell] == levels[-1][found == cell][0]).all() for cell in set(found[near].tolist())
        )
    assert regions.cells_of(np.array(destinations)).tolist() == around.domains.tolist()


def test_far_cells_are_coarse(places):
    """Without this a division into single places would pass the test above."""
    _, cells = encoded(NestedAreas(places=places, steps=STEPS), [0])
    sizes = np.bincount(cells[0])
    assert 1 < len(sizes) < len(places) / 3
    assert sizes.max() == 250


def test_what_lies_beyond_the_cut_is_elsewhere(places):
    regions = NestedAreas(places=places, steps=STEPS, cut=12.0)
    around, cells = encoded(regions, [40, 1200])
    for number, one in enumerate([40, 1200]):
        distance = straight(places, one)
        last = around.domains[number] - 1
        assert (cells[number][distance <= 12.0] < last).all()
        assert (cells[number] == last).any()
        assert set(cells[number].tolist()) == set(range(last + 1))


@pytest.mark.parametrize("cut", [None, 12.0])
def test_workers_are_placed_in_their_cell_by_mass(places, cut):
    regions = NestedAreas(places=places, steps=STEPS, cut=cut)
    around, cells = encoded(regions, [1500])
    biggest = int(np.bincount(cells[0][cells[0] < around.division[2][0]]).argmax())
    drawn = np.sort(np.concatenate([np.arange(around.domains[0]), np.full(6_000, biggest)]))
    starts = np.array([0, len(drawn)])
    homes = around.place(starts, drawn, bytes(range(32)))
    far = drawn >= around.division[2][0]
    assert (homes[far] == -1).all()
    assert (around.encode(np.array([0, (~far).sum()]), homes[~far]) == drawn[~far]).all()
    members = np.flatnonzero(cells[0] == biggest)
    expected = 6_001 * places.mass[members] / places.mass[members].sum()
    observed = np.bincount(homes[drawn == biggest], minlength=len(places))[members]
    chi = ((observed - expected) ** 2 / expected).sum()
    assert chi < 2 * len(members) + 40  # a false alarm has probability below 1e-8 from a hundred places on
    even = np.full(len(members), 6_001 / len(members))
    assert ((observed - even) ** 2 / even).sum() > 2 * len(members) + 40  # population is not even: noticed


def test_levels_must_nest_and_divide():
    places = make_places(
        ["a", "b", "c", "d"], [41.0, 41.1, 41.2, 41.3], [-71.0] * 4,
        areas={"all": list("xxxx"), "half": list("llrr"), "across": list("stst")},
    )  # fmt: skip
    with pytest.raises(InputError, match="2 area\\(s\\) of level 'across' lie in more than one area of level 'half'"):
        NestedAreas(places=places, steps=(AreaStep(level="half", miles=1.0), AreaStep(level="across", miles=0.0)))
    with pytest.raises(InputError, match="one area only"):
        NestedAreas(places=places, steps=(AreaStep(level="half", miles=1.0), AreaStep(level="all", miles=0.0)))
    good = NestedAreas(places=places, steps=(AreaStep(level="all", miles=1.0), AreaStep(level="half", miles=0.0)))
    assert good.cells_of(np.array([0, 3])).tolist() == [2, 2]
