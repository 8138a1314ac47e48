"""Public divisions of the origins, seen from each destination, and where to put workers inside a cell.

Nothing here depends on confidential data: a division is a function of the places, of public sizes and of a decay that
was measured with noise. So drawing over its cells keeps the guarantee of the draw (Machanavajjhala et al. 2008,
Theorem 5.1), and placing workers is post-processing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.gravity import GravityTree
from understudy.commutes.models.outside import OutsideHomes
from understudy.core.apportion import systematic
from understudy.core.arrays import Floats, Integers
from understudy.core.places import ELSEWHERE_CODE, Places
from understudy.errors import InputError
from understudy.privacy.mechanisms.place_bands import beyond_cut, squared_cut
from understudy.privacy.mechanisms.ring_division import GRADE, rings_and_sectors, usable_cells
from understudy.privacy.randomness.draws import indexed_words

Words = tuple[NDArray[np.uint64], NDArray[np.int64]]  # random words, and where those of each destination begin


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RingCells:
    """How many rings times sectors each place has as a destination, and how many cells for homes outside, before
    anything is known about distances."""

    cells: Integers
    cut: float | None = None
    graded: NDArray[np.bool_] | None = None
    beyond: Integers | None = None
    away: OutsideHomes | None = None

    def cells_of(self, destinations: Integers) -> Integers:
        cells = usable_cells(self.cells[destinations]) + int(self.cut is not None)
        return cells if self.beyond is None else cells + self.beyond[destinations]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AreaFactors:
    """By what masses are multiplied for the workplaces of an area (rows), by area of the home; and the area of each
    place."""

    area_of: Integers
    factors: Floats

    def tree_of(self, tree: GravityTree, area: int) -> GravityTree:
        """The tree as workplaces of an area see it."""
        return tree.weighted(tree.mass * self.factors[area, self.area_of[tree.order]])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RingRegions:
    """Rings of known gravity mass around each destination, cut into sectors where there are many cells.

    ``decays`` holds one decay per group of destinations, ``groups`` the group of each place, ``cells`` how many rings
    times sectors each place has as a destination (at most: see ``usable_cells``), ``graded`` whose rings get thinner
    outwards (see ``ring_bounds``); without it all rings of a place have the same mass. With ``homes`` the masses depend
    on the area of the destination. Beyond ``cut`` miles (if any) lies the cell ``elsewhere``. Homes outside (``away``)
    are in no ring: the last ``beyond`` cells of a place are theirs.
    """

    tree: GravityTree
    decays: Floats
    groups: Integers
    cells: Integers
    cut: float | None = None
    graded: NDArray[np.bool_] | None = None
    believed: Floats | None = None  # how far each place's drawn rows are believed when workers are placed
    homes: AreaFactors | None = None
    beyond: Integers | None = None
    away: OutsideHomes | None = None

    @property
    def farthest(self) -> float:
        return squared_cut(self.cut)

    def cells_of(self, destinations: Integers) -> Integers:
        return RingCells(cells=self.cells, cut=self.cut, beyond=self.beyond).cells_of(destinations)

    def around(self, destinations: Integers) -> RingsAround | RunsAround:
        if self.homes is None:
            return self._around(destinations)
        areas = self.homes.area_of[destinations]
        bounds = np.concatenate(([0], np.flatnonzero(np.diff(areas)) + 1, [len(areas)]))
        trees = {area: self.homes.tree_of(self.tree, area) for area in np.unique(areas).tolist()}
        parts = tuple(
            replace(self, tree=trees[int(areas[first])], homes=None)._around(destinations[first:last])
            for first, last in itertools.pairwise(bounds.tolist())
        )
        return RunsAround(parts=parts, bounds=bounds)

    def _around(self, destinations: Integers) -> RingsAround:
        from understudy.commutes.models import regions_compiled as loops

        tree, (rings, sectors) = self.tree, rings_and_sectors(self.cells[destinations])
        grades = np.ones(len(destinations))
        if self.graded is not None:
            grades[self.graded[destinations]] = GRADE
        seen = loops.views(
            tree.rank[destinations], self.groups[destinations], rings, sectors, grades,
            tree.points, tree.mass, tree.sums, tree.nodes, self.decays, self.farthest,
        )  # fmt: skip
        return RingsAround(
            regions=self, destinations=destinations, rings=rings, sectors=sectors, grades=grades, seen=seen
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RingsAround:
    """Rings around some destinations. ``grades`` are the powers by which the mass beyond a ring falls; ``seen`` is what
    ``regions_compiled.views`` gives."""

    regions: RingRegions
    destinations: Integers
    rings: Integers
    sectors: Integers
    grades: Floats
    seen: tuple[NDArray[Any], ...]

    @property
    def domains(self) -> Integers:
        return self._inside + self._beyond

    @property
    def _inside(self) -> Integers:
        """Cells for homes inside, ``elsewhere`` included."""
        return np.asarray(self.rings * self.sectors + int(self.regions.cut is not None))

    @property
    def _beyond(self) -> Integers:
        """Cells for homes outside."""
        beyond = self.regions.beyond
        return np.zeros_like(self.rings) if beyond is None else beyond[self.destinations]

    def encode(self, starts: Integers, origins: NDArray[np.int32]) -> Integers:
        from understudy.commutes.models import regions_compiled as loops

        tree, (*_, place_starts, begins, cells_there, bound_starts, bounds) = self.regions.tree, self.seen
        found = np.empty(len(origins), dtype=np.int64)
        loops.encode(
            tree.rank[self.destinations], self.rings, self.sectors, starts, np.maximum(tree.rank[origins], 0),
            tree.points, place_starts, begins, cells_there, bound_starts, bounds, self.regions.farthest, found,
        )  # fmt: skip
        away = self.regions.away
        if away is None:
            return found
        rank, pairs = away.ranks(len(tree.places))[origins], np.diff(starts)
        beyond = np.repeat(self._inside, pairs) + np.minimum(rank, np.repeat(self._beyond, pairs) - 1)
        return np.where(rank >= 0, beyond, found)

    def place(
        self, starts: Integers, drawn: Integers, key: bytes, drawn_starts: Integers | None = None
    ) -> NDArray[np.int32]:
        handed = starts if drawn_starts is None else drawn_starts
        away = self.regions.away
        found = indexed_words(key, self.destinations, np.diff(starts) + int(away is not None))
        place = self._placed if away is None else partial(self._with_outside, away)
        return place(starts, drawn, handed, found)

    def _with_outside(
        self, away: OutsideHomes, starts: Integers, drawn: Integers, handed: Integers, found: Words
    ) -> NDArray[np.int32]:
        """Rows in cells outside get a home there; the others are placed by rings. How many of a destination's rows are
        outside is rounded by chance, so that many small destinations together have as many as they should. The last
        word of a destination decides that, the others place its rows."""
        (words, word_starts), rows, number = found, np.diff(starts), np.diff(handed)
        owner = np.repeat(np.arange(len(rows)), number)
        outside = drawn >= self._inside[owner]
        counted = np.bincount(owner[outside], minlength=len(rows))
        believed = np.ones(len(rows)) if self.regions.believed is None else self.regions.believed[self.destinations]
        part = believed * counted / np.maximum(number, 1) + (1 - believed) * away.part[self.destinations]
        chance = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
        leaving = np.minimum(np.floor(rows * part + chance[word_starts + rows]).astype(np.int64), rows)
        own = np.concatenate(([0], np.cumsum(rows - leaving)))
        left = np.concatenate(([0], np.cumsum(number - counted)))
        homes = np.empty(int(starts[-1]), dtype=np.int32)
        within = np.arange(int(starts[-1])) - np.repeat(starts[:-1], rows)
        stays = within < np.repeat(rows - leaving, rows)
        homes[stays] = self._placed(own, drawn[~outside], left, found)
        # Rows outside take cells in turn from those drawn there; if none was drawn, the last, where all others are.
        at = np.repeat(np.arange(len(rows)), leaving)
        which = within[~stays] - np.repeat(rows - leaving, leaving)
        begin = np.concatenate(([0], np.cumsum(counted)))[at]
        taken = begin + np.minimum((which + 0.5) / leaving[at] * counted[at], counted[at] - 1).astype(np.int64)
        listed = np.append(drawn[outside] - self._inside[owner[outside]], 0)
        cells = np.where(counted[at] > 0, listed[np.maximum(taken, 0)], self._beyond[at] - 1)
        homes[~stays] = away.place(cells, self._beyond[at], chance[word_starts[at] + within[~stays]])
        return homes

    def _placed(self, starts: Integers, drawn: Integers, drawn_starts: Integers, of: Words) -> NDArray[np.int32]:
        """Rows in their rings; ``of`` holds the words of each destination."""
        from understudy.commutes.models import regions_compiled as loops

        tree, believed, destinations = self.regions.tree, self.regions.believed, self.destinations
        words, word_starts = of
        view_starts, lows, highs, totals, *_, bound_starts, bounds = self.seen
        found = np.empty(int(starts[-1]), dtype=np.int32)
        loops.place(
            tree.rank[destinations], self.rings, self.sectors, self.grades,
            np.ones(len(destinations)) if believed is None else believed[destinations],
            starts, drawn_starts, drawn, words, word_starts, tree.sums,
            view_starts, lows, highs, totals, bound_starts, bounds, found,
        )  # fmt: skip
        return np.where(found < 0, ELSEWHERE_CODE, tree.order[found]).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunsAround:
    """Rings around destinations of several areas, each run of destinations with its own masses. The destinations of a
    run lie at bounds[i]:bounds[i + 1]."""

    parts: tuple[RingsAround, ...]
    bounds: Integers

    @property
    def domains(self) -> Integers:
        return np.concatenate([part.domains for part in self.parts])

    def encode(self, starts: Integers, origins: NDArray[np.int32]) -> Integers:
        return np.concatenate([part.encode(own, origins[first:last]) for part, own, first, last in self._runs(starts)])

    def place(
        self, starts: Integers, drawn: Integers, key: bytes, drawn_starts: Integers | None = None
    ) -> NDArray[np.int32]:
        handed = self._runs(starts if drawn_starts is None else drawn_starts)
        return np.concatenate(
            [
                part.place(own, drawn[first:last], key, own_drawn)
                for (part, own, _, _), (_, own_drawn, first, last) in zip(self._runs(starts), handed, strict=True)
            ]
        )

    def _runs(self, starts: Integers) -> Iterator[tuple[RingsAround, Integers, int, int]]:
        """Each part with its own starts, and where what they count lies."""
        for part, (first, last) in zip(self.parts, itertools.pairwise(self.bounds.tolist()), strict=True):
            yield part, starts[first : last + 1] - starts[first], int(starts[first]), int(starts[last])


def belief(rows: Integers, prior_mass: Floats, spread: float, times: Integers | int = 1) -> Floats:
    """How far to believe the drawn rows of a destination: the weight with the least expected squared error of a mean.

    Variances are in units of the variance between workers. The truth differs from the gravity model by ``spread``
    between destinations, and by 1/n because it has few workers. The draw shows n/(n + A) of that difference, where A is
    the prior mass. Its noise is the variance of a Dirichlet-multinomial mean of ``times`` n rows, from an urn whose
    balls have the variance 1 minus that of the shown difference. All numbers are public, so this is post-processing.

    >>> belief(np.array([1, 10, 1000]), np.array([0.4, 2.5, 250.0]), 0.1).round(2).tolist()
    [0.79, 0.59, 1.0]
    """
    size = np.maximum(rows, 1).astype(float)
    shown = size / (size + prior_mass)
    signal = spread + 1 / size
    drawn = size * times
    within = np.maximum(1 - shown**2 * signal, 0.0)
    noise = within * (1 + (drawn - 1) / (size + prior_mass + 1)) / drawn
    return np.asarray(np.minimum(shown * signal / (shown**2 * signal + noise), 1.0))


def belief_in_answers(rows: Integers, prior_mass: Floats, spread: float) -> Floats:
    """The same where every job answers for itself: it tells the truth with probability 1 / (1 + prior mass).

    >>> belief_in_answers(np.array([1, 4]), np.array([0.5, 0.5]), 0.1).round(2).tolist()
    [0.67, 0.76]
    """
    size = np.maximum(rows, 1).astype(float)
    true = 1 / (1 + prior_mass)
    signal = spread * (1 - 1 / size) + 1 / size
    return np.asarray(np.minimum(true * signal / (true**2 * signal + (1 - true**2) / size), 1.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AreaRegions:
    """The areas of a level, or a partition of one's own given as such a level: the same cells for every destination."""

    places: Places
    level: str
    cut: float | None = None
    names: NDArray[np.bytes_] = field(init=False)
    area_of: Integers = field(init=False)

    def __post_init__(self) -> None:
        names, area_of = np.unique(self.places.area(self.level), return_inverse=True)
        if len(names) < 2:
            raise InputError(f"level '{self.level}' has one area only; a partition needs at least two.")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "area_of", area_of.astype(np.int64))

    @property
    def cells(self) -> int:
        return len(self.names)

    def cells_of(self, destinations: Integers) -> Integers:
        return np.full(len(destinations), self.cells + int(self.cut is not None), dtype=np.int64)

    def around(self, destinations: Integers) -> AreasAround:
        return AreasAround(regions=self, destinations=destinations)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AreasAround:
    """The areas, which are the same for every destination."""

    regions: AreaRegions
    destinations: Integers

    @property
    def domains(self) -> Integers:
        return self.regions.cells_of(self.destinations)

    def encode(self, starts: Integers, origins: NDArray[np.int32]) -> Integers:
        regions = self.regions
        far = beyond_cut(regions.places.points(), self.destinations, starts, origins, regions.cut)
        return np.where(far, regions.cells, regions.area_of[origins])

    def place(
        self, starts: Integers, drawn: Integers, key: bytes, drawn_starts: Integers | None = None
    ) -> NDArray[np.int32]:
        """By public density inside the area, whatever its distance."""
        drawn = systematic(starts, drawn, drawn_starts)
        words, word_starts = indexed_words(key, self.destinations, np.diff(starts))
        at = np.repeat(word_starts - starts[:-1], np.diff(starts)) + np.arange(len(drawn))
        share = (words[at] >> np.uint64(11)).astype(np.float64) * 2.0**-53
        area_of, areas = self.regions.area_of, self.regions.cells
        order = np.argsort(area_of, kind="stable")
        sums = np.concatenate(([0.0], np.cumsum(self.regions.places.mass[order])))
        ends = np.searchsorted(area_of[order], np.arange(areas + 1))
        inside = np.minimum(drawn, areas - 1)
        low, high = sums[ends[inside]], sums[ends[inside + 1]]
        found = np.searchsorted(sums, low + share * (high - low), side="right") - 1
        found = np.clip(found, ends[inside], ends[inside + 1] - 1)
        return np.where(drawn >= areas, ELSEWHERE_CODE, order[found]).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PlaceRegions:
    """Every place its own cell, and one for what lies beyond the cut."""

    places: Places
    cut: float | None = None

    def cells_of(self, destinations: Integers) -> Integers:
        return np.full(len(destinations), len(self.places) + int(self.cut is not None), dtype=np.int64)

    def around(self, destinations: Integers) -> PlacesAround:
        return PlacesAround(regions=self, destinations=destinations)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PlacesAround:
    """All places, for some destinations."""

    regions: PlaceRegions
    destinations: Integers

    @property
    def domains(self) -> Integers:
        return self.regions.cells_of(self.destinations)

    def encode(self, starts: Integers, origins: NDArray[np.int32]) -> Integers:
        far = beyond_cut(self.regions.places.points(), self.destinations, starts, origins, self.regions.cut)
        return np.where(far, len(self.regions.places), origins.astype(np.int64))

    def place(
        self, starts: Integers, drawn: Integers, key: bytes, drawn_starts: Integers | None = None
    ) -> NDArray[np.int32]:
        del key
        drawn = systematic(starts, drawn, drawn_starts)
        return np.where(drawn >= len(self.regions.places), ELSEWHERE_CODE, drawn).astype(np.int32)
