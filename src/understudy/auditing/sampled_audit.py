"""A black-box lower bound on epsilon: run the mechanism many times on two neighbours and tell them apart.

Whatever was promised, if some set S of outputs comes up with probability at least p on one input and at most q on its
neighbour, the true epsilon is at least ln((p - delta) / q). The bound needs no knowledge of the mechanism, so it
finds the faults a proof cannot see: a noise scale that is not the one charged, or an exact count that was used. If it
finds nothing, that says nothing: a low bound is not a proof of privacy (the exact audit is). So every result carries
its power, the probability that a fault of a stated size would have been found.

Three separate batches of runs keep the statement valid: one fits a likelihood-ratio score, one chooses which
features and which threshold make the attack, and the last and largest tests that one attack. Choosing on the runs
that are tested would make the bound too high.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.errors import InputError
from understudy.privacy.exact.epsilon_lower_bounds import check_confidence, epsilon_lower_bound, epsilon_lower_bounds

# What every audit from observed runs ends with: a claim, a lower bound, and the power of the attempt.


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """With probability at least ``1 - alpha`` the true epsilon (at ``delta``) is at least ``epsilon_low``.

    So a sound mechanism is caught with probability at most ``alpha``. ``power`` is the probability that the same
    attempt would catch a mechanism whose epsilon is ``factor`` times the claim.
    """

    epsilon_low: float
    claimed: float
    delta: float
    alpha: float
    power: float
    factor: float

    @property
    def caught(self) -> bool:
        return self.epsilon_low > self.claimed

    def _described(self, evidence: str) -> str:
        verdict = "caught" if self.caught else "not caught"
        return (
            f"{verdict}: epsilon at least {self.epsilon_low:.3f} (claimed {self.claimed:g}, delta {self.delta:g}) with "
            f"confidence {1 - self.alpha:g} from {evidence}; "
            f"power {self.power:.3f} against {self.factor:g} times the claim"
        )


def check_claim(claimed: float, factor: float) -> None:
    """Refuses a claim that nothing could refute, and a factor that means no fault."""
    if not claimed > 0 or not math.isfinite(claimed):
        raise InputError(f"claimed ({claimed}) must be a positive epsilon.")
    if not factor > 1:
        raise InputError(f"factor ({factor}) must be above 1.")


__all__ = ["SampledAudit", "detection_power", "epsilon_lower_bound", "sampled_audit"]

Output = NDArray[Any] | Hashable
MOST_BINS = 16
LEAST_RUNS = 40
GOOD_POWER = 0.995
LARGEST_WORSE = 700.0  # its exponential is still a double; a fault of so large an epsilon is found with certainty


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledAudit(Verdict):
    """What an attack on two neighbours showed; ``power`` is that of an attack of this size."""

    runs: int  # on each of the two inputs, all three batches together
    attack: str
    true_positives: int
    false_positives: int
    tested: int  # runs of the last batch, on each input

    def describe(self) -> str:
        return self._described(f"{self.runs} runs on each input; attack: {self.attack}")


def sampled_audit(
    run: Callable[[int, int], Output],
    *,
    claimed: float,
    delta: float = 0.0,
    runs: int = 2000,
    alpha: float = 1e-3,
    factor: float = 2.0,
) -> SampledAudit:
    """Attack ``run(side, seed)``, where side 0 and 1 are neighbouring inputs.

    Every call gets a seed of its own; its randomness must be independent of the other calls'. An output is either an
    array of numbers (always of the same length: counts of cells, noisy values) or any hashable value.
    """
    check_claim(claimed, factor)
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < LEAST_RUNS:
        raise InputError(f"runs ({runs}) must be a whole number of at least {LEAST_RUNS}.")
    check_confidence(delta=delta, alpha=alpha)
    table = _as_columns([[run(side, 2 * number + side) for number in range(runs)] for side in (0, 1)])
    fit, choose = runs // 4, runs // 2
    tested = runs - choose
    needed = _needed_hits(tested, claimed=claimed, delta=delta, alpha=alpha)
    # For each number of false positives in the second batch: what the attack would see of a mechanism that much worse.
    powers = _powers(_rates(choose - fit), needed, worse=factor * claimed, delta=delta)
    score = _Score(table[:, :fit])
    chosen = _choose(score, table[:, fit:choose], powers, claimed=claimed, delta=delta, alpha=alpha)
    said_yes = score(table[:, choose:], chosen.features) >= chosen.threshold
    false_positives, true_positives = (int(count) for count in said_yes.sum(axis=1))
    return SampledAudit(
        epsilon_low=epsilon_lower_bound(true_positives, tested, false_positives, tested, delta=delta, alpha=alpha),
        claimed=claimed,
        delta=delta,
        runs=runs,
        alpha=alpha,
        attack=f"likelihood ratio of {_name_features(chosen.features)}, threshold {chosen.threshold:.3g}",
        power=chosen.power,
        factor=factor,
        true_positives=true_positives,
        false_positives=false_positives,
        tested=tested,
    )


def detection_power(
    false_positive_rate: float, runs: int, *, claimed: float, delta: float, alpha: float, factor: float
) -> float:
    """The probability that ``runs`` runs on each input catch a mechanism ``factor`` times worse than claimed.

    This mechanism reaches the trade-off curve of (factor * claimed, delta)-differential privacy at this false positive
    rate (Kairouz, Oh and Viswanath 2015, Theorem 2.1). The sum over both binomial counts is exact.
    """
    needed = _needed_hits(runs, claimed=claimed, delta=delta, alpha=alpha)
    return float(_powers(np.array([false_positive_rate]), needed, worse=factor * claimed, delta=delta)[0])


def _needed_hits(runs: int, *, claimed: float, delta: float, alpha: float) -> Integers:
    """For every number of false positives the least number of true ones that proves the claim wrong (or runs + 1).

    The bound grows with the true positives, so halving finds it.
    """
    alarms = np.arange(runs + 1)
    low, high = np.zeros(runs + 1, dtype=np.int64), np.full(runs + 1, runs + 1)
    while (low < high).any():
        middle = (low + high) // 2
        proved = epsilon_lower_bounds(np.minimum(middle, runs), runs, alarms, runs, delta=delta, alpha=alpha) > claimed
        enough = proved | (middle > runs)
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return high


def _powers(rates: Floats, needed: Integers, *, worse: float, delta: float) -> Floats:
    """Detection power at several false positive rates."""
    from scipy.stats import binom

    runs = len(needed) - 1
    worse = min(worse, LARGEST_WORSE)
    shown = np.minimum(math.exp(worse) * rates + delta, 1 - math.exp(-worse) * (1 - rates - delta))
    hit_rates = np.minimum(shown, 1.0)[:, None]
    chance = binom.pmf(np.arange(runs + 1), runs, rates[:, None])
    powers: Floats = np.sum(chance * binom.sf(needed - 1, runs, hit_rates), axis=1)
    return np.minimum(powers, 1.0)


def _as_columns(outputs: Sequence[Sequence[Output]]) -> Floats:
    """Outputs as numbers, axes (side, run, feature). Values that are not arrays become one column of identities."""
    arrays = {isinstance(output, np.ndarray) for side in outputs for output in side}
    if len(arrays) > 1:
        raise InputError("some runs gave an array and some another value; give the same kind every time.")
    if arrays == {True}:
        flat = [[np.asarray(output, dtype=float).ravel() for output in side] for side in outputs]
        if len({len(output) for side in flat for output in side}) != 1 or not flat[0][0].size:
            raise InputError("every run must give the same number of features, at least one.")
        table = np.array(flat)
        if np.isnan(table).any():
            raise InputError("a run gave a value that is not a number; give numbers an attacker can compare.")
        return table
    numbers: dict[Any, int] = {}
    return np.array([[[float(numbers.setdefault(output, len(numbers)))] for output in side] for side in outputs])


class _Score:
    """The sum over chosen features of the log likelihood ratio of the bin a value falls into.

    Features are taken as independent given the side. That makes a good attack on noise that is independent by cell
    (there it is the most powerful one) and an allowed, if weaker, attack on anything else: the bound holds for any set.
    """

    def __init__(self, fitted: Floats) -> None:
        self.edges: list[Floats] = []
        self.ratios: list[Floats] = []
        separation = []
        for feature in range(fitted.shape[2]):
            values = fitted[:, :, feature]
            # Bins start at observed values, so a discrete value is never split and a rare tail is one bin.
            grid = np.quantile(values, np.linspace(0, 1, MOST_BINS + 1)[1:-1], method="nearest")
            distinct = np.unique(values)
            edges = distinct[1:] if len(distinct) <= MOST_BINS else np.unique(grid)
            bins = np.searchsorted(edges, values, side="right")
            seen = np.stack([np.bincount(side, minlength=len(edges) + 1) for side in bins]) + 0.5
            share = seen / seen.sum(axis=1, keepdims=True)
            ratio = np.log(share[1] / share[0])
            self.edges.append(edges)
            self.ratios.append(ratio)
            separation.append(float((share[1] - share[0]) @ ratio))
        self.ranked = np.argsort(separation)[::-1]

    def __call__(self, table: Floats, features: Sequence[int]) -> Floats:
        total = np.zeros(table.shape[:2])
        for feature in features:
            total += self.ratios[feature][np.searchsorted(self.edges[feature], table[:, :, feature], side="right")]
        return total


def _rates(runs: int) -> Floats:
    """The rate for 0, 1, ... false positives; half an observation is added, so that it is never 0 or 1."""
    return (np.arange(runs + 1) + 0.5) / (runs + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attack:
    features: tuple[int, ...]
    threshold: float
    power: float


def _choose(score: _Score, table: Floats, powers: Floats, *, claimed: float, delta: float, alpha: float) -> _Attack:
    """The features and the threshold with the highest bound on runs that neither fitted the score nor will test it.

    If no attack shows already that the claim is wrong, attacks with little power against the stated fault are left out.
    With a sound mechanism all thresholds look alike, and the choice would be an accident.
    """
    runs, many = table.shape[1], len(score.ranked)
    candidates: list[tuple[_Attack, float]] = []
    for size in sorted({1, 2, 3, 4, 8, many} & set(range(1, many + 1))):
        features = tuple(sorted(int(feature) for feature in score.ranked[:size]))
        values = score(table, features)
        thresholds = np.unique(values)
        false, true = (np.searchsorted(np.sort(side), thresholds) for side in values)  # how many lie below
        bounds = epsilon_lower_bounds(runs - true, runs, runs - false, runs, delta=delta, alpha=alpha)
        for at, threshold in enumerate(thresholds):
            attack = _Attack(features=features, threshold=float(threshold), power=float(powers[runs - false[at]]))
            candidates.append((attack, float(bounds[at])))
    best, bound = max(candidates, key=lambda pair: pair[1])
    if bound > claimed:
        return best
    enough = min(GOOD_POWER, max(attack.power for attack, _ in candidates))
    return max((pair for pair in candidates if pair[0].power >= enough), key=lambda pair: pair[1])[0]


def _name_features(features: tuple[int, ...]) -> str:
    listed = ", ".join(str(feature) for feature in features[:6])
    return f"feature{'s' if len(features) > 1 else ''} {listed}{', ...' if len(features) > 6 else ''}"
