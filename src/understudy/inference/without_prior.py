"""What the noisy values say by themselves: an estimate without any prior, and how it varies, found by simulation.

The shares that noisy counts give are unbiased whatever the truth; some may be negative. A quantity q of them is
estimated at these very shares. Sampling and noise are simulated there, in pairs of opposite deviations: half the
difference of a pair is what q does to first order, half the sum beyond q itself is its curvature. Where curvature is
small against the first order, q is nearly linear over everything that noise and sampling can do, and the estimate plus
and minus the quantile of the first order holds the truth as often as it says. No prior has a part in that. So where a
posterior differs from it, the difference comes from the prior.

Where curvature is not small, the noisy values alone do not determine the quantity. See docs/theory/noise-aware.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers
from understudy.errors import UnderstudyError

PAIRS = 300
MOST_NUMBERS = 30_000_000  # groups times simulations; beyond it nothing is simulated
CURVED = 0.2  # median curvature over the median first order, up to which a quantity is nearly linear
USUAL = 0.6827  # share of normal deviations within one standard deviation
FEW = 0.01  # of the simulated values may be impossible
UNSEEN = 2.0  # people that a group may have although none was seen
EXTRA = 0.05  # as a share of all records: added over the groups before people are sampled from them
CURVED_FAR = 0.6  # the same far out, at the 95 percent quantiles
Quantity = Callable[[Floats], Floats]  # shares of the groups (S, groups): values (S, outputs)
Deviations = Callable[[int, np.random.Generator], Floats]  # of the shares: (size, groups)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Raw:
    """Shares of the groups of a question without any prior, and how sampling and noise move them.

    ``people``: a share s varies by s (1 - s) / ``people``, beyond the noise that does not depend on it. That is the
    number of records, or fewer where the noise grows with the share too.
    """

    shares: Floats
    deviations: Deviations
    people: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unshrunk:
    """An estimate without prior for each output: ``half`` is half its interval, ``determined`` whether it is linear."""

    value: Floats
    half: Floats
    one_sided: Floats  # half an interval of which one end alone can miss
    spread: Floats
    determined: Flags


def sampled(centre: Floats, records: float, size: int, rng: np.random.Generator) -> Floats:
    """Deviations of the shares of possible groups by the sampling of people.

    A group in which nobody was seen may have somebody (up to three, at 95 percent): up to two more people in every
    possible group, and a twentieth of all people together, keep an interval from having no width.
    """
    held = np.maximum(centre, 0) * records + min(UNSEEN, EXTRA * records / len(centre))
    held = held / held.sum()
    return np.asarray(rng.multinomial(max(1, round(records)), held, size=size) / records - held)


def noise_of(mechanism: object, counts: Integers, size: int, rng: np.random.Generator) -> Floats:
    """For each group, the sum of ``counts`` noises of a mechanism."""
    variance = float(mechanism.variance)  # type: ignore[attr-defined]
    if getattr(mechanism, "name", "") == "geometric":
        leave = -np.expm1(-1 / float(mechanism.scale))  # type: ignore[attr-defined]
        shape = (size, len(counts))
        times = np.maximum(counts, 1)
        drawn = rng.negative_binomial(times, leave, shape) - rng.negative_binomial(times, leave, shape)
        return np.asarray(drawn * (counts > 0), np.float64)
    return np.asarray(rng.standard_normal((size, len(counts))) * np.sqrt(variance * counts))


def unbiased_square(
    raw: Raw, square: Quantity, level: float, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """A quantity that is a sum of squares near 0, such as chi-square: its estimate without the part that is noise, and
    its interval. Noise adds to squares whatever the truth; its mean is simulated and taken away."""
    away = raw.deviations(PAIRS, rng)
    with np.errstate(all="ignore"):
        values = square(np.concatenate([raw.shares[None, :], raw.shares + away, raw.shares - away]))
    middle, moved = values[0], values[1:]
    added = np.median((moved[:PAIRS] + moved[PAIRS:]) / 2 - middle, axis=0)
    half = np.quantile(np.abs(moved - middle - added), level, axis=0)
    return np.asarray(middle - added), np.asarray(middle - added - half), np.asarray(middle - added + half)


def unshrunk(raw: Raw, quantity: Quantity, level: float, rng: np.random.Generator) -> Unshrunk | None:
    """The estimate of a quantity without any prior; None where it cannot be computed at all."""
    pairs = min(PAIRS, MOST_NUMBERS // (2 * max(1, len(raw.shares))))
    if pairs < PAIRS // 3:
        return None
    away = raw.deviations(pairs, rng)
    rows = np.concatenate([raw.shares[None, :], raw.shares + away, raw.shares - away])
    try:
        with np.errstate(all="ignore"):
            values = quantity(rows)
            middle, above, below = values[0], values[1 : pairs + 1], values[pairs + 1 :]
            first, second = np.abs(above - below) / 2, (above + below) / 2 - middle
    except (UnderstudyError, np.linalg.LinAlgError):
        return None
    # A few of the simulated shares may be impossible, as a share of fewer than no people; they count as far away.
    impossible = ~(np.isfinite(first) & np.isfinite(second))
    usable = np.isfinite(middle) & (impossible.mean(axis=0) <= FEW)
    first, second = (np.where(impossible, np.inf, one) for one in (first, second))
    first, second = np.where(usable, first, 1.0), np.where(usable, second, 0.0)
    curved = np.abs(second)
    floor = np.finfo(float).tiny
    near = np.median(curved, axis=0) / np.maximum(np.median(first, axis=0), floor)
    far = np.quantile(curved, 0.95, axis=0) / np.maximum(np.quantile(first, 0.95, axis=0), floor)
    determined = usable & (near <= CURVED) & (far <= CURVED_FAR)
    return Unshrunk(
        # One simulated sample in hundreds may nearly separate an outcome: it affects a mean but not a median.
        value=np.asarray(middle - np.where(determined, np.median(second, axis=0), 0.0)),
        half=np.asarray(np.quantile(first, level, axis=0, method="weibull")),
        one_sided=np.asarray(np.quantile(first, max(2 * level - 1, 0.0), axis=0, method="weibull")),
        spread=np.asarray(np.quantile(first, USUAL, axis=0)),
        determined=np.asarray(determined),
    )


# From posterior draws and the noisy values alone to one interval for each quantity, and whether it is earned.
#
# The posterior's interval is kept where the noisy values alone say the same: its centre within ``SHIFTED`` of their
# standard error, its spread and its length not below ``NARROWED`` of theirs. Where they differ and the noisy values
# determine the quantity, theirs is the answer: the difference comes from the prior. Where they do not determine it, the
# posterior's answer stays and is called model-based, since it depends on its prior.


SHIFTED = 0.25  # of a standard error without prior, between the two centres
NARROWED = 0.85  # of the spread and of the length without prior
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
    low, high = ends_of(values, level, method="weibull")
    nothing = np.zeros(values.shape[1], bool)
    return Settled(
        centre=np.asarray(centre),
        low=np.asarray(low),
        high=np.asarray(high),
        spread=values.std(axis=0, ddof=1),
        by_prior=nothing,
        alone=nothing,
    )


def ends_of(values: Floats, level: float, method: Literal["linear", "weibull"] = "linear") -> tuple[Floats, Floats]:
    """Quantiles at both ends; an end among infinite values is infinite."""
    with np.errstate(invalid="ignore"):
        low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0, method=method)
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def settle(
    found: Settled,
    raw: Raw | None,
    quantity: Quantity,
    bounds: tuple[float, float],
    *,
    level: float,
    rng: np.random.Generator,
    inside: Floats | float = 1.0,
) -> Settled:
    """The posterior's interval, or that of the noisy values alone where the prior has moved the posterior's.

    ``inside``: for shares within a subgroup, the share of all people who are in it; one for each output, or for all.
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
            people = np.maximum(raw.people * np.asarray(inside), 1.0)
            down, up = (_reach(share, alone.half, alone.spread, people, level) for share in (1 - possible, possible))
            down, up = (
                near_bound(one, end, alone.half, alone.one_sided) for one, end in ((possible, down), (1 - possible, up))
            )
        low, high = np.clip(possible - down, lowest, highest), np.clip(possible + up, lowest, highest)
        # The spread of a skew posterior is that of its far tail: its interval can be short all the same.
        same &= found.high - found.low >= NARROWED * (high - low)
    used = alone.determined & ~same
    return Settled(
        centre=np.where(used, possible, found.centre),
        low=np.where(used, low, found.low),
        high=np.where(used, high, found.high),
        spread=np.where(used, alone.spread, found.spread),
        by_prior=~alone.determined,
        alone=used,
    )


def near_bound(share: Floats, down: Floats, half: Floats, one_sided: Floats) -> Floats:
    """How far an interval of a share near 0 reaches down, if all of its error probability is at that end.

    A true share of less than ``half`` is never above the interval, which reaches up by ``half`` from 0 at least. So it
    is left out only if the estimate is more than ``one_sided`` above it. The lower end is the least share that is not
    left out. See docs/theory/noise-aware.md.
    """
    nearest = np.maximum(share - down, np.minimum(share - one_sided, half))
    return np.asarray(np.where((share < 0.5) & (half < 0.5), share - nearest, down))


def _reach(share: Floats, half: Floats, spread: Floats, people: Floats, level: float) -> Floats:
    """How far an interval of a share reaches up, if a share varies more the larger it is (up to one half).

    The end u is the largest share that the estimate does not reject: u - share is ``half`` times the spread at u over
    that at the estimate. Where nobody was seen, the spread at the estimate itself says nothing. Never below ``half``,
    nor below Wilson's interval for a sample without noise: simulated spreads of nearly empty cells are often 0.
    """
    own = np.square(spread)
    up = np.asarray(half)
    for _ in range(ROUNDS):
        end = np.maximum(share, np.minimum(share + up, 0.5))
        more = np.maximum(end * (1 - end) - share * (1 - share), 0.0) / people
        up = half * np.sqrt(1 + more / np.maximum(own, np.finfo(float).tiny))
    z = NormalDist().inv_cdf((1 + level) / 2)
    root = np.sqrt(np.maximum(share * (1 - share) / people, 0.0) + (z / (2 * people)) ** 2)
    wilson = (share + z * z / (2 * people) + z * root) / (1 + z * z / people)
    return np.asarray(np.maximum(up, wilson - share))
