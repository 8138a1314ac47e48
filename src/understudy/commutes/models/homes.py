"""Where workers live, whatever they do: masses of places fitted to noisy counts of jobs by the area of the home.

Public residents are not workers, and often there is no public number at all. The jobs by home area, measured with noise
and charged, mend that: masses inside an area are multiplied by one factor until the gravity model expects the counted
jobs of every area, summed over all workplaces (iterative proportional fitting). All of it is post-processing.
"""

from __future__ import annotations

import numpy as np

from understudy.commutes.models.decay import leaned
from understudy.commutes.models.gravity import GravityTree
from understudy.core.arrays import Floats, Integers
from understudy.privacy.mechanisms.place_bands import squared_cut

MOST_CENTRES = 20_000  # points that stand for all workplaces
ROUNDS = 4
LARGEST_STEP = 5.0


def fit_homes(
    tree: GravityTree,
    counts: Floats,
    areas: Integers,
    *,
    decays: Floats,
    groups: Integers,
    rows: Integers,
    noise: float,
    cut: float | None,
) -> GravityTree:
    """The tree with masses that make the model expect ``counts``, the noisy jobs by area of the home.

    ``areas`` holds the home area of each place, ``rows`` the jobs at each, ``groups`` the group whose decay it has.
    """
    from understudy.commutes.models import regions_compiled as loops

    centres, jobs, group = _centres(tree, rows, groups)
    farthest = squared_cut(cut)
    if len(centres) == 0:
        return tree
    wanted: Floats | None = None
    for _ in range(ROUNDS):
        pulled = loops.attractions(
            centres, jobs, group, tree.points, tree.mass, tree.sums, tree.nodes, decays, farthest
        )
        expected = np.bincount(areas[tree.order], weights=pulled * tree.mass, minlength=len(counts)).astype(float)
        if wanted is None:
            wanted = leaned(counts, expected, noise)
        ratio = np.where(expected > 0, wanted / np.maximum(expected, 1e-9), 1.0)
        factor = np.clip(ratio, 1 / LARGEST_STEP, LARGEST_STEP)
        tree = tree.weighted(tree.mass * factor[areas[tree.order]])
    return tree


def _centres(tree: GravityTree, rows: Integers, groups: Integers) -> tuple[Integers, Floats, Integers]:
    """Workplaces, or where there are very many the largest of each run of neighbours for all of it: positions, jobs and
    groups."""
    jobs = rows[tree.order].astype(float)
    filled = np.flatnonzero(jobs)
    if len(filled) == 0:
        return filled, np.empty(0), np.empty(0, dtype=np.int64)
    run = np.arange(len(filled)) * min(MOST_CENTRES, len(filled)) // len(filled)
    by_size = np.lexsort((-jobs[filled], run))
    largest = filled[by_size[np.searchsorted(run[by_size], np.arange(run[-1] + 1))]]
    return largest, np.bincount(run, weights=jobs[filled]).astype(float), groups[tree.order[largest]].astype(np.int64)
