"""Guesses of the shares of many destinations as loops that numba compiles. Imported by ``cell_estimates`` only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.compiling import compiled


@compiled
def expected_shares(  # noqa: PLR0917  (numba passes arguments by position)
    noisy: NDArray[Any],
    starts: NDArray[Any],
    which: NDArray[Any],
    kind_of: NDArray[Any],
    least: int,
    likely: NDArray[Any],
    expected: NDArray[Any],
    shares: NDArray[Any],
) -> None:
    """Expected counts, averaged over concentrations by how likely all noisy counts of the destination are. Each kind of
    cell has its own table; ``kind_of`` says which a cell has."""
    kinds, last = likely.shape[1], likely.shape[2] - 1
    for d in which:
        begin, end = starts[d], starts[d + 1]
        together = np.zeros(kinds)
        for kind in range(kinds):
            for cell in range(begin, end):
                together[kind] += likely[kind_of[cell - begin], kind, min(max(noisy[cell] - least, 0), last)]
        together = np.exp(together - together.max())
        together /= together.sum()
        total = 0.0
        for cell in range(begin, end):
            at = min(max(noisy[cell] - least, 0), last)
            value = 1e-12
            for kind in range(kinds):
                value += together[kind] * expected[kind_of[cell - begin], kind, at]
            shares[cell] = value
            total += value
        for cell in range(begin, end):
            shares[cell] /= total


@compiled
def nearest_shares(
    noisy: NDArray[Any], starts: NDArray[Any], which: NDArray[Any], size: float, shares: NDArray[Any]
) -> None:
    """The nearest point with no negative count and the public total: one number is taken from all, and cut at 0."""
    for d in which:
        begin, end = starts[d], starts[d + 1]
        ordered = np.sort(noisy[begin:end])[::-1]
        passed, level = 0.0, 0.0
        for number in range(end - begin):
            passed += ordered[number]
            if ordered[number] - (passed - size) / (number + 1) > 0.0:
                level = (passed - size) / (number + 1)
        for cell in range(begin, end):
            shares[cell] = max(noisy[cell] - level, 0.0) / size


@compiled
def spread_rows(shares: NDArray[Any], starts: NDArray[Any], rows: NDArray[Any], found: NDArray[Any]) -> None:
    """Row i of r is in the cell that holds (i + 1/2) / r of the summed shares."""
    base = 0
    for d in range(len(rows)):
        cell, last = starts[d], starts[d + 1] - 1
        passed = shares[cell]
        for row in range(rows[d]):
            while passed < (row + 0.5) / rows[d] and cell < last:
                cell += 1
                passed += shares[cell]
            found[base + row] = cell - starts[d]
        base += rows[d]
