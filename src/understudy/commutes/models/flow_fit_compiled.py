"""Quantiles of very many counts as a loop that numba compiles. Imported only by ``flow_fit``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.compiling import compiled


@compiled
def counts_at(  # noqa: PLR0917  (numba passes arguments by position)
    up_to: NDArray[Any],
    first: NDArray[Any],
    step: int,
    row: NDArray[Any],
    level: NDArray[Any],
    most: NDArray[Any],
) -> NDArray[Any]:
    """The count of each entry at its level of probability: 0 at level 0, ``most`` at level 1."""
    counts = np.empty(len(row), np.int64)
    for entry in range(len(row)):
        wanted = level[entry]
        if wanted <= 0.0:
            counts[entry] = 0
            continue
        if wanted >= 1.0:
            counts[entry] = most[entry]
            continue
        law = up_to[row[entry]]
        low, high = 0, len(law) - 1
        while low < high:
            middle = (low + high) // 2
            if law[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        found = first[row[entry]] + step * low
        if step > 1:  # counts of a step are equally likely
            before = law[low - 1] if low else 0.0
            found += min(int(step * (wanted - before) / (law[low] - before)), step - 1)
        counts[entry] = min(found, most[entry])
    return counts
