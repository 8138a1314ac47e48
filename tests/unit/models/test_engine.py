"""The model engine against brute force: junction trees, propagation, shared sums, projection, probabilities, rows."""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import understudy as us
from understudy.errors import UnsupportedError
from understudy.models.junction_tree import (
    MANY,
    JunctionTree,
    Propagation,
    axes_outside,
    cells_with,
    spread,
    tree_cells,
)
from understudy.models.model import Model
from understudy.models.regularised_fit import Lattice, minimise
from understudy.privacy.randomness.streams import SeededStream

NAMES = ("a", "b", "c", "d", "e")
SIZES = dict(zip(NAMES, (2, 3, 2, 4, 3), strict=True))
SCHEMA = us.Schema(attributes=tuple(us.Attribute(name=n, levels=tuple(range(s))) for n, s in SIZES.items()))
GROUPS = {
    "tree": [("a", "b"), ("b", "c"), ("b", "d")],
    "cycle": [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")],
    "overlapping": [("a", "b", "c"), ("b", "c", "d"), ("d", "e")],
    "singletons": [],
    "full": [NAMES],
}


def joint_of(tree, potentials):
    """The normalised joint table, by writing out every cell."""
    log = sum(spread(p, clique, NAMES) for p, clique in zip(potentials, tree.cliques, strict=True))
    full = np.broadcast_to(np.exp(log), tuple(SIZES.values()))
    return full / full.sum(), float(np.log(full.sum()))


groups_of_attributes = st.lists(st.sets(st.sampled_from(NAMES), min_size=1, max_size=3).map(sorted), max_size=6)


@given(groups_of_attributes)
@settings(max_examples=100, deadline=None)
def test_junction_trees_cover_their_groups_and_run_intersections_hold(groups):
    tree = JunctionTree.build(SIZES, groups)
    assert {name for clique in tree.cliques for name in clique} == set(NAMES)
    for group in groups:
        assert tree.host(tuple(group)) is not None
    for name in NAMES:  # the cliques that hold an attribute are connected: all but one see it in their parent
        holding = [i for i, clique in enumerate(tree.cliques) if name in clique]
        assert sum(name not in tree.separator(i) for i in holding) == 1
    assert tree.cells == tree_cells(SIZES, groups) == sum(prod(tree.shape(c)) for c in tree.cliques)


@given(groups_of_attributes, st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=60, deadline=None)
def test_propagation_equals_enumeration(groups, seed, zeros):
    generator = np.random.default_rng(seed)
    tree = JunctionTree.build(SIZES, groups)
    potentials = [generator.normal(size=tree.shape(clique)) * 3 for clique in tree.cliques]
    if zeros:
        for table in potentials:
            table[generator.random(table.shape) < 0.15] = -np.inf
    exact = [np.where(np.isneginf(p), -1e300, p) for p in potentials]
    if not np.isfinite(sum(float(np.exp(p - p.max()).sum()) for p in exact)):
        return
    log = sum(spread(p, c, NAMES) for p, c in zip(potentials, tree.cliques, strict=True))
    if np.isneginf(np.broadcast_to(log, tuple(SIZES.values()))).all():
        return  # everything ruled out
    joint, log_z = joint_of(tree, potentials)
    beliefs, found = Propagation(tree).run(potentials)
    assert found == pytest.approx(log_z, abs=1e-9)
    for belief, clique in zip(beliefs, tree.cliques, strict=True):
        assert np.allclose(belief, joint.sum(axis=axes_outside(NAMES, clique)), atol=1e-12)


@pytest.mark.parametrize("name", GROUPS)
def test_projection_and_log_probability_equal_enumeration(name):
    tree = JunctionTree.build(SIZES, GROUPS[name])
    generator = np.random.default_rng(3)
    potentials = [generator.normal(size=tree.shape(clique)) for clique in tree.cliques]
    joint, _ = joint_of(tree, potentials)
    beliefs, _ = Propagation(tree).run(potentials)
    model = Model(tree=tree, beliefs=tuple(beliefs), total=100.0)
    for ways in (0, 1, 2, 3, 5):
        for margin in combinations(NAMES, ways):
            assert np.allclose(model.project(margin), 100 * joint.sum(axis=axes_outside(NAMES, margin)))
    cells = np.indices(joint.shape).reshape(5, -1)
    columns = dict(zip(NAMES, cells, strict=True))
    assert np.allclose(model.log_prob(columns), np.log(joint.ravel()))


def test_a_tree_beyond_its_limit_names_the_largest_table():
    with pytest.raises(UnsupportedError, match="a x b x c x d x e"):
        JunctionTree.build(SIZES, [NAMES], limit=100)


@given(
    st.lists(
        st.sets(st.sampled_from(NAMES), min_size=1).map(lambda s: tuple(sorted(s))), min_size=1, max_size=8, unique=True
    )
)
@settings(max_examples=60, deadline=None)
def test_shared_sums_equal_separate_ones_and_scatter_is_their_transpose(margins):
    generator = np.random.default_rng(1)
    table = generator.random(tuple(SIZES.values()))
    lattice = Lattice(NAMES, SIZES, margins)
    sums = lattice.gather(table)
    for margin, found in zip(margins, sums, strict=True):
        assert np.allclose(found, table.sum(axis=axes_outside(NAMES, margin)))
    parts = [generator.random(found.shape) for found in sums]
    spreaded = lattice.scatter(np.zeros(table.shape), parts)
    assert np.allclose(spreaded, sum(spread(p, m, NAMES) for p, m in zip(parts, margins, strict=True)))
    assert (spreaded * table).sum() == pytest.approx(sum((p * s).sum() for p, s in zip(parts, sums, strict=True)))


def test_minimise_finds_the_bottom_of_an_ill_conditioned_bowl():
    scales = np.geomspace(1, 1e4, 50)
    goal = np.linspace(-1, 1, 50)

    def bowl(x):
        return float(0.5 * (scales * (x - goal) ** 2).sum()), scales * (x - goal)

    found, iterations = minimise(bowl, np.zeros(50), small=lambda g: np.abs(g).max() < 1e-5, max_iterations=2000)
    assert np.allclose(found, goal, atol=1e-5)
    assert iterations < 1500


@pytest.mark.parametrize("by", ["rounding", "multinomial"])
def test_rows_follow_the_model(by):
    """Chi-square of drawn rows against the joint table; rounding must be at least as close."""
    tree = JunctionTree.build(SIZES, GROUPS["cycle"])
    generator = np.random.default_rng(4)
    potentials = [generator.normal(size=tree.shape(clique)) for clique in tree.cliques]
    joint, _ = joint_of(tree, potentials)
    beliefs, _ = Propagation(tree).run(potentials)
    model = Model(tree=tree, beliefs=tuple(beliefs), total=1.0)
    rows = 40_000
    table = model.draw(SCHEMA, rows, by, SeededStream(5), "t")
    expected = rows * joint
    statistic = ((table.counts(NAMES) - expected) ** 2 / expected).sum()
    freedom = joint.size - 1
    assert statistic < chi2.isf(1e-6, freedom)
    if by == "multinomial":  # and it does have the noise of independent draws
        assert statistic > chi2.isf(1 - 1e-6, freedom)
    wrong = rows * joint[..., ::-1]
    assert ((table.counts(NAMES) - wrong) ** 2 / wrong).sum() > 100 * freedom


def test_conditional_rounding_invents_no_dependence():
    """a and c share no clique given b; over many roundings their dependence given b averages out to nothing."""
    sizes = {"a": 3, "b": 2, "c": 3}
    schema = us.Schema(attributes=tuple(us.Attribute(name=n, levels=tuple(range(s))) for n, s in sizes.items()))
    tree = JunctionTree.build(sizes, [("a", "b"), ("b", "c")])
    generator = np.random.default_rng(6)
    beliefs, _ = Propagation(tree).run([generator.normal(size=tree.shape(c)) for c in tree.cliques])
    model = Model(tree=tree, beliefs=tuple(beliefs), total=1.0)
    stream, repeats, rows = SeededStream(7), 3000, 11
    total = np.zeros((3, 2, 3))
    for repeat in range(repeats):
        total += model.draw(schema, rows, "rounding", stream, "t", repeat).counts(("a", "b", "c"))
    mean = total / (repeats * rows)
    expected = model.project(("a", "b", "c"))
    assert np.abs(mean - expected).max() < 5 * 0.5 / rows / np.sqrt(repeats) * 2


@given(groups_of_attributes)
@settings(max_examples=50, deadline=None)
def test_cells_with_each_margin_are_those_of_the_tree_built_with_it(groups):
    margins = [*combinations(NAMES, 2), ("a", "c", "e")]
    expected = [tree_cells(SIZES, [*groups, margin]) for margin in margins]
    assert cells_with(SIZES, groups, margins) == expected
    assert cells_with(SIZES, groups, margins * MANY) == expected * MANY  # by compiled loops
