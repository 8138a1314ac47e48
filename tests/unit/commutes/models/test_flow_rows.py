"""Whole jobs from expectations: totals are exact, expectations are kept, places are drawn by their weights."""

import numpy as np
import pytest

from understudy.commutes.methods.commute_tree import draw_jobs, draw_places, steps_of_one
from understudy.commutes.models.area_pairs import make_area_pairs
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


@pytest.mark.parametrize("near", [15.0, 5000.0])
def test_every_place_has_its_jobs_and_areas_their_flows(world, near):
    places = world()
    pairs = make_area_pairs(places, near)
    rng = np.random.default_rng(3)
    at_places = rng.integers(0, 30, len(places))
    expected = rng.gamma(0.3, 5.0, len(pairs)) + 1e-6
    drawn = draw_jobs(places, pairs, expected, at_places, SeededStream(2), "t")
    assert (np.bincount(drawn.destinations, drawn.jobs, len(places)) == at_places).all()
    keys = drawn.destinations * len(places) + drawn.origins
    assert (np.diff(keys) > 0).all()
    assert (drawn.jobs > 0).all()
    if near == 5000.0:  # all cells are fine: within an area's total, flows follow the expectations to within one job
        area = pairs.finest.area_of_place
        made = np.bincount(pairs.classify(drawn.origins, drawn.destinations), drawn.jobs, len(pairs))
        totals = np.bincount(area, at_places, len(pairs.finest))
        sums = np.bincount(pairs.destination, expected, len(pairs.finest))
        wanted = expected * (totals / sums)[pairs.destination]
        assert np.abs(made - wanted).max() < 1 + 1e-6


def test_places_are_drawn_by_weight_within_their_group():
    groups, weights = np.array([1, 0, 1, 1]), np.array([1.0, 5.0, 0.0, 3.0])
    drawn = draw_places(groups, weights, np.repeat([0, 1], [100, 8000]), SeededStream(5), "t")
    assert set(drawn[:100]) == {1}
    shares = np.bincount(drawn[100:], minlength=4) / 8000
    assert shares == pytest.approx([0.25, 0, 0, 0.75], abs=5 * np.sqrt(0.19 / 8000))


def test_nobody_works_anywhere(world):
    places = world()
    pairs = make_area_pairs(places, 20.0)
    drawn = draw_jobs(places, pairs, np.full(len(pairs), 1e-6), np.zeros(len(places), dtype=np.int64), SeededStream(1))
    assert len(drawn.jobs) == 0
