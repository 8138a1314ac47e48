"""A table of counts that nobody saw: its exact posterior when prior and likelihood are products over cells.

Both the Dirichlet-multinomial prior of a table and the law of a release (Dirichlet draws, or noise on every cell) are
products over cells once the total is given: P(x) is proportional to prod_j f_j(x_j) times h(sum x). So evidence, the
marginal law of every cell and joint draws follow from sums of independent whole numbers. See
docs/theory/exact-posterior.md.

Why tilted: f_j is first replaced by f_j(x) exp(t x) / Z_j(t), with t such that the mean total is the total wanted. The
conditional law given the total does not change; the wanted total moves to the middle of the law of the sum, where a
Fourier transform is accurate. Without the tilt the answer is the rounding noise of the transform (wrong by more than a
thousand nats on ordinary tables).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.errors import InputError, UnsupportedError

NATS = 55.0  # what is smaller than exp(-55) of the mode cannot be seen in a sum
STANDARD_DEVIATIONS = 30
TOTALS = 20_001  # values of an unknown total that are tried
FAR = 5.0  # standard deviations between the cells' own sum and the likely total, from which on a tilt is needed
LARGEST_WORK = 4e9  # complex multiplications of the exact method; beyond it the saddlepoint is used


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Column:
    """The log factor of one cell on the whole numbers start, start + 1, ...; zero elsewhere."""

    start: int
    log: Floats

    @property
    def support(self) -> Integers:
        return np.arange(self.start, self.start + len(self.log))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tilted:
    """A column as a probability law, after tilting. ``log_scale`` is the log of its normaliser."""

    start: int
    law: Floats
    log_scale: float
    mean: float
    variance: float


def tilted(column: Column, tilt: float) -> Tilted:
    """The law proportional to exp(log + tilt x), cut to where it can be seen."""
    log = column.log + tilt * column.support
    top = float(log.max())
    seen = np.flatnonzero(log > top - NATS)
    first, last = int(seen[0]), int(seen[-1])
    weights = np.exp(np.maximum(log[first : last + 1] - top, -2 * NATS))  # far below it numbers would be denormal
    total = float(weights.sum())
    law = weights / total
    x = np.arange(column.start + first, column.start + last + 1)
    mean = float(law @ x)
    return Tilted(
        start=column.start + first,
        law=law,
        log_scale=top + math.log(total),
        mean=mean,
        variance=float(law @ (x - mean) ** 2),
    )


@dataclass(slots=True, kw_only=True, eq=False)
class LatentTable:
    """Cells in classes of identical columns, and what is known of the total: exactly, or by ``total_log``.

    ``method`` says how the numbers are computed: "exact", or "saddlepoint" beyond ``LARGEST_WORK``.
    """

    columns: tuple[Column, ...]
    classes: Integers  # the column of every cell
    total: int | None = None
    total_log: Callable[[Integers], Floats] | None = None
    tilt: float = field(init=False)
    method: str = field(init=False)
    _laws: tuple[Tilted, ...] = field(init=False)
    _times: Integers = field(init=False)
    _width: int = field(init=False)
    _log_evidence: float = field(init=False)
    _tree: SumTree | None = field(init=False, default=None)
    _exclusive: dict[int, Floats] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if (self.total is None) == (self.total_log is None):
            raise InputError("a latent table needs its total, or a law of it, and not both.")
        self._times = np.bincount(self.classes, minlength=len(self.columns))
        lowest = int(sum(c.start * int(t) for c, t in zip(self.columns, self._times, strict=True)))
        highest = lowest + int(sum((len(c.log) - 1) * int(t) for c, t in zip(self.columns, self._times, strict=True)))
        if self.total is not None and not lowest <= self.total <= highest:
            raise InputError(f"no table with a total of {self.total:,} can have led to this release.")
        wanted = self._likely_total(lowest, highest) if self.total is None else self.total
        self.tilt = 0.0 if wanted is None else solve_tilt(self.columns, self._times, wanted)
        self._laws = tuple(tilted(column, self.tilt) for column in self.columns)
        self._width = self._length()
        self.method = "exact" if 4 * self._width * len(self.columns) <= LARGEST_WORK else "saddlepoint"
        self._log_evidence = self._evidence()

    def _likely_total(self, lowest: int, highest: int) -> int | None:
        """Where the sum of all cells probably is, if what is known of the total is far from what the cells say; else
        None. Without a tilt, such a sum would lie where its law is rounding noise."""
        laws = [tilted(column, 0.0) for column in self.columns]
        mean = sum(law.mean * int(t) for law, t in zip(laws, self._times, strict=True))
        variance = sum(law.variance * int(t) for law, t in zip(laws, self._times, strict=True))
        if self.total_log is None or variance <= 0:
            return None
        totals = np.unique(np.linspace(lowest, highest, TOTALS).astype(np.int64))
        best = int(totals[np.argmax(self.total_log(totals) - (totals - mean) ** 2 / (2 * variance))])
        return best if abs(best - mean) > FAR * math.sqrt(variance) else None

    @property
    def cells(self) -> int:
        return len(self.classes)

    @property
    def log_evidence(self) -> float:
        """log of the sum over all tables of prod f_j(x_j) h(sum x)."""
        return self._log_evidence

    def _moments(self) -> tuple[float, float]:
        mean = sum(law.mean * int(t) for law, t in zip(self._laws, self._times, strict=True))
        variance = sum(law.variance * int(t) for law, t in zip(self._laws, self._times, strict=True))
        return mean, variance

    def _length(self) -> int:
        """Length of the transforms: the whole range of the sum, or as much as holds all but exp(-NATS) of it."""
        from scipy.fft import next_fast_len

        spans = [len(law.law) - 1 for law in self._laws]
        whole = sum(span * int(t) for span, t in zip(spans, self._times, strict=True)) + 1
        enough = STANDARD_DEVIATIONS * math.sqrt(self._moments()[1]) + 2 * max(spans) + 16
        length: int = next_fast_len(int(min(whole, math.ceil(enough))), real=True)
        return length

    def _log_scale(self) -> float:
        scale = math.fsum(law.log_scale * int(t) for law, t in zip(self._laws, self._times, strict=True))
        return scale - (self.tilt * self.total if self.total is not None else 0.0)

    def _evidence(self) -> float:
        if self.total is None:
            start, law = self._tree_made().root
            with np.errstate(divide="ignore"):
                log = np.log(law) + self._total_log(np.arange(start, start + len(law)))
            top = float(log.max())
            return self._log_scale() + top + math.log(float(np.exp(log - top).sum()))
        if self.method == "saddlepoint":
            mean, variance = self._moments()
            z = (self.total - mean) ** 2 / variance
            return self._log_scale() - 0.5 * (math.log(2 * math.pi * variance) + z)
        spectrum = self._product(range(len(self.columns)))
        law = np.fft.irfft(spectrum, self._width)
        at = float(law[(self.total - self._offset()) % len(law)])
        if at <= 0:
            raise InputError(f"no table with a total of {self.total:,} can have led to this release.")
        return self._log_scale() + math.log(at)

    def _total_log(self, totals: Integers) -> Floats:
        """The log of what is known of the total, as a factor of the tilted law of the sum."""
        if self.total_log is None:
            raise InputError("this table has a known total.")
        return np.asarray(self.total_log(totals) - self.tilt * totals)

    def _offset(self) -> int:
        return int(sum(law.start * int(t) for law, t in zip(self._laws, self._times, strict=True)))

    def _spectrum(self, index: int) -> NDArray[np.complex128]:
        length = self._width
        law = self._laws[index].law
        # Folded, as the transform is of the sum modulo its length.
        folded = np.bincount(np.arange(len(law)) % length, weights=law, minlength=length) if len(law) > length else law
        return np.fft.rfft(folded, length)

    def _product(self, indices: range) -> NDArray[np.complex128]:
        product = np.ones(self._width // 2 + 1, np.complex128)
        for index in indices:
            product *= power(self._spectrum(index), int(self._times[index]))
        return product

    def cell_law(self, cell: int) -> tuple[Integers, Floats]:
        """The whole numbers a cell can be and their posterior probabilities."""
        index = int(self.classes[cell])
        if index not in self._exclusive:
            self._exclusive.update(self._laws_given_total())
        law = self._laws[index]
        return np.arange(law.start, law.start + len(law.law)), self._exclusive[index]

    def cell_means(self) -> Floats:
        """The posterior mean of every cell."""
        means = np.array([np.dot(*self.cell_law(cell)) for cell in np.unique(self.classes, return_index=True)[1]])
        return np.asarray(means[np.unique(self.classes, return_inverse=True)[1]])

    def _laws_given_total(self) -> Iterator[tuple[int, Floats]]:
        """For every column the law of a cell given the total: its own law times the law of the rest."""
        if self.total is None:
            yield from self._laws_of_unknown_total()
            return
        if self.method == "saddlepoint":
            mean, variance = self._moments()
            for index, law in enumerate(self._laws):
                x = np.arange(law.start, law.start + len(law.law))
                log = -((self.total - x - (mean - law.mean)) ** 2) / (2 * max(variance - law.variance, 1e-12))
                weights = law.law * np.exp(log - log.max())
                yield index, weights / weights.sum()
            return
        length = self._width
        offset = self._offset()
        for index, spectrum in self._exclusive_products():
            law = self._laws[index]
            rest = np.fft.irfft(spectrum, length)
            places = (self.total - np.arange(len(law.law)) - offset) % length
            weights = law.law * np.maximum(rest[places], 0)
            yield index, weights / weights.sum()

    def _laws_of_unknown_total(self) -> Iterator[tuple[int, Floats]]:
        length = self._width
        offset = self._offset()
        start, root = self._tree_made().root
        lowest, highest = start, start + len(root) - 1
        for index, spectrum in self._exclusive_products():
            law = self._laws[index]
            rest = np.maximum(np.fft.irfft(spectrum, length), 0)
            totals = np.arange(lowest, highest + 1)
            log = self._total_log(totals)
            factor = np.exp(log - log.max())
            weights = np.zeros(len(law.law))
            for place in range(len(weights)):
                weights[place] = law.law[place] * float(rest[(totals - place - offset) % length] @ factor)
            yield index, weights / weights.sum()

    def _exclusive_products(self) -> Iterator[tuple[int, NDArray[np.complex128]]]:
        """For every column the spectrum of everything but one cell of it, without ever dividing: two levels of
        products before and after, so that memory grows with the square root of the number of columns."""
        count = len(self.columns)
        size = max(1, math.isqrt(count))
        blocks = [range(start, min(start + size, count)) for start in range(0, count, size)]
        outside = _before_and_after([self._product(block) for block in blocks])
        for block, around in zip(blocks, outside, strict=True):
            single = [self._spectrum(index) for index in block]
            powers = [power(one, int(self._times[index])) for one, index in zip(single, block, strict=True)]
            for index, one, others in zip(block, single, _before_and_after(powers), strict=True):
                if self._times[index]:
                    yield index, around * others * power(one, int(self._times[index]) - 1)

    def _tree_made(self) -> SumTree:
        if self._tree is None:
            self._tree = SumTree([(law.start, law.law) for law in self._laws], self.classes)
        return self._tree

    @property
    def work(self) -> int:
        """How many numbers one draw takes at most; 0 if there are no draws."""
        return 0 if self.method == "saddlepoint" else self._tree_made().work

    def draws(self, size: int, rng: np.random.Generator) -> Integers:
        """Independent tables from the posterior, one per row."""
        if self.method == "saddlepoint":
            raise UnsupportedError(
                f"{self.cells:,} cells with {len(self.columns):,} different columns are too many for exact joint "
                "draws; merge cells first (a question about few groups needs few)."
            )
        tree = self._tree_made()
        if self.total is not None:
            return tree.draws(np.full(size, self.total, np.int64), rng)
        start, law = tree.root
        with np.errstate(divide="ignore"):
            log = np.log(law) + self._total_log(np.arange(start, start + len(law)))
        cumulative = np.cumsum(np.exp(log - log.max()))
        places = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        return tree.draws(start + np.minimum(places, len(law) - 1), rng)


def power(spectrum: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """A whole power by repeated squaring: fewer roundings, and faster, than through the logarithm."""
    result = np.ones_like(spectrum)
    base = spectrum
    while times:
        if times & 1:
            result = result * base
        times >>= 1
        if times:
            base = base * base
    return result


def _before_and_after(parts: list[NDArray[np.complex128]]) -> list[NDArray[np.complex128]]:
    """For each part the product of all others."""
    result = [np.ones_like(part) for part in parts]
    running = np.ones_like(parts[0])
    for place, part in enumerate(parts):
        result[place] = running
        running = running * part
    running = np.ones_like(parts[0])
    for place in range(len(parts) - 1, -1, -1):
        result[place] = result[place] * running
        running = running * parts[place]
    return result


def solve_tilt(columns: tuple[Column, ...], times: Integers, total: int) -> float:
    """The tilt at which the mean total is ``total``: a safeguarded Newton search on a monotone function.

    All columns are evaluated in one flat array, so a step costs one pass over the numbers and no Python loop.
    """
    x = np.concatenate([column.support for column in columns]).astype(np.float64)
    log = np.concatenate([column.log for column in columns])
    lengths = np.array([len(column.log) for column in columns])
    return newton_tilt(x, log, lengths, times, total)


def newton_tilt(x: Floats, log: Floats, lengths: Integers, times: Integers, total: float) -> float:
    """The same for points ``x`` with log weights ``log``, column after column."""
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    low, high, tilt = -800.0, 800.0, 0.0
    for _ in range(200):
        value = log + tilt * x
        top = np.maximum.reduceat(value, starts)
        weight = np.exp(value - np.repeat(top, lengths))
        mass = np.add.reduceat(weight, starts)
        mean = np.add.reduceat(weight * x, starts) / mass
        variance = np.maximum(np.add.reduceat(weight * x * x, starts) / mass - mean**2, 0)
        error = float(times @ mean) - total
        spread = float(times @ variance)
        if error > 0:
            high = tilt
        else:
            low = tilt
        if abs(error) <= 1e-3 * max(math.sqrt(spread), 1e-6) or high - low < 1e-12:
            break
        step = tilt - error / spread if spread > 0 else math.nan
        # Steps are kept short at first: far away the law may sit on one end of its support and have no spread.
        if not (low < step < high) or abs(step - tilt) > 5:
            step = tilt - 5 * np.sign(error) if low < tilt - 5 * np.sign(error) < high else (low + high) / 2
        tilt = float(step)
    return tilt


# A binary tree of sums of independent whole numbers, and joint draws of the numbers given their sum.
#
# A node holds the law of the sum of the cells below it. Given the sum t at a node, the sum l of its left half has
# probability proportional to L(l) R(t - l): it is drawn by rejection (l from the narrower of the two laws, accepted
# with probability R(t - l) / max R), which is exact, needs no law for every t, and accepts about seven times in ten.
# Nodes that are sums of the same columns are the same object, so a thousand equal cells cost ten convolutions.

NEGLIGIBLE = 1e-18  # of the mode of a node
ROUNDING = 1e-15  # the same after a transform, which leaves rounding noise of some 1e-16 of the mode everywhere
DIRECT = 4_000_000  # products up to which a convolution is done directly, without any cancellation
# Rounds of rejection before the remaining draws are made from the conditional law itself: a round costs about as much
# as the law at so many places.
PATIENCE, PLACES = 4, 50
MOST_PATIENCE = 200
AT_ONCE = 1_000_000  # numbers of conditional laws held at once


@dataclass(slots=True, kw_only=True, eq=False)
class _Node:
    start: int
    law: Floats
    left: _Node | None = None
    right: _Node | None = None
    cells: int = 1
    work: int = 0  # numbers of conditional laws for one draw of all cells, if rejection never ended
    cumulative: Floats = field(init=False)
    mode: float = field(init=False)
    spread: float = field(init=False)

    def __post_init__(self) -> None:
        self.cumulative = np.cumsum(self.law)
        self.mode = float(self.law.max())
        x = np.arange(len(self.law))
        mean = float(self.law @ x) / float(self.cumulative[-1])
        self.spread = float(self.law @ (x - mean) ** 2)


class SumTree:
    """The tree over cells given by ``classes``, numbers into ``laws`` (start and probabilities of each column)."""

    def __init__(self, laws: Sequence[tuple[int, Floats]], classes: Integers) -> None:
        self._order = np.argsort(classes, kind="stable")
        leaves = [_Node(start=start, law=np.asarray(law)) for start, law in laws]
        made: dict[tuple[int, int], _Node] = {}
        level = [leaves[index] for index in classes[self._order]]
        while len(level) > 1:
            paired = []
            for left, right in zip(level[0::2], level[1::2], strict=False):
                key = (id(left), id(right))
                if key not in made:
                    made[key] = _join(left, right)
                paired.append(made[key])
            if len(level) % 2:
                paired.append(level[-1])
            level = paired
        self._root = level[0]
        self._made = made  # keeps the nodes alive, so that no identity is used twice

    @property
    def root(self) -> tuple[int, Floats]:
        """The law of the sum of all cells."""
        return self._root.start, self._root.law

    @property
    def work(self) -> int:
        """How many numbers one draw takes at most."""
        return int(self._root.work)

    def draws(self, totals: Integers, rng: np.random.Generator) -> Integers:
        """One table for each total, one per row, in the order of the cells."""
        result = np.empty((len(self._order), len(totals)), np.int64)
        pending = [(self._root, np.asarray(totals, np.int64), 0)]
        while pending:
            node, sums, place = pending.pop()
            if node.left is None or node.right is None:
                result[place] = sums
                continue
            narrow, wide = (node.left, node.right) if node.left.spread <= node.right.spread else (node.right, node.left)
            drawn = _split(sums, narrow, wide, rng)
            left = drawn if narrow is node.left else sums - drawn
            pending.append((node.left, left, place))
            pending.append((node.right, sums - left, place + node.left.cells))
        table = np.empty_like(result)
        table[self._order] = result
        return np.ascontiguousarray(table.T)


def _join(left: _Node, right: _Node) -> _Node:
    if len(left.law) * len(right.law) <= DIRECT:
        law, least = np.convolve(left.law, right.law), NEGLIGIBLE
    else:
        from scipy.signal import fftconvolve

        law, least = np.maximum(fftconvolve(left.law, right.law), 0), ROUNDING
    kept = np.flatnonzero(law > least * law.max())
    first, last = int(kept[0]), int(kept[-1])
    return _Node(
        start=left.start + right.start + first,
        law=law[first : last + 1],
        left=left,
        right=right,
        cells=left.cells + right.cells,
        work=left.work + right.work + min(len(left.law), len(right.law)),
    )


def _split(sums: Integers, narrow: _Node, wide: _Node, rng: np.random.Generator) -> Integers:
    """The part of each sum that belongs to the narrow node."""
    result = np.empty_like(sums)
    waiting = np.arange(len(sums))
    for _ in range(min(max(PATIENCE, len(narrow.law) // PLACES), MOST_PATIENCE)):
        height = rng.random(len(waiting)) * narrow.cumulative[-1]
        part = np.minimum(np.searchsorted(narrow.cumulative, height, side="right"), len(narrow.law) - 1)
        part = part + narrow.start
        rest = sums[waiting] - part - wide.start
        inside = (rest >= 0) & (rest < len(wide.law))
        chance = np.where(inside, wide.law[np.where(inside, rest, 0)], 0.0)
        accepted = rng.random(len(waiting)) * wide.mode < chance
        result[waiting[accepted]] = part[accepted]
        waiting = waiting[~accepted]
        if not len(waiting):
            return result
    result[waiting] = _split_by_law(sums[waiting], narrow, wide, rng)
    return result


def _split_by_law(sums: Integers, narrow: _Node, wide: _Node, rng: np.random.Generator) -> Integers:
    """The same from the conditional law itself, which is computed once for each different sum."""
    different, which = np.unique(sums, return_inverse=True)
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(different)))
    parts = np.arange(len(narrow.law))
    heights = rng.random(len(sums)) * (1 - 2.0**-40)  # rounding must not reach the law of the next sum
    result = np.empty_like(sums)
    at_once = max(1, AT_ONCE // len(parts))
    for first in range(0, len(different), at_once):
        some = different[first : first + at_once]
        rest = some[:, None] - (parts + narrow.start + wide.start)
        inside = (rest >= 0) & (rest < len(wide.law))
        cumulative = np.cumsum(np.where(inside, narrow.law * wide.law[np.where(inside, rest, 0)], 0.0), axis=1)
        if (cumulative[:, -1] <= 0).any():
            # Only the noisy total asks for such a sum: it is where the law of the table's sum is rounding noise.
            raise UnsupportedError(
                "the noisy table and the noisy number of people are too far apart to be brought together: noise on so "
                "many cells hides how many people there are. Ask about fewer or larger groups."
            )
        chosen = order[ends[first - 1] if first else 0 : ends[first + len(some) - 1]]
        rows = which[chosen] - first
        # One search in all laws: each is moved to a unit interval of its own.
        laid = (cumulative / cumulative[:, -1:] + np.arange(len(some))[:, None]).reshape(-1)
        places = np.searchsorted(laid, rows + heights[chosen], side="right") - rows * len(parts)
        result[chosen] = narrow.start + np.clip(places, 0, len(parts) - 1)
    return result
