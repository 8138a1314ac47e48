"""Draws from the keyed stream have exactly their law, and the tests would notice 0.7 or 1.4 times the scale."""

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, chi2

from understudy.privacy.mechanisms.noise import Geometric
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric, empty_cells, threshold_for
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.randomness.draws import KeyedStream
from understudy.privacy.randomness.keyed_noise import (
    bernoulli,
    binomial,
    discrete_laplace,
    exceeding,
    exponential,
    geometric,
    logistic,
    tail_word,
)

DRAWS = 40_000
TABLES = 8_000
FALSE_ALARM = 1e-6


def stream():
    return KeyedStream(key=bytes(range(32)))


def chi_square(values, law, least=8):
    """The p-value of values on 0, 1, ... against a law; rare values are put together."""
    values = np.asarray(values)
    expected, observed, cut = [], [], 0
    while len(values) * sum(law(k) for k in range(cut, cut + 400)) >= 2 * least:
        high = cut
        while len(values) * sum(law(k) for k in range(cut, high + 1)) < least:
            high += 1
        expected.append(len(values) * sum(law(k) for k in range(cut, high + 1)))
        observed.append(((values >= cut) & (values <= high)).sum())
        cut = high + 1
    expected.append(len(values) - sum(expected))
    observed.append((values >= cut).sum())
    statistic = ((np.array(observed) - expected) ** 2 / expected).sum()
    return chi2.sf(statistic, len(expected) - 1)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(7, 2), Fraction(20)])
def test_geometric_has_its_law_and_no_other(scale):
    drawn = geometric(scale, DRAWS, stream(), "test")

    def law(factor):
        a = math.exp(-1 / (float(scale) * factor))
        return lambda k: (1 - a) * a**k

    assert chi_square(drawn, law(1)) > FALSE_ALARM
    assert chi_square(drawn, law(0.7)) < FALSE_ALARM
    assert chi_square(drawn, law(1.4)) < FALSE_ALARM


@pytest.mark.parametrize("scale", [Fraction(2, 3), Fraction(5)])
def test_discrete_laplace_agrees_with_the_mechanism_that_states_its_law(scale):
    drawn = discrete_laplace(scale, DRAWS, stream(), "test")
    folded = np.where(drawn > 0, 2 * drawn - 1, -2 * drawn)  # 0, 1, -1, 2, -2, ... as 0, 1, 2, 3, 4

    def law(factor):
        noise = Geometric(scale=float(scale) * factor)
        return lambda k: math.exp(noise.log_pmf(np.array(-k // 2 if k % 2 == 0 else (k + 1) // 2), np.array(0)))

    assert chi_square(folded, law(1)) > FALSE_ALARM
    assert chi_square(folded, law(0.7)) < FALSE_ALARM
    assert chi_square(folded, law(1.4)) < FALSE_ALARM


@pytest.mark.parametrize("count", [1, 64, *(pytest.param(count, marks=pytest.mark.full) for count in (63, 200))])
def test_binomial_counts_as_many_as_independent_events(count):
    rate = Fraction(3, 2)
    source = stream()
    drawn = [binomial(exponential(rate), count, source, "test", number) for number in range(2_000)]
    p = math.exp(-1.5)
    assert chi_square(drawn, lambda k: binom.pmf(k, count, p)) > FALSE_ALARM
    if count > 1:
        assert chi_square(drawn, lambda k: binom.pmf(k, count, 0.8 * p)) < FALSE_ALARM
        assert chi_square(drawn, lambda k: binom.pmf(k, count, 1.25 * p)) < FALSE_ALARM


class FewBits:
    """All streams of a few bits, one after another: what a draw does to each is its law, without sampling."""

    def __init__(self, bits):
        self.bits, self.asked = list(bits), 0

    def words(self, count, *purpose):
        assert count == 1
        bit = self.bits[self.asked]
        self.asked += 1
        return np.array([bit << 63], dtype=np.uint64)


def test_binomial_of_one_event_by_every_stream_of_bits():
    """With 10 bits the event happens for exactly floor(p 2^10) of the streams, but for the one not yet decided."""
    for expansion, p in ((exponential(Fraction(1)), math.exp(-1)), (logistic(Fraction(2)), 1 / (1 + math.exp(2)))):
        happened = undecided = 0
        for bits in product((0, 1), repeat=10):
            try:
                happened += binomial(expansion, 1, FewBits(bits), "test")
            except IndexError:
                undecided += 1
        assert happened == math.floor(p * 2**10)
        assert undecided == 1


def test_bernoulli_decides_a_tie_by_further_words():
    expansion = exponential(Fraction(1))

    class Tie:
        def __init__(self, second):
            self.answers = [np.array([expansion(0)], dtype=np.uint64), np.array([second], dtype=np.uint64)]

        def words(self, count, *purpose):
            return self.answers.pop(0)

    assert bernoulli(expansion, 1, Tie(expansion(1) - 1)).tolist() == [True]
    assert bernoulli(expansion, 1, Tie(expansion(1) + 1)).tolist() == [False]


@pytest.mark.parametrize("rate", [Fraction(1, 2**40), Fraction(1, 3), Fraction(7), Fraction(1000), Fraction(2**30)])
def test_digits_of_a_probability_agree_with_an_independent_evaluation(rate):
    """By the exponential series in exact fractions (with halving of the argument), not by decimal arithmetic."""
    if rate > 2000:  # far below 2^-192: three words of zeros
        assert [tail_word(rate, None, k) for k in range(3)] == [0, 0, 0]
        return
    halvings = max(0, math.ceil(math.log2(float(rate)))) + 1 if rate > 1 else 0
    small, term, total = rate / 2**halvings, Fraction(1), Fraction(1)
    for k in range(1, 400):
        term *= small / k
        total += term
        if term < Fraction(1, 2**2600):
            break
        total = Fraction(int(total * 2**4000), 2**4000)
        term = Fraction(int(term * 2**4000), 2**4000)
    for _ in range(halvings):
        total = Fraction(int(total * total * 2**4000), 2**4000)
    words = int((1 / total) * 2**192)
    assert [tail_word(rate, None, k) for k in range(3)] == [(words >> shift) & (2**64 - 1) for shift in (128, 64, 0)]


@pytest.mark.full
def test_a_sparse_table_has_the_law_of_the_dense_one_cut_at_the_threshold():
    """Whole tables of 5 cells, two of them filled: what is reported, and how large, against the product of the cells'
    laws; 0.7 and 1.4 times the scale are rejected."""
    cells, counts, size = np.array([1, 3]), np.array([1, 4]), 5
    mechanism = SparseGeometric(scale=1, threshold=1, domain=size)
    source, seen = stream(), Counter()
    full = np.array([0, 1, 0, 4, 0])
    for repeat in range(TABLES):
        found, values = mechanism.draw(cells, counts, source, "test", repeat)
        table = np.full(size, 1)
        table[found] = np.minimum(values, 4)
        seen[tuple(table.tolist())] += 1

    def law(scale):
        one = SparseGeometric(scale=scale, threshold=1, domain=size)
        return [
            {
                out: float(np.exp(one.log_pmf(np.array(out), np.array(n)))) if out < 4
                else float(np.exp(one.log_pmf(np.arange(4, 80), np.array(n))).sum())
                for out in (1, 2, 3, 4)
            }
            for n in full
        ]  # fmt: skip

    def p_value(scale):
        cell_laws = law(scale)
        for one in cell_laws:
            assert sum(one.values()) == pytest.approx(1, abs=1e-12)
        statistic, groups, rest, rest_seen = 0.0, 0, 0.0, 0
        for out in product((1, 2, 3, 4), repeat=size):
            expected = TABLES * math.prod(one[value] for one, value in zip(cell_laws, out, strict=True))
            if expected < 8:
                rest, rest_seen = rest + expected, rest_seen + seen[out]
                continue
            statistic, groups = statistic + (seen[out] - expected) ** 2 / expected, groups + 1
        statistic += (rest_seen - rest) ** 2 / rest
        return chi2.sf(statistic, groups)

    assert p_value(1) > FALSE_ALARM
    assert p_value(Fraction(7, 10)) < FALSE_ALARM
    assert p_value(Fraction(7, 5)) < FALSE_ALARM


def test_empty_cells_are_uniform_over_the_sets():
    source, listed = stream(), np.array([0, 4])
    seen = Counter(tuple(empty_cells(listed, 6, 2, source, "test", number).tolist()) for number in range(6_000))
    sets = [(1, 2), (1, 3), (1, 5), (2, 3), (2, 5), (3, 5)]
    assert set(seen) == set(sets)
    statistic = sum((seen[one] - 1000) ** 2 / 1000 for one in sets)
    assert chi2.sf(statistic, 5) > FALSE_ALARM


def test_the_loss_of_neighbouring_tables_is_what_is_charged():
    mechanism = SparseGeometric(scale=2, threshold=3, domain=10)
    event = mechanism.event(Sensitivity(l1=1, l2_squared=1, linf=1))
    charged = float(event.l1 / event.scale)
    out = np.arange(3, 60)
    for count in range(12):
        odds = mechanism.log_pmf(out, np.array(count + 1)) - mechanism.log_pmf(out, np.array(count))
        assert np.abs(odds).max() <= charged + 1e-12
    assert np.abs(mechanism.log_pmf(out, np.array(1)) - mechanism.log_pmf(out, np.array(0))).max() > charged - 1e-12


def test_the_threshold_bounds_the_reported_empty_cells():
    for scale, domain, most in ((Fraction(1), 10**9, 10**6), (Fraction(4), 10**10, 10**5), (Fraction(2), 100, 10**4)):
        threshold = threshold_for(scale, domain, most)
        assert SparseGeometric(scale=scale, threshold=threshold, domain=domain).expected_empty <= most
        if threshold:
            lower = SparseGeometric(scale=scale, threshold=threshold - 1, domain=domain)
            assert lower.expected_empty > most


def test_the_part_exceeding_the_threshold_is_as_stated():
    p = math.exp(-3 / 2) / (1 + math.exp(-1 / 2))
    assert exceeding(Fraction(2), 2)(0) / 2**64 == pytest.approx(p, rel=1e-12)
    drawn = discrete_laplace(Fraction(2), DRAWS, stream(), "tail") > 2
    assert abs(drawn.mean() - p) < 5.5 * math.sqrt(p * (1 - p) / DRAWS)
