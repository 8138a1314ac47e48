"""One look at all pairs: what it finds, what it leaves, and what it charges."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import InputError
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.privacy.promise.sensitivity import comparison_sensitivity
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.methods.one_look import PairChoice, shrunk_departures

pytestmark = pytest.mark.filterwarnings("ignore::understudy.errors.UntrackedWarning")
BUDGETS = [us.PureDP(epsilon=4), us.ZCDP(rho="0.2"), us.ApproxDP(epsilon=2, delta="1e-9")]


def source(rows=4000, seed=0, dependent=True):
    """Four attributes: the second mostly repeats the first, the others depend on nothing."""
    generator = np.random.default_rng(seed)
    columns = {name: generator.integers(0, 4, rows) for name in "abcd"}
    if dependent:
        columns["b"] = np.where(generator.random(rows) < 0.8, columns["a"], columns["b"])
    schema = us.Schema(attributes=tuple(us.Attribute(name=name, levels=(0, 1, 2, 3)) for name in columns))
    return us.open_source(pa.table({name: pa.array(codes) for name, codes in columns.items()}), schema)


def make(data, budget, unit="add_remove", **options):
    return us.synthesize(
        data, method="one_look", budget=budget, unit=unit, rows=4000, stream=SeededStream(1), **options
    )


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda one: one.name)
@pytest.mark.parametrize("unit", ["replace", "add_remove"])
def test_it_measures_the_pair_that_depends_and_spends_its_budget(budget, unit):
    release = make(source(), budget, unit)
    measured = [one.margin for one in release.measurements]
    assert ("a", "b") in measured
    (note,) = [note for note in release.provenance.notes if note.startswith("Pairs")]
    assert note.startswith("Pairs: a x b")
    loss = compose(release.provenance.events, us.Unit(kind=unit), by=release.provenance.by)
    assert satisfies(loss, budget)
    table = release.frame()
    same = np.mean([one == other for one, other in zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True)])
    assert same > 0.7


def test_with_little_to_spend_it_ends_with_one_way_margins():
    for budget in (us.PureDP(epsilon="0.01"), us.ZCDP(rho="0.000002")):
        release = make(source(), budget, "replace")
        assert all(len(one.margin) < 2 for one in release.measurements)
        assert any(note.startswith("No pairs") for note in release.provenance.notes)


def test_one_unit_moves_the_distances_by_no_more_than_the_gate_derives():
    """All tables of two attributes of two levels with up to two rows, and all their neighbours."""
    cells = list(product(range(2), repeat=2))
    model = np.array([[1, 0], [0, 1]])

    def distances(rows):
        table = np.zeros((2, 2), dtype=int)
        for cell in rows:
            table[cell] += 1
        return np.array([np.abs(table - model).sum(), np.abs(table.sum(axis=0) - model.sum(axis=0)).sum()])

    for kind in ("replace", "add_remove"):
        allowed = comparison_sensitivity([1, 1], us.Unit(kind=kind))
        worst_l1 = worst_l2 = 0
        for rows in product(cells, repeat=2):
            others = [[*rows[:1], cell] for cell in cells] if kind == "replace" else [rows[:1]]
            for other in others:
                moved = distances(rows) - distances(other)
                worst_l1, worst_l2 = max(worst_l1, np.abs(moved).sum()), max(worst_l2, (moved**2).sum())
        assert worst_l1 == allowed.l1
        assert worst_l2 == allowed.l2_squared


def choice(departures, noise=1.0, **change):
    """Three attributes of ten levels with the pairs 01, 12 and 02."""
    given = {
        "one_cells": np.array([10, 10, 10]), "ends": np.array([[0, 1], [1, 2], [0, 2]]),
        "pair_cells": np.array([100, 100, 100]), "departures": np.array(departures, dtype=float),
        "most": np.full(3, 1800.0), "noise": noise, "concentrated": True,
    }  # fmt: skip
    return PairChoice(**{**given, **change})


def test_a_pair_that_a_chain_implies_is_left_out():
    assert choice([1800, 1800, 850], noise=0.05).choose(lambda _: True) == [0, 1]
    assert set(choice([1800, 600, 1700], noise=0.05).choose(lambda _: True)) == {0, 2}


def test_pairs_that_do_not_fit_or_are_not_worth_it_are_left_out():
    assert choice([1500, 1400, 1300], noise=0.05).choose(lambda chosen: len(chosen) < 2) == [0]
    assert choice([1500, 1400, 1300], noise=50.0).choose(lambda _: True) == []


def test_shares_are_the_best_ones():
    """No other division has less expected error, by a search in all directions."""
    one = choice([1500, 0, 0])
    shares = np.array([float(share) for share in one.shares([0])])
    assert sum(one.shares([0])) == 1
    weights = np.array([2 * 10, 2 * 10, 3 * 10, 100.0])  # w c: a pair less rests on the first two

    def error(parts):
        return (weights / np.sqrt(parts)).sum()

    generator = np.random.default_rng(0)
    for _ in range(200):
        step = generator.normal(size=4) * 0.02 * shares
        assert error(shares) <= error(shares + step - step.sum() * shares) + 1e-6


def test_a_look_that_is_all_noise_says_that_all_pairs_are_alike():
    noisy = np.random.default_rng(1).normal(500.0, 100.0, 300)
    assert np.ptp(shrunk_departures(noisy, np.zeros(300), 100.0**2, np.full(300, 1e9))) < 0.5 * np.ptp(noisy)
    assert np.allclose(shrunk_departures(noisy, np.zeros(300), 0.0, np.full(300, 1e9)), noisy)
    assert shrunk_departures(
        np.array([50.0, 500.0]), np.array([400.0, 400.0]), 0.0, np.array([900.0, 200.0])
    ).tolist() == [0, 200]


def test_bad_options_are_refused():
    for options in ({"model_cells": 10}, {"draws": "posterior", "strata": "a"}, {"rows_by": "magic"}):
        with pytest.raises(InputError):
            us.plan(source().schema, method="one_look", budget=us.PureDP(epsilon=1), **options)
