"""Linkability: two files about the same people, with different attributes, joined through the synthetic table.

The intruder has one part of a person's attributes from one place and another part from elsewhere. For either part the
nearest synthetic records are looked up (Gower distance, all ties); the two parts are joined if they share a synthetic
record (after Giomi et al. 2023, with one neighbour).
"""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import numpy as np

from understudy.core.arrays import Flags, Integers
from understudy.evaluation.shared.attack import Found, Material, Records, Scene, attacks
from understudy.evaluation.shared.neighbours import Neighbours
from understudy.evaluation.shared.success import Tally

PEOPLE = 1000


@attacks.add
class Linkability:
    """People whose two halves lead to the same synthetic record."""

    name: ClassVar[str] = "linkability"
    summary: ClassVar[str] = "two halves of a person's attributes joined through a synthetic record"
    needs: ClassVar[tuple[str, ...]] = ()

    def run(self, material: Material) -> Found:
        if len(material.names) < 2:
            return Found()
        one, other = halves(material)

        def play(scene: Scene) -> dict[str, Tally]:
            people = scene.people.take(material.sample(len(scene.people), PEOPLE, "linkability"))
            return {
                f"copy {number}": Tally(
                    successes=int(joined(material, people, copy, one, other).sum()), guesses=len(people), asked=PEOPLE
                )
                for number, copy in enumerate(scene.copies, start=1)
            }

        return Found(outcomes=tuple(material.play(self.name, play)))


def halves(material: Material) -> tuple[list[int], list[int]]:
    """The keys and the rest; without keys, every other attribute."""
    if material.keys and set(material.keys) != set(material.names):
        return material.columns(material.keys), material.columns(
            tuple(n for n in material.names if n not in material.keys)
        )
    columns = list(range(len(material.names)))
    return columns[::2], columns[1::2]


def joined(material: Material, people: Records, copy: Records, one: list[int], other: list[int]) -> Flags:
    """Whether the nearest records of either half have one in common."""
    groups = [_nearest_points(material, people, copy, columns) for columns in (one, other)]
    (tree_one, sets_one), (tree_other, sets_other) = groups
    found = np.zeros(len(people), bool)
    for person in range(len(people)):
        where = tree_one.records.offsets
        records = np.concatenate([tree_one.records.records[where[p] : where[p + 1]] for p in sets_one[person]])
        found[person] = bool(np.isin(tree_other.records.point_of[records], sets_other[person]).any())
    return found


def _nearest_points(
    material: Material, people: Records, copy: Records, columns: list[int]
) -> tuple[Neighbours, list[Integers]]:
    tree = Neighbours(copy.positions[:, columns], nominal=material.nominal(columns), weights=material.spans(columns))
    groups = tree.nearest(people.positions[:, columns])
    sets: list[Integers] = []
    for _, offsets, members in tree.chunks(groups):
        sets += [members[start:stop] for start, stop in pairwise(offsets)]
    return tree, [sets[point] for point in groups.queries.point_of]
