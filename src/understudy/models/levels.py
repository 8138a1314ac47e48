"""Counts of levels from noisy counts of levels: what is expected given the noise, if nothing else is known.

Noisy counts are pulled towards even shares as far as their noise calls for, and are never negative (empirical Bayes).

1. Each of k levels holds N/k people times a number from a Gamma law with mean 1. A small shape of that law means that
   few levels hold nearly everybody, a large one that all are about alike. Nobody knows the shape, so several are mixed,
   each with the weight that the noisy counts of the attribute give it.
2. Levels may be of several kinds that no single shape describes: one that most people have, and many rare ones. So the
   mixture becomes the prior of a law that the levels themselves make up. It counts as much as ``WEIGHT`` levels, and
   the levels are spread over the law by what their noisy counts say (a few steps of the EM algorithm).
3. The result is the mean of every level under that law. The means are made to add up to N: each moves in proportion to
   its variance, because what is known well should not move.

Everything here is post-processing of noisy values. See docs/theory/margins.md.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.models.nearest_table import nearest_table

SHAPES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SMALLEST, LARGEST, STEPS = 1e-4, 1e4, 384  # people of a level in units of N/k, and steps in equal ratios between them
WEIGHT = 4.0  # levels that the mixture of shapes counts as
ROUNDS = 8  # of the EM algorithm; the law need not converge, which would follow the noise
FAR = 8.0  # from so many noise standard deviations on, a noisy count is taken as it is
# Noise counts as normal up to here and as Laplace noise beyond: the tails of geometric noise must not look like people.
NORMAL = 2.0
LEAST_LEFT = 0.2  # of a mean, however many people the other levels seem to hold
TINY = 1e-300


@cache
def _laws() -> tuple[Floats, Floats, Floats]:
    """Steps of a grid (their upper ends and middles, in units of N/k), and the chance of each for every shape."""
    from scipy.special import gammainc

    edges = np.geomspace(SMALLEST, LARGEST, STEPS + 1)
    middles = np.concatenate([[0.0], np.sqrt(edges[1:] * edges[:-1])])
    chances = np.array([np.diff(np.concatenate([[0.0], gammainc(shape, shape * edges)])) for shape in SHAPES])
    return edges, middles, chances


def expected_levels(noisy: Floats, variance: float, total: float, allowed: NDArray[np.bool_]) -> Floats:
    """The expected counts of levels, given noisy ones with noise of this variance; ``total`` people in all.

    Levels that are not ``allowed`` hold nobody.
    """
    inside = noisy[allowed].astype(np.float64)
    if inside.size < 2 or total <= 0 or variance <= 0:
        return nearest_table(noisy, total, allowed)
    # All levels together hold N people. What the noisy counts have beyond that is noise that all levels share.
    inside -= (inside.sum() - total) / inside.size
    means, spread = _posterior(inside, float(np.sqrt(variance * (1.0 - 1.0 / inside.size))), total)
    moved = means + (total - means.sum()) * spread / max(float(spread.sum()), TINY)
    found = np.maximum(moved, LEAST_LEFT * means)
    result = np.zeros(noisy.shape)
    result[allowed] = found * (total / max(float(found.sum()), TINY))
    return result


def _posterior(noisy: Floats, deviation: float, total: float) -> tuple[Floats, Floats]:
    """The mean and the variance of every level under the law that all levels make up."""
    edges, middles, chances = _laws()
    even = total / noisy.size
    inside = middles <= noisy.size  # no level holds more than everybody
    held, shaped = even * middles[inside], chances[:, inside] / chances[:, inside].sum(axis=1, keepdims=True)
    far = (noisy > FAR * deviation) & (noisy < total)
    off = np.abs(noisy[~far, None] - held) / deviation
    logs = np.where(off < NORMAL, -0.5 * off**2, -NORMAL * (off - 0.5 * NORMAL))
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    # A far level is where its noisy count says.
    places = np.minimum(np.searchsorted(edges, noisy[far] / even), held.size - 1)
    known = np.bincount(places, minlength=held.size).astype(np.float64)
    mixture = _weights(shaped, likely, noisy[far] / even) @ shaped
    law = mixture
    for _ in range(ROUNDS):
        law = (WEIGHT * mixture + _spread_over(law, likely).sum(axis=0) + known) / (WEIGHT + noisy.size)
    where = _spread_over(law, likely)
    means, spread = np.where(far, noisy, 0.0), np.where(far, deviation**2, 0.0)
    means[~far] = where @ held
    spread[~far] = np.maximum(where @ held**2 - means[~far] ** 2, 0.0)
    return means, spread


def _weights(shaped: Floats, likely: Floats, far: Floats) -> Floats:
    """How much each shape counts, by how likely it makes the noisy counts."""
    from scipy.special import gammaln

    logs = np.log(likely @ shaped.T + TINY).sum(axis=0)
    shapes = np.array(SHAPES)[:, None]
    logs += (shapes * np.log(shapes) + (shapes - 1.0) * np.log(far) - shapes * far - gammaln(shapes)).sum(axis=1)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _spread_over(law: Floats, likely: Floats) -> Floats:
    """Where on the grid every level is, given the law of all levels and its own noisy count."""
    where = likely * law
    return np.asarray(where / (where.sum(axis=1, keepdims=True) + TINY))
