"""How commuting falls with distance: a decay for each group of destinations, fitted to noisy counts by distance.

The counts are by band of distance and group of destinations (an area, or all). A decay is fitted so that the gravity
model expects, summed over destinations, the counted shares (iterative scaling). Counts with much noise are shrunk
towards the decay of all groups together. Everything here is post-processing of noisy counts and public sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.gravity import KNOT_OCTAVES, GravityTree, default_decay, knots
from understudy.core.arrays import Floats, Integers
from understudy.core.threads import in_order
from understudy.privacy.mechanisms.place_bands import squared_cut

BAND_EDGES = 2.0 ** np.arange(-2, 7.01, 0.5)  # miles; the first band begins at 0 and the last has no end
BANDS = len(BAND_EDGES) + 1
ROUNDS = 30
DAMPING = 0.7
EFFECTS = (0.02, 50.0)  # limits of the factor by which a group differs from the whole, if noise may explain it
SURELY = 3.0  # noise reaches log(counts) + 3 scales in one of twenty tables
MOST_EXAMPLES = 40_000  # destinations whose surroundings are looked at, of all groups together
LEAST_EXAMPLES = 4  # of each group, however many there are
PIECE = 2_500  # destinations that a thread looks around at a time


def band_of(squared: Floats) -> Integers:
    """The band of each squared distance."""
    return np.searchsorted(BAND_EDGES**2, squared, side="right").astype(np.int64)


def band_middles() -> Floats:
    """A distance that stands for each band."""
    inner = np.sqrt(BAND_EDGES[:-1] * BAND_EDGES[1:])
    return np.concatenate(([BAND_EDGES[0] / 2], inner, [BAND_EDGES[-1] * 1.2]))


def choose_examples(
    tree: GravityTree, groups: Integers, weights: Floats | Integers, count: int
) -> tuple[Integers, Floats]:
    """Destinations whose surroundings stand for those of their group, and how many jobs each of them stands for.

    They are all destinations of a group, if there is room. Otherwise they are a systematic sample of its jobs in the
    order of the tree, so that each part of the group counts by its jobs. The largest destinations would not do: they
    lie in the middle of a city.
    """
    filled = tree.order[weights[tree.order] > 0].astype(np.int64)
    room = max(MOST_EXAMPLES // count, LEAST_EXAMPLES)
    order = filled[np.argsort(groups[filled], kind="stable")]
    jobs = weights[order].astype(float)
    members = np.bincount(groups[order], minlength=count)
    total = np.bincount(groups[order], weights=jobs, minlength=count)
    before = np.concatenate(([0.0], np.cumsum(total)))[groups[order]]
    interval = (total / room)[groups[order]]  # jobs from one taken to the next; the first is half of it from the start
    upto = np.floor((np.cumsum(jobs) - before) / interval + 0.5 - 1e-9)
    taken = np.diff(upto, prepend=0.0)
    new_group = np.diff(groups[order], prepend=-1) != 0
    taken[new_group] = upto[new_group]
    stands_for = np.where(members[groups[order]] <= room, jobs, taken * interval)
    return order[stands_for > 0], stands_for[stands_for > 0]


def pieces(values: NDArray[Any]) -> list[NDArray[Any]]:
    """Runs that threads work on. They do not depend on the number of threads, so that sums do not either."""
    return np.array_split(values, 1 + len(values) // PIECE)


def fit_decays(
    tree: GravityTree,
    counts: Floats,
    groups: Integers,
    weights: Floats | Integers,
    *,
    noise: float,
    cut: float | None,
    every: tuple[Floats, float] | None = None,
) -> Floats:
    """One decay per group (rows) at the knots; ``counts`` are noisy jobs by group and band.

    ``every``: noisy jobs of all groups together, where they were measured by themselves, and the scale of their noise.
    """
    from understudy.commutes.models import regions_compiled as loops

    number = len(counts)
    examples, share = choose_examples(tree, groups, weights, number)
    farthest = squared_cut(cut)
    flat = np.ones(len(knots()))

    def seen_by(positions: Integers) -> Floats:
        found: Floats = loops.exposures(positions, tree.points, tree.mass, tree.sums, tree.nodes, flat, farthest)
        return found

    seen = np.concatenate([*in_order(seen_by, pieces(tree.rank[examples]))])
    group = groups[examples]
    together = np.zeros(len(examples), dtype=np.int64)
    before = np.interp(band_middles(), knots(), default_decay())[None, :]
    model = _expected(before, seen, share, together) * share.sum()
    summed, off = counts.sum(axis=0), noise * np.sqrt(number)
    if every is not None:  # both say the same, each with its noise
        part = off**2 / (off**2 + every[1] ** 2)
        summed, off = summed * (1 - part) + every[0] * part, off * every[1] / np.hypot(off, every[1])
    whole = leaned(summed[None, :], model, off)
    everyone = _fit(np.maximum(whole, 1e-9), seen, share, together)[0]
    if number == 1:
        return _curves(everyone[None, :])
    totals = np.maximum(np.bincount(group, weights=share, minlength=number), 1.0)[:, None]
    model = _expected(np.tile(everyone, (number, 1)), seen, share, group) * totals
    fitted = _fit(np.maximum(leaned(counts, model, noise), 1e-9), seen, share, group, start=everyone)
    return _curves(fitted)


def leaned(counts: Floats, model: Floats, noise: float) -> Floats:
    """The best linear estimate of each count between its noisy value and what a model expects.

    A true count varies around the expected count m like one of a Poisson law whose mean is m times an effect of mean 1
    and variance v: by v m^2 + m. Noise adds twice its squared scale. The variance of the effect is estimated from all
    counts. If almost nobody is expected, the estimate is almost zero: cutting noisy counts off at zero instead would
    invent long commutes in every group. But a count that noise cannot explain, among as many counts as there are, is
    believed whatever the others say: very near homes have many times as many workers as a smooth decay gives them.
    """
    model = np.maximum(model, 1e-9)
    off, noisy = counts - model, 2.0 * noise**2
    weight = model**4 / (noisy + model) ** 2
    effect = max(float((weight * (off**2 - noisy - model) / model**2).sum() / weight.sum()), 0.0)
    varies = effect * model**2 + model
    believed = varies / (varies + noisy)
    clear = np.abs(off) > noise * (np.log(counts.size) + SURELY)
    believed = np.where(clear, np.maximum(believed, 1 - noisy / np.maximum(off**2, noisy)), believed)
    most = np.where(clear, np.inf, EFFECTS[1])
    return np.asarray(model * np.clip(1.0 + believed * off / model, EFFECTS[0], most))


def _curves(strengths: Floats) -> Floats:
    """Decays at the knots for rows of strengths by band, as ``decay_from`` makes each of them."""
    known = np.log(np.maximum(strengths, 1e-12))
    at, middles = np.log(knots()), np.log(band_middles())
    right = np.clip(np.searchsorted(middles, at), 1, len(middles) - 1)
    share = np.clip((at - middles[right - 1]) / (middles[right] - middles[right - 1]), 0.0, 1.0)
    found = known[:, right - 1] * (1 - share) + known[:, right] * share
    # Row by row: loops are compiled anew for every layout of their arrays.
    return np.ascontiguousarray(np.exp(found - found.max(axis=1, keepdims=True)))


def _fit(counts: Floats, seen: Floats, share: Floats, group: Integers, start: Floats | None = None) -> Floats:
    """Iterative scaling: strengths grow where the model expects too few, until it expects the counted shares."""
    number = len(counts)
    strengths = np.tile(np.interp(band_middles(), knots(), default_decay()) if start is None else start, (number, 1))
    wanted = counts / counts.sum(axis=1, keepdims=True)
    for _ in range(ROUNDS):
        expected = _expected(strengths, seen, share, group)
        ratio = np.where(expected > 1e-9, wanted / np.maximum(expected, 1e-9), 1.0)
        strengths = strengths * np.clip(ratio, 0.05, 20.0) ** DAMPING
        strengths /= strengths.max(axis=1, keepdims=True)
    return strengths


def _expected(strengths: Floats, seen: Floats, share: Floats, group: Integers) -> Floats:
    """The share of the jobs of each group that the model expects in each band."""
    from understudy.commutes.models import regions_compiled as loops

    number = len(strengths)
    at_knots = loops.expected_at_knots(_curves(strengths), seen, share, group)
    by_group = np.bincount(group, weights=share, minlength=number)
    return np.asarray(at_knots @ _bands_of_knots() / np.maximum(by_group[:, None], 1e-300))


def _bands_of_knots() -> Floats:
    """The share of what is seen at each knot that lies in each band. A knot stands for what lies around it, so a knot
    on an edge is half in either band. If all of it were in the outer band, every fitted commute would be too short."""
    around = knots()[:, None] * 2.0 ** (np.array([-0.25, 0.25]) / KNOT_OCTAVES[1])
    into = np.zeros((len(around), BANDS))
    np.add.at(into, (np.arange(len(around))[:, None], band_of(around**2)), 0.5)
    return into
