"""Matching on keys: expected, true and false match rates (after Reiter and Mitra 2009; Drechsler and Reiter 2008).

An intruder knows a person's keys and takes a synthetic record with the same keys for theirs. A synthetic record has no
true owner, so a match counts as true if the record also agrees with the person in everything else: then what the
intruder believes is so. Of c records with the person's keys m agree: the expected match rate is the mean of m / c, the
true match rate the share of people with c = m = 1, the false match rate the share of lone matches (c = 1) with m = 0.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.result import Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.records import Records
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of
from understudy.evaluation.shared.attack_success import Tally
from understudy.evaluation.shared.neighbours import cell_numbers
from understudy.evaluation.shared.results import frame


@attacks.add
class Matching:
    """People matched to synthetic records by equal keys, and whether the rest of the record is theirs too."""

    name: ClassVar[str] = "matching"
    summary: ClassVar[str] = "expected, true and false match rates on the keys"
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Take the only synthetic row with a person's known answers for theirs"
    believed_by: ClassVar[str] = "whoever knows the keys of a person and finds one row"
    of_one_person: ClassVar[bool] = True

    def run(self, comparison: Comparison) -> Section:
        if len(comparison.names) < 2:
            return section_of()
        rows: list[dict[str, Any]] = []

        def play(scene: Scene) -> dict[str, Tally]:
            real = scene.people is comparison.people and scene.tables is comparison.tables
            tallies = {}
            for number, copy in enumerate(scene.tables, start=1):
                c, m = match_counts(comparison, scene.people, copy)
                if real:
                    rows.append({"copy": number, **match_rates(c, m)})
                tallies[f"copy {number}"] = Tally(
                    successes=int(np.sum((c == 1) & (m == 1))), guesses=int(np.sum(c == 1)), asked=len(c)
                )
            return tallies

        outcomes = play_scenes(comparison, self.name, play)
        return section_of(outcomes=tuple(outcomes), frames={"match_rates": frame(rows)})


def match_counts(comparison: Comparison, people: Records, copy: Records) -> tuple[Floats, Floats]:
    """For each person: the synthetic records with their keys, and those of them that agree in everything."""
    shape = comparison.schema.shape()
    found = []
    for names in (comparison.matching_keys, comparison.names):
        (own, other), cells = cell_numbers([people.codes, copy.codes], comparison.columns(names), shape)
        found.append(np.bincount(other, minlength=cells)[own].astype(np.float64))
    return found[0], found[1]


def match_rates(c: Floats, m: Floats) -> dict[str, float | None]:
    """The three rates.

    >>> match_rates(np.array([1.0, 2.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0, 0.0]))
    {'expected_match_rate': 0.375, 'true_match_rate': 0.25, 'false_match_rate': 0.5}
    """
    lone = c == 1
    expected = np.divide(m, c, out=np.zeros_like(m), where=c > 0)
    return {
        "expected_match_rate": float(expected.mean()),
        "true_match_rate": float(np.mean(lone & (m == 1))),
        "false_match_rate": float(np.mean(m[lone] == 0)) if lone.any() else None,
    }
