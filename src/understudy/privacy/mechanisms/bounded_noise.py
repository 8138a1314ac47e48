"""Noise with a bound: Gaussian noise that is trimmed, and the exponential mechanism on counts.

Both are drawn exactly, by drawing discrete Gaussian or discrete Laplace noise again until it is within the bound.
docs/theory/bounded-noise.md has the laws, the exact losses and what each costs beside the noise without a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.exact_numbers import Number, float_down, from_text, read_exact, show_up, to_text
from understudy.core.mechanism import Stream
from understudy.errors import BudgetError, InputError, UnsupportedError
from understudy.privacy.exact.bounded_losses import (
    MOST_BOUND,
    SLACK,
    exponential_step,
    trimmed_delta,
    trimmed_law,
    trimmed_scale,
)
from understudy.privacy.mechanisms.noise import checked_counts, read_scale
from understudy.privacy.promise.event import (
    ApproxLoss,
    Event,
    ExponentialCounts,
    Sensitivity,
    TrimmedGaussianNoise,
)

SOURCE = "docs/theory/bounded-noise.md"
MOST_TRIES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimmedNoise:
    """Discrete Gaussian noise given that it is at most ``bound``.

    A table that is measured alone carries the promise that its noise was set for, and is charged with it. Without a
    promise the accountant adds it to other tables: the rho of Gaussian noise, and a delta for its ends.

    Raises
    ------
    InputError
        If the scale is outside of what can be sampled, or the bound is not a whole number of at least 1.
    """

    scale: Fraction
    """The parameter sigma of the law before it is trimmed."""
    bound: int
    """The largest noise."""
    epsilon: Fraction | None = None
    """The epsilon of the promise, if there is one."""
    delta: Fraction | None = None
    """The delta of the promise; what running it costs is checked against it."""
    name: ClassVar[str] = "trimmed_gaussian"
    additive: ClassVar[bool] = True

    def __init__(
        self, *, scale: Number, bound: int, epsilon: Number | None = None, delta: Number | None = None
    ) -> None:
        if isinstance(bound, bool) or not isinstance(bound, int) or not 1 <= bound <= MOST_BOUND:
            raise InputError(f"bound ({bound}) must be a whole number between 1 and {MOST_BOUND:,}.")
        object.__setattr__(self, "scale", read_scale(scale))
        object.__setattr__(self, "bound", bound)
        if (epsilon is None) != (delta is None):
            raise InputError("a promise has an epsilon and a delta.")
        object.__setattr__(self, "epsilon", None if epsilon is None else read_exact(epsilon, "epsilon"))
        object.__setattr__(self, "delta", None if delta is None else read_exact(delta, "delta"))

    @classmethod
    def keeping(cls, epsilon: Fraction, delta: Fraction, bound: int, moved: int) -> TrimmedNoise:
        """The noise of this bound with the least variance that keeps a promise.

        Raises
        ------
        InputError
            If no noise of this bound keeps it; the message says which bound does.
        """
        promise = float_down(epsilon), float_down(delta)
        scale = trimmed_scale(*promise, bound, moved)
        if scale is None:
            enough = _least_bound(lambda one: trimmed_scale(*promise, one, moved) is not None, bound)
            more = f"A bound of {enough:,} does." if enough else f"Neither does one of {MOST_BOUND:,}."
            raise InputError(
                f"no Gaussian noise that stays within {bound:,} keeps epsilon = {show_up(epsilon)} and delta = "
                f"{show_up(delta)}: the ends alone have more probability than delta. {more}"
            )
        return cls(scale=scale, bound=bound, epsilon=epsilon, delta=delta)

    def event(self, sensitivity: Sensitivity) -> Event:
        """The promise, if the exact delta of this noise keeps it for cells that move by one; or the noise itself."""
        if self.epsilon is None or self.delta is None:
            return TrimmedGaussianNoise(
                l1=Fraction(sensitivity.l1), l2_squared=Fraction(sensitivity.l2_squared),
                linf=Fraction(sensitivity.linf), scale=self.scale, bound=Fraction(self.bound),
            )  # fmt: skip
        if sensitivity.linf != 1:
            raise UnsupportedError("trimmed noise is proved for units of one row; use noise without a bound.")
        found = trimmed_delta(float(self.scale), self.bound, float_down(self.epsilon), sensitivity.l1)
        if found * (1 + SLACK) > float_down(self.delta):
            raise BudgetError(
                f"trimmed noise of scale {float(self.scale):g} and bound {self.bound:,} costs more than the delta it "
                "is charged with. Nothing was drawn; use a larger bound."
            )
        return ApproxLoss(epsilon=self.epsilon, delta=self.delta, source=SOURCE)

    @property
    def variance(self) -> float:
        """The variance of the noise."""
        values, chances = trimmed_law(float(self.scale), self.bound)
        return float((values**2) @ chances)

    def run(self, values: Integers, stream: Stream) -> Integers:
        """The values plus noise; noise beyond the bound is drawn again, so its law is that of noise within it."""
        exact = checked_counts(values)
        noise = _redrawn(
            exact.size, lambda size: stream.discrete_gaussian(self.scale, size), lambda n, _: abs(n) <= self.bound
        )
        return exact + noise.reshape(exact.shape)

    def log_pmf(self, out: Integers, values: Integers) -> NDArray[np.float64]:
        """Give the log probability of each output cell for each input cell; beyond the bound it is impossible."""
        distance = np.abs(checked_counts(out) - checked_counts(values))
        _, chances = trimmed_law(float(self.scale), self.bound)
        with np.errstate(divide="ignore"):
            log = np.concatenate([np.log(chances[self.bound :]), [-np.inf]])
        return np.asarray(log[np.minimum(distance, self.bound + 1)])

    def to_json(self) -> dict[str, str]:
        law = {"mechanism": self.name, "scale": to_text(self.scale), "bound": str(self.bound)}
        if self.epsilon is None or self.delta is None:
            return law
        return {**law, "epsilon": to_text(self.epsilon), "delta": to_text(self.delta)}

    def __str__(self) -> str:
        return f"{self.name}(scale = {float(self.scale):.6g}, bound = {self.bound:,})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialNoise:
    """The exponential mechanism on counts: P(out) proportional to exp(-|out - n| / scale), out = 0, 1, 2, ...

    It is geometric noise given that the result is not negative. Its normalising sum depends on the count, so a cell
    that moves by one costs 1/scale + ln(1 + q - q²) with q = exp(-1/scale), and not 1/scale.

    Raises
    ------
    InputError
        If the scale is not between 2^-40 and 2^40.
    """

    scale: Fraction
    """How far apart results may lie; probabilities fall by a factor e over this distance."""
    name: ClassVar[str] = "exponential_counts"
    additive: ClassVar[bool] = False  # the error depends on the count: an empty cell is never below 0

    def __init__(self, *, scale: Number) -> None:
        object.__setattr__(self, "scale", read_scale(scale))

    @classmethod
    def keeping(cls, epsilon: Fraction, moved: int) -> ExponentialNoise:
        """The smallest scale, up to a millionth, that keeps epsilon if so many cells move by one."""
        each = float_down(epsilon / moved)
        low, high = each / 2, each  # the rate: between the general theorem's and geometric noise's
        while high - low > 1e-7 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if float(exponential_step(middle)) <= each else (low, middle)
        return cls(scale=1 / Fraction(low))

    def event(self, sensitivity: Sensitivity) -> Event:
        """Its scale, and how many steps of one a unit moves cells by; the accountant knows what a step costs."""
        return ExponentialCounts(l1=Fraction(sensitivity.l1), scale=self.scale)

    @property
    def variance(self) -> float:
        """The mean squared error for a large count; that of a small one is less."""
        rate = 1 / float(self.scale)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def unbiased(self, values: Integers) -> Floats:
        """For each noisy count the number whose mean is the count itself; a noisy count is too large on average.

        The kernel q^|out - n| on 0, 1, 2, ... has a tridiagonal inverse, so there is exactly one such number: out -
        q^(out + 1) / (1 - q), and less for 0. It is below 0 for small counts.
        """
        q = math.exp(-1 / float(self.scale))
        least = -q * (1 + q - q * q) / ((1 - q) * (1 - q * q))
        return np.where(values == 0, least, values - q ** (values + 1.0) / (1 - q))

    def run(self, values: Integers, stream: Stream) -> Integers:
        """Noisy counts; noise that makes one negative is drawn again."""
        exact = checked_counts(values)
        flat = exact.ravel()
        noise = _redrawn(
            flat.size, lambda size: stream.discrete_laplace(self.scale, size), lambda n, at: n >= -flat[at]
        )
        return (flat + noise).reshape(exact.shape)

    def log_pmf(self, out: Integers, values: Integers) -> NDArray[np.float64]:
        """Give the log probability of each output cell for each input cell."""
        result, counts = np.broadcast_arrays(checked_counts(out), checked_counts(values))
        rate = 1 / float(self.scale)
        total = np.log1p(math.exp(-rate) - np.exp(-rate * (counts + 1.0))) - math.log(-math.expm1(-rate))
        return np.where(result < 0, -np.inf, -rate * np.abs(result - counts) - total)

    def to_json(self) -> dict[str, str]:
        return {"mechanism": self.name, "scale": to_text(self.scale)}

    def __str__(self) -> str:
        return f"{self.name}(scale = {float(self.scale):.6g})"


def _redrawn(
    size: int, draw: Callable[[int], Integers], fits: Callable[[Integers, Integers], NDArray[np.bool_]]
) -> Integers:
    """Noise for every place, drawn again where it does not fit. Each place has the law given that it fits."""
    noise = np.zeros(size, dtype=np.int64)
    left = np.arange(size)
    for _ in range(MOST_TRIES):
        if not left.size:
            return noise
        drawn = draw(left.size)
        good = fits(drawn, left)
        noise[left[good]] = drawn[good]
        left = left[~good]
    raise UnsupportedError("the bound leaves hardly any noise; use a larger one.")


def _least_bound(enough: Callable[[int], bool], low: int) -> int | None:
    """The smallest bound that is enough, above one that is not."""
    if not enough(MOST_BOUND):
        return None
    high = MOST_BOUND
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def read_bounded(data: Mapping[str, str]) -> TrimmedNoise | ExponentialNoise:
    """Read back what ``to_json`` of either wrote."""
    if data["mechanism"] == ExponentialNoise.name:
        if set(data) != {"mechanism", "scale"}:
            raise InputError(f"mechanism '{ExponentialNoise.name}' needs exactly a scale.")
        return ExponentialNoise(scale=from_text(data["scale"], "scale"))
    promise = {key: from_text(data[key], key) for key in ("epsilon", "delta") if key in data}
    if set(data) != {"mechanism", "scale", "bound", *promise} or len(promise) == 1 or not data["bound"].isdigit():
        raise InputError(f"mechanism '{TrimmedNoise.name}' needs scale and bound, and epsilon with delta or neither.")
    return TrimmedNoise(scale=from_text(data["scale"], "scale"), bound=int(data["bound"]), **promise)


BOUNDED = (TrimmedNoise.name, ExponentialNoise.name)
