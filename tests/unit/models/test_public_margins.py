"""Public tables are exact in the model, however few records they have in however many cells."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.core.measurement import Measurement
from understudy.core.schema import Attribute, Schema
from understudy.models.fit import fit
from understudy.models.junction_tree import JunctionTree
from understudy.models.model import Model
from understudy.privacy.mechanisms.noise import DiscreteGaussian
from understudy.privacy.randomness.streams import SecureStream

SIZES = {"a": 3, "b": 4, "c": 2, "d": 3}


def model() -> Model:
    rng = np.random.default_rng(8)
    joint = rng.random((3, 4, 1, 1)) * rng.random((1, 4, 2, 1)) * rng.random((1, 1, 2, 3))
    joint /= joint.sum()
    tree = JunctionTree.build(SIZES, [("a", "b"), ("b", "c"), ("c", "d")])
    order = tuple(SIZES)
    beliefs = tuple(
        joint.sum(axis=tuple(place for place, name in enumerate(order) if name not in clique))
        for clique in tree.cliques
    )
    return Model(tree=tree, beliefs=beliefs, total=60.0)


@pytest.mark.parametrize("margin", [("a", "b"), ("b", "c"), ("c", "d"), ("b",)])
def test_everything_else_keeps_its_distribution_given_the_table(margin):
    made, order = model(), tuple(SIZES)
    counts = np.random.default_rng(9).integers(0, 9, [SIZES[name] for name in margin])
    found = made.with_counts(margin, counts)
    assert np.allclose(found.project(margin) / found.total, counts / counts.sum())
    axes = tuple(place for place, name in enumerate(order) if name not in margin)
    before, after = made.project(order), found.project(order)
    given = before / before.sum(axis=axes, keepdims=True)
    assert np.allclose(after, given * after.sum(axis=axes, keepdims=True))


def people() -> tuple[Schema, dict[str, np.ndarray]]:
    """Forty records with four attributes of twenty levels each, all of them public, and one that is not."""
    levels = tuple(range(20))
    schema = Schema(attributes=(*(Attribute(name=name, levels=levels) for name in "abcd"),
                                Attribute(name="x", levels=("no", "yes"))))  # fmt: skip
    rng = np.random.default_rng(3)
    return schema, {name: rng.integers(0, 20, 40) for name in "abcd"} | {"x": rng.integers(0, 2, 40)}


def counts(schema: Schema, columns: dict[str, np.ndarray], margin: tuple[str, ...]) -> np.ndarray:
    found = np.zeros(schema.shape(margin), dtype=np.int64)
    np.add.at(found, tuple(columns[name] for name in margin), 1)
    return found


@pytest.mark.parametrize("known", [[("a", "b", "c")], [("a", "b"), ("b", "c"), ("a", "c"), ("d",)]])
def test_a_few_records_in_many_cells_are_reached(known):
    schema, columns = people()
    margin = ("a", "x")
    measured = Measurement(margin=margin, values=counts(schema, columns, margin), label="-",
                           mechanism=DiscreteGaussian(scale=3))  # fmt: skip
    exact = {one: counts(schema, columns, one) for one in known}
    found, _ = fit(schema, [measured], total=40.0, stream=SecureStream(), known=exact)
    for one, wanted in exact.items():
        assert np.abs(found.project(one) - wanted).sum() / 80 <= (1e-9 if len(known) == 1 else 0.02)
