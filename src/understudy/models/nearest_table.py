"""The nearest table that could be a table of counts: non-negative, with a stated total, zero where it must be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.errors import InputError


def nearest_table(
    noisy: NDArray[np.int64] | NDArray[np.float64], total: float, allowed: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Least-squares projection of noisy counts onto non-negative tables with the given total.

    The solution is ``max(noisy - shift, 0)`` with one shift for all cells (Held, Wolfe and Crowder 1974; Duchi et al.
    2008). Why not clip and rescale: clipping keeps the positive half of the noise of every empty cell. A sparse table
    then has many invented records, and rescaling takes them from the real cells. The shift grows only like the
    logarithm of the number of empty cells, so a cell whose noisy count is well above the noise is never emptied. The
    true table is in the convex set of the projection, so the squared error can only fall.

    >>> nearest_table(np.array([9, 2, -3]), total=9).tolist()
    [8.0, 1.0, 0.0]
    """
    values = np.asarray(noisy, dtype=np.float64)
    mask = np.ones(values.shape, dtype=bool) if allowed is None else allowed
    if not mask.any():
        raise InputError("no cell of the table is allowed.")
    result = np.zeros(values.shape)
    if total <= 0:
        return result
    inside = values[mask]
    ordered = np.sort(inside)[::-1]
    shifts = (np.cumsum(ordered) - total) / np.arange(1, len(ordered) + 1)
    kept = int(np.nonzero(ordered > shifts)[0][-1])
    result[mask] = np.maximum(inside - shifts[kept], 0.0)
    return result
