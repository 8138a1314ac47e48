"""What noisy counts of jobs by pair of areas say about all pairs: shared by the methods that measure them.

Only noisy values and public facts come in, so everything here is post-processing. See docs/theory/commute-tree.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.area_pairs import AreaPairs, choose_area_pairs
from understudy.commutes.models.flow_fit import (
    LEAST,
    CellBeliefs,
    NoisyCells,
    believe_cells,
    fit_gravity,
    sizes_of_destinations,
)
from understudy.core.arrays import Floats, Integers
from understudy.core.measurement import Measurement
from understudy.core.places import Places
from understudy.errors import UnsupportedError
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric

EDGES = np.geomspace(0.5, 500, 24)  # miles between areas
DENSE_CELLS = 2_000_000  # with more cells only those above a threshold are reported
FLOWS_LABEL = "jobs between areas"


def every_pair(places: Places) -> AreaPairs:
    """All pairs of areas of the level that ``commute_tree`` would take if everything were near."""
    pairs = choose_area_pairs(places, np.inf, "auto")
    if len(pairs) > DENSE_CELLS:
        raise UnsupportedError(
            f"{len(pairs):,} pairs of areas are too many for flow_share, which is for a city or a state; at most "
            f"{DENSE_CELLS:,} are measured one by one. Leave it out, or use commute_tree."
        )
    return pairs


def expected_flows(pairs: AreaPairs, noisy: Measurement, model: Floats) -> Floats:
    """Expected jobs by finest area of work (rows) and of the home, from noisy pairs and from what a model expects."""
    cells = pairs.destination, pairs.origin
    believed = believe_cells(
        np.maximum(model[cells], LEAST),
        NoisyCells(values=noisy.values, mechanism=noisy.mechanism),
        sizes_of_destinations(pairs, model.sum(axis=1)),
    )
    found = np.zeros_like(model)
    found[cells] = believed.mean()
    return found


def distance_classes(pairs: AreaPairs) -> Integers:
    """The class of each cell by the distance between its areas."""
    return np.searchsorted(EDGES, pairs.distance()).astype(np.int64)


def believe_flows(
    pairs: AreaPairs,
    noisy: Measurement,
    *,
    total: int,
    destinations: Floats,
    origins: NDArray[np.int64] | Floats | None = None,
    distances: NDArray[np.int64] | Floats | None = None,
) -> CellBeliefs:
    """What is known of every pair of areas from its noisy count and a gravity model.

    ``destinations`` are the jobs at each finest area. ``origins`` and ``distances`` are noisy jobs by finest area of
    the home and by class of distance; left out, they are sums of the noisy pairs.
    """
    threshold = noisy.mechanism.threshold if isinstance(noisy.mechanism, SparseGeometric) else None
    bins = distance_classes(pairs)
    if origins is None:
        origins = by_origin(pairs, noisy.values)
    if distances is None:
        distances = np.bincount(bins, noisy.values, len(EDGES) + 1)
    gravity = fit_gravity(
        pairs, bins, origins=scaled(origins, total), destinations=destinations, distances=scaled(distances, total)
    )
    return believe_cells(
        gravity,
        NoisyCells(
            values=noisy.values,
            mechanism=noisy.mechanism,
            reported=None if threshold is None else noisy.values > threshold,
            threshold=threshold or 0,
        ),
        sizes_of_destinations(pairs, destinations),
    )


def by_origin(pairs: AreaPairs, noisy: Integers) -> Floats:
    """Jobs by finest area of the home as sums of noisy pairs; far pairs are divided by what the near ones have."""
    own = pairs.near
    near = np.bincount(pairs.origin[own], noisy[own], len(pairs.finest))
    return by_finest(pairs, pairs.origin, noisy.astype(np.float64), np.maximum(near, 1.0))


def by_finest(pairs: AreaPairs, side: NDArray[np.int32], values: Floats, share: Floats) -> Floats:
    """Sums by finest area of one side of the pairs; far pairs are divided over the parts of their area by ``share``."""
    sums = np.zeros(len(pairs.finest))
    for number, level in enumerate(pairs.levels):
        own = pairs.level == number
        found = np.bincount(side[own], values[own], len(level))
        if number + 1 == len(pairs.levels):
            return np.asarray(sums + found)
        ancestor = pairs.ancestors(number)
        inside = np.maximum(np.bincount(ancestor, share, len(found)), np.finfo(float).tiny)
        sums += (found / inside)[ancestor] * share
    return sums


def scaled(noisy: NDArray[np.int64] | Floats, total: int) -> Floats:
    """Noisy counts as shares of a total, none of them negative."""
    counts = np.maximum(noisy, 0).astype(np.float64)
    return counts * (total / counts.sum()) if counts.any() else np.full(len(counts), total / len(counts))
