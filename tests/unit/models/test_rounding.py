"""Rounded rows inside one table: attributes that share no clique stay as independent as the model says.

A peer deals rounded counts out in order, which ties attributes together that the model keeps apart and costs several
times the utility. The statistic is Pearson's, per degree of freedom, over all pairs of ten independent attributes: each
pair has 16 degrees of freedom, so the mean over 45 pairs and 20 tables has standard deviation
sqrt(2 / (16 * 45 * 20)) = 0.012. The bounds are 5 of those either side of 1 (false alarm below 1e-6).
"""

from itertools import combinations

import numpy as np
import pytest

import understudy as us
from understudy.models.junction_tree import JunctionTree
from understudy.models.model import Model
from understudy.models.sample import draw_cells
from understudy.privacy.randomness.streams import SeededStream

NAMES = tuple(f"x{i}" for i in range(10))
SCHEMA = us.Schema(attributes=tuple(us.Attribute(name=name, levels=tuple(range(5))) for name in NAMES))
ROWS, TABLES = 1500, 20
LOW, HIGH = 0.94, 1.06


def independent_model():
    rng = np.random.default_rng(4)
    tree = JunctionTree.build(dict.fromkeys(NAMES, 5), [])
    return Model(tree=tree, beliefs=tuple(rng.dirichlet(np.full(5, 8)) for _ in tree.cliques), total=1.0)


def mean_statistic(tables):
    found = []
    for columns in tables:
        for first, second in combinations(NAMES, 2):
            counts = np.zeros((5, 5))
            np.add.at(counts, (columns[first], columns[second]), 1)
            expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
            found.append(float(((counts - expected) ** 2 / expected).sum()) / 16)
    return float(np.mean(found))


@pytest.mark.parametrize("by", ["rounding", "multinomial"])
def test_no_dependence_between_attributes_that_share_no_clique(by):
    model, stream = independent_model(), SeededStream(11)
    tables = [model.draw(SCHEMA, ROWS, by, stream, "rows", copy).columns for copy in range(TABLES)]
    assert LOW < mean_statistic(tables) < HIGH


def test_the_statistic_sees_rows_that_are_dealt_out_in_order():
    """The same counts of every level, one row in ten left in order: what the test above would not let pass."""
    model, stream = independent_model(), SeededStream(12)
    tables = []
    for copy in range(TABLES):
        columns = {}
        for number, (name,) in enumerate(model.tree.cliques):
            drawn = draw_cells(model.beliefs[number], ROWS, "rounding", stream, "wrong", copy, number)
            lazy = np.arange(ROWS) < ROWS // 10
            drawn[lazy] = np.sort(drawn[lazy])
            columns[name] = drawn
        tables.append(columns)
    assert mean_statistic(tables) > 1.2


def test_given_what_separates_them_no_dependence_either():
    """a and c hang on b: within each level of b the same statistic, 2 x 16 degrees of freedom, over 200 tables."""
    sizes = {"a": 5, "b": 2, "c": 5}
    schema = us.Schema(attributes=tuple(us.Attribute(name=n, levels=tuple(range(s))) for n, s in sizes.items()))
    tree = JunctionTree.build(sizes, [("a", "b"), ("b", "c")])
    rng = np.random.default_rng(1)
    given = {name: rng.dirichlet(np.full(5, 8), size=2) for name in ("a", "c")}
    share = np.array([0.4, 0.6])
    beliefs = tuple(
        (share[:, None] * given["a"]).T if clique == ("a", "b") else share[:, None] * given["c"]
        for clique in tree.cliques
    )
    model, stream = Model(tree=tree, beliefs=beliefs, total=1.0), SeededStream(3)
    found = []
    for copy in range(200):
        counts = model.draw(schema, ROWS, "rounding", stream, "rows", copy).counts(("a", "b", "c"))
        for level in range(2):
            inside = counts[:, level, :]
            expected = np.outer(inside.sum(axis=1), inside.sum(axis=0)) / inside.sum()
            found.append(float(((inside - expected) ** 2 / expected).sum()) / 16)
    assert abs(float(np.mean(found)) - 1) < 5 * np.sqrt(2 / 16 / len(found))
