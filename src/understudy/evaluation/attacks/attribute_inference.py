"""Attribute inference: a target guessed from the synthetic records nearest in what is known (after Giomi et al. 2023).

All copies together, Gower distance, every tie counted; the guess is the value most of the nearest records have. A
guess is right if it falls into the same level or bin. The control tells apart what the release says about everybody
(which is what it is for) from what it says about the people in the data.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Flags, Integers
from understudy.evaluation.shared.attack import Found, Material, Scene, attacks, columns_of
from understudy.evaluation.shared.neighbours import Neighbours
from understudy.evaluation.shared.success import Tally, independent_guesses

PEOPLE = 2000


@attacks.add
class AttributeInference:
    """Each target guessed for some people, and how often the level or bin is right."""

    name: ClassVar[str] = "attribute_inference"
    summary: ClassVar[str] = "a target guessed from the nearest synthetic records of all copies"
    needs: ClassVar[tuple[str, ...]] = ()

    def run(self, material: Material) -> Found:
        rows: list[dict[str, Any]] = []

        def play(scene: Scene) -> dict[str, Tally]:
            people = material.sample(len(scene.people), PEOPLE, "attribute_inference")
            tallies = {}
            for target in material.attacked:
                if not material.known(target):
                    continue
                guess, agreed, worth = infer(material, scene, target, people)
                truth = scene.people.codes[people, material.names.index(target)]
                right = guess == truth
                tallies[target] = Tally(
                    successes=int(right.sum()), guesses=len(people), asked=PEOPLE, independent=worth
                )
                if scene.people is material.original and scene.copies is material.copies:
                    column = np.concatenate([copy.codes[:, material.names.index(target)] for copy in scene.copies])
                    commonest = int(np.bincount(column).argmax())
                    rows.append({
                        "target": target, "people": len(people), "right": int(right.sum()),
                        "sure_and_right": int(np.sum(right & agreed)), "sure_and_wrong": int(np.sum(~right & agreed)),
                        "guess_of_commonest": float(np.mean(truth == commonest)),
                    })  # fmt: skip
            return tallies

        outcomes = material.play(self.name, play)
        return Found(outcomes=tuple(outcomes), frames={"attribute_inference": columns_of(rows)})


def infer(material: Material, scene: Scene, target: str, people: Integers) -> tuple[Integers, Flags, float]:
    """The guessed code of each person, whether all their nearest records agree on it, and what the guesses are worth.

    People whose nearest records are the same are told the same.
    """
    known, column = material.columns(material.known(target)), material.names.index(target)
    positions = np.concatenate([copy.positions for copy in scene.copies])
    codes = np.concatenate([copy.codes[:, column] for copy in scene.copies])
    tree = Neighbours(positions[:, known], nominal=material.nominal(known), weights=material.spans(known))
    groups = tree.nearest(scene.people.positions[people][:, known])
    found = tree.summaries(groups, codes.astype(np.float64), codes, material.schema.shape()[column])
    worth = independent_guesses(np.bincount(found.first))
    return found.table.argmax(axis=1), (found.table > 0).sum(axis=1) == 1, worth
