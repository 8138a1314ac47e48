"""Lower bounds on epsilon from guesses, against second derivations."""

import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from understudy.privacy.exact.epsilon_lower_bounds import epsilon_lower_bound, one_run_lower_bound, one_run_p_value


def by_quantiles(hits, alarms, runs, delta, alpha):
    """Clopper and Pearson by quantiles of the beta law, both ways."""

    def least(count):
        return float(beta.ppf(alpha / 2, count, runs - count + 1)) if count else 0.0

    p, q = least(hits), 1 - least(runs - alarms)
    bounds = [math.log((low - delta) / high) for low, high in ((p, q), (1 - q, 1 - p)) if low > delta and high > 0]
    return max([0.0, *bounds])


@pytest.mark.parametrize(
    ("hits", "alarms", "delta"),
    [(100, 10, 0.0), (1000, 0, 0.0), (10, 100, 0.0), (500, 20, 1e-3), (0, 0, 0.0), (1000, 1000, 0.0), (7, 0, 0.5)],
)
def test_two_neighbours_by_the_beta_law(hits, alarms, delta):
    found = epsilon_lower_bound(hits, 1000, alarms, 1000, delta=delta)
    assert found == pytest.approx(by_quantiles(hits, alarms, 1000, delta, 0.05), abs=1e-9)


@pytest.mark.parametrize(
    ("guesses", "right", "epsilon", "delta"), [(20, 18, 1.0, 1e-3), (5, 5, 0.3, 0.01), (9, 0, 2.0, 0.1)]
)
def test_one_run_by_tails(guesses, right, epsilon, delta):
    """The allowance from differences of tails instead of sums of points."""
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    tail = binom.sf(right - 1, guesses, q)
    steps = np.arange(1, right + 1)
    worst = max(((binom.sf(right - steps - 1, guesses, q) - tail) / steps).tolist(), default=0.0)
    expected = min(1.0, tail + 2 * 30 * delta * worst)
    assert one_run_p_value(30, guesses, right, epsilon, delta) == pytest.approx(expected)


def test_guesses_like_a_coin_prove_nothing():
    assert one_run_lower_bound(100, 100, 50) == 0
    assert epsilon_lower_bound(500, 1000, 500, 1000) == 0
