"""Areas by distance: single places near a destination, the areas they belong to farther away, larger ones far away.

A public division of the origins for each destination, made of real areas. Drawing over its cells keeps the guarantee
of the draw (Machanavajjhala et al. 2008, Theorem 5.1); see docs/theory/commute.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.apportion import systematic
from understudy.core.arrays import Floats, Integers
from understudy.core.places import ELSEWHERE_CODE, Places
from understudy.errors import InputError
from understudy.privacy.randomness.draws import indexed_words

PLACE = "place"
COUNTED_AT_ONCE = 4_096  # destinations whose cells are held while they are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaStep:
    """Areas of this level are cells unless they reach nearer than ``miles``; then they are opened. The finest level,
    which has nothing to be opened into, has no distance of its own."""

    level: str
    miles: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NestedAreas:
    """Areas of several levels, each inside one area of the next coarser level, opened towards each destination.

    ``steps`` go from coarse to fine and end at single places or at the finest areas that are used. Each area has a ball
    around its centre that holds all of it. The area is opened if its ball comes nearer than the distance of its step,
    so every place within that distance is in a cell of a finer level. With ``cut``, areas whose ball lies beyond so
    many miles are ``elsewhere``.

    The places are put in the order of their areas, so that an area is a range of positions and a division is a list of
    positions at which cells begin.
    """

    places: Places
    steps: Sequence[AreaStep]
    cut: float | None = None
    order: Integers = field(init=False)
    rank: Integers = field(init=False)
    points: Floats = field(init=False)
    sums: Floats = field(init=False)  # of mass, by position
    starts: Integers = field(init=False)  # first position of each area, the levels one after the other
    level_starts: Integers = field(init=False)  # where the areas of each level begin in ``starts``
    balls: Floats = field(init=False)  # middle and radius of each area

    def __post_init__(self) -> None:
        columns = [self._column(step.level) for step in self.steps]
        if len(np.unique(columns[-1])) < 2:
            raise InputError(f"level '{self.steps[-1].level}' has one area only; a division needs at least two.")
        order = np.lexsort(columns[::-1])
        for coarse, fine, above, below in zip(columns, columns[1:], self.steps, self.steps[1:], strict=False):
            _check_nested(coarse[order], fine[order], above.level, below.level)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        points = np.ascontiguousarray(self.places.points()[order])
        starts, level_starts, balls = [], [0], []
        for column in columns:
            sorted_areas = column[order]
            first = np.concatenate(([0], np.flatnonzero(sorted_areas[1:] != sorted_areas[:-1]) + 1))
            starts.append(first)
            balls.append(_balls(points, first))
            level_starts.append(level_starts[-1] + len(first))
        values: dict[str, Any] = {
            "order": order,
            "rank": rank,
            "points": points,
            "sums": np.concatenate(([0.0], np.cumsum(self.places.mass[order]))),
            "starts": np.concatenate(starts),
            "level_starts": np.array(level_starts, dtype=np.int64),
            "balls": np.concatenate(balls),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _column(self, level: str) -> Integers:
        if level == PLACE:
            return np.arange(len(self.places), dtype=np.int64)
        _, column = np.unique(self.places.area(level), return_inverse=True)
        return column.astype(np.int64)

    def cells_of(self, destinations: Integers) -> Integers:
        """How many cells each destination has, ``elsewhere`` included."""
        found = [
            self._divide(part)[2] for part in np.array_split(destinations, 1 + len(destinations) // COUNTED_AT_ONCE)
        ]
        return np.concatenate(found) + int(self.cut is not None)

    def _divide(self, destinations: Integers) -> tuple[Integers, Integers, Integers]:
        from understudy.commutes.models import nested_areas_compiled as loops

        divided: tuple[Integers, Integers, Integers] = loops.divide(
            self.points[self.rank[destinations]], self.starts, self.level_starts, self.balls, len(self.places),
            np.array([step.miles for step in self.steps]), np.inf if self.cut is None else self.cut,
        )  # fmt: skip
        return divided

    def around(self, destinations: Integers) -> NestedAround:
        return NestedAround(regions=self, destinations=destinations, division=self._divide(destinations))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NestedAround:
    """The divisions of some destinations: where the list of each begins, the first positions of its cells (those that
    are elsewhere as the complement of it), and the number of its cells."""

    regions: NestedAreas
    destinations: Integers
    division: tuple[Integers, Integers, Integers]

    @property
    def domains(self) -> Integers:
        return self.division[2] + int(self.regions.cut is not None)

    def encode(self, starts: Integers, origins: NDArray[np.int32]) -> Integers:
        from understudy.commutes.models import nested_areas_compiled as loops

        found = np.empty(len(origins), dtype=np.int64)
        loops.encode(*self.division, starts, self.regions.rank[origins], found)
        return found

    def place(
        self, starts: Integers, drawn: Integers, key: bytes, drawn_starts: Integers | None = None
    ) -> NDArray[np.int32]:
        """By public mass inside the area."""
        from understudy.commutes.models import nested_areas_compiled as loops

        drawn = systematic(starts, drawn, drawn_starts)
        words, word_starts = indexed_words(key, self.destinations, np.diff(starts))
        found = np.empty(len(drawn), dtype=np.int64)
        loops.place(*self.division, starts, drawn, words, word_starts, self.regions.sums, found)
        return np.where(found < 0, ELSEWHERE_CODE, self.regions.order[found]).astype(np.int32)


def _check_nested(coarse: Integers, fine: Integers, above: str, below: str) -> None:
    """Refuses levels that do not nest. In the order of coarse and then fine areas, a fine area that occurs again lies
    in two coarse ones."""
    first = np.concatenate(([True], (fine[1:] != fine[:-1]) | (coarse[1:] != coarse[:-1])))
    runs = fine[first]
    split = len(runs) - len(np.unique(runs))
    if split:
        raise InputError(
            f"{split:,} area(s) of level '{below}' lie in more than one area of level '{above}'; areas by distance "
            "need levels that nest, named from fine to coarse."
        )


def _balls(points: Floats, starts: Integers) -> Floats:
    """For each range of points a centre and a radius that reaches all of them, slightly enlarged against rounding."""
    counts = np.diff(np.append(starts, len(points)))
    middles = np.add.reduceat(points, starts, axis=0) / counts[:, None]
    apart = np.sqrt(((points - np.repeat(middles, counts, axis=0)) ** 2).sum(axis=1))
    radii = np.maximum.reduceat(apart, starts)
    return np.column_stack((middles, np.where(counts > 1, radii * (1 + 1e-9) + 1e-9, 0.0)))
