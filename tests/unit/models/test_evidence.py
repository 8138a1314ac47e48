"""Prior records from noisy tables: strong associations get few, noise gets many, tables of few cells borrow."""

import numpy as np
import pytest

from understudy.models.fit import USUAL, prior_strengths

TOTAL, SIZE = 5000.0, 8
SHARES = {name: np.log(np.full(SIZE, 1 / SIZE)) for name in "abc"}


def noisy(records, variance, seed, size=SIZE):
    """A table whose departures from independence have the law that so many prior records mean, plus noise."""
    rng = np.random.default_rng(seed)
    even = TOTAL / size**2
    departures = rng.normal(0, TOTAL / size / np.sqrt(records), (size, size))
    departures -= departures.mean(axis=0)  # one-way margins are fitted first
    departures -= departures.mean(axis=1, keepdims=True)
    return even + departures + rng.normal(0, np.sqrt(variance), (size, size))


@pytest.mark.parametrize("records", [10.0, 100.0, 1000.0])
def test_the_number_of_records_is_recovered(records):
    """49 degrees of freedom: the variance ratio is known to about 20 percent, so half to twice is five deviations."""
    found = [
        prior_strengths([(("a", "b"), noisy(records, 50.0, seed), 50.0)], shares=SHARES, total=TOTAL)[0]
        for seed in range(20)
    ]
    assert records / 2 < np.exp(np.mean(np.log(found))) < records * 2


def test_noise_alone_gets_the_most_and_association_counts_by_table():
    flat = (("a", "b"), noisy(1e12, 400.0, 1), 400.0)
    strong = (("a", "c"), noisy(20.0, 400.0, 2), 400.0)
    only = prior_strengths([flat], shares=SHARES, total=TOTAL)
    assert only[0] > 1000
    both = prior_strengths([flat, strong], shares=SHARES, total=TOTAL)
    assert both[0] > 20 * both[1]


def test_a_table_of_few_cells_leans_on_the_others():
    shares = {**SHARES, "d": np.log(np.full(2, 0.5)), "e": np.log(np.full(2, 0.5))}
    strong = (("a", "c"), noisy(20.0, 50.0, 2), 50.0)
    small = (("d", "e"), np.full((2, 2), TOTAL / 4), 50.0)  # looks perfectly independent, with one degree of freedom
    alone = prior_strengths([small], shares=shares, total=TOTAL)[0]
    beside = prior_strengths([strong, small], shares=shares, total=TOTAL)[1]
    assert beside < alone / 20


def test_tables_that_cannot_say_get_what_the_others_say():
    one_way = (("a",), np.full(SIZE, TOTAL / SIZE), 9.0)
    assert prior_strengths([one_way], shares=SHARES, total=TOTAL) == (USUAL,)
    strong = (("a", "c"), noisy(20.0, 50.0, 2), 50.0)
    found = prior_strengths([one_way, strong], shares=SHARES, total=TOTAL)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_structural_zeros_say_nothing():
    shares = {**SHARES, "b": np.log(np.where(np.arange(SIZE) == 0, 1e-300, 1 / (SIZE - 1)))}
    table = noisy(100.0, 50.0, 3)
    table[:, 0] = 0
    assert np.isfinite(prior_strengths([(("a", "b"), table, 50.0)], shares=shares, total=TOTAL)[0])
