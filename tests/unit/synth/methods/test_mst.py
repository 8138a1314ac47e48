"""The private spanning tree: which tree it finds, what it measures, and how it spends."""

import numpy as np
import pytest

import understudy as us
from understudy.core.counts import Counts
from understudy.core.table import CodedTable
from understudy.errors import InputError
from understudy.privacy.gate.gate import Gate
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.method import configure


class Source:
    def __init__(self, table):
        self.table, self.schema = table, table.schema

    def total(self):
        return self.table.rows

    def count(self, margins, progress=None):
        return [Counts(margin=tuple(margin), values=self.table.counts(margin)) for margin in margins]


def chain(links=5, rows=4000, seed=0):
    """A chain of attributes in which each mostly repeats the one before it."""
    rng = np.random.default_rng(seed)
    columns = {"x0": rng.integers(0, 3, rows)}
    for i in range(1, links):
        columns[f"x{i}"] = np.where(rng.random(rows) < 0.8, columns[f"x{i - 1}"], rng.integers(0, 3, rows))
    schema = us.Schema(attributes=tuple(us.Attribute(name=name, levels=(0, 1, 2)) for name in columns))
    return CodedTable(schema=schema, columns=columns)


def run(table, budget, *, seed=1, unit="replace", **options):
    plan = us.plan(table.schema, method="mst", budget=budget, unit=unit, **options)
    stream = SeededStream(seed)
    gate = Gate(source=Source(table), schema=table.schema, plan=plan, stream=stream)
    synthesis = configure(plan.method, plan.options).run(plan, table.schema, gate, stream)
    return plan, gate, synthesis


def pairs(synthesis):
    return {one.margin for one in synthesis.measurements if len(one.margin) == 2}


@pytest.mark.parametrize("budget", [us.PureDP(epsilon=10), us.ZCDP(rho=2), us.ApproxDP(epsilon=10, delta="1e-9")])
@pytest.mark.parametrize("unit", ["replace", "add_remove"])
def test_finds_the_chain_and_spends_the_budget(budget, unit):
    table = chain()
    plan, gate, synthesis = run(table, budget, unit=unit)
    assert pairs(synthesis) == {(f"x{i}", f"x{i + 1}") for i in range(4)}
    assert satisfies(compose(gate.events, plan.unit, by=plan.by), budget)
    assert len(gate.events) == len(plan.events)
    assert "Tree: " in " ".join(synthesis.notes)
    near, far = (synthesis.tables[0].counts(pair) / synthesis.tables[0].rows for pair in (("x0", "x1"), ("x0", "x4")))
    assert np.trace(near) == pytest.approx(np.trace(table.counts(("x0", "x1"))) / 4000, abs=0.03)
    assert np.trace(far) == pytest.approx(np.trace(table.counts(("x0", "x4"))) / 4000, abs=0.05)


def test_with_hardly_any_budget_the_tree_is_a_tree_all_the_same():
    trees = {frozenset(pairs(run(chain(), us.PureDP(epsilon="0.001"), seed=seed)[2])) for seed in range(6)}
    assert len(trees) > 3  # chosen by noise
    for tree in trees:
        parts = {f"x{i}": i for i in range(5)}
        for first, second in tree:
            assert parts[first] != parts[second], "a cycle"
            old = parts[first]
            parts = {name: parts[second] if part == old else part for name, part in parts.items()}
        assert len(set(parts.values())) == 1


def test_few_pairs_under_epsilon_and_delta_get_whichever_noise_is_smaller():
    few, many = chain(links=3), chain(links=30, rows=100)
    laws = [
        {type(one.mechanism) for one in run(table, us.ApproxDP(epsilon=1, delta="1e-6"))[2].measurements}
        for table in (few, many)
    ]
    assert laws == [{Geometric}, {DiscreteGaussian}]


def test_fixed_attributes_hang_together_and_cost_nothing():
    table = chain()
    unit = us.Unit(kind="replace", fixed=("x0", "x1"))
    _, _, synthesis = run(table, us.PureDP(epsilon=10), unit=unit)
    assert ("x0", "x1") not in pairs(synthesis)
    assert len(pairs(synthesis)) == 3
    exact = table.counts(("x0", "x1"))
    assert np.abs(synthesis.tables[0].counts(("x0", "x1")) - exact).max() <= 5


def test_a_pair_too_large_for_the_model_is_left_out_and_the_rest_still_joined():
    schema = us.Schema(
        attributes=(
            us.Attribute(name="a", levels=tuple(range(60))),
            us.Attribute(name="b", levels=tuple(range(60))),
            us.Attribute(name="c", levels=(0, 1)),
        )
    )
    rng = np.random.default_rng(0)
    same = rng.integers(0, 60, 500)
    table = CodedTable(schema=schema, columns={"a": same, "b": same, "c": rng.integers(0, 2, 500)})
    _, _, synthesis = run(table, us.PureDP(epsilon=50), model_cells=1000)
    assert pairs(synthesis) == {("a", "c"), ("b", "c")}


def test_options_are_checked():
    with pytest.raises(InputError, match="model_cells"):
        configure("mst", {"model_cells": 10})
    with pytest.raises(InputError, match="rows_by"):
        configure("mst", {"rows_by": "luck"})
