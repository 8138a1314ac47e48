"""The nearest table that could be a table of counts: non-negative, with a stated total, zero where it must be."""

from __future__ import annotations

from math import expm1, sqrt

import numpy as np
from numpy.typing import NDArray

from understudy.errors import InputError

# A table of n people and k cells has about k (1 - (1 + n/k)^-FILLED) filled cells: 41 drawn settings, n/k .0002 to 300
FILLED = 0.4
LEAST_VARIANCE = 1e-9  # of noise that is almost surely 0


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


def lost_to_noise(records: float, cells: int, deviation: float) -> float:
    """The part of the people whom the nearest table moves from where they are into cells that nobody is in.

    It takes one number t off every cell, so that the noise left on empty cells is what filled cells lose. How many
    cells are filled follows from people per cell (``FILLED``), and a filled cell of m people on average loses
    m (1 - exp(-t/m)).
    """
    variance = max(deviation**2, LEAST_VARIANCE)
    filled = cells * (1.0 - (1.0 + records / cells) ** -FILLED)
    ratio = variance / (1.0 + variance + sqrt(1.0 + 2.0 * variance))  # of the law of geometric noise
    left = (cells - filled) * ratio / (1.0 - ratio**2)  # of its positive part on empty cells, if nothing is taken off
    low, high = 0.0, 60.0 * deviation + 2.0
    for _ in range(50):
        middle = (low + high) / 2.0
        lost = -records * expm1(-middle * filled / records)
        low, high = (middle, high) if left * ratio**middle > lost else (low, middle)
    return -expm1(-high * filled / records)
