"""The decay with distance: all of a group stands for it, and weak evidence leans on what is known without it."""

import numpy as np
import pytest

from understudy.commutes.models import decay
from understudy.commutes.models import regions_compiled as loops
from understudy.commutes.models.gravity import GravityTree, default_decay, knots
from understudy.commutes.shared.distances_and_homes import choose_level, groups_of
from understudy.demo.commuters import make_world

SIZES = ((1, 4), (5, 19), (20, 99), (100, 10**9))


TOWNS = [("town", 3, 1), ("town", 4, 2)]
CITIES = [pytest.param(("city", seed, shorter), marks=pytest.mark.full) for seed, shorter in ((5, 1), (6, 2))]


@pytest.fixture(scope="module", params=[*TOWNS, *CITIES], ids=str)
def world(request):
    return World(*request.param)


class World:
    """Generated places whose commutes are shorter than by the fixed decay, or as long; nothing public says which."""

    def __init__(self, kind: str, seed: int, shorter: int) -> None:
        made = make_world(kind, seed=seed)
        self.tree, self.jobs, self.places = made.tree, made.jobs, made.places
        points = self.places.points()
        self.works = np.flatnonzero(self.jobs)
        miles = np.stack([np.sqrt(((points - points[work]) ** 2).sum(axis=1)) for work in self.works.tolist()])
        pull = self.places.mass * np.interp(shorter * miles, knots(), default_decay())
        rng = np.random.default_rng(seed)
        numbers = self.jobs[self.works].tolist()
        self.homes = np.stack([rng.multinomial(n, p / p.sum()) for n, p in zip(numbers, pull, strict=True)])
        self.bands = decay.band_of(miles**2)
        self.means = (self.homes * miles).sum(axis=1) / self.homes.sum(axis=1)

    def counts(self, groups: np.ndarray, number: int, scale: float, seed: int) -> np.ndarray:
        """Noisy jobs by group of destinations and band of distance."""
        table = np.zeros((number, decay.BANDS))
        np.add.at(table, (groups[self.works][:, None], self.bands), self.homes)
        rng, leave = np.random.default_rng(seed), -np.expm1(-1 / scale)
        return table + rng.geometric(leave, table.shape) - rng.geometric(leave, table.shape)

    def errors(self, expected: np.ndarray) -> np.ndarray:
        """Mean absolute errors of the average commute to a destination, by its size."""
        size = self.jobs[self.works]
        off = np.abs(expected - self.means)
        return np.array([off[(size >= low) & (size <= high)].mean() for low, high in SIZES if (size >= low).any()])

    def expected(self, decays: np.ndarray, groups: np.ndarray) -> np.ndarray:
        tree = self.tree
        flat = np.ones(len(knots()))
        seen = loops.exposures(tree.rank[self.works], tree.points, tree.mass, tree.sums, tree.nodes, flat, np.inf)
        pulls = seen * decays[groups[self.works]]
        return (pulls @ knots()) / pulls.sum(axis=1)


@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1, 2, 4.6, 10])
def test_no_noise_makes_a_fitted_decay_worse_than_none(world, epsilon):
    """Weak evidence changes little, strong evidence helps. Baselines: the fixed decay, and everybody at the mean."""
    scale = 2 / (0.05 * epsilon)
    level = choose_level(world.places, "auto", scale, int(world.jobs.sum()))
    groups, number = groups_of(world.places, level)
    fixed = world.errors(world.expected(default_decay()[None, :], np.zeros_like(groups)))
    at_the_mean = world.errors(np.full(len(world.works), np.average(world.means, weights=world.jobs[world.works])))
    found = []
    for seed in range(4):
        counts = world.counts(groups, number, scale, seed)
        decays = decay.fit_decays(world.tree, counts, groups, world.jobs, noise=scale, cut=None)
        found.append(world.errors(world.expected(decays, groups)))
    # A town of 6,000 jobs cannot learn its exact mean at epsilon 0.25, with noise of 160 jobs on every band.
    better = np.minimum(fixed, at_the_mean) if world.jobs.sum() > 100_000 else fixed
    assert (np.mean(found, axis=0) <= better + 0.06 * at_the_mean).all()


def test_small_workplaces_count_as_much_as_their_jobs(world):
    """Many small ones around a few large ones: the shares by distance are met for all jobs, not for the largest's."""
    groups = np.zeros(len(world.places), dtype=np.int64)
    decays = decay.fit_decays(world.tree, world.counts(groups, 1, 1e-3, 0), groups, world.jobs, noise=1e-3, cut=None)
    size = world.jobs[world.works]
    assert np.average(world.expected(decays, groups), weights=size) == pytest.approx(
        np.average(world.means, weights=size), rel=0.02
    )


@pytest.mark.parametrize("room", [10**6, 200, 1])
def test_examples_stand_for_all_jobs_of_their_group(world, room, monkeypatch):
    monkeypatch.setattr(decay, "MOST_EXAMPLES", room)
    groups, number = groups_of(world.places, "tract")
    examples, share = decay.choose_examples(world.tree, groups, world.jobs, number)
    of_all = np.bincount(groups, weights=world.jobs, minlength=number)
    assert np.bincount(groups[examples], weights=share, minlength=number) == pytest.approx(of_all)
    most = max(room // number, decay.LEAST_EXAMPLES)
    assert np.bincount(groups[examples], minlength=number).max() <= most
    assert len(np.unique(examples)) == len(examples)


def test_a_sample_looks_where_the_jobs_are():
    """A group too large to look at as a whole: half of its jobs lie in the east, and so does half of the sample."""
    world = make_world("city", seed=9)
    tree, jobs = GravityTree(world.places), world.jobs
    groups = np.zeros(len(world.places), dtype=np.int64)
    east = world.places.longitude > np.median(np.repeat(world.places.longitude, jobs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decay, "MOST_EXAMPLES", 200)
        examples, share = decay.choose_examples(tree, groups, jobs, 1)
    assert len(examples) <= 200
    assert share[east[examples]].sum() / share.sum() == pytest.approx(jobs[east].sum() / jobs.sum(), abs=0.02)
