"""Gaussian noise by its exact profile: against integrals, against the enumerated loss of discrete noise, both ways."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

import understudy as us
from understudy.errors import BudgetError
from understudy.privacy.exact.gaussian_profile import (
    LEAST_DELTA,
    SMOOTHING,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu_squared,
    mu_squared,
    mu_squared_of_range,
)
from understudy.privacy.mechanisms.noise import DiscreteGaussian
from understudy.privacy.promise.accountant import Accountant, compose, epsilon_at, satisfies
from understudy.privacy.promise.calibrate import noise_for
from understudy.privacy.promise.conversion import cdp_delta, cdp_epsilon, cdp_rho
from understudy.privacy.promise.event import GaussianNoise, Sensitivity

F = Fraction
UNIT = us.Unit(kind="add_remove")


def discrete(scale, reach):
    """Probabilities of discrete Gaussian noise on -reach..reach, far enough out for what is left to be nothing."""
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale**2))
    return weights / weights.sum()


def enumerated_delta(scales, moves, epsilon):
    """The hockey-stick divergence of several cells with noise, each moved by a whole number: over all outcomes."""
    losses, chances = np.zeros(1), np.ones(1)
    for scale, move in zip(scales, moves, strict=True):
        reach = math.ceil(12 * scale)
        noise = np.arange(-reach, reach + 1)
        loss = (2 * move * noise + move**2) / (2 * scale**2)
        losses = np.add.outer(losses, loss).ravel()
        chances = np.multiply.outer(chances, discrete(scale, reach)).ravel()
    return float((chances * np.maximum(-np.expm1(epsilon - losses), 0)).sum())


@pytest.mark.parametrize(("mu", "epsilon"), list(product((0.05, 0.3, 1.0, 3.0), (0.01, 0.2, 1.0, 4.0))))
def test_the_profile_is_the_hockey_stick_of_two_normal_laws(mu, epsilon):
    density = stats.norm.pdf
    cut = epsilon / mu + mu / 2  # where the loss is epsilon
    exact = integrate.quad(
        lambda x: density(x - mu) - math.exp(epsilon) * density(x), cut, cut + 40, points=[mu], limit=500,
        epsabs=0, epsrel=1e-9,
    )[0]  # fmt: skip
    found = float(gaussian_delta(F(mu) ** 2, F(epsilon)))
    assert found == pytest.approx(exact, rel=1e-7, abs=1e-249)
    assert found >= exact * (1 - 1e-9)
    assert found <= max(float(cdp_delta(F(mu) ** 2 / 2, F(epsilon))), LEAST_DELTA)


@pytest.mark.parametrize("moves", [(1,), (1, 1), (2, 1), (1, 1, 1)])
@pytest.mark.parametrize("scale", [2.4, 4.0, 9.0])
def test_discrete_noise_never_loses_more_than_it_is_charged(scale, moves):
    """Every outcome of up to three cells with different scales. At larger scales the charge is close to the truth."""
    scales = [scale * (1 + 0.13 * place) for place in range(len(moves))]
    if len(moves) == 3 and scale > 4:
        scales = [5.0, 5.5, 6.5]  # a hundred million outcomes would be too many
    charged = sum((mu_squared(F(move) ** 2, F(one)) for one, move in zip(scales, moves, strict=True)), F(0))
    for epsilon in (0.05, 0.3, 1.0, 2.5):
        exact = enumerated_delta(scales, moves, epsilon)
        assert exact <= float(gaussian_delta(charged, F(epsilon))) * (1 + 1e-9)
        without = sum(F(move) ** 2 / F(one) ** 2 for one, move in zip(scales, moves, strict=True))
        if exact > 1e-12:  # without the variance given away it would be as good as exact: nothing else is lost
            assert exact == pytest.approx(float(gaussian_delta(without, F(epsilon))), rel=0.35)


def test_less_noise_than_charged_is_seen():
    """Four fifths of the scale lose more than the charge allows, at every epsilon: the bound has nothing to spare."""
    charged = mu_squared(F(1), F(30))
    for epsilon in (0.02, 0.05, 0.1, 0.15):
        assert enumerated_delta([30.0], [1], epsilon) <= float(gaussian_delta(charged, F(epsilon)))
        assert enumerated_delta([24.0], [1], epsilon) > float(gaussian_delta(charged, F(epsilon)))


@pytest.mark.parametrize("scale", [3.0, 8.0])
def test_discrete_noise_is_normal_noise_rounded_at_random(scale):
    """The lemma behind the charge: normal noise of variance sigma^2 - 5, rounded by discrete noise around it."""
    wide = math.sqrt(scale**2 - SMOOTHING)
    whole = np.arange(-200, 201)

    def rounded(z):
        def both(y):
            around = np.exp(-((whole - y) ** 2) / (2 * SMOOTHING)).sum()
            return stats.norm.pdf(y, scale=wide) * math.exp(-((z - y) ** 2) / (2 * SMOOTHING)) / around

        return integrate.quad(both, z - 60, z + 60, points=[z, 0], limit=800, epsabs=0, epsrel=1e-11)[0]

    law = discrete(scale, 400)
    for z in (0, 1, 4, 11):
        assert rounded(z) == pytest.approx(law[400 + z], rel=1e-9)


exponents = st.floats(-3, 1.5)


@given(log_epsilon=exponents, log_delta=st.floats(-14, -0.5))
@settings(max_examples=100, deadline=None)
def test_converting_there_and_back_keeps_the_promise(log_epsilon, log_delta):
    epsilon, delta = F(10**log_epsilon), F(10**log_delta)
    allowed = gaussian_mu_squared(epsilon, delta)
    assert gaussian_epsilon(allowed, delta) <= epsilon
    assert gaussian_epsilon(allowed * F(101, 100), delta) > epsilon
    assert allowed >= 2 * cdp_rho(epsilon, delta) * F(999_999, 1_000_000)
    assert gaussian_epsilon(allowed, delta) <= cdp_epsilon(allowed / 2, delta)


def test_beyond_what_floats_hold_zcdp_is_used():
    assert gaussian_epsilon(F(10**6), F(1, 10**6)) == F(float(cdp_epsilon(F(10**6) / 2, F(1, 10**6))))
    assert gaussian_epsilon(F(1, 100), F(1, 10**280)) == F(float(cdp_epsilon(F(1, 200), F(1, 10**280))))
    assert gaussian_delta(F(0), F(1)) == 0
    assert mu_squared(F(1), F(2)) is None


def event(scale, l2_squared=1):
    return GaussianNoise(l2_squared=F(l2_squared), scale=F(scale))


def test_what_chooses_on_the_way_is_read_by_the_one_bound_it_named():
    events = [event(30), event(40)]
    delta = F(1, 10**6)
    least, by_rho, by_mu = (compose(events, UNIT, by=by) for by in ("least", "concentrated", "gaussian"))
    assert least.mu_squared == F(1, 895) + F(1, 1595)
    assert epsilon_at(least, delta) == epsilon_at(by_mu, delta) == gaussian_epsilon(least.mu_squared, delta)
    assert epsilon_at(by_mu, delta) < epsilon_at(by_rho, delta) == cdp_epsilon(by_rho.rho, delta)
    little = [event(2), event(30)]  # the first has no mu^2: whoever named that bound has none
    assert epsilon_at(compose(little, UNIT, by="gaussian"), delta) is None
    assert epsilon_at(compose(little, UNIT, by="least"), delta) == cdp_epsilon(compose(little, UNIT).rho, delta)
    budget = us.ApproxDP(epsilon=epsilon_at(by_mu, delta), delta=delta)
    for by, most in (("least", 2), ("gaussian", 2), ("concentrated", 1)):
        accountant = Accountant(unit=UNIT, budget=budget, by=by)
        for one in events[:most]:
            accountant.charge(one)
        with pytest.raises(BudgetError):
            accountant.charge(event(40))
        assert len(accountant.events) == most


def normal_delta(mu2, epsilon):
    mu = math.sqrt(float(mu2))
    return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("length", [0.02, 0.3, 1.0, 3.0, 8.0])
def test_a_loss_within_a_range_is_within_that_of_gaussian_noise(length):
    """All two-point laws whose log ratio takes the ends of an interval of this length, wherever it lies.

    The hockey-stick divergence, both ways and at every epsilon, is below the charged one; 0.97 of the charge would be
    too little where ranges are short, as those of choices are.
    """
    charged = mu_squared_of_range(F(length))
    reached = 0.0
    for top in np.linspace(0, length, 41)[1:-1]:
        second = -math.expm1(top - length) / (math.exp(top) - math.exp(top - length))  # chance of the first outcome
        first = math.exp(top) * second
        for epsilon in (0.0, 0.2 * length, 0.45 * length, 0.7 * length):
            forth = max(first - math.exp(epsilon) * second, 0.0)
            back = max((1 - second) - math.exp(epsilon) * (1 - first), 0.0)
            assert max(forth, back) <= normal_delta(charged, epsilon) * (1 + 1e-9)
            reached = max(reached, max(forth, back) / normal_delta(0.97 * float(charged), epsilon))
    assert (reached > 1) == (length <= 1)


def test_choices_and_noise_add_up_to_one_gaussian():
    """A choice between two followed by noisy counts, every outcome enumerated: below the sum of both charges."""
    scale, length = 6.0, 0.4
    charged = mu_squared(F(1), F(scale)) + mu_squared_of_range(F(length))
    chosen = 1 / (1 + math.exp(-length / 2))
    for epsilon in (0.05, 0.2, 0.5):
        parts = []
        for chance, loss in ((chosen, length / 2), (1 - chosen, -length / 2)):
            parts.append(chance * enumerated_delta([scale], [1], epsilon - loss))
        assert sum(parts) <= float(gaussian_delta(charged, F(epsilon)))


def test_a_budget_with_a_delta_buys_a_tenth_less_variance():
    budget = us.ApproxDP(epsilon=1, delta="1e-9")
    sensitivities = [Sensitivity(l1=1, l2_squared=1, linf=1)] * 20
    noises = noise_for(budget, sensitivities)
    before = 20 / (2 * cdp_rho(budget.epsilon, budget.delta))
    assert all(isinstance(noise, DiscreteGaussian) for noise in noises)
    assert 0.89 < float(noises[0].scale) ** 2 / float(before) < 0.92
    events = [noise.event(one) for noise, one in zip(noises, sensitivities, strict=True)]
    assert satisfies(compose(events, UNIT, by="least"), budget)
    assert not satisfies(compose([*events, event(10**4)], UNIT, by="least"), budget)


def delta_by_logarithms(mu, epsilon):
    """The profile by logarithms of tails, which do not underflow."""
    first, second = special.log_ndtr(mu / 2 - epsilon / mu), special.log_ndtr(-mu / 2 - epsilon / mu)
    return math.exp(first) * -math.expm1(epsilon + second - first)


@given(away=st.floats(30, 40), epsilon=st.floats(150, 500), lower=st.booleans())
@settings(max_examples=300, deadline=None)
@example(away=38.5, epsilon=480.0, lower=True)
def test_the_profile_is_not_understated_where_its_second_tail_leaves_the_normal_floats(away, epsilon, lower):
    """erfc below 1e-308 has few digits or none, while exp(epsilon) times it is no small part of delta."""
    root = math.sqrt(max(away**2 - 2 * epsilon, 0))
    mu = away - root if lower else min(away + root, 63.9)
    exact = delta_by_logarithms(mu, epsilon)
    found = float(gaussian_delta(F(mu) ** 2, F(epsilon)))
    assert found >= exact * (1 - 1e-9)
    assert found <= max(exact * (1 + 1e-4), LEAST_DELTA)


def test_numbers_no_float_holds_are_read_by_zcdp():
    assert gaussian_epsilon(F(10**350), F(1, 10**9)) == cdp_epsilon(F(10**350) / 2, F(1, 10**9)) > 10**349
    assert gaussian_delta(F(1, 10**400), F(1)) == F(LEAST_DELTA)
    assert mu_squared(F(1), F(2**40)) is not None
    assert mu_squared(F(1), F(2**40) + 1) is None  # never sampled, and beyond what the cost of rounding is proved for


@pytest.mark.parametrize(
    ("epsilon", "delta"), [("0.0025571571731010556", "1e-20"), ("0.000117", "2.7e-106"), ("499", "0.999")]
)
def test_what_a_budget_buys_is_accepted_where_tails_cancel_or_floats_end(epsilon, delta):
    allowed = gaussian_mu_squared(F(epsilon), F(delta))
    for less in (F(1), 1 - F(1, 2**50), 1 - F(1, 2**40)):
        assert gaussian_epsilon(allowed * less, F(delta)) <= F(epsilon)
