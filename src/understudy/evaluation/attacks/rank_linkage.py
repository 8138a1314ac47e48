"""Identity disclosure by a maximum-knowledge attacker: which synthetic records are clones of people (Ruiz et al.).

No synthetic record derives from one person, so a link is not a truth to be found but a likeness. A person is linked
when one synthetic record is nearest to them and they alone are nearest to it, in ranks over all attributes. Independent
attributes give such links too; the baseline says how many.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.result import Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of
from understudy.evaluation.shared.attack_success import Tally
from understudy.evaluation.shared.neighbours import distinct_rows
from understudy.evaluation.shared.rank_linking import CRITERIA, Links, link
from understudy.evaluation.shared.ranks import mid_rank_matrix, same_size
from understudy.evaluation.shared.results import frame

__all__ = ["CRITERIA", "Links", "RankLinkage", "link"]

MOST_PEOPLE = 100_000  # who are linked, among all synthetic records
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@attacks.add
class RankLinkage:
    """Clones: people and synthetic records that are each other's only nearest, by the sum and the maximum criterion."""

    name: ClassVar[str] = "rank_linkage"
    summary: ClassVar[str] = "synthetic clones of people, by ranks over all attributes"
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Find a person's double among the synthetic rows"

    def run(self, comparison: Comparison) -> Section:
        rows: list[dict[str, Any]] = []
        outcomes = play_scenes(comparison, self.name, lambda scene: self._play(scene, comparison, rows))
        return section_of(outcomes=tuple(outcomes), frames={"rank_distances": frame(rows)})

    def _play(self, scene: Scene, comparison: Comparison, rows: list[dict[str, Any]]) -> dict[str, Tally]:
        people = mid_rank_matrix(scene.people.positions)
        chosen = comparison.some_people(len(people), MOST_PEOPLE, self.name)
        shared = distinct_rows(people)
        alone = int(np.sum(np.diff(shared.offsets)[shared.point_of[chosen]] == 1))
        tallies = {}
        for number, copy in enumerate(scene.tables, start=1):
            size = same_size(len(copy), len(people), comparison.seed)
            synthetic = mid_rank_matrix(copy.positions[size])
            for criterion in ("sum", "maximum"):
                forth = link(people[chosen], synthetic, criterion)
                if scene.tables is comparison.tables and scene.people is comparison.people:
                    rows.append(_distances(forth, number, criterion, people.shape))
                tallies[f"copy {number}, {criterion}"] = Tally(
                    successes=_returned(forth, people, synthetic, criterion, chosen),
                    guesses=alone,
                    asked=len(chosen),
                    note="among people without a twin in the data",
                )
        return tallies


def mutual(people: Floats, synthetic: Floats, criterion: str = "sum", chosen: Integers | None = None) -> int:
    """How many of the (chosen) people have one nearest synthetic record whose one nearest person they are."""
    chosen = np.arange(len(people)) if chosen is None else chosen
    return _returned(link(people[chosen], synthetic, criterion), people, synthetic, criterion, chosen)


def _returned(forth: Links, people: Floats, synthetic: Floats, criterion: str, chosen: Integers) -> int:
    nearest = forth.single()
    sure = nearest >= 0
    if not sure.any():
        return 0
    back = link(synthetic[nearest[sure]], people, criterion)
    return int(np.sum(back.single() == chosen[sure]))


def _distances(links: Links, copy: int, criterion: str, shape: tuple[int, ...]) -> dict[str, Any]:
    """Least rank distances as shares of the largest possible one."""
    most = (shape[0] - 1) * (shape[1] if criterion == "sum" else 1)
    shares = links.distances / most
    return {
        "copy": copy,
        "criterion": criterion,
        "exact": float(np.mean(links.distances == 0)),
        **{f"q{round(100 * q):02d}": float(np.quantile(shares, q)) for q in QUANTILES},
    }
