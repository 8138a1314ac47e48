"""Noise with a bound, for audits: Gaussian noise that is trimmed, and the exponential mechanism on a count.

The laws that a release runs are in ``privacy/mechanisms/bounded_noise.py``. Here are the same ones as tables of
probabilities, so that an audit can list them, the second with a largest count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.auditing.composed_loss import LossDistribution
from understudy.auditing.noise_losses import Shift
from understudy.auditing.transition_laws import AuditOnly, Law, Table, product_law
from understudy.core.arrays import Floats
from understudy.errors import InputError
from understudy.privacy.exact.bounded_losses import trimmed_law, trimmed_scale
from understudy.privacy.exact.small_tables import check_size


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimmedGaussian(AuditOnly):
    """Discrete Gaussian noise given that it is at most ``bound`` away: P(z) proportional to exp(-z²/2 scale²).

    A count that differs by one can give one value less at the end, so epsilon is infinite and delta is at least the
    probability of the end.

    Raises
    ------
    InputError
        If the scale is not positive and finite, or the bound is not a whole number of at least 1.
    """

    scale: float
    """The parameter sigma of the law before it is trimmed."""
    bound: int
    """The largest noise."""
    name: ClassVar[str] = "trimmed_gaussian"

    def __post_init__(self) -> None:
        if isinstance(self.scale, bool) or not math.isfinite(self.scale) or self.scale <= 0:
            raise InputError(f"scale ({self.scale}) must be a positive finite number.")
        object.__setattr__(self, "bound", check_size(self.bound, "bound"))
        if self.bound < 1:
            raise InputError(f"bound ({self.bound}) must be at least 1.")

    def noise(self) -> tuple[Floats, Floats]:
        """The values of the noise and their probabilities.

        Returns
        -------
        tuple[Floats, Floats]
            Values from minus the bound to the bound, and their probabilities.
        """
        return trimmed_law(self.scale, self.bound)

    @property
    def variance(self) -> float:
        """The variance of the noise."""
        values, chances = self.noise()
        return float((values**2) @ chances)

    def law(self, table: Table) -> Law:
        values, chances = self.noise()
        return product_law(
            [
                {count + int(value): float(chance) for value, chance in zip(values, chances, strict=True) if chance > 0}
                for count in table
            ]
        )

    def losses(self, shift: Shift) -> LossDistribution:
        """The exact distribution of the privacy loss of one query.

        Parameters
        ----------
        shift
            How many cells one row moves by one.

        Returns
        -------
        LossDistribution
            Losses with their probabilities; what only one of two neighbours can give is infinite.
        """
        values, chances = self.noise()
        # Against the neighbour whose count is one more, noise z is noise z - 1: the lowest value has none.
        losses, kept = (1 - 2 * values[1:]) / (2 * self.scale**2), chances[1:]
        if shift.moved == 1:
            return LossDistribution(losses=losses, probabilities=kept, infinite=float(chances[0]))
        both = (losses[:, None] + losses[None, :]).ravel()
        share = float(kept.sum())
        return LossDistribution(
            losses=both, probabilities=(kept[:, None] * kept[None, :]).ravel(), infinite=1 - share**2
        )


def calibrated_trim(epsilon: float, delta: float, *, bound: int, moved: int = 1) -> TrimmedGaussian | None:
    """The trimmed Gaussian noise with a given bound that keeps (epsilon, delta) with the least variance.

    A small scale loses too much per step, a large one puts too much probability on the ends, so delta falls and then
    grows with the scale. The smallest scale that keeps the promise has the least variance, and is found between one
    that is too small and the best one.

    Parameters
    ----------
    epsilon, delta
        The promise.
    bound
        The largest noise.
    moved
        How many cells one row moves.

    Returns
    -------
    TrimmedGaussian | None
        The noise; nothing if no scale keeps the promise with this bound.

    Raises
    ------
    UnsupportedError
        If the bound is too large to be listed.

    Examples
    --------
    >>> found = calibrated_trim(1.0, 1e-3, bound=30)
    >>> found.losses(Shift(moved=1)).delta(1.0) <= 1e-3, calibrated_trim(1.0, 1e-3, bound=3)
    (True, None)
    """
    scale = trimmed_scale(epsilon, delta, bound, moved)
    return None if scale is None else TrimmedGaussian(scale=scale, bound=bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialCounts(AuditOnly):
    """The exponential mechanism on each count (McSherry and Talwar 2007): P(out) proportional to exp(-rate |out - n|).

    Outputs are the whole numbers from 0 to ``top``. A count that moves by one changes scores by at most 1 and the
    normalising sum by at most a factor e^rate, so one moved cell costs at most 2 rate; the audit says what it costs.

    Raises
    ------
    InputError
        If the rate is not positive and finite, or the top is not a whole number of at least 1.
    """

    rate: float
    """How fast probabilities fall with the distance from the count."""
    top: int
    """The largest count that is published."""
    name: ClassVar[str] = "exponential_counts"

    def __post_init__(self) -> None:
        if isinstance(self.rate, bool) or not math.isfinite(self.rate) or self.rate <= 0:
            raise InputError(f"rate ({self.rate}) must be a positive finite number.")
        object.__setattr__(self, "top", check_size(self.top, "top"))
        if self.top < 1:
            raise InputError(f"top ({self.top}) must be at least 1.")

    def matrix(self) -> Floats:
        """The law of one count: row n, column out.

        Returns
        -------
        Floats
            Probabilities; rows add up to 1.
        """
        counts = np.arange(self.top + 1)
        weights = np.exp(-self.rate * np.abs(counts[:, None] - counts[None, :]))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    @property
    def epsilon(self) -> float:
        """The exact loss of one count that moves by one."""
        logs = np.log(self.matrix())
        return float(np.abs(logs[1:] - logs[:-1]).max())

    def law(self, table: Table) -> Law:
        if max(table) > self.top:
            raise InputError(f"a count is above the top ({self.top}); counts above it must be clipped first.")
        return product_law([dict(enumerate(self.matrix()[count].tolist())) for count in table])
