"""(epsilon, delta) of Gaussian noise together with choices, composed by their privacy losses and rounded up.

A choice by the exponential mechanism has a loss within some interval [t - e, t]; its length e is known, its place t is
not, and may depend on everything answered before. Of all laws of such a loss the one on the two ends is the worst. So
if a run still has k choices of range e and a neighbour could lose x more before epsilon is passed, then

    F_k(x) = max over t of p F_(k-1)(x - t) + (1 - p) F_(k-1)(x - t + e),   p = (1 - e^(t-e)) / (1 - e^-e),

with F_0(x) = max(0, 1 - e^x), and with Gaussian noise of mu^2 beside them delta is at most the mean of F_k(epsilon - L)
over L ~ N(mu^2/2, mu^2). It holds in whatever order noise and choices come, and whatever is decided on the way, as long
as mu^2 and k are kept. So both are a budget, not only a record. Proof: docs/theory/accounting.md.

Losses lie on a grid. A law between grid points is replaced by one on the grid that is worse, normal losses are rounded
up, and what floating point can do to the result is added to it, as in ``gaussian_profile``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import erfc

from understudy.core.arrays import Floats
from understudy.core.exact_numbers import float_down, float_up
from understudy.privacy.exact.gaussian_profile import LEAST_DELTA, ROUNDING_COST, gaussian_delta, gaussian_mu_squared
from understudy.privacy.promise.conversion import STEP_ERROR, cdp_epsilon, cdp_rho

MOST_CHOICES = 200  # more take long to compose, and are read by zCDP
MOST_RANGE, MOST_MU_SQUARED, MOST_EPSILON = 8, 64, 60  # beyond them nothing is gained over zCDP, and a grid grows large
GRID_WORK, FEWEST_STEPS, MOST_STEPS = 1_500, 8, 128  # grid steps within a range: fewer for many choices
FARTHEST_MU = 12.0  # beyond so many mu below epsilon, what is left counts as lost
STEPS_OF_SEARCH = 12  # halvings between the rho of zCDP and half of mu^2: to 1 part in 40,000 of either
MOST_PLACES = 10**6  # of the grid
ERFC_ERROR = 1e-12  # relative; 6e-14 is the largest that its authors found
MARGIN = Fraction(1, 2**20)  # by which the amount stops short, so that rounding of scales cannot exceed delta


def composed_delta(mu2: Fraction, widest: Fraction, choices: int, epsilon: Fraction) -> Fraction:
    """A delta at which Gaussian noise of this mu^2 and so many choices of range at most ``widest`` are (epsilon,
    delta)-DP; rounded up, at most 1.

    >>> f"{float(composed_delta(Fraction(1, 36), Fraction(1, 30), 6, Fraction(1))):.3g}"
    '1.41e-10'
    """
    if choices == 0 or widest == 0:
        return gaussian_delta(mu2, epsilon)
    paid = epsilon - ROUNDING_COST * mu2
    large = widest > MOST_RANGE or mu2 > MOST_MU_SQUARED or epsilon > MOST_EPSILON
    if choices > MOST_CHOICES or large or paid < 0:
        return Fraction(1)
    steps = _grid_steps(choices)
    step = math.nextafter(float_up(widest) / steps * (1 + STEP_ERROR), math.inf)
    reach = choices * (steps + 1)
    mu = math.sqrt(float_up(mu2)) * (1 + STEP_ERROR)
    farthest = max(reach, math.ceil(FARTHEST_MU * mu / step))
    if farthest > MOST_PLACES:
        return Fraction(1)
    places = np.arange(-farthest, reach + 1)
    left = np.concatenate([-np.expm1(places[: farthest - reach] * step), _choices_alone(step, steps, choices)])
    low = float_down(paid)
    if mu2 == 0:
        beyond = np.where(places * step <= low * (1 - STEP_ERROR), 0.0, 1.0)  # no loss: F at the point below epsilon
    else:
        away = (low - places * step) / mu - mu / 2  # the loss passes epsilon less this much
        slack = STEP_ERROR * (low + np.abs(places) * step + mu * mu) / mu
        beyond = 0.5 * erfc((away - slack) / math.sqrt(2)) * (1 + ERFC_ERROR)
    # F falls from one point to the next by what it loses, and each fall counts where the normal loss is beyond it.
    falls, wrong = left[:-1] - left[1:], 8 * STEP_ERROR * (choices + 1)
    found = float(beyond[1:] @ falls) + wrong * float(beyond[1:] @ left[:-1]) + float(beyond[0])
    found *= (1 + 2 * STEP_ERROR * len(places)) * (1 + 1e-15 * float(mu2))
    return Fraction(min(1.0, math.nextafter(found + LEAST_DELTA, math.inf)))


def _grid_steps(choices: int) -> int:
    return min(max(GRID_WORK // choices, FEWEST_STEPS), MOST_STEPS)


@lru_cache(maxsize=64)
def _choices_alone(step: float, steps: int, choices: int) -> Floats:
    """F on the grid from minus to plus the largest loss of all choices.

    A range of ``steps`` grid steps may begin between two points. Then its law is no worse than one on points, over a
    range that is one step longer (docs/theory/accounting.md).
    """
    length = steps + 1
    reach = choices * length
    places = np.arange(-reach - length, reach + length + 1)
    ends = np.arange(length)  # t in steps; t = 0 loses nothing more than t = e does
    upper = np.expm1((ends - length) * step) / np.expm1(-length * step)
    lower = np.exp((ends - length) * step) * np.expm1(-ends * step) / np.expm1(-length * step)
    found = np.where(places < 0, -np.expm1(np.minimum(places, 0) * step), 0.0)
    for _ in range(choices):
        best = found.copy()
        for end in ends:
            # x - t, and x - t + e, for every x of the inner part
            high = found[length - end : len(found) - length - end]
            low = found[2 * length - end : len(found) - end]
            inner = best[length:-length]
            np.maximum(inner, upper[end] * high + lower[end] * low, out=inner)
        found = best
    kept = found[length:-length]
    kept.setflags(write=False)
    return kept


@lru_cache(maxsize=4096)
def composed_epsilon(mu2: Fraction, widest: Fraction, choices: int, delta: Fraction) -> Fraction | None:
    """An epsilon at which they are (epsilon, delta)-DP, or None where this bound says nothing; rounded up."""
    high = min(float_up(cdp_epsilon(mu2 / 2 + choices * widest**2 / 8, delta)), float(MOST_EPSILON))
    if composed_delta(mu2, widest, choices, Fraction(high)) > delta:
        return None
    low = 0.0
    for _ in range(50):
        middle = low + (high - low) / 2
        if composed_delta(mu2, widest, choices, Fraction(middle)) <= delta:
            high = middle
        else:
            low = middle
    return Fraction(high)


@lru_cache(maxsize=1024)  # a plan asks for the same budget several times
def composed_amount(epsilon: Fraction, delta: Fraction, choices: int, share: Fraction) -> Fraction:
    """An amount that keeps (epsilon, delta) if all but a share of it is half of the mu^2 of Gaussian noise, and the
    share is the rho of so many equal choices. At least what zCDP allows: then nothing is gained.

    >>> round(float(composed_amount(Fraction(1), Fraction(1, 10**9), 6, Fraction(1, 6)) / cdp_rho(Fraction(1),
    ...     Fraction(1, 10**9))), 2)
    1.1
    """
    sure = low = cdp_rho(epsilon, delta)
    high = gaussian_mu_squared(epsilon, delta) / 2

    def keeps(amount: Fraction) -> bool:
        widest = Fraction(math.sqrt(float_up(8 * amount * share / choices)))
        return composed_delta(2 * amount * (1 - share), widest, choices, epsilon) <= delta

    for _ in range(STEPS_OF_SEARCH):
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return max(low * (1 - MARGIN), sure) if low > sure else sure
