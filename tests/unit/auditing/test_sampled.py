"""The black-box audit: its bound, its false alarms, and what it catches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from understudy.auditing.sampled_audit import detection_power, epsilon_lower_bound, sampled_audit
from understudy.errors import InputError


def noise(rng: np.random.Generator, scale: float, size: tuple[int, ...]) -> np.ndarray:
    step = -np.expm1(-1 / scale)
    return rng.geometric(step, size) - rng.geometric(step, size)


def noisy_table(seed: int, *, epsilon: float, runs: int, unit: str, factor: float = 1.0, cells: int = 6):
    """Geometric noise of the scale that epsilon asks for, times ``factor``, on two neighbouring tables."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((2, cells))
    counts[1, 0] = 1  # an empty cell against one person
    scale = 1 / epsilon
    if unit == "replace":
        counts[0, 1] = 1
        scale = 2 / epsilon
    outputs = counts[:, None, :] + noise(rng, scale * factor, (2, runs, cells))
    return lambda side, number: outputs[side, number // 2]


def test_known_values():
    assert epsilon_lower_bound(100, 1000, 10, 1000) == pytest.approx(1.50038, abs=5e-6)
    assert epsilon_lower_bound(1000, 1000, 0, 1000) == pytest.approx(5.60059, abs=5e-6)


def test_both_roles_count():
    """An attack that is never wrong on one input is worth as much negated as it was straight."""
    straight = epsilon_lower_bound(100, 1000, 10, 1000)
    negated = epsilon_lower_bound(990, 1000, 900, 1000)
    assert straight == pytest.approx(negated)
    assert epsilon_lower_bound(10, 1000, 100, 1000) == 0.0
    assert epsilon_lower_bound(0, 10, 10, 10) == 0.0


def test_delta_lowers_the_bound():
    plain, with_delta = (epsilon_lower_bound(100, 1000, 10, 1000, delta=delta) for delta in (0.0, 0.05))
    assert 0 < with_delta < plain
    assert epsilon_lower_bound(10, 1000, 0, 1000, delta=0.5) == 0.0


def test_confidence_of_the_bound_is_exact_enough():
    """Enumerated over both binomials: the bound exceeds the truth with probability at most alpha."""
    p, q, runs, alpha = 0.4, 0.1, 60, 0.05
    truth = max(np.log(p / q), np.log((1 - q) / (1 - p)))
    wrong = sum(
        binom.pmf(hits, runs, p) * binom.pmf(alarms, runs, q)
        for hits in range(runs + 1)
        for alarms in range(runs + 1)
        if epsilon_lower_bound(hits, runs, alarms, runs, alpha=alpha) > truth
    )
    assert 0 < wrong <= alpha


@pytest.mark.parametrize("unit", ["add_remove", "replace"])
def test_accepts_geometric_noise_and_catches_half_of_it(unit):
    """False alarm at most 1e-4 per audit by construction; the analytic power says the fault cannot hide either."""
    settings = {"claimed": 1.5, "runs": 1600, "alpha": 1e-4}
    for seed in range(5):
        sound = sampled_audit(noisy_table(seed, epsilon=1.5, runs=1600, unit=unit), **settings)
        assert not sound.caught, sound.describe()
        assert sound.power > 0.99
        faulty = sampled_audit(noisy_table(seed, epsilon=1.5, runs=1600, unit=unit, factor=0.5), **settings)
        assert faulty.caught, faulty.describe()
        assert faulty.epsilon_low < 3  # and the bound stays below the true epsilon of the faulty copy


@pytest.mark.full
def test_false_alarm_rate():
    """Geometric noise reaches its epsilon exactly, so alarms are as frequent as they ever get: still at most alpha."""
    alpha, audits = 0.1, 300
    alarms = sum(
        sampled_audit(
            noisy_table(1000 + seed, epsilon=1.0, runs=200, unit="add_remove", cells=1),
            claimed=1.0,
            runs=200,
            alpha=alpha,
        ).caught
        for seed in range(audits)
    )
    assert alarms <= binom.isf(1e-4, audits, alpha)
    # Power: audits that promise less than the truth do raise the alarm.
    assert sampled_audit(
        noisy_table(1, epsilon=1.0, runs=4000, unit="add_remove", cells=1), claimed=0.5, runs=4000, alpha=alpha
    ).caught


def test_choosing_on_the_tested_runs_would_be_wrong():
    """Pure noise with many features: an attack picked and tested on the same runs would look like a discovery."""
    rng = np.random.default_rng(3)
    outputs = rng.standard_normal((2, 200, 300))
    audit = sampled_audit(lambda side, number: outputs[side, number // 2], claimed=0.2, runs=200, alpha=0.01)
    assert not audit.caught


def test_hashable_outputs():
    """Randomised response with two answers and an epsilon of ln 9."""
    rng = np.random.default_rng(4)
    honest = rng.random((2, 1200)) < 0.9

    def run(side: int, seed: int) -> str:
        return ("no", "yes")[side if honest[side, seed // 2] else 1 - side]

    assert not sampled_audit(run, claimed=np.log(9), runs=1200).caught
    assert sampled_audit(run, claimed=np.log(9) / 2, runs=1200).caught


def test_a_leak_in_one_of_many_features_is_found():
    rng = np.random.default_rng(5)
    outputs = rng.integers(0, 50, (2, 400, 40))
    outputs[1, :, 17] += 60
    audit = sampled_audit(lambda side, number: outputs[side, number // 2], claimed=2.0, runs=400)
    assert audit.caught
    assert "17" in audit.attack


def test_every_run_gets_its_own_seed():
    seen = []

    def run(side: int, seed: int) -> int:
        seen.append((side, seed))
        return 0

    sampled_audit(run, claimed=1.0, runs=50)
    assert len({seed for _, seed in seen}) == len(seen) == 100
    assert {seed % 2 for side, seed in seen if side == 1} == {1}


def test_power_is_the_simulated_one():
    rate, runs, epsilon = 0.2, 200, 1.0
    stated = detection_power(rate, runs, claimed=epsilon, delta=0.0, alpha=0.01, factor=1.5)
    rng = np.random.default_rng(6)
    p = min(np.exp(1.5) * rate, 1 - np.exp(-1.5) * (1 - rate))
    trials = 4000
    draws = zip(rng.binomial(runs, p, trials), rng.binomial(runs, rate, trials), strict=True)
    caught = sum(epsilon_lower_bound(int(a), runs, int(b), runs, alpha=0.01) > epsilon for a, b in draws)
    assert 0.05 < stated < 0.95
    assert abs(caught / trials - stated) < 4.5 * np.sqrt(stated * (1 - stated) / trials)


def test_more_runs_give_more_power():
    small, large = (detection_power(0.2, runs, claimed=1.0, delta=0.0, alpha=1e-4, factor=2.0) for runs in (100, 1000))
    assert small < large
    assert large > 0.999


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"claimed": 0}, "claimed"),
        ({"claimed": float("inf")}, "claimed"),
        ({"runs": 10}, "runs"),
        ({"alpha": 0}, "alpha"),
        ({"delta": 1}, "delta"),
        ({"factor": 1}, "factor"),
    ],
)
def test_bad_settings_are_refused_before_any_run(change, word):
    def run(side: int, seed: int) -> int:
        raise AssertionError("ran")

    with pytest.raises(InputError, match=word):
        sampled_audit(run, **{"claimed": 1.0, **change})


def test_outputs_of_different_kinds_are_refused():
    with pytest.raises(InputError, match="same number"):
        sampled_audit(lambda side, seed: np.zeros(1 + seed % 2), claimed=1.0, runs=40)
    with pytest.raises(InputError, match="same kind"):
        sampled_audit(lambda side, seed: np.zeros(1) if seed else 3, claimed=1.0, runs=40)
    with pytest.raises(InputError, match="not a number"):
        sampled_audit(lambda side, seed: np.array([np.nan]), claimed=1.0, runs=40)
    with pytest.raises(InputError, match="between 0"):
        epsilon_lower_bound(11, 10, 0, 10)


def test_a_claim_whose_exponential_is_no_double_can_be_audited():
    found = sampled_audit(lambda side, seed: np.array([side]), claimed=500.0, runs=40)
    assert not found.caught
    assert 0 <= found.power <= 1
