"""Whole numbers in proportion to public sizes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def apportion(sizes: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    """Whole numbers that add up to ``rows`` in proportion to public sizes, by largest remainders; the first wins ties.

    Where all sizes are 0 the parts are equal: rows may be asked for although there is no record.

    >>> apportion(np.array([5, 3, 0]), 4).tolist()
    [3, 1, 0]
    """
    if not sizes.any():
        sizes = np.ones_like(sizes)
    total = int(sizes.sum())
    shares = [int(size) * rows for size in sizes]
    given = np.array([share // total for share in shares], dtype=np.int64)
    remainders = np.array([share % total for share in shares])
    given[np.argsort(-remainders, kind="stable")[: rows - int(given.sum())]] += 1
    return given


def systematic(
    starts: NDArray[np.int64], drawn: NDArray[np.int64], drawn_starts: NDArray[np.int64] | None
) -> NDArray[np.int64]:
    """Take a given number of the sorted rows of each list, evenly spaced, so that shares are nearly kept.

    >>> systematic(np.array([0, 2]), np.array([7, 7, 8, 9]), np.array([0, 4])).tolist()
    [7, 9]
    """
    if drawn_starts is None or np.array_equal(starts, drawn_starts):
        return drawn
    wanted, given = np.diff(starts), np.diff(drawn_starts)
    number = np.arange(starts[-1]) - np.repeat(starts[:-1], wanted)
    per_list = np.repeat(given, wanted)
    within = (2 * number + 1) * per_list // (2 * np.repeat(wanted, wanted))
    return np.asarray(drawn[np.repeat(drawn_starts[:-1], wanted) + within])
