"""Whole jobs from what is known of pairs of areas: totals are exact, places are drawn by their weights."""

import numpy as np
import pytest
from scipy.stats import poisson

from understudy.commutes.methods import commute_tree
from understudy.commutes.methods.commute_tree import draw_jobs, draw_places, steps_of_one
from understudy.commutes.models.area_pairs import choose_area_pairs, make_area_pairs
from understudy.commutes.models.flow_fit import CellBeliefs
from understudy.core.places import make_places
from understudy.errors import InputError
from understudy.privacy.randomness.streams import SeededStream


def test_steps_of_one_round_up_or_down_and_keep_expectations():
    expected = np.array([0.2, 1.7, 0.1, 2.0, 0.5, 0.5])
    bounds = np.array([0, 4, 4, 6])
    stream = SeededStream(1)
    drawn = np.array([steps_of_one(expected, bounds, stream, "t", k) for k in range(4000)])
    assert (np.abs(drawn - expected) < 1).all()
    assert drawn.mean(axis=0) == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(4000))
    assert set(drawn[:, 4:].sum(axis=1)) == {1}
    assert (steps_of_one(expected, bounds, stream, "t", totals=np.array([4, 0, 1]))[:4].sum()) == 4


def poisson_beliefs(expected):
    """Each cell's count is Poisson."""
    return CellBeliefs(
        row=np.arange(len(expected)),
        first=np.zeros(len(expected), dtype=np.int64),
        up_to=np.append(poisson.cdf(np.arange(80)[None, :], expected[:, None]), np.ones((len(expected), 1)), axis=1),
    )


@pytest.mark.parametrize("near", [15.0, 5000.0])
def test_every_place_has_its_jobs_and_areas_their_flows(world, near, monkeypatch):
    monkeypatch.setattr(commute_tree, "TURNS", 0)
    places = world()
    pairs = make_area_pairs(places, near)
    rng = np.random.default_rng(3)
    at_places = rng.integers(0, 30, len(places))
    expected = rng.gamma(0.3, 5.0, len(pairs)) + 1e-6
    drawn = draw_jobs(places, pairs, poisson_beliefs(expected), at_places, SeededStream(2), "t")
    assert (np.bincount(drawn.destinations, drawn.jobs, len(places)) == at_places).all()
    keys = drawn.destinations * len(places) + drawn.origins
    assert (np.diff(keys) > 0).all()
    assert (drawn.jobs > 0).all()
    if near == 5000.0:  # all cells are fine: a cell of which more is expected has more, in each destination area
        area = pairs.finest.area_of_place
        made = np.bincount(pairs.classify(drawn.origins, drawn.destinations), drawn.jobs, len(pairs))
        for one in np.unique(area[at_places > 0]):
            own = np.flatnonzero(pairs.destination == one)
            in_order = made[own[np.argsort(expected[own])]]
            assert (np.maximum.accumulate(in_order) - in_order <= 1).all()


def test_whole_numbers_of_one_destination_have_the_least_expected_error(monkeypatch):
    """Against the enumeration of all ways to divide the jobs of a destination over its cells."""
    monkeypatch.setattr(commute_tree, "TURNS", 0)
    places = make_places(["a", "b", "c"], [40.0, 40.1, 40.2], [-100.0] * 3, areas={"tract": ["a", "b", "c"]})
    pairs = make_area_pairs(places, 50.0)
    expected = np.array([4.0, 1e-6, 1e-6, 1.1, 1e-6, 1e-6, 0.4, 1e-6, 1e-6])
    drawn = draw_jobs(places, pairs, poisson_beliefs(expected), np.array([7, 0, 0]), SeededStream(3), "t")
    made = np.bincount(drawn.origins, drawn.jobs, 3).astype(int)
    counts = np.arange(60)
    off = [np.array([(poisson.pmf(counts, mean) * abs(counts - k)).sum() for k in range(8)]) for mean in expected[::3]]
    ways = [(a, b, 7 - a - b) for a in range(8) for b in range(8 - a)]
    assert off[0][made[0]] + off[1][made[1]] + off[2][made[2]] == pytest.approx(
        min(off[0][a] + off[1][b] + off[2][c] for a, b, c in ways)
    )


def test_homes_have_what_is_expected_of_them(world):
    """Without the part of the level that is the home's, homes with many small flows would lose them."""
    places = world()
    pairs = make_area_pairs(places, 5000.0)
    rng = np.random.default_rng(8)
    expected = rng.gamma(0.4, 2.0, len(pairs)) + 1e-6
    by_area = np.bincount(pairs.destination, expected, len(pairs.finest))
    area = pairs.finest.area_of_place
    at_places = np.zeros(len(places), dtype=np.int64)
    at_places[np.unique(area, return_index=True)[1]] = np.rint(by_area).astype(int)
    off = []
    for turns in (0, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commute_tree, "TURNS", turns)
            drawn = draw_jobs(places, pairs, poisson_beliefs(expected), at_places, SeededStream(4), "t")
        homes = np.bincount(area[drawn.origins], drawn.jobs, len(pairs.finest))
        off.append(np.abs(homes - np.bincount(pairs.origin, expected, len(pairs.finest))).sum())
    assert off[1] < 0.5 * off[0]


def test_the_finest_level_is_one_with_few_cells_for_each_place():
    side = np.arange(400)
    areas = {"county": side // 200, "tract": side // 20, "group": side // 4}
    names = {level: [f"{value:04d}" for value in values] for level, values in areas.items()}
    places = make_places([f"{k:04d}" for k in side], 40 + side / 4000, np.full(400, -100.0), areas=names)
    # 100 groups make 10,000 cells, 25 for each place; 20 tracts make 400.
    assert choose_area_pairs(places, 50.0, "auto").finest.name == "tract"
    assert choose_area_pairs(places, 50.0, "group").finest.name == "group"
    assert choose_area_pairs(places, 50.0, "county").finest.name == "county"
    with pytest.raises(InputError, match="block"):
        choose_area_pairs(places, 50.0, "block")


def test_places_are_drawn_by_weight_within_their_group():
    groups, weights = np.array([1, 0, 1, 1]), np.array([1.0, 5.0, 0.0, 3.0])
    drawn = draw_places(groups, weights, np.repeat([0, 1], [100, 8000]), SeededStream(5), "t")
    assert set(drawn[:100]) == {1}
    shares = np.bincount(drawn[100:], minlength=4) / 8000
    assert shares == pytest.approx([0.25, 0, 0, 0.75], abs=5 * np.sqrt(0.19 / 8000))


def test_nobody_works_anywhere(world):
    places = world()
    pairs = make_area_pairs(places, 20.0)
    beliefs = poisson_beliefs(np.full(len(pairs), 1e-6))
    drawn = draw_jobs(places, pairs, beliefs, np.zeros(len(places), dtype=np.int64), SeededStream(1))
    assert len(drawn.jobs) == 0
