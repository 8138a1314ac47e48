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
