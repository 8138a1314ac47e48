"""Exact posteriors against enumeration, a dynamic program in log space, simulation, and approximate Bayes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import chi2

from understudy.auditing.audit_only_laws import RoundedLaplace
from understudy.errors import InputError, UnsupportedError
from understudy.inference import latent_table
from understudy.inference.exact import (
    SumOfNoise,
    beta_binomial,
    dirichlet_multinomial,
    log_bayes_factor,
    log_rising,
    noisy_table,
)
from understudy.privacy.exact.small_tables import tables_of
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric

NOISES = (Geometric(scale=2), DiscreteGaussian(scale=1.5), RoundedLaplace(scale=1.3))


def prior_of(tables, prior):
    """log P(x) of the Dirichlet-multinomial prior."""
    totals = tables.sum(axis=1)
    cells = sum(log_rising(g, tables[:, j]) - gammaln(tables[:, j] + 1.0) for j, g in enumerate(prior))
    return cells + gammaln(totals + 1.0) - log_rising(sum(prior), totals)


def compare(posterior, tables, log, top):
    evidence = logsumexp(log)
    weights = np.exp(log - evidence)
    assert posterior.log_evidence == pytest.approx(evidence, abs=1e-10)
    assert posterior.cell_mean == pytest.approx(weights @ tables, abs=1e-10)
    for cell in range(tables.shape[1]):
        expected = np.bincount(tables[:, cell], weights=weights, minlength=top + 1)[: top + 1]
        assert posterior.cell_weights(cell)[: top + 1] == pytest.approx(expected, abs=1e-10)
    return weights


@pytest.mark.parametrize(
    ("n", "released"), [(6, [[3, 0, 2, 1], [0, 1, 4, 2]]), (0, [[1, 2, 0, 0]]), (5, [[0, 0, 0, 9]])]
)
def test_table_agrees_with_enumeration(n, released):
    prior, alpha = [0.5, 1.0, 0.3, 2.0], [0.7, 0.7, 1.2, 0.4]
    tables = tables_of(n, 4)
    log = prior_of(tables, prior)
    for row in released:
        law = DirichletMultinomial(prior=alpha, rows=sum(row))
        log = log + law.log_pmf(np.array(row)[None], tables)
    posterior = dirichlet_multinomial(released, records=n, alpha=alpha, prior=prior)
    compare(posterior, tables, log, n)


def test_joint_draws_have_the_enumerated_law():
    """A chi-square test at 1e-5, which must also reject draws of a wrong law."""
    tables = tables_of(6, 4)
    released = [[3, 0, 2, 1], [0, 1, 4, 2]]
    posterior = dirichlet_multinomial(released, records=6, alpha=0.7, prior=0.5)
    log = prior_of(tables, [0.5] * 4)
    for row in released:
        log = log + DirichletMultinomial(prior=[0.7] * 4, rows=sum(row)).log_pmf(np.array(row)[None], tables)
    weights = np.exp(log - logsumexp(log))
    size = 40_000
    number = {tuple(table): place for place, table in enumerate(tables)}

    def statistic(draws):
        seen = np.bincount([number[tuple(row)] for row in draws], minlength=len(tables))
        return float(((seen - size * weights) ** 2 / (size * weights)).sum())

    limit = chi2.isf(1e-5, len(tables) - 1)
    assert statistic(posterior.draws(size, np.random.default_rng(1))) < limit
    other = dirichlet_multinomial(released, records=6, alpha=0.7, prior=0.7)
    assert statistic(other.draws(size, np.random.default_rng(1))) > limit


def test_table_agrees_with_a_dynamic_program_in_log_space():
    rng = np.random.default_rng(2)
    n, k, alpha, prior = 300, 12, 3.0, 0.4
    x = rng.multinomial(n, rng.dirichlet(np.full(k, 0.3)))
    released = np.stack([rng.multinomial(200, rng.dirichlet(alpha + x)) for _ in range(2)])
    counts = np.arange(n + 1)
    columns = [
        log_rising(prior, counts)
        - gammaln(counts + 1.0)
        + sum(log_rising(alpha + counts, m[j]) - gammaln(m[j] + 1.0) for m in released)
        for j in range(k)
    ]
    forward = np.full(n + 1, -np.inf)
    forward[0] = 0.0
    for column in columns[1:]:
        forward = np.array([logsumexp(forward[: s + 1] + column[s::-1]) for s in range(n + 1)])
    joint = columns[0] + forward[::-1]
    constant = gammaln(n + 1) - log_rising(k * prior, n)
    constant += sum(gammaln(201.0) - log_rising(k * alpha + n, 200) for _ in released)
    posterior = dirichlet_multinomial(released, records=n, alpha=alpha, prior=prior)
    assert posterior.log_evidence == pytest.approx(float(logsumexp(joint) + constant), abs=1e-9)
    assert posterior.cell_weights(0) == pytest.approx(np.exp(joint - logsumexp(joint)), abs=1e-10)
    assert posterior.cell_mean.sum() == pytest.approx(n, abs=1e-8)


def test_windows_and_full_evaluation_agree(monkeypatch):
    """Large tables are evaluated on windows only; the numbers are the same."""
    from understudy.inference import exact

    rng = np.random.default_rng(3)
    n, k = 4000, 40
    x = rng.multinomial(n, rng.dirichlet(np.full(k, 0.1)))
    released = rng.multinomial(3000, rng.dirichlet(5 + x))[None]
    whole = dirichlet_multinomial(released, records=n, alpha=5.0, prior=0.05)
    monkeypatch.setattr(exact, "SMALL", 0)
    cut = dirichlet_multinomial(released, records=n, alpha=5.0, prior=0.05)
    assert sum(len(c.log) for c in cut.latent.columns) < sum(len(c.log) for c in whole.latent.columns)
    assert cut.log_evidence == pytest.approx(whole.log_evidence, abs=1e-9)
    assert cut.cell_mean == pytest.approx(whole.cell_mean, abs=1e-7)
    mean = cut.draws(2000, np.random.default_rng(4)).mean(axis=0)
    spread = np.sqrt(np.array([np.dot((np.arange(n + 1) - m) ** 2, cut.cell_weights(j)) for j, m in enumerate(mean)]))
    assert (np.abs(mean - cut.cell_mean) < 5.5 * spread / np.sqrt(2000) + 1e-3).all()


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize("clamped", [False, True])
def test_noisy_table_with_a_known_total_agrees_with_enumeration(noise, clamped):
    noisy = np.array([3, 0 if clamped else -1, 5])
    tables = tables_of(6, 3)
    log = prior_of(tables, [0.5] * 3) + noise.log_pmf(noisy[None], tables).sum(axis=1)
    if clamped:  # P(clamped output is 0 | x) sums the law over all outputs of at most 0
        far = -np.arange(0, 400)
        tail = np.array([logsumexp(noise.log_pmf(far, np.full_like(far, x))) for x in range(7)])
        log = log - noise.log_pmf(np.zeros(len(tables), int), tables[:, 1]) + tail[tables[:, 1]]
    compare(noisy_table(noisy, mechanism=noise, records=6, prior=0.5, clamped=clamped), tables, log, 6)


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize("total", [None, 7])
def test_noisy_table_with_an_unknown_total_agrees_with_enumeration(noise, total):
    noisy = np.array([2, -1, 4])
    top = 45
    tables = np.stack(np.meshgrid(*[np.arange(top)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    log = prior_of(tables, [0.4] * 3) + noise.log_pmf(noisy[None], tables).sum(axis=1)
    if total is not None:
        log = log + noise.log_pmf(np.full(len(tables), total), tables.sum(axis=1))
    posterior = noisy_table(noisy, mechanism=noise, prior=0.4, total=None if total is None else (total, noise))
    weights = np.exp(log - logsumexp(log))
    assert posterior.log_evidence == pytest.approx(float(logsumexp(log)), abs=1e-6)  # the cube is cut off at 45
    assert posterior.cell_mean == pytest.approx(weights @ tables, abs=1e-6)
    mean = posterior.draws(20_000, np.random.default_rng(5)).mean(axis=0)
    spread = np.sqrt(weights @ (tables - weights @ tables) ** 2 / 20_000)
    assert (np.abs(mean - weights @ tables) < 5 * spread).all()


def test_one_measured_cell_of_two_tells_both():
    noise = Geometric(scale=3)
    posterior = noisy_table([4, 0], mechanism=noise, records=9, prior=0.5, measured=[True, False])
    tables = tables_of(9, 2)
    log = prior_of(tables, [0.5] * 2) + noise.log_pmf(np.full(10, 4), tables[:, 0])
    compare(posterior, tables, log, 9)


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize("count", [2, 7])
def test_law_of_a_sum_of_noises(noise, count):
    single = np.exp(noise.log_pmf(np.arange(-200, 201), np.zeros(401, int)))
    law = single
    for _ in range(count - 1):
        law = np.convolve(law, single)
    middle = len(law) // 2
    near = np.arange(0, 60)[law[middle : middle + 60] > 1e-11 * law[middle]]
    sums = SumOfNoise(mechanism=noise, count=count)
    assert sums.log_pmf(near) == pytest.approx(np.log(law[middle + near]), abs=1e-5)
    assert sums.log_pmf(-near) == pytest.approx(sums.log_pmf(near))
    far = sums.log_pmf(np.arange(0, 3000))
    assert (np.diff(far) <= 1e-9).all()  # it keeps falling, also where it is continued


@pytest.mark.parametrize("noise", [Geometric, DiscreteGaussian])
def test_wide_noise_on_a_coarser_lattice(noise, monkeypatch):
    from understudy.inference import exact

    errors = np.arange(0, 60_000, 37)
    coarse = SumOfNoise(mechanism=noise(scale=2000), count=5).log_pmf(errors)
    monkeypatch.setattr(exact, "WIDE", 1e9)
    fine = SumOfNoise(mechanism=noise(scale=2000), count=5).log_pmf(errors)
    seen = fine > fine[0] - 20
    assert coarse[seen] == pytest.approx(fine[seen], abs=1e-4)
    monkeypatch.undo()
    wide = noisy_table([4_000_000, -70], mechanism=noise(scale=10**7), records=100, cells=9)
    assert wide.cell_mean.sum() == pytest.approx(100)


@pytest.mark.parametrize("scale", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("count", [2, 30])
def test_hardly_any_noise(scale, count):
    """The law stays finite and falls; a table behind such counts is the counts."""
    law = SumOfNoise(mechanism=Geometric(scale=scale), count=count).log_pmf(np.arange(50))
    assert np.isfinite(law).all()
    assert (np.diff(law) < 0).all()
    posterior = noisy_table([3, 5, 0], mechanism=Geometric(scale=scale), records=8, cells=count)
    assert posterior.cell_mean == pytest.approx([3, 5, 0], abs=0.5)


def test_two_cells_are_the_beta_binomial():
    released = np.array([[30, 70], [41, 59]])
    both = beta_binomial(released[:, 0], rows=100, records=80, alpha=(15.0, 10.0), prior=(1.0, 2.0))
    table = dirichlet_multinomial(released, records=80, alpha=[15.0, 10.0], prior=[1.0, 2.0])
    assert table.cell_weights(0) == pytest.approx(both.weights, abs=1e-12)
    assert table.log_evidence == pytest.approx(float(both.log_evidence), abs=1e-9)


def test_batch_is_the_single_one_repeated():
    rng = np.random.default_rng(6)
    released = rng.integers(0, 51, (7, 3))
    settings = {"rows": 50, "records": 40, "alpha": (5.0, 5.0)}
    batch = beta_binomial(released, **settings)
    for row in range(7):
        one = beta_binomial(released[row], **settings)
        assert batch.weights[row] == pytest.approx(one.weights, abs=1e-13)
        assert batch.quantile([0.1, 0.9])[row] == pytest.approx(one.quantile([0.1, 0.9]), abs=1e-10)
        assert (batch.mean[row], batch.sd[row]) == pytest.approx((float(one.mean), float(one.sd)))
    assert batch.draws(11, rng).shape == (7, 11)


def test_quantiles_moments_and_draws_are_of_one_law():
    posterior = beta_binomial([30, 28], rows=100, records=100, alpha=(40.0, 40.0))
    draws = posterior.draws(100_000, np.random.default_rng(7))
    at = np.array([0.025, 0.5, 0.975])
    below = (draws[:, None] <= posterior.quantile(at)).mean(axis=0)
    assert (np.abs(below - at) < 5 * np.sqrt(at * (1 - at) / 1e5)).all()
    assert abs(draws.mean() - posterior.mean) < 5 * posterior.sd / np.sqrt(1e5)
    assert draws.std() == pytest.approx(float(posterior.sd), rel=0.015)


def test_posterior_agrees_with_approximate_bayes():
    """Draw shares, people and releases forward; those that give the release seen have the posterior's law."""
    rng = np.random.default_rng(8)
    n, rows, alpha, size = 20, 15, 4.0, 400_000
    share = rng.beta(1, 1, size)
    people = rng.binomial(n, share)
    kept = rng.binomial(rows, rng.beta(alpha + people, alpha + n - people)) == 4
    kept &= rng.binomial(rows, rng.beta(alpha + people, alpha + n - people)) == 6
    assert kept.sum() > 2000
    posterior = beta_binomial([4, 6], rows=rows, records=n, alpha=(alpha, alpha))
    error = float(posterior.sd) / np.sqrt(kept.sum())
    assert abs(share[kept].mean() - float(posterior.mean)) < 4.5 * error
    wrong = beta_binomial([4, 6], rows=rows, records=n, alpha=(alpha / 2, alpha / 2))
    assert abs(share[kept].mean() - float(wrong.mean)) > 4.5 * error


def test_bayes_factor_prefers_the_model_that_made_the_table():
    rng = np.random.default_rng(9)
    x = rng.multinomial(500, rng.dirichlet(np.full(10, 50.0)))
    released = rng.multinomial(500, rng.dirichlet(0.5 + x))[None]
    even = dirichlet_multinomial(released, records=500, alpha=0.5, prior=50.0)
    uneven = dirichlet_multinomial(released, records=500, alpha=0.5, prior=0.1)
    assert log_bayes_factor(even, uneven) > 5


def test_saddlepoint_is_near_says_so_and_refuses_draws(monkeypatch):
    rng = np.random.default_rng(10)
    x = rng.multinomial(5000, rng.dirichlet(np.full(300, 0.5)))
    released = rng.multinomial(5000, rng.dirichlet(0.5 + x))[None]
    exact = dirichlet_multinomial(released, records=5000, alpha=0.5)
    monkeypatch.setattr(latent_table, "LARGEST_WORK", 0)
    near = dirichlet_multinomial(released, records=5000, alpha=0.5)
    assert (exact.method, near.method) == ("exact", "saddlepoint")
    assert near.log_evidence == pytest.approx(exact.log_evidence, abs=1e-3)
    assert near.cell_mean == pytest.approx(exact.cell_mean, abs=0.05)
    with pytest.raises(UnsupportedError, match="merge cells"):
        near.draws(1, rng)


@pytest.mark.full
def test_five_thousand_cells_and_a_hundred_thousand_people():
    rng = np.random.default_rng(11)
    x = rng.multinomial(100_000, rng.dirichlet(np.full(5000, 0.5)))
    released = rng.multinomial(100_000, rng.dirichlet(0.5 + x))[None]
    posterior = dirichlet_multinomial(released, records=100_000, alpha=0.5, prior=0.5)
    assert posterior.cell_mean.sum() == pytest.approx(100_000)
    draws = posterior.draws(200, rng)
    assert (draws.sum(axis=1) == 100_000).all()
    assert np.abs(draws.mean(axis=0) - posterior.cell_mean).max() < 6


def test_log_rising_keeps_its_digits():
    from fractions import Fraction

    exact = sum(np.log(float(Fraction(10) ** 9 + i)) for i in range(5))
    assert float(log_rising(1e9, 5)) == pytest.approx(exact, rel=1e-15)
    assert float(log_rising(9999.5, 40)) == pytest.approx(float(np.log(9999.5 + np.arange(40)).sum()), rel=1e-13)
    assert float(log_rising(10000.5, 40)) == pytest.approx(float(np.log(10000.5 + np.arange(40)).sum()), rel=1e-13)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: dirichlet_multinomial([1, 2], records=3, alpha=1.0), "one row per copy"),
        (lambda: dirichlet_multinomial([[1.5, 2]], records=3, alpha=1.0), "whole numbers"),
        (lambda: dirichlet_multinomial([[-1, 2]], records=3, alpha=1.0), "negative"),
        (lambda: dirichlet_multinomial([[1, 2]], records=-3, alpha=1.0), "records"),
        (lambda: dirichlet_multinomial([[1, 2]], records=3, alpha=0.0), "alpha must be positive"),
        (lambda: dirichlet_multinomial([[1, 2]], records=3, alpha=[1.0] * 3), "2 cells"),
        (lambda: dirichlet_multinomial([[1, 2]], records=3, alpha=1.0, prior=float("nan")), "prior"),
        (lambda: beta_binomial([5], rows=4, records=3, alpha=(1, 1)), "between 0 and rows"),
        (lambda: beta_binomial([1.0], rows=4, records=3, alpha=(1, 1)), "whole numbers"),
        (lambda: beta_binomial([1], rows=4, records=3, alpha=(0, 1)), "alpha"),
        (lambda: beta_binomial([1], rows=4, records=3, alpha=(1, 1)).quantile(1.0), "between 0 and 1"),
        (lambda: noisy_table([1, 2], mechanism=Geometric(scale=1), cells=2, clamped=True), "clamped"),
        (lambda: noisy_table([1, 2], mechanism=Geometric(scale=1), measured=[True, False]), "every cell"),
        (lambda: noisy_table([1, 2], mechanism="laplace"), "mechanism"),
        (lambda: noisy_table([1, 2], mechanism=Geometric(scale=10**7)), "so wide"),
    ],
)
def test_bad_input_says_what_was_expected(call, says):
    with pytest.raises(InputError, match=says):
        call()
