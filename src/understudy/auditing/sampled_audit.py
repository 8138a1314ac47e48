"""Black-box lower bounds on epsilon: run the mechanism many times on two neighbours, or once with many canaries.

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

import csv
import math
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.errors import InputError
from understudy.privacy.exact.epsilon_lower_bounds import (
    check_confidence,
    check_guesses,
    epsilon_lower_bound,
    epsilon_lower_bounds,
    one_run_lower_bound,
    one_run_p_value,
)

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


__all__ = [
    "OneRunAudit",
    "SampledAudit",
    "command_runner",
    "detection_power",
    "epsilon_lower_bound",
    "one_run_audit",
    "one_run_lower_bound",
    "one_run_p_value",
    "one_run_power",
    "sampled_audit",
]

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


# Any program as the black box of a sampled audit: a command template, run once for each output.


PLACES = ("{input}", "{output}", "{seed}")


def command_runner(
    template: str, inputs: Sequence[str | Path], *, timeout: float = 600.0
) -> Callable[[int, int], NDArray[np.float64]]:
    """A ``run(side, seed)`` for :func:`sampled_audit` from a command such as ``mytool {input} {output} --seed {seed}``.

    ``inputs`` are two files with neighbouring data. The command must write the numbers that an attacker sees as one
    line or more of comma-separated values to ``{output}``; first lines that do not begin with a number are headers. No
    shell is used.
    """
    if "{input}" not in template or "{output}" not in template:
        raise InputError("the command template must hold {input} and {output}; {seed} is optional.")
    if len(inputs) != 2:
        raise InputError(f"an audit compares two neighbouring inputs; {len(inputs)} were given.")
    files = [Path(name) for name in inputs]
    for file in files:
        if not file.is_file():
            raise InputError(f"{file} does not exist; expected a file with one of two neighbouring data sets.")
    try:
        words = shlex.split(template)
    except ValueError:
        raise InputError("the command template has a quotation mark that is never closed.") from None

    def run(side: int, seed: int) -> NDArray[np.float64]:
        with tempfile.TemporaryDirectory(prefix="understudy-audit-") as folder:
            out = Path(folder) / "output.csv"
            values = {"{input}": str(files[side]), "{output}": str(out), "{seed}": str(seed)}
            command = [_fill(word, values) for word in words]
            try:
                done = subprocess.run(command, capture_output=True, timeout=timeout, check=False)
            except OSError as problem:
                raise InputError(f"{command[0]} could not be started: {problem.strerror}.") from None
            except subprocess.TimeoutExpired:
                raise InputError(f"{command[0]} took longer than {timeout:g} seconds.") from None
            if done.returncode != 0:
                raise InputError(f"{command[0]} ended with exit code {done.returncode}; an audit needs every run.")
            if not out.is_file():
                raise InputError(f"{command[0]} wrote nothing to {{output}}.")
            return read_numbers(out)

    return run


def read_numbers(path: Path) -> NDArray[np.float64]:
    """Every number of a CSV file, in order; lines before the first whose first field is a number are headers."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error):
        raise InputError("the output of the command is not a CSV file in UTF-8.") from None
    lines = [[_number(value) for value in row] for row in rows]
    first = next((place for place, line in enumerate(lines) if line[0] is not None), len(lines))
    found = [value for line in lines[first:] for value in line]
    if not found:
        raise InputError("the output of the command holds no number.")
    if None in found:
        raise InputError("the output of the command holds a value that is not a number.")
    return np.array(found, dtype=np.float64)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _fill(word: str, values: dict[str, str]) -> str:
    for place in PLACES:
        word = word.replace(place, values[place])
    return word


# A lower bound on epsilon from one run with many canaries: coins decide which are in the data, and are then guessed.
#
# Steinke, Nasr and Jagielski (2023, arXiv:2305.08846, Theorem 5.2): if the mechanism is (epsilon,
# delta)-differentially private for adding or removing a record, then of r guesses about m canaries the number v that
# are right is hardly larger than Binomial(r, e^epsilon / (1 + e^epsilon)). The largest epsilon that this test rejects
# is a lower bound. One run is cheap; the bound is weaker than that of many runs on two neighbours
# (``sampled_audit``).


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
