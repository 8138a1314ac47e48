"""(epsilon, delta) of Gaussian noise, exactly: less noise than by way of zCDP, where parameters are fixed in advance.

A normal draw with standard deviation 1 that a unit moves by mu is (epsilon, delta)-DP for

    delta = P(Z < mu/2 - epsilon/mu) - e^epsilon P(Z < -mu/2 - epsilon/mu)

and for no smaller delta (Balle and Wang, arXiv:1805.06530, Theorem 8). Several such draws together are like one whose
mu^2 is the sum (Dong, Roth and Su, arXiv:1905.02383, Corollary 3.3). Noise on counts is discrete, not normal; but
discrete Gaussian noise of variance sigma^2 is, up to a factor of 1 +- 1e-42, what is left of normal noise of variance
sigma^2 - 5 when its result is rounded at random: post-processing. So it is charged mu^2 = s^2 / (sigma^2 - 5). Proof:
docs/theory/discrete-gaussian.md.

Rounding is guarded as in ``promise.conversion``: inputs are rounded to the unfavourable side, every elementary step is
allowed 16 units in the last place, and what those can do to the result is added to it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from understudy.core.exact_numbers import float_down, float_up
from understudy.privacy.promise.conversion import STEP_ERROR, cdp_epsilon, cdp_rho, largest_kept

# By which a loss is read as (epsilon, delta): zCDP, the profile here, the least of the two, or ``choices_profile``.
Bound = Literal["concentrated", "gaussian", "least", "composed"]
PI_ABOVE = Fraction(355, 113)  # above pi by 3e-7
SMOOTHING = 5  # variance that is given away for rounding to whole numbers
LARGEST_MU_SQUARED = Fraction(2**12)  # beyond it, and beyond the epsilon below, zCDP is as good as exact
LARGEST_EPSILON = 500
LEAST_DELTA = 1e-250
FARTHEST = 24.5  # erfc beyond it is below the least delta
FARTHEST_NORMAL = 26.0  # erfc beyond it nears the least normal float and keeps ever fewer digits
LARGEST_VARIANCE = 2**80  # of noise that is sampled; the cost of rounding rests on it
# Of mu^2, in epsilon, for the factors 1 +- 1e-42: each cell that moves has two, and scales are at most 2^40.
ROUNDING_COST = Fraction(1, 2**56)
WIDE_MARGIN = Fraction(1, 2**24)  # the same where tails nearly cancel: epsilon below 0.01, delta far below any in use
MARGIN = Fraction(1, 2**36)  # by which gaussian_mu_squared stops short, so that converting back cannot exceed epsilon


def mu_squared(l2_squared: Fraction, scale: Fraction) -> Fraction | None:
    """What discrete Gaussian noise of a scale is charged; None where the scale is too small for rounding at random.

    A scale above 2^40 has no such charge either: noise of that scale is never sampled, and the cost of rounding is
    proved up to it.

    >>> mu_squared(Fraction(2), Fraction(5))
    Fraction(1, 10)
    """
    return l2_squared / (scale**2 - SMOOTHING) if SMOOTHING < scale**2 <= LARGEST_VARIANCE else None


def mu_squared_of_range(epsilon: Fraction) -> Fraction:
    """The mu^2 of a step whose privacy loss lies in an interval of this length: (pi/8) epsilon^2, rounded up.

    A choice by the exponential mechanism has such a range, and a pure epsilon has one of 2 epsilon. Proof:
    docs/theory/accounting.md.
    """
    return PI_ABOVE / 8 * epsilon**2


def gaussian_delta(mu2: Fraction, epsilon: Fraction) -> Fraction:
    """A delta at which noise of this mu^2 is (epsilon, delta)-DP; rounded up, at most 1.

    >>> f"{float(gaussian_delta(Fraction(1, 30), Fraction(1))):.4g}"
    '1.114e-09'
    """
    if mu2 == 0:
        return Fraction(0)
    paid = epsilon - ROUNDING_COST * mu2
    if mu2 > LARGEST_MU_SQUARED or epsilon > LARGEST_EPSILON or paid <= 0:
        return Fraction(1)
    mu, low = math.sqrt(float_up(mu2)) * (1 + STEP_ERROR), float_down(paid)
    away = low / mu + mu / 2
    near, far = (low / mu - mu / 2) / math.sqrt(2), away / math.sqrt(2)
    if near > FARTHEST:
        return Fraction(LEAST_DELTA)
    # The slope of log erfc is at most 2 x + 1.5 at x > 0 and 1.2 below; both arguments err by a few parts of ``away``.
    # The last term is for the factor of rounding on delta itself, exp(2 s^2 h) < 1 + 7e-19 mu^2.
    wrong = STEP_ERROR * ((2 * far + 1.5) * away + low + 4 + mu * mu)
    first = 0.5 * math.erfc(near)
    if far < FARTHEST_NORMAL:
        second = 0.5 * math.exp(low) * math.erfc(far)
    else:  # not above it: erfc(x) >= 2 exp(-x^2) / (sqrt(pi) (x + sqrt(x^2 + 2))) (Birnbaum 1942); far^2 = near^2 + low
        second = math.exp(-near * near) / (math.sqrt(math.pi) * (far + math.sqrt(far * far + 2)))
    found = first * (1 + wrong) - second * (1 - wrong)
    return Fraction(min(1.0, max(math.nextafter(found, math.inf), LEAST_DELTA)))


@lru_cache(maxsize=4096)
def gaussian_epsilon(mu2: Fraction, delta: Fraction) -> Fraction:
    """An epsilon at which noise of this mu^2 is (epsilon, delta)-DP; rounded up, and never above that of zCDP.

    >>> round(float(gaussian_epsilon(Fraction(1, 50), Fraction(1, 10**9))), 3)
    0.768
    """
    most = cdp_epsilon(mu2 / 2, delta)  # every event with a mu^2 is also (mu^2/2)-zCDP, so no cost of rounding here
    if mu2 > LARGEST_MU_SQUARED:  # and perhaps more than a float holds
        return most
    high = float_up(most)
    if gaussian_delta(mu2, Fraction(high)) > delta:
        return Fraction(high)
    low = 0.0
    for _ in range(60):
        middle = low + (high - low) / 2
        if gaussian_delta(mu2, Fraction(middle)) <= delta:
            high = middle
        else:
            low = middle
    return Fraction(high)


@lru_cache(maxsize=4096)  # a plan asks for the same budget many times
def gaussian_mu_squared(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A mu^2, as large as the bound allows (to one part in 2^36), that keeps (epsilon, delta)."""
    sure = 2 * cdp_rho(epsilon, delta)
    low = largest_kept(lambda mu2: gaussian_delta(Fraction(mu2), epsilon) <= delta, float_down(sure))
    margin = MARGIN
    while margin < 1 and not _stays_within(Fraction(low), margin, sure, epsilon, delta):  # tails cancel
        margin = max(4 * margin, WIDE_MARGIN)
    return max(Fraction(low) * (1 - margin), sure)


def _stays_within(low: Fraction, margin: Fraction, sure: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether epsilon is kept at several points up to and above the one that is used.

    Scales of noise are rounded up, so what is converted back is a little less than what was found here. Where tails
    nearly cancel, rounding makes the bound go up and down on that way: then one point would say nothing of the next.
    """
    points = (low * (1 - margin * part) for part in (Fraction(1, 2), Fraction(3, 4), 1, Fraction(5, 4), Fraction(3, 2)))
    return all(gaussian_epsilon(max(point, sure), delta) <= epsilon for point in points)
