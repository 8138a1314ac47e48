"""Do the real samplers follow the law that is charged? Chi-square tests with power in both directions.

Each test that should pass does so with probability 1 - 1e-6. Noise must also be caught when its scale is wrong by a
factor of 0.7, 0.9, 1.1 or 1.4, choices by 0.7 or 1.4 (each missed with probability below 1e-8, by the noncentral
chi-square law). Secure streams cannot be seeded, so these draws differ from run to run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import chi2

from understudy.core.mechanism import Stream
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric
from understudy.privacy.randomness.draws import KeyedStream, uniform_below
from understudy.privacy.randomness.streams import SecureStream, SeededStream

FALSE_ALARM = 1e-6
WRONG = (0.7, 0.9, 1.1, 1.4)
DRAWS = 30_000
CHOICES = 10_000
SMALLEST_BIN = 0.01  # 300 expected draws: the chi-square law holds far into its tail

STREAMS: dict[str, Callable[[], Stream]] = {"secure": SecureStream, "seeded": lambda: SeededStream(20261115)}
# Whole numbers too: a sampler draws a uniform number below the numerator of its scale (Gaussian noise of scale s begins
# with Laplace noise of scale s + 1), and that of 3.3 as a float is so large that a bias at its end does not show.
LAWS = [(Geometric, scale) for scale in (0.7, 3.0, 3.3, 5.0, 45.0)]
LAWS += [(DiscreteGaussian, scale) for scale in (0.5, 2.0, 3.3, 5.0, 45.0)]


def fits(observed: NDArray[np.int64], probabilities: NDArray[np.float64]) -> bool:
    """Whether counts agree with probabilities, wrongly denied with probability 1e-6."""
    assert math.isclose(probabilities.sum(), 1, rel_tol=1e-9)
    expected = observed.sum() * probabilities
    assert expected.min() > 100
    return bool(((observed - expected) ** 2 / expected).sum() < chi2.isf(FALSE_ALARM, len(expected) - 1))


def bins_of(noise: Geometric | DiscreteGaussian) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Upper ends of runs of whole numbers that each hold a hundredth or more, and what they hold."""
    reach = math.ceil(45 * float(noise.scale)) + 5
    x = np.arange(-reach, reach + 1)
    mass = np.exp(noise.log_pmf(x, np.zeros_like(x)))
    ends, held, sum_so_far = [], [], 0.0
    for value, p in zip(x.tolist(), mass.tolist(), strict=True):
        sum_so_far += p
        if sum_so_far >= SMALLEST_BIN:
            ends.append(value)
            held.append(sum_so_far)
            sum_so_far = 0.0
    held[-1] += sum_so_far  # the rest of the upper tail joins the last run
    return np.array(ends[:-1], dtype=np.int64), np.array(held)


def binned(draws: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(ends, draws, side="left"), minlength=len(ends) + 1)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(("kind", "scale"), LAWS)
def test_noise_follows_the_stated_law(kind: type[Geometric | DiscreteGaussian], scale: float, stream: str) -> None:
    noise = kind(scale=scale)
    ends, held = bins_of(noise)
    draws = noise.run(np.full(DRAWS, 1000), STREAMS[stream]()) - 1000
    assert fits(binned(draws, ends), held)


@pytest.mark.parametrize("factor", WRONG)
@pytest.mark.parametrize(("kind", "scale"), LAWS)
def test_noise_of_another_scale_is_caught(
    kind: type[Geometric | DiscreteGaussian], scale: float, factor: float
) -> None:
    """The secure sampler is asked for the wrong scale at one size of each law; the seeded one at all."""
    ends, held = bins_of(kind(scale=scale))
    stream = SecureStream() if scale == 3.3 else SeededStream(7)
    draws = kind(scale=scale * factor).run(np.zeros(DRAWS, dtype=np.int64), stream)
    assert not fits(binned(draws, ends), held)


@pytest.mark.parametrize(("kind", "scale", "bound"), [(Geometric, 3.0, 3), (DiscreteGaussian, 2.0, 3)])
def test_a_biased_uniform_draw_underneath_is_caught(
    kind: type[Geometric | DiscreteGaussian], scale: float, bound: int
) -> None:
    """As in OpenDP up to 0.14.1: the last number below the bound came 1.18 times as often as each other.

    The draws are seeded; fresh ones would miss with probability below 1e-5 (noncentrality about 185, threshold 80).
    """
    ends, held = bins_of(kind(scale=scale))
    draws = kind(scale=scale).run(np.zeros(2 * DRAWS, dtype=np.int64), SeededStream(11))
    often = (np.abs(draws) % bound == bound - 1) | (np.random.default_rng(11).random(len(draws)) < 1 / 1.18)
    assert not fits(binned(draws[often][:DRAWS], ends), held)


@pytest.mark.parametrize("kind", [Geometric, DiscreteGaussian])
def test_neighbouring_cells_get_independent_noise(kind: type[Geometric | DiscreteGaussian]) -> None:
    noise = kind(scale=2)
    x = np.arange(-200, 201)
    mass = np.exp(noise.log_pmf(x, np.zeros_like(x)))
    single = np.array([mass[x < 0].sum(), mass[x == 0].sum(), mass[x > 0].sum()])
    draws = noise.run(np.zeros(DRAWS, dtype=np.int64), SecureStream())

    def pairs(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(3 * (np.sign(first) + 1) + np.sign(second) + 1, minlength=9)

    law = np.outer(single, single).ravel()
    assert fits(pairs(draws[::2], draws[1::2]), law)
    assert not fits(pairs(draws[::2], draws[::2]), law)


SCORES = np.array([0, 4, 7, 7, -30], dtype=np.int64)
CHOICE_SCALE = 6.0


def permute_and_flip(scores: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """The law by its definition: visit candidates in random order, stop at each with exp((score - best) / scale)."""
    stop = np.exp((scores - scores.max()) / scale)
    chosen = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        left = 1.0
        for i in order:
            chosen[i] += left * stop[i]
            left *= 1 - stop[i]
    return chosen / math.factorial(len(scores))


def exponential_noise_maximum(scores: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """The law by its other definition: the largest of score + exponential noise."""
    best = float(scores.max())

    def density(t: float, i: int) -> float:
        others = math.prod(-math.expm1(-(t - float(s)) / scale) for j, s in enumerate(scores) if j != i)
        return math.exp(-(t - float(scores[i])) / scale) / scale * others

    return np.array([quad(density, best, best + 60 * scale, args=(i,), limit=200)[0] for i in range(len(scores))])


def test_the_two_descriptions_of_the_choice_agree() -> None:
    """Ding et al., arXiv:2105.07260: permute and flip is the maximum with exponential noise."""
    assert np.allclose(permute_and_flip(SCORES, 6.0), exponential_noise_maximum(SCORES, 6.0), atol=1e-9)


def softmax(scores: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """The exponential mechanism, which the maximum with Gumbel noise is."""
    weights = np.exp((scores - scores.max()) / scale)
    return weights / weights.sum()


LAWS = {"exponential": permute_and_flip, "gumbel": softmax}


def choices(stream: Stream, scale: float, law: Any = "exponential") -> NDArray[np.int64]:
    exact = Fraction(scale)
    drawn = [stream.noisy_argmax(SCORES, exact, law) for _ in range(CHOICES)]
    return np.bincount(drawn, minlength=len(SCORES))


def lumped(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The hopeless last candidate is counted with the first, so that every expected count is large."""
    return np.array([values[0] + values[4], *values[1:4]])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("stream", STREAMS)
def test_choices_follow_the_stated_law(stream: str, law: str) -> None:
    expected = lumped(LAWS[law](SCORES, CHOICE_SCALE))
    assert fits(lumped(choices(STREAMS[stream](), CHOICE_SCALE, law)), expected)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("factor", [0.7, pytest.param(1.4, marks=pytest.mark.full)])
def test_choices_of_another_scale_are_caught(factor: float, law: str) -> None:
    expected = lumped(LAWS[law](SCORES, CHOICE_SCALE))
    assert not fits(lumped(choices(SecureStream(), CHOICE_SCALE * factor, law)), expected)


@pytest.mark.parametrize("bound", [2, 6, 37, 3 * 2**61])
def test_uniform_draws_are_uniform(bound: int) -> None:
    groups = min(bound, 37)
    drawn = uniform_below(KeyedStream(), bound, DRAWS, "uniform")
    ends = np.array([bound * (i + 1) // groups for i in range(groups - 1)], dtype=np.int64)
    law = np.diff([0, *ends.tolist(), bound]) / bound
    assert fits(np.bincount(np.searchsorted(ends, drawn, side="right"), minlength=groups), law)


def test_a_remainder_without_rejection_is_caught() -> None:
    """3 * 2^61 does not divide 2^64: taking remainders alone would favour the lower numbers by half."""
    bound = 3 * 2**61
    drawn = (KeyedStream().words(DRAWS, "biased") % np.uint64(bound)).astype(np.int64)
    observed = np.bincount(drawn // 2**61, minlength=3)
    assert not fits(observed, np.full(3, 1 / 3))
