"""Public divisions of the origins, seen from each destination, and where to put workers inside a cell.

Nothing here depends on confidential data: a division is a function of the places, of public sizes and of a decay that
was measured with noise. So drawing over its cells keeps the guarantee of the draw (Machanavajjhala et al. 2008,
Theorem 5.1), and placing workers is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from understudy.core.places import ELSEWHERE_CODE, Places
from understudy.errors import InputError
from understudy.models.gravity import GravityTree
from understudy.privacy.randomness.draws import indexed_words

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
RINGS_ONLY = 8  # cells up to which only distance is told apart, and no direction


def rings_and_sectors(cells: Integers) -> tuple[Integers, Integers]:
    """How a number of cells is divided: few cells are rings; more get sectors as well, never more cells than asked.

    >>> [part.tolist() for part in rings_and_sectors(np.array([2, 8, 50]))]
    [[2, 8, 11], [1, 1, 4]]
    """
    rings = np.where(cells <= RINGS_ONLY, cells, np.maximum(RINGS_ONLY, np.rint(1.5 * np.sqrt(cells)))).astype(np.int64)
    return rings, np.maximum(cells // np.maximum(rings, 1), 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RingRegions:
    """Rings of equal gravity mass around each destination, cut into sectors where there are many cells.

    ``decays`` holds one decay per group of destinations, ``groups`` the group of each place. Beyond ``cut`` miles (if
    any) lies the cell ``elsewhere``.
    """

    tree: GravityTree
    decays: Floats
    groups: Integers
    cut: float | None = None
    believed: Floats | None = None  # how far each place's drawn rows are believed when workers are placed

    @property
    def farthest(self) -> float:
        return np.inf if self.cut is None else self.cut**2

    def around(self, destinations: Integers, cells: Integers) -> RingsAround:
        from understudy.models import regions_compiled as loops

        tree = self.tree
        seen = loops.views(
            tree.rank[destinations], self.groups[destinations], np.prod(rings_and_sectors(cells), axis=0),
            tree.points, tree.mass, tree.sums, tree.nodes, self.decays, self.farthest,
        )  # fmt: skip
        return RingsAround(regions=self, destinations=destinations, cells=cells, seen=seen)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RingsAround:
    """Rings around some destinations. ``seen``: where the view of each begins, and for the nodes of all views by
    distance where their range of positions begins and ends, their squared distance and their summed pull."""

    regions: RingRegions
    destinations: Integers
    cells: Integers
    seen: tuple[Integers, NDArray[np.int32], NDArray[np.int32], Floats, Floats]

    @property
    def domains(self) -> Integers:
        rings, sectors = rings_and_sectors(self.cells)
        return np.asarray(rings * sectors + int(self.regions.cut is not None))

    def encode(self, starts: Integers, origins: NDArray[np.int32]) -> Integers:
        from understudy.models import regions_compiled as loops

        tree, (rings, sectors) = self.regions.tree, rings_and_sectors(self.cells)
        view_starts, lows, highs, squares, totals = self.seen
        found = np.empty(len(origins), dtype=np.int64)
        loops.encode(
            tree.rank[self.destinations], rings, sectors, starts, tree.rank[origins], tree.points,
            view_starts, lows, highs, squares, totals, self.regions.farthest, found,
        )  # fmt: skip
        return found

    def place(self, starts: Integers, drawn: Integers, key: bytes) -> NDArray[np.int32]:
        from understudy.models import regions_compiled as loops

        tree, (rings, sectors) = self.regions.tree, rings_and_sectors(self.cells)
        believed, destinations = self.regions.believed, self.destinations
        words, word_starts = indexed_words(key, destinations, np.diff(starts))
        view_starts, lows, highs, _, totals = self.seen
        found = np.empty(len(drawn), dtype=np.int32)
        loops.place(
            tree.rank[destinations], rings, sectors,
            np.ones(len(destinations)) if believed is None else believed[destinations],
            starts, drawn, words, word_starts, tree.points, tree.sums, view_starts, lows, highs, totals, found,
        )  # fmt: skip
        return np.where(found < 0, ELSEWHERE_CODE, tree.order[found]).astype(np.int32)


def belief(rows: Integers, prior_mass: Floats, spread: float, times: Integers | int = 1) -> Floats:
    """How far to believe the drawn rows of a destination: the weight with the least expected squared error of a mean.

    In units of the variance between workers: the truth differs from the gravity model by ``spread`` between
    destinations and 1/n by its few workers; the draw shows n/(n + A) of that difference (A the prior mass) with the
    variance of a Dirichlet-multinomial mean of ``times`` n rows, about an urn in which that much less than 1 is left
    between balls. A function of public numbers, so this is post-processing.

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

    def around(self, destinations: Integers, cells: Integers) -> AreasAround:
        del cells
        return AreasAround(regions=self, destinations=destinations)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AreasAround:
    """The areas, which are the same for every destination."""

    regions: AreaRegions
    destinations: Integers

    @property
    def domains(self) -> Integers:
        return np.full(len(self.destinations), self.regions.cells + int(self.regions.cut is not None), dtype=np.int64)

    def encode(self, starts: Integers, origins: NDArray[np.int32]) -> Integers:
        regions = self.regions
        far = _beyond(regions.places, self.destinations, starts, origins, regions.cut)
        return np.where(far, regions.cells, regions.area_of[origins])

    def place(self, starts: Integers, drawn: Integers, key: bytes) -> NDArray[np.int32]:
        """By public density inside the area, whatever its distance."""
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

    def around(self, destinations: Integers, cells: Integers) -> PlacesAround:
        del cells
        return PlacesAround(regions=self, destinations=destinations)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PlacesAround:
    """All places, for some destinations."""

    regions: PlaceRegions
    destinations: Integers

    @property
    def domains(self) -> Integers:
        cells = len(self.regions.places) + int(self.regions.cut is not None)
        return np.full(len(self.destinations), cells, dtype=np.int64)

    def encode(self, starts: Integers, origins: NDArray[np.int32]) -> Integers:
        beyond = _beyond(self.regions.places, self.destinations, starts, origins, self.regions.cut)
        return np.where(beyond, len(self.regions.places), origins.astype(np.int64))

    def place(self, starts: Integers, drawn: Integers, key: bytes) -> NDArray[np.int32]:
        del starts, key
        return np.where(drawn >= len(self.regions.places), ELSEWHERE_CODE, drawn).astype(np.int32)


def squared_miles(points: Floats, one: Integers, other: NDArray[np.int32]) -> Floats:
    """Squared straight-line distances: what the loops compare with the bands and the cut."""
    result: Floats = ((points[one] - points[other]) ** 2).sum(axis=1)
    return result


def _beyond(
    places: Places, destinations: Integers, starts: Integers, origins: NDArray[np.int32], cut: float | None
) -> NDArray[np.bool_]:
    if cut is None:
        return np.zeros(len(origins), dtype=bool)
    return squared_miles(places.points(), np.repeat(destinations, np.diff(starts)), origins) > cut**2
