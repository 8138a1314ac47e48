"""The array and progress types that everybody uses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int32]  # of places: millions of them fit in 32 bits each
Progress = Callable[[int, int | None], None]  # done so far, and in all if that is known
