"""Definition 6 computed, bounded and calibrated, against the definition as printed: all tables, neighbours, outputs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import understudy as us
from understudy.auditing.dirichlet_audit import breach, breach_many_cells
from understudy.privacy.exact.breach_bounds import breach_bound, breach_bounds, breach_least, envelope_at, upper_tail
from understudy.privacy.exact.dirichlet_breach import breach_exact, breach_few_cells, partitions, thresholds
from understudy.privacy.exact.dirichlet_profile import log_weights
from understudy.privacy.mechanisms.breach_prior import Draws, breach_priors, prior_of_step
from understudy.privacy.mechanisms.preconditions import DrawLaw, breach_at_most, theorem_9_holds
from understudy.privacy.promise.calibrate_dirichlet import SmallBreach
from understudy.privacy.promise.event import breach_loss

ERROR = 1e-12
SPACES = [(2, 3, 3), (2, 6, 5), (2, 12, 12), (3, 4, 4), (3, 5, 3), (3, 8, 8), (4, 4, 4), (4, 3, 5)]  # k <= m
WIDE = [(4, 5, 3), (5, 3, 4), (5, 4, 3), (8, 3, 3), (7, 4, 2)]  # k > m
PRIORS = (0.01, 0.05, 0.2, 0.5, 1.0, 1.7, 3.0, 8.0)
EPSILONS = (0.3, 0.7, 1.5, 2.5, 4.0)


@pytest.mark.parametrize(("cells", "records", "rows"), [*SPACES, *WIDE])
@pytest.mark.parametrize(
    "epsilon", [one if one in (0.7, 4.0) else pytest.param(one, marks=pytest.mark.full) for one in EPSILONS]
)
def test_exact_and_both_bounds_by_enumeration(cells, records, rows, epsilon):
    everything = SmallBreach(cells, records, rows, epsilon)
    for prior in PRIORS:
        truth = everything.largest(prior, everything.sets(prior))
        found = breach(prior, cells, records, rows, epsilon)
        assert found.exact
        assert found == pytest.approx(truth, abs=ERROR)
        assert breach_least(prior, cells, records, rows, epsilon) <= truth + ERROR
        assert truth <= breach_bound(prior, cells, records, rows, epsilon) + ERROR
        for enough in (1e-9, 1e-3, 0.5):
            assert truth <= breach_bound(prior, cells, records, rows, epsilon, enough=enough) + ERROR
        both = breach_bounds(prior, cells, records, rows, epsilon)
        assert both.low - ERROR <= truth <= both + ERROR
        listed = breach_few_cells(prior, cells, records, rows, epsilon)
        assert listed == pytest.approx(truth, abs=ERROR)


@pytest.mark.parametrize(("cells", "records", "rows"), [(30, 12, 12), (100, 14, 14), (50, 10, 25), (20, 16, 9)])
@pytest.mark.parametrize("epsilon", [0.7, 2.0, 4.0])
def test_the_search_finds_the_worst_of_all_tables(cells, records, rows, epsilon):
    found = 0
    for prior in (0.02, 0.1, 0.3, 1.0, 4.0):
        safe = thresholds(prior, records, rows, epsilon)
        truth = breach_exact(prior, cells, records, rows, safe)
        searched = breach_many_cells(prior, cells, records, rows, epsilon)
        if searched is not None:
            found += 1
            assert searched == pytest.approx(truth, rel=1e-9, abs=1e-15)
        assert truth <= breach_bound(prior, cells, records, rows, epsilon) * (1 + 1e-9) + ERROR
        assert breach_least(prior, cells, records, rows, epsilon) <= truth + ERROR
    assert found >= 3  # it does not give up where it is wanted


def test_where_no_list_of_tables_is_possible_the_sides_meet():
    """500 records have 2e21 partitions. Exact, and both bounds within seven percent of it; within one at 1,000."""
    exact = breach_many_cells(0.25, 2_000, 500, 500, 4.0)
    both = breach_bounds(0.25, 2_000, 500, 500, 4.0)
    assert both.low <= exact <= both
    assert both.low > 0.92 * exact
    assert both < 1.001 * exact
    few = breach_bounds(0.3, 800, 1_000, 1_000, 4.0)  # fewer cells than rows
    assert 0.99 * few < few.low < few < 0.002


def test_a_likely_breach_is_said_to_be_likely():
    for prior, cells, records, rows, epsilon in (
        (0.05, 1_000, 100, 100, 4.0), (0.3, 800, 1_000, 4_000, 4.0), (0.61, 400_000, 10**6, 4 * 10**6, 4.1),
    ):  # fmt: skip
        found = breach_bounds(prior, cells, records, rows, epsilon)
        assert found.low > 0.99
        assert found <= 1.0
        assert not found.exact


def test_a_least_growth_of_all_cells_gains_at_small_epsilon():
    """Below ln 2 a cell with all records is over its threshold; only the growth of the others clears it."""
    found = breach_bound(200.0, 100, 100_000, 100_000, 0.5)
    assert found < 1e-4
    assert breach_bound(0.2, 100_001, 100_000, 100_000, 0.5) == 1.0  # with empty cells there is no such growth


def test_a_pure_prior_breaches_nothing_and_a_million_jobs_are_bounded_at_once():
    assert breach_bound(50 / math.expm1(2.0) * 1.001, 20, 50, 50, 2.0) == 0.0
    assert breach_bound(0.0001, 20, 50, 50, 2.0) == 1.0
    many = breach_bounds(1.5, 40_000, 10**6, 10**6, 4.1)
    assert 0 < many.low < many < 1e-20
    assert breach_bound(0.5, 10, 5_000_000, 5_000_000, 2.0) == 1.0  # beyond what its arithmetic is stated for


@pytest.mark.parametrize(
    ("inside", "outside", "rows"), [(0.3, 5.0, 12), (1.3, 1.0, 30), (4.0, 60.0, 200), (90.0, 9.0, 40)]
)
def test_tails_are_bounded_from_both_sides(inside, outside, rows):
    chances = np.exp(
        log_weights(inside, rows) + log_weights(outside, rows)[::-1] - log_weights(inside + outside, rows)[rows]
    )
    firsts = np.arange(rows + 2, dtype=float)
    truth = np.array([math.fsum(chances[int(first) :]) for first in firsts])
    for terms in (1, 5, 48):
        low, high = upper_tail(firsts, np.full_like(firsts, inside), np.full_like(firsts, outside), rows, terms)
        assert (low <= truth * (1 + 1e-9)).all()
        assert (truth <= high * (1 + 1e-9)).all()
    assert (low[rows // 2 :] >= 0.9 * truth[rows // 2 :] * (rows <= 2 * 48)).all()


@pytest.mark.parametrize("cells", [10**9, 2**46, 2**50, 2**52, 2**61])
@pytest.mark.parametrize(("prior", "first"), [(0.75, 2), (1.5, 3)])
def test_tails_in_a_domain_of_any_size_are_bounded_from_both_sides(cells, prior, first):
    """Differences of log gammas of such numbers have no right digit; the true tail is computed with whole numbers."""
    rows, inside = 40, Fraction(prior)
    size = inside * cells + rows
    outside, exact = size - inside, Fraction(0)
    for count in range(first, rows + 1):
        ways = math.comb(rows, count) * math.prod(inside + step for step in range(count))
        exact += ways * math.prod(outside + step for step in range(rows - count))
    exact /= math.prod(size + step for step in range(rows))
    low, high = upper_tail(np.array([float(first)]), np.array([prior]), np.array([float(outside)]), rows)
    assert low[0] <= exact <= high[0] <= exact * (1 + 1e-4)


def test_a_draw_that_breaches_with_every_row_is_refused_in_a_huge_domain():
    """With (e - 1) prior below 1 every row in an empty cell is a breach, and nearly all cells are empty."""
    law = DrawLaw(Fraction("0.47286224365234375"), 2**52, 1_000, 1_000)
    assert breach_at_most(law, Fraction(1)) > 0.99
    assert not theorem_9_holds(breach_loss(Fraction(1), Fraction(1, 10**8)), [law])


def test_the_envelope_is_the_best_spread():
    """Sums over cells, all spreads of the records: none is above, and where its corners fit one reaches it."""
    values = np.array([0.1, 0.9, 0.5, 2.0, 1.0, 2.1])
    for cells in (2, 3, 5, 8):
        sums = [sum(values[list(table)]) + (cells - len(table)) * values[0] for table in partitions(5, min(cells, 5))]
        bound = cells * envelope_at(np.arange(6.0), values, 5 / cells)[0]
        assert max(sums) <= bound + ERROR
    assert 5 * envelope_at(np.arange(6.0), np.array([0.1, 0.9, 0.5, 0.6, 0.7, 0.8]), 1.0)[0] == pytest.approx(4.5)


def sizes(cells, *pairs):
    return [
        Draws(records=records, rows=records, cells_of=lambda _, count=count: {cells: count}) for records, count in pairs
    ]


@pytest.mark.parametrize("epsilon", ["1", "2", "4", "7"])
@pytest.mark.parametrize("delta", ["0.2", "1e-3", "1e-6"])
def test_all_draws_together_keep_delta_and_none_wastes_it(epsilon, delta):
    """Small enough to list everything: 3 cells, up to 8 records, 2 and 5 draws of a size."""
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    draws = sizes(3, (2, 5), (5, 2), (8, 2))
    found = breach_priors(draws, breach_loss(epsilon, delta))
    total = 0.0
    for one, calibrated in zip(draws, found, strict=True):
        everything = SmallBreach(3, one.records, one.rows, float(epsilon))
        prior = float(calibrated.prior)
        truth = everything.largest(prior, everything.sets(prior))
        count = one.cells_of(calibrated.prior)[3]
        assert count * truth <= calibrated.breach * (1 + 1e-9) + ERROR
        total += count * truth
    assert total <= delta


@pytest.mark.parametrize(("records", "cells", "epsilon"), [(9, 40, "4"), (12, 60, "4"), (12, 400, "2.5"), (14, 3, "3")])
def test_a_slightly_smaller_prior_breaks_the_promise(records, cells, epsilon):
    """The power of the calibration: 1 percent less prior, and the exact probability is above delta."""
    epsilon, delta = Fraction(epsilon), Fraction("1e-3")
    (calibrated,) = breach_priors(sizes(cells, (records, 1)), breach_loss(epsilon, delta))
    at = [breach(float(calibrated.prior) * share, cells, records, records, float(epsilon)) for share in (1.0, 0.99)]
    assert all(value.exact for value in at)
    assert at[0] <= delta < at[1]
    assert calibrated.prior < prior_of_step(Fraction(records), epsilon)  # less than Theorem 4.1's


def test_a_city_uses_up_delta_whatever_its_sizes_and_cells():
    def rings(records, count):
        return Draws(records=records, rows=records, cells_of=lambda prior: {max(2, int(records / (4 * prior))): count})

    draws = [rings(1, 3_000), rings(7, 900), rings(60, 300), rings(900, 40), rings(20_000, 2)]
    found = breach_priors(draws, breach_loss(Fraction(4), Fraction("1e-3")))
    total = sum(one.breach for one in found)
    assert 0.5e-3 < total <= 1e-3
    assert found[0].breach == 0.0  # a single record: Theorem 4.1's prior
    for one, calibrated in zip(draws, found, strict=True):
        bounds = [
            count * breach_bound(float(calibrated.prior), cells, one.records, one.rows, 4.0)
            for cells, count in one.cells_of(calibrated.prior).items()
        ]
        assert sum(bounds) <= calibrated.breach * (1 + 1e-9)
    assert found[-1].prior < prior_of_step(Fraction(20_000), Fraction(4)) / 100


def test_mixed_numbers_of_cells_are_added_up_each_by_itself():
    kinds = {12: 3, 40: 2, 500: 1}
    loss = breach_loss(Fraction(3), Fraction("1e-4"))
    (found,) = breach_priors([Draws(records=30, rows=30, cells_of=lambda _: kinds)], loss)
    laws = [DrawLaw(found.prior, cells, 30, 30, count) for cells, count in kinds.items()]
    total = sum(law.times * breach_at_most(law, loss.epsilon) for law in laws)
    assert total <= found.breach * (1 + 1e-6) <= 1e-4
    assert theorem_9_holds(loss, laws)
    more = [law._replace(times=20 * law.times) for law in laws]
    assert not theorem_9_holds(loss, more)  # they add up


def test_nobody_to_protect_and_too_many_rows():
    (empty,) = breach_priors(sizes(5, (0, 1)), breach_loss(Fraction(1), Fraction("1e-3")))
    assert empty.breach == 0.0
    (many,) = breach_priors(sizes(5, (5_000_000, 1)), breach_loss(Fraction(1), Fraction("1e-3")))
    assert (many.prior, many.breach) == (prior_of_step(Fraction(5_000_000), Fraction(1)), 0.0)


def joint(first, second):
    """The joint law of two independent steps, outputs as pairs."""
    return np.log(np.einsum("io,ip->iop", np.exp(first), np.exp(second)).reshape(len(first), -1))


def test_a_pure_step_before_the_draw_and_two_draws_add_up():
    """Theorem 10: losses and deltas add, by the definition on the joint output."""
    from understudy.privacy.exact.small_tables import disclosure_sets

    records, cells, one, two = 4, 3, 0.8, 1.6
    space = SmallBreach(cells, records, 4, two)
    noisy = us.audit(us.DirichletMultinomial(prior=3 / math.expm1(one), cells=cells, rows=3), records=records)
    assert noisy.epsilon == pytest.approx(one)
    measured = np.log(noisy.matrix)
    for prior, again in itertools.product((0.2, 0.6, 1.5), (0.3, 1.0)):
        law = space.log_law(prior)
        alone = float((np.exp(law) * space.sets(prior)).sum(axis=1).max())
        both = joint(measured, law)
        sets = disclosure_sets(both, space.inputs, space.pairs, one + two)
        assert float((np.exp(both) * sets).sum(axis=1).max()) <= alone + ERROR
        other = space.log_law(again)
        alone_again = float((np.exp(other) * space.sets(again)).sum(axis=1).max())
        twice = joint(law, other)
        sets = disclosure_sets(twice, space.inputs, space.pairs, 2 * two)
        assert float((np.exp(twice) * sets).sum(axis=1).max()) <= alone + alone_again + ERROR
