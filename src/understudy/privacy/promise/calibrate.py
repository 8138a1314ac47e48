"""How much noise a budget buys: the least-variance mechanisms for several queries under one total.

The composed loss never exceeds the budget: shares are exact fractions, and every scale is rounded up.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from understudy.core.exact_numbers import Number, read_exact, sqrt_down, sqrt_up
from understudy.errors import InputError, InternalError, UnsupportedError
from understudy.privacy.exact.gaussian_profile import SMOOTHING, gaussian_mu_squared
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric, NoiseMechanism
from understudy.privacy.promise.conversion import cdp_rho
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, PureDP
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.randomness.streams import LARGEST_SCALE, SMALLEST_SCALE


def noise_for(
    budget: Definition,
    sensitivities: Sequence[Sensitivity],
    shares: Sequence[Number] | None = None,
    cells: Sequence[int] | None = None,
) -> list[NoiseMechanism]:
    """One mechanism per query, together within the budget; equal shares unless given.

    ``PureDP``: geometric noise, each query with its share of epsilon. ``ZCDP``: each query with its share of rho, by
    discrete Gaussian noise, or by geometric noise of epsilon = sqrt(2 rho) where that has less variance. ``ApproxDP``:
    geometric noise for all queries under (epsilon, 0), or noise as under ZCDP with the rho that (epsilon, delta)
    allows, or discrete Gaussian noise by its exact profile, which only a plan that is fixed in advance may use;
    whichever has the least total variance over all ``cells`` of the queries (one each unless given).
    ``ProbabilisticDP`` is refused: that Gaussian noise keeps Definition 6 is not proved.

    >>> [str(noise) for noise in noise_for(PureDP(epsilon=1), [Sensitivity(l1=2, l2_squared=2, linf=1)])]
    ['geometric(scale = 2)']
    """
    parts = _read_shares(shares, len(sensitivities))
    if any(sensitivity.l1 <= 0 or sensitivity.l2_squared <= 0 for sensitivity in sensitivities):
        raise InternalError("a query that no unit can move is public and needs no noise.")
    queries = list(zip(sensitivities, parts, strict=True))
    choices: list[list[NoiseMechanism | None]]
    if isinstance(budget, PureDP):
        choices = [_under_epsilon(budget.epsilon, queries)]
    elif isinstance(budget, ZCDP):
        choices = [_under_rho(budget.rho, queries)]
    elif isinstance(budget, ApproxDP):
        rho = cdp_rho(budget.epsilon, budget.delta)
        choices = [_under_epsilon(budget.epsilon, queries), _under_rho(rho, queries)]
        choices.append(_under_mu(gaussian_mu_squared(budget.epsilon, budget.delta), queries))
    else:
        raise UnsupportedError(f"no noise can be calibrated to {budget.title}.")
    possible = [[noise for noise in choice if noise is not None] for choice in choices]
    possible = [choice for choice in possible if len(choice) == len(queries)]
    if not possible:
        raise InputError(
            f"{budget} over {len(queries)} queries needs noise of a scale above 2^40 (about 1.1e12), the largest that "
            "is sampled here. Use a larger budget, fewer queries, or larger shares."
        )
    weights = [1] * len(queries) if cells is None else cells
    return min(possible, key=lambda choice: sum(w * noise.variance for w, noise in zip(weights, choice, strict=True)))


def _under_epsilon(epsilon: Fraction, queries: Sequence[tuple[Sensitivity, Fraction]]) -> list[NoiseMechanism | None]:
    return [_with_scale(Geometric, sensitivity.l1 / (epsilon * share)) for sensitivity, share in queries]


def _under_rho(rho: Fraction, queries: Sequence[tuple[Sensitivity, Fraction]]) -> list[NoiseMechanism | None]:
    return [_least_variance(rho * share, sensitivity) for sensitivity, share in queries]


def _under_mu(mu2: Fraction, queries: Sequence[tuple[Sensitivity, Fraction]]) -> list[NoiseMechanism | None]:
    return [_with_scale(DiscreteGaussian, _scale_for(mu2 * share, sensitivity)) for sensitivity, share in queries]


def gaussian_noise(mu2: Fraction, sensitivity: Sensitivity) -> NoiseMechanism:
    """Discrete Gaussian noise that is charged this mu^2."""
    noise = _with_scale(DiscreteGaussian, _scale_for(mu2, sensitivity))
    if noise is None:
        raise InputError(
            "a step needs noise of a scale above 2^40 (about 1.1e12), the largest that is sampled here. Use a larger "
            "budget or fewer rounds."
        )
    return noise


def _scale_for(mu2: Fraction, sensitivity: Sensitivity) -> Fraction:
    """sigma with s^2 / (sigma^2 - SMOOTHING) = mu^2, rounded towards more noise."""
    return sqrt_up(sensitivity.l2_squared / mu2 + SMOOTHING)


def _least_variance(rho: Fraction, sensitivity: Sensitivity) -> NoiseMechanism | None:
    """The better of s^2/(2 sigma^2) = rho and epsilon^2/2 = rho; roots are rounded towards more noise."""
    gaussian = _with_scale(DiscreteGaussian, sqrt_up(sensitivity.l2_squared / (2 * rho)))
    geometric = _with_scale(Geometric, sensitivity.l1 / sqrt_down(2 * rho))
    both = [noise for noise in (gaussian, geometric) if noise is not None]
    return min(both, key=lambda noise: noise.variance, default=None)


def _with_scale(kind: type[Geometric] | type[DiscreteGaussian], scale: Fraction) -> NoiseMechanism | None:
    """The mechanism with the given scale, or the least noise there is; None if the scale is too large to sample."""
    return None if scale > LARGEST_SCALE else kind(scale=max(scale, SMALLEST_SCALE))


def _read_shares(shares: Sequence[Number] | None, queries: int) -> list[Fraction]:
    if queries == 0:
        raise InputError("there is no query to calibrate noise for.")
    if shares is None:
        return [Fraction(1, queries)] * queries
    parts = [read_exact(share, "share") for share in shares]
    if len(parts) != queries:
        raise InputError(f"there are {queries} queries and {len(parts)} shares.")
    if any(part <= 0 for part in parts) or sum(parts) != 1:
        raise InputError("shares must be positive and add up to exactly 1; exact fractions such as Fraction(1, 3) do.")
    return parts
