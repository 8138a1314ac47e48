"""What a release states about its draws reaches the map: what follows the model, noise and zones, by workplace."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.commutes.map.counts_law import (
    NO_LAW,
    NOISY_SIZES,
    error_at_most,
    noise_law,
    off_alike,
    pair_noise,
    stated_law,
    urn_law,
)
from understudy.commutes.shared.distances_and_homes import HOMES_LABEL
from understudy.core.places import make_places
from understudy.demo.commuters import make_world
from understudy.privacy.promise.definition import ApproxDP, Unit
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.statement import Provenance, Statement

FIXED = Unit(fixed=("destination",))
URN = {
    "mechanism": "commute_urn",
    "sizes_from": [1, 10],
    "cells": [2, 8],
    "priors": ["1/2", "3/4"],
    "rows_per_job": [1, 4],
}
GEOMETRIC = {"mechanism": "commute_geometric", "scale": "2"}


def stated(*mechanisms, unit=FIXED, copy=1, sizes=(5,)):
    draws = ({"label": "draw", "mechanisms": list(mechanisms)},) if mechanisms else ()
    provenance = Provenance(method="commute", package_version="0", draws=draws)
    statement = Statement(unit=unit, guarantee=ApproxDP(epsilon=2, delta="1e-5"))
    return stated_law(provenance, statement, copy, np.array(sizes))


def test_the_law_follows_the_size_of_a_workplace():
    law, why = stated(URN, sizes=(0, 1, 9, 10, 500))
    assert law is not None
    assert why == ""
    assert law.cells.tolist() == [2, 2, 2, 8, 8]
    # With 500 jobs, a prior of 6 and four rows for each job: hardly any model, and little more than a binomial.
    assert 6 / 506 <= law.model[4] < 0.05
    assert law.noise[4] == pytest.approx((506 / 500) ** 2 * (506 + 2000) / (507 * 4))
    assert law.model[1] > law.model[3] > law.model[4]


def test_less_belief_and_more_prior_are_more_model():
    sizes, cells = np.array([10, 10, 10]), np.array([4, 4, 4])
    law = urn_law(sizes, np.array([2.0, 10.0, 2.0]), cells, believed=np.array([1.0, 1.0, 0.5]))
    assert law.model == pytest.approx([2 / 12, 1 / 2, 1 - 0.5 * 10 / 12])
    assert law.noise[1] > law.noise[0] == law.noise[2]


def test_geometric_noise_has_a_law_from_its_scale():
    law, _ = stated(GEOMETRIC, sizes=(10, 4_000))
    assert law is not None
    assert law.cells.tolist() == [2, 64]
    assert law.noise[1] == pytest.approx(1 + 2 * 4 * 64 / 4_000)
    assert law.model == pytest.approx([2 / 12, 64 / 4_064])
    assert noise_law(np.array([10]), np.array([2]), 20.0).model[0] > 0.6


MIXTURE = {
    "mechanism": "commute_mixture",
    "sizes_from": [1, 5, 40],
    "laws": ["answers", "balanced", "noise"],
    "cells": [3, 2, 24],
    "prior_of_an_answer": "1/4",
    "scale_of_noise": "2",
    "alike": True,
}


def test_laws_by_size_have_each_their_own():
    law, _ = stated(MIXTURE, sizes=(1, 8, 4_000))
    assert law is not None
    assert law.cells.tolist() == [3, 2, 24]
    true = 1 / (1 + 3 / 4)
    hidden = (1 - true**2) / true**2 / (1 + (1 - true**2) / true**2)
    assert law.model[0] == pytest.approx(hidden)
    assert law.noise[0] == pytest.approx(1 + (1 - true**2) / true**2 * (1 - hidden))
    # Over two zones balanced noise is one geometric variable of half the scale: variance 2 a / (1 - a)^2.
    a = np.exp(-1.0)
    each = 2 * a / (1 - a) ** 2 * 2 / 8
    assert law.noise[1] == pytest.approx(1 + each * (1 - law.model[1]))
    assert law.model[0] > law.model[1] > law.model[2] > 0
    unmodelled, _ = stated({**MIXTURE, "alike": False}, sizes=(8,))
    assert unmodelled is not None
    assert unmodelled.model.tolist() == [0.0]


@pytest.fixture(scope="module")
def source():
    world = make_world("town", seed=12)
    return us.open_commutes(world.flows_table(), places=world.places)


@pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
def test_a_release_without_home_areas_says_nothing_about_the_model(source):
    made = us.synthesize(source, method="commute", budget=us.PureDP(epsilon=4), stream=SeededStream(4))
    found = off_alike(made, 1)
    noise = next(one for one in made.measurements if one.label == HOMES_LABEL).mechanism
    assert found.share > 0
    assert found.jobs >= 2 * noise.variance**0.5  # noise alone is that large in an area
    without = us.synthesize(source, method="commute", budget=us.PureDP(epsilon=4), home_share="0")
    assert off_alike(without, 1) is None


@pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
def test_flows_between_areas_state_the_noise_of_a_pair(source):
    made = us.synthesize(source, method="commute_tree", budget=us.PureDP(epsilon=2), stream=SeededStream(5))
    found = pair_noise(made)
    assert found is not None
    assert list(made.places.areas)[found.level] == "tract"
    noise = 2 * np.exp(-1) / (1 - np.exp(-1)) ** 2  # all of epsilon, two jobs moved
    assert found.variance >= noise
    _, tract = np.unique(made.places.areas["tract"], return_inverse=True)
    count = int(tract.max()) + 1
    origins, destinations, jobs = made.coded()
    works = np.unique(tract[destinations])
    noisy = made.measurements[0].values.reshape(count, count)  # one county: pairs in order, the destination fastest
    off = np.bincount(tract[origins], jobs, count) - noisy[:, works].sum(axis=1)
    assert found.variance == pytest.approx(noise + np.mean(off**2) / len(works))
    county = us.synthesize(source, method="commute_tree", budget=us.PureDP(epsilon=2), finest="county")
    assert pair_noise(county).level == found.level - 1
    private = us.synthesize(source, method="commute_tree", budget=us.PureDP(epsilon=2), unit=Unit())
    assert pair_noise(private) is None
    assert pair_noise(us.synthesize(source, method="commute", budget=us.PureDP(epsilon=2))) is None


@pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
def test_far_flows_that_were_measured_as_wholes_have_no_ranges():
    ids = [f"{county}{place}" for county in "ab" for place in range(6)]
    latitude = [(40 if name[0] == "a" else 43) + int(name[1]) / 100 for name in ids]
    areas = {"county": [name[0] for name in ids], "tract": [f"{name[0]}{int(name[1]) // 3}" for name in ids]}
    places = make_places(ids, latitude, [-100.0] * 12, areas=areas)
    flows = pa.table({"origin": ids * 2, "destination": ids + ids[::-1], "jobs": [5] * 24})
    source = us.open_commutes(flows, places=places)
    for near, known in (("50", False), ("500", True)):
        made = us.synthesize(source, method="commute_tree", budget=us.PureDP(epsilon=2), near=near)
        assert (pair_noise(made) is not None) == known


@pytest.mark.parametrize("slope", [0.0, 0.5, 1.0])
def test_the_error_is_at_most_what_the_noisy_counts_allow(slope):
    """Counts between a model and the noisy ones: the bound holds, and is reached where they are the noisy ones."""
    rng = np.random.default_rng(9)
    true, model, scale = rng.uniform(100, 900, 20_000), np.full(20_000, 500.0), 60.0
    noisy = true + rng.laplace(0, scale, len(true))
    shown = model + slope * (noisy - model)
    off = np.mean((shown - true) ** 2)
    most = error_at_most(shown, noisy, np.full(len(true), 2 * scale**2))
    assert off <= 1.02 * most
    assert most <= off + 2 * (1 - slope) * 2 * scale**2 * 1.05 + 0.02 * off


@pytest.mark.parametrize(
    ("mechanisms", "copy"), [((), 1), ((URN,), 2), (({"mechanism": "commute_tree"},), 1), (({},), 1)]
)
def test_a_release_that_says_nothing_has_no_law_and_a_reason(mechanisms, copy):
    assert stated(*mechanisms, copy=copy) == (None, NO_LAW)


def test_noisy_sizes_of_private_destinations_have_no_law():
    assert stated(URN)[0] is not None
    assert stated(URN, unit=Unit()) == (None, NOISY_SIZES)
