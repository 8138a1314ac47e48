"""The loop that numba compiles. Imported only by ``kernel``, and only when there are rows enough to pay for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.compiling import compiled

# Rows of one block: the flat cell numbers of a block (4 bytes each) stay in the first-level cache with their columns.
# 4,096 and 16,384 rows differed by less than 5 percent, larger blocks were slower.
BLOCK = 4096


def _tally(  # noqa: PLR0917  (numba passes arguments by position)
    narrow: NDArray[np.uint8],
    wide: NDArray[np.uint32],
    starts: NDArray[np.int64],
    is_wide: NDArray[np.bool_],
    rows: NDArray[np.int64],
    sizes: NDArray[np.uint32],
    offsets: NDArray[np.int64],
    tables: NDArray[Any],
) -> None:
    """Add every row to every table. Table ``t`` has the columns ``starts[t]`` to ``starts[t + 1]`` of the lists
    ``is_wide``, ``rows`` and ``sizes``, and the cells ``offsets[t]`` to ``offsets[t + 1]`` of ``tables``.

    Tables are the outer loop within a block, so that a block's columns are read from memory once and the mixed-radix
    number of a cell is made by loops that the compiler turns into vector instructions. Cell numbers are below 2^32 and
    codes below their sizes: the caller has checked both.
    """
    count = narrow.shape[1]
    cell = np.empty(BLOCK, np.uint32)
    for begin in range(0, count, BLOCK):
        length = min(BLOCK, count - begin)
        for t in range(len(starts) - 1):
            for part in range(starts[t], starts[t + 1]):
                size = sizes[part]
                if is_wide[part]:
                    codes = wide[rows[part], begin : begin + length]
                    if part == starts[t]:
                        for i in range(length):
                            cell[i] = codes[i]
                    else:
                        for i in range(length):
                            cell[i] = cell[i] * size + codes[i]
                else:
                    small = narrow[rows[part], begin : begin + length]
                    if part == starts[t]:
                        for i in range(length):
                            cell[i] = small[i]
                    else:
                        for i in range(length):
                            cell[i] = cell[i] * size + np.uint32(small[i])
            table = tables[offsets[t] : offsets[t + 1]]
            for i in range(length):
                table[cell[i]] += 1


tally = compiled(_tally)
