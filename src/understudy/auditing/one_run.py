"""A lower bound on epsilon from one run with many canaries: coins decide which are in the data, and are then guessed.

Steinke, Nasr and Jagielski (2023, arXiv:2305.08846, Theorem 5.2): if the mechanism is (epsilon, delta)-differentially
private for adding or removing a record, then of r guesses about m canaries the number v that are right is hardly larger
than Binomial(r, e^epsilon / (1 + e^epsilon)). The largest epsilon that this test rejects is a lower bound. One run is
cheap; the bound is weaker than that of many runs on two neighbours (``sampled_audit``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.auditing.sampled_audit import Verdict, check_claim
from understudy.core.arrays import Floats
from understudy.errors import InputError
from understudy.privacy.exact.epsilon_lower_bounds import (
    check_confidence,
    check_guesses,
    one_run_lower_bound,
    one_run_p_value,
)

__all__ = ["OneRunAudit", "one_run_audit", "one_run_lower_bound", "one_run_p_value", "one_run_power"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunAudit(Verdict):
    """What guesses about canaries showed. ``power`` is for a mechanism with which each guess is right with
    probability e^f/(1 + e^f), where f is ``factor`` times the claim."""

    canaries: int
    guesses: int
    right: int

    def describe(self) -> str:
        return self._described(f"one run with {self.canaries} canaries, {self.right} of {self.guesses} guesses right")


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
    check_guesses(canaries, picked)
    check_confidence(delta=delta, alpha=alpha)
    check_claim(claimed, factor)
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
