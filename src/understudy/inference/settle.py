"""From posterior draws and the noisy values alone to one interval for each quantity, and whether it is earned.

The posterior's interval is kept where the noisy values alone say the same: its centre within ``SHIFTED`` of their
standard error, its spread not below ``NARROWED`` of theirs. Where they differ and the noisy values determine the
quantity, theirs is the answer: the difference comes from the prior. Where they do not determine it, the posterior's
answer stays and is called model-based, since it depends on its prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.arrays import Flags, Floats
from understudy.inference.unshrunk import Quantity, Raw, unshrunk

SHIFTED = 0.25  # of a standard error without prior, between the two centres
NARROWED = 0.85  # of the spread without prior
ROUNDS = 12  # of the search for the end of an interval; each at least halves what is missing


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
    inside: float = 1.0,
) -> Settled:
    """The posterior's interval, or that of the noisy values alone where the prior has moved the posterior's.

    ``inside``: for shares within a subgroup, the share of all people who are in it.
    """
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
        # Noise can make an estimate an impossible share: its interval is then taken around the nearest possible share.
        possible = np.clip(alone.value, lowest, highest)
        shift = np.abs(found.centre - alone.value)
        same = (shift <= SHIFTED * alone.spread) & (found.spread >= NARROWED * alone.spread)
        down = up = alone.half
        if raw is not None and bounds == (0.0, 1.0):
            people = max(raw.people * inside, 1.0)
            down, up = (_reach(share, alone.half, alone.spread, people) for share in (1 - possible, possible))
        low, high = np.clip(possible - down, lowest, highest), np.clip(possible + up, lowest, highest)
    used = alone.determined & ~same
    return Settled(
        centre=np.where(used, possible, found.centre),
        low=np.where(used, low, found.low),
        high=np.where(used, high, found.high),
        spread=np.where(used, alone.spread, found.spread),
        by_prior=~alone.determined,
        alone=used,
    )


def _reach(share: Floats, half: Floats, spread: Floats, people: float) -> Floats:
    """How far an interval of a share reaches up, if a share varies more the larger it is (up to one half).

    The end u is the largest share that the estimate does not reject: u - share is ``half`` times the spread at u over
    that at the estimate. Where nobody was seen, the spread at the estimate itself says nothing. Never below ``half``.
    """
    own = np.square(spread)
    up = np.asarray(half)
    for _ in range(ROUNDS):
        end = np.maximum(share, np.minimum(share + up, 0.5))
        more = np.maximum(end * (1 - end) - share * (1 - share), 0.0) / people
        up = half * np.sqrt(1 + more / np.maximum(own, np.finfo(float).tiny))
    return np.asarray(up)
