"""A gravity model of commuting: a place pulls by its mass and by a decay with distance, read from public tables only.

The places lie in a tree, so that one destination sees millions of them as a few hundred nodes, near ones fine and far
ones coarse. Nothing here touches confidential data.
"""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.core.places import Places
from understudy.errors import InputError

OPENNESS = 0.04  # a node is opened if its radius is above a fifth of its distance
NODE_ROOM = 1 << 15  # nodes one destination may see
NEVER_SMALL = 1e12  # squared miles
KNOT_OCTAVES = (-5, 8, 144)  # smallest octave, knots per octave, knots: as in gravity_compiled


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GravityTree:
    """Places in the order of a tree of halves, with what each node weighs and where its centre lies.

    A place weighs its public mass, or what ``weighted`` says.
    """

    places: Places
    known: InitVar[tuple[GravityTree, Floats] | None] = None  # the same places, and other masses by position
    order: NDArray[np.int32] = field(init=False)  # code of the place at each position
    rank: NDArray[np.int32] = field(init=False)  # position of each place
    points: Floats = field(init=False)  # by position
    mass: Floats = field(init=False)
    sums: Floats = field(init=False)
    nodes: NDArray[np.float32] = field(init=False)

    def __post_init__(self, known: tuple[GravityTree, Floats] | None) -> None:
        from understudy.commutes.models import gravity_compiled as loops
        from understudy.privacy.mechanisms.place_tree_compiled import build_order

        values: dict[str, Any]
        if known is None:
            points = self.places.points()
            order = build_order(points)
            rank = np.empty(len(order), dtype=np.int32)
            rank[order] = np.arange(len(order), dtype=np.int32)
            values = {"order": order, "rank": rank, "points": points[order], "mass": self.places.mass[order]}
        else:  # where the places lie is shared, not copied
            same, mass = known
            values = {"order": same.order, "rank": same.rank, "points": same.points, "mass": mass}
        values["sums"] = np.concatenate(([0.0], np.cumsum(values["mass"])))
        for name, value in values.items():
            object.__setattr__(self, name, value)
        outside = self.places.outside
        leaf = loops.LEAF if outside is None else 1
        depth = max(1, int(np.ceil(np.log2(max(len(self.order) / leaf, 1)))) + 1)
        nodes = loops.node_centres(self.points, self.mass, depth)
        if outside is not None:
            _open_always(nodes, outside[self.order])
        object.__setattr__(self, "nodes", nodes)

    def weighted(self, mass: Floats) -> GravityTree:
        """The same places with other masses, given by position."""
        return GravityTree(self.places, (self, mass))

    def __repr__(self) -> str:
        return f"GravityTree({len(self.order):,} places)"


def _open_always(nodes: NDArray[np.float32], outside: NDArray[np.bool_]) -> None:
    """Gives every node with a home outside and something else a radius that is never small for its distance.

    A state outside can weigh more than all places of its node together. The centre of the node is then where it is, the
    mean radius is small, and the node would be closed as if the places inside were there too.
    """
    before = np.concatenate(([0], np.cumsum(outside)))
    lows, highs = np.zeros(1, dtype=np.int64), np.full(1, len(outside), dtype=np.int64)
    first = 1
    while first < len(nodes):
        mixed = (before[highs] > before[lows]) & (highs - lows > 1)
        nodes[first : first + len(lows), 3][mixed] = NEVER_SMALL
        middle = (lows + highs) // 2
        lows, highs = np.stack((lows, middle), axis=1).ravel(), np.stack((middle, highs), axis=1).ravel()
        first *= 2


def knots() -> Floats:
    """The distances in miles at which a decay is given."""
    smallest, per_octave, count = KNOT_OCTAVES
    return np.asarray(2.0 ** (smallest + np.arange(count) / per_octave))


def decay_from(distances: Floats, strengths: Floats) -> Floats:
    """A decay at the knots, from its values at some distances: straight lines in the logarithms of both."""
    if len(distances) != len(strengths) or (strengths <= 0).any():
        raise InputError("a decay needs one positive strength for each distance.")
    found = np.exp(np.interp(np.log(knots()), np.log(distances), np.log(strengths)))
    return np.asarray(found / found.max())


def default_decay() -> Floats:
    """Before anything is measured: halves about every 3 miles, with a long tail."""
    miles = knots()
    return np.asarray(np.exp(-miles / 6.0) + 0.002 / (1.0 + (miles / 40.0) ** 2))
