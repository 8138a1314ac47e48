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

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers
from understudy.errors import UnderstudyError

PAIRS = 300
MOST_NUMBERS = 30_000_000  # groups times simulations; beyond it nothing is simulated
CURVED = 0.2  # median curvature over the median first order, up to which a quantity is nearly linear
USUAL = 0.6827  # share of normal deviations within one standard deviation
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
    except (UnderstudyError, np.linalg.LinAlgError):
        return None
    middle, above, below = values[0], values[1 : pairs + 1], values[pairs + 1 :]
    first, second = np.abs(above - below) / 2, (above + below) / 2 - middle
    usable = np.isfinite(middle) & np.isfinite(first).all(axis=0) & np.isfinite(second).all(axis=0)
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
        spread=np.asarray(np.quantile(first, USUAL, axis=0)),
        determined=np.asarray(determined),
    )
