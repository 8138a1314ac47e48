"""Noise on a count that is then clamped to 0, ..., top: the exact transition matrix.

Clamping to public bounds is post-processing. Under replace the bound may be the number of rows; under add_remove it is
a public largest number of rows, never the true one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.exact.laplace import RoundedLaplace
from understudy.privacy.exact.noise_profile import FARTHEST, Noise
from understudy.privacy.mechanisms.noise import Geometric


def upper_tail(noise: Noise, distance: int) -> float:
    """P(noise >= distance) for a distance of at least 1, without subtraction.

    >>> round(upper_tail(RoundedLaplace(scale=0.5), 1), 6)
    0.18394
    """
    scale = float(noise.scale)
    if isinstance(noise, Geometric):
        return math.exp(-distance / scale) / (1 + math.exp(-1 / scale))
    if isinstance(noise, RoundedLaplace):
        return math.exp(-(distance - 0.5) / scale) / 2
    far = np.arange(distance, distance + math.ceil(FARTHEST * scale) + 2)
    return math.fsum(np.exp(noise.log_pmf(far, np.zeros_like(far))))


def clamped_matrix(noise: Noise, top: int) -> NDArray[np.float64]:
    """Row x, column v: P(clamp(x + noise, 0, top) = v)."""
    counts = np.arange(top + 1)
    matrix = np.exp(noise.log_pmf(counts[None, :], counts[:, None]))
    for x in range(top + 1):
        # The noise is symmetric: below 0 as far as the mirror image is above top.
        matrix[x, 0] = upper_tail(noise, x) if x else 1 - upper_tail(noise, 1)
        matrix[x, top] = upper_tail(noise, top - x) if x < top else 1 - upper_tail(noise, 1)
    return np.asarray(matrix)
