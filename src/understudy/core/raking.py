"""Raking: weights that agree with public totals. It sees synthetic rows and public totals only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats

STEPS = 1000
CLOSE = 1e-12  # relative: totals that differ by less agree
Margin = tuple[NDArray[np.integer], Floats]  # the code of every row, and the total of every code


def raked(weights: Floats, margins: Sequence[Margin]) -> Floats:
    """Weights multiplied by one factor for each level of each attribute, so that their sums are the public totals.

    The factors change the weights as little as possible in the sense of Kullback and Leibler (Deming and Stephan 1940;
    Ireland and Kullback 1968). A level that no row has keeps its total out: no weight can stand for it. Whoever needs
    it asks for more rows.

    >>> raked(np.ones(4), [(np.array([0, 0, 0, 1]), np.array([6.0, 4.0]))]).tolist()
    [2.0, 2.0, 2.0, 4.0]
    """
    found = np.array(weights, dtype=np.float64)
    if not len(found):
        return found
    for _ in range(STEPS):
        worst = 0.0
        for codes, totals in margins:
            sums = np.bincount(codes, weights=found, minlength=len(totals))
            factor = np.divide(totals, sums, out=np.ones(len(totals)), where=sums > 0)
            worst = max(worst, float(np.abs(factor - 1).max()))
            found *= factor[codes]
        if worst < CLOSE:
            break
    return found
