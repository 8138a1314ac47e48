"""What observed guesses prove about epsilon, whatever was promised: lower bounds at a stated confidence.

Two kinds of evidence. Many runs on two neighbours: how often an attack said yes on either (Clopper and Pearson 1934).
One run with many canaries: a fair coin decides for each whether it is in the data, and the coin is guessed afterwards
(Steinke, Nasr and Jagielski 2023, arXiv:2305.08846, Theorem 5.2). A low bound is not a proof of privacy.
"""

from __future__ import annotations

import math

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.errors import InputError

LARGEST_EPSILON = 60.0  # beyond it a chance of e^epsilon / (1 + e^epsilon) is 1 in doubles
CLOSE = 1e-9


def epsilon_lower_bound(
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    *,
    delta: float = 0.0,
    alpha: float = 0.05,
) -> float:
    """The least epsilon consistent, at confidence ``1 - alpha``, with how often an attack said yes on two neighbours.

    Clopper and Pearson (1934) give p >= L and q <= U, each failing with probability alpha/2 at most. Both
    p <= e^eps q + delta and, roles swapped and the answer negated, 1 - q <= e^eps (1 - p) + delta must hold; the two
    use the same pair of bounds, so taking the better one costs no further confidence.

    >>> round(epsilon_lower_bound(100, 1000, 10, 1000), 5), round(epsilon_lower_bound(1000, 1000, 0, 1000), 5)
    (1.50038, 5.60059)
    """
    for name, count, total in (
        ("true_positives", true_positives, positives),
        ("false_positives", false_positives, negatives),
    ):
        if total < 1 or not 0 <= count <= total:
            raise InputError(f"{name} ({count}) must lie between 0 and the number of runs ({total}), at least 1.")
    check_confidence(delta=delta, alpha=alpha)
    raw = epsilon_lower_bounds(
        np.array([true_positives]), positives, np.array([false_positives]), negatives, delta=delta, alpha=alpha
    )
    return max(0.0, float(raw[0]))


def epsilon_lower_bounds(
    hits: Integers, positives: int, alarms: Integers, negatives: int, *, delta: float, alpha: float
) -> Floats:
    """The same for many pairs of counts at once; below 0 where the attack points the wrong way."""
    from scipy.special import betaincinv

    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), positives - hits + 1, alpha / 2), 0.0)
    left = np.maximum(negatives - alarms, 1)
    high = np.where(alarms < negatives, betaincinv(alarms + 1, left, 1 - alpha / 2), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        forward = np.log(np.maximum(low - delta, 0.0)) - np.log(high)
        swapped = np.log(np.maximum(1 - high - delta, 0.0)) - np.log1p(-low)
    best: Floats = np.fmax(forward, swapped)
    return best


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The probability of so many right guesses if the mechanism were (epsilon, delta)-differentially private.

    b = P[Bin(r, q) >= v] with q = e^epsilon / (1 + e^epsilon), a = max over 1 <= i <= v of P[v > Bin >= v - i] / i,
    p = min(1, b + 2 m delta a).
    """
    from scipy.stats import binom

    q = 1 / (1 + math.exp(-epsilon))
    beyond = float(binom.sf(right - 1, guesses, q))
    if delta == 0 or right == 0:
        return min(1.0, beyond)
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, q))
    step = float((below / np.arange(1, right + 1)).max())
    return min(1.0, beyond + 2 * canaries * delta * step)


def one_run_lower_bound(canaries: int, guesses: int, right: int, *, delta: float = 0.0, alpha: float = 0.05) -> float:
    """The largest epsilon that the guesses refute at confidence ``1 - alpha``; 0 if they refute none.

    The unit is add_remove: a canary is in the data or it is not.

    >>> round(one_run_lower_bound(10, 10, 10), 5), round(one_run_lower_bound(1000, 1000, 800), 4)
    (1.05187, 1.2543)
    >>> [round(one_run_lower_bound(canaries, 200, 190, delta=1e-5), 4) for canaries in (1000, 200)]
    [2.3936, 2.397]
    """
    check_guesses(canaries, guesses, right)
    check_confidence(delta=delta, alpha=alpha)
    if one_run_p_value(canaries, guesses, right, 0.0, delta) > alpha:
        return 0.0
    low, high = 0.0, LARGEST_EPSILON
    while high - low > CLOSE:
        middle = (low + high) / 2
        if one_run_p_value(canaries, guesses, right, middle, delta) <= alpha:
            low = middle
        else:
            high = middle
    return low


def check_guesses(canaries: int, guesses: int, right: int = 0) -> None:
    """Refuses numbers of guesses that are impossible."""
    if not 1 <= guesses <= canaries or not 0 <= right <= guesses:
        raise InputError(
            f"right ({right}) of guesses ({guesses}) about canaries ({canaries}): each must be at most the next, and "
            "there must be at least one guess."
        )


def check_confidence(*, delta: float, alpha: float) -> None:
    """Refuses a delta or an error rate that is not a probability."""
    if not 0 <= delta < 1:
        raise InputError(f"delta ({delta}) must be at least 0 and below 1.")
    if not 0 < alpha < 1:
        raise InputError(f"alpha ({alpha}) must be above 0 and below 1.")
