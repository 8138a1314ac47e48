"""The law of the sum of several noises: what a margin of a noisy table carries.

A share asked of a noisy table is a sum of noisy cells, and its error is the sum of their noises. The law of the sum is
the power of one characteristic function. Beyond what a transform resolves (about 1e-13 of the mode) the logarithm is
continued in a straight line: these laws are log-concave, so the line lies above the truth and never makes a table look
less possible than it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import InputError
from understudy.inference.latent import power

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
RESOLVED = 1e-12
FAR = 60.0  # scales that are tabulated for a single noise


@dataclass(slots=True, kw_only=True, eq=False)
class SumOfNoise:
    """``count`` independent noises of a mechanism with ``scale`` and ``log_pmf``, added up."""

    mechanism: Any
    count: int = 1
    reach: int = field(init=False)
    _log: Floats = field(init=False)  # at distances 0, 1, ..., of the sum

    def __post_init__(self) -> None:
        if not hasattr(self.mechanism, "log_pmf") or not hasattr(self.mechanism, "scale"):
            raise InputError(
                "noise needs a mechanism with a scale and a log_pmf, such as Geometric or DiscreteGaussian."
            )
        single = math.ceil(FAR * float(self.mechanism.scale)) + 2
        # A sum of many reaches as far as its standard deviation says; a sum of few as far as one of them.
        self.reach = math.ceil(single * (math.sqrt(self.count) if self.count > 1 else 1))
        self._log = self._single(single) if self.count == 1 else self._tabulated(single)

    def _single(self, far: int) -> Floats:
        distance = np.arange(far + 1)
        return np.asarray(self.mechanism.log_pmf(distance, np.zeros_like(distance)))

    def _tabulated(self, single: int) -> Floats:
        from scipy.fft import next_fast_len

        length = next_fast_len(2 * (self.reach + single) + 1, real=True)
        law = np.zeros(length)
        half = np.exp(self._single(min(single, length // 2 - 1)))
        law[: len(half)] = half
        law[-(len(half) - 1) :] = half[:0:-1]
        spectrum = power(np.fft.rfft(law), self.count)
        sums = np.fft.irfft(spectrum, length)[: self.reach + 1]
        resolved = sums > RESOLVED * sums[0]
        last = int(np.argmin(resolved)) - 1 if not resolved.all() else len(sums) - 1
        if last >= 1:
            log = np.log(sums[: last + 1])
        else:  # hardly any noise: a distance of one is one of the noises away by one, and the others at 0
            single_log = self._single(1)
            log = np.log(sums[0]) + np.array([0.0, single_log[1] - single_log[0] + math.log(self.count)])
        slope = log[-1] - log[-2]
        beyond = np.arange(1, self.reach + 1 - (len(log) - 1) + 1)
        return np.concatenate([log, log[-1] + slope * beyond])

    def log_pmf(self, error: Integers) -> Floats:
        """log P(sum of the noises = error)."""
        distance = np.abs(np.asarray(error, np.int64))
        if self.count == 1:
            return np.asarray(self.mechanism.log_pmf(distance, np.zeros_like(distance)))
        top = len(self._log) - 1
        slope = self._log[-1] - self._log[-2]
        inside = np.minimum(distance, top)
        return np.asarray(self._log[inside] + slope * (distance - inside))

    def log_at_most(self, error: Integers) -> Floats:
        """log P(noise <= error) for errors of at most 0: what a count clamped to 0 says. Single noises only."""
        distance = np.abs(np.asarray(error, np.int64))
        law = self._log
        top = len(law) - 1
        # Summed from the far end; beyond the table the law falls by a constant factor, so its tail is geometric.
        slope = law[-1] - law[-2]
        tail = law[-1] + slope - math.log(-math.expm1(slope))
        upper = np.logaddexp.accumulate(np.concatenate([[tail], law[::-1]]))[1:][::-1]
        inside = np.minimum(distance, top)
        return np.asarray(upper[inside] + slope * (distance - inside))
