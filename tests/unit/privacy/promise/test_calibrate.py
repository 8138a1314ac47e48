from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from understudy.errors import InputError, InternalError, UnsupportedError
from understudy.privacy.exact.gaussian_profile import gaussian_mu_squared
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric
from understudy.privacy.promise.accountant import Loss, compose, satisfies
from understudy.privacy.promise.calibrate import noise_for
from understudy.privacy.promise.conversion import cdp_rho
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, NonPrivate, ProbabilisticDP, PureDP, Unit
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.randomness.streams import LARGEST_SCALE, SMALLEST_SCALE

F = Fraction
UNIT = Unit()
ONE = Sensitivity(l1=2, l2_squared=2, linf=1)
TIGHT = 1 - F(1, 10**9)

decimals = st.decimals(min_value="0.0001", max_value="100", places=7).filter(lambda value: value > 0)
deltas = st.tuples(st.integers(1, 999), st.integers(4, 20)).map(lambda pair: F(pair[0], 10 ** pair[1]))
queries = st.lists(st.integers(1, 50), min_size=1, max_size=6).map(
    lambda rows: [Sensitivity(l1=2 * b, l2_squared=2 * b * b, linf=b) for b in rows]
)


def shares_of(weights: list[int]) -> list[Fraction]:
    return [F(weight, sum(weights)) for weight in weights]


def spent(budget: Definition, sensitivities: list[Sensitivity], shares: list[Fraction] | None) -> Loss:
    noises = noise_for(budget, sensitivities, shares)
    return compose([n.event(s) for n, s in zip(noises, sensitivities, strict=True)], UNIT, by="least")


@given(epsilon=decimals, sensitivities=queries, data=st.data())
@settings(max_examples=150, deadline=None)
def test_pure_budgets_are_met_and_never_exceeded(epsilon, sensitivities, data) -> None:
    weights = data.draw(st.lists(st.integers(1, 1000), min_size=len(sensitivities), max_size=len(sensitivities)))
    budget = PureDP(epsilon=epsilon)
    loss = spent(budget, sensitivities, shares_of(weights))
    assert satisfies(loss, budget)
    assert loss.epsilon is not None
    assert loss.epsilon >= budget.epsilon * TIGHT


@given(rho=decimals, sensitivities=queries, data=st.data())
@settings(max_examples=150, deadline=None)
def test_concentrated_budgets_are_met_and_never_exceeded(rho, sensitivities, data) -> None:
    weights = data.draw(st.lists(st.integers(1, 1000), min_size=len(sensitivities), max_size=len(sensitivities)))
    budget = ZCDP(rho=rho)
    loss = spent(budget, sensitivities, shares_of(weights))
    assert satisfies(loss, budget)
    assert loss.rho is not None
    assert loss.rho >= budget.rho * TIGHT


@given(epsilon=decimals, delta=deltas, sensitivities=queries)
@example(epsilon="0.0001", delta=F(71, 20_000_000_000), sensitivities=[ONE] * 3)  # tails nearly cancel
@settings(max_examples=100, deadline=None)
def test_approximate_budgets_are_met_and_never_exceeded(epsilon, delta, sensitivities) -> None:
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    loss = spent(budget, sensitivities, None)
    assert satisfies(loss, budget)
    # All of one currency is spent, the one that bought the noise; read by another the loss may be less.
    assert loss.rho is not None
    spent_of = [loss.rho / cdp_rho(budget.epsilon, delta)]
    if loss.epsilon is not None:
        spent_of.append(loss.epsilon / budget.epsilon)
    if loss.mu_squared is not None:
        spent_of.append(loss.mu_squared / gaussian_mu_squared(budget.epsilon, delta))
    assert max(spent_of) >= TIGHT


def test_no_noise_is_proved_to_keep_definition_6() -> None:
    with pytest.raises(UnsupportedError, match="no noise can be calibrated to probabilistic"):
        noise_for(ProbabilisticDP(epsilon=1, delta="1e-5"), [ONE])


def test_ten_tenths_fit_a_limit_of_one() -> None:
    noises = noise_for(PureDP(epsilon=1), [ONE] * 10)
    assert {noise.scale for noise in noises} == {F(20)}
    assert spent(PureDP(epsilon=1), [ONE] * 10, None).epsilon == 1


def test_a_root_just_above_a_float_is_rounded_up() -> None:
    assert noise_for(ZCDP(rho=1 / F(9)), [ONE])[0].scale == 3
    assert noise_for(ZCDP(rho=1 / (9 + F(1, 2**100))), [ONE])[0].scale > 3


def test_shares_are_kept_apart() -> None:
    first, second = noise_for(PureDP(epsilon=1), [ONE, ONE], [F(1, 3), F(2, 3)])
    assert (first.scale, second.scale) == (6, 3)
    first, second = noise_for(ZCDP(rho=1), [ONE, ONE], ["0.2", "0.8"])
    assert abs(float(first.scale / second.scale) - 2) < 1e-12


def test_zcdp_takes_the_law_with_less_variance() -> None:
    # A whole table under replace: L1 = 2, L2^2 = 2. Gaussian variance 1/rho, geometric about 2 * 4/(2 rho).
    assert isinstance(noise_for(ZCDP(rho="0.01"), [ONE])[0], DiscreteGaussian)
    # One cell with little noise: sensitivity 1 and epsilon = sqrt(2 rho) large favours the geometric law.
    single = Sensitivity(l1=1, l2_squared=1, linf=1)
    (noise,) = noise_for(ZCDP(rho=20), [single])
    gaussian, geometric = DiscreteGaussian(scale=(1 / 40) ** 0.5), Geometric(scale=1 / 40**0.5)
    assert noise.variance == pytest.approx(min(gaussian.variance, geometric.variance), rel=1e-9)


def test_approximate_budgets_take_the_lesser_total_variance() -> None:
    strict = ApproxDP(epsilon=1, delta="1e-9")
    assert all(isinstance(noise, Geometric) for noise in noise_for(strict, [ONE]))
    assert all(isinstance(noise, DiscreteGaussian) for noise in noise_for(strict, [ONE] * 50))
    for count in (1, 2, 5, 10, 50):
        chosen = sum(noise.variance for noise in noise_for(strict, [ONE] * count))
        pure = sum(noise.variance for noise in noise_for(PureDP(epsilon=1), [ONE] * count))
        rho = cdp_rho(strict.epsilon, strict.delta)
        concentrated = sum(noise.variance for noise in noise_for(ZCDP(rho=rho), [ONE] * count))
        exact = 2 * count**2 / float(gaussian_mu_squared(strict.epsilon, strict.delta)) + 5 * count
        assert chosen == pytest.approx(min(pure, concentrated, exact), rel=1e-9)


def test_budgets_at_the_limits_of_exact_sampling() -> None:
    assert noise_for(PureDP(epsilon="1e15"), [ONE])[0].scale == SMALLEST_SCALE
    assert noise_for(PureDP(epsilon=F(2, 2**40)), [ONE])[0].scale == LARGEST_SCALE
    for budget in (PureDP(epsilon="1e-12"), ZCDP(rho="1e-30"), ApproxDP(epsilon="1e-12", delta="1e-15")):
        with pytest.raises(InputError, match=r"2\^40"):
            noise_for(budget, [ONE])
    # One way is out of reach, the other is not.
    assert isinstance(noise_for(ApproxDP(epsilon="1e-12", delta="0.01"), [ONE])[0], DiscreteGaussian)


def test_what_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no guarantee"):
        noise_for(NonPrivate(), [ONE])
    with pytest.raises(InputError, match="no query"):
        noise_for(PureDP(epsilon=1), [])
    with pytest.raises(InputError, match="exactly 1"):
        noise_for(PureDP(epsilon=1), [ONE, ONE], [F(1, 3), F(1, 3)])
    with pytest.raises(InputError, match="exactly 1"):
        noise_for(PureDP(epsilon=1), [ONE, ONE], [2, -1])
    with pytest.raises(InputError, match="2 queries and 1 shares"):
        noise_for(PureDP(epsilon=1), [ONE, ONE], [1])
    with pytest.raises(InternalError, match="public"):
        noise_for(PureDP(epsilon=1), [Sensitivity(l1=0, l2_squared=0, linf=0)])
