"""Integer noise on counts: one frozen value that runs it, states what it costs, and knows its exact law.

Both laws live on the integers and are sampled exactly, so nothing is lost to floating point: no rounded output can
reveal its input (Mironov 2012). See docs/theory/geometric.md and docs/theory/discrete-gaussian.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.exact_numbers import Number, float_up, from_text, read_exact, show_up, to_text
from understudy.core.mechanism import Mechanism, Stream
from understudy.errors import InputError, InternalError, unknown_name
from understudy.privacy.promise.event import Event, GaussianNoise, GeometricNoise, NoNoise, Sensitivity
from understudy.privacy.randomness.streams import LARGEST_SCALE, NOISE_BOUND, SMALLEST_SCALE


def exact_scale(scale: Number) -> Fraction:
    """A noise scale exactly as written, within the range that can be sampled."""
    exact = read_exact(scale, "scale")
    if not SMALLEST_SCALE <= exact <= LARGEST_SCALE:
        raise InputError(f"scale ({show_up(exact, 4)}) must be between 2^-40 (about 9.1e-13) and 2^40 (about 1.1e12).")
    return exact


def read_scale(scale: Number) -> Fraction:
    """The exact value of the smallest float not below a noise scale: more noise than asked for, never less.

    >>> float(read_scale(0.3)) > 0.3, read_scale(2) == 2
    (True, True)
    """
    return Fraction(float_up(exact_scale(scale)))


class IntegerNoise(ABC):
    """What the two laws share: adding noise to counts without leaving 64 bits, and the law of the difference."""

    __slots__ = ()
    name: ClassVar[str]
    scale: Fraction

    def run(self, values: Integers, stream: Stream) -> Integers:
        """The values plus independent noise, exact in 64 bits.

        Values below 2^62 in size plus noise below 2^62 cannot overflow, so no wrapped or clipped number can tell that
        a count was unusual.

        Parameters
        ----------
        values
            The confidential counts.
        stream
            The source of randomness.

        Returns
        -------
        Integers
            The noisy counts, in the same shape.
        """
        exact = checked_counts(values)
        return exact + self._draw(stream, exact.size).reshape(exact.shape)

    def log_pmf(self, out: Integers, values: Integers) -> NDArray[np.float64]:
        """Give the log probability of each output cell for each input cell.

        Parameters
        ----------
        out
            Noisy counts.
        values
            Exact counts; the arrays are broadcast.

        Returns
        -------
        NDArray[np.float64]
            One log probability for each pair of output and input.
        """
        return self._log_law(np.abs(checked_counts(out) - checked_counts(values)).astype(np.float64))

    def to_json(self) -> dict[str, str]:
        """The mechanism as plain values, for manifests and measurements.

        Returns
        -------
        dict[str, str]
            Its name and its exact scale as texts.
        """
        return {"mechanism": self.name, "scale": to_text(self.scale)}

    def __str__(self) -> str:
        return f"{self.name}(scale = {float(self.scale):.6g})"

    @abstractmethod
    def _draw(self, stream: Stream, size: int) -> Integers: ...

    @abstractmethod
    def _log_law(self, distance: NDArray[np.float64]) -> NDArray[np.float64]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometric(IntegerNoise):
    """Two-sided geometric (discrete Laplace) noise: P(x) = (1-a)/(1+a) a^|x|, a = exp(-1/scale).

    A query with L1 sensitivity s is s/scale-differentially private (Ghosh, Roughgarden and Sundararajan 2012): two
    inputs at L1 distance d give likelihoods that differ by a factor of at most exp(d/scale).

    Raises
    ------
    InputError
        If the scale is not between 2^-40 and 2^40.

    Examples
    --------
    >>> Geometric(scale=2).event(Sensitivity(l1=2, l2_squared=2, linf=1))
    GeometricNoise(l1=Fraction(2, 1), scale=Fraction(2, 1))
    """

    scale: Fraction
    """The scale of the noise, exact. A number that no float holds is rounded up: never less noise than asked for."""
    name: ClassVar[str] = "geometric"

    def __init__(self, *, scale: Number) -> None:
        object.__setattr__(self, "scale", read_scale(scale))

    def event(self, sensitivity: Sensitivity) -> Event:
        """State what running the noise once costs.

        Parameters
        ----------
        sensitivity
            How far one unit can move the query.

        Returns
        -------
        Event
            The event, which the accountant and the ledger understand.
        """
        return GeometricNoise(l1=_positive(sensitivity.l1), scale=self.scale)

    @property
    def variance(self) -> float:
        """2a / (1-a)^2, without cancellation at large scales."""
        rate = 1 / float(self.scale)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def _draw(self, stream: Stream, size: int) -> Integers:
        return stream.discrete_laplace(self.scale, size)

    def _log_law(self, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        rate = 1 / float(self.scale)
        # log((1-a)/(1+a)), the first logarithm in whichever form keeps all digits.
        inside = math.log(-math.expm1(-rate)) if rate < math.log(2) else math.log1p(-math.exp(-rate))
        mode = inside - math.log1p(math.exp(-rate))
        return np.asarray(mode - distance * rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian(IntegerNoise):
    """Discrete Gaussian noise: P(x) proportional to exp(-x^2 / (2 scale^2)) on the integers.

    A query with L2 sensitivity s is s^2/(2 scale^2)-zCDP (Canonne, Kamath and Steinke, arXiv:2004.00010; proof in
    docs/theory/discrete-gaussian.md).

    Raises
    ------
    InputError
        If the scale is not between 2^-40 and 2^40.

    Examples
    --------
    >>> round(DiscreteGaussian(scale=3).variance, 9)
    9.0
    """

    scale: Fraction
    """The parameter sigma of the law, exact. A number that no float holds is rounded up: never less noise than asked
    for."""
    name: ClassVar[str] = "discrete_gaussian"

    def __init__(self, *, scale: Number) -> None:
        object.__setattr__(self, "scale", read_scale(scale))

    def event(self, sensitivity: Sensitivity) -> Event:
        """State what running the noise once costs.

        Parameters
        ----------
        sensitivity
            How far one unit can move the query.

        Returns
        -------
        Event
            The event, which the accountant and the ledger understand.
        """
        return GaussianNoise(l2_squared=_positive(sensitivity.l2_squared), scale=self.scale)

    @property
    def variance(self) -> float:
        """From the same two series as the normaliser, differentiated term by term."""
        sigma = float(self.scale)
        if sigma < SERIES_MEET:
            weights = [math.exp(-k * k / (2 * sigma * sigma)) for k in SERIES]
            squares = sum(k * k * weight for k, weight in zip(SERIES, weights, strict=True))
            return 2 * squares / (1 + 2 * sum(weights))
        weights = [math.exp(-2 * (math.pi * sigma * k) ** 2) for k in SERIES]
        squares = sum(k * k * weight for k, weight in zip(SERIES, weights, strict=True))
        return sigma**2 - 4 * math.pi**2 * sigma**4 * 2 * squares / (1 + 2 * sum(weights))

    def _draw(self, stream: Stream, size: int) -> Integers:
        return stream.discrete_gaussian(self.scale, size)

    def _log_law(self, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        sigma = float(self.scale)
        return np.asarray(-((distance / sigma) ** 2) / 2 - log_normaliser(sigma))


# The direct series and its Poisson-summed twin converge equally fast here; seven terms reach exp(-49 pi) either way.
SERIES_MEET = 1 / math.sqrt(2 * math.pi)
SERIES = range(1, 8)


def log_normaliser(sigma: float) -> float:
    """log of the sum over all integers k of exp(-k^2 / (2 sigma^2)), to full precision.

    For large sigma by Poisson summation (Jacobi's theta identity): sqrt(2 pi) sigma times the sum of
    exp(-2 pi^2 sigma^2 k^2).
    """
    if sigma < SERIES_MEET:
        return math.log1p(2 * sum(math.exp(-k * k / (2 * sigma * sigma)) for k in SERIES))
    tail = sum(math.exp(-2 * (math.pi * sigma * k) ** 2) for k in SERIES)
    return 0.5 * math.log(2 * math.pi) + math.log(sigma) + math.log1p(2 * tail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """No noise and no protection: an infinite loss, charged as one. For synthesis without a guarantee."""

    name: ClassVar[str] = "exact"

    @property
    def variance(self) -> float:
        return 0.0

    def event(self, sensitivity: Sensitivity) -> Event:  # noqa: ARG002 - no guarantee, whatever the sensitivity
        return NoNoise()

    def run(self, values: Integers, stream: Stream) -> Integers:  # noqa: ARG002 - nothing is drawn
        return checked_counts(values)

    def log_pmf(self, out: Integers, values: Integers) -> NDArray[np.float64]:
        return np.where(checked_counts(out) == checked_counts(values), 0.0, -np.inf)

    def to_json(self) -> dict[str, str]:
        return {"mechanism": self.name}


NoiseMechanism = Geometric | DiscreteGaussian
MECHANISMS: dict[str, Callable[..., NoiseMechanism]] = {c.name: c for c in (Geometric, DiscreteGaussian)}


def mechanism_from_json(data: Mapping[str, str]) -> Mechanism:
    """Read back what ``to_json`` wrote; the scale must be one that a mechanism could have had, bit for bit."""
    name = str(data.get("mechanism", ""))
    if name == Exact.name and len(data) == 1:
        return Exact()
    if name == "sparse_geometric":
        from understudy.privacy.mechanisms.sparse_geometric import read_sparse  # it builds on the noise of this file

        return read_sparse(data)
    if name == "stability_threshold":
        from understudy.privacy.mechanisms.stability_threshold import read_threshold  # so does this one

        return read_threshold(data)
    if name in ("trimmed_gaussian", "exponential_counts"):
        from understudy.privacy.mechanisms.bounded_noise import read_bounded  # and these

        return read_bounded(data)
    if name not in MECHANISMS:
        raise unknown_name("mechanism", name, MECHANISMS)
    if set(data) != {"mechanism", "scale"}:
        raise InputError(f"mechanism '{name}' needs exactly a scale.")
    scale = from_text(data["scale"], "scale")
    mechanism = MECHANISMS[name](scale=scale)
    if mechanism.scale != scale:
        raise InputError(f"the scale of mechanism '{name}' is not the exact value of a 64-bit float.")
    return mechanism


def _positive(sensitivity: int) -> Fraction:
    if sensitivity <= 0:
        raise InternalError("a query that no unit can move is public and needs no noise.")
    return Fraction(sensitivity)


def checked_counts(values: Integers) -> Integers:
    """Whole numbers that noise can be added to without leaving 64 bits."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InputError("integer noise works on whole numbers.")
    if array.size and not -NOISE_BOUND < int(array.min()) <= int(array.max()) < NOISE_BOUND:
        raise InternalError("counts must be below 2^62 in size.")
    return array.astype(np.int64)
