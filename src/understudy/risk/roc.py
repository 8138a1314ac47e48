"""How well scores tell members from others: area, advantage, true positives at few false ones, implied epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.result import Estimate
from understudy.risk.ranks import mid_ranks
from understudy.risk.success import LEVEL, Z

Floats = NDArray[np.float64]
FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)


def area(members: Floats, others: Floats) -> Estimate:
    """The area under the ROC curve with the interval of DeLong, DeLong and Clarke-Pearson (1988), ties counted half.

    Where one group lies wholly above the other that interval is empty; then the bound of zero events in the smaller
    group, 3 / m, stands in for it.

    >>> area(np.array([3.0, 2.0]), np.array([1.0, 2.0])).value
    0.875
    """
    m, n = len(members), len(others)
    pooled = mid_ranks(np.concatenate([members, others]))
    above = (pooled[:m] - mid_ranks(members)) / n  # of each member: the share of others below
    below = 1 - (pooled[m:] - mid_ranks(others)) / m
    value = float(above.mean())
    spread = sum(float(np.var(part, ddof=1)) / len(part) if len(part) > 1 else 0.25 for part in (above, below))
    half = Z * math.sqrt(spread) if spread > 0 else min(1.0, 3 / min(m, n))
    return Estimate(value=value, low=max(0.0, value - half), high=min(1.0, value + half), level=LEVEL, method="DeLong")


def curve(members: Floats, others: Floats) -> tuple[Floats, Floats]:
    """False and true positive rates at every threshold, from none to all."""
    thresholds = np.unique(np.concatenate([members, others]))[::-1]
    ordered_others, ordered_members = np.sort(others), np.sort(members)
    false = 1 - np.searchsorted(ordered_others, thresholds, side="left") / len(others)
    true = 1 - np.searchsorted(ordered_members, thresholds, side="left") / len(members)
    return np.concatenate([[0.0], false]), np.concatenate([[0.0], true])


def true_positives_at(members: Floats, others: Floats, rate: float) -> float:
    """The greatest true positive rate whose false positive rate is at most ``rate``."""
    false, true = curve(members, others)
    return float(true[false <= rate].max())


def few_false(members: Floats, others: Floats) -> dict[str, float]:
    """The true positive rate at each of the low false positive rates."""
    return {f"tpr_at_{rate:g}": true_positives_at(members, others, rate) for rate in FALSE_POSITIVE_RATES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guessing:
    """Guesses on the half of the records that did not choose the threshold."""

    true_positives: int
    members: int
    false_positives: int
    others: int

    @property
    def advantage(self) -> float:
        return self.true_positives / self.members - self.false_positives / self.others


def guess(members: Floats, others: Floats, generator: np.random.Generator) -> Guessing:
    """Choose the threshold of greatest advantage on one random half, guess on the other: no choice tests itself."""
    halves = []
    for scores in (members, others):
        order = generator.permutation(len(scores))
        halves.append((scores[order[: len(scores) // 2]], scores[order[len(scores) // 2 :]]))
    (fit_members, test_members), (fit_others, test_others) = halves
    if len(fit_members) and len(fit_others):
        values = np.unique(np.concatenate([fit_members, fit_others]))[::-1]
        false, true = curve(fit_members, fit_others)
        best = int(np.argmax(true - false))
        threshold = np.inf if best == 0 else float(values[best - 1])
    else:
        threshold = np.inf
    return Guessing(
        true_positives=int(np.sum(test_members >= threshold)), members=len(test_members),
        false_positives=int(np.sum(test_others >= threshold)), others=len(test_others),
    )  # fmt: skip


def two_world_epsilon(found: Guessing, *, delta: float = 0.0, alpha: float = 0.05) -> float:
    """The least epsilon consistent with guesses in independent runs on two neighbours (Clopper-Pearson, both ways).

    >>> found = Guessing(true_positives=100, members=1000, false_positives=10, others=1000)
    >>> round(two_world_epsilon(found), 5)
    1.50038
    """
    from scipy.stats import beta

    def least(hits: int, total: int) -> float:
        return float(beta.ppf(alpha / 2, hits, total - hits + 1)) if hits else 0.0

    p, q = least(found.true_positives, found.members), 1 - least(found.others - found.false_positives, found.others)
    bounds = [math.log((low - delta) / high) for low, high in ((p, q), (1 - q, 1 - p)) if low > delta and high > 0]
    return max([0.0, *bounds])


def one_run_epsilon(canaries: int, guesses: int, right: int, *, delta: float = 0.0, alpha: float = 0.05) -> float:
    """The least epsilon consistent with so many right guesses in one run.

    Steinke, Nasr and Jagielski (2023), Theorem 5.2: ``canaries`` records were in or out by
    independent fair coins. Add-remove unit.

    >>> round(one_run_epsilon(10, 10, 10), 5), round(one_run_epsilon(1000, 1000, 800), 4)
    (1.05187, 1.2543)
    >>> round(one_run_epsilon(1000, 200, 190, delta=1e-5), 4)
    2.3936
    """
    from scipy.stats import binom

    def consistent(epsilon: float) -> bool:
        chance = 1 / (1 + math.exp(-epsilon))
        tail = float(binom.sf(right - 1, guesses, chance))
        worst = 0.0
        if delta > 0 and right > 0:
            steps = np.arange(1, right + 1)
            reached: Any = binom.sf(right - steps - 1, guesses, chance) - tail
            worst = float(np.max(reached / steps))
        return min(1.0, tail + 2 * canaries * delta * worst) > alpha

    if guesses == 0 or consistent(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not consistent(high):
        low, high = high, 2 * high
        if high > 64:
            return low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if consistent(middle) else (middle, high)
    return low
