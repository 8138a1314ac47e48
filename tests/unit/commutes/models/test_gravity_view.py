"""What a destination sees: the same closed nodes whether the opened ones are kept or not, in the order of distance."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.commutes.models.gravity import NODE_ROOM, default_decay
from understudy.commutes.models.gravity_compiled import look_around, ring_edges, view
from understudy.demo.commuters import make_world

OPENNESS = 0.04


@pytest.fixture(scope="module")
def tree():
    return make_world("city", seed=4).tree


def viewed(tree, position, farthest=np.inf, room=NODE_ROOM, wanted=0):
    lows, highs = np.empty(room, np.int64), np.empty(room, np.int64)
    squares, totals, spare = np.empty(room), np.empty(room), np.empty((2, room, 5))
    places = np.empty((room, 2), np.int64)
    closed, _ = view(
        position, tree.points, tree.mass, tree.sums, tree.nodes, default_decay(), OPENNESS, wanted, farthest,
        lows, highs, squares, totals, places, spare,
    )  # fmt: skip
    return lows[:closed], highs[:closed], squares[:closed], totals[:closed]


def looked(tree, at):
    heaps, lows, highs, halves = (np.empty(NODE_ROOM, np.int64) for _ in range(4))
    pulls = np.empty(NODE_ROOM)
    used = look_around(
        at[0], at[1], at[2], tree.points, tree.mass, tree.sums, tree.nodes, default_decay(),
        heaps, lows, highs, halves, pulls, OPENNESS,
    )  # fmt: skip
    closed = np.flatnonzero(halves[:used] < 0)
    return {(int(lows[node]), int(highs[node])): pulls[node] for node in closed}


@pytest.mark.parametrize("position", [17, 1234, 2500, 3900])
def test_both_ways_of_looking_close_the_same_nodes(tree, position):
    lows, highs, squares, totals = viewed(tree, position)
    expected = looked(tree, tree.points[position])
    assert set(zip(lows.tolist(), highs.tolist(), strict=True)) == set(expected)
    assert (np.diff(squares) >= 0).all()
    pulls = np.diff(totals, prepend=0.0)
    assert pulls == pytest.approx([expected[pair] for pair in zip(lows.tolist(), highs.tolist(), strict=True)])
    covered = np.sort(np.concatenate([np.arange(low, high) for low, high in zip(lows, highs, strict=True)]))
    assert (covered == np.arange(len(tree.order))).all()


def test_a_place_far_from_all_others_still_sees_itself(tree):
    """Seen from the edge the whole country may be one node; within the cut the place itself must remain."""
    lows, highs, squares, _ = viewed(tree, 0)
    assert looked(tree, tree.points[0]).keys() != set(zip(lows.tolist(), highs.tolist(), strict=True))
    assert (lows[0], highs[0], squares[0]) == (0, 1, 0.0)
    assert len(viewed(tree, 0, farthest=1e-6)[0]) == 1


def test_what_is_too_far_is_left_out_and_room_is_never_exceeded(tree):
    _, _, squares, _ = viewed(tree, 1300)
    near = viewed(tree, 1300, farthest=25.0)
    assert 0 < len(near[0]) < len(squares)
    assert (near[2] <= 25.0).all()
    assert (near[2] == squares[squares <= 25.0]).all()
    lows, highs, _, _ = viewed(tree, 1300, room=40)
    assert len(lows) <= 40
    assert (highs - lows).sum() == len(tree.order)


@pytest.mark.parametrize("grade", [1.0, 4 / 3])
def test_rings_have_the_pull_they_are_made_for(tree, grade):
    _, _, squares, totals = viewed(tree, 1300)
    edges = np.empty(8)
    ring_edges(len(squares), 4, grade, squares, totals, edges)
    inside = [totals[squares < edge][-1] for edge in edges[:4]]
    largest = np.diff(totals, prepend=0.0).max()
    assert inside == pytest.approx(totals[-1] * (1 - np.array([0.75, 0.5, 0.25, 0.0]) ** grade), abs=1.01 * largest)
    assert np.isinf(edges[3])


def test_who_wants_more_nodes_looks_closer(tree):
    """Closed nodes are opened further; they still hold every place once, in either order."""
    few, many = viewed(tree, 1300), viewed(tree, 1300, wanted=1_500)
    assert len(few[0]) < 1_500 <= len(many[0]) < 3_000
    assert set(few[0].tolist()) <= set(many[0].tolist())  # a node begins where its first part begins
    covered = np.sort(np.concatenate([np.arange(low, high) for low, high in zip(*many[:2], strict=True)]))
    assert (covered == np.arange(len(tree.order))).all()
    assert (np.diff(many[2]) >= 0).all()
