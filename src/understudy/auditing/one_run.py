"""A lower bound on epsilon from a single run: many canaries, each in the data or not by a coin, guessed afterwards.

Steinke, Nasr and Jagielski (2023, arXiv:2305.08846, Theorem 5.2): if the mechanism is (epsilon, delta)-differentially
private for adding or removing a record, then of r guesses about m canaries the number v that are right is hardly larger
than Binomial(r, e^epsilon / (1 + e^epsilon)). The largest epsilon that this test rejects is a lower bound. One run is
cheap; the bound is weaker than that of many runs on two neighbours (``sampled``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.errors import InputError

Floats = NDArray[np.float64]
LARGEST_EPSILON = 60.0
CLOSE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunAudit:
    """With probability at least ``1 - alpha`` the true epsilon (at ``delta``) is at least ``epsilon_low``.

    ``power`` is the probability that the same number of guesses would catch a mechanism that lets each guess be right
    with probability e^f/(1 + e^f), f being ``factor`` times the claim.
    """

    epsilon_low: float
    claimed: float
    delta: float
    alpha: float
    canaries: int
    guesses: int
    right: int
    power: float
    factor: float

    @property
    def caught(self) -> bool:
        return self.epsilon_low > self.claimed

    def describe(self) -> str:
        verdict = "caught" if self.caught else "not caught"
        return (
            f"{verdict}: epsilon at least {self.epsilon_low:.3f} (claimed {self.claimed:g}, delta {self.delta:g}) with "
            f"confidence {1 - self.alpha:g} from one run with {self.canaries} canaries, {self.right} of {self.guesses} "
            f"guesses right; power {self.power:.3f} against {self.factor:g} times the claim"
        )


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

    >>> round(one_run_lower_bound(10, 10, 10), 5), round(one_run_lower_bound(1000, 1000, 800), 4)
    (1.05187, 1.2543)
    >>> [round(one_run_lower_bound(canaries, 200, 190, delta=1e-5), 4) for canaries in (1000, 200)]
    [2.3936, 2.397]
    """
    _check(canaries, guesses, right, delta, alpha)
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


def one_run_power(canaries: int, guesses: int, *, claimed: float, delta: float, alpha: float, factor: float) -> float:
    """The probability that the test rejects the claim when each guess is right with the odds of factor * claimed."""
    from scipy.stats import binom

    counts = [v for v in range(guesses + 1) if one_run_p_value(canaries, guesses, v, claimed, delta) <= alpha]
    return float(binom.sf(counts[0] - 1, guesses, 1 / (1 + math.exp(-factor * claimed)))) if counts else 0.0


def one_run_audit(
    score: Callable[[NDArray[np.bool_], int], Sequence[float] | Floats],
    *,
    canaries: int,
    claimed: float,
    guesses: int | None = None,
    delta: float = 0.0,
    alpha: float = 1e-3,
    factor: float = 2.0,
    seed: int = 0,
) -> OneRunAudit:
    """Audit ``score(included, seed)``: run the mechanism once with the canaries marked in ``included``, score each.

    A high score says "was in". The ``guesses`` most extreme scores are guessed, the higher half as in and the lower
    half as out. How the scores are made, and how many are guessed, must be settled before the coins are looked at. The
    unit is add_remove: a canary is in the data or it is not.
    """
    picked = canaries if guesses is None else guesses
    _check(canaries, picked, 0, delta, alpha)
    if not claimed > 0 or not factor > 1:
        raise InputError(f"claimed ({claimed}) must be a positive epsilon, and factor ({factor}) above 1.")
    included = np.random.default_rng(seed).random(canaries) < 0.5
    scores = np.asarray(score(included.copy(), seed), dtype=float)
    if scores.shape != (canaries,) or np.isnan(scores).any():
        raise InputError(f"score must give one number for each of the {canaries} canaries.")
    order = np.argsort(scores, kind="stable")
    lowest, highest = order[: picked // 2], order[canaries - (picked - picked // 2) :]
    right = int((~included[lowest]).sum() + included[highest].sum())
    return OneRunAudit(
        epsilon_low=one_run_lower_bound(canaries, picked, right, delta=delta, alpha=alpha),
        claimed=claimed,
        delta=delta,
        alpha=alpha,
        canaries=canaries,
        guesses=picked,
        right=right,
        power=one_run_power(canaries, picked, claimed=claimed, delta=delta, alpha=alpha, factor=factor),
        factor=factor,
    )


def _check(canaries: int, guesses: int, right: int, delta: float, alpha: float) -> None:
    if not 1 <= guesses <= canaries or not 0 <= right <= guesses:
        raise InputError(
            f"right ({right}) of guesses ({guesses}) about canaries ({canaries}): each must be at most the next, and "
            "there must be at least one guess."
        )
    if not 0 <= delta < 1:
        raise InputError(f"delta ({delta}) must be at least 0 and below 1.")
    if not 0 < alpha < 1:
        raise InputError(f"alpha ({alpha}) must be above 0 and below 1.")
