"""The Dirichlet draw: law, sampler and Theorem 4.3, each against a second derivation."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

import understudy as us
from understudy.errors import InternalError, UnsupportedError
from understudy.privacy.exact.dirichlet_breach import highest_safe, partitions
from understudy.privacy.exact.small_tables import tables_of
from understudy.privacy.mechanisms.dirichlet_draw import prior_for
from understudy.privacy.mechanisms.preconditions import epsilon_of
from understudy.privacy.promise.definition import Unit
from understudy.privacy.randomness.streams import SeededStream


def test_the_law_is_the_mixture_of_multinomials_it_is_named_for():
    """Two cells: the integral over the beta posterior by Gauss-Jacobi quadrature, exact for polynomials."""
    from scipy.special import roots_jacobi

    prior, table, rows = (0.7, 1.3), (2, 1), 6
    a, b = prior[0] + table[0], prior[1] + table[1]
    points, weights = roots_jacobi(12, b - 1, a - 1)
    p, w = (points + 1) / 2, weights / weights.sum()
    draw = us.DirichletMultinomial(prior=prior, rows=rows)
    for m in range(rows + 1):
        mixed = math.comb(rows, m) * (w * p**m * (1 - p) ** (rows - m)).sum()
        assert math.exp(draw.log_pmf(np.array([m, rows - m]), np.array(table))) == pytest.approx(mixed, rel=1e-10)


def test_what_cannot_come_out_has_probability_0():
    draw = us.DirichletMultinomial(prior=(1, 1), rows=2)
    assert draw.log_pmf(np.array([[1, 0], [3, -1], [1, 1]]), np.array([1, 1])).tolist()[:2] == [-math.inf, -math.inf]


def chi_square(observed, law):
    expected = law * observed.sum()
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), len(law) - 1))


def test_the_sampler_follows_the_law_and_not_that_of_another_prior():
    """6,000 draws with a fixed seed; a true law fails with probability 1e-5, half and twice the prior must fail."""
    table = np.array([3, 0, 1])
    stream = SeededStream(20)
    draw = us.DirichletMultinomial(prior=0.5, cells=3, rows=3)
    outputs = tables_of(3, 3)
    place = {tuple(out): number for number, out in enumerate(outputs.tolist())}
    observed = np.zeros(len(outputs))
    for _ in range(6000):
        observed[place[tuple(draw.run(table, stream).tolist())]] += 1

    def p_value(prior):
        return chi_square(
            observed, np.exp(us.DirichletMultinomial(prior=prior, cells=3, rows=3).log_pmf(outputs, table))
        )

    assert p_value(0.5) > 1e-5
    assert p_value(0.25) < 1e-5
    assert p_value(1.0) < 1e-5


def test_the_sampler_refuses_what_it_does_not_draw():
    with pytest.raises(UnsupportedError, match="same prior"):
        us.DirichletMultinomial(prior=(1, 2), rows=2).run(np.array([1, 1]), SeededStream(1))
    with pytest.raises(InternalError):
        us.DirichletMultinomial(prior=(1, 1), rows=2).run(np.array([1, 1, 1]), SeededStream(1))
    assert us.DirichletMultinomial(prior=(1,), rows=2).run(np.array([5]), SeededStream(1)).tolist() == [2]


def test_priors_are_exact_and_shared():
    draw = us.DirichletMultinomial(prior=[0.1, "0.1", Fraction(1, 10)], rows=2)
    assert draw.prior == (Fraction(1, 10),) * 3
    assert draw.symmetric
    assert draw == us.DirichletMultinomial(prior=0.1, cells=3, rows=2)
    assert us.DirichletMultinomial(prior=np.array([0.5, 1.0]), rows=2).classes == ((0.5, 1), (1.0, 1))
    assert "million" not in repr(us.DirichletMultinomial(prior=1, cells=1_000_000, rows=2))
    assert len(repr(us.DirichletMultinomial(prior=1, cells=1_000_000, rows=2))) < 120


def test_theorem_4_3_is_sufficient_always_and_exact_with_more_cells_than_rows():
    for (cells, rows), epsilon, prior in product([(2, 4), (3, 3), (4, 3), (5, 2)], [0.7, 1.6], [0.3, 1.2]):
        exact = us.audit(us.DirichletMultinomial(prior=prior, cells=cells, rows=rows), records=3)
        from understudy.privacy.exact.small_tables import disclosure_sets

        space = exact._space
        sets = disclosure_sets(space.log_law, space.inputs, space.pairs, epsilon)
        limit = (math.exp(epsilon) - 1) * (prior + np.maximum(space.inputs - 1, 0))
        over = (space.outputs[None, :, :] > limit[:, None, :]).any(axis=2)
        assert not (sets & ~over).any(), "an output within the limits is in the disclosure set"
        if cells > rows:
            assert (sets == over).all()
    few = us.audit(us.DirichletMultinomial(prior=0.3, cells=2, rows=4), records=3)
    sets = disclosure_sets(few._space.log_law, few._space.inputs, few._space.pairs, 0.7)
    limit = (math.exp(0.7) - 1) * (0.3 + np.maximum(few._space.inputs - 1, 0))
    assert ((few._space.outputs[None] > limit[:, None]).any(axis=2) & ~sets).any(), "with few cells it is not exact"


def test_thresholds_and_partitions():
    assert highest_safe(1.0, 10, math.log(4)) == 3  # ln(1 + 3/1) is equal to epsilon, and that is safe
    assert highest_safe(1.0, 10, math.log(4) - 1e-6) == 2
    assert sorted(partitions(4, 4)) == [(1, 1, 1, 1), (2, 1, 1), (2, 2), (3, 1), (4,)]
    assert list(partitions(4, 1)) == [(4,)]


@pytest.mark.parametrize("epsilon", [700, 800, Fraction(10**299)])
def test_an_epsilon_whose_exponential_is_no_double_has_a_prior_that_keeps_it(epsilon):
    prior = prior_for(Fraction(epsilon), 40, Unit())
    assert 0 < prior == prior_for(Fraction(700), 40, Unit())
    assert epsilon_of(prior, 40, Unit()) <= epsilon
