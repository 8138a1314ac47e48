"""Back from merged bins to the fine grid: the law of the rows, and that taking the noise off is worth it."""

import numpy as np
import pytest
from scipy import stats

from understudy.models.published_model import weights_within
from understudy.models.sample import draw_given, draw_inside
from understudy.privacy.randomness.streams import SeededStream

INSIDE = np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3])
WEIGHTS = np.array([1.0, 0.0, 3.0, 2.0, 2.0, 5.0, 0.1, 0.2, 0.0, 0.7])
SHARES = WEIGHTS / np.bincount(INSIDE, weights=WEIGHTS)[INSIDE]


@pytest.mark.parametrize("by", ["rounding", "multinomial"])
def test_codes_follow_their_weights_within_each_state(by):
    """Chi-square in every state, or within one of the expectation; false alarm 4e-6. A share off by 0.1 is seen."""
    sizes = np.array([3000, 2000, 10, 4000])
    state = np.random.default_rng(0).permutation(np.repeat(np.arange(4), sizes))
    drawn = draw_inside(INSIDE, WEIGHTS, state, by, SeededStream(1), "test")
    assert np.array_equal(INSIDE[drawn], state)
    counts = np.bincount(drawn, minlength=len(INSIDE))
    assert not counts[WEIGHTS == 0].any()
    expected = SHARES * sizes[INSIDE]
    if by == "rounding":
        assert np.abs(counts - expected).max() < 1
        return
    off = SHARES + np.array([0.1, 0, -0.1, 0.1, -0.1, 0, 0.1, 0, 0, -0.1])
    for one in (0, 1, 3):
        kept = (one == INSIDE) & (WEIGHTS > 0)
        limit = stats.chi2.isf(1e-6, kept.sum() - 1)
        assert stats.chisquare(counts[kept], expected[kept]).statistic < limit
        assert stats.chisquare(counts[kept], (off * sizes[INSIDE])[kept]).statistic > limit


def test_the_law_is_that_of_the_whole_table():
    """Independent rows use the same words as with a table of all states by all codes, so they are the same rows."""
    table = np.zeros((4, len(INSIDE)))
    table[INSIDE, np.arange(len(INSIDE))] = WEIGHTS
    state = np.random.default_rng(3).integers(0, 4, 5000)
    whole = draw_given(table, state, "multinomial", SeededStream(2), "test")
    assert np.array_equal(draw_inside(INSIDE, WEIGHTS, state, "multinomial", SeededStream(2), "test"), whole)


@pytest.mark.parametrize("by", ["rounding", "multinomial"])
def test_no_rows_and_single_rows(by):
    assert draw_inside(INSIDE, WEIGHTS, np.zeros(0, np.int64), by, SeededStream(1), "test").tolist() == []
    for state in range(4):
        (code,) = draw_inside(INSIDE, WEIGHTS, np.array([state]), by, SeededStream(1), "test")
        assert INSIDE[code] == state
        assert WEIGHTS[code] > 0


def errors(truth, deviation, runs=40):
    """Mean distance of shares within ten bins from the truth: noisy counts cut off at zero, and by Stein's rule."""
    rng = np.random.default_rng(7)
    codes = tuple(bin_ // 10 for bin_ in range(100))
    mass = np.bincount(codes, weights=truth)[list(codes)]
    found = []
    for _ in range(runs):
        noisy = truth + np.rint(rng.laplace(0, deviation / np.sqrt(2), 100)).astype(np.int64)
        for weights in (np.maximum(noisy, 0) + 1e-9, weights_within(codes, noisy, deviation**2)):
            shares = weights / np.bincount(codes, weights=weights)[list(codes)]
            found.append(float(np.abs(shares * mass - truth).sum()) / truth.sum() / 2)
    return np.array(found).reshape(runs, 2).mean(axis=0)


@pytest.mark.parametrize(
    ("shape", "deviation", "most"),
    [
        (lambda x: np.exp(-0.5 * ((x - 40) / 20) ** 2), 28, 0.7),  # smooth, and as much noise as people
        (np.ones_like, 28, 0.5),
        (lambda x: np.where(x % 10 == 0, 10.0, 0.3), 28, 1.1),  # heaped: nothing to gain, nothing to lose
        (lambda x: np.exp(-0.5 * ((x - 40) / 20) ** 2), 1, 1.02),  # hardly any noise
    ],
)
def test_taking_off_what_noise_scatters_is_worth_it(shape, deviation, most):
    weights = shape(np.arange(100.0))
    truth = np.rint(3000 * weights / weights.sum()).astype(np.int64)
    cut, taken_off = errors(truth, deviation)
    assert taken_off < most * cut


def test_every_merged_code_can_be_drawn_whatever_the_noise():
    codes = (0, 0, 0, 1, 1, 2)
    for noisy in ([-5, -5, -5, 0, 0, -1], [0] * 6, [10**9, -(10**9), 0, 1, -1, 5], [7, 7, 7, 7, 7, 7]):
        weights = weights_within(codes, np.array(noisy), 4.0)
        assert (weights >= 0).all()
        assert (np.bincount(codes, weights=weights) > 0).all()
