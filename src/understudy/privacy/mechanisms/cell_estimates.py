"""What the noisy counts of one destination say about its cells: best guesses, from public numbers and noisy values.

Workers of a destination are spread over K cells of which a public model expects known shares. Real destinations differ
from the model: their shares are taken as Dirichlet around those of the model, with one of a few concentrations, of
which each destination's own noisy counts choose. A count is then beta-binomial, the noise has its known law, and the
guess is the mean of the count given the noisy one. Everything here is post-processing. The same sums, taken before
anything is drawn, say how far such a guess will be off: that is what a law of noise is chosen by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from understudy.core.arrays import Floats, Integers
from understudy.privacy.mechanisms.ring_division import cell_shares, is_graded

CONCENTRATIONS = (2.0, 5.0, 15.0, 50.0, 200.0)  # from destinations of their own kind to none that differs
MOST_LISTED = 300  # jobs up to which counts are listed one by one
TAIL = 1e-12
LEVEL_STEP = 0.5  # log odds
MOST_STEPS = 12


def shares_vary(size: Floats | float, concentration: float) -> Floats | float:
    """The variance of the mean of ``size`` workers of a destination around the model, if one worker's is 1."""
    return 1 / size + (1 - 1 / size) / (concentration + 1)


@lru_cache(maxsize=4096)
def noise_law(scale: Fraction, cells: int, balanced: bool) -> Floats:
    """P(noise of one cell = -r, ..., r), up to where it hardly matters.

    Free noise is two-sided geometric. Balanced noise is that, given that the noise of all cells adds up to 0.
    """
    rate = float(1 / scale)
    reach = int(np.ceil(-np.log(TAIL) / rate)) + 1
    alone = np.exp(-rate * np.abs(np.arange(-reach, reach + 1)))
    alone /= alone.sum()
    if not balanced:
        return alone
    size = 1 << int(np.ceil(np.log2((2 * reach + 1) * max(cells - 1, 1))))
    others = np.fft.irfft(np.fft.rfft(np.roll(np.pad(alone, (0, size - len(alone))), -reach)) ** (cells - 1), size)
    rest = np.concatenate((others[size - reach :], others[: reach + 1]))[::-1]
    law = alone * np.maximum(rest, 0.0)
    return np.asarray(law / law.sum())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Guesses:
    """For each concentration (rows) and noisy count from ``least`` on (columns): how likely the noisy count is, as a
    logarithm, and the expected count. ``off`` is the expected squared error of that guess, by concentration."""

    least: int
    likely: Floats
    expected: Floats
    off: Floats


def guesses(size: int, cells: int, scale: Fraction, balanced: bool, share: float) -> Guesses:
    """Sums over all counts from 0 to ``size`` in a cell that the model expects to have ``share`` of them; for sizes up
    to ``MOST_LISTED``."""
    noise = noise_law(scale, cells, balanced)
    reach = len(noise) // 2
    counts = np.arange(size + 1.0)
    ways = gammaln(size + 1) - gammaln(counts + 1) - gammaln(size - counts + 1)
    likely, expected, off = [], [], []
    for concentration in CONCENTRATIONS:
        own, rest = concentration * share, concentration * (1 - share)
        prior = np.exp(ways + betaln(counts + own, size - counts + rest) - betaln(own, rest))
        prior /= prior.sum()
        evidence = np.maximum(np.convolve(prior, noise), 1e-300)
        first, second = (np.convolve(prior * counts**power, noise) for power in (1, 2))
        mean = first / evidence
        likely.append(np.log(evidence))
        expected.append(np.clip(mean, 0, size))
        off.append(max(float(np.sum(second - evidence * mean**2)), 0.0))
    return Guesses(least=-reach, likely=np.array(likely), expected=np.array(expected), off=np.array(off))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutsideShares:
    """What a public model expects of homes outside, which are cells of their own beside the rings.

    ``levels`` are parts of the jobs of a workplace, and ``level_of`` says by place which of them is expected there;
    ``homes`` are the shares of single homes among all workers from outside, the largest first.
    """

    levels: tuple[float, ...]
    level_of: NDArray[np.int8]
    homes: tuple[float, ...]

    @classmethod
    def of(cls, part: Floats, homes: Floats) -> OutsideShares:
        """Parts by place are told apart by steps of half a unit of their log odds from their middle one: tables of
        guesses are made for every level, and if all parts are alike none is rounded."""
        odds = np.log(part / (1 - part))
        middle = float(np.median(odds))
        steps = np.clip(np.rint((odds - middle) / LEVEL_STEP), -MOST_STEPS, MOST_STEPS).astype(np.int64)
        found, level_of = np.unique(steps, return_inverse=True)
        levels = 1 / (1 + np.exp(-(middle + LEVEL_STEP * found)))
        return cls(levels=tuple(levels.tolist()), level_of=level_of.astype(np.int8), homes=tuple(homes.tolist()))

    def cells(self, level: int, number: int) -> tuple[float, ...]:
        """The expected shares of ``number`` cells outside: single homes, and in the last one all others."""
        own = self.homes[: number - 1]
        return (*(self.levels[level] * one for one in own), self.levels[level] * max(1 - sum(own), 1e-9))


@lru_cache(maxsize=4096)
def expected_cells(cells: int, graded: bool, outside: tuple[float, ...] = ()) -> tuple[Floats, Integers]:
    """The different shares that the model expects in a cell, and which of them each cell has: those of the rings, of
    which sectors are alike, and then those outside."""
    shares = cell_shares(cells, True) if graded and bool(is_graded(np.array(cells))) else np.array([1 / cells])
    kinds = np.repeat(np.arange(len(shares)), cells // len(shares))
    beyond = len(shares) + np.arange(len(outside))
    inside = 1 - sum(outside)
    return np.concatenate((shares * inside, np.array(outside))), np.concatenate((kinds, beyond)).astype(np.int64)


@lru_cache(maxsize=1024)
def ring_guesses(
    size: int, cells: int, scale: Fraction, *, balanced: bool, graded: bool, outside: tuple[float, ...] = ()
) -> tuple[int, Floats, Floats]:
    """The least noisy count, and what ``guesses`` says of a cell of each of the shares of ``expected_cells``."""
    shares, _ = expected_cells(cells, graded, outside)
    tables = [guesses(size, cells + len(outside), scale, balanced, share) for share in shares.tolist()]
    likely, expected = (np.stack(parts) for parts in zip(*((t.likely, t.expected) for t in tables), strict=True))
    return tables[0].least, likely, expected


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Beside:
    """Cells outside of some destinations, which come after those of their rings: how many each has, and which level of
    ``shares`` is expected there."""

    shares: OutsideShares
    cells: Integers
    level: Integers


def kinds_of(
    rows: Integers, domains: Integers, beside: Beside | None
) -> Iterator[tuple[Integers, int, int, tuple[float, ...]]]:
    """Destinations that are alike, with their size, the cells of their rings, and the shares expected outside."""
    columns = [rows, domains] if beside is None else [rows, domains - beside.cells, beside.cells, beside.level]
    kinds, which = np.unique(np.stack(columns), axis=1, return_inverse=True)
    order = np.argsort(which, kind="stable")
    ends = np.concatenate(([0], np.cumsum(np.bincount(which, minlength=kinds.shape[1]))))
    for kind, (size, cells, *outside) in enumerate(kinds.T.tolist()):
        shares = () if beside is None or not outside[0] else beside.shares.cells(outside[1], outside[0])
        yield order[ends[kind] : ends[kind + 1]], size, cells, shares


def estimate(
    noisy: Integers,
    starts: Integers,
    rows: Integers,
    scale: Fraction,
    *,
    balanced: bool,
    graded: bool,
    beside: Beside | None = None,
) -> Floats:
    """Shares of the cells of each destination, whose noisy counts lie at starts[d]:starts[d + 1]."""
    from understudy.privacy.mechanisms import cell_estimates_compiled as loops

    shares = np.empty(len(noisy))
    for inside, size, cells, outside in kinds_of(rows, np.diff(starts), beside):
        if cells + len(outside) < 2 or size > MOST_LISTED:
            loops.nearest_shares(noisy, starts, inside, float(size), shares)
        else:
            least, likely, expected = ring_guesses(
                size, cells, scale, balanced=balanced, graded=graded, outside=outside
            )
            kinds = expected_cells(cells, graded, outside)[1]
            loops.expected_shares(noisy, starts, inside, kinds, least, likely, expected, shares)
    return shares


def answered(answers: Integers, starts: Integers, rows: Integers, prior: Fraction, beside: Beside) -> Floats:
    """Shares of the cells of each destination from the answers of its jobs, sorted by destination.

    A job that is in cell j with probability m_j beforehand, and says c, is in j with probability proportional to
    m_j (a + [j = c]), where a is the prior of an answer.
    """
    shares = np.zeros(int(starts[-1]))
    begins = np.concatenate(([0], np.cumsum(rows)))
    for inside, size, cells, outside in kinds_of(rows, np.diff(starts), beside):
        expected, kinds = expected_cells(cells, False, outside)
        model = expected[kinds]
        table = model * (float(prior) + np.eye(len(model)))  # by answer (rows)
        table /= table.sum(axis=1, keepdims=True)
        told = answers[begins[inside][:, None] + np.arange(size)]
        shares[starts[inside][:, None] + np.arange(len(model))] = table[told].mean(axis=1)
    return shares


def nearest(noisy: Integers, starts: Integers, rows: Integers) -> Floats:
    """Shares nearest to the noisy counts among those that are not negative and add up: where cells are not alike."""
    from understudy.privacy.mechanisms import cell_estimates_compiled as loops

    shares = np.empty(len(noisy))
    for size in np.unique(rows).tolist():
        loops.nearest_shares(noisy, starts, np.flatnonzero(rows == size), float(size), shares)
    return shares


def rows_of(shares: Floats, starts: Integers, rows: Integers) -> Integers:
    """The cell of each of so many rows, sorted, evenly spaced over the shares of a destination."""
    from understudy.privacy.mechanisms import cell_estimates_compiled as loops

    found = np.empty(int(rows.sum()), dtype=np.int64)
    loops.spread_rows(shares, starts, rows, found)
    return found
