"""What a synthetic count tells about the real count of the same cell (Young, Graham and Penny 2009, in Charest 2010).

For every synthetic count: the median and quartiles of the real counts of the cells that have it. If they vary, the
synthetic count hides the real one. And of the cells that are empty in the synthetic table, the share that is empty in
the data: if it is near 100%, an empty synthetic cell tells that nobody is there.
"""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.result import Finding, Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.records import Records
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of, side_of
from understudy.evaluation.shared.attack_success import Believed, Outcome, Tally
from understudy.evaluation.shared.results import frame

LARGEST_COUNT = 10  # greater synthetic counts are taken together
SMALL = (1, 2)
MOST_CELLS = 2_000_000
WAYS = (2, 3)


@attacks.add
class CellCounts:
    """Real counts given synthetic counts over all two-way and three-way tables; small counts as guesses."""

    name: ClassVar[str] = "cell_counts"
    summary: ClassVar[str] = "what a synthetic count tells about the real one: medians, empty cells"
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Read off how many people are in a small group"
    believed_by: ClassVar[str] = "whoever takes synthetic counts for real ones"
    of_one_person: ClassVar[bool] = True

    def run(self, comparison: Comparison) -> Section:
        if comparison.whole is not None:
            return section_of(outcomes=_by_person(comparison))
        rows: list[dict[str, Any]] = []

        def play(scene: Scene) -> dict[str, Tally]:
            real = scene.people is comparison.people and scene.tables is comparison.tables
            tallies = {}
            for ways in WAYS:
                if ways > len(comparison.names):
                    continue
                for number, copy in enumerate(scene.tables, start=1):
                    d, s = tables(comparison, scene.people, copy, ways)
                    if real:
                        rows.extend({"ways": ways, "copy": number, **row} for row in real_given_synthetic(d, s))
                    small = np.isin(s, SMALL)
                    right, cells = int(np.sum(d[small] == s[small])), int(small.sum())
                    tallies[f"{ways}-way cells of 1 or 2, copy {number}"] = Tally(
                        successes=right, guesses=cells, believed=Believed(made=cells, right=right, people=0)
                    )
            return tallies

        outcomes = play_scenes(comparison, self.name, play, control=False)
        left_out = {ways: _left_out(comparison, ways) for ways in WAYS}
        empty = [row for row in rows if row["synthetic_count"] == "0"]
        findings = [
            Finding(
                code=f"risk.cell_counts.empty_{row['ways']}",
                title=(
                    f"of the {row['cells']:,} empty cells of synthetic {row['ways']}-way tables (copy {row['copy']}) "
                    f"{row['real_zero']:.1f}% are empty in the data"
                ),
                value=row["real_zero"],
                severity="info",
                reference="Young, Graham and Penny 2009, as reviewed by Charest 2010",
            )
            for row in empty
            if row["copy"] == 1
        ]
        findings += [
            Finding(
                code=f"risk.cell_counts.left_out_{ways}",
                title=f"{ways}-way tables left out: all of them together have more than {MOST_CELLS:,} cells",
                value=number,
            )
            for ways, number in left_out.items()
            if number
        ]
        return section_of(outcomes=tuple(outcomes), frames={"cell_counts": frame(rows)}, findings=tuple(findings))


def _by_person(comparison: Comparison) -> list[Outcome]:
    """In a refit: of the people in small groups, those whose group's size among everybody the synthetic table tells.

    Groups are those of two attributes. Who is in several small groups is asked about one of them, chosen at random.
    """
    everybody, shape = comparison.reference.codes, comparison.schema.shape()
    generator = comparison.generator("small groups")
    groups = np.zeros(len(everybody), np.int64)  # small groups of each person so far
    told = np.zeros((len(comparison.tables), len(everybody)), bool)
    for columns in _with_room(comparison, WAYS[0]):
        sizes = tuple(shape[column] for column in columns)
        cells = int(np.prod(sizes))
        group = np.ravel_multi_index(tuple(everybody[:, column] for column in columns), sizes)
        d = np.bincount(group, minlength=cells)
        small = np.flatnonzero(np.isin(d, SMALL)[group])
        groups[small] += 1
        chosen = small[generator.uniform(size=len(small)) * groups[small] < 1]  # each of k groups with chance 1 / k
        for number, copy in enumerate(comparison.tables):
            flat = np.ravel_multi_index(tuple(copy.codes[:, column] for column in columns), sizes)
            s = np.bincount(flat, minlength=cells)
            told[number, chosen] = (s == d)[group[chosen]]

    def play(scene: Scene) -> dict[str, Tally]:
        asked = side_of(comparison, scene.people) & (groups > 0)
        return {
            f"{WAYS[0]}-way cells of 1 or 2, copy {number}": Tally(
                successes=int(np.sum(right & asked)), guesses=int(asked.sum())
            )
            for number, right in enumerate(told, start=1)
        }

    return play_scenes(comparison, CellCounts.name, play)


def tables(comparison: Comparison, people: Records, copy: Records, ways: int) -> tuple[Integers, Integers]:
    """Counts of the possible cells of tables of that many attributes, one after the other, while there is room."""
    shape = comparison.schema.shape()
    d: list[Integers] = []
    s: list[Integers] = []
    for columns in _with_room(comparison, ways):
        sizes = tuple(shape[column] for column in columns)
        allowed = comparison.schema.allowed(tuple(comparison.names[column] for column in columns)).ravel()
        for counts, records in ((d, people), (s, copy)):
            flat = np.ravel_multi_index(tuple(records.codes[:, column] for column in columns), sizes)
            counts.append(np.bincount(flat, minlength=int(np.prod(sizes)))[allowed])
    empty = [np.zeros(0, np.int64)]
    return np.concatenate(d or empty), np.concatenate(s or empty)


def _not_public(comparison: Comparison, ways: int) -> list[tuple[int, ...]]:
    """All tables of so many attributes, but for those whose counts are public."""
    public = set(comparison.columns(comparison.public))
    return [columns for columns in combinations(range(len(comparison.names)), ways) if not public.issuperset(columns)]


def _with_room(comparison: Comparison, ways: int) -> list[tuple[int, ...]]:
    """The tables that are counted: each that still fits ``MOST_CELLS`` cells together with those before it."""
    shape = comparison.schema.shape()
    chosen, room = [], MOST_CELLS
    for columns in _not_public(comparison, ways):
        cells = prod(shape[column] for column in columns)
        if cells <= room:
            chosen.append(columns)
            room -= cells
    return chosen


def _left_out(comparison: Comparison, ways: int) -> int:
    return len(_not_public(comparison, ways)) - len(_with_room(comparison, ways))


def real_given_synthetic(d: Integers, s: Integers) -> list[dict[str, Any]]:
    """Median and quartiles of the real count, and the share of real zeros, for each synthetic count.

    >>> rows = real_given_synthetic(np.array([0, 0, 3, 1, 2]), np.array([0, 0, 0, 1, 1]))
    >>> [(r["synthetic_count"], r["cells"], r["median"], round(r["real_zero"], 1)) for r in rows]
    [('0', 3, 0.0, 66.7), ('1', 2, 1.5, 0.0)]
    """
    kept = np.minimum(s, LARGEST_COUNT)
    rows = []
    for count in np.unique(kept):
        real = d[kept == count]
        q1, median, q3 = np.quantile(real, (0.25, 0.5, 0.75))
        rows.append(
            {
                "synthetic_count": f"{count}" + (" or more" if count == LARGEST_COUNT else ""),
                "cells": len(real),
                "median": float(median),
                "q1": float(q1),
                "q3": float(q3),
                "real_zero": 100 * float(np.mean(real == 0)),
            }
        )
    return rows
