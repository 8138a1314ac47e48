"""What a commuting release says about the law of its counts: how much of each workplace is prior, and how coarse it is.

Methods that draw from an urn publish, by the public number of jobs of a workplace, how many cells of homes it tells
apart and the prior of each. With them the page computes the range beside a count (docs/tutorials/map.md). A release
that publishes nothing of the kind, or whose sizes of workplaces are noisy themselves (private destinations), gets no
ranges, and the page says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.places import DESTINATION
from understudy.privacy.commute_prior import SizedPrior
from understudy.privacy.definition import Unit

URNS = ("commute_urn", "commute_accept_reject")


def stated_law(
    draws: Sequence[Mapping[str, Any]], unit: Unit, copy: int, sizes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """Total prior and number of cells of workplaces with ``sizes`` jobs, or nothing if the release does not say."""
    if DESTINATION not in unit.fixed or not 1 <= copy <= len(draws):
        return None
    for mechanism in draws[copy - 1].get("mechanisms", ()):
        if mechanism.get("mechanism") in URNS:
            cells, weights, shifts = SizedPrior.from_json(mechanism).of(sizes)
            prior: NDArray[np.float64] = cells * (weights.astype(np.float64) * 2.0 ** (-shifts.astype(np.float64)))
            return prior, cells
    return None
