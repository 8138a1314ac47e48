"""What measured tables leave open of a share: the least and the most it can be, whatever the table of all attributes.

The shares of the cells of a question are unknown; their sums to every measured table are known up to noise and
sampling. Each sum is kept within its simultaneous 95 percent bounds (Bonferroni), and linear programs find the smallest
and the largest share among all tables that obey. The range covers at least what it says. Nothing is assumed about
interactions that were not measured.
"""

from __future__ import annotations

import numpy as np

from understudy.core.arrays import Floats
from understudy.errors import UnsupportedError
from understudy.inference.estimands import FIRST, Estimand
from understudy.inference.noise_aware import Local, group_matrix

MOST_CELLS = 3000
MOST_OUTPUTS = 60
KINDS = ("proportion", "crosstab")


def can_be_bounded(local: Local, estimand: Estimand) -> bool:
    """Whether a quantity is a share (within a subgroup or not) of a table small enough for linear programs."""
    if estimand.question.kind not in KINDS or len(estimand.names) > MOST_OUTPUTS:
        return False
    return len(local.effects.possible) <= MOST_CELLS


def identified_ranges(local: Local, estimand: Estimand, level: float) -> tuple[Floats, Floats]:
    """The least and the most that each share can be."""
    from scipy.optimize import linprog

    rows, low, high = _bounds(local, level)
    cells = rows.shape[1]
    member = group_matrix(local, estimand) @ estimand.members[0]
    inside = member[:, FIRST:].sum(axis=1)
    wanted = member[:, FIRST + 1 :] if estimand.question.kind == "proportion" else member[:, FIRST:]
    # Charnes and Cooper: with y = p t and the subgroup scaled to 1, a ratio of sums is linear in (y, t).
    scaled = np.concatenate(
        [np.column_stack([rows, -high]), np.column_stack([-rows, low]), -np.eye(cells + 1)[-1:]], axis=0
    )
    fixed = np.stack([np.append(np.ones(cells), -1.0), np.append(inside, 0.0)])
    ends = np.empty((2, wanted.shape[1]))
    for place, one in enumerate(wanted.T):
        for end, sign in enumerate((1.0, -1.0)):
            found = linprog(
                sign * np.append(one, 0.0),
                A_ub=scaled,
                b_ub=np.zeros(len(scaled)),
                A_eq=fixed,
                b_eq=np.array([0.0, 1.0]),
                method="highs",
            )
            if not found.success:
                raise UnsupportedError(
                    "no table of people agrees with the measured tables within their noise, or the subgroup may be "
                    "empty, so this share has no range."
                )
            ends[end, place] = sign * found.fun
    return np.clip(ends[0], 0, 1), np.clip(ends[1], 0, 1)


def _bounds(local: Local, level: float) -> tuple[Floats, Floats, Floats]:
    """Which cells each sum of a measured table holds, and its simultaneous bounds as shares of all people."""
    from scipy.special import ndtri

    posterior, reduced = local.posterior, local.reduced
    total = float(reduced.estimate[0]) if posterior.records is None else float(posterior.records)
    if total <= 0:
        raise UnsupportedError("noise hides how many people there are, so no share has a range.")
    effects = local.effects
    rows = np.concatenate([effects.rows(table.margin, table.cells) for table in local.tables if table.margin])
    rows = np.unique(rows, axis=0).astype(np.float64)
    of = effects.as_functions(rows > 0)
    estimate = np.append(total, reduced.estimate) if posterior.records is not None else reduced.estimate
    centre = of @ estimate / total
    noise = reduced.noise
    loads = of[:, 1:] if posterior.records is not None else of - np.outer(centre, np.eye(len(estimate))[0])
    variance = np.einsum("ij,jk,ik->i", loads, noise, loads) / total**2
    variance = variance + np.maximum(centre * (1 - centre), 1 / total) / total
    half = -ndtri((1 - level) / (2 * len(rows))) * np.sqrt(variance)
    return rows, np.maximum(centre - half, 0), np.minimum(centre + half, 1)
