"""The loop that finds the codes of numbered places, which numba compiles. Imported only by ``commutes``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.compiling import compiled


@compiled
def find_codes(numbers: NDArray[Any], keys: NDArray[Any], codes: NDArray[Any], found: NDArray[Any]) -> int:
    """The code of each number among increasing keys; gives how many numbers are not among them.

    The search begins where the last one ended and widens by doubling: in a table that is listed by destination and
    origin the next place is near, and no batch needs to be sorted.
    """
    unknown, count = 0, len(keys)
    at = 0
    for row in range(len(numbers)):
        wanted = numbers[row]
        low, high, step = at, at + 1, 1
        if keys[at] > wanted:
            while low > 0 and keys[low] > wanted:
                high = low
                low = max(low - step, 0)
                step *= 2
        else:
            while high < count and keys[high] <= wanted:
                low = high
                high = min(high + step, count)
                step *= 2
        while high - low > 1:
            middle = (low + high) // 2
            if keys[middle] <= wanted:
                low = middle
            else:
                high = middle
        at = low
        found[row] = codes[low]
        unknown += keys[low] != wanted
    return unknown


def codes_of(
    numbers: NDArray[np.int64], keys: NDArray[np.int64], codes: NDArray[np.int32]
) -> tuple[NDArray[np.int32], int]:
    """The same as a value."""
    found = np.empty(len(numbers), dtype=np.int32)
    return found, int(find_codes(numbers, keys, codes, found))
