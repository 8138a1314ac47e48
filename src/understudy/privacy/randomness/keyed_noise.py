"""Bernoulli, binomial and geometric draws from the keyed stream, exact for irrational probabilities.

OpenDP's samplers take their entropy from the operating system at every call, so a task that is run twice draws twice,
and a table of ten billion empty cells would be ten billion calls. These draws are functions of the keyed stream and
cost what comes out of them. A probability is never rounded: it is a binary expansion of certified digits, read as far
as a comparison needs. See docs/theory/sparse-noise.md.

The same draws are made for many short lists of cells at once (``ListedCells``). A nation has millions of destinations
with a few dozen cells each. Their noise must not depend on which of them are drawn together, on one machine or on many,
and a task that is run twice must draw the same. So the words of a cell are named by the number of its list (as nonce)
and its place there (as counter); see ``draws.indexed_words``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.mechanism import Stream
from understudy.errors import InternalError
from understudy.privacy.randomness.draws import WORD_BITS, indexed_words

WORDS_AT_ONCE = 2**17  # of a binomial draw: one megabyte of key stream
GUARD_DIGITS = 20
MOST_DIGITS = 20_000

Expansion = Callable[[int], int]


@lru_cache(maxsize=4096)
def tail_word(rate: Fraction, over: Fraction | None, index: int) -> int:
    """Word ``index`` of the binary expansion of exp(-rate), divided by 1 + exp(-over) if that is given.

    Evaluated in decimal arithmetic with guard digits, as an interval; if both ends do not give the same word, more
    digits are taken. For rational rates above 0 the number is not rational (Lindemann), so this ends.

    >>> tail_word(Fraction(1), None, 0) / 2**64     # doctest: +ELLIPSIS
    0.367879441171...
    """
    bits = WORD_BITS * (index + 1)
    digits = math.ceil(bits * math.log10(2)) + GUARD_DIGITS
    while digits <= MOST_DIGITS:
        context = Context(prec=digits, rounding=ROUND_FLOOR, Emin=-999_999_999, Emax=999_999_999)
        value = _exp(rate, context)
        if over is not None:
            value = context.divide(value, context.add(Decimal(1), _exp(over, context)))
        # Each step is rounded in its last place; an exponent's error grows with the exponent in the result.
        largest = int(max(rate, over or 0)) + 1
        error = context.multiply(value, Decimal(10) ** (4 + len(str(largest)) - digits))
        ends = context.subtract(value, error), context.add(value, error)  # operators would round to 28 digits
        low, high = (int(context.multiply(end, Decimal(2**bits))) for end in ends)
        if low == high:
            return low & ((1 << WORD_BITS) - 1)
        digits *= 2
    raise InternalError("the digits of a probability could not be certified.")


def _exp(rate: Fraction, context: Context) -> Decimal:
    return context.exp(context.divide(Decimal(-rate.numerator), Decimal(rate.denominator)))


def exponential(rate: Fraction) -> Expansion:
    """The probability exp(-rate), as words."""
    return lambda index: tail_word(rate, None, index)


def logistic(rate: Fraction) -> Expansion:
    """The probability exp(-rate) / (1 + exp(-rate)), as words."""
    return lambda index: tail_word(rate, rate, index)


def exceeding(scale: Fraction, threshold: int) -> Expansion:
    """The probability a^(t+1) / (1 + a), a = exp(-1/scale), that two-sided geometric noise exceeds a threshold t."""
    return lambda index: tail_word(Fraction(threshold + 1) / scale, 1 / scale, index)


def _decide(
    probability: Expansion, count: int, words_of: Callable[[Integers, int], NDArray[np.uint64]]
) -> NDArray[np.bool_]:
    """Events of exactly this probability: uniform words are compared with its expansion, and one that equals it so far
    is decided by further words. ``words_of`` gives the next word of the events that wait, by the number of the word."""
    happened = np.zeros(count, dtype=bool)
    waiting, index = np.arange(count), 0
    while len(waiting):
        words, digit = words_of(waiting, index), np.uint64(probability(index))
        happened[waiting[words < digit]] = True
        waiting, index = waiting[words == digit], index + 1
    return happened


def bernoulli(probability: Expansion, count: int, stream: Stream, *purpose: str | int) -> NDArray[np.bool_]:
    """``count`` independent events of exactly this probability."""
    return _decide(probability, count, lambda waiting, _: stream.words(len(waiting), *purpose))


def binomial(probability: Expansion, count: int, stream: Stream, *purpose: str | int) -> int:
    """How many of ``count`` independent events happen, by comparing them with the expansion bit by bit, all at once.

    Of the events not yet decided, the number whose next random bit is 0 is binomial with one half: the number of zeros
    in as many bits of the stream. A 1 in the expansion decides them (they happen), a 0 decides the others (they do
    not). Each round halves those left, so 2 bits per event are read in all.
    """
    happened, undecided, place = 0, count, 0
    while undecided:
        zeros = undecided - _ones(undecided, stream, *purpose)
        if probability(place // WORD_BITS) >> (WORD_BITS - 1 - place % WORD_BITS) & 1:
            happened += zeros
            undecided -= zeros
        else:
            undecided = zeros
        place += 1
    return happened


def _ones(bits: int, stream: Stream, *purpose: str | int) -> int:
    """The number of ones among the next bits of a stream, read in whole words."""
    whole, rest = divmod(bits, WORD_BITS)
    total = 0
    for start in range(0, whole, WORDS_AT_ONCE):
        words = stream.words(min(WORDS_AT_ONCE, whole - start), *purpose)
        total += int(np.bitwise_count(words).sum(dtype=np.int64))
    if rest:
        last = stream.words(1, *purpose) >> np.uint64(WORD_BITS - rest)
        total += int(np.bitwise_count(last).sum())
    return total


def geometric(scale: Fraction, count: int, stream: Stream, *purpose: str | int) -> Integers:
    """``count`` draws of P(g) = (1 - a) a^g, g = 0, 1, ..., with a = exp(-1/scale), exactly."""
    return _geometric(scale, count, lambda chance, some, *_: bernoulli(chance, len(some), stream, *purpose))


def _geometric(scale: Fraction, count: int, happen: Callable[..., NDArray[np.bool_]]) -> Integers:
    """Geometric draws from events: ``happen(probability, which, kind, number)``, the last two naming the event.

    The binary digits of a geometric variable are independent: digit i is 1 with probability x / (1 + x), x = a^(2^i),
    and what is above digit i is itself geometric with a^(2^(i+1)). So a few digits are drawn, and the rest, which is
    seldom more than 0, is counted up one by one.
    """
    digits = max(0, math.ceil(math.log2(float(scale))) + 3)
    drawn, every = np.zeros(count, dtype=np.int64), np.arange(count)
    for digit in range(digits):
        ones = happen(logistic(Fraction(2**digit) / scale), every, "digit", digit)
        drawn += ones.astype(np.int64) << digit
    going, more, step = every, exponential(Fraction(2**digits) / scale), 0
    while len(going):
        going, step = going[happen(more, going, "more", step)], step + 1
        drawn[going] += 2**digits
    return drawn


def discrete_laplace(scale: Fraction, count: int, stream: Stream, *purpose: str | int) -> Integers:
    """``count`` draws of P(x) proportional to exp(-|x|/scale) on the integers: the difference of two geometrics."""
    return geometric(scale, count, stream, *purpose, "up") - geometric(scale, count, stream, *purpose, "down")


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
        """An event of exactly this probability for each of the cells."""
        return _decide(probability, len(cells), lambda waiting, index: self.words(cells[waiting], *purpose, index))

    def geometric(self, scale: Fraction, *purpose: str | int) -> Integers:
        """P(g) = (1 - a) a^g, a = exp(-1/scale), on every cell."""
        return _geometric(
            scale, len(self), lambda chance, cells, *event: self.bernoulli(chance, cells, *purpose, *event)
        )

    def discrete_laplace(self, scale: Fraction, *purpose: str | int) -> Integers:
        """P(x) proportional to exp(-|x|/scale) on every cell: the difference of two geometrics."""
        return self.geometric(scale, *purpose, "up") - self.geometric(scale, *purpose, "down")

    def balanced(self, scale: Fraction, *purpose: str | int) -> Integers:
        """P(x) proportional to exp(-(|x_1| + ... + |x_K|)/scale) on the lists that add up to 0.

        All cells of a list but the last are drawn freely, the last is what is missing, and the list is kept with
        probability exp(-|last|/scale): if a geometric variable is at least |last|. Else the list is drawn again. Lists
        are drawn again by their own words, so what a list gets does not depend on the others.
        """
        drawn = np.zeros(len(self), dtype=np.int64)
        begins = np.cumsum(self._sizes) - self._sizes
        waiting, attempt = np.flatnonzero(self._sizes > 1), 0
        while len(waiting):
            free = ListedCells(self._stream, self._lists[waiting], self._sizes[waiting] - 1)
            values = free.discrete_laplace(scale, *purpose, "free", attempt)
            ends = np.cumsum(self._sizes[waiting] - 1)
            last = -np.diff(np.concatenate(([0], np.cumsum(values)))[np.concatenate(([0], ends))])
            one_each = ListedCells(self._stream, self._lists[waiting], np.ones(len(waiting), dtype=np.int64))
            kept = one_each.geometric(scale, *purpose, "kept", attempt) >= np.abs(last)
            cells = kept[free._list_of]
            drawn[(begins[waiting][free._list_of] + free._place)[cells]] = values[cells]
            drawn[(begins + self._sizes - 1)[waiting[kept]]] = last[kept]
            waiting, attempt = waiting[~kept], attempt + 1
        return drawn
