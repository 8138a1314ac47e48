"""How well scores tell members from others: area, advantage, true positives at few false ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.result import Estimate
from understudy.evaluation.shared.attack_success import LEVEL, Z
from understudy.evaluation.shared.ranks import mid_ranks

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
    def right(self) -> int:
        return self.true_positives + self.others - self.false_positives

    @property
    def guesses(self) -> int:
        return self.members + self.others

    @property
    def advantage(self) -> float:
        return self.true_positives / self.members - self.false_positives / self.others


def guess(members: Floats, others: Floats, generator: np.random.Generator) -> Guessing:
    """Choose the threshold of greatest advantage on one random half, and guess on the other half only."""
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
