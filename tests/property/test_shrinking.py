"""Algorithm 2 by brute force: every table, every retained domain, every output, against the bound of Theorem 4."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from understudy.privacy.mechanisms.shrinking import (
    growth,
    published_epsilon,
    shrunk_delta,
    shrunk_prior,
    surely_retained,
)


def tables(total: int, cells: int) -> list[tuple[int, ...]]:
    if cells == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1) for rest in tables(total - first, cells - 1)]


def rising(start: Fraction, steps: int) -> Fraction:
    return math.prod((start + step for step in range(steps)), start=Fraction(1))


def drawn(table: tuple[int, ...], kept: tuple[int, ...], prior: Fraction, rows: int) -> dict[tuple[int, ...], Fraction]:
    """The exact law of a draw of ``rows`` over the retained cells."""
    total = prior * len(kept) + sum(table)
    law = {}
    for inside in tables(rows, len(kept)):
        ways = Fraction(math.factorial(rows), math.prod(math.factorial(count) for count in inside))
        chance = ways * math.prod(rising(prior + table[c], m) for c, m in zip(kept, inside, strict=True))
        out = [0] * len(table)
        for cell, count in zip(kept, inside, strict=True):
            out[cell] = count
        law[tuple(out)] = chance / rising(total, rows)
    return law


def shrunk_law(
    table: tuple[int, ...], keeps: tuple[Fraction, ...], prior: Fraction, rows: int
) -> dict[tuple[int, ...], Fraction]:
    """The law of Algorithm 2 followed by Algorithm 1, summed over every domain that may be retained."""
    filled = [cell for cell, count in enumerate(table) if count]
    empty = [cell for cell, count in enumerate(table) if not count]
    law: dict[tuple[int, ...], Fraction] = {}
    for chosen in itertools.product((False, True), repeat=len(empty)):
        chance = math.prod(
            (keeps[c] if stays else 1 - keeps[c] for c, stays in zip(empty, chosen, strict=True)), start=Fraction(1)
        )
        if not chance:
            continue
        kept = tuple(sorted([*filled, *(c for c, stays in zip(empty, chosen, strict=True) if stays)]))
        for out, share in drawn(table, kept, prior, rows).items():
            law[out] = law.get(out, Fraction(0)) + chance * share
    return law


def exact_delta(
    cells: int, records: int, rows: int, prior: Fraction, keeps: tuple[Fraction, ...], epsilon: float
) -> float:
    """The largest hockey-stick divergence over all neighbours."""
    laws = {table: shrunk_law(table, keeps, prior, rows) for table in tables(records, cells)}
    worst = 0.0
    for table, law in laws.items():
        for loss, gain in itertools.permutations(range(cells), 2):
            if table[loss]:
                other = list(table)
                other[loss] -= 1
                other[gain] += 1
                there = laws[tuple(other)]
                parts = (float(law[out]) - math.exp(epsilon) * float(there.get(out, 0)) for out in law)
                worst = max(worst, math.fsum(max(part, 0.0) for part in parts))
    return worst


CASES = [
    (3, 3, 2, Fraction(1, 10), (Fraction(1, 2),) * 3),
    (3, 3, 3, Fraction(1, 4), (Fraction(1, 10), Fraction(1, 2), Fraction(1))),
    (4, 2, 2, Fraction(1, 20), (Fraction(1, 5),) * 4),
    (3, 1, 1, Fraction(1, 8), (Fraction(1, 4),) * 3),
    (4, 3, 2, Fraction(2), (Fraction(1, 3), Fraction(1, 3), Fraction(1), Fraction(1))),
    (2, 4, 4, Fraction(1, 3), (Fraction(1, 2), Fraction(1, 2))),
]


@pytest.mark.parametrize(("cells", "records", "rows", "prior", "keeps"), CASES)
@pytest.mark.parametrize("epsilon", [0.5, 1.5, 3.0, 5.0])
def test_the_bound_holds_for_every_pair_of_neighbours(cells, records, rows, prior, keeps, epsilon):
    truth = exact_delta(cells, records, rows, prior, keeps, epsilon)
    bound = shrunk_delta(
        float(prior), epsilon=epsilon, least_keep=float(min(keeps)), records=records, rows=rows, others=0
    )
    assert truth <= bound * (1 + 1e-9) + 1e-15


def test_the_bound_is_not_idle():
    """Without the loss of the shrinking itself the bound would be broken: the enumeration can tell."""
    cells, records, rows, prior, keeps = CASES[0]
    truth = exact_delta(cells, records, rows, prior, keeps, 3.0)
    assert truth > 0
    assert shrunk_delta(float(prior), epsilon=3.0, least_keep=1.0, records=records, rows=rows) < truth * 4


def test_epsilon_of_the_published_rule_fails_where_more_is_drawn_than_recorded():
    """m > n: the ln 2 of Theorem 5.2 is not enough, c is larger than 2."""
    assert growth(1.0, 1, 8, 0) > 2
    assert growth(0.9, 15, 15, 0) < 2


def test_a_calibrated_prior_keeps_its_promise_by_enumeration():
    keeps = (Fraction(1, 4),) * 3
    prior = shrunk_prior(Fraction(4), Fraction(1, 100), least_keep=min(keeps), records=3, rows=2)
    assert exact_delta(3, 3, 2, Fraction(prior), keeps, 4.0) <= 0.01
    assert exact_delta(3, 3, 2, Fraction(prior) / 20, keeps, 4.0) > 0.01


def test_the_published_total_of_the_commuting_example():
    assert published_epsilon(4.6, 0.0378, 0.04) == pytest.approx(8.5686, abs=1e-4)


def test_surely_retained_is_below_the_mean_and_grows_with_it():
    assert surely_retained(5.0, 1e-5) == 0
    low, high = surely_retained(200.0, 1e-5), surely_retained(2000.0, 1e-5)
    assert 0 < low < 200 < high < 2000
    from scipy.stats import binom

    assert binom.cdf(low - 1, 400, 0.5) <= 1e-7
