"""Discovered codes: noise is added to the codes that occur, and those that reach a threshold are published.

See docs/theory/discovered-codes.md for the law, the theorem and its proof.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.exact_numbers import Number, from_text, to_text
from understudy.core.mechanism import Stream
from understudy.errors import InputError
from understudy.privacy.exact.stability_delta import gaussian_tail
from understudy.privacy.mechanisms.noise import DiscreteGaussian
from understudy.privacy.promise.event import Event, Sensitivity, ThresholdedNoise


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilityThreshold:
    """Discrete Gaussian noise on the count of every code that occurs; codes below the threshold are not published.

    For neighbouring tables, except with probability delta, the output follows from noisy counts of the codes
    that both tables have. There the loss is that of the noise. Delta covers every division of a unit's rows among
    codes of its own (Theorem 1 of docs/theory/discovered-codes.md).

    Raises
    ------
    InputError
        If the threshold is not a whole number of at least 2.

    Examples
    --------
    >>> from understudy.privacy.randomness.streams import SeededStream
    >>> StabilityThreshold(scale=1, threshold=50).find(("a", "b"), np.array([900, 1]), SeededStream(1))[0]
    ('a',)
    """

    scale: Fraction
    """The scale of the noise, exact."""
    threshold: int
    """The smallest noisy count with which a code is published."""
    name: ClassVar[str] = "stability_threshold"
    covers: ClassVar[str] = "codes_that_occur"

    def __init__(self, *, scale: Number, threshold: int) -> None:
        if isinstance(threshold, bool) or not isinstance(threshold, int) or threshold < 2:
            raise InputError(f"threshold ({threshold!r}) must be a whole number of at least 2.")
        object.__setattr__(self, "scale", DiscreteGaussian(scale=scale).scale)
        object.__setattr__(self, "threshold", threshold)

    def event(self, sensitivity: Sensitivity) -> Event:
        """State what running it once costs.

        Parameters
        ----------
        sensitivity
            How far one unit can change the counts; ``linf`` is the number of rows that it can have.

        Returns
        -------
        Event
            The event, from which the accountant computes loss and delta.
        """
        return ThresholdedNoise(
            l2_squared=Fraction(sensitivity.l2_squared),
            scale=self.scale,
            threshold=Fraction(self.threshold),
            rows=Fraction(sensitivity.linf),
        )

    @property
    def variance(self) -> float:
        """Of the noise."""
        return DiscreteGaussian(scale=self.scale).variance

    def find(self, codes: tuple[str, ...], counts: Integers, stream: Stream) -> tuple[tuple[str, ...], Integers]:
        """Add noise to the count of every code that occurs, and return those that reach the threshold.

        Parameters
        ----------
        codes
            The codes that occur.
        counts
            How often each occurs, at least once. Confidential.
        stream
            The source of randomness.

        Returns
        -------
        tuple[tuple[str, ...], Integers]
            The codes that reach the threshold, by their text, and their noisy counts.
        """
        if len(codes) != len(counts) or (len(counts) and int(np.min(counts)) < 1):
            raise InputError("only codes that occur can be found.")
        noisy = self.run(np.asarray(counts, dtype=np.int64), stream)
        told = sorted((code, int(value)) for code, value in zip(codes, noisy, strict=True) if value)
        return tuple(code for code, _ in told), np.array([value for _, value in told], dtype=np.int64)

    def run(self, values: Integers, stream: Stream) -> Integers:
        """Add noise to counts of at least 1; what does not reach the threshold becomes 0.

        Parameters
        ----------
        values
            The confidential counts of codes that occur.
        stream
            The source of randomness.

        Returns
        -------
        Integers
            The noisy counts, or 0.
        """
        noisy = DiscreteGaussian(scale=self.scale).run(values, stream)
        return np.where(noisy >= self.threshold, noisy, 0)

    def log_pmf(self, out: Integers, values: Integers) -> NDArray[np.float64]:
        """Give the log probability of what is published about a code, for each exact count.

        Parameters
        ----------
        out
            Noisy counts, 0 for a code that is not published.
        values
            Exact counts, 0 for a code that does not occur; the arrays are broadcast.

        Returns
        -------
        NDArray[np.float64]
            One log probability for each pair of output and input.
        """
        told, exact = np.broadcast_arrays(np.asarray(out), np.asarray(values))
        law = DiscreteGaussian(scale=self.scale).log_pmf(told, exact)
        hidden = [self._log_hidden(int(count)) for count in exact.flat]
        seen = np.where((told >= self.threshold) & (exact > 0), law, -np.inf)
        return np.where(told == 0, np.array(hidden).reshape(told.shape), seen)

    def _log_hidden(self, count: int) -> float:
        """The log probability that a code is not published; the law of the noise is symmetric."""
        if count < self.threshold:
            return math.log1p(-gaussian_tail(float(self.scale), self.threshold - count)) if count else 0.0
        tail = gaussian_tail(float(self.scale), count - self.threshold + 1)
        return math.log(tail) if tail > 0 else -math.inf

    def to_json(self) -> dict[str, str]:
        """The mechanism as plain values, for manifests and measurements.

        Returns
        -------
        dict[str, str]
            Its name, its exact scale and its threshold as texts.
        """
        return {"mechanism": self.name, "scale": to_text(self.scale), "threshold": str(self.threshold)}

    def __str__(self) -> str:
        return f"{self.name}(scale = {float(self.scale):.6g}, threshold = {self.threshold})"


def read_threshold(data: Mapping[str, str]) -> StabilityThreshold:
    """Read back what ``to_json`` wrote."""
    if set(data) != {"mechanism", "scale", "threshold"} or not data["threshold"].isdecimal():
        raise InputError(f"mechanism '{StabilityThreshold.name}' needs exactly a scale and a threshold.")
    scale = from_text(data["scale"], "scale")
    mechanism = StabilityThreshold(scale=scale, threshold=int(data["threshold"]))
    if mechanism.scale != scale:
        raise InputError(f"the scale of mechanism '{mechanism.name}' is not the exact value of a 64-bit float.")
    return mechanism
