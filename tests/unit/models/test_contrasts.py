"""Tables as effects: exact, shared between tables, and the fit in them is the fit in cells."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import understudy as us
from understudy.models.contrasts import EffectBasis, from_effects, helmert, second_moments, to_effects
from understudy.models.fit import build_tree, layout, problem_for

SIZES = {"a": 2, "b": 3, "c": 4, "one": 1}


@pytest.mark.parametrize("shape", [(4,), (2, 3), (3, 1, 4), (2, 2, 2, 3)])
def test_effects_and_back(shape):
    table = np.random.default_rng(1).normal(size=shape)
    turned = to_effects(table)
    assert from_effects(turned) == pytest.approx(table)
    assert (turned**2).sum() == pytest.approx((table**2).sum())  # orthonormal: penalties keep their size
    assert turned.ravel()[0] * np.sqrt(table.size) == pytest.approx(table.sum())


@pytest.mark.parametrize("shape", [(70,), (2, 90), (80, 3), (2, 70, 3)])
def test_attributes_of_many_levels_are_turned_by_sums_to_the_same_numbers(shape):
    table = np.random.default_rng(4).normal(size=shape)
    expected = table
    for size in shape:
        expected = np.tensordot(expected, helmert(size), axes=(0, 0))
    assert to_effects(table) == pytest.approx(expected)
    assert from_effects(to_effects(table)) == pytest.approx(table)


def test_an_independent_table_has_no_interaction():
    first, second = np.array([0.2, 0.8]), np.array([0.1, 0.3, 0.6])
    logs = np.log(np.multiply.outer(first, second))
    assert np.abs(to_effects(logs)[1:, 1:]).max() < 1e-12


def test_effects_are_shared_and_none_is_there_twice():
    margins = [("a", "b"), ("b", "c"), ("a", "b", "c"), ("b",), ("one", "a")]
    basis = EffectBasis(SIZES, margins)
    assert basis.length == sum(basis.counts.values()) == 2 * 3 * 4 - 1  # everything below a x b x c but the constant
    table = np.random.default_rng(2).normal(size=(2, 3, 4))
    axes = {"a": 0, "b": 1, "c": 2}
    said = np.full(basis.length, np.nan)
    for margin, places, factors in zip(margins, basis.places, basis.factors, strict=True):
        outside = tuple(axis for name, axis in axes.items() if name not in margin)
        coefficients = to_effects(table.sum(axis=outside).reshape([SIZES[name] for name in margin])) / factors
        known = (places >= 0) & ~np.isnan(said[places])
        assert coefficients[known] == pytest.approx(said[places[known]])  # every table says the same of an effect
        said[places[places >= 0]] = coefficients[places >= 0]
    assert not np.isnan(said).any()


def test_second_moments_against_summing():
    shares = [np.array([0.3, 0.7]), np.array([0.2, 0.2, 0.6])]
    joint = np.multiply.outer(*shares)
    for i, j in np.ndindex(2, 3):
        function = np.multiply.outer(helmert(2)[:, i], helmert(3)[:, j])
        assert second_moments(shares)[i, j] == pytest.approx((joint * function**2).sum())


def test_many_small_tables_converge_in_few_iterations():
    """Ten strongly dependent binary attributes, all pairs: in cells this did not converge in thousands of steps."""
    rng = np.random.default_rng(3)
    factor = rng.normal(size=20_000)
    names = [f"x{number}" for number in range(10)]
    columns = {name: (2 * factor + rng.normal(size=20_000) > 1).astype(int) for name in names}
    schema = us.Schema(attributes=tuple(us.Attribute(name=name, levels=(0, 1)) for name in names))
    tables = []
    for one, other in combinations(names, 2):
        counts = np.bincount(2 * columns[one] + columns[other], minlength=4).reshape(2, 2)
        tables.append(((one, other), counts + rng.normal(0, 30, (2, 2)), 900.0))
    noisy = layout(tables)
    problem = problem_for(schema, build_tree(schema, noisy.margins), noisy, 20_000.0)
    _, _, iterations, residual, _ = problem.solve(noisy.values, noisy.noise, 20_000.0, 5.0, tolerance=0.05)
    assert residual <= 0.05
    assert iterations < 200
