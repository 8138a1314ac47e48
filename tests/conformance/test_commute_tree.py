"""The method for flows between areas: totals, refusals, and an audit by canaries that catches half the noise.

A canary is a job with two possible homes, each in an area of its own, so it has cells of its own in the tables by home
area and by pair of areas; a coin says where it lives. The attack adds up log likelihood ratios of those cells under the
law that is claimed. The threshold is chosen on separate runs; a sound method is accused with probability at most 1e-5.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import understudy as us
from understudy.auditing.sampled_audit import epsilon_lower_bound
from understudy.commutes.methods import commute_tree
from understudy.commutes.methods.commute_tree import ORIGINS, PAIRS, CommuteTree
from understudy.commutes.source.local import open_commutes
from understudy.core.flows import Flows
from understudy.core.places import make_places
from understudy.demo.commuters import make_world
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.gate.flow_gate import FlowGate
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric
from understudy.privacy.promise.definition import Unit
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.method import Request

CANARIES, KNOWN, CLAIM = 100, 5, Fraction(5, 2)
CHOOSE, TEST, FALSE_ALARM = 15, 48, 1e-5
FIXED = Unit(kind="replace", fixed=("destination",))


class Memory:
    """Where the method puts its tables."""

    def __init__(self):
        self.tables = {}

    def remembered(self, copy, note):
        return False

    def open(self, copy):
        self.copy = copy

    def add(self, origins, destinations, jobs):
        self.tables[self.copy] = (origins, destinations, jobs)

    def close(self):
        return {}


def run(source, places, unit, budget, *, stream=None, copies=1, **options):
    method = CommuteTree(**options)
    plan = method.plan(places, Request(budget=budget, unit=unit, copies=copies))
    stream, sink = stream or SeededStream(3), Memory()
    gate = FlowGate(source=source, places=places, plan=plan, stream=stream)
    synthesis = method.run(plan, places, gate, stream, sink)
    assert gate.events == plan.events
    return sink, synthesis, plan


@pytest.fixture(scope="module")
def town():
    world = make_world("town", seed=2)
    return world, open_commutes(world.flows_table(), places=world.places)


@pytest.mark.parametrize("sparse", [False, True])
def test_fixed_destinations_keep_their_jobs(town, sparse, monkeypatch):
    world, source = town
    if sparse:
        monkeypatch.setattr(commute_tree, "DENSE_CELLS", 10)
        monkeypatch.setattr(commute_tree, "REPORTED_EMPTY", 100)
    sink, synthesis, plan = run(source, world.places, FIXED, us.PureDP(epsilon=2), copies=2)
    for origins, destinations, jobs in sink.tables.values():
        assert (np.bincount(destinations, jobs, len(world.places)) == source.flows().sizes()).all()
        assert origins.min() >= 0
    pairs = next(one for one in synthesis.measurements if one.label == PAIRS)
    assert isinstance(pairs.mechanism, SparseGeometric) == sparse
    assert synthesis.copies_share_measurements
    assert [step.label for step in plan.steps] == [one.label for one in synthesis.measurements]


@pytest.mark.parametrize("kind", ["replace", "add_remove"])
@pytest.mark.parametrize("budget", [us.PureDP(epsilon=4), us.ZCDP(rho=1)], ids=["pure", "zcdp"])
def test_private_destinations_are_measured(town, kind, budget):
    world, source = town
    sink, synthesis, _ = run(source, world.places, Unit(kind=kind), budget)
    made = int(sink.tables[1][2].sum())
    if kind == "replace":
        assert made == source.total()
    else:
        noisy = next(one for one in synthesis.measurements if one.label == PAIRS)
        assert made == noisy.values.sum()  # the exact number is never used
    assert any("workplace" in one.label for one in synthesis.measurements)


def test_what_cannot_be_done_is_said_before_anything_is_measured(town, monkeypatch):
    world, source = town
    with pytest.raises(InputError, match="near"):
        CommuteTree(near="-1")
    bare = make_places(["a", "b"], [40, 41], [-100, -101])
    with pytest.raises(InputError, match="no areas"):
        run(source, bare, FIXED, us.PureDP(epsilon=1))
    monkeypatch.setattr(commute_tree, "DENSE_CELLS", 10)
    with pytest.raises(UnsupportedError, match="sparse noise"):
        run(source, world.places, FIXED, us.ZCDP(rho=1))


class Canaries:
    """Two home areas for each canary, all working at one place; some jobs in every area are known."""

    def __init__(self):
        homes = 2 * CANARIES
        ids = [f"h{k:04d}" for k in range(homes)] + ["work"]
        self.places = make_places(
            ids, 40 + np.arange(homes + 1) / 5000, np.full(homes + 1, -100.0), areas={"area": ids}
        )

    def source(self, coins):
        jobs = np.full(2 * CANARIES, KNOWN, dtype=np.int32)
        jobs[2 * np.arange(CANARIES) + coins] += 1
        starts = np.zeros(len(self.places) + 1, dtype=np.int64)
        starts[-1] = len(jobs)
        flows = Flows(places=self.places, _starts=starts, _origins=np.arange(len(jobs), dtype=np.int32), _jobs=jobs)

        class Source:
            places = self.places

            def total(self):
                return flows.total()

            def flows(self):
                return flows

        return Source()

    def scores(self, synthesis):
        total = np.zeros(CANARIES)
        for one in synthesis.measurements:
            if one.label == ORIGINS:
                values = one.values[: 2 * CANARIES]
            elif one.label == PAIRS:  # pairs of one level: origin times destinations, the work place last
                values = one.values.reshape(len(self.places), -1)[: 2 * CANARIES, -1]
            else:
                continue
            here = one.mechanism.log_pmf(values, np.array(KNOWN + 1)) - one.mechanism.log_pmf(values, np.array(KNOWN))
            total += here[1::2] - here[::2]
        return total


class HalfTheNoise(SeededStream):
    """Draws every noise at half the scale it is asked for."""

    __slots__ = ()

    def discrete_laplace(self, scale, size):
        return super().discrete_laplace(scale / 2, size)


def lower_bound(kind):
    world = Canaries()
    trials = []
    for number in range(CHOOSE + TEST):
        coins = np.random.default_rng([number, 7]).integers(0, 2, CANARIES)
        _, synthesis, _ = run(world.source(coins), world.places, FIXED, us.PureDP(epsilon=CLAIM), stream=kind(number))
        trials.append((coins.astype(bool), world.scores(synthesis)))

    def counted(part, threshold):
        sides, scores = (np.concatenate(values) for values in zip(*part, strict=True))
        yes = scores >= threshold
        return int(yes[sides].sum()), int(sides.sum()), int(yes[~sides].sum()), int((~sides).sum())

    scores = np.concatenate([one for _, one in trials[:CHOOSE]])
    candidates = np.quantile(scores, np.linspace(0.05, 0.95, 60)) - 1e-4
    threshold = max(candidates, key=lambda value: epsilon_lower_bound(*counted(trials[:CHOOSE], value)))
    return epsilon_lower_bound(*counted(trials[CHOOSE:], threshold), alpha=FALSE_ALARM)


@pytest.mark.full
def test_the_claim_survives_an_attack():
    assert lower_bound(SeededStream) <= float(CLAIM)


@pytest.mark.full
def test_half_the_noise_is_caught():
    assert lower_bound(HalfTheNoise) > float(CLAIM)


@pytest.mark.full
def test_half_the_sparse_noise_is_caught_and_the_whole_is_not(monkeypatch):
    monkeypatch.setattr(commute_tree, "DENSE_CELLS", 10)
    monkeypatch.setattr(commute_tree, "REPORTED_EMPTY", 10**6)
    assert lower_bound(SeededStream) <= float(CLAIM)
    honest = SparseGeometric.draw

    def halved(self, *arguments, **options):
        return honest(replace_scale(self), *arguments, **options)

    def replace_scale(mechanism):
        return SparseGeometric(scale=mechanism.scale / 2, threshold=mechanism.threshold, domain=mechanism.domain)

    monkeypatch.setattr(SparseGeometric, "draw", halved)
    assert lower_bound(HalfTheNoise) > float(CLAIM)
