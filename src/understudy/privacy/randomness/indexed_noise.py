"""Geometric noise on many short lists of cells at once: each value is a function of key, list and place in the list.

A nation has millions of destinations with a few dozen cells each. Their noise must not depend on which of them are
drawn together, on one machine or on many, and a task that is run twice must draw the same. So the words of a cell are
named by the number of its list (as nonce) and its place there (as counter); see ``draws.indexed_words``. The draws are
those of ``keyed_noise``, exact for irrational probabilities. See docs/theory/sparse-noise.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.privacy.randomness.draws import indexed_words
from understudy.privacy.randomness.keyed_noise import Expansion, exponential, logistic


class ListedCells:
    """Cells in lists: ``sizes[i]`` of them in the list numbered ``lists[i]``, one list after another.

    ``stream`` is one with keys (``derived_key``). Every draw needs a purpose of its own: a second draw under the same
    purpose gives the same values.
    """

    def __init__(self, stream: Any, lists: Integers, sizes: Integers) -> None:
        self._stream, self._lists, self._sizes = stream, lists, sizes
        self._list_of = np.repeat(np.arange(len(lists)), sizes)
        self._place = np.arange(len(self._list_of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)

    def __len__(self) -> int:
        return len(self._list_of)

    def words(self, cells: Integers, *purpose: str | int) -> NDArray[np.uint64]:
        """One word for each of the cells given; words are made for whole lists, and only for lists that are met."""
        row = self._list_of[cells]
        met = np.zeros(len(self._lists), dtype=bool)
        met[row] = True
        key = self._stream.derived_key(*purpose)
        words, starts = indexed_words(key, self._lists[met], self._sizes[met])
        first = np.zeros(len(self._lists), dtype=np.int64)
        first[met] = starts
        return np.asarray(words[first[row] + self._place[cells]])

    def bernoulli(self, probability: Expansion, cells: Integers, *purpose: str | int) -> NDArray[np.bool_]:
        """An event of exactly this probability for each of the cells; a tie is decided by further words."""
        happened = np.zeros(len(cells), dtype=bool)
        waiting, index = np.arange(len(cells)), 0
        while len(waiting):
            words, digit = self.words(cells[waiting], *purpose, index), np.uint64(probability(index))
            happened[waiting[words < digit]] = True
            waiting, index = waiting[words == digit], index + 1
        return happened

    def geometric(self, scale: Fraction, *purpose: str | int) -> Integers:
        """P(g) = (1 - a) a^g, a = exp(-1/scale), on every cell: a few binary digits, then the rest counted up."""
        digits = max(0, math.ceil(math.log2(float(scale))) + 3)
        drawn, every = np.zeros(len(self), dtype=np.int64), np.arange(len(self))
        for digit in range(digits):
            ones = self.bernoulli(logistic(Fraction(2**digit) / scale), every, *purpose, "digit", digit)
            drawn += ones.astype(np.int64) << digit
        going, more, step = every, exponential(Fraction(2**digits) / scale), 0
        while len(going):
            going, step = going[self.bernoulli(more, going, *purpose, "more", step)], step + 1
            drawn[going] += 2**digits
        return drawn

    def discrete_laplace(self, scale: Fraction, *purpose: str | int) -> Integers:
        """P(x) proportional to exp(-|x|/scale) on every cell: the difference of two geometrics."""
        return self.geometric(scale, *purpose, "up") - self.geometric(scale, *purpose, "down")
