"""Identity disclosure by a maximum-knowledge attacker: which synthetic records are clones of people (Ruiz et al.).

No synthetic record derives from one person, so a link is not a truth to be found but a likeness. A person is linked
when one synthetic record is nearest to them and they alone are nearest to it, in ranks over all attributes. Independent
attributes give such links too; the baseline says how many.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from understudy.risk.base import Found, Material, Scene, attacks, columns_of
from understudy.risk.linking import CRITERIA, Links, link
from understudy.risk.ranks import mid_rank_matrix, same_size
from understudy.risk.success import Tally

__all__ = ["CRITERIA", "Links", "RankLinkage", "link"]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@attacks.add
class RankLinkage:
    """Clones: people and synthetic records that are each other's only nearest, by the sum and the maximum criterion."""

    name: ClassVar[str] = "rank_linkage"
    summary: ClassVar[str] = "synthetic clones of people, by ranks over all attributes"
    needs: ClassVar[tuple[str, ...]] = ()

    def run(self, material: Material) -> Found:
        rows: list[dict[str, Any]] = []
        outcomes = material.play(self.name, lambda scene: self._play(scene, material, rows))
        return Found(outcomes=tuple(outcomes), frames={"rank_distances": columns_of(rows)})

    def _play(self, scene: Scene, material: Material, rows: list[dict[str, Any]]) -> dict[str, Tally]:
        people = mid_rank_matrix(scene.people.positions)
        tallies = {}
        for number, copy in enumerate(scene.copies, start=1):
            size = same_size(len(copy), len(people), material.seed)
            synthetic = mid_rank_matrix(copy.positions[size])
            for criterion in ("sum", "maximum"):
                forth = link(people, synthetic, criterion)
                clones = mutual(forth, link(synthetic, people, criterion))
                if scene.copies is material.copies and scene.people is material.original:
                    rows.append(_distances(forth, number, criterion, people.shape[1]))
                alone = int(np.sum(np.diff(forth.original.offsets) == 1))
                tallies[f"copy {number}, {criterion}"] = Tally(
                    successes=clones, guesses=alone, asked=len(people), note="among people without a twin in the data"
                )
        return tallies


def mutual(forth: Links, back: Links) -> int:
    """How many original records have one nearest synthetic record whose one nearest original record they are."""
    single = np.flatnonzero(np.diff(forth.original.offsets) == 1)  # vectors with a single record on them
    lone = forth.sizes() == 1
    lone_back = back.sizes() == 1
    if forth._tree is None or forth._groups is None:
        return sum(
            bool(lone[i] and lone_back[j := forth.of(i)[0]] and back.of(int(j))[0] == i) for i in range(len(lone))
        )
    target = np.full(len(forth.by_vector), -1, np.int64)
    chosen = single[lone[forth.original.records[forth.original.offsets[single]]]]
    if len(chosen):
        target[chosen] = forth._tree.members(forth._groups, chosen)[1]
    count = 0
    # A synthetic vector with one record, nearest to one original vector only, whose nearest is that vector again.
    assert back._tree is not None and back._groups is not None  # noqa: S101, PT018 - the same criterion made it
    points = target[chosen]
    records = forth.synthetic.records[forth.synthetic.offsets[points]] if len(points) else points
    good = lone_back[records] if len(records) else np.zeros(0, bool)
    if good.any():
        vectors = back.original.point_of[records[good]]
        nearest = back._tree.members(back._groups, vectors)[1]
        count = int(np.sum(nearest == chosen[good]))
    return count


def _distances(links: Links, copy: int, criterion: str, attributes: int) -> dict[str, Any]:
    """Least rank distances as shares of the largest possible one."""
    most = (len(links.vector_of) - 1) * (attributes if criterion == "sum" else 1)
    shares = links.distances / most
    return {
        "copy": copy,
        "criterion": criterion,
        "exact": float(np.mean(links.distances == 0)),
        **{f"q{round(100 * q):02d}": float(np.quantile(shares, q)) for q in QUANTILES},
    }
