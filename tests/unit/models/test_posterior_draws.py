"""Whole models drawn from the posterior: small ones exactly, large ones by replicates; randomness from the stream."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

import understudy as us
from understudy.core.measurement import Measurement
from understudy.models import posterior
from understudy.models.fit import fit
from understudy.models.posterior import StreamSource, drawn_from, posterior_models
from understudy.privacy.mechanisms.noise import DiscreteGaussian
from understudy.privacy.randomness.streams import SeededStream

SCHEMA = us.Schema(
    attributes=(
        us.Attribute(name="a", levels=("0", "1")),
        us.Attribute(name="b", levels=("0", "1", "2")),
        us.Attribute(name="c", levels=("0", "1")),
    )
)
NOISE = DiscreteGaussian(scale=20)


def measured() -> list[Measurement]:
    counts = np.random.default_rng(1).multinomial(1000, np.random.default_rng(2).dirichlet(np.full(12, 5.0)))
    counts = counts.reshape(2, 3, 2)
    noise = np.random.default_rng(3)
    return [
        Measurement(
            margin=margin,
            values=(true := counts.sum(axis=axis)) + np.rint(noise.normal(0, 20, true.shape)).astype(int),
            mechanism=NOISE,
        )
        for margin, axis in ((("a", "b"), 2), (("b", "c"), 0))
    ]


def models(stream, copies=200, *, known=None, public=True):
    tables = measured()
    fitted, report = fit(SCHEMA, tables, total=1000, stream=stream)
    return posterior_models(
        SCHEMA, tables, total=1000.0, public_total=public, copies=copies, stream=stream, known=known or {},
        prior=report.prior, fitted=fitted,
    )  # fmt: skip


def test_the_stream_gives_normal_and_uniform_numbers():
    source = StreamSource(SeededStream(1), "test")
    normal = source.standard_normal((200, 100)).ravel()
    assert kstest(normal, "norm").pvalue > 1e-4
    assert kstest(1.2 * normal, "norm").pvalue < 1e-6
    assert kstest(source.random(20_000), "uniform").pvalue > 1e-4


def test_draws_are_those_of_the_stream():
    first, second, other = (models(SeededStream(seed), 3)[0] for seed in (1, 1, 2))
    assert np.array_equal(first[0].beliefs[0], second[0].beliefs[0])
    assert not np.array_equal(first[0].beliefs[0], other[0].beliefs[0])


@pytest.mark.parametrize("public", [True, False])
def test_small_and_large_models_are_drawn_with_like_means_and_spreads(monkeypatch, public):
    """The posterior itself and the replicates agree to first order; sampling and noise give 0.015 and 0.02."""
    small, how = models(SeededStream(1), public=public)
    assert "posterior of its parameters" in how
    monkeypatch.setattr(posterior, "DENSE_CELLS", 1)
    large, replicated = models(SeededStream(1), 60)
    assert "replicate" in replicated
    first = np.array([one.project(("a",))[1] / one.total for one in small])
    second = np.array([one.project(("a",))[1] / one.total for one in large])
    noise = np.sqrt(3 / 2) * 20 / 1000 if public else np.nan  # three cells of a two by three table, total known
    sampling = np.sqrt(first.mean() * (1 - first.mean()) / 1000)
    if public:
        assert first.std() == pytest.approx(np.hypot(noise, sampling), rel=0.25)
    assert abs(first.mean() - second.mean()) < 0.012
    assert 0.6 < second.std() / first.std() < 1.6


def test_public_margins_are_kept():
    exact = np.array([400, 600])
    drawn, _ = models(SeededStream(1), 50, known={("a",): exact})
    shares = np.array([one.project(("a",))[1] / one.total for one in drawn])
    assert abs(shares.mean() - 0.6) < 0.01
    assert shares.std() < 0.02  # the population's share given 600 of 1,000, without noise


def test_uneven_weights_are_moved_to_the_posterior(monkeypatch):
    """Forced random walk from few importance draws: the spread is that of plain importance draws."""
    tables = [posterior.table_of(SCHEMA, one) for one in measured()]
    design = posterior.make_effects(SCHEMA, SCHEMA.names, [one.margin for one in tables])
    target = posterior.Posterior(design, posterior.reduce_tables(design, tables, 1000), 1000)
    plain = target.shares(drawn_from(target, 400, StreamSource(SeededStream(5), "x")))
    monkeypatch.setattr(posterior, "LEAST_EFFECTIVE", 10**9)
    walked = target.shares(drawn_from(target, 400, StreamSource(SeededStream(6), "x")))
    spread = plain.std(axis=0)
    assert np.all(np.abs(plain.mean(axis=0) - walked.mean(axis=0)) < 0.4 * spread)
    assert np.all(np.abs(walked.std(axis=0) / spread - 1) < 0.25)
