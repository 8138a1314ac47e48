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
KNOT_OCTAVES = (-5, 8, 144)  # smallest octave, knots per octave, knots: as in gravity_compiled


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GravityTree:
    """Places in the order of a tree of halves, with what each node weighs and where its centre lies.

    A place weighs its public mass, or what ``weighted`` says. Homes outside are not in the tree.
    """

    places: Places
    known: InitVar[tuple[GravityTree, Floats] | None] = None  # the same places, and other masses by position
    order: NDArray[np.int32] = field(init=False)  # code of the place at each position
    rank: NDArray[np.int32] = field(init=False)  # position of each place, -1 outside
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
            if self.places.outside is None:
                order = build_order(points)
            else:
                inside = np.flatnonzero(self.places.inside).astype(np.int32)
                order = inside[build_order(points[inside])]
            rank = np.full(len(points), -1, dtype=np.int32)
            rank[order] = np.arange(len(order), dtype=np.int32)
            values = {"order": order, "rank": rank, "points": points[order], "mass": self.places.mass[order]}
        else:  # where the places lie is shared, not copied
            same, mass = known
            values = {"order": same.order, "rank": same.rank, "points": same.points, "mass": mass}
        values["sums"] = np.concatenate(([0.0], np.cumsum(values["mass"])))
        for name, value in values.items():
            object.__setattr__(self, name, value)
        depth = max(1, int(np.ceil(np.log2(max(len(self.order) / loops.LEAF, 1)))) + 1)
        object.__setattr__(self, "nodes", loops.node_centres(self.points, self.mass, depth))

    def weighted(self, mass: Floats) -> GravityTree:
        """The same places with other masses, given by position."""
        return GravityTree(self.places, (self, mass))

    def __repr__(self) -> str:
        return f"GravityTree({len(self.order):,} places)"


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
