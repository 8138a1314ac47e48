"""One look at all pairs: what it finds, what it leaves, and what it charges."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import understudy as us
from understudy.errors import InputError
from understudy.inference.chosen_tables import Choice, tables_after_choosing
from understudy.privacy.promise.accountant import compose, satisfies
from understudy.privacy.promise.sensitivity import comparison_sensitivity
from understudy.privacy.randomness.streams import SeededStream
from understudy.synth.shared.choosing_method import AGAIN
from understudy.synth.shared.expected_error import PairChoice, crossed, powers, shrunk_departures, squared_departure

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


def chain(rows=6000, columns=6):
    """Each attribute mostly repeats the one before it, and the last also the first: what a chain alone does not say."""
    generator = np.random.default_rng(3)
    codes = [generator.integers(0, 3, rows)]
    for _ in range(columns - 1):
        codes.append(np.where(generator.random(rows) < 0.7, codes[-1], generator.integers(0, 3, rows)))
    codes[-1] = np.where(generator.random(rows) < 0.5, codes[0], codes[-1])
    names = [f"v{place}" for place in range(columns)]
    schema = us.Schema(attributes=tuple(us.Attribute(name=name, levels=(0, 1, 2)) for name in names))
    return us.open_source(pa.table({name: pa.array(one) for name, one in zip(names, codes, strict=True)}), schema)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda one: one.name)
@pytest.mark.parametrize("unit", ["replace", pytest.param("add_remove", marks=pytest.mark.full)])
def test_a_second_look_stays_within_the_budget_and_is_told_of(budget, unit):
    release = make(chain(), budget, unit, look_again="always", model_cells=1000)
    assert satisfies(compose(release.provenance.events, us.Unit(kind=unit), by=release.provenance.by), budget)
    labels = [one.label for one in release.measurements]
    assert any(label.startswith(AGAIN) for label in labels)
    fresh = tables_after_choosing(release, ("v0", "v1"))  # what the second look depends on does not answer
    assert fresh is not None
    assert all(one.label.startswith(AGAIN) for one in fresh.measurements)
    assert any(not one.label.startswith(AGAIN) and len(one.margin) == 2 for one in release.measurements)
    assert not Choice(release=release).bounded_by_looks
    once = make(chain(), budget, unit, look_again="never")
    assert not any(one.label.startswith(AGAIN) for one in once.measurements)


def test_a_second_look_is_taken_where_noise_is_small_beside_what_chains_explain():
    large, small = us.ZCDP(rho=10), us.ZCDP(rho="0.000002")
    taken = [
        any(one.label.startswith(AGAIN) for one in make(chain(), budget, model_cells=1000).measurements)
        for budget in (large, small)
    ]
    assert taken == [True, False]
    pure = make(chain(), us.PureDP(epsilon=50), model_cells=1000)
    assert not any(one.label.startswith(AGAIN) for one in pure.measurements)


def test_a_second_look_and_strata_do_not_go_together():
    with pytest.raises(InputError, match="one model of all rows"):
        make(source(), us.ZCDP(rho=1), strata="a", look_again="always")
    with pytest.raises(InputError, match="sometimes"):
        make(source(), us.ZCDP(rho=1), look_again="sometimes")


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
    """Three attributes of ten levels and 1,000 people, with the pairs 01, 12 and 02."""
    ones = np.array([powers(np.full(10, 100.0))] * 3)
    given = {
        "one_powers": ones, "first": np.zeros(3), "known": np.zeros(3), "ends": np.array([[0, 1], [1, 2], [0, 2]]),
        "pair_powers": np.array([crossed(ones[0], ones[1], 1000.0)] * 3),
        "departures": np.array(departures, dtype=float), "most": np.full(3, 1800.0), "evenness": np.full(3, 1000.0),
        "noise": noise, "concentrated": True,
    }  # fmt: skip
    return PairChoice(**{**given, **change})


def test_a_pair_that_a_chain_implies_is_left_out():
    assert set(choice([1800, 1800, 1250]).choose(lambda _: True)) == {0, 1}
    assert set(choice([1800, 300, 1700]).choose(lambda _: True)) == {0, 2}


def test_pairs_that_do_not_fit_or_are_not_worth_it_are_left_out():
    assert len(choice([1500, 1400, 1300]).choose(lambda chosen: len(chosen) < 2)) == 1
    assert choice([1500, 1400, 1300], noise=1e9).choose(lambda _: True) == []
    assert choice([0, 0, 0]).choose(lambda _: True) == []


@pytest.mark.parametrize("concentrated", [True, False])
def test_shares_are_the_best_ones(concentrated):
    """No other division has clearly less expected error, by a search in all directions."""
    one = choice([1500, 900, 0], noise=4.0, concentrated=concentrated)
    shares = np.array([float(share) for share in one.shares([0, 1])])
    assert sum(one.shares([0, 1])) == 1
    least = one._errors([0, 1], shares)[0]
    generator = np.random.default_rng(0)
    for _ in range(200):
        step = generator.normal(size=5) * 0.1 * shares
        assert least <= one._errors([0, 1], shares + step - step.sum() * shares)[0] * 1.002
    assert one._errors([0, 1], np.full(5, 0.2))[0] > least


def test_public_margins_get_no_share():
    ones = np.array([powers(np.full(10, 100.0))] * 3)
    ones[1] = 0.0
    assert len(choice([1500, 0, 0], one_powers=ones).shares([0])) == 3


def test_expected_counts_of_a_pair_are_those_of_independence():
    first, second = np.array([4.0, 60.0]), np.array([16.0, 48.0])
    found = crossed(powers(first), powers(second), 64.0)
    exact = powers(np.outer(first, second) / 64)
    assert found.sum() == exact.sum() == 4
    assert np.abs(np.cumsum(found) - np.cumsum(exact)).max() <= 2


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.97, 0.9), (0.6, 0.8)])
def test_the_error_of_independence_follows_from_the_distance_for_two_levels(shares):
    """Four cells: the distance decides the squared error exactly, but for pi/2 and the middle of both tables."""
    one, other = ([share, 1 - share] for share in shares)
    table = 10_000 * np.outer(one, other)
    moved = table + 3 * np.array([[1, -1], [-1, 1]])
    evenness = 10_000 * 16 * np.prod([share * (1 - share) for share in shares])
    error = float(((moved - table) ** 2 / ((moved + table) / 2)).sum())
    assert float(squared_departure(np.array(12.0), np.array(evenness))) == pytest.approx(np.pi / 2 * error, rel=0.15)


def test_a_look_that_is_all_noise_says_that_all_pairs_are_alike():
    noisy = np.random.default_rng(1).normal(500.0, 100.0, 300)
    most = np.full(300, 1e4)
    assert np.ptp(shrunk_departures(noisy, np.zeros(300), 100.0**2, most)) < 0.5 * np.ptp(noisy)
    assert np.allclose(shrunk_departures(noisy, np.zeros(300), 0.0, most), noisy)
    assert (
        shrunk_departures(np.array([50.0, 500.0]), np.array([400.0, 400.0]), 0.0, np.array([900.0, 200.0])).max() <= 200
    )


def test_where_little_is_possible_little_is_expected():
    most = np.array([1000.0] * 20 + [20.0])
    found = shrunk_departures(np.full(21, 500.0), np.zeros(21), 100.0**2, most)
    assert found[-1] <= 20
    assert found[:20].min() > 400


def test_bad_options_are_refused():
    for options in ({"model_cells": 10}, {"draws": "posterior", "strata": "a"}, {"rows_by": "magic"}):
        with pytest.raises(InputError):
            us.plan(source().schema, method="one_look", budget=us.PureDP(epsilon=1), **options)
    for budget, noise in ((us.PureDP(epsilon=1), "gaussian"), (us.ZCDP(rho="0.1"), "geometric")):
        with pytest.raises(InputError, match=f"noise = {noise}"):
            us.plan(source().schema, method="one_look", budget=budget, noise=noise)
    with pytest.raises(InputError, match="pink"):
        us.plan(source().schema, method="one_look", budget=us.PureDP(epsilon=1), noise="pink")


@pytest.mark.parametrize("noise", ["geometric", "gaussian"])
def test_either_noise_stays_within_an_approximate_budget(noise):
    budget = us.ApproxDP(epsilon=2, delta="1e-9")
    release = make(source(), budget, noise=noise)
    assert {type(one.mechanism).__name__ for one in release.measurements} == {
        "Geometric" if noise == "geometric" else "DiscreteGaussian"
    }
    loss = compose(release.provenance.events, us.Unit(kind="add_remove"), by=release.provenance.by)
    assert satisfies(loss, budget)
    if noise == "geometric":
        assert satisfies(loss, us.PureDP(epsilon=2))  # nothing of delta is used
