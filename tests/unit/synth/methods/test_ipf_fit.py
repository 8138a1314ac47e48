"""Iterative proportional fitting on a junction tree: against the dense algorithm, and what it says when it cannot."""

from itertools import combinations

import numpy as np
import pytest

import understudy as us
from understudy.errors import InputError
from understudy.synth.methods.ipf import even_shares, fit_ipf

SIZES = {"a": 2, "b": 3, "c": 2, "d": 4}
NAMES = tuple(SIZES)
SCHEMA = us.Schema(attributes=tuple(us.Attribute(name=n, levels=tuple(range(s))) for n, s in SIZES.items()))
TRUE = np.random.default_rng(3).dirichlet(np.ones(48) / 2).reshape(2, 3, 2, 4)
CLIQUES = {
    "tree": [("a", "b"), ("b", "c"), ("c", "d")],
    "cycle": [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")],
    "all pairs": [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")],
    "overlapping": [("a", "b", "c"), ("b", "c", "d")],
    "singletons": [("a",), ("b",), ("c", "d")],
    "full": [NAMES],
}


def margin_of(table, margin):
    return table.sum(axis=tuple(i for i, name in enumerate(NAMES) if name not in margin))


def dense(tables, sweeps=2000):
    """The textbook algorithm on the full table."""
    fitted = np.full(TRUE.shape, 1 / TRUE.size)
    for _ in range(sweeps):
        for margin, table in tables:
            axes = tuple(i for i, name in enumerate(NAMES) if name not in margin)
            now = fitted.sum(axis=axes, keepdims=True)
            fitted = fitted * (table.reshape(now.shape) / table.sum() / now)
    return fitted


@pytest.mark.parametrize("margins", CLIQUES.values(), ids=CLIQUES)
def test_tables_that_agree_are_all_met_and_the_fit_is_that_of_the_full_table(margins):
    tables = [(margin, 1000 * margin_of(TRUE, margin)) for margin in margins]
    model, report = fit_ipf(SCHEMA, tables, sweeps=5000)
    assert report.converged
    assert "converged" in report.describe()
    assert "NOT" not in report.describe()
    for margin, table in tables:
        assert np.allclose(model.project(margin), table / 1000, atol=2e-6)
    assert np.allclose(model.project(NAMES), dense(tables), atol=5e-6)


def test_tables_that_contradict_one_another_are_reported_and_never_silent():
    tables = [(("a", "b"), margin_of(TRUE, ("a", "b"))), (("a", "c"), np.array([[0.1, 0.1], [0.4, 0.4]]))]
    model, report = fit_ipf(SCHEMA, tables)
    assert not report.converged
    assert report.difference > 0.01
    assert "did NOT converge" in report.describe()
    assert "stands still" in report.describe()
    assert np.allclose(model.project(("a", "c")), [[0.1, 0.1], [0.4, 0.4]])  # the last one visited holds


def test_structural_zeros_stay_empty_whatever_the_tables_say():
    rule = us.Impossible(conditions=(("a", us.Condition(levels=(0,))), ("d", us.Condition(levels=(3,)))))
    schema = us.Schema(attributes=SCHEMA.attributes, impossible=(rule,))
    tables = [(("a", "b"), margin_of(TRUE, ("a", "b"))), (("c", "d"), margin_of(TRUE, ("c", "d")))]
    model, _ = fit_ipf(schema, tables)
    assert model.project(("a", "d"))[0, 3] == 0
    assert np.allclose(model.project(("a", "b")), tables[0][1], atol=1e-5)


@pytest.mark.parametrize("table", [np.zeros((2, 3)), np.array([[1.0, -1, 1], [1, 1, 1]])])
def test_a_table_that_is_no_table_is_refused(table):
    with pytest.raises(InputError, match="a x b"):
        fit_ipf(SCHEMA, [(("a", "b"), table)])


def test_an_even_prior_has_margins_that_agree_even_with_structural_zeros():
    rule = us.Impossible(conditions=(("a", us.Condition(levels=(0,))), ("d", us.Condition(levels=(3,)))))
    schema = us.Schema(attributes=SCHEMA.attributes, impossible=(rule,))
    margins = [("a", "b"), ("c", "d"), ("a", "d")]
    even = schema.allowed() / schema.allowed().sum()
    found = even_shares(schema, margins)
    for margin, table in zip(margins, found, strict=True):
        assert np.allclose(table, margin_of(even, margin))
    assert fit_ipf(schema, list(zip(margins, found, strict=True)))[1].converged


@pytest.mark.parametrize("shape", [(3, 2), (4, 3, 2, 5), (2, 5, 6, 5, 10)])
def test_sweeps_over_all_pairs_are_the_sweeps_over_any_tables(shape):
    """The fast loop fits smaller and smaller tables; table by table it does what the plain loop does."""
    from understudy.models.proportional_fitting_compiled import sweep, sweep_pairs

    rng = np.random.default_rng(4)
    places, wanted, index = [], [], np.indices(shape)
    for first, second in combinations(range(len(shape)), 2):
        share = rng.random((shape[first], shape[second]))
        share[0, 0] = 0.0 if (first, second) == (0, 1) else share[0, 0]
        wanted.append((share / share.sum()).ravel())
        places.append((index[first] * shape[second] + index[second]).ravel())
    starts = np.cumsum([0, *map(len, wanted)])
    plain = np.full(index[0].size, 1 / index[0].size)
    fast = plain.copy()
    for times in (1, 3, 30):
        moved = sweep(plain, np.array(places, dtype=np.int32), starts, np.concatenate(wanted), times)
        assert sweep_pairs(fast, np.array(shape), np.concatenate(wanted), times) == pytest.approx(moved, abs=1e-12)
        assert fast == pytest.approx(plain, abs=1e-12)
