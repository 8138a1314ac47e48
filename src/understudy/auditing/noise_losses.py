"""The exact privacy loss of independent noise in each cell, at any number of cells: a one-dimensional matter.

A row that comes or goes moves one cell by one; a row that changes moves two, one up and one down. All other cells have
the same law on both sides and cancel. The law of x + noise shifts with x, so no table is worse than another. See
docs/theory/exact-audit.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from understudy.auditing.audit_only_laws import RoundedLaplace
from understudy.auditing.composed_loss import LossDistribution
from understudy.errors import UnsupportedError
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric, log_normaliser

Noise = Geometric | DiscreteGaussian | RoundedLaplace
FARTHEST = 40.0  # standard deviations of a discrete Gaussian that are summed; beyond is less than 1e-300
LARGEST_SCALE = 50_000  # of a discrete Gaussian whose losses are listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """What one unit does to a query: this many cells change, each by one."""

    moved: int

    def __post_init__(self) -> None:
        if self.moved not in (1, 2):
            raise UnsupportedError("one row moves one cell (it comes or goes) or two (it changes).")


def noise_losses(noise: Noise, shift: Shift) -> LossDistribution:
    """The loss distribution of one query. By symmetry of the noise it is the same in both directions."""
    if isinstance(noise, DiscreteGaussian):
        return _gaussian(float(noise.scale), shift.moved)
    if isinstance(noise, Geometric):
        one = _geometric(float(noise.scale))
    elif isinstance(noise, RoundedLaplace):
        one = _rounded(float(noise.scale))
    else:
        raise UnsupportedError(f"{type(noise).__name__} is not noise that is independent by cell.")
    return one if shift.moved == 1 else _twice(one)


def _geometric(scale: float) -> LossDistribution:
    """x > 0 (loss -1/s) has probability a/(1+a), a = e^(-1/s); the other half-line has 1/(1+a) and loss +1/s."""
    rate = 1 / scale
    ratio = math.exp(-rate)
    return LossDistribution(
        losses=np.array([-rate, rate]), probabilities=np.array([ratio / (1 + ratio), 1 / (1 + ratio)])
    )


def _rounded(scale: float) -> LossDistribution:
    """Rounded Laplace against itself moved by one.

    At distance d <= -1 from the truth the neighbour is at distance -d + 1: loss 1/s. At 0 the loss is
    ln((1 - e^(-1/2s)) / (e^(-1/s) sinh(1/2s))), at 1 the negative of it, beyond -1/s.
    """
    rate = 1 / scale
    beyond = -math.expm1(-rate) / 2 * math.exp(-rate / 2) / -math.expm1(-rate)  # sum of e^(-d r) sinh(r/2), d >= 1
    centre = -math.expm1(-rate / 2)
    beside = math.exp(-rate / 2) * -math.expm1(-rate) / 2
    near = math.log(centre / beside)
    return LossDistribution(
        losses=np.array([-rate, -near, near, rate]),
        probabilities=np.array([beyond - beside, beside, centre, beyond]),
    )


def _twice(one: LossDistribution) -> LossDistribution:
    """Two cells move: two independent losses of the same law add up."""
    losses = (one.losses[:, None] + one.losses[None, :]).ravel()
    chances = (one.probabilities[:, None] * one.probabilities[None, :]).ravel()
    return LossDistribution(losses=losses, probabilities=chances)


def _gaussian(sigma: float, moved: int) -> LossDistribution:
    """Loss (1 - 2x)/(2 sigma^2) of one cell at x, and (1 - s)/sigma^2 of two at difference s = x - y.

    The difference has P(s) proportional to e^(-s^2 / 4 sigma^2) times the sum over z of e^(-(z + s/2)^2 / sigma^2),
    which depends only on whether s is even.
    """
    if sigma > LARGEST_SCALE:
        raise UnsupportedError(
            f"the exact loss of discrete Gaussian noise is listed up to scale {LARGEST_SCALE:,}; the scale is "
            f"{sigma:g}. Its zero-concentrated guarantee holds at any scale."
        )
    reach = math.ceil(FARTHEST * sigma * (1 if moved == 1 else math.sqrt(2))) + 1
    x = np.arange(-reach, reach + 1, dtype=float)
    if moved == 1:
        logs = -(x**2) / (2 * sigma**2) - log_normaliser(sigma)
        return LossDistribution(losses=(1 - 2 * x) / (2 * sigma**2), probabilities=np.exp(logs))
    wide = math.sqrt(0.5) * sigma
    even = log_normaliser(wide)
    # the sum over all halves minus that over whole numbers; over z in Z/2 it is the normaliser at twice the scale
    odd = math.log(math.exp(log_normaliser(2 * wide) - even) - 1) + even if sigma > 0.2 else _odd_log(sigma)
    parity = np.where(x % 2 == 0, even, odd)
    logs = -(x**2) / (4 * sigma**2) + parity - 2 * log_normaliser(sigma)
    return LossDistribution(losses=(1 - x) / sigma**2, probabilities=np.exp(logs))


def _odd_log(sigma: float) -> float:
    """ln of the sum over z of e^(-(z + 1/2)^2 / sigma^2) by its first terms, which are enough for narrow noise."""
    squares = np.array([(z + 0.5) ** 2 for z in range(8)])
    first = -squares[0] / sigma**2
    return float(math.log(2) + first + math.log(np.exp(-(squares - squares[0]) / sigma**2).sum()))


def noise_epsilon(noise: Noise, shift: Shift) -> float:
    """The worst-case loss: moved/scale for geometric and rounded Laplace noise, infinite for Gaussian."""
    if isinstance(noise, DiscreteGaussian):
        return math.inf
    return shift.moved / float(noise.scale)
