"""Draws with a private number of records by brute force: every table, every output, against Theorem 6."""

from __future__ import annotations

import itertools
import math

import pytest

from understudy.privacy.mechanisms.private_sizes import private_cells, private_delta, private_prior
from understudy.privacy.promise.calibrate_dirichlet import pure_prior

MOST_RECORDS = 7
CASES = [(2, 2, 0.9), (3, 3, 0.8), (3, 2, 1.3), (4, 2, 0.6)]


def tables(total, cells):
    if cells == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1) for rest in tables(total - first, cells - 1)]


def law(table, prior, rows):
    """P(out) of a Dirichlet-multinomial draw, from its own formula."""
    size = prior * len(table) + sum(table)
    found = {}
    for out in tables(rows, len(table)):
        log = math.lgamma(rows + 1) + math.lgamma(size) - math.lgamma(size + rows)
        for count, made in zip(table, out, strict=True):
            log += math.lgamma(prior + count + made) - math.lgamma(prior + count) - math.lgamma(made + 1)
        found[out] = math.exp(log)
    return found


def lost(one, other, epsilon):
    return math.fsum(max(one[out] - math.exp(epsilon) * other[out], 0.0) for out in one)


@pytest.mark.parametrize(("cells", "rows", "epsilon"), CASES)
@pytest.mark.parametrize("part", [0.5, 0.6])
def test_one_record_more_or_fewer_loses_no_more_than_the_bound(cells, rows, epsilon, part):
    prior = pure_prior(epsilon, rows) * part
    bound = private_delta(prior, prior * cells, rows, epsilon)
    assert 0 < bound < 1
    laws = {table: law(table, prior, rows) for n in range(MOST_RECORDS + 1) for table in tables(n, cells)}
    worst = 0.0
    for table, here in laws.items():
        for cell in range(cells):
            more = tuple(count + (number == cell) for number, count in enumerate(table))
            if more in laws:
                assert lost(here, laws[more], epsilon) == pytest.approx(0.0, abs=1e-12)  # a record that leaves
                worst = max(worst, lost(laws[more], here, epsilon))
    assert 0 < worst <= bound * (1 + 1e-9)
    assert worst > 0.8 * bound  # the bound is not idle


@pytest.mark.parametrize(("cells", "rows", "epsilon"), CASES[:3])
def test_a_job_that_moves_loses_delta_once(cells, rows, epsilon):
    """From one destination to another, or inside one: at twice epsilon no more than delta, not twice of it."""
    prior = pure_prior(epsilon, rows) * 0.5
    bound = private_delta(prior, prior * cells, rows, epsilon)
    laws = {table: law(table, prior, rows) for n in range(5) for table in tables(n, cells)}
    for table, here in laws.items():
        for loses, gains in itertools.permutations(range(cells), 2):
            if table[loses]:
                moved = tuple(c - (k == loses) + (k == gains) for k, c in enumerate(table))
                assert lost(laws[moved], here, 2 * epsilon) <= bound * (1 + 1e-9)
    assert between_two(cells, rows, prior, epsilon) <= bound * (1 + 1e-9)
    assert between_two(cells, rows, prior / 10, epsilon) > bound  # a prior that is too small would be seen


def between_two(cells, rows, prior, epsilon):
    """What is lost at twice epsilon when a job moves between destinations with as many other workers each."""
    worst = 0.0
    for others in range(4):
        here = law((1,) + (0,) * (cells - 2) + (others,), prior, rows)
        there = law((0,) * (cells - 1) + (others,), prior, rows)
        parts = (max(here[a] * there[b] - math.exp(2 * epsilon) * there[a] * here[b], 0.0) for a in here for b in there)
        worst = max(worst, math.fsum(parts))
    return worst


def test_too_little_prior_is_not_claimed():
    assert private_delta(0.1, 0.2, 5, 1.0) == 1.0
    prior = pure_prior(1.0, 5)
    assert private_delta(prior * 1.001, prior * 2, 5, 1.0) == 0.0
    # Without the first condition a record that leaves would show: five rows are too many for so small an urn.
    assert lost(law((0, 0), 0.1, 5), law((1, 0), 0.1, 5), 1.0) > 0.01


@pytest.mark.parametrize(("epsilon", "rows", "cells"), [(0.6, 100, 2), (2.0, 1000, 5), (1.2, 7, 3)])
def test_a_calibrated_prior_keeps_its_promise_and_is_not_larger_than_pure(epsilon, rows, cells):
    prior = private_prior(epsilon, 1e-5, cells, rows)
    assert private_delta(prior, prior * cells, rows, epsilon) <= 1e-5
    assert prior <= pure_prior(epsilon, rows) * 1.0001
    smaller = prior * 0.98
    assert private_delta(smaller, smaller * cells, rows, epsilon) > 1e-5
    room = 1.25 * pure_prior(epsilon, rows)
    chosen = private_cells(epsilon, 1e-5, rows, room)
    assert chosen == 2 or chosen * private_prior(epsilon, 1e-5, chosen, rows) <= room


def test_very_many_rows_take_the_pure_prior():
    assert private_prior(1.0, 1e-5, 3, 300_000) >= pure_prior(1.0, 300_000)
