"""The quick bound of Definition 6 against the union it bounds: by enumeration, and by spreading the records exactly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from understudy.privacy.exact import dirichlet_breach
from understudy.privacy.exact.dirichlet_breach import (
    breach_exact,
    breach_quick_bound,
    highest_safe,
    partitions,
    thresholds,
)
from understudy.privacy.exact.dirichlet_profile import log_weights

CASES = list(itertools.product((0.02, 0.3, 1.0, 4.0), (3, 12, 60), (1, 4, 9), (0.7, 2.0, 4.5)))


def alone(prior, cells, records, rows, epsilon, count):
    """P(a cell with so many records is over its threshold): a beta-binomial tail, term by term."""
    size = prior * cells + records
    chances = np.exp(
        log_weights(prior + count, rows) + log_weights(size - prior - count, rows)[::-1] - log_weights(size, rows)[rows]
    )
    return math.fsum(chances[highest_safe(prior + max(count - 1, 0), rows, epsilon) + 1 :])


@pytest.mark.parametrize(("prior", "cells", "records", "epsilon"), CASES)
@pytest.mark.parametrize("times", [1, 4])
def test_no_table_is_beyond_the_bound(prior, cells, records, epsilon, times):
    rows = records * times
    bound = breach_quick_bound(prior, cells, records, rows, epsilon)
    tails = [alone(prior, cells, records, rows, epsilon, count) for count in range(records + 1)]
    for table in partitions(records, min(cells, records)):
        added = sum(tails[count] for count in table) + (cells - len(table)) * tails[0]
        assert min(1.0, added) <= bound * (1 + 1e-9)
    if cells > rows:  # Theorem 4.3 gives the disclosure set: the probability of the union itself
        safe = thresholds(prior, records, rows, epsilon)
        assert breach_exact(prior, cells, records, rows, safe) <= bound * (1 + 1e-9)


def test_the_bound_is_not_idle():
    """Where it matters it is near the best spread: within a third for small breaches of tables of 60 and 100 jobs."""
    for prior, cells, records, rows, epsilon in ((0.308, 48, 60, 120, 4.1), (0.319, 76, 100, 200, 4.1)):
        ones = alone(prior, cells, records, rows, epsilon, 1)
        none = alone(prior, cells, records, rows, epsilon, 0)
        reached = min(cells, records) * ones + max(cells - records, 0) * none
        bound = breach_quick_bound(prior, cells, records, rows, epsilon)
        assert reached <= bound <= 1.34 * reached
        assert bound < 0.05


@pytest.mark.parametrize("records", [150, 4_321])
def test_runs_of_counts_keep_the_bound(records, monkeypatch):
    one_by_one = breach_quick_bound(0.6, 123, records, 4 * records, 4.1)
    monkeypatch.setattr(dirichlet_breach, "ONE_BY_ONE", 40)
    in_runs = breach_quick_bound(0.6, 123, records, 4 * records, 4.1)
    assert one_by_one <= in_runs <= 1.5 * one_by_one
    least, most = dirichlet_breach._runs_of_counts(records)
    assert (least[1:] == most[:-1] + 1).all()
    assert (least[0], most[-1]) == (0, records)


def test_a_pure_prior_breaches_nothing_and_a_million_jobs_are_bounded_at_once():
    rows, epsilon = 50, 2.0
    assert breach_quick_bound(rows / math.expm1(epsilon) * 1.001, 20, 50, rows, epsilon) == 0.0
    assert breach_quick_bound(0.0001, 20, 50, rows, epsilon) == 1.0
    assert 0 <= breach_quick_bound(0.61, 400_000, 10**6, 4 * 10**6, 4.1) <= 1.0
