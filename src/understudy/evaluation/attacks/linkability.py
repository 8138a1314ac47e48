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
from understudy.core.result import Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.records import Records
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of
from understudy.evaluation.shared.attack_success import Believed, Tally
from understudy.evaluation.shared.neighbours import Neighbours

PEOPLE = 1000


@attacks.add
class Linkability:
    """People whose two halves lead to the same synthetic record."""

    name: ClassVar[str] = "linkability"
    summary: ClassVar[str] = "two halves of a person's attributes joined through a synthetic record"
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Join two files about the same person through a synthetic row"
    believed_by: ClassVar[str] = "whoever has two files without names"
    of_one_person: ClassVar[bool] = True

    def run(self, comparison: Comparison) -> Section:
        if len(comparison.names) < 2:
            return section_of()
        one, other = halves(comparison)

        def play(scene: Scene) -> dict[str, Tally]:
            people = scene.people.take(comparison.some_people(len(scene.people), PEOPLE, "linkability"))
            tallies = {}
            for number, copy in enumerate(scene.tables, start=1):
                found, partner = joined(comparison, people, copy, one, other)
                claims = Believed(
                    made=int(np.sum(partner >= 0)),
                    right=int(np.sum(partner == np.arange(len(people)))),
                    people=len(people),
                )
                tallies[f"copy {number}"] = Tally(successes=int(found.sum()), guesses=len(people), believed=claims)
            return tallies

        return section_of(outcomes=tuple(play_scenes(comparison, self.name, play)))


def halves(comparison: Comparison) -> tuple[list[int], list[int]]:
    """The keys and the rest; without keys, every other attribute."""
    if comparison.keys and set(comparison.keys) != set(comparison.names):
        return comparison.columns(comparison.keys), comparison.columns(
            tuple(n for n in comparison.names if n not in comparison.keys)
        )
    columns = list(range(len(comparison.names)))
    return columns[::2], columns[1::2]


def joined(
    comparison: Comparison, people: Records, copy: Records, one: list[int], other: list[int]
) -> tuple[Flags, Integers]:
    """Whether the nearest records of either half have one in common; and the person whom an intruder joins to each.

    An intruder joins one half of a person to the other half of whoever shares a nearest record with it, if that is one
    person only; -1: nobody, or several.
    """
    groups = [_nearest_points(comparison, people, copy, columns) for columns in (one, other)]
    (tree_one, sets_one), (tree_other, sets_other) = groups
    first, last = np.full(len(tree_other.records.offsets), len(people)), np.full(len(tree_other.records.offsets), -1)
    for person, points in enumerate(sets_other):
        first[points], last[points] = np.minimum(first[points], person), person
    found, partner = np.zeros(len(people), bool), np.full(len(people), -1)
    for person in range(len(people)):
        where = tree_one.records.offsets
        records = np.concatenate([tree_one.records.records[where[p] : where[p + 1]] for p in sets_one[person]])
        reached = tree_other.records.point_of[records]
        found[person] = bool(np.isin(reached, sets_other[person]).any())
        if first[reached].min() == last[reached].max():
            partner[person] = last[reached].max()
    return found, partner


def _nearest_points(
    comparison: Comparison, people: Records, copy: Records, columns: list[int]
) -> tuple[Neighbours, list[Integers]]:
    tree = Neighbours(
        copy.positions[:, columns], nominal=comparison.nominal(columns), weights=comparison.spans(columns)
    )
    groups = tree.nearest(people.positions[:, columns])
    sets: list[Integers] = []
    for _, offsets, members in tree.chunks(groups):
        sets += [members[start:stop] for start, stop in pairwise(offsets)]
    return tree, [sets[point] for point in groups.queries.point_of]
