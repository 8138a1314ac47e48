from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from understudy.core.mechanism import Mechanism
from understudy.errors import InputError, InternalError, UnknownNameError
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric, log_normaliser, mechanism_from_json
from understudy.privacy.promise.event import GaussianNoise, GeometricNoise, Sensitivity
from understudy.privacy.randomness.streams import SecureStream, SeededStream

KINDS = (Geometric, DiscreteGaussian)
SMALLEST = Fraction(1, 2**40)
SCALES = (SMALLEST, 0.01, 0.1, 0.3, 0.39, 0.4, 0.45, 1, 2.5, 30)
ONE = Sensitivity(l1=2, l2_squared=2, linf=1)


def exact_law(kind: type, scale: Fraction, x: int) -> Decimal:
    """Straight from the definition, with 60 digits."""
    with localcontext(prec=60):
        s = Decimal(scale.numerator) / Decimal(scale.denominator)
        if kind is Geometric:
            a = (-1 / s).exp()
            return ((1 - a) / (1 + a)).ln() - abs(x) / s
        return -(Decimal(x) ** 2) / (2 * s**2) - exact_log_normaliser(s)


@cache
def exact_log_normaliser(s: Decimal) -> Decimal:
    with localcontext(prec=60):
        terms = range(1, 2 + int(14 * s))  # the next term is below exp(-98) of the first
        return (1 + 2 * sum((-(Decimal(k) ** 2) / (2 * s**2)).exp() for k in terms)).ln()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", SCALES)
def test_log_law_against_sixty_digits(kind: type[Geometric | DiscreteGaussian], scale: float | Fraction) -> None:
    noise = kind(scale=scale)
    out = np.array([0, 1, -1, 2, 3, 17, -1000, 10**6])
    found = noise.log_pmf(out, np.zeros_like(out))
    for x, value in zip(out.tolist(), found.tolist(), strict=True):
        exact = float(exact_law(kind, noise.scale, x))
        assert math.isclose(value, exact, rel_tol=1e-14, abs_tol=1e-300), x


@pytest.mark.parametrize("sigma", [0.2, 0.35, 0.398942, 0.398943, 0.5, 1.0, 3.0])
def test_the_two_series_of_the_normaliser_agree(sigma: float) -> None:
    assert math.isclose(log_normaliser(sigma), float(exact_log_normaliser(Decimal(sigma))), rel_tol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.1, 0.3, 0.4, 1, 2.5, 30])
def test_probabilities_add_to_one_and_give_the_variance(kind: type[Geometric | DiscreteGaussian], scale: float) -> None:
    noise = kind(scale=scale)
    x = np.arange(-2000, 2001)
    p = np.exp(noise.log_pmf(x, np.zeros_like(x)))
    assert math.isclose(math.fsum(p), 1, rel_tol=1e-12)
    assert math.isclose(math.fsum(p * x.astype(float) ** 2), noise.variance, rel_tol=1e-10)


@pytest.mark.parametrize("scale", [1e4, 1e9, 2**40])
def test_large_scales_meet_the_continuous_law(scale: float) -> None:
    assert math.isclose(DiscreteGaussian(scale=scale).variance, scale**2, rel_tol=1e-14)
    assert math.isclose(Geometric(scale=scale).variance, 2 * scale**2 - 1 / 6, rel_tol=1e-12)
    assert math.isclose(Geometric(scale=scale).log_pmf(np.array(0), np.array(0)), -math.log(2 * scale), rel_tol=1e-8)


def test_the_least_noise_is_none() -> None:
    for kind in KINDS:
        noise = kind(scale=SMALLEST)
        assert noise.variance == 0
        assert noise.log_pmf(np.array([0, 1]), np.array([0, 0])).tolist()[0] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_likelihood_ratios_stay_within_the_stated_loss(kind: type[Geometric | DiscreteGaussian]) -> None:
    """The law that inference uses is the law that is charged: exactly for pure loss, as a Renyi bound for zCDP."""
    noise = kind(scale=1.7)
    x = np.arange(-400, 401)
    p, q = noise.log_pmf(x, np.zeros_like(x)), noise.log_pmf(x, np.ones_like(x))
    if kind is Geometric:
        assert math.isclose(np.abs(p - q).max(), 1 / 1.7, rel_tol=1e-12)
    else:
        rho = 1 / (2 * 1.7**2)
        for alpha in (1.5, 2, 5, 20):
            divergence = math.log(math.fsum(np.exp(alpha * p - (alpha - 1) * q))) / (alpha - 1)
            assert divergence <= alpha * rho * (1 + 1e-12)
            assert divergence > 0.9 * alpha * rho


def test_scales_round_up_to_a_float() -> None:
    for kind in KINDS:
        for text in ("0.1", "0.3", "2.7", "1e9", "123456789.123456789"):
            scale = kind(scale=text).scale
            assert scale >= Fraction(text)
            assert Fraction(float(scale)) == scale
            assert Fraction(math.nextafter(float(scale), 0)) < Fraction(text)
        third = kind(scale=Fraction(1, 3)).scale
        assert third >= Fraction(1, 3)
        assert kind(scale=third).scale == third
    assert Geometric(scale=0.3).scale > Fraction(0.3)  # 0.3 means three tenths; its nearest float lies below


def test_events() -> None:
    assert Geometric(scale=4).event(ONE) == GeometricNoise(l1=Fraction(2), scale=Fraction(4))
    assert DiscreteGaussian(scale=4).event(ONE) == GaussianNoise(l2_squared=Fraction(2), scale=Fraction(4))
    for kind in KINDS:
        with pytest.raises(InternalError, match="public"):
            kind(scale=1).event(Sensitivity(l1=0, l2_squared=0, linf=0))
        assert isinstance(kind(scale=1), Mechanism)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", [SecureStream(), SeededStream(5)], ids=["secure", "seeded"])
def test_running_keeps_shape_and_never_overflows(
    kind: type[Geometric | DiscreteGaussian], stream: SecureStream | SeededStream
) -> None:
    values = np.full((2, 3), 2**62 - 1)
    out = kind(scale=5).run(values, stream)
    assert out.shape == (2, 3)
    assert out.dtype == np.int64
    assert np.abs(out - values).max() < 1000
    assert values.min() == 2**62 - 1  # the input is left alone
    assert kind(scale=1).run(np.array(7), stream).shape == ()
    assert kind(scale=1).run(np.zeros((0, 2), dtype=np.int64), stream).shape == (0, 2)
    for bad in (2**62, -(2**62), 2**63 - 1, -(2**63)):
        with pytest.raises(InternalError, match=r"2\^62") as caught:
            kind(scale=1).run(np.array([1, bad]), stream)
        assert str(bad) not in str(caught.value)
    with pytest.raises(InputError, match="whole numbers"):
        kind(scale=1).run(np.array([0.5]), stream)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_json_round_trip(kind: type[Geometric | DiscreteGaussian]) -> None:
    for scale in (0.1, "1e-9", Fraction(10, 3), 7, 2**40):
        noise = kind(scale=scale)
        assert mechanism_from_json(noise.to_json()) == noise
        assert noise.to_json()["mechanism"] == kind.name


def test_what_is_refused() -> None:
    for scale in (0, -1, "nan", "inf", "abc", 2**41, 2.0**-41, True):
        with pytest.raises(InputError, match="scale"):
            Geometric(scale=scale)
    with pytest.raises(UnknownNameError, match="geometric"):
        mechanism_from_json({"mechanism": "geometrik", "scale": "1"})
    with pytest.raises(InputError, match="exactly a scale"):
        mechanism_from_json({"mechanism": "geometric", "scale": "1", "epsilon": "1"})
    with pytest.raises(InputError, match="exact value"):
        mechanism_from_json({"mechanism": "geometric", "scale": "0.1"})
