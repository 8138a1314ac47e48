from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from understudy.errors import InputError
from understudy.privacy.promise.conversion import cdp_delta, cdp_epsilon, cdp_rho

GOLDEN = json.loads((Path(__file__).parents[3] / "golden" / "accounting.json").read_text())
GRID = [
    (Fraction(rho), Fraction(delta))
    for rho in ("1e-6", "0.003", "0.1", "0.5", "3", "100")
    for delta in ("1e-15", "1e-9", "1e-5", "0.01")
]


def textbook_epsilon(rho: float, delta: float) -> float:
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def test_the_published_example() -> None:
    """rho = .01, delta = 1e-9 is worth .810, where the textbook conversion says .920."""
    assert round(float(cdp_epsilon(Fraction(1, 100), Fraction(1, 10**9))), 3) == 0.810
    assert round(textbook_epsilon(0.01, 1e-9), 3) == 0.920


@pytest.mark.parametrize("case", GOLDEN["zcdp"], ids=lambda case: f"{case['rho']}-{case['delta']}")
def test_against_dp_accounting(case: dict[str, str]) -> None:
    """Its orders are a grid, so its epsilon may be a little larger and never smaller."""
    ours = float(cdp_epsilon(Fraction(case["rho"]), Fraction(case["delta"])))
    theirs = float(case["epsilon"])
    assert ours <= theirs * (1 + 1e-12)
    assert ours >= theirs * (1 - 1e-6)


@pytest.mark.parametrize("case", GOLDEN["gaussian"], ids=lambda case: f"{case['sigma']}-{case['delta']}")
def test_never_below_the_exact_loss_of_a_discrete_gaussian(case: dict[str, str]) -> None:
    ours = float(cdp_epsilon(Fraction(1, 2 * int(case["sigma"]) ** 2), Fraction(case["delta"])))
    assert float(case["epsilon"]) <= ours <= 1.25 * float(case["epsilon"])


@pytest.mark.parametrize(("rho", "delta"), GRID)
def test_the_best_order_is_found(rho: Fraction, delta: Fraction) -> None:
    r, d = float(rho), float(delta)

    def bound(t: float) -> float:
        x = math.exp(t)
        return (1 + x) * r - math.log1p(1 / x) + (math.log(1 / d) - math.log1p(x)) / x

    centre = 0.5 * math.log(math.log(1 / d) / r)
    found = minimize_scalar(bound, bounds=(centre - 8, centre + 3), method="bounded", options={"xatol": 1e-10})
    best = max(0.0, float(found.fun))
    ours = float(cdp_epsilon(rho, delta))
    assert ours >= best * (1 - 1e-14)
    assert math.isclose(ours, best, rel_tol=1e-11)


@pytest.mark.parametrize(("rho", "delta"), GRID)
def test_never_below_the_exact_delta_of_gaussian_noise(rho: Fraction, delta: Fraction) -> None:
    """Balle and Wang 2018, Theorem 5, for sensitivity 1 and rho = 1/(2 sigma^2)."""
    epsilon = cdp_epsilon(rho, delta)
    sigma, e = 1 / math.sqrt(2 * float(rho)), float(epsilon)
    exact = norm.cdf(0.5 / sigma - e * sigma) - math.exp(e + norm.logcdf(-0.5 / sigma - e * sigma))
    bound = float(cdp_delta(rho, epsilon))
    assert exact <= bound <= float(delta) * (1 + 1e-9)
    assert bound < 30 * exact


@given(
    rho=st.fractions(min_value=Fraction(1, 10**12), max_value=10**6),
    power=st.integers(min_value=1, max_value=40),
    digit=st.integers(min_value=1, max_value=9),
)
@settings(max_examples=200, deadline=None)
def test_there_and_back(rho: Fraction, power: int, digit: int) -> None:
    delta = Fraction(digit, 10**power)
    epsilon = cdp_epsilon(rho, delta)
    assert float(epsilon) <= textbook_epsilon(float(rho), float(delta)) * (1 + 1e-12)
    if epsilon > 0:
        assert cdp_delta(rho, epsilon) <= delta * (1 + Fraction(1, 10**7))
    if epsilon > Fraction(1, 1000):
        back = cdp_rho(epsilon, delta)
        assert cdp_epsilon(back, delta) <= epsilon
        assert back >= rho * (1 - Fraction(1, 10**8))


@given(
    rho=st.fractions(min_value=Fraction(1, 10**6), max_value=100),
    grow=st.fractions(min_value=1, max_value=3),
    delta=st.fractions(min_value=Fraction(1, 10**15), max_value=Fraction(1, 2)),
)
@settings(max_examples=200, deadline=None)
def test_more_loss_is_never_stated_as_less(rho: Fraction, grow: Fraction, delta: Fraction) -> None:
    slack = 1 + Fraction(1, 10**12)
    assert cdp_epsilon(rho, delta) <= cdp_epsilon(rho * grow, delta) * slack
    assert cdp_epsilon(rho, min(delta * grow, Fraction(9, 10))) <= cdp_epsilon(rho, delta) * slack


def test_extremes_stay_finite_and_safe() -> None:
    assert cdp_epsilon(Fraction(0), Fraction(1, 10)) == 0
    assert cdp_delta(Fraction(0), Fraction(1)) == 0
    assert cdp_epsilon(Fraction(10**100), Fraction(1, 10**9)) > 10**100
    assert cdp_delta(Fraction(10**100), Fraction(1)) == 1
    assert cdp_delta(Fraction(10), Fraction(0)) > Fraction(9, 10)
    assert 0 < cdp_delta(Fraction(1, 10**350), Fraction(1)) < Fraction(1, 10**300)
    assert 0 < cdp_epsilon(Fraction(1), Fraction(1, 10**400)) < 62
    assert cdp_epsilon(Fraction(1, 10**6), Fraction(1, 2)) == 0
    assert cdp_rho(Fraction(10**30), Fraction(1, 10**9)) > 10**17
    tiny = cdp_rho(Fraction(1, 10**12), Fraction(1, 10**20))
    assert 0 < cdp_epsilon(tiny, Fraction(1, 10**20)) <= Fraction(1, 10**12)


def test_what_is_refused() -> None:
    for delta in (Fraction(0), Fraction(1), Fraction(-1)):
        with pytest.raises(InputError):
            cdp_epsilon(Fraction(1), delta)
    with pytest.raises(InputError, match="negative"):
        cdp_delta(Fraction(-1), Fraction(1))
    for delta in (Fraction(0), Fraction(1)):
        with pytest.raises(InputError, match="delta"):
            cdp_rho(Fraction(1), delta)
