"""Between zero-concentrated and approximate differential privacy: the bound of Canonne, Kamath and Steinke.

rho-zCDP implies (epsilon, delta)-DP for every alpha > 1 with

    delta = exp((alpha-1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1)

(arXiv:2004.00010, Proposition 12 with Corollary 13, the Renyi divergence of order alpha being at most alpha rho). The
best alpha is found numerically, but the bound holds for whichever alpha is used, so a poor search could only cost
accuracy, never privacy. What is left to guard is rounding: inputs are rounded to the unfavourable side, every
elementary step is allowed an error of 16 units in the last place, and the sum of those errors is added to the result.
Everything is written in x = alpha - 1, which loses no digits as alpha nears 1. See docs/theory/accounting.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from understudy.core.exact_numbers import float_down, float_up, sqrt_up
from understudy.errors import InputError

STEP_ERROR = 16 * 2.0**-53
HUGE = Fraction(2**200)  # beyond it floats may overflow; the textbook bound is close enough there
LARGEST_EPSILON = Fraction(2**60)
SMALLEST_LOG = -745.0  # exp of less is zero in floating point
# cdp_rho stops this far short of the largest rho, so that rounding in the way back cannot exceed epsilon.
RHO_MARGIN = Fraction(1, 2**36)


def cdp_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """A delta for which rho-zCDP implies (epsilon, delta)-DP; rounded up, at most 1.

    >>> f"{float(cdp_delta(Fraction(1, 100), Fraction(81, 100))):.3g}"
    '1.01e-09'
    """
    _check(rho, epsilon)
    if rho == 0:
        return Fraction(0)
    if rho > HUGE:
        return Fraction(1)
    high, low = float_up(rho), float_down(min(epsilon, HUGE))
    widest = min(690.0, math.log((low + 1) / (2 * high) + 1))  # there the derivative in alpha is positive
    x = _rising_root(lambda x: (1 + 2 * x) * high - low - math.log1p(1 / x), -690.0, widest)
    shape = x * math.log(x) - (1 + x) * math.log1p(x) if x < 1 else -(1 + x) * math.log1p(1 / x) - math.log(x)
    parts = x * ((1 + x) * high) + x * low + abs(shape) + abs(math.log(x))
    logarithm = x * ((1 + x) * high - low) + shape + STEP_ERROR * (parts + 1)
    if logarithm >= 0:
        return Fraction(1)
    return Fraction(min(1.0, math.nextafter(math.exp(max(logarithm, SMALLEST_LOG)) * (1 + STEP_ERROR), math.inf)))


def cdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """An epsilon for which rho-zCDP implies (epsilon, delta)-DP; rounded up.

    Solved for epsilon the bound reads alpha rho + log(1 - 1/alpha) + (log(1/delta) - log alpha) / (alpha - 1); its
    derivative vanishes where rho (alpha-1)^2 = log(1/delta) - log alpha, and only there.

    >>> round(float(cdp_epsilon(Fraction(1, 100), Fraction(1, 10**9))), 3)
    0.81
    """
    _check(rho, delta)
    surprise = _log_inverse_up(delta)
    if rho == 0:
        return Fraction(0)
    if rho > HUGE:  # Bun and Steinke 2016, Proposition 1.3
        return rho + 2 * sqrt_up(rho * Fraction(surprise))
    high = float_up(rho)
    widest = 0.5 * (math.log(surprise) - math.log(high))  # at x = sqrt(log(1/delta) / rho) the derivative is positive
    x = _rising_root(lambda x: x * high * x - surprise + math.log1p(x), widest - 60, widest)
    shape = (math.log(x), -math.log1p(x)) if x < 1 else (-math.log1p(1 / x),)
    parts = ((1 + x) * high, surprise / x, -math.log1p(x) / x, *shape)
    slack = STEP_ERROR * math.fsum(abs(part) for part in parts)
    return Fraction(max(0.0, math.nextafter(math.fsum(parts) + slack, math.inf)))


@lru_cache(maxsize=4096)  # a plan asks for the same budget many times
def cdp_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A rho, as large as the bound allows (to one part in 2^36), for which rho-zCDP implies (epsilon, delta)-DP."""
    _check(epsilon, delta)
    wanted = min(epsilon, LARGEST_EPSILON)
    surprise = _log_inverse_up(delta)
    target = float_down(wanted)
    # Bun and Steinke's rho + 2 sqrt(rho log(1/delta)) = epsilon, solved without cancellation, is always allowed.
    low = 0.999 * (target / (math.sqrt(surprise + target) + math.sqrt(surprise))) ** 2
    if low <= 0:
        raise InputError(f"epsilon ({float(epsilon):.3g}) is too small to be met by Gaussian noise.")
    return Fraction(largest_kept(lambda rho: cdp_epsilon(Fraction(rho), delta) <= wanted, low)) * (1 - RHO_MARGIN)


def largest_kept(keeps: Callable[[float], bool], low: float) -> float:
    """The largest number, to one part in 2^50, up to which a condition is kept that ``low`` keeps: doubled, halved."""
    high = 2 * low
    while keeps(high):
        low, high = high, 2 * high
    for _ in range(50):
        middle = low + (high - low) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def _rising_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function of x changes sign, by bisection over log x."""
    for _ in range(64):
        middle = (low + high) / 2
        if function(math.exp(middle)) < 0:
            low = middle
        else:
            high = middle
    return math.exp(high)


def _log_inverse_up(delta: Fraction) -> float:
    """log(1/delta), rounded up; from numerator and denominator, as a tiny delta is not a float."""
    if not 0 < delta < 1:
        raise InputError("delta must be above 0 and below 1.")
    near_one = float(1 - delta)
    value = -math.log1p(-near_one) if near_one < 0.5 else math.log(delta.denominator) - math.log(delta.numerator)
    slack = STEP_ERROR * (math.log(delta.denominator) + math.log(max(2, delta.numerator)))
    return value * (1 + STEP_ERROR) + (slack if near_one >= 0.5 else 0.0)


def _check(first: Fraction, second: Fraction) -> None:
    if first < 0 or second < 0:
        raise InputError("privacy parameters must not be negative.")
