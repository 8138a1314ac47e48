"""What ``commute`` measures before it draws: how commuting falls with distance, and where workers live.

This file decides which groups of destinations get their own decay and which areas of homes are counted, and fits the
model to the noisy counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.decay import BAND_EDGES, BANDS, fit_decays, leaned, pieces
from understudy.commutes.models.gravity import GravityTree, default_decay
from understudy.commutes.models.outside import OutsideHomes, likely_counts, parts_from
from understudy.commutes.models.regions import AreaFactors
from understudy.core.arrays import Floats, Integers
from understudy.core.measurement import Measurement
from understudy.core.places import Places
from understudy.core.threads import in_order
from understudy.privacy.gate.flow_gate import FlowGate, FlowTable
from understudy.privacy.mechanisms.noise import Geometric
from understudy.privacy.mechanisms.place_bands import squared_cut

DISTANCES_LABEL = "jobs by distance"
ALL_DISTANCES_LABEL = "jobs by distance, all workplaces"
PART_OF_ALL = Fraction(1, 5)  # of what distances are given, for all workplaces together
JOBS_PER_CELL = 0.8  # a level is used if a cell of its table has at least this many jobs, in units of the noise scale
MOST_GROUPS = 5_000
HOMES_LABEL = "jobs by home area"
JOBS_PER_AREA = 12.0  # the least average number of jobs in an area of homes, in units of the noise scale
JOBS_PER_NAMED_AREA = 3.0  # the same for areas that people ask for


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decays:
    """One decay per group of destinations at the knots of distance, and the group of each place.

    ``measured`` are the noisy jobs by distance: by group, and of all destinations together. Their sum over groups would
    be known with much more noise, and it is what a smooth decay is first held against.
    """

    values: NDArray[np.float64]
    groups: Integers
    measured: tuple[Measurement, Measurement] | None = None
    part: Floats | None = None  # of the jobs at each place, held from outside; where that was measured

    def again(self, tree: GravityTree, *, weights: Floats, cut: float | None) -> Decays:
        """Fitted to the noisy counts, and once more after masses of places have changed."""
        if self.measured is None:
            return self
        (by_group, noise), (whole, least) = (_bands(one, tree.places) for one in self.measured)
        values = fit_decays(
            tree, by_group[:, :BANDS], self.groups, weights, noise=noise, cut=cut, every=(whole[0, :BANDS], least)
        )
        return replace(self, values=values)


def _bands(found: Measurement, places: Places) -> tuple[Floats, float]:
    """Noisy jobs by group (rows) and class of distance, and the scale of their noise."""
    assert isinstance(found.mechanism, Geometric)  # noqa: S101 - measured below
    return found.values.reshape(-1, classes_by_distance(places)).astype(np.float64), float(found.mechanism.scale)


def choose_level(places: Places, level: str, scale: float, jobs: int | None) -> str | None:
    """The finest level whose table by distance is well above the noise; none if the number of jobs is not public."""
    if level != "auto":
        return None if level == "none" else level
    fine = None
    for name in places.areas if jobs is not None else ():
        number = groups_of(places, name)[1]
        if jobs is not None and number <= MOST_GROUPS and jobs / (number * BANDS) >= JOBS_PER_CELL * scale:
            fine = name
    return fine


def classes_by_distance(places: Places) -> int:
    """Into how many classes jobs of a group are counted by distance: bands, and one more for homes outside."""
    return BANDS + int(places.outside is not None)


def groups_of(places: Places, level: str | None) -> tuple[Integers, int]:
    if level is None:
        return np.zeros(len(places), dtype=np.int64), 1
    values = places.area(level)
    if len(values) > 1 and (values[1:] >= values[:-1]).all():  # as census codes are: no sorting of millions of texts
        groups = np.concatenate(([0], np.cumsum(values[1:] != values[:-1])))
        return groups, int(groups[-1]) + 1
    names, groups = np.unique(values, return_inverse=True)
    return groups.astype(np.int64), len(names)


def measure_decays(
    gate: FlowGate,
    tree: GravityTree,
    *,
    level: str | None,
    scales: tuple[Fraction, Fraction] | None,
    weights: Integers,
    cut: float | None,
) -> Decays:
    """Decays from noisy counts of jobs by band of distance, by group of destinations and of all together, with these
    scales of noise; without them, a default.

    Homes outside have no distance. Their workers are a class of their own beside the bands, which says what part of the
    jobs they have; the decay is that of the others.
    """
    places = tree.places
    groups, _ = groups_of(places, level)
    if scales is None:
        return Decays(values=default_decay()[None, :], groups=np.zeros(len(places), dtype=np.int64))
    measured = (
        _measured_by_distance(gate, places, DISTANCES_LABEL, groups=groups, scale=scales[0]),
        _measured_by_distance(gate, places, ALL_DISTANCES_LABEL, groups=np.zeros_like(groups), scale=scales[1]),
    )
    part, inside = None, weights.astype(float)
    if places.outside is not None:
        (by_group, noise), (whole, least) = (_bands(one, places) for one in measured)
        part = parts_from(by_group[:, BANDS], groups, weights, noise, every=(float(whole[0, BANDS]), least))
        inside *= 1 - part
    unfitted = Decays(values=np.empty((0, 0)), groups=groups, measured=measured, part=part)
    return unfitted.again(tree, weights=inside, cut=cut)


def _measured_by_distance(
    gate: FlowGate, places: Places, label: str, *, groups: Integers, scale: Fraction
) -> Measurement:
    """Noisy jobs by group of destinations and band of distance, or homes outside."""
    number = int(groups.max(initial=0)) + 1
    points, outside, classes = places.points(), places.outside, classes_by_distance(places)

    def classify(origins: NDArray[np.int32], destinations: NDArray[np.int32]) -> Integers:
        from understudy.commutes.models import regions_compiled as loops  # in whatever process this runs

        found: Integers = loops.groups_and_bands(points, origins, destinations, groups, BAND_EDGES**2)
        if outside is None:
            return found
        group, band = np.divmod(found, BANDS)
        return np.asarray(group * classes + np.where(outside[origins], BANDS, band))

    return gate.measure(FlowTable(label=label, cells=number * classes, classify=classify), Geometric(scale=scale))


def home_areas(tree: GravityTree, scale: float, jobs: float) -> tuple[Integers, int]:
    """The home area of each place. It is the finest level that can be counted well, with each area cut into as many
    runs of neighbours as possible. If no level is coarse enough, there are only runs of neighbours."""
    places = tree.places
    most = max(int(jobs / (JOBS_PER_AREA * scale)), 1)
    apart = np.zeros(len(places), dtype=np.int64) if places.outside is None else places.outside.astype(np.int64)
    area, number = apart, int(apart.max()) + 1
    for level in places.areas:
        found, count = groups_of(places, level)
        if places.outside is not None:  # an area of homes is inside or outside
            found = np.unique(2 * found + apart, return_inverse=True)[1].astype(np.int64)
            count = int(found.max()) + 1
        if number < count <= jobs / (JOBS_PER_NAMED_AREA * scale):
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
    table = FlowTable(label=HOMES_LABEL, cells=number, classify=lambda origins, _: np.asarray(areas[origins]))
    return gate.measure(table, Geometric(scale=scale))


def workers_outside(places: Places, areas: Integers, noisy: Integers, scale: float) -> Floats:
    """Likely workers at each home outside, from noisy jobs by home area; homes that are one area share by residents."""
    outside = ~places.inside
    counts = np.zeros(len(noisy))
    own = np.unique(areas[outside])
    counts[own] = likely_counts(noisy[own], scale)
    mass = np.where(outside, 1.0 if places.population is None else places.population + 0.1, 0.0)
    within = np.bincount(areas, mass, len(noisy))
    return np.where(outside, counts[areas] * mass / np.maximum(within[areas], 1e-12), 0.0)


# Where workers live, wherever they work: masses of places fitted to noisy counts of jobs by the area of the home.
#
# Public residents are not workers, and often there is no public number at all. The jobs by home area, measured with
# noise and charged, correct it: masses inside an area are multiplied by one factor until the gravity model expects the
# counted jobs of every area, summed over all workplaces (iterative proportional fitting). All of it is
# post-processing.

MOST_CENTRES = 20_000  # points that stand for all workplaces
ROUNDS = 4
LARGEST_STEP = 5.0
FLOW_ROUNDS = 5  # the same for flows, where hardly anybody may live in an area
LARGEST_FLOW_STEP = 20.0


def fit_homes(
    tree: GravityTree,
    counts: Floats,
    areas: Integers,
    *,
    decays: Floats,
    groups: Integers,
    rows: Floats | Integers,
    noise: float,
    cut: float | None,
) -> GravityTree:
    """The tree with masses that make the model expect ``counts``, the noisy jobs by area of the home.

    ``areas`` holds the home area of each place, ``rows`` the jobs at each (of people from inside), ``groups`` the group
    whose decay it has. Homes outside are not in the tree, and their counts are left alone.
    """
    workplaces = _centres(tree, rows, groups)
    if len(workplaces[0]) == 0:
        return tree
    wanted: Floats | None = None
    own = np.unique(areas[tree.order])
    for _ in range(ROUNDS):
        expected = _expected_homes(tree, workplaces, areas, len(counts), decays=decays, cut=cut)
        if wanted is None:
            wanted = np.ones(len(counts))
            wanted[own] = leaned(counts[own], expected[own], noise)
        ratio = np.where(expected > 0, wanted / np.maximum(expected, 1e-9), 1.0)
        factor = np.clip(ratio, 1 / LARGEST_STEP, LARGEST_STEP)
        tree = tree.weighted(tree.mass * factor[areas[tree.order]])
    return tree


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowModel:
    """Flows between areas as the model of a tree expects them. ``areas`` holds the area of each place, ``rows`` the
    jobs at each, ``groups`` the group whose decay it has."""

    tree: GravityTree
    areas: Integers
    number: int
    decays: Floats
    groups: Integers
    rows: Floats | Integers
    cut: float | None

    def expected(self) -> Floats:
        """Expected jobs by area of work (rows) and area of the home."""
        return np.stack([*in_order(lambda area: self._from(area, self.tree), range(self.number))])

    def fitted(self, flows: Floats) -> AreaFactors:
        """Factors of masses that make the model expect ``flows``.

        The same is done as for homes, but for the workplaces of each area by themselves. What lies beyond the cut is
        not in the model, so flows of an area of work are taken as shares.
        """

        def factors_of(area: int) -> Floats:
            product = np.ones(self.number)
            for _ in range(FLOW_ROUNDS):
                own = AreaFactors(area_of=self.areas, factors=product[None, :]).tree_of(self.tree, 0)
                expected = self._from(area, own)
                if not expected.any():
                    break
                wanted = np.where(expected > 0, np.maximum(flows[area], 1e-6), 0.0)
                wanted *= expected.sum() / max(float(wanted.sum()), 1e-9)
                ratio = np.where(expected > 0, wanted / np.maximum(expected, 1e-9), 1.0)
                product *= np.clip(ratio, 1 / LARGEST_FLOW_STEP, LARGEST_FLOW_STEP)
            return product

        return AreaFactors(area_of=self.areas, factors=np.stack([*in_order(factors_of, range(self.number))]))

    def from_outside(self, away: OutsideHomes, rows: Integers) -> Floats:
        """Expected jobs by area of work (rows) and area of the home, of people from outside alone."""
        held = np.bincount(self.areas, rows * away.part, self.number)
        return np.asarray(
            np.outer(held, np.bincount(self.areas[away.codes], away.shares, self.number)), dtype=np.float64
        )

    def seen_outside(self, away: OutsideHomes, flows: Floats) -> OutsideHomes:
        """Homes outside with the part of the jobs that flows say, by area of work."""
        outside = np.zeros(self.number)
        outside[self.areas[away.codes]] = 1.0
        held, every = flows @ outside, flows.sum(axis=1)
        known = every > 0
        part = np.where(known, held / np.where(known, every, 1.0), 0.0)
        return away.with_part(np.where(known[self.areas], part[self.areas], away.part))

    def _from(self, area: int, tree: GravityTree) -> Floats:
        """Expected homes of the workers of an area."""
        workplaces = _centres(tree, np.where(self.areas == area, self.rows, 0), self.groups)
        if len(workplaces[0]) == 0:
            return np.zeros(self.number)
        return _expected_homes(tree, workplaces, self.areas, self.number, decays=self.decays, cut=self.cut, threads=1)


def _expected_homes(
    tree: GravityTree,
    workplaces: tuple[Integers, Floats, Integers],
    areas: Integers,
    number: int,
    *,
    decays: Floats,
    cut: float | None,
    threads: int | None = None,
) -> Floats:
    """The workers that the model expects in each of ``number`` areas of homes, from workplaces as ``_centres`` gives
    them."""
    from understudy.commutes.models import regions_compiled as loops

    centres, jobs, group = workplaces
    farthest = squared_cut(cut)

    def pulled_by(which: Integers) -> Floats:
        found: Floats = loops.attractions(
            centres[which], jobs[which], group[which], tree.points, tree.mass, tree.sums, tree.nodes, decays, farthest
        )
        return found

    pulled = np.zeros(len(tree.order))
    for part in in_order(pulled_by, pieces(np.arange(len(centres))), threads):
        pulled += part
    return np.asarray(np.bincount(areas[tree.order], weights=pulled * tree.mass, minlength=number), dtype=np.float64)


def _centres(tree: GravityTree, rows: Floats | Integers, groups: Integers) -> tuple[Integers, Floats, Integers]:
    """Positions, jobs and groups of workplaces. If there are very many, the largest of each run of neighbours stands
    for the whole run."""
    jobs = rows[tree.order].astype(float)
    filled = np.flatnonzero(jobs)
    if len(filled) == 0:
        return filled, np.empty(0), np.empty(0, dtype=np.int64)
    run = np.arange(len(filled)) * min(MOST_CENTRES, len(filled)) // len(filled)
    by_size = np.lexsort((-jobs[filled], run))
    largest = filled[by_size[np.searchsorted(run[by_size], np.arange(run[-1] + 1))]]
    return largest, np.bincount(run, weights=jobs[filled]).astype(float), groups[tree.order[largest]].astype(np.int64)
