"""Identity disclosure by a maximum-knowledge attacker: which synthetic records are clones of people (Ruiz et al.).

No synthetic record derives from one person, so a link is a likeness and has no truth to be found. A person is linked
when one synthetic record is nearest to them and they alone are nearest to it, in ranks over all attributes. Independent
attributes give such links too; the baseline says how many.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.result import Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of, side_of
from understudy.evaluation.shared.attack_success import Believed, Outcome, Tally, of_a_sample
from understudy.evaluation.shared.neighbours import distinct_rows
from understudy.evaluation.shared.rank_linking import CRITERIA, Links, link
from understudy.evaluation.shared.ranks import mid_rank_matrix, same_size
from understudy.evaluation.shared.results import frame

__all__ = ["CRITERIA", "Links", "RankLinkage", "link"]

MOST_PEOPLE = 20_000  # people who are linked, to any of the synthetic records
FEWER = 200  # people, for the minimum and in a refit
LOOKS = 2  # searches of all records: among synthetic ones, and back among people
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@attacks.add
class RankLinkage:
    """Clones: people and synthetic records that are each other's only nearest.

    By the sum, the maximum and the minimum of the differences of ranks and, if weights are given, by the weighted sum.
    """

    name: ClassVar[str] = "rank_linkage"
    summary: ClassVar[str] = "synthetic clones of people, by ranks over all attributes"
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Find a person's double among the synthetic rows"
    believed_by: ClassVar[str] = "whoever takes the double of a person for that person's own row"
    of_one_person: ClassVar[bool] = True

    def run(self, comparison: Comparison) -> Section:
        if comparison.whole is not None:
            return section_of(outcomes=_in_refit(comparison))
        rows: list[dict[str, Any]] = []
        outcomes = play_scenes(comparison, self.name, lambda scene: self._play(scene, comparison, rows), control=False)
        return section_of(outcomes=tuple(outcomes), frames={"rank_distances": frame(rows)})

    def _play(self, scene: Scene, comparison: Comparison, rows: list[dict[str, Any]]) -> dict[str, Tally]:
        people = mid_rank_matrix(comparison.in_rank_order(scene.people))
        chosen = comparison.affordable_people(
            len(people), MOST_PEOPLE, self.name, differences=LOOKS * people.size * len(scene.tables)
        )
        shared = distinct_rows(people)
        alone = int(np.sum(np.diff(shared.offsets)[shared.point_of[chosen]] == 1))
        tallies = {}
        for number, copy in enumerate(scene.tables, start=1):
            size = same_size(len(copy), len(people), comparison.seed)
            synthetic = mid_rank_matrix(comparison.in_rank_order(copy.take(size)))
            real = scene.tables is comparison.tables and scene.people is comparison.people
            for criterion in CRITERIA if comparison.rank_weights else CRITERIA[:-1]:
                if criterion == "minimum" and not real:
                    continue
                weights = comparison.rank_weights if criterion == CRITERIA[-1] else None
                asked = chosen
                if criterion == "minimum":  # its groups are large
                    asked = chosen[comparison.some_people(len(chosen), FEWER, criterion)]
                forth = link(people[asked], synthetic, criterion, weights=weights)
                doubles = _returned(forth, people, synthetic, criterion, chosen=asked, weights=weights)
                clones, rows_of = int(np.sum(doubles)), size[forth.single()[doubles]]
                alike = (copy.codes[rows_of] == scene.people.codes[asked[doubles]]).all(axis=1)
                if real:
                    told = _distances(forth, people.shape, criterion, sum(weights or (1,) * people.shape[1]))
                    shared_by = {
                        "people": len(asked),
                        "clones": clones / len(asked),
                        "linked_records": float(forth.sizes().mean()),
                    }
                    rows.append({"copy": number, "criterion": criterion, **shared_by, **told})
                if (
                    criterion == "minimum"
                ):  # it links nearly everybody to nearly everything: no attack, a line of a table
                    continue
                tallies[f"copy {number}, {criterion}"] = Tally(
                    successes=clones,
                    guesses=alone,
                    asked=len(chosen),
                    believed=Believed(made=clones, right=int(alike.sum()), people=len(chosen)),
                    note="; ".join(
                        filter(None, ("among people without a twin", of_a_sample(len(chosen), len(people))))
                    ),
                )
        return tallies


def _in_refit(comparison: Comparison) -> list[Outcome]:
    """Some people, kept or left out, who are doubles of a synthetic record among everybody, by the sum of differences.

    A refit may have fewer rows than there are people. Records that are taken twice would never be anybody's only
    nearest, so here ranks are stretched to the number of people.
    """
    everybody = mid_rank_matrix(comparison.in_rank_order(comparison.reference))
    shared = distinct_rows(everybody)
    asked = _asked(comparison, everybody.size)
    asked = asked[np.diff(shared.offsets)[shared.point_of[asked]] == 1]
    doubles: dict[str, Flags] = {}
    if not len(asked):  # everybody has a twin
        return []
    for number, copy in enumerate(comparison.tables, start=1):
        stretch = len(everybody) / len(copy)
        synthetic = (mid_rank_matrix(comparison.in_rank_order(copy)) - 0.5) * stretch + 0.5
        forth = link(everybody[asked], synthetic, CRITERIA[0])
        doubles[f"copy {number}, {CRITERIA[0]}"] = _returned(forth, everybody, synthetic, CRITERIA[0], chosen=asked)

    def play(scene: Scene) -> dict[str, Tally]:
        side = side_of(comparison, scene.people)[asked]
        return {
            subject: Tally(successes=int(np.sum(found[side])), guesses=int(np.sum(side)))
            for subject, found in doubles.items()
        }

    return play_scenes(comparison, RankLinkage.name, play)


def _asked(comparison: Comparison, values: int) -> Integers:
    """Few people in each of many refits; if people are compared once, as many of either side as time allows."""
    if not comparison.once:
        return comparison.some_people(len(comparison.reference), FEWER, "rank_linkage in refits")
    differences = 2 * LOOKS * values * len(comparison.tables)
    asked = []
    for people in (comparison.people, comparison.outsiders):
        assert people is not None  # noqa: S101 - both sides are there
        side = np.flatnonzero(side_of(comparison, people))
        chosen = comparison.affordable_people(len(side), MOST_PEOPLE, RankLinkage.name, differences=differences)
        asked.append(side[chosen])
    return np.concatenate(asked)


def mutual(people: Floats, synthetic: Floats, criterion: str = "sum", chosen: Integers | None = None) -> int:
    """How many (chosen) people have a single nearest synthetic record, and are its single nearest person."""
    chosen = np.arange(len(people)) if chosen is None else chosen
    return int(
        np.sum(_returned(link(people[chosen], synthetic, criterion), people, synthetic, criterion, chosen=chosen))
    )


def _returned(
    forth: Links,
    people: Floats,
    synthetic: Floats,
    criterion: str,
    *,
    chosen: Integers,
    weights: tuple[float, ...] | None = None,
) -> Flags:
    """Which of the chosen people are the only nearest person of their only nearest record."""
    nearest = forth.single()
    sure = nearest >= 0
    returned = np.zeros(len(chosen), bool)
    if sure.any():
        back = link(synthetic[nearest[sure]], people, criterion, weights=weights)
        returned[sure] = back.single() == chosen[sure]
    return returned


def _distances(links: Links, shape: tuple[int, ...], criterion: str, scale: float) -> dict[str, Any]:
    """Least rank distances as shares of the largest possible one."""
    most = (shape[0] - 1) * (1 if criterion in ("maximum", "minimum") else scale)
    shares = links.distances / most
    return {
        "exact": float(np.mean(links.distances == 0)),
        **{f"q{round(100 * q):02d}": float(np.quantile(shares, q)) for q in QUANTILES},
    }
