"""Adding jobs up by their class as a loop that numba compiles. Imported by ``flow_blocks`` only."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from understudy.privacy.compiling import compiled


@compiled
def add_jobs(classes: NDArray[Any], jobs: NDArray[Any], counts: NDArray[Any]) -> bool:
    """Adds the jobs of each pair to the count of its class; whether all classes are there."""
    for pair in range(len(classes)):
        if not 0 <= classes[pair] < len(counts):
            return False
        counts[classes[pair]] += jobs[pair]
    return True
