"""Flows between areas: noisy counts on the public hierarchy, shrunk towards a gravity model by how noisy they are.

This is for private destinations, and wherever flows between areas matter more than the workers of a single block. Near
pairs of areas are measured finely and far ones coarsely, so long commutes are modelled separately. Everything after the
measurements is post-processing. See docs/theory/commute-tree.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.area_pairs import AreaPairs, choose_area_pairs
from understudy.commutes.models.flow_fit import CellBeliefs, NoisyCells, believe_cells
from understudy.commutes.shared.area_flows import (
    DENSE_CELLS,
    EDGES,
    believe_flows,
    by_finest,
    by_origin,
    distance_classes,
    scaled,
)
from understudy.commutes.shared.flow_method import UNIT_NOTE, FlowSynthesis, check_flow_request, flow_synthesizers
from understudy.commutes.shared.segments import (
    SegmentDesign,
    choose_design,
    planned_design,
    segment_designs,
    segment_part,
)
from understudy.commutes.shared.settings import positive
from understudy.core.arrays import Floats, Integers
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Mechanism, Stream
from understudy.core.places import DESTINATION, PAIR, Places
from understudy.errors import UnsupportedError
from understudy.privacy.gate.flow_gate import FlowGate, FlowTable, Sink, flow_sensitivity
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.mechanisms.noise import Geometric, NoiseMechanism
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric, threshold_for
from understudy.privacy.promise.calibrate import noise_for
from understudy.privacy.promise.definition import ApproxDP, Definition, PureDP, Unit
from understudy.privacy.promise.plan import Plan, Step
from understudy.privacy.randomness.draws import unit_interval
from understudy.synth.shared.method import Request, planned

ORIGINS, DISTANCES, PAIRS = "jobs by area of the home", "jobs by distance", "jobs by pair of areas"
WORKPLACES = "jobs by workplace"
# Parts of the budget, for what is measured. The margins are large numbers and need little; what is left goes to the
# pairs. Sums of noisy pairs serve as well as a margin that is measured apart, unless very many pairs are added up.
SHARES = {ORIGINS: Fraction(3, 100), DISTANCES: Fraction(1, 100), WORKPLACES: Fraction(1, 5)}
TURNS = 2  # how often levels of homes and of workplaces are found, in turn
# How levels are found: the largest log odds, and how often the interval is halved. At 800 a probability is 0 or 1.
ROUGHLY, EXACTLY = (25.0, 14), (800.0, 42)
REPORTED_EMPTY = 1_000_000  # the expected number of empty cells that are then reported too


@flow_synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class CommuteTree:
    """Synthetic commutes from noisy flows between areas."""

    name: ClassVar[str] = "commute_tree"
    summary: ClassVar[str] = "commuting patterns: noisy flows between nested areas; destinations public or private"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp")

    near: str = "50"
    """Pairs of areas whose gap is at most this many miles are split into pairs of their parts, down to the finest
    level; pairs farther apart stay whole."""
    finest: str = "auto"
    """The finest level of areas whose flows are measured: the name of a level, or ``auto``, the finest of which there
    are at most sixteen pairs for each place. Homes and workplaces inside its areas are not told apart."""

    segments: str = ""
    """Partitions of the jobs whose segments are measured and released too: ``age,earnings,industry`` (the columns of
    LODES), or columns of your own (``sex=F+M``); ``a=A1+A2*b=B1+B2`` where combinations are known, because a row is one
    job. All share ``segment_share``. A partition that the unit fixes is public by workplace."""
    segment_share: str = "0.2"
    """The part of the budget that measures segments by area of the home and of the work, if there are ``segments``."""

    def __post_init__(self) -> None:
        positive(self.near, "near")
        segment_part(self.segments, self.segment_share)

    def plan(self, places: Places, request: Request) -> Plan:
        check_flow_request(type(self), request, self.segments)
        pairs = self._pairs(places)
        spent = _spent(request.budget, pairs)
        apart = segment_part(self.segments, self.segment_share)
        flows = _tables(pairs, places, request.unit)

        def noises_for(asked: tuple[FlowTable, ...]) -> list[NoiseMechanism]:
            tables = [*flows, *asked]
            own = {**SHARES, **{table.label: apart / len(asked) for table in asked}}
            left = 1 - sum((own.get(table.label, Fraction(0)) for table in tables), Fraction(0))
            shares = [own.get(table.label, left) for table in tables]
            # The law is chosen by its noise on pairs and places; margins are large, so their noise hardly matters.
            weights = [table.cells if table.label in (PAIRS, WORKPLACES) else 1 for table in tables]
            return noise_for(spent, [flow_sensitivity(table, request.unit) for table in tables], shares, weights)

        def variances_of(design: SegmentDesign) -> list[float]:
            return [noise.variance for noise in noises_for(design.tables)[len(flows) :]]

        design: SegmentDesign | None = None
        segment_notes: tuple[str, ...] = ()
        if designs := segment_designs(places, self.segments, request.unit):
            design, segment_notes = choose_design(designs, variances_of, apart)
        asked = () if design is None else design.tables
        tables, noises = [*flows, *asked], noises_for(asked)
        sensitivities = [flow_sensitivity(table, request.unit) for table in tables]
        steps = tuple(
            Step(
                label=table.label, margin=PAIR, action="measure", event=noise.event(sensitivity), cells=table.cells,
                standard_deviation=noise.variance**0.5,
            )
            for table, noise, sensitivity in zip(tables, noises, sensitivities, strict=True)
        )  # fmt: skip
        notes = [f"Cells: {pairs!r}, from public places alone.", *segment_notes]
        if len(pairs) > DENSE_CELLS:
            notes.append("Of the pairs only those above a threshold are reported; the others are known to be below it.")
        if request.copies > 1:
            notes.append("Copies share the measurements and cost nothing more.")
        return planned(
            places, request, method=self.name, steps=steps, options=self._options(),
            notes=(UNIT_NOTE, *notes),
        )  # fmt: skip

    def _options(self) -> dict[str, str]:
        given = {"near": self.near, "finest": self.finest}
        # Plans of releases without segments stay as they were.
        return given | ({"segments": self.segments, "segment_share": self.segment_share} if self.segments else {})

    def _pairs(self, places: Places) -> AreaPairs:
        return choose_area_pairs(places, positive(self.near, "near"), self.finest)

    def run(self, plan: Plan, places: Places, gate: FlowGate, stream: Stream, sink: Sink) -> FlowSynthesis:
        pairs = self._pairs(places)
        design = planned_design(places, plan)
        tables = [*_tables(pairs, places, plan.unit), *(() if design is None else design.tables)]
        measured = {
            table.label: gate.measure(table, _mechanism(step, pairs))
            for table, step in zip(tables, plan.steps, strict=True)
        }
        total = gate.records if plan.unit.public_total else None
        sizes = gate.sizes() if DESTINATION in plan.unit.fixed else None
        beliefs, at_places = _estimate(pairs, measured, total=total, sizes=sizes, stream=stream)
        for copy in range(1, plan.copies + 1):
            drawn = draw_jobs(places, pairs, beliefs, at_places, stream, "jobs", copy)
            sink.open(copy)
            sink.add(drawn.origins.astype(np.int32), drawn.destinations.astype(np.int32), drawn.jobs)
            sink.close()
        return FlowSynthesis(
            measurements=tuple(measured.values()),
            rows_drawn="jobs by pair of areas at one probability level; homes within an area by public weights",
            copies_share_measurements=True,
        )


def _tables(pairs: AreaPairs, places: Places, unit: Unit) -> list[FlowTable]:
    """What is measured, in order; every job is in one cell of each. The classifier may be sent to a cluster, so it
    holds no list of all cells, only one byte of distance for each."""
    area_of_place, lookup = pairs.finest.area_of_place, pairs.lookup
    classes = distance_classes(pairs).astype(np.int8)
    margins = [
        FlowTable(label=ORIGINS, cells=len(pairs.finest), classify=lambda origins, _: area_of_place[origins]),
        FlowTable(
            label=DISTANCES,
            cells=len(EDGES) + 1,
            classify=lambda origins, destinations: classes[lookup.classify(origins, destinations)].astype(np.int64),
        ),
    ]
    tables = [margin for margin in margins if _measured_apart(margin, len(pairs))]
    tables.append(FlowTable(label=PAIRS, cells=len(pairs), classify=lookup.classify))
    if DESTINATION not in unit.fixed:
        tables.append(
            FlowTable(
                label=WORKPLACES,
                cells=len(places),
                classify=lambda _, destinations: destinations.astype(np.int64),
                by_destination=True,
            )
        )
    return tables


def _measured_apart(margin: FlowTable, pairs: int) -> bool:
    """Whether a margin measured by its share of epsilon has less noise than the sums of noisy pairs: a share f has 1/f
    times the noise, a sum of k pairs the root of k times. Sparse noise gives no sums."""
    return pairs > DENSE_CELLS or pairs / margin.cells * SHARES[margin.label] ** 2 > 1


def _spent(budget: Definition, pairs: AreaPairs) -> Definition:
    """What noise is calibrated to: sparse noise is geometric, so a pure epsilon."""
    if len(pairs) <= DENSE_CELLS or isinstance(budget, PureDP):
        return budget
    if isinstance(budget, ApproxDP):
        return PureDP(epsilon=budget.epsilon)
    raise UnsupportedError(
        f"{len(pairs):,} pairs of areas need sparse noise, which has a pure epsilon; give epsilon instead of rho, or "
        "lower near."
    )


def _mechanism(step: Step, pairs: AreaPairs) -> Mechanism:
    mechanism = query_of(step).mechanism
    if step.label != PAIRS or len(pairs) <= DENSE_CELLS or not isinstance(mechanism, Geometric):
        return mechanism
    threshold = threshold_for(mechanism.scale, len(pairs), REPORTED_EMPTY)
    return SparseGeometric(scale=mechanism.scale, threshold=threshold, domain=len(pairs))


def _estimate(
    pairs: AreaPairs,
    measured: dict[str, Measurement],
    *,
    total: int | None,
    sizes: Integers | None,
    stream: Stream,
) -> tuple[CellBeliefs, Integers]:
    """What is known of every pair of areas, and whole jobs at every place, from noisy values and public facts."""
    noisy = measured[PAIRS]
    known = total if total is not None else max(round(float(_origins(pairs, measured).sum())), 0)
    at_work = sizes if sizes is not None else measured[WORKPLACES].values
    by_area = np.asarray(np.bincount(pairs.finest.area_of_place, at_work, len(pairs.finest)), dtype=np.float64)
    beliefs = believe_flows(
        pairs,
        noisy,
        total=known,
        destinations=by_area if sizes is not None else scaled(by_area, known),
        origins=_origins(pairs, measured),
        distances=measured[DISTANCES].values if DISTANCES in measured else None,
    )
    if sizes is not None:
        return beliefs, sizes
    return beliefs, _workplaces(pairs, beliefs.mean(), measured[WORKPLACES], known, stream)


def _origins(pairs: AreaPairs, measured: dict[str, Measurement]) -> NDArray[np.int64] | Floats:
    return measured[ORIGINS].values if ORIGINS in measured else by_origin(pairs, measured[PAIRS].values)


def _workplaces(pairs: AreaPairs, expected: Floats, noisy: Measurement, total: int, stream: Stream) -> Integers:
    """Whole jobs at every place where destinations are private: the jobs of an area are divided over its places by
    their noisy counts, as far as these can be trusted."""
    area = pairs.finest.area_of_place
    share = scaled(np.bincount(area, np.maximum(noisy.values, 0), len(pairs.finest)), total)
    by_area = scaled(by_finest(pairs, pairs.destination, expected, share), total)
    mean = (by_area / np.bincount(area, minlength=len(by_area)))[area]
    cells = NoisyCells(values=noisy.values, mechanism=noisy.mechanism)
    at_place = believe_cells(np.maximum(mean, 1e-6), cells).mean()
    at_place *= (by_area / np.bincount(area, at_place, len(by_area)))[area]
    order = np.argsort(area, kind="stable")
    whole = np.empty(len(area), dtype=np.int64)
    whole[order] = steps_of_one(
        at_place[order], np.array([0, len(order)]), stream, "workplaces", totals=np.array([total])
    )
    return whole


# Jobs between places from what is known of the jobs between areas: whole numbers first, then places by public weights.
#
# Only noisy values and public facts come in, so everything here is post-processing. Every near cell takes the count at
# some level of its posterior. One level for all cells of a destination area, at which they add up to its jobs, gives
# the whole numbers of the least expected sum of absolute errors, but favours homes with a few large flows. So the level
# has a second part for the home, with which the jobs of each home area add up to what is expected of them.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedJobs:
    """Synthetic jobs: pairs of places, sorted by destination and then origin, and how many jobs each has."""

    origins: Integers
    destinations: Integers
    jobs: Integers


def draw_jobs(
    places: Places, pairs: AreaPairs, beliefs: CellBeliefs, at_places: Integers, stream: Stream, *purpose: str | int
) -> PairedJobs:
    """Synthetic jobs: ``at_places`` of them at each place, coming from areas as ``beliefs`` say.

    Who of an area's workers works at which of its places is drawn at random; the home within an area is drawn by the
    public weights of places.
    """
    fine = pairs.finest
    totals = np.bincount(fine.area_of_place, at_places, len(fine)).astype(np.int64)
    levels, areas, works = _far_jobs(pairs, beliefs, totals, stream, *purpose, "far")
    near = totals - np.bincount(works, minlength=len(fine))
    cell, times = _near_jobs(pairs, beliefs, near, stream, *purpose, "near")
    level = np.concatenate([levels, np.full(int(times.sum()), len(pairs.levels) - 1)])
    home_area = np.concatenate([areas, np.repeat(pairs.origin[cell], times)])
    work_area = np.concatenate([works, np.repeat(pairs.destination[cell], times)])
    homes = np.empty(len(level), dtype=np.int64)
    for number, one in enumerate(pairs.levels):
        own = np.flatnonzero(level == number)
        homes[own] = draw_places(one.area_of_place, places.mass, home_area[own], stream, *purpose, "home", number)
    # Workers of an area in random order meet its jobs in the order of its places.
    order = np.lexsort((unit_interval(stream, len(homes), *purpose, "who"), work_area))
    by_area = np.argsort(fine.area_of_place, kind="stable")
    workplaces = np.repeat(by_area, at_places[by_area])
    return _counted(homes[order], workplaces, len(places))


def _counted(origins: Integers, destinations: Integers, places: int) -> PairedJobs:
    keys, jobs = np.unique(destinations * np.int64(places) + origins, return_counts=True)
    return PairedJobs(origins=keys % places, destinations=keys // places, jobs=jobs.astype(np.int64))


def _far_jobs(
    pairs: AreaPairs, beliefs: CellBeliefs, totals: Integers, stream: Stream, *purpose: str | int
) -> tuple[Integers, Integers, Integers]:
    """Jobs of cells of coarser areas, one entry each: level and area of the home, finest area of the work.

    The finest area of the work is drawn by the areas' totals; an area never gets more jobs than it has.
    """
    first = pairs.near.start
    if first == 0:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty
    times = steps_of_one(beliefs.mean()[:first], np.array([0, first]), stream, *purpose, "cells")
    cell = np.repeat(np.arange(first), times)
    level, home, work = pairs.level[cell].astype(np.int64), pairs.origin[cell].astype(np.int64), np.empty_like(cell)
    for number in range(len(pairs.levels) - 1):
        own = np.flatnonzero(level == number)
        ancestor = pairs.ancestors(number)
        work[own] = draw_places(
            ancestor, totals.astype(np.float64), pairs.destination[cell[own]], stream, *purpose, "work", number
        )
    order = np.argsort(work, kind="stable")
    place_in_area = np.arange(len(work)) - np.searchsorted(work[order], work[order])
    kept = np.sort(order[place_in_area < totals[work[order]]])
    return level[kept], home[kept], work[kept]


def _near_jobs(
    pairs: AreaPairs, beliefs: CellBeliefs, totals: Integers, stream: Stream, *purpose: str | int
) -> tuple[Integers, Integers]:
    """Cells of the finest areas and their whole numbers of jobs, with the exact total of every destination area."""
    order = pairs.near.start + np.argsort(pairs.destination[pairs.near], kind="stable")
    home, at = pairs.origin[order], pairs.destination[order]
    bounds = np.searchsorted(at, np.arange(len(totals) + 1))
    most = totals[at]

    from scipy.special import expit

    def counts(by_home: Floats, by_work: Floats) -> Integers:
        return beliefs.at(order, expit(by_home[home] + by_work[at]), most)

    def at_works(by_home: Floats) -> Callable[[Floats], Floats]:
        return lambda tried: np.bincount(at, counts(by_home, tried), len(totals)).astype(np.float64)

    def of_homes(by_work: Floats) -> Callable[[Floats], Floats]:
        return lambda tried: np.bincount(home, counts(tried, by_work), len(totals)).astype(np.float64)

    by_home = np.zeros(len(totals))
    if len(order) <= DENSE_CELLS:
        expected = beliefs.mean()[order]
        expected = expected * (totals / np.bincount(at, expected, len(totals)))[at]
        wanted = np.bincount(home, expected, len(totals))
        for _ in range(TURNS):
            by_work = _solved(at_works(by_home), totals, *ROUGHLY)[1]
            by_home = _solved(of_homes(by_work), wanted, *ROUGHLY)[1]
    low, high = _solved(at_works(by_home), totals, *EXACTLY)
    fewer, more = counts(by_home, low), counts(by_home, high)
    # Cells whose posteriors are alike reach their next count at the same level. Which of them do is drawn.
    missing = totals - np.bincount(at, fewer, len(totals)).astype(np.int64)
    share = missing / np.maximum(np.bincount(at, more - fewer, len(totals)), 1)
    times = fewer + steps_of_one((more - fewer) * share[at], bounds, stream, *purpose, totals=missing)
    return order, times


def _solved(
    sums: Callable[[Floats], Floats], wanted: NDArray[Any], farthest: float, halvings: int
) -> tuple[Floats, Floats]:
    """Where increasing sums pass what is wanted: the last place below it and the first at or above it, found by halving
    the interval between ``-farthest`` and ``farthest``."""
    low, high = np.full(len(wanted), -farthest), np.full(len(wanted), farthest)
    for _ in range(halvings):
        tried = (low + high) / 2
        enough = sums(tried) >= wanted
        low, high = np.where(enough, low, tried), np.where(enough, tried, high)
    return low, high


def steps_of_one(
    expected: Floats, bounds: NDArray[np.integer], stream: Stream, *purpose: str | int, totals: Integers | None = None
) -> Integers:
    """Whole numbers whose expectations are given: systematic sampling within each group of entries.

    Group g is ``expected[bounds[g]:bounds[g + 1]]``. ``totals`` gives its sum as an exact whole number, so that
    rounding errors of the addition do not matter.
    """
    groups = len(bounds) - 1
    sums = np.concatenate(([0.0], np.cumsum(expected)))
    group = np.repeat(np.arange(groups), np.diff(bounds))
    within = sums[1:] - sums[bounds[:-1]][group]
    start = unit_interval(stream, groups, *purpose, "start")
    reached = np.floor(within + start[group]).astype(np.int64)
    if totals is not None:
        reached = np.minimum(reached, totals[group])
        filled = np.diff(bounds) > 0
        reached[bounds[1:][filled] - 1] = totals[filled]
    before = np.concatenate(([0], reached[:-1]))
    before[bounds[:-1][np.diff(bounds) > 0]] = 0
    return np.asarray(reached - before, dtype=np.int64)


def draw_places(
    group_of: Integers, weights: Floats, groups: NDArray[np.integer], stream: Stream, *purpose: str | int
) -> Integers:
    """For each entry of ``groups`` a member of that group, drawn by the members' weights."""
    if len(groups) == 0:
        return np.zeros(0, dtype=np.int64)
    order = np.argsort(group_of, kind="stable")
    sums = np.cumsum(weights[order])
    counts = np.bincount(group_of)
    last = np.cumsum(counts) - 1
    low = np.concatenate(([0.0], sums[last]))[:-1]
    point = low[groups] + unit_interval(stream, len(groups), *purpose) * (sums[last] - low)[groups]
    found = np.searchsorted(sums, point, side="right")
    return np.asarray(order[np.clip(found, (last - counts + 1)[groups], last[groups])], dtype=np.int64)
