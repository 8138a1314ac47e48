"""The urn has exactly the Dirichlet-multinomial law, and the test would notice another prior or another scale."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

import understudy as us
from understudy.core.domain import Domain
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial
from understudy.privacy.randomness import draws
from understudy.privacy.randomness.draws import KeyedStream, polya_urn

REPEATS = 6_000
FALSE_ALARM = 1e-6


def domain_of(cells, impossible=()):
    schema = us.Schema(
        attributes=(us.Attribute(name="cell", levels=tuple(range(cells))),),
        impossible=tuple(us.Impossible(conditions=(("cell", us.Condition(levels=(code,))),)) for code in impossible),
    )
    return Domain(schema=schema, margin=("cell",))


def sample(counts, prior, rows, impossible=()):
    counts = np.array(counts)
    domain = domain_of(len(counts), impossible)
    stream = KeyedStream(key=bytes(range(32)))
    filled = np.flatnonzero(counts)
    seen = Counter()
    for repeat in range(REPEATS):
        cells, times = polya_urn(filled, counts[filled], domain, stream, "test", repeat, prior=prior, rows=rows)
        table = np.zeros(len(counts), dtype=int)
        table[cells] = times
        seen[tuple(table.tolist())] += 1
    return seen


def statistic(seen, counts, prior, rows):
    """Chi-square of the sampled tables against the exact law with the given prior."""
    law = DirichletMultinomial(prior=prior, cells=len(counts), rows=rows)
    outputs = law.outputs()
    expected = REPEATS * np.exp(law.log_pmf(outputs, np.array(counts)))
    observed = np.array([seen[tuple(out.tolist())] for out in outputs])
    assert observed.sum() == REPEATS
    return ((observed - expected) ** 2 / expected).sum(), len(outputs) - 1


CASES = [
    ((3, 0), Fraction(1, 2), 3),
    ((0, 2, 1), Fraction(3, 4), 3),
    ((0, 0, 0), Fraction(1, 3), 4),
    ((5, 0, 1, 0), Fraction(5, 2), 2),
]


@pytest.mark.parametrize(("counts", "prior", "rows"), CASES)
@pytest.mark.parametrize(
    "big", [pytest.param(False, id="words"), pytest.param(True, id="big numbers", marks=pytest.mark.full)]
)
def test_the_urn_has_the_exact_law_and_the_test_has_power(counts, prior, rows, big, monkeypatch):
    if big:  # numbers beyond 64 bits take another path with the same law
        prior = prior * Fraction(2**70, 2**70)
        monkeypatch.setattr(draws, "_balls", always_big(draws._balls))
    seen = sample(counts, prior, rows)
    value, freedom = statistic(seen, counts, prior, rows)
    limit = chi2.isf(FALSE_ALARM, freedom)
    assert value < limit
    for wrong in (prior * Fraction(7, 10), prior * Fraction(14, 10)):
        assert statistic(seen, counts, wrong, rows)[0] > limit
    if sum(counts):
        assert statistic(seen, [0] * len(counts), prior, rows)[0] > limit


def always_big(balls):
    """Forces the path for large urns by multiplying every number of balls, which leaves the law as it is."""
    factor = 2**70

    def scaled(of_prior, records, unit, rows, stream, *purpose):
        from_prior, from_record, number = balls(of_prior * factor, records, unit * factor, rows, stream, *purpose)
        return from_prior, from_record, np.where(from_prior, number // factor, number).astype(np.int64)

    return scaled


@pytest.mark.full
def test_structural_zeros_get_no_prior():
    counts, prior, rows = (2, 0, 0, 1), Fraction(1, 2), 2
    seen = sample(counts, prior, rows, impossible=(1,))
    assert all(table[1] == 0 for table in seen)
    without = Counter({(a, b, c): n for (a, _, b, c), n in seen.items()})
    value, freedom = statistic(without, (2, 0, 1), prior, rows)
    assert value < chi2.isf(FALSE_ALARM, freedom)


def test_the_law_itself_against_sequential_enumeration():
    """An independent derivation: the product of urn probabilities over every order of draws."""
    counts, prior, rows = (2, 0, 1), Fraction(1, 2), 3
    law = DirichletMultinomial(prior=prior, cells=3, rows=rows)
    total = Counter()
    for order in product(range(3), repeat=rows):
        balls = [Fraction(c) + prior for c in counts]
        probability = Fraction(1)
        for cell in order:
            probability *= balls[cell] / sum(balls)
            balls[cell] += 1
        total[tuple(order.count(cell) for cell in range(3))] += probability
    for table, probability in total.items():
        exact = np.exp(law.log_pmf(np.array(table), np.array(counts)))
        assert exact == pytest.approx(float(probability), rel=1e-12)


def test_work_follows_the_rows_and_not_the_cells():
    """A thousand cells and ten billion cells read the same number of words."""

    class Counting(KeyedStream):
        __slots__ = ("read",)

        def words(self, count, *purpose):
            self.read = getattr(self, "read", 0) + count
            return super().words(count, *purpose)

    used = []
    for attributes in (3, 10):
        schema = us.Schema(
            attributes=tuple(us.Attribute(name=f"v{i}", levels=tuple(range(10))) for i in range(attributes))
        )
        stream = Counting(key=bytes(32))
        cells, times = polya_urn(
            np.array([5]), np.array([100]), Domain(schema=schema, margin=schema.names), stream, "t",
            prior=Fraction(1, 1024), rows=500,
        )  # fmt: skip
        assert times.sum() == 500
        assert len(cells) <= 500
        used.append(stream.read)
    assert used[0] == used[1]
