"""Weights as near to equal as tables allow: the smallest change, by relative entropy, that brings them to noisy counts.

With c the cells of a thing that is weighted, y the wanted counts and V their variances, weights exp(c t) minimise the
convex function (sum of weights, or of the logarithms of their sums) - t y + s t V t / 2; where it is least, y - s V t
are the tables of the weights. The larger s, the more the model is trusted, and the less the tables. It is made smaller
until the squared distances, each divided by its variance, add up in every table to what noise alone may leave: the
number of cells and two standard deviations. It is made smaller only as long as that helps: tables that no weights reach
would otherwise make everything else follow its noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from understudy.core.arrays import Floats

STEPS = 200
WORTH = 0.9  # of what tables are beyond their noise: a weaker model must leave less, or it is not worth it
STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)  # of the model beside the tables, the greatest first
Counted = Callable[[Floats], tuple[float, Floats]]


def nearest_slopes(counted: Counted, wanted: Floats, variances: Floats, begins: Sequence[int]) -> Floats:
    """The slopes t. ``counted`` gives for slopes the convex function's first part, and its gradient: all tables.

    ``begins`` says where each table begins whose noise ends the search, and where the last one ends.
    """
    from scipy.optimize import minimize

    _, drawn = counted(np.zeros(len(wanted)))
    scale = np.sqrt(drawn + variances)
    values, best, least = np.zeros(len(scale)), np.zeros(len(scale)), math.inf
    for strength in STRENGTHS:
        weakened = variances * strength

        def target(values: Floats, weakened: Floats = weakened) -> tuple[float, Floats]:
            slopes = values / scale
            loss, counts = counted(slopes)
            loss += float(0.5 * slopes @ (weakened * slopes) - slopes @ wanted)
            return loss, (counts - wanted + weakened * slopes) / scale

        found = minimize(target, values, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
        values = np.asarray(found.x)
        _, counts = counted(values / scale)
        apart = (counts - wanted) ** 2 / variances
        beyond = sum(
            max(float(apart[begin:end].sum()) / _left_by_noise(end - begin) - 1.0, 0.0)
            for begin, end in pairwise(begins)
        )
        if beyond > WORTH * least:
            break
        best, least = values, beyond
        if not beyond:
            break
    return np.asarray(best / scale)


def _left_by_noise(cells: int) -> float:
    return cells + 2.0 * math.sqrt(2.0 * cells)
