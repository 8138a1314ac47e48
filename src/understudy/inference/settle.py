"""From posterior draws and the noisy values alone to one interval for each quantity, and whether it is earned.

The posterior's interval is kept where the noisy values alone say the same: its centre within ``SHIFTED`` of their
standard error, its spread not below ``NARROWED`` of theirs. Where they differ and the noisy values determine the
quantity, theirs is the answer: the difference is the prior's work. Where they do not determine it, the posterior's
answer stays and is called model-based, since it rests on its prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.arrays import Flags, Floats
from understudy.inference.unshrunk import Quantity, Raw, unshrunk

SHIFTED = 0.25  # of a standard error without prior, between the two centres
NARROWED = 0.85  # of the spread without prior


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settled:
    """One interval for each output. ``by_prior``: it rests on the prior; ``alone``: it is that of the noisy values."""

    centre: Floats
    low: Floats
    high: Floats
    spread: Floats
    by_prior: Flags
    alone: Flags


def from_posterior(values: Floats, level: float, *, robust: bool) -> Settled:
    """Quantiles of the draws."""
    centre = np.median(values, axis=0) if robust else values.mean(axis=0)
    # The k-th of n draws has k / (n + 1) of the posterior below it on average; k / n covers up to 0.2 percent less.
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0, method="weibull")
    nothing = np.zeros(values.shape[1], bool)
    return Settled(
        centre=np.asarray(centre),
        low=np.asarray(low),
        high=np.asarray(high),
        spread=values.std(axis=0, ddof=1),
        by_prior=nothing,
        alone=nothing,
    )


def settle(
    found: Settled,
    raw: Raw | None,
    quantity: Quantity,
    bounds: tuple[float, float],
    *,
    level: float,
    rng: np.random.Generator,
) -> Settled:
    """The posterior's interval, or that of the noisy values alone where the prior has moved the posterior's."""
    alone = None if raw is None else unshrunk(raw, quantity, level, rng)
    if alone is None:
        return Settled(
            centre=found.centre,
            low=found.low,
            high=found.high,
            spread=found.spread,
            by_prior=np.ones(len(found.centre), bool),
            alone=found.alone,
        )
    lowest, highest = bounds
    with np.errstate(invalid="ignore", over="ignore"):
        inside = np.clip(alone.value, lowest, highest)
        shift = np.abs(found.centre - alone.value)
        same = (shift <= SHIFTED * alone.spread) & (found.spread >= NARROWED * alone.spread)
        low, high = (
            np.clip(alone.value - alone.half, lowest, highest),
            np.clip(alone.value + alone.half, lowest, highest),
        )
    # Noise can put all of an interval where no share can be: it is then taken around the nearest share that can.
    empty = ~(high > low)
    with np.errstate(invalid="ignore"):
        low = np.where(empty, np.clip(inside - alone.half, lowest, highest), low)
        high = np.where(empty, np.clip(inside + alone.half, lowest, highest), high)
    used = alone.determined & ~same
    return Settled(
        centre=np.where(used, inside, found.centre),
        low=np.where(used, low, found.low),
        high=np.where(used, high, found.high),
        spread=np.where(used, alone.spread, found.spread),
        by_prior=~alone.determined,
        alone=used,
    )
