"""Sectors, masses of homes and leaned counts: what is placed where the model and noisy totals say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from understudy.commutes.models.decay import BANDS, _curves, band_middles, leaned
from understudy.commutes.models.gravity import GravityTree, decay_from, default_decay
from understudy.commutes.models.regions import AreaFactors, RingRegions
from understudy.commutes.shared.distances_and_homes import FlowModel, fit_homes, home_areas
from understudy.demo.commuters import make_world
from understudy.privacy.mechanisms.ring_division import cell_shares, rings_and_sectors


@pytest.fixture(scope="module")
def world():
    return make_world("town", seed=3)


def regions_of(world, tree=None, cells=40, graded=False):
    tree = GravityTree(world.places) if tree is None else tree
    groups = np.zeros(len(world.places), dtype=np.int64)
    return RingRegions(
        tree=tree, decays=default_decay()[None, :], groups=groups, cells=groups + cells, graded=groups == (not graded)
    )


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("cells", [6, 48])
def test_rows_drawn_evenly_are_placed_by_the_gravity_model(world, cells, graded):
    """Rows in every cell by its share: homes fall on places by mass and decay, whether directions are told apart or
    not. Cells that are not what is placed in would show as tracts with far too many or too few."""
    regions, at = regions_of(world, cells=cells, graded=graded), 7
    sectors = int(rings_and_sectors(np.array([cells]))[1][0])
    shares = np.repeat(cell_shares(cells, graded), sectors)
    drawn = np.repeat(np.arange(cells), np.rint(4_000 * shares).astype(np.int64))
    starts = np.array([0, len(drawn)])
    homes = regions.around(np.array([at])).place(starts, drawn, bytes(32))
    everyone = np.arange(len(world.places))
    miles = world.places.miles(everyone, np.full(len(everyone), at))
    pull = world.places.mass * (np.exp(-miles / 6.0) + 0.002 / (1.0 + (miles / 40.0) ** 2))
    _, tract = np.unique(world.places.areas["tract"], return_inverse=True)
    expected = np.bincount(tract, weights=pull) / pull.sum()
    placed = np.bincount(tract[homes], minlength=len(expected)) / len(homes)
    assert np.abs(placed - expected).sum() / 2 < 0.06


@pytest.mark.parametrize(("cells", "graded"), [(40, False), (40, True)])
def test_a_place_drawn_with_sectors_is_in_the_cell_it_was_drawn_for(world, cells, graded):
    regions = regions_of(world, cells=cells, graded=graded)
    everyone = np.arange(len(world.places), dtype=np.int32)
    around = regions.around(np.array([11]))
    everywhere = np.array([0, len(everyone)])
    cell_of = around.encode(everywhere, everyone)
    assert cell_of.min() >= 0
    assert cell_of.max() < around.domains[0]
    drawn = np.sort(cell_of)
    homes = around.place(everywhere, drawn, bytes(32))
    assert (around.encode(everywhere, homes) == drawn).mean() > 0.95


def test_masses_make_the_model_expect_the_counted_homes(world):
    """Twice as many workers in some tracts as residents say: fitted masses expect them, the public ones do not."""
    places = world.places
    _, tract = np.unique(places.areas["tract"], return_inverse=True)
    double = np.where(tract % 3 == 0, 2.0, 1.0)
    destinations = np.flatnonzero(world.jobs)
    miles = np.sqrt(((places.points()[destinations][:, None] - places.points()[None]) ** 2).sum(axis=2))
    pull = places.mass * double * (np.exp(-miles / 6.0) + 0.002 / (1.0 + (miles / 40.0) ** 2))
    shares = pull / pull.sum(axis=1, keepdims=True)
    counts = np.bincount(tract, weights=(shares * world.jobs[destinations][:, None]).sum(axis=0))
    tree = GravityTree(places)
    fitted = fit_homes(
        tree, counts, tract, decays=default_decay()[None, :], groups=np.zeros(len(places), dtype=np.int64),
        rows=world.jobs, noise=1.0, cut=None,
    )  # fmt: skip
    factor = fitted.mass[fitted.rank] / places.mass
    assert factor[tract % 3 == 0].mean() / factor[tract % 3 != 0].mean() == pytest.approx(2.0, rel=0.15)
    assert tree.mass[tree.rank] == pytest.approx(places.mass)  # the tree that was given is as it was


def test_counts_lean_on_the_model_where_noise_has_swallowed_them():
    rng = np.random.default_rng(5)
    model = np.concatenate((np.full(200, 0.01), np.full(200, 4_000.0)))
    truth = model * rng.lognormal(0.0, 0.3, size=400)
    noisy = truth + rng.laplace(0.0, 20.0, size=400)
    found = leaned(noisy, model, 20.0)
    assert found[:200].sum() < 20.0  # cut off at zero there would be 2,000
    assert np.abs(found[200:] - truth[200:]).mean() < 30.0
    assert np.maximum(noisy, 0.0)[:200].sum() > 1_000.0


def test_home_areas_are_as_fine_as_noise_allows_and_nest(world):
    tree = GravityTree(world.places)
    _, tract = np.unique(world.places.areas["tract"], return_inverse=True)
    coarse, few = home_areas(tree, 1000.0, 6_000.0)
    assert (few, set(coarse.tolist())) == (1, {0})
    fine, many = home_areas(tree, 5.0, 6_000.0)
    assert set(fine.tolist()) == set(range(many))
    assert tract.max() + 1 <= many <= 100
    assert all(len(set(tract[fine == number].tolist())) == 1 for number in range(many))


def test_many_decays_at_once_are_each_by_itself():
    strengths = np.random.default_rng(1).lognormal(-2.0, 2.0, size=(5, BANDS))
    for one, curve in zip(strengths, _curves(strengths), strict=True):
        assert curve == pytest.approx(decay_from(band_middles(), np.maximum(one, 1e-12)), rel=1e-9)


@pytest.mark.parametrize("cut", [None, 8.0])
def test_factors_of_an_area_make_the_model_expect_its_flows(world, cut):
    """Twice as many homes in every third tract, for the workers of every second one: that is what is expected then."""
    _, tract = np.unique(world.places.areas["tract"], return_inverse=True)
    number = int(tract.max()) + 1
    model = FlowModel(
        tree=GravityTree(world.places), areas=tract, number=number, decays=default_decay()[None, :],
        groups=np.zeros(len(tract), dtype=np.int64), rows=world.jobs, cut=cut,
    )  # fmt: skip
    before = model.expected()
    jobs = np.bincount(tract, world.jobs, number)
    assert before.sum(axis=1) == pytest.approx(jobs)
    wanted = before * np.where((np.arange(number)[:, None] % 2 == 0) & (np.arange(number) % 3 == 0), 2.0, 1.0)
    wanted *= (jobs / np.maximum(wanted.sum(axis=1), 1e-9))[:, None]
    assert np.abs(before - wanted).sum() > 0.1 * jobs.sum()
    factors = model.fitted(wanted)
    after = np.stack([model._from(area, factors.tree_of(model.tree, area)) for area in range(number)])
    assert np.abs(after - wanted).sum() < 0.01 * jobs.sum()


def test_destinations_of_several_areas_see_their_own_masses(world):
    """In any order of destinations each gets what it gets alone."""
    _, tract = np.unique(world.places.areas["tract"], return_inverse=True)
    rng = np.random.default_rng(3)
    homes = AreaFactors(area_of=tract, factors=rng.uniform(0.2, 3.0, size=(tract.max() + 1, tract.max() + 1)))
    regions = replace(regions_of(world, cells=40), homes=homes)
    origins = np.arange(len(tract), dtype=np.int32)
    several = rng.choice(len(tract), size=9, replace=False)
    starts = np.arange(len(several) + 1) * len(origins)
    together = regions.around(several)
    cells = together.encode(starts, np.tile(origins, len(several)))
    placed = together.place(starts, np.sort(cells.reshape(len(several), -1), axis=1).ravel(), bytes(32))
    for number, destination in enumerate(several):
        own = slice(starts[number], starts[number + 1])
        alone = regions.around(np.array([destination]))
        assert (alone.encode(starts[:2], origins) == cells[own]).all()
        assert (alone.place(starts[:2], np.sort(cells[own]), bytes(32)) == placed[own]).all()
    assert (replace(regions, homes=None).around(several).encode(starts, np.tile(origins, len(several))) != cells).any()
