"""Which areas of homes are counted, with noise, to learn where workers live at all."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from understudy.commutes.models.gravity import GravityTree
from understudy.commutes.shared.decays import groups_of
from understudy.core.arrays import Integers
from understudy.core.measurement import Measurement
from understudy.privacy.gate.flow_gate import FlowGate, FlowTable
from understudy.privacy.mechanisms.noise import Geometric

LABEL = "jobs by home area"
JOBS_PER_AREA = 12.0  # an area of homes has at least so many jobs on average, in units of the noise scale


def home_areas(tree: GravityTree, scale: float, jobs: float) -> tuple[Integers, int]:
    """The home area of each place: the finest level that can be counted well, each area cut into as many runs of
    neighbours as can be; runs of neighbours alone where no level is coarse enough."""
    places = tree.places
    most = max(int(jobs / (JOBS_PER_AREA * scale)), 1)
    area, number = np.zeros(len(places), dtype=np.int64), 1
    for level in places.areas:
        found, count = groups_of(places, level)
        if number < count <= most:
            area, number = found, count
    pieces = max(most // number, 1)
    if pieces == 1:
        return area, number
    order = np.lexsort((tree.rank, area))
    sizes = np.bincount(area, minlength=number)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    within = np.arange(len(order)) - starts[area[order]]
    cut = np.minimum(sizes, pieces)
    piece = np.empty(len(places), dtype=np.int64)
    piece[order] = (
        (np.concatenate(([0], np.cumsum(cut)))[area[order]]) + within * cut[area[order]] // sizes[area[order]]
    )
    return piece, int(cut.sum())


def measure_homes(gate: FlowGate, areas: Integers, number: int, scale: Fraction) -> Measurement:
    """Noisy jobs by home area, all workplaces together."""
    table = FlowTable(label=LABEL, cells=number, classify=lambda origins, _: np.asarray(areas[origins]))
    return gate.measure(table, Geometric(scale=scale))
