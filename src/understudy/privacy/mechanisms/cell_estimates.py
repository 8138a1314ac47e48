"""What the noisy counts of one destination say about its cells: best guesses, from public numbers and noisy values.

Workers of a destination are spread over K cells of which a public model expects known shares. Real destinations differ
from the model: their shares are taken as Dirichlet around those of the model, with one of a few concentrations, of
which each destination's own noisy counts choose. A count is then beta-binomial, the noise has its known law, and the
guess is the mean of the count given the noisy one. Everything here is post-processing. The same sums, taken before
anything is drawn, say how far such a guess will be off: that is what a law of noise is chosen by.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import betaln, gammaln

from understudy.core.arrays import Floats, Integers
from understudy.privacy.mechanisms.ring_division import cell_shares, is_graded

CONCENTRATIONS = (2.0, 5.0, 15.0, 50.0, 200.0)  # from destinations of their own kind to none that differs
MOST_LISTED = 300  # jobs up to which counts are listed one by one
TAIL = 1e-12


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


@lru_cache(maxsize=1024)
def ring_guesses(size: int, cells: int, scale: Fraction, balanced: bool, graded: bool) -> tuple[int, Floats, Floats]:
    """The least noisy count, and by ring what ``guesses`` says of one of its cells. Rings that are alike are one."""
    graded = graded and bool(is_graded(np.array(cells)))
    shares = cell_shares(cells, graded) if graded else np.array([1 / cells])
    tables = [guesses(size, cells, scale, balanced, share) for share in shares.tolist()]
    likely, expected = (np.stack(parts) for parts in zip(*((t.likely, t.expected) for t in tables), strict=True))
    return tables[0].least, likely, expected


def estimate(
    noisy: Integers, starts: Integers, rows: Integers, scale: Fraction, *, balanced: bool, graded: bool
) -> Floats:
    """Shares of the cells of each destination, whose noisy counts lie at starts[d]:starts[d + 1]."""
    from understudy.privacy.mechanisms import cell_estimates_compiled as loops

    shares = np.empty(len(noisy))
    kinds, which = np.unique(np.stack([rows, np.diff(starts)]), axis=1, return_inverse=True)
    order = np.argsort(which, kind="stable")
    ends = np.concatenate(([0], np.cumsum(np.bincount(which, minlength=kinds.shape[1]))))
    for kind, (size, cells) in enumerate(kinds.T.tolist()):
        inside = order[ends[kind] : ends[kind + 1]]
        if cells < 2 or size > MOST_LISTED:
            loops.nearest_shares(noisy, starts, inside, float(size), shares)
        else:
            least, likely, expected = ring_guesses(size, cells, scale, balanced, graded)
            loops.expected_shares(noisy, starts, inside, cells // len(likely), least, likely, expected, shares)
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
