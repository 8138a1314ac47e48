"""Sources of randomness: the operating system for releases, a seed for tests and simulations.

``SecureStream`` draws integer noise with OpenDP's exact samplers and words with AES-CTR. ``SeededStream`` follows the
same laws with numpy's generator; nothing made with it carries a guarantee.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.mechanism import SelectionLaw
from understudy.errors import DisclosureError, InputError, InternalError
from understudy.privacy.randomness.draws import KeyedStream, TravellingKey

# OpenDP hands noise over as Python lists; in parts of this size a table of a billion cells needs no more memory.
DRAWS_PER_CALL = 2**16
# Noise this far out has probability below exp(-2^21) at the largest scale accepted, so meeting it means a fault.
NOISE_BOUND = 2**62
LARGEST_SCALE = Fraction(2**40)
SMALLEST_SCALE = Fraction(1, 2**40)

Progress = Callable[[int], None]


def exact_float(scale: Fraction) -> float:
    """The float that equals ``scale``: what is charged is exactly what the sampler gets."""
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:
        raise InputError("a noise scale must be between 2^-40 and 2^40.")
    number = float(scale)
    if Fraction(number) != scale:
        raise InternalError("a noise scale must be the exact value of a float.")
    return number


class SecureStream:
    """Noise from OpenDP's exact samplers, words from AES-256-CTR; both keyed by the operating system's entropy.

    Noise is drawn on a vector of zeros and added by the mechanism: the noise of a discrete Laplace or Gaussian
    mechanism does not depend on the values, so this is the same mechanism, and the values never leave numpy. OpenDP
    saturates at 64 bits; at the scales accepted here that has probability below exp(-2^21), and is an error that does
    not depend on the data. Like its words, its noise is refused in a forked child. ``progress`` is called with the
    number of draws of each finished part.
    """

    secure: bool
    __slots__ = ("_progress", "_words", "secure")

    def __init__(self, *, progress: Progress | None = None) -> None:
        self.secure = True
        self._words = KeyedStream()
        self._progress = progress

    def discrete_laplace(self, scale: Fraction, size: int) -> Integers:
        """Independent draws of P(x) proportional to exp(-|x|/scale) on the integers."""
        return self._noise(_laplace(exact_float(scale)), size)

    def discrete_gaussian(self, scale: Fraction, size: int) -> Integers:
        """Independent draws of P(x) proportional to exp(-x^2 / (2 scale^2)) on the integers."""
        return self._noise(_gaussian(exact_float(scale)), size)

    def noisy_argmax(self, scores: Integers, scale: Fraction, law: SelectionLaw = "exponential") -> int:
        """The index of the largest score after adding noise of the given scale.

        Exponential noise is permute and flip, Gumbel noise the exponential mechanism (better under zCDP).
        """
        self._words.require_own_process()
        listed = _scores(scores)
        return int(_noisy_max(exact_float(scale), law)(listed))

    def words(self, count: int, *purpose: str | int) -> NDArray[np.uint64]:
        return self._words.words(count, *purpose)

    def derived_key(self, *purpose: str | int) -> bytes:
        return self._words.derived_key(*purpose)

    def hand_out(self, *purpose: str | int) -> TravellingKey:
        """The key of the words for tasks elsewhere; see ``KeyedStream.hand_out``. Noise never leaves this process."""
        return self._words.hand_out(*purpose)

    def _noise(self, measurement: Callable[[list[int]], list[int]], size: int) -> Integers:
        self._words.require_own_process()
        noise = np.empty(size, dtype=np.int64)
        for start in range(0, size, DRAWS_PER_CALL):
            count = min(DRAWS_PER_CALL, size - start)
            noise[start : start + count] = measurement([0] * count)
            if self._progress is not None:
                self._progress(count)
        if size and not -NOISE_BOUND < int(noise.min()) <= int(noise.max()) < NOISE_BOUND:
            raise InternalError("a noise draw left the range of exact integers; nothing was released.")
        return noise

    def __repr__(self) -> str:
        return "SecureStream()"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise DisclosureError("a random stream cannot be saved or copied: its key would undo the privacy.")


class SeededStream:
    """The same laws, repeatable from a seed: for tests and simulations only (``secure`` is False)."""

    secure: bool
    __slots__ = ("_generator", "_words", "secure")

    def __init__(self, seed: int) -> None:
        self.secure = False
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._words = KeyedStream(key=hashlib.sha256(f"understudy seeded stream {seed}".encode()).digest())

    def discrete_laplace(self, scale: Fraction, size: int) -> Integers:
        """The difference of two geometric variables with success probability 1 - exp(-1/scale)."""
        return self._laplace(exact_float(scale), size)

    def discrete_gaussian(self, scale: Fraction, size: int) -> Integers:
        """Rejection from discrete Laplace (Canonne, Kamath and Steinke, arXiv:2004.00010, Algorithm 3)."""
        sigma = exact_float(scale)
        envelope = math.floor(sigma) + 1
        noise = np.empty(size, dtype=np.int64)
        filled = 0
        while filled < size:
            proposal = self._laplace(envelope, 2 * (size - filled) + 8)
            excess = (np.abs(proposal) - sigma**2 / envelope) / sigma
            kept = proposal[self._generator.random(len(proposal)) < np.exp(-(excess**2) / 2)][: size - filled]
            noise[filled : filled + len(kept)] = kept
            filled += len(kept)
        return noise

    def noisy_argmax(self, scores: Integers, scale: Fraction, law: SelectionLaw = "exponential") -> int:
        listed = np.array(_scores(scores), dtype=np.float64)
        draw = self._generator.exponential if law == "exponential" else partial(self._generator.gumbel, 0.0)
        return int(np.argmax(listed + draw(exact_float(scale), len(listed))))

    def words(self, count: int, *purpose: str | int) -> NDArray[np.uint64]:
        return self._words.words(count, *purpose)

    def derived_key(self, *purpose: str | int) -> bytes:
        return self._words.derived_key(*purpose)

    def hand_out(self, *purpose: str | int) -> TravellingKey:
        """The key of the words for tasks elsewhere; see ``KeyedStream.hand_out``. Noise never leaves this process."""
        return self._words.hand_out(*purpose)

    def _laplace(self, scale: float, size: int) -> Integers:
        success = -math.expm1(-1 / scale)
        first, second = self._generator.geometric(success, size), self._generator.geometric(success, size)
        return np.asarray(first - second, dtype=np.int64)

    def __repr__(self) -> str:
        return "SeededStream(not secure)"


def _scores(scores: Integers) -> list[int]:
    array = np.asarray(scores)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise InputError("a noisy choice needs a non-empty vector of whole-number scores.")
    listed: list[int] = array.astype(np.int64, casting="safe").tolist()
    return listed


def _opendp() -> SimpleNamespace:
    """The parts of OpenDP that are used. Its prelude would load scikit-learn and pandas as well: two CPU seconds."""
    from opendp import domains, measurements, measures, metrics, mod

    mod.enable_features("contrib")
    return SimpleNamespace(domains=domains, measurements=measurements, measures=measures, metrics=metrics)


# Building a measurement takes several times as long as a small draw from it; a run uses few scales.
@lru_cache(maxsize=64)
def _laplace(scale: float) -> Callable[[list[int]], list[int]]:
    dp = _opendp()
    measurement: Callable[[list[int]], list[int]] = dp.measurements.make_laplace(
        _integers(dp), dp.metrics.l1_distance(T="i64"), scale
    )
    return measurement


@lru_cache(maxsize=64)
def _gaussian(scale: float) -> Callable[[list[int]], list[int]]:
    dp = _opendp()
    measurement: Callable[[list[int]], list[int]] = dp.measurements.make_gaussian(
        _integers(dp), dp.metrics.l2_distance(T="f64"), scale
    )
    return measurement


@lru_cache(maxsize=64)
def _noisy_max(scale: float, law: SelectionLaw) -> Callable[[list[int]], int]:
    """Scores may move either way, so the metric is not monotonic and a choice costs 2 sensitivity/scale.

    OpenDP takes exponential noise for the pure measure and Gumbel noise for the zero-concentrated one.
    """
    dp = _opendp()
    metric = dp.metrics.linf_distance(T="i64", monotonic=False)
    measure = dp.measures.max_divergence() if law == "exponential" else dp.measures.zero_concentrated_divergence()
    measurement: Callable[[list[int]], int] = dp.measurements.make_noisy_max(_integers(dp), metric, measure, scale)
    return measurement


def _integers(dp: SimpleNamespace) -> Any:
    return dp.domains.vector_domain(dp.domains.atom_domain(T="i64"))
