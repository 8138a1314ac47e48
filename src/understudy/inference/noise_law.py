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

from understudy.core.arrays import Floats, Integers
from understudy.errors import InputError, UnsupportedError
from understudy.inference.latent import power

RESOLVED = 1e-12
FAR = 60.0  # scales that are tabulated for a single noise
WIDE = 500.0  # scales above it are tabulated on a coarser lattice
LONGEST = 20_000_000


@dataclass(slots=True, kw_only=True, eq=False)
class SumOfNoise:
    """``count`` independent noises of a mechanism with ``scale`` and ``log_pmf``, added up."""

    mechanism: Any
    count: int = 1
    reach: int = field(init=False)
    _step: int = field(init=False)  # wide noise is tabulated at every so many whole numbers
    _log: Floats = field(init=False)  # at distances 0, step, 2 step, ... of the sum; empty for a single noise

    def __post_init__(self) -> None:
        if not hasattr(self.mechanism, "log_pmf") or not hasattr(self.mechanism, "scale"):
            raise InputError(
                "noise needs a mechanism with a scale and a log_pmf, such as Geometric or DiscreteGaussian."
            )
        scale = float(self.mechanism.scale)
        self._step = max(1, math.floor(scale / WIDE))
        # A sum of many reaches as far as its standard deviation says; one noise as far as its own tail.
        single = math.ceil(FAR * scale) + 2
        self.reach = single if self.count == 1 else single + math.ceil(20 * scale * math.sqrt(self.count))
        self._log = np.zeros(0) if self.count == 1 else self._tabulated()

    def _single(self, mechanism: Any, far: int) -> Floats:
        distance = np.arange(far + 1)
        return np.asarray(mechanism.log_pmf(distance, np.zeros_like(distance)))

    def _tabulated(self) -> Floats:
        from scipy.fft import next_fast_len

        # Noise much wider than a whole number is the same law on a coarser lattice, up to (step / scale)^2.
        coarse = (
            type(self.mechanism)(scale=float(self.mechanism.scale) / self._step) if self._step > 1 else self.mechanism
        )
        single = math.ceil(FAR * float(coarse.scale)) + 2
        reach = math.ceil(self.reach / self._step)
        length = next_fast_len(2 * (reach + single) + 1, real=True)
        law = np.zeros(length)
        half = np.exp(self._single(coarse, single))
        law[: len(half)] = half
        law[-(len(half) - 1) :] = half[:0:-1]
        sums = np.fft.irfft(power(np.fft.rfft(law), self.count), length)[: reach + 1]
        resolved = sums > RESOLVED * sums[0]
        last = int(np.argmin(resolved)) - 1 if not resolved.all() else len(sums) - 1
        if last >= 1:
            log = np.log(sums[: last + 1])
        else:  # hardly any noise: a distance of one is one of the noises away by one, and the others at 0
            near = self._single(coarse, 1)
            log = np.log(sums[0]) + np.array([0.0, near[1] - near[0] + math.log(self.count)])
        return np.asarray(log - math.log(self._step))

    def log_pmf(self, error: Integers) -> Floats:
        """log P(sum of the noises = error)."""
        distance = np.abs(np.asarray(error, np.int64))
        if self.count == 1:
            return np.asarray(self.mechanism.log_pmf(distance, np.zeros_like(distance)))
        place = distance / self._step
        top = len(self._log) - 1
        inside = np.minimum(np.floor(place).astype(np.int64), top - 1)
        # Between two points, and beyond the last, a straight line.
        return np.asarray(self._log[inside] + (place - inside) * (self._log[inside + 1] - self._log[inside]))

    def log_at_most(self, error: Integers) -> Floats:
        """log P(noise <= error) for errors of at most 0: what a count clamped to 0 says. Single noises only."""
        distance = np.abs(np.asarray(error, np.int64))
        far = max(self.reach, int(distance.max(initial=0)) + 2)
        if far > LONGEST:
            raise UnsupportedError(f"clamped counts with noise of scale {float(self.mechanism.scale):g} are too wide.")
        law = self._single(self.mechanism, far)
        # Summed from the far end; beyond the table the law falls by a constant factor, so its tail is geometric.
        slope = law[-1] - law[-2]
        tail = law[-1] + slope - math.log(-math.expm1(slope))
        upper = np.logaddexp.accumulate(np.concatenate([[tail], law[::-1]]))[1:][::-1]
        return np.asarray(upper[distance])
