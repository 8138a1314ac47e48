"""Blocks of destinations: cut by public sizes, drawn by any number of threads with the same outcome."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from understudy.commutes.models.gravity import default_decay
from understudy.commutes.models.regions import AreaRegions, PlaceRegions, RingRegions
from understudy.commutes.source.local import open_commutes
from understudy.demo.commuters import make_world
from understudy.privacy.gate import flow_blocks
from understudy.privacy.gate.flow_blocks import DrawOrder, LocalFlows, cut_blocks
from understudy.privacy.gate.flow_gate import FlowTable
from understudy.privacy.mechanisms.commute_prior import PriorRule, SizedPrior
from understudy.privacy.mechanisms.flow_draws import CellUrn, ShrunkUrn
from understudy.privacy.mechanisms.place_bands import PlaceBands
from understudy.privacy.promise.event import ApproxLoss
from understudy.privacy.randomness.streams import SeededStream

LOSS = ApproxLoss(epsilon=Fraction(3), delta=Fraction(1, 1000), source="test")


@pytest.fixture(scope="module")
def world():
    return make_world("town", seed=5)


@pytest.fixture(scope="module")
def flows(world):
    return open_commutes(world.flows_table(), places=world.places).flows()


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(flow_blocks, "BLOCK_ROWS", 300)
    monkeypatch.setattr(flow_blocks, "BLOCK_FILLED", 7)


def rings(world, flows):
    sizes = flows.sizes()
    priors = PriorRule(loss=LOSS, extra_cells=1).table(sizes)
    regions = RingRegions(
        tree=world.tree, decays=default_decay()[None, :], groups=np.zeros(len(world.places), np.int64),
        cells=priors.of(sizes)[0], cut=9.0,
    )  # fmt: skip
    return CellUrn(priors=priors, claim=LOSS), regions


def areas(world, flows):
    regions = AreaRegions(places=world.places, level="tract")
    priors = PriorRule(loss=LOSS).table(flows.sizes(), cells=regions.cells)
    return CellUrn(priors=priors, claim=LOSS), regions


def shrunk(world, flows):
    del flows
    urn = ShrunkUrn(
        priors=SizedPrior(entries={1: (len(world.places), 1, 2)}), claim=LOSS,
        bands=PlaceBands(points=world.places.points(), edges=np.array([4.0, 25.0])),
        keeps=np.array([2**32, 2**31, 0], dtype=np.uint64), elsewhere=True,
    )  # fmt: skip
    return urn, PlaceRegions(places=world.places, cut=5.0)


def drawn(world, flows, made, threads):
    mechanism, regions = made(world, flows)
    cells = regions.cells_of(np.arange(len(world.places)))
    order = DrawOrder(mechanism=mechanism, regions=regions, rows=flows.sizes(), cells=cells, purpose=("commute", 1))
    parts = list(LocalFlows(flows, threads).draw_blocks(order, SeededStream(8)))
    return len(parts), [np.concatenate(columns).tolist() for columns in zip(*parts, strict=True)]


@pytest.mark.parametrize("made", [rings, areas, shrunk])
def test_any_number_of_threads_and_any_blocks_draw_the_same(world, flows, made, monkeypatch):
    whole, expected = drawn(world, flows, made, 1)
    monkeypatch.setattr(flow_blocks, "BLOCK_ROWS", 300)
    monkeypatch.setattr(flow_blocks, "BLOCK_FILLED", 7)
    for threads in (1, 2, 5):
        blocks, found = drawn(world, flows, made, threads)
        assert blocks > 10 * whole
        assert found == expected


def test_counts_do_not_depend_on_threads(flows, small_blocks):
    table = FlowTable(label="parity", cells=3, classify=lambda here, there: (here.astype(np.int64) + there) % 3)
    one = LocalFlows(flows, 1).count(table)
    assert one.sum() == flows.total()
    assert one.tolist() == LocalFlows(flows, 4).count(table).tolist()


def test_blocks_cover_every_destination_once_and_stay_small(small_blocks):
    weights = np.array([0, 5, 400, 0, 0, *([1] * 30), 299, 2, 0])
    blocks = cut_blocks(weights)
    assert [place for first, last in blocks for place in range(first, last)] == list(range(len(weights)))
    for first, last in blocks:
        assert last - first == 1 or weights[first:last].sum() <= 300
        assert (weights[first:last] > 0).sum() <= 7
