"""The array and progress types that everybody uses, and counts in little memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int32]  # of places: millions of them fit in 32 bits each
Whole = NDArray[np.signedinteger[Any]]  # whole numbers in as few bits as they need
Progress = Callable[[int, int | None], None]  # done so far, and in all if that is known


def narrowed(counts: Integers | Floats) -> Whole:
    """Counts, rounded to whole numbers, in the smallest signed type that holds them: a thousand tables at a time.

    >>> narrowed(np.array([3.4, 250.0])).dtype.name
    'int16'
    """
    whole = counts if counts.dtype.kind == "i" else np.rint(counts).astype(np.int64)
    reach = max(int(whole.max(initial=0)), -int(whole.min(initial=0)))
    return np.asarray(whole.astype(np.min_scalar_type(-reach - 1)))
