"""Commutes between areas that are found from noisy counts, with a model of their own for long commutes.

Machanavajjhala et al. (2008) name both and leave them open: a partition of the homes by private clustering (their
Section V, the SULQ framework), and long commutes that are modelled apart (their Section VI). A part of the budget
counts jobs by small cells of homes, and k-means makes areas of them. The rest counts jobs by area of work and area of
home for commutes up to a distance, and by far fewer, larger areas beyond it, where hardly anybody would be in a
single cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.found_areas import clusters, found_areas, middles_of, small_cells
from understudy.commutes.shared.flow_method import UNIT_NOTE, FlowSynthesis, check_flow_request, flow_synthesizers
from understudy.core.arrays import Floats, Integers
from understudy.core.exact_numbers import read_exact
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.places import DESTINATION, PAIR, Places
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.gate.flow_gate import FlowGate, FlowTable, Sink, flow_sensitivity
from understudy.privacy.gate.measurement_steps import query_of
from understudy.privacy.promise.calibrate import noise_for
from understudy.privacy.promise.plan import Option, Plan, Step
from understudy.privacy.randomness.draws import unit_interval
from understudy.synth.shared.method import Request, planned

HOMES, FLOWS = "jobs by cell of the home", "jobs by area of work and of home"
CELLS = 1024  # small cells of homes, at most
LARGE = 8  # areas for long commutes, at most
MOST_AREAS = 1_000
TRIES = 8  # places that are looked at before a home is chosen among them
HALFWAY = 2.0  # miles over which a near home counts twice as much as one next door
TOGETHER = 500_000  # jobs that get a home at once


@flow_synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class CommuteClusters:
    """Synthetic commutes from noisy flows between areas that were found privately, or that are public.

    Raises
    ------
    InputError
        If an option is not what it should be.
    """

    name: ClassVar[str] = "commute_clusters"
    summary: ClassVar[str] = "commuting patterns: areas found from noisy counts, long commutes modelled apart"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp")

    areas: str = "found"
    """``found`` (by private clustering of homes; the default) or the name of a level of public areas."""
    number: int = 40
    """How many areas are looked for. Used with ``areas = found`` only."""
    areas_share: str = "0.1"
    """The share of the budget that finds the areas. Used with ``areas = found`` only."""
    long_miles: str = "25"
    """Commutes of more miles than this are modelled apart, between a few large areas; ``0``: all commutes alike."""

    def __post_init__(self) -> None:
        if not 2 <= self.number <= MOST_AREAS:
            raise InputError(f"number ({self.number}) must be between 2 and {MOST_AREAS:,}.")
        if not 0 < self._share < 1:
            raise InputError(f"areas_share ({self.areas_share}) must be above 0 and below 1, such as 0.1.")
        if self._miles < 0:
            raise InputError(f"long_miles ({self.long_miles}) must not be negative.")

    @property
    def _share(self) -> Fraction:
        return read_exact(self.areas_share, "areas_share")

    @property
    def _miles(self) -> float:
        return float(read_exact(self.long_miles, "long_miles"))

    def _areas(self, places: Places) -> int:
        return self.number if self.areas == "found" else len(np.unique(places.area(self.areas)))

    def plan(self, places: Places, request: Request) -> Plan:
        check_flow_request(type(self), request)
        if DESTINATION not in request.unit.fixed:
            raise UnsupportedError(
                "commute_clusters takes the jobs at every destination as public: say fixed=destination, or use "
                "commute_tree, which counts them with noise."
            )
        number = self._areas(places)
        if not 2 <= number <= MOST_AREAS:
            raise InputError(f"level '{self.areas}' has {number:,} areas; from 2 to {MOST_AREAS:,} can be used.")
        cells = [number**2 + self._long(number) ** 2]
        labels, shares = [FLOWS], [Fraction(1)]
        if self.areas == "found":
            cells, labels = [small_cells(places, CELLS)[1], *cells], [HOMES, *labels]
            shares = [self._share, 1 - self._share]
        tables = [
            FlowTable(label=label, cells=count, classify=_nowhere) for label, count in zip(labels, cells, strict=True)
        ]
        sensitivities = [flow_sensitivity(table, request.unit) for table in tables]
        noises = noise_for(request.budget, sensitivities, shares=shares, cells=cells)
        steps = tuple(
            Step(
                label=table.label, margin=PAIR, action="measure", event=noise.event(sensitivity), cells=table.cells,
                standard_deviation=noise.variance**0.5,
            )
            for table, noise, sensitivity in zip(tables, noises, sensitivities, strict=True)
        )  # fmt: skip
        options: dict[str, Option] = {"areas": self.areas, "long_miles": self.long_miles}
        if self.areas == "found":
            options |= {"number": self.number, "areas_share": self.areas_share}
        notes = (UNIT_NOTE, *(["Copies share the measurements and cost nothing more."] if request.copies > 1 else []))
        return planned(places, request, method=self.name, steps=steps, options=options, notes=notes)

    def _long(self, number: int) -> int:
        """How many large areas there are for long commutes; none if they are not modelled apart."""
        return min(LARGE, number) if self._miles else 0

    def run(self, plan: Plan, places: Places, gate: FlowGate, stream: Stream, sink: Sink) -> FlowSynthesis:
        steps = {step.label: step for step in plan.steps}
        measured: list[Measurement] = []
        if self.areas == "found":
            cell_of, cells = small_cells(places, CELLS)
            table = FlowTable(label=HOMES, cells=cells, classify=_Homes(cell_of))
            measured.append(gate.measure(table, query_of(steps[HOMES]).mechanism))
            area_of = found_areas(places, cell_of, measured[0].values, self.number)
            number = self.number
        else:
            names, codes = np.unique(places.area(self.areas), return_inverse=True)
            area_of, number = codes.astype(np.int64), len(names)
        pairs = _Pairs.of(places, area_of, number=number, large=self._long(number), miles=self._miles)
        table = FlowTable(label=FLOWS, cells=pairs.cells, classify=pairs.classify)
        measured.append(gate.measure(table, query_of(steps[FLOWS]).mechanism))
        shares = pairs.shares(measured[-1], gate.sizes())
        for copy in range(1, plan.copies + 1):
            sink.open(copy)
            for origins, destinations in pairs.jobs(places, shares, gate.sizes(), stream, copy):
                sink.add(*_counted(origins, destinations))
            sink.close()
        return FlowSynthesis(
            measurements=tuple(measured),
            rows_drawn="homes by area in proportion to noisy flows; inside an area by public weights and nearness",
            copies_share_measurements=True,
            notes=(f"{len(np.unique(area_of)):,} areas; {pairs.large} for commutes above {self.long_miles} miles.",),
        )


def _nowhere(origins: NDArray[np.int32], destinations: NDArray[np.int32]) -> Integers:  # a plan counts nothing
    del destinations
    return np.zeros(len(origins), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Homes:
    """The small cell of a home."""

    cell_of: Integers

    def __call__(self, origins: NDArray[np.int32], destinations: NDArray[np.int32]) -> Integers:
        del destinations
        return np.asarray(self.cell_of[origins])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pairs:
    """Cells of commutes: pairs of areas up to a distance, and pairs of large areas beyond it."""

    points: Floats
    area_of: Integers
    number: int
    large_of: Integers  # the large area of each place
    large: int
    miles: float

    @classmethod
    def of(cls, places: Places, area_of: Integers, *, number: int, large: int, miles: float) -> _Pairs:
        points = places.points()
        mass = np.bincount(area_of, minlength=number).astype(np.float64)
        middles = middles_of(points, area_of, number)
        groups = clusters(middles, mass, large) if large else np.zeros(number, dtype=np.int64)
        return cls(
            points=points, area_of=area_of, number=number, large_of=groups[area_of], large=large, miles=miles
        )  # fmt: skip

    @property
    def cells(self) -> int:
        return self.number**2 + self.large**2

    def far(self, origins: NDArray[np.integer], destinations: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Which commutes are long. Distances are straight lines through the earth, as everywhere in the models."""
        if not self.large:
            return np.zeros(len(origins), dtype=bool)
        gap = self.points[origins] - self.points[destinations]
        return np.asarray((gap**2).sum(axis=1) > self.miles**2)

    def classify(self, origins: NDArray[np.int32], destinations: NDArray[np.int32]) -> Integers:
        short = self.area_of[destinations] * self.number + self.area_of[origins]
        if not self.large:
            return np.asarray(short)
        long = self.number**2 + self.large_of[destinations] * self.large + self.large_of[origins]
        return np.where(self.far(origins, destinations), long, short)

    def shares(self, measured: Measurement, sizes: Integers) -> Floats:
        """For the workers of each area the shares of home areas, then of large areas for long commutes.

        Noisy counts are cut at what noise alone would give and scaled to the public jobs of an area of work. Long
        commutes of a large area are divided over its areas by their jobs.
        """
        noise = float(measured.mechanism.variance) ** 0.5
        counts = np.where(measured.values > noise, measured.values, 0).astype(np.float64)
        short = counts[: self.number**2].reshape(self.number, self.number)
        if self.large:  # what no short or no long commute can be is noise
            short = np.where(_gaps(self.points, self.area_of, self.number)[0] <= self.miles, short, 0.0)
        jobs = np.bincount(self.area_of, weights=sizes, minlength=self.number).astype(np.float64)
        if not self.large:
            return _scaled(short, jobs)
        long = counts[self.number**2 :].reshape(self.large, self.large)
        long = np.where(_gaps(self.points, self.large_of, self.large)[1] > self.miles, long, 0.0)
        large_of = np.zeros(self.number, dtype=np.int64)
        large_of[self.area_of] = self.large_of
        whole = np.maximum(np.bincount(large_of, jobs, self.large), 1)
        return _scaled(np.hstack([short, long[large_of] * (jobs / whole[large_of])[:, None]]), jobs)

    def jobs(
        self, places: Places, shares: Floats, sizes: Integers, stream: Stream, copy: int
    ) -> Sequence[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Homes of the workers of every destination, some destinations at a time."""
        mass = places.mass
        by_area, by_large = (_Weighted.of(groups, mass) for groups in (self.area_of, self.large_of))
        filled = np.flatnonzero(sizes)
        found = []
        ends = np.cumsum(sizes[filled])
        for first, last in _runs(ends):
            own = filled[first:last]
            destinations = np.repeat(own, sizes[own])
            point = unit_interval(stream, len(own), "homes", copy, int(first))
            cells = _drawn(shares[self.area_of[own]], sizes[own], point)
            inside = cells < self.number
            at = unit_interval(stream, TRIES * len(cells), "places", copy, int(first)).reshape(len(cells), TRIES)
            tried = np.where(
                inside[:, None], by_area.at(np.where(inside, cells, 0), at),
                by_large.at(np.where(inside, 0, cells - self.number), at),
            )  # fmt: skip
            picked = self._chosen(
                tried, destinations, ~inside, unit_interval(stream, len(cells), "choice", copy, int(first))
            )
            found.append((picked.astype(np.int32), destinations.astype(np.int32)))
        return found

    def _chosen(self, tried: Integers, destinations: Integers, long: NDArray[np.bool_], share: Floats) -> Integers:
        """One of the places that were tried: near ones more often, and on the right side of the distance."""
        gap = self.points[tried] - self.points[destinations][:, None, :]
        miles = np.sqrt((gap**2).sum(axis=2))
        weight = 1 / (1 + miles / HALFWAY) ** 2
        if self.large:
            weight = np.where((miles > self.miles) == long[:, None], weight, 1e-9 * weight)
        upper = np.cumsum(weight, axis=1)
        at = (share[:, None] * upper[:, -1:] >= upper).sum(axis=1)
        return np.asarray(tried[np.arange(len(tried)), np.minimum(at, TRIES - 1)])


@dataclass(frozen=True, slots=True, eq=False)
class _Weighted:
    """Places in groups, by public weight."""

    order: Integers
    sums: Floats
    ends: Integers

    @classmethod
    def of(cls, groups: Integers, mass: Floats) -> _Weighted:
        order = np.argsort(groups, kind="stable")
        ends = np.searchsorted(groups[order], np.arange(int(groups.max()) + 2))
        return cls(order, np.concatenate(([0.0], np.cumsum(mass[order]))), ends)

    def at(self, groups: Integers, share: Floats) -> Integers:
        """Places of some groups, at shares of their weight."""
        groups = np.minimum(groups, len(self.ends) - 2)
        low, high = self.sums[self.ends[groups]], self.sums[self.ends[groups + 1]]
        found = np.searchsorted(self.sums, low[:, None] + share * (high - low)[:, None], side="right") - 1
        last = np.maximum(self.ends[groups + 1] - 1, self.ends[groups])[:, None]
        return np.asarray(self.order[np.clip(found, self.ends[groups][:, None], last).clip(0, len(self.order) - 1)])


def _gaps(points: Floats, group_of: Integers, number: int) -> tuple[Floats, Floats]:
    """For every pair of groups of places a distance that all pairs of their places have at least, and one at most.

    By a ball around each group: a function of public places and of the areas.
    """
    middles = middles_of(points, group_of, number)
    radius = np.zeros(number)
    np.maximum.at(radius, group_of, np.sqrt(((points - middles[group_of]) ** 2).sum(axis=1)))
    apart = np.sqrt(((middles[:, None, :] - middles[None, :, :]) ** 2).sum(axis=2))
    around = radius[:, None] + radius[None, :]
    return apart - around, apart + around


def _scaled(counts: Floats, jobs: Floats) -> Floats:
    """Rows as shares; a row without any count stays in its own area."""
    whole = counts.sum(axis=1, keepdims=True)
    home = np.zeros_like(counts)
    home[np.arange(len(jobs)), np.arange(len(jobs))] = 1.0
    return np.where(whole > 0, counts / np.maximum(whole, 1e-300), home)


def _runs(ends: Integers) -> list[tuple[int, int]]:
    """Destinations in runs of about so many jobs."""
    bounds = [0]
    while bounds[-1] < len(ends):
        before = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
        bounds.append(max(int(np.searchsorted(ends, before + TOGETHER, side="right")), bounds[-1] + 1))
    return list(pairwise(bounds))


def _drawn(shares: Floats, sizes: Integers, point: Floats) -> Integers:
    """A cell for each job: expected counts of every destination, rounded up or down by systematic sampling."""
    upper = np.cumsum(shares, axis=1)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    row = np.repeat(np.arange(len(sizes)), sizes)
    at = (np.arange(int(sizes.sum())) - starts[row] + point[row]) / sizes[row]
    flat = (upper / upper[:, -1:] + np.arange(len(sizes))[:, None]).ravel()
    cells = np.searchsorted(flat, row + at, side="right") - row * shares.shape[1]
    return np.asarray(np.clip(cells, 0, shares.shape[1] - 1))


def _counted(
    origins: NDArray[np.int32], destinations: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], Integers]:
    """Each pair once, with its jobs."""
    pairs, jobs = np.unique(np.stack([destinations, origins]), axis=1, return_counts=True)
    return pairs[1].astype(np.int32), pairs[0].astype(np.int32), jobs.astype(np.int64)
