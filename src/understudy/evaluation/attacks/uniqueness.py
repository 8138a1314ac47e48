"""Replicated uniques: people alone in their cell of the data, whose cell has one synthetic record (Raab 2022).

repU = 100 #{d = 1 and s = 1} / n, over all attributes or over the keys an intruder may know. UiO and UiS are the
percentages of records that are unique in the original and in the synthetic table.
"""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Floats, Integers
from understudy.core.result import Finding, Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of
from understudy.evaluation.shared.attack_success import Believed, Tally
from understudy.evaluation.shared.neighbours import cell_numbers
from understudy.evaluation.shared.results import frame

MOST_KEY_SETS = 200
SHOWN_RECORDS = 1000


def key_sets(names: tuple[str, ...], keys: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All attributes, the keys, and sets of up to three of them, smaller first, as many as there is time for.

    >>> key_sets(("a", "b", "c"), ("a", "b"))
    [('a', 'b', 'c'), ('a', 'b'), ('a',), ('b',)]
    """
    pool = keys or names
    small = [chosen for size in (1, 2, 3) for chosen in combinations(pool, size)]
    listed = [names, *([keys] if keys else []), *small]
    return list(dict.fromkeys(listed))[: MOST_KEY_SETS + 1]


@attacks.add
class Uniqueness:
    """Uniques of the data that a release replicates, over all attributes, chosen keys and small key sets."""

    name: ClassVar[str] = "uniqueness"
    summary: ClassVar[str] = "unique people whose cell holds exactly one synthetic record (replicated uniques)"
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Find somebody who is alone in the data and alone among the synthetic rows"
    believed_by: ClassVar[str] = "whoever finds one synthetic row like a person and thinks nobody else is like them"
    of_one_person: ClassVar[bool] = True

    def run(self, comparison: Comparison) -> Section:
        outcomes = []
        known = set(comparison.keys) <= set(comparison.public)  # how many people share public keys is known
        for keys in [comparison.names] + ([] if known else [comparison.keys]):
            label = "all attributes" if keys == comparison.names else " x ".join(keys)
            outcomes += play_scenes(comparison, self.name, partial(_play, comparison, keys, label))
        if comparison.whole is not None:
            return section_of(outcomes=tuple(outcomes))
        rows = []
        for keys in key_sets(comparison.names, comparison.keys):
            for number, (copy, null) in enumerate(
                zip(comparison.tables, comparison.independent_tables, strict=True), start=1
            ):
                d, s, own = _counts(comparison, copy.codes, keys)
                d_null, s_null, own_null = _counts(comparison, null.codes, keys)
                rows.append({
                    "keys": " x ".join(keys), "key_count": len(keys), "copy": number,
                    **uniqueness(d, own, s),
                    "repU_null": uniqueness(d_null, own_null, s_null)["repU"],
                })  # fmt: skip
        hit = _replicated(comparison, comparison.names)
        return section_of(
            outcomes=tuple(outcomes),
            frames={
                "uniqueness": frame(rows),
                "records_at_risk": pa.table(
                    {"record": np.flatnonzero(hit)[:SHOWN_RECORDS], "copies": hit[hit > 0][:SHOWN_RECORDS]}
                ),
                "levels_at_risk": _levels(comparison, hit > 0),
            },
            findings=tuple(_findings(comparison, rows)),
        )


def uniqueness(d: Integers, people: Integers, s: Integers) -> dict[str, float]:
    """UiO, UiS and repU from the counts of all cells and the cell of each person.

    >>> uniqueness(np.array([1, 2, 1]), np.array([0, 1, 1, 2]), np.array([1, 0, 3]))
    {'UiO': 50.0, 'UiS': 25.0, 'repU': 25.0}
    """
    mine, theirs = d[people], s[people]
    return {
        "UiO": 100 * float(np.sum(mine == 1)) / len(people),
        "UiS": 100 * float(np.sum(s == 1)) / max(int(s.sum()), 1),
        "repU": 100 * float(np.sum((mine == 1) & (theirs == 1))) / len(people),
    }


def _counts(comparison: Comparison, synthetic: Integers, keys: tuple[str, ...]) -> tuple[Integers, Integers, Integers]:
    columns = comparison.columns(keys)
    (people, others), cells = cell_numbers([comparison.people.codes, synthetic], columns, comparison.schema.shape())
    return np.bincount(people, minlength=cells), np.bincount(others, minlength=cells), people


def _play(comparison: Comparison, keys: tuple[str, ...], label: str, scene: Scene) -> dict[str, Tally]:
    """Among unique people (of the holdout: those who would be unique in the data), whose cell has one record.

    In a refit unique people are those who are unique among everybody, kept or left out.
    """
    columns, shape = comparison.columns(keys), comparison.schema.shape()
    counted = scene.people is comparison.people or comparison.whole is not None
    tallies = {}
    for number, copy in enumerate(scene.tables, start=1):
        (data, people, others), cells = cell_numbers(
            [comparison.reference.codes, scene.people.codes, copy.codes], columns, shape
        )
        d, s = np.bincount(data, minlength=cells), np.bincount(others, minlength=cells)
        unique = d[people] == (1 if counted else 0)
        right = int(np.sum(s[people[unique]] == 1))
        tallies[f"{label}, copy {number}"] = Tally(
            successes=right,
            guesses=int(unique.sum()),
            note="among unique people",
            believed=Believed(made=int(np.sum(s[people] == 1)), right=right, people=len(people)),
        )
    return tallies


def _replicated(comparison: Comparison, keys: tuple[str, ...]) -> Integers:
    """In how many copies each record is a replicated unique."""
    total = np.zeros(len(comparison.people), np.int64)
    for copy in comparison.tables:
        d, s, own = _counts(comparison, copy.codes, keys)
        total += (d[own] == 1) & (s[own] == 1)
    return total


def _levels(comparison: Comparison, at_risk: Any) -> pa.Table:
    """Which levels carry the risk: the share of each level's people who are replicated uniques."""
    rows = []
    for place, attribute in enumerate(comparison.schema.attributes):
        codes = comparison.people.codes[:, place]
        people = np.bincount(codes, minlength=attribute.size)
        risky = np.bincount(codes[at_risk], minlength=attribute.size)
        shares: Floats = risky / np.maximum(people, 1)
        rows += [
            {
                "attribute": attribute.name,
                "level": level,
                "people": int(people[code]),
                "replicated_uniques": int(risky[code]),
                "share": float(shares[code]),
            }
            for code, level in enumerate(attribute.code_names)
            if people[code]
        ]
    return frame(rows)


def _findings(comparison: Comparison, rows: list[dict[str, Any]]) -> list[Finding]:
    whole = [row for row in rows if row["key_count"] == len(comparison.names)]
    mean = float(np.mean([row["repU"] for row in whole]))
    chance = float(np.mean([row["repU_null"] for row in whole]))
    found = [
        Finding(
            code="risk.uniqueness.repU",
            title=(
                f"{mean:.2f}% of the people are replicated uniques over all attributes; independent attributes give "
                f"{chance:.2f}%"
            ),
            value=mean,
            severity="info",
            reference="Raab 2022, section 4 (per record, not per cell)",
        )
    ]
    own = [row for row in rows if comparison.keys and row["keys"] == " x ".join(comparison.keys)]
    if own and own[0]["UiO"] == 100:
        found.append(
            Finding(
                code="risk.uniqueness.keys",
                title=(
                    "the keys are different for every person: whoever knows them all has a name already, and "
                    "attribution by equal keys finds exact copies only"
                ),
                value=100.0,
                severity="warning",
            )
        )
    return found
