"""Attributes drawn anew: their exact distribution given all the others, against the joint table."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.models import conditional_draws
from understudy.models.conditional_draws import _states, _weights, draw_anew
from understudy.models.junction_tree import JunctionTree
from understudy.models.model import Model
from understudy.privacy.randomness.streams import SecureStream

SIZES = {"a": 2, "b": 3, "c": 2, "d": 3}


def model() -> tuple[Model, np.ndarray]:
    """A chain a - b - c - d with an edge b - d, from random conditional tables, and its joint table."""
    rng = np.random.default_rng(5)
    joint = rng.random((2, 3, 1, 1)) * rng.random((1, 3, 2, 3))
    joint[0, 1, 0, 2] = joint[1, 1, 0, 2] = 0
    joint /= joint.sum()
    tree = JunctionTree.build(SIZES, [("a", "b"), ("b", "c", "d")])
    order = tuple(SIZES)
    beliefs = tuple(
        joint.sum(axis=tuple(place for place, name in enumerate(order) if name not in clique))
        for clique in tree.cliques
    )
    return Model(tree=tree, beliefs=beliefs, total=100.0), joint


def test_weights_are_the_conditional_distribution():
    made, joint = model()
    grid = np.indices(joint.shape).reshape(4, -1)
    rows = dict(zip(SIZES, grid, strict=True))
    free = ("c", "d")
    touching = [place for place, clique in enumerate(made.tree.cliques) if set(clique) & set(free)]
    given = {name: rows[name] for name in ("a", "b")}
    weights = _weights(made, touching, free, given, grid.shape[1])
    weights /= weights.sum(axis=1, keepdims=True)
    exact = joint / joint.sum(axis=(2, 3), keepdims=True)
    for number, (a, b) in enumerate(zip(rows["a"], rows["b"], strict=True)):
        assert np.allclose(weights[number].reshape(2, 3), exact[a, b])


def test_draws_follow_it_and_impossible_rows_are_told():
    made, joint = model()
    count = 30_000
    rows = {"a": np.zeros(count, int), "b": np.ones(count, int), "c": np.zeros(count, int), "d": np.zeros(count, int)}
    drawn, there = draw_anew(made, rows, ["d"], SecureStream(), "test")
    assert there.all()
    exact = joint[0, 1, 0] / joint[0, 1, 0].sum()
    found = np.bincount(drawn["d"], minlength=3) / count
    assert exact[2] == 0
    assert found[2] == 0
    # Five standard deviations: a false alarm has probability 6e-7.
    assert np.all(np.abs(found - exact) <= 5 * np.sqrt(exact * (1 - exact) / count) + 1e-12)
    empty = np.zeros((2, 3, 2, 3))
    empty[0] = joint[0]
    empty /= empty.sum()
    tree = made.tree
    beliefs = tuple(
        empty.sum(axis=tuple(place for place, name in enumerate(SIZES) if name not in clique))
        for clique in tree.cliques
    )
    nobody = Model(tree=tree, beliefs=beliefs, total=1.0)
    _, there = draw_anew(nobody, {**rows, "a": np.ones(count, int)}, ["b"], SecureStream(), "test")
    assert not there.any()


def test_states_tell_rows_apart():
    rows = {"a": np.array([0, 1, 0, 1]), "b": np.array([2, 2, 2, 0])}
    state, first = _states(rows, ("a", "b"))
    assert len(first) == 3
    assert state[0] == state[2]
    assert len(set(state.tolist())) == 3


@pytest.mark.parametrize("free", [("c", "d"), ("a", "d"), ("a", "b", "c", "d"), ("a", "c", "d")])
def test_many_combinations_are_drawn_clique_by_clique(monkeypatch, free):
    made, joint = model()
    monkeypatch.setattr(conditional_draws, "MOST_CELLS", 1)
    count, code = 40_000, {"a": 1, "b": 2, "c": 1, "d": 0}
    rows = {name: np.full(count, value) for name, value in code.items()}
    drawn, there = draw_anew(made, rows, list(free), SecureStream(), "cliques")
    assert there.all()
    exact = joint[tuple(slice(None) if name in free else code[name] for name in SIZES)]
    exact = (exact / exact.sum()).ravel()
    shape = [SIZES[name] for name in SIZES if name in free]
    cells = np.ravel_multi_index([drawn[name] for name in SIZES if name in free], shape)
    found = np.bincount(cells, minlength=exact.size) / count
    # Six standard deviations in each of at most 36 cells: a false alarm has probability 7e-8.
    assert np.all(np.abs(found - exact) <= 6 * np.sqrt(exact * (1 - exact) / count) + 1e-12)


def test_impossible_rows_are_told_clique_by_clique(monkeypatch):
    made, _ = model()
    monkeypatch.setattr(conditional_draws, "MOST_CELLS", 1)
    rows = {name: np.array(values) for name, values in
            {"a": [0, 0], "b": [1, 1], "c": [0, 1], "d": [2, 2]}.items()}  # fmt: skip
    _, there = draw_anew(made, rows, ["a"], SecureStream(), "cliques")
    assert there.tolist() == [True, True]  # a is drawn given b alone, which is possible
    beliefs = tuple(np.where(np.arange(belief.size).reshape(belief.shape) < 0, belief, 0.0) for belief in made.beliefs)
    nobody = Model(tree=made.tree, beliefs=beliefs, total=1.0)
    _, there = draw_anew(nobody, rows, ["a"], SecureStream(), "cliques")
    assert not there.any()
