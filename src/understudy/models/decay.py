"""How commuting falls with distance: a decay for each group of destinations, fitted to noisy counts by distance.

The counts are by band of distance and group of destinations (an area, or all). A decay is fitted so that the gravity
model expects, summed over destinations, the counted shares (iterative scaling). Small groups lean on the whole.
Everything here is post-processing of noisy counts and public sizes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.models.gravity import GravityTree, decay_from, default_decay, knots

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BAND_EDGES = 2.0 ** np.arange(-2, 7.01, 0.5)  # miles; the first band begins at 0 and the last has no end
BANDS = len(BAND_EDGES) + 1
ROUNDS = 30
DAMPING = 0.7
LEAN = 15.0  # pseudo-jobs of the whole in a group, in units of the noise
MOST_LOOKED_AT = 24  # destinations of a group whose surroundings are looked at


def band_of(squared: Floats) -> Integers:
    """The band of each squared distance."""
    return np.searchsorted(BAND_EDGES**2, squared, side="right").astype(np.int64)


def band_middles() -> Floats:
    """A distance that stands for each band."""
    inner = np.sqrt(BAND_EDGES[:-1] * BAND_EDGES[1:])
    return np.concatenate(([BAND_EDGES[0] / 2], inner, [BAND_EDGES[-1] * 1.2]))


def choose_examples(groups: Integers, weights: Integers, count: int) -> Integers:
    """A few destinations of each group, those with most jobs first: their surroundings stand for the group's."""
    order = np.lexsort((-weights, groups))
    order = order[weights[order] > 0]
    sorted_groups = groups[order]
    first = np.searchsorted(sorted_groups, np.arange(count), side="left")
    position = np.arange(len(order)) - first[sorted_groups]
    return np.asarray(order[position < MOST_LOOKED_AT])


def fit_decays(
    tree: GravityTree, counts: Floats, groups: Integers, weights: Integers, *, noise: float, cut: float | None
) -> Floats:
    """One decay per group (rows) at the knots; ``counts`` are noisy jobs by group and band."""
    from understudy.models import regions_compiled as loops

    number = len(counts)
    examples = choose_examples(groups, weights, number)
    farthest = np.inf if cut is None else cut**2
    seen = loops.exposures(
        tree.rank[examples], tree.points, tree.mass, tree.sums, tree.nodes, np.ones(len(knots())), farthest
    )
    share, group = weights[examples].astype(float), groups[examples]
    whole = np.maximum(counts.sum(axis=0), 0.0) + 1e-3
    everyone = _fit(whole[None, :], seen, share, np.zeros(len(examples), dtype=np.int64))[0]
    if number == 1:
        return np.asarray(_at_knots(everyone)[None, :])
    leaned = np.maximum(counts, 0.0) + LEAN * noise * (whole / whole.sum())
    fitted = _fit(leaned, seen, share, group, start=everyone)
    return np.array([_at_knots(one) for one in fitted])


def _at_knots(strengths: Floats) -> Floats:
    return decay_from(band_middles(), np.maximum(strengths, 1e-12))


def _fit(counts: Floats, seen: Floats, share: Floats, group: Integers, start: Floats | None = None) -> Floats:
    """Iterative scaling: strengths grow where the model expects too few, until it expects the counted shares."""
    number = len(counts)
    strengths = np.tile(np.interp(band_middles(), knots(), default_decay()) if start is None else start, (number, 1))
    bands = band_of(knots() ** 2)
    into = np.zeros((len(bands), BANDS))
    into[np.arange(len(bands)), bands] = 1.0
    wanted = counts / counts.sum(axis=1, keepdims=True)
    by_group = np.bincount(group, weights=share, minlength=number)
    for _ in range(ROUNDS):
        curves = np.array([_at_knots(one) for one in strengths])
        pulls = seen * curves[group]
        total = pulls.sum(axis=1, keepdims=True)
        expected = np.zeros((number, BANDS))
        np.add.at(expected, group, (pulls / np.maximum(total, 1e-300) * share[:, None]) @ into)
        expected /= np.maximum(by_group[:, None], 1e-300)
        ratio = np.where(expected > 1e-9, wanted / np.maximum(expected, 1e-9), 1.0)
        strengths = strengths * np.clip(ratio, 0.05, 20.0) ** DAMPING
        strengths /= strengths.max(axis=1, keepdims=True)
    return strengths
