"""The noise-aware posterior of a small log-linear model: against enumeration, against Markov chains, both sides of the
rule that says whether importance weights are enough."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import chi2, multivariate_normal

import understudy as us
from understudy.errors import ConvergenceError, InputError, UnsupportedError
from understudy.models import posterior as module
from understudy.models.effects import Effects, NoisyTable, contrasts, effects_of, make_effects, reduce_tables
from understudy.models.posterior import LEAST_EFFECTIVE, Posterior, Sample

SCHEMA = us.Schema(
    attributes=(us.Attribute(name="a", levels=("0", "1")), us.Attribute(name="b", levels=("0", "1", "2")))
)


SCHEMA_OF_A = us.Schema(attributes=SCHEMA.attributes[:1])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def noisy(margin, values, variance, *, laplace=False) -> NoisyTable:
    flat = np.asarray(values, float).reshape(-1)
    excess = np.full(len(flat), 3.0 if laplace else 0.0)
    return NoisyTable(
        margin=margin, cells=np.arange(len(flat)), values=flat, variances=np.full(len(flat), variance), excess=excess
    )


def posterior_of(schema, tables, records) -> Posterior:
    effects = make_effects(schema, schema.names, [table.margin for table in tables if table.margin])
    return Posterior(effects, reduce_tables(effects, tables, records), records)


def test_contrasts_are_orthonormal_and_add_to_zero():
    for levels in (2, 3, 7):
        columns = contrasts(levels)
        assert np.allclose(columns.T @ columns, np.eye(levels - 1))
        assert np.allclose(columns.sum(axis=0), 0)


def test_effects_are_all_parts_of_the_margins():
    assert effects_of([("a", "b"), ("b", "c")]) == [("a",), ("b",), ("c",), ("a", "b"), ("b", "c")]


def test_tables_without_noise_are_read_back_exactly():
    counts = np.array([[5, 3, 2], [4, 1, 9]])
    tables = [noisy(("a", "b"), counts, 1.0), noisy(("a",), counts.sum(axis=1), 2.0)]
    effects = make_effects(SCHEMA, ("a", "b"), [("a", "b")])
    found = reduce_tables(effects, tables, int(counts.sum()))
    assert found.misfit == pytest.approx(0, abs=1e-18)
    assert found.freedom == 8 - 5
    assert np.allclose(found.estimate, counts.reshape(-1) @ effects.columns)
    unknown = reduce_tables(effects, tables, None)
    assert unknown.estimate[0] == pytest.approx(24)


def test_the_misfit_of_disagreeing_tables_has_its_chi_square_law():
    counts = np.array([[50, 30, 20], [40, 10, 90]])
    generator = rng(3)
    effects = make_effects(SCHEMA, ("a", "b"), [("a", "b")])
    found = [
        reduce_tables(
            effects,
            [
                noisy(("a", "b"), counts + generator.normal(0, 3, (2, 3)), 9.0),
                noisy(("a",), counts.sum(axis=1) + generator.normal(0, 2, 2), 4.0),
            ],
            240,
        ).misfit
        for _ in range(400)
    ]
    # The mean of 400 chi-squares of 3 degrees has standard deviation 0.122; four of them is a false alarm of 6e-5.
    assert abs(np.mean(found) - 3) < 4 * 0.122
    assert np.mean(np.array(found) > chi2.ppf(0.5, 3)) == pytest.approx(0.5, abs=0.1)


def test_structural_zeros_leave_only_possible_cells():
    schema = us.Schema(
        attributes=SCHEMA.attributes,
        impossible=(
            us.Impossible(conditions=(("a", us.Condition(levels=("0",))), ("b", us.Condition(levels=("2",))))),
        ),
    )
    effects = make_effects(schema, ("a", "b"), [("a", "b")])
    assert effects.columns.shape == (5, 4)
    assert np.all(np.linalg.eigvalsh(effects.precision) > 0)


def test_too_many_cells_and_too_many_parameters_are_refused():
    wide = us.Schema(attributes=tuple(us.Attribute(name=f"x{i}", levels=tuple(range(30))) for i in range(4)))
    with pytest.raises(UnsupportedError, match="cells"):
        make_effects(wide, wide.names, [("x0", "x1")])
    with pytest.raises(UnsupportedError, match="parameters"):
        make_effects(wide, ("x0", "x1"), [("x0", "x1")])


def test_no_records_is_refused():
    effects = make_effects(SCHEMA, ("a", "b"), [("a",)])
    with pytest.raises(InputError, match="no records"):
        Posterior(effects, reduce_tables(effects, [noisy(("a",), [0, 0], 1.0)], 0), 0)


def gaussian_log_pmf(error, variance):
    grid = np.arange(-200, 201)
    norm = np.log(np.exp(-(grid**2) / (2 * variance)).sum())
    return -(error**2) / (2 * variance) - norm


@pytest.mark.parametrize("saturated", [pytest.param(True, marks=pytest.mark.full), False])
def test_against_enumeration_of_every_table_on_a_grid_of_parameters(saturated):
    """P(theta | noisy tables) by summing over all tables of 24 people, nothing approximated."""
    schema = us.Schema(attributes=(SCHEMA.attributes[0], us.Attribute(name="b", levels=("0", "1"))))
    n, variance = 24, 9.0
    observed = {("a", "b"): [[9, 3], [2, 10]], ("a",): [13, 12], ("b",): [12, 13]}
    used = list(observed) if saturated else [("a",), ("b",)]
    tables = [noisy(margin, observed[margin], variance) for margin in used]
    posterior = posterior_of(schema, tables, n)
    drawn = posterior.draw(rng(1), 3000)
    shares = posterior.shares(drawn.resample(20_000, rng(2)))
    counts = np.array([c for c in product(range(n + 1), repeat=3) if sum(c) <= n])
    counts = np.column_stack([counts, n - counts.sum(axis=1)])
    log_noise = np.zeros(len(counts))
    cells = counts.reshape(-1, 2, 2)
    for margin in used:
        summed = {("a", "b"): cells, ("a",): cells.sum(axis=2), ("b",): cells.sum(axis=1)}[margin]
        error = (np.asarray(observed[margin]) - summed).reshape(len(counts), -1)
        log_noise += gaussian_log_pmf(error, variance).sum(axis=1)
    axis = np.linspace(-4.5, 4.5, 25)
    width = posterior.dimension
    grid = np.array(list(product(axis, repeat=width)))
    log_p = np.log(posterior.shares(grid))
    multinomial = gammaln(n + 1) - gammaln(counts + 1).sum(axis=1)
    log_like = log_p @ counts.T + (multinomial + log_noise)
    top = log_like.max(axis=1)
    evidence = top + np.log(np.exp(log_like - top[:, None]).sum(axis=1))
    evidence -= 0.5 * np.einsum("si,ij,sj->s", grid, posterior.effects.precision, grid)
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    exact = np.exp(log_p)
    for quantity in (lambda p: p[:, 2] + p[:, 3], lambda p: p[:, 1] + p[:, 3], lambda p: p[:, 3]):
        mean = weights @ quantity(exact)
        spread = np.sqrt(weights @ (quantity(exact) - mean) ** 2)
        ours = quantity(shares)
        # 24 people are few for a normal law of sums; what is left is below a tenth of the posterior's own spread.
        assert abs(ours.mean() - mean) < 0.1 * spread
        assert abs(ours.std() / spread - 1) < 0.1


def test_without_interactions_and_with_much_data_it_is_the_normal_posterior():
    """Many records and Gaussian noise: the mean is generalised least squares, the variance that of sampling + noise."""
    schema = us.Schema(attributes=(SCHEMA.attributes[0],))
    posterior = posterior_of(schema, [noisy(("a",), [60_000, 40_000], 250_000.0)], 100_000)
    share = posterior.shares(posterior.draw(rng(1), 3000).resample(20_000, rng(2)))[:, 1]
    spread = np.sqrt(0.24 / 1e5 + 250_000 / 2 / 1e10)
    assert share.mean() == pytest.approx(0.4, abs=0.1 * spread)
    assert share.std() == pytest.approx(spread, rel=0.05)


def test_an_unknown_number_of_records_is_estimated():
    posterior = posterior_of(SCHEMA, [noisy(("a", "b"), [[50, 30, 20], [40, 10, 90]], 25.0)], None)
    sample = posterior.draw(rng(1), 2000)
    totals = posterior.totals(sample.resample(5000, rng(2)))
    assert totals.mean() == pytest.approx(240, abs=3)
    assert totals.std() == pytest.approx(np.sqrt(6 * 25), rel=0.15)


@pytest.mark.full
def test_the_rule_of_effective_draws_has_two_sides(monkeypatch):
    tables = [noisy(("a", "b"), [[50, 30, 20], [40, 10, 90]], 25.0)]
    good = posterior_of(SCHEMA, tables, 240).draw(rng(1))
    assert good.accurate
    assert good.effective >= LEAST_EFFECTIVE
    monkeypatch.setattr(module, "ROUNDS", 1)
    names = tuple(f"x{i}" for i in range(8))
    schema = us.Schema(attributes=tuple(us.Attribute(name=name, levels=("0", "1", "2")) for name in names))
    values = [[-60, 5, 60], [3, -9, 2], [40, -3, 8]]
    pairs = [noisy((first, second), values, 900.0) for first, second in pairwise(names)]
    bad = posterior_of(schema, pairs, 50).draw(rng(1))
    assert not bad.accurate
    assert bad.effective < LEAST_EFFECTIVE


def test_weights_recover_a_target_that_the_proposal_misses():
    """Importance weights against a known law: a correlated normal, from a mode and curvature that are both wrong."""

    class Normal(Posterior):
        law = multivariate_normal([1.0, -1.0], [[1.0, 0.6], [0.6, 2.0]])

        def log_density(self, parameters):
            return self.law.logpdf(parameters)

        def mode(self):
            return np.zeros(2), np.eye(2) * 0.7

    effects = Effects(margin=("a",), shape=(3,), possible=np.arange(3), columns=contrasts(3), precision=np.eye(2))
    reduced = reduce_tables(effects, [noisy(("a",), [1, 1, 1], 1.0)], 3)
    sample = Normal(effects, reduced, 3).draw(rng(5), 4000)
    mean = sample.weights @ sample.parameters
    away = sample.parameters - mean
    assert np.allclose(mean, [1, -1], atol=0.1)
    assert np.allclose((sample.weights[:, None] * away).T @ away, [[1, 0.6], [0.6, 2]], atol=0.2)


def test_a_target_that_is_nowhere_finite_is_an_error():
    with pytest.raises(ConvergenceError):
        module._weighted(np.zeros((3, 1)), np.full(3, np.nan))


SINGLE = 2.5  # excess kurtosis above which a value carries one two-sided geometric noise, and not a sum of several


def draw_by_chains(posterior: Posterior, *, seed: int) -> Sample:
    """The same posterior by NUTS (numpyro), in which nothing but the sampling law of sums is approximated.

    theta, the records' sums F and the noisy values have their joint density: F normal given theta with its own
    covariance, and noise by its own law (two-sided geometric noise as Laplace).
    """
    import jax
    import numpyro
    from numpyro.diagnostics import summary
    from numpyro.infer import MCMC, NUTS, init_to_median

    enabled = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    try:
        sampler = MCMC(
            NUTS(_model, init_strategy=init_to_median()),
            num_warmup=500,
            num_samples=1000,
            num_chains=4,
            chain_method="vectorized",
            progress_bar=False,
        )
        sampler.run(jax.random.PRNGKey(seed), posterior, numpyro)
        drawn = sampler.get_samples(group_by_chain=True)
        parameters = np.asarray(drawn["theta"], np.float64)
        if posterior.records is None:
            parameters = np.concatenate([parameters, np.asarray(drawn["log_total"])[:, :, None]], axis=2)
        told = summary({"parameters": parameters}, group_by_chain=True)["parameters"]
    finally:
        jax.config.update("jax_enable_x64", enabled)
    assert float(np.max(told["r_hat"])) <= 1.05, "the chains did not agree"
    flat = parameters.reshape(-1, parameters.shape[2])
    return Sample(parameters=flat, weights=np.full(len(flat), 1 / len(flat)), effective=float(np.min(told["n_eff"])))


def _model(posterior, numpyro):
    import jax.numpy as jnp

    dist = numpyro.distributions

    effects, reduced = posterior.effects, posterior.reduced
    width = effects.parameters
    factor = np.linalg.cholesky(np.linalg.inv(effects.precision))
    theta = numpyro.deterministic(
        "theta", jnp.asarray(factor) @ numpyro.sample("free", dist.Normal(0, 1).expand([width]).to_event(1))
    )
    if posterior.records is None:
        guess = float(np.log(max(reduced.estimate[0], 1.0)))
        log_total = numpyro.sample("log_total", dist.ImproperUniform(dist.constraints.real, (), ()))
        numpyro.factor("prior of the total", width * log_total)
        total = jnp.exp(jnp.clip(log_total, guess - 20, guess + 20))
    else:
        total = float(posterior.records)
    columns = jnp.asarray(effects.columns)
    log = columns @ theta
    share = jnp.exp(log - jnp.max(log))
    share = share / jnp.sum(share)
    means = share @ columns
    covariance = (columns * share[:, None]).T @ columns - jnp.outer(means, means)
    root = jnp.linalg.cholesky(total * covariance + 1e-9 * jnp.eye(width))
    sums = total * means + root @ numpyro.sample("sampling", dist.Normal(0, 1).expand([width]).to_event(1))
    expected = total * reduced.cells[:, 0] + reduced.cells[:, 1:] @ sums
    laplace = np.flatnonzero(reduced.excess > SINGLE)
    normal = np.flatnonzero(reduced.excess <= SINGLE)
    if len(laplace):
        scale = np.sqrt(reduced.variances[laplace] / 2)
        numpyro.sample("one_noise", dist.Laplace(expected[laplace], scale), obs=reduced.values[laplace])
    if len(normal):
        spread = np.sqrt(reduced.variances[normal])
        numpyro.sample("several", dist.Normal(expected[normal], spread), obs=reduced.values[normal])


@pytest.mark.full
@pytest.mark.parametrize("case", ["records public", "records unknown", "laplace"])
def test_against_markov_chains(case):
    """Chains keep the records' sums and the noise's own law, where importance weights integrate them out.

    With Gaussian noise means agree to a fifth of a posterior standard deviation and spreads to a fifth; with Laplace
    noise, which importance weights know by its variance only, to half a standard deviation and a third.
    """
    pytest.importorskip("numpyro", reason="needs numpyro: install the extra 'crosscheck'")
    counts = np.array([[90, 55, 30], [60, 12, 150]])
    tables = [noisy(("a", "b"), counts, 100.0), noisy(("a",), [170, 225], 50.0)]
    if case == "laplace":
        moved = counts + np.rint(rng(8).laplace(0, 8, (2, 3)))
        tables = [noisy(("a", "b"), moved, 128.0, laplace=True), noisy(("b",), [150, 70, 178], 60.0)]
    posterior = posterior_of(SCHEMA, tables, None if case == "records unknown" else 400)
    ours = posterior.draw(rng(1), 3000)
    chains = draw_by_chains(posterior, seed=3)
    first = posterior.shares(ours.resample(8000, rng(2)))
    second = posterior.shares(chains.parameters)
    mean, spread = (0.5, 0.33) if case == "laplace" else (0.2, 0.2)
    assert np.all(np.abs(first.mean(axis=0) - second.mean(axis=0)) < mean * second.std(axis=0))
    assert np.all(np.abs(first.std(axis=0) / second.std(axis=0) - 1) < spread)
    assert np.all(
        np.abs(posterior.totals(ours.resample(8000, rng(2))).mean() - posterior.totals(chains.parameters).mean()) < 3
    )


@pytest.mark.parametrize("values", [(-4.0, 3.0), (-9.0, -6.0), (0.5, 0.2), (6.0, 2.0)])
def test_a_number_of_people_that_noise_hides_is_found_where_a_grid_has_it(values):
    """The estimate of n may be 0 or below it; the search once ran to e^70 people from there, and the answer was 0."""
    posterior = posterior_of(SCHEMA_OF_A, [noisy(("a",), values, 40.0)], None)
    mode, _ = posterior.mode()
    assert 0 < mode[-1] < 5
    sample = posterior.draw(rng(1), 1500)
    assert sample.accurate
    theta, total = np.meshgrid(np.linspace(-12, 12, 241), np.linspace(-8, 5, 521), indexing="ij")
    grid = np.column_stack([theta.ravel(), total.ravel()])
    log = posterior.log_density(grid)
    weights = np.exp(log - log.max())
    mean = weights @ np.exp(grid[:, 1]) / weights.sum()
    spread = np.sqrt(weights @ (np.exp(grid[:, 1]) - mean) ** 2 / weights.sum())
    found = sample.weights @ np.exp(sample.parameters[:, 1])
    assert found == pytest.approx(mean, abs=6 * spread / np.sqrt(sample.effective))  # false alarm about 1e-8
