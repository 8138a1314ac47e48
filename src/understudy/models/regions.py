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
from understudy.privacy.draws import indexed_words

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
    def _farthest(self) -> float:
        return np.inf if self.cut is None else self.cut**2

    def domains(self, destinations: Integers, cells: Integers) -> Integers:
        del destinations
        rings, sectors = rings_and_sectors(cells)
        return np.asarray(rings * sectors + int(self.cut is not None))

    def encode(self, destinations: Integers, cells: Integers, starts: Integers, origins: NDArray[np.int32]) -> Integers:
        from understudy.models import regions_compiled as loops

        tree, (rings, sectors) = self.tree, rings_and_sectors(cells)
        found = np.empty(len(origins), dtype=np.int64)
        loops.encode(
            tree.rank[destinations], rings, sectors, self.groups[destinations], starts, tree.rank[origins],
            tree.points, tree.mass, tree.sums, tree.nodes, self.decays, self._farthest, found,
        )  # fmt: skip
        return found

    def place(
        self, destinations: Integers, cells: Integers, starts: Integers, drawn: Integers, key: bytes
    ) -> NDArray[np.int32]:
        from understudy.models import regions_compiled as loops

        tree, (rings, sectors) = self.tree, rings_and_sectors(cells)
        words, word_starts = indexed_words(key, destinations, np.diff(starts))
        found = np.empty(len(drawn), dtype=np.int32)
        loops.place(
            tree.rank[destinations], rings, sectors, self.groups[destinations],
            np.ones(len(destinations)) if self.believed is None else self.believed[destinations],
            starts, drawn, words, word_starts,
            tree.points, tree.mass, tree.sums, tree.nodes, self.decays, self._farthest, found,
        )  # fmt: skip
        return np.where(found < 0, ELSEWHERE_CODE, tree.order[found]).astype(np.int32)


def belief(rows: Integers, prior_mass: Floats, spread: float, times: Integers | int = 1) -> Floats:
    """How far to believe the drawn rows of a destination: the weight with the least expected squared error of a mean.

    In units of the variance between workers: the truth differs from the gravity model by ``spread`` between
    destinations and 1/n by its few workers; the draw shows n/(n + A) of that difference (A the prior mass) with the
    variance of a Dirichlet-multinomial mean of ``times`` n rows. A function of public numbers, so this is
    post-processing.

    >>> belief(np.array([1, 10, 1000]), np.array([0.4, 2.5, 250.0]), 0.1).round(2).tolist()
    [0.5, 0.54, 1.0]
    """
    size = np.maximum(rows, 1).astype(float)
    shown = size / (size + prior_mass)
    signal = spread + 1 / size
    drawn = size * times
    noise = (1 + (drawn - 1) / (size + prior_mass + 1)) / drawn
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

    def domains(self, destinations: Integers, cells: Integers) -> Integers:
        del cells
        return np.full(len(destinations), self.cells + int(self.cut is not None), dtype=np.int64)

    def encode(self, destinations: Integers, cells: Integers, starts: Integers, origins: NDArray[np.int32]) -> Integers:
        del cells
        return np.where(
            _beyond(self.places, destinations, starts, origins, self.cut), self.cells, self.area_of[origins]
        )

    def place(
        self, destinations: Integers, cells: Integers, starts: Integers, drawn: Integers, key: bytes
    ) -> NDArray[np.int32]:
        """By public density inside the area, whatever its distance."""
        del cells
        words, word_starts = indexed_words(key, destinations, np.diff(starts))
        at = np.repeat(word_starts - starts[:-1], np.diff(starts)) + np.arange(len(drawn))
        share = (words[at] >> np.uint64(11)).astype(np.float64) * 2.0**-53
        order = np.argsort(self.area_of, kind="stable")
        sums = np.concatenate(([0.0], np.cumsum(self.places.mass[order])))
        ends = np.searchsorted(self.area_of[order], np.arange(self.cells + 1))
        inside = np.minimum(drawn, self.cells - 1)
        low, high = sums[ends[inside]], sums[ends[inside + 1]]
        found = np.searchsorted(sums, low + share * (high - low), side="right") - 1
        found = np.clip(found, ends[inside], ends[inside + 1] - 1)
        return np.where(drawn >= self.cells, ELSEWHERE_CODE, order[found]).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PlaceRegions:
    """Every place its own cell, and one for what lies beyond the cut."""

    places: Places
    cut: float | None = None

    def domains(self, destinations: Integers, cells: Integers) -> Integers:
        del cells
        return np.full(len(destinations), len(self.places) + int(self.cut is not None), dtype=np.int64)

    def encode(self, destinations: Integers, cells: Integers, starts: Integers, origins: NDArray[np.int32]) -> Integers:
        del cells
        beyond = _beyond(self.places, destinations, starts, origins, self.cut)
        return np.where(beyond, len(self.places), origins.astype(np.int64))

    def place(
        self, destinations: Integers, cells: Integers, starts: Integers, drawn: Integers, key: bytes
    ) -> NDArray[np.int32]:
        del destinations, cells, starts, key
        return np.where(drawn >= len(self.places), ELSEWHERE_CODE, drawn).astype(np.int32)


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
