"""Pairs of areas as disjoint public cells: fine where places are near each other, coarse where they are far apart.

Most commutes are short, so near pairs are worth a cell for each pair of the finest areas. A nation has billions of far
pairs and hardly a worker in each; those are cells of coarser areas. Which cells there are follows from the map alone.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.places import Places
from understudy.errors import InputError, UnsupportedError

MOST_CELLS = 60_000_000
MOST_PAIRS = 40_000_000  # pairs of coarser areas that are looked at
WIDENING = 4  # how much farther apart areas one level up may lie to be split
CELLS_PER_PLACE = 16  # a place has some twenty jobs, so at most so many cells have about a job each or more


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Level:
    """The areas of one level: which one each place is in, and where it lies."""

    name: str
    area_of_place: Integers
    parent: Integers  # the area one level up; empty at the top
    points: Floats  # centre of each area, in miles
    radius: Floats  # of the circle around the centre that holds its places

    def __len__(self) -> int:
        return len(self.radius)

    def distance(self, one: NDArray[np.integer], other: NDArray[np.integer]) -> Floats:
        return np.asarray(np.linalg.norm(self.points[one] - self.points[other], axis=1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CellLookup:
    """Finds the cell of a pair of places without the list of cells: small enough to be sent to a cluster.

    Of each level but the finest it knows the pairs that stay whole (in order) and the pairs that are split.
    """

    levels: tuple[Level, ...]
    whole: tuple[Integers, ...]
    split: tuple[Integers, ...]
    starts: tuple[int, ...]  # first cell of each level
    blocks: Integers  # first cell of each split pair of the level above the finest
    rank: Integers  # of each finest area within its parent
    children: Integers

    def classify(self, origins: NDArray[np.integer], destinations: NDArray[np.integer]) -> Integers:
        """The cell of each job, from the codes of its places."""
        cells = np.full(len(origins), -1, dtype=np.int64)
        left = np.arange(len(origins))
        for number, level in enumerate(self.levels[:-1]):
            key = _key(level, level.area_of_place[origins[left]], level.area_of_place[destinations[left]])
            whole, where = _find(self.whole[number], key)
            cells[left[whole]] = self.starts[number] + where[whole]
            left = left[~whole]
        fine = self.levels[-1]
        one, other = fine.area_of_place[origins[left]], fine.area_of_place[destinations[left]]
        if len(self.levels) == 1:
            cells[left] = self.starts[-1] + _key(fine, one, other)
            return cells
        above = self.levels[-2]
        _, block = _find(self.split[-1], _key(above, fine.parent[one], fine.parent[other]))
        cells[left] = self.blocks[block] + self.rank[one] * self.children[fine.parent[other]] + self.rank[other]
        return cells


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AreaPairs:
    """The cells, coarse ones first. Cell i is a pair of areas of level ``level[i]``."""

    levels: tuple[Level, ...]
    level: NDArray[np.int8]
    origin: NDArray[np.int32]
    destination: NDArray[np.int32]
    lookup: CellLookup

    def __len__(self) -> int:
        return len(self.level)

    def __repr__(self) -> str:
        names = " / ".join(level.name for level in self.levels)
        return f"AreaPairs({len(self):,} cells of {names})"

    @property
    def finest(self) -> Level:
        return self.levels[-1]

    @property
    def near(self) -> slice:
        """The cells that are pairs of the finest areas."""
        return slice(self.lookup.starts[-1], len(self))

    def classify(self, origins: NDArray[np.integer], destinations: NDArray[np.integer]) -> Integers:
        """The cell of each job, from the codes of its places."""
        return self.lookup.classify(origins, destinations)

    def ancestors(self, number: int) -> Integers:
        """The area of a coarser level that each finest area lies in."""
        ancestor = np.arange(len(self.finest))
        for level in self.levels[:number:-1]:
            ancestor = level.parent[ancestor]
        return ancestor

    def distance(self) -> Floats:
        """Miles between the areas of each cell; within one area, half its radius."""
        miles, starts = np.empty(len(self)), self.lookup.starts
        for number, level in enumerate(self.levels):
            own = slice(starts[number], starts[number + 1] if number + 1 < len(self.levels) else len(self))
            one, other = self.origin[own], self.destination[own]
            miles[own] = np.maximum(level.distance(one, other), (level.radius[one] + level.radius[other]) / 4)
        return miles


def choose_area_pairs(places: Places, near: float, finest: str) -> AreaPairs:
    """Cells of areas down to the level ``finest``. With ``auto`` it is the finest of at most ``CELLS_PER_PLACE`` cells
    for each place: the noise of a cell is the same whatever its size, so cells of hardly a job each drown in it."""
    levels = make_levels(places)
    if finest != "auto":
        places.area(finest)  # refuses a level that is not there
        return make_area_pairs(places, near, levels[: list(places.areas).index(finest) + 1])
    for number in range(len(levels), 1, -1):
        with suppress(UnsupportedError):
            return make_area_pairs(places, near, levels[:number], most=CELLS_PER_PLACE * len(places))
    return make_area_pairs(places, near, levels[:1])


def make_area_pairs(
    places: Places, near: float, levels: tuple[Level, ...] | None = None, *, most: int = MOST_CELLS
) -> AreaPairs:
    """Cells for every pair of places. A pair of areas is split into pairs of their parts if the gap between them is at
    most ``near`` miles, four times as many one level up, and so on; otherwise it stays one cell. Homes outside count as
    near."""
    if not near > 0:
        raise InputError(f"near ({near:g}) must be a positive number of miles.")
    if levels is None:
        levels = make_levels(places)
    most = min(most, MOST_CELLS)
    top = np.arange(len(levels[0]))
    pairs = np.repeat(top, len(top)), np.tile(top, len(top))
    kinds: list[NDArray[np.int8]] = []
    origins, destinations, wholes, splits, starts = [], [], [], [], [0]
    for number, level in enumerate(levels[:-1]):
        _limit(len(pairs[0]), MOST_PAIRS, level.name)
        reach = near * WIDENING ** (len(levels) - 2 - number)
        gap = level.distance(*pairs) - level.radius[pairs[0]] - level.radius[pairs[1]]
        splitting = gap <= reach
        if places.outside is not None:  # a home outside is one place on every level, however far it is
            away = np.zeros(len(level), dtype=bool)
            away[level.area_of_place[places.outside]] = True
            splitting |= away[pairs[0]] | away[pairs[1]]
        keys = _key(level, *pairs)
        order = np.argsort(keys)
        whole, split = order[~splitting[order]], order[splitting[order]]
        wholes.append(keys[whole])
        splits.append(keys[split])
        kinds.append(np.full(len(whole), number, dtype=np.int8))
        origins.append(pairs[0][whole])
        destinations.append(pairs[1][whole])
        starts.append(starts[-1] + len(whole))
        pairs = _children_pairs(levels[number + 1], len(level), pairs[0][split], pairs[1][split], most)
    fine = levels[-1]
    kinds.append(np.full(len(pairs[0]), len(levels) - 1, dtype=np.int8))
    rank, children, blocks = _blocks_of(levels, splits, starts[-1])
    return AreaPairs(
        levels=levels,
        level=np.concatenate(kinds),
        origin=np.concatenate([*origins, pairs[0]]).astype(np.int32),
        destination=np.concatenate([*destinations, pairs[1]]).astype(np.int32),
        lookup=CellLookup(
            levels=levels, whole=tuple(wholes), split=tuple(splits), starts=tuple(starts), blocks=blocks,
            rank=rank if len(levels) > 1 else np.zeros(len(fine), dtype=np.int64), children=children,
        ),
    )  # fmt: skip


def make_levels(places: Places) -> tuple[Level, ...]:
    """The levels of areas, coarse to fine, checked to be nested."""
    if not places.areas:
        raise InputError(
            "the places have no areas, so flows between areas cannot be measured. Add columns with the areas of each "
            "place (area_county, area_tract), coarse to fine."
        )
    points = places.points()
    levels: list[Level] = []
    for name, ids in places.areas.items():
        _, codes = np.unique(ids, return_inverse=True)
        count = int(codes.max()) + 1
        parent = np.empty(0, dtype=np.int64)
        if levels:
            parent = np.zeros(count, dtype=np.int64)
            parent[codes] = levels[-1].area_of_place
            astray = parent[codes] != levels[-1].area_of_place
            if astray.any():
                raise InputError(
                    f"areas of level '{name}' are not inside areas of level '{levels[-1].name}': {int(astray.sum()):,} "
                    "place(s) disagree. List levels from coarse to fine, each area within one area of the level before."
                )
        places_in = np.bincount(codes, minlength=count)
        centre: Floats = np.stack([np.bincount(codes, axis, count) / places_in for axis in points.T], axis=1)
        radius = np.zeros(count)
        np.maximum.at(radius, codes, np.linalg.norm(points - centre[codes], axis=1))
        levels.append(
            Level(name=name, area_of_place=codes.astype(np.int64), parent=parent, points=centre, radius=radius)
        )
    return tuple(levels)


def _children_pairs(level: Level, parents: int, one: Integers, other: Integers, most: int) -> tuple[Integers, Integers]:
    """All pairs of parts of the given pairs of areas, pair after pair, the destination fastest."""
    order = np.argsort(level.parent, kind="stable")
    children = np.bincount(level.parent, minlength=parents)
    first = np.concatenate(([0], np.cumsum(children)[:-1]))
    sizes = children[one] * children[other]
    _limit(int(sizes.sum()), most, level.name)
    pair = np.repeat(np.arange(len(one)), sizes)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    row, column = np.divmod(within, children[other][pair])
    return order[first[one[pair]] + row], order[first[other[pair]] + column]


def _blocks_of(levels: tuple[Level, ...], splits: list[Integers], start: int) -> tuple[Integers, Integers, Integers]:
    """Rank of each finest area in its parent, parts of each parent, and the first cell of each split pair."""
    none = np.zeros(0, dtype=np.int64)
    if len(levels) == 1:
        return none, none, none
    fine, above = levels[-1], levels[-2]
    children = np.bincount(fine.parent, minlength=len(above)).astype(np.int64)
    order = np.argsort(fine.parent, kind="stable")
    rank = np.empty(len(fine), dtype=np.int64)
    first = np.concatenate(([0], np.cumsum(children)[:-1]))
    rank[order] = np.arange(len(fine)) - first[fine.parent[order]]
    one, other = np.divmod(splits[-1], len(above))
    sizes = children[one] * children[other]
    return rank, children, start + np.cumsum(sizes) - sizes


def _key(level: Level, one: Integers, other: Integers) -> Integers:
    return np.asarray(one * np.int64(len(level)) + other, dtype=np.int64)


def _find(listed: Integers, keys: Integers) -> tuple[NDArray[np.bool_], Integers]:
    """Whether each key is in a sorted list, and where."""
    if len(listed) == 0:
        return np.zeros(len(keys), dtype=bool), np.zeros(len(keys), dtype=np.int64)
    where = np.minimum(np.searchsorted(listed, keys), len(listed) - 1)
    return listed[where] == keys, where


def _limit(cells: int, most: int, level: str) -> None:
    if cells > most:
        raise UnsupportedError(
            f"pairs of areas of level '{level}' make {cells:,} cells, more than {most:,}. Lower near, or add a coarser "
            "level of areas, so that far pairs are kept whole."
        )
