"""How far noise reaches: the half-width of an interval around a sum of noisy counts, from the law of their noise.

A single geometric count has longer tails than a normal one, and a sum of many has not, so standard errors alone would
give intervals that are too short for few cells and for levels above 95 percent.
"""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np

from understudy.core.mechanism import Mechanism
from understudy.privacy.mechanisms.noise import Geometric

FINEST = 4_000.0  # standard deviations beyond this many jobs are computed on a coarser grid
WIDE = 12  # standard deviations to either side that are listed


def noise_reach(mechanism: Mechanism, cells: int, level: float) -> float:
    """The least t such that the sum of the noise of so many cells is within t with probability ``level`` or more.

    >>> from understudy.privacy.mechanisms.noise import Geometric
    >>> noise_reach(Geometric(scale=10), 1, 0.95), noise_reach(Geometric(scale=10), 1, 0.99)
    (30.0, 46.0)
    """
    if isinstance(mechanism, Geometric):
        return _of_geometric(float(mechanism.scale), cells, level)
    # Discrete Gaussian noise is normal but for its whole numbers; half a job stands for these.
    return float(NormalDist().inv_cdf((1 + level) / 2) * (mechanism.variance * cells) ** 0.5 + 0.5)


@lru_cache(maxsize=4096)
def _of_geometric(scale: float, cells: int, level: float) -> float:
    """From the characteristic function of geometric noise, to the power of the number of cells."""
    coarser = max(scale * (2 * cells) ** 0.5 / FINEST, 1.0)
    ratio = float(np.exp(-coarser / scale))
    deviation = (2 * ratio * cells) ** 0.5 / (1 - ratio)
    size = 2 ** int(np.ceil(np.log2(2 * (WIDE * deviation + 40 / (1 - ratio)) + 2)))
    angle = 2 * np.pi * np.arange(size // 2 + 1) / size
    one = (1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(angle) + ratio**2)
    chances = np.maximum(np.fft.irfft(one**cells, size), 0.0)
    within = chances[0] + 2 * np.concatenate(([0.0], np.cumsum(chances[1 : size // 2])))
    reach = int(np.searchsorted(within, level - 1e-12))
    return float(np.ceil((reach + (coarser > 1)) * coarser))
