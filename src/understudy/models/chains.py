"""Markov chains for posteriors that importance weights cannot correct: NUTS, through numpyro (extra ``mcmc``).

Nothing is integrated out by approximation here but the sampling law of sums: theta, the records' sums F and the noisy
values have their joint density, F normal given theta with its own covariance, and noise by its own law (two-sided
geometric noise as Laplace). Slower by two orders of magnitude than ``models/posterior.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from understudy.errors import ConvergenceError, MissingExtraError
from understudy.models.posterior import Posterior, Sample

CHAINS = 4
WARMUP = 500
KEPT = 1000
LARGEST_R_HAT = 1.05
SINGLE = 2.5  # excess kurtosis above which a value carries one two-sided geometric noise, and not a sum of several


def draw_by_chains(posterior: Posterior, start: Sample | None = None, *, seed: int, kept: int = KEPT) -> Sample:
    """Draws of the parameters by NUTS. Raises where chains disagree (split R-hat above 1.05)."""
    try:
        jax: Any = import_module("jax")
        numpyro: Any = import_module("numpyro")
        infer: Any = import_module("numpyro.infer")
        summary = import_module("numpyro.diagnostics").summary
    except ImportError:
        found = "" if start is None else f" (only {start.effective:.0f} effective draws)"
        raise MissingExtraError(
            f"the posterior of this question is too uneven for importance weights{found} and needs Markov chains: pip "
            "install 'understudy[mcmc]'. Or ask about fewer attributes."
        ) from None
    enabled = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    try:
        sampler = infer.MCMC(
            infer.NUTS(_model, init_strategy=infer.init_to_median()),
            num_warmup=WARMUP,
            num_samples=kept,
            num_chains=CHAINS,
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
    worst = float(np.max(told["r_hat"]))
    if not worst <= LARGEST_R_HAT:
        raise ConvergenceError(
            f"the Markov chains did not agree (split R-hat {worst:.2f}); ask about fewer attributes, or a larger group."
        )
    flat = parameters.reshape(-1, parameters.shape[2])
    return Sample(parameters=flat, weights=np.full(len(flat), 1 / len(flat)), effective=float(np.min(told["n_eff"])))


def _model(posterior: Posterior, numpyro: Any) -> None:
    jnp: Any = import_module("jax.numpy")
    dist: Any = numpyro.distributions

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
        total: Any = jnp.exp(jnp.clip(log_total, guess - 20, guess + 20))
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
