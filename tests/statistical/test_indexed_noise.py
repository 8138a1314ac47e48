"""Noise on many lists at once has the law of geometric noise, whatever lists are drawn together."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from understudy.privacy.mechanisms.noise import Geometric
from understudy.privacy.randomness.draws import KeyedStream
from understudy.privacy.randomness.keyed_noise import ListedCells

LISTS, CELLS = 2_500, 16
FALSE_ALARM = 1e-6
LARGEST = 60


def listed(lists=None, sizes=None):
    lists = np.arange(LISTS) if lists is None else np.asarray(lists)
    sizes = np.full(len(lists), CELLS) if sizes is None else np.asarray(sizes)
    return ListedCells(KeyedStream(key=bytes(range(32))), lists, sizes)


def p_value(drawn, scale, least=8):
    """Of the values against the law that the mechanism of the same scale states; rare values are put together."""
    values = np.arange(-LARGEST * 5, LARGEST * 5 + 1)
    expected = len(drawn) * np.exp(Geometric(scale=scale).log_pmf(values, np.zeros_like(values)))
    observed = np.array([(drawn == value).sum() for value in values])
    rare = expected < least
    groups = [*zip(expected[~rare], observed[~rare], strict=True), (expected[rare].sum(), observed[rare].sum())]
    return chi2.sf(sum((seen - told) ** 2 / told for told, seen in groups), len(groups) - 1)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(7, 2), Fraction(20)])
def test_noise_has_its_law_and_no_other(scale):
    drawn = listed().discrete_laplace(scale, "test")
    assert p_value(drawn, scale) > FALSE_ALARM
    assert p_value(drawn, scale * Fraction(0.7)) < FALSE_ALARM
    assert p_value(drawn, scale * Fraction(1.4)) < FALSE_ALARM


def test_neighbouring_cells_and_lists_are_not_related():
    """Products of neighbours have mean 0 and variance of the square; a shared word would make them near 1."""
    drawn = listed().discrete_laplace(Fraction(2), "test").reshape(LISTS, CELLS).astype(float)
    variance = Geometric(scale=2).variance
    for one, other in ((drawn[:, 1:], drawn[:, :-1]), (drawn[1:], drawn[:-1])):
        assert abs((one * other).mean() / variance) < 5.5 / math.sqrt(one.size)
        assert abs((one * one).mean() / variance) > 0.5  # what one word for both would give


def test_a_list_gets_its_noise_whatever_is_drawn_beside_it():
    sizes = np.array([3, 0, 5, 1, 8, 2])
    together = np.split(listed([9, 4, 7, 2, 0, 11], sizes).discrete_laplace(Fraction(3), "test"), np.cumsum(sizes)[:-1])
    for number, size, expected in zip([9, 4, 7, 2, 0, 11], sizes, together, strict=True):
        np.testing.assert_array_equal(listed([number], [size]).discrete_laplace(Fraction(3), "test"), expected)
    mixed = np.split(listed([11, 0, 9], [2, 8, 3]).discrete_laplace(Fraction(3), "test"), [2, 10])
    for place, expected in zip(mixed, (together[5], together[4], together[0]), strict=True):
        np.testing.assert_array_equal(place, expected)
    assert not np.array_equal(listed([7], [40]).words(np.arange(40), "a"), listed([7], [40]).words(np.arange(40), "b"))


def test_a_tie_is_decided_by_further_words():
    cells = listed([5], [4])
    every = np.arange(4)
    first, second = (cells.words(every, "tie", index) for index in (0, 1))
    assert len(set(first.tolist())) == 4
    for shift, happens in ((1, True), (-1, False)):
        digits = {0: int(first[2]), 1: int(second[2]) + shift}
        expected = first < first[2]
        expected[2] = happens
        assert cells.bernoulli(digits.__getitem__, every, "tie").tolist() == expected.tolist()
