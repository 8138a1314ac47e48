"""Attribute inference: a target guessed from the synthetic records nearest in what is known (after Giomi et al. 2023).

All copies together, Gower distance, every tie counted; the guess is the value most of the nearest records have. A
guess is right if it falls into the same level or bin. The control tells apart what the release says about everybody
(which is what it is for) from what it says about the people in the data.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Flags, Integers
from understudy.core.result import Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of
from understudy.evaluation.shared.attack_success import DECIDED, Tally, independent_guesses
from understudy.evaluation.shared.neighbours import Neighbours
from understudy.evaluation.shared.results import frame

PEOPLE = 2000


@attacks.add
class AttributeInference:
    """Each target guessed for some people, and how often the level or bin is right."""

    name: ClassVar[str] = "attribute_inference"
    summary: ClassVar[str] = "a target guessed from the nearest synthetic records of all copies"
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Guess a missing answer from the most similar synthetic rows"
    of_one_person: ClassVar[bool] = True

    def run(self, comparison: Comparison) -> Section:
        rows: list[dict[str, Any]] = []

        def play(scene: Scene) -> dict[str, Tally]:
            chosen = comparison.some_people(len(scene.people), PEOPLE, "attribute_inference")
            tallies = {}
            for target in comparison.attacked:
                if not comparison.known(target):
                    continue
                people = chosen[comparison.undecided(scene.people.take(chosen), target)]
                if not len(people):
                    tallies[target] = Tally(successes=0, guesses=0, asked=0, note=DECIDED)
                    continue
                guess, agreed, worth = infer(comparison, scene, target, people)
                truth = scene.people.codes[people, comparison.names.index(target)]
                right = guess == truth
                tallies[target] = Tally(successes=int(right.sum()), guesses=len(people), independent=worth)
                if scene.people is comparison.people and scene.tables is comparison.tables:
                    column = np.concatenate([copy.codes[:, comparison.names.index(target)] for copy in scene.tables])
                    commonest = int(np.bincount(column).argmax())
                    rows.append({
                        "target": target, "people": len(people), "right": int(right.sum()),
                        "sure_and_right": int(np.sum(right & agreed)), "sure_and_wrong": int(np.sum(~right & agreed)),
                        "guess_of_commonest": float(np.mean(truth == commonest)),
                    })  # fmt: skip
            return tallies

        outcomes = play_scenes(comparison, self.name, play)
        return section_of(outcomes=tuple(outcomes), frames={"attribute_inference": frame(rows)})


def infer(comparison: Comparison, scene: Scene, target: str, people: Integers) -> tuple[Integers, Flags, float]:
    """The guessed code of each person, whether all their nearest records agree on it, and what the guesses are worth.

    People whose nearest records are the same are told the same.
    """
    known, column = comparison.columns(comparison.known(target)), comparison.names.index(target)
    positions = np.concatenate([copy.positions for copy in scene.tables])
    codes = np.concatenate([copy.codes[:, column] for copy in scene.tables])
    tree = Neighbours(positions[:, known], nominal=comparison.nominal(known), weights=comparison.spans(known))
    groups = tree.nearest(scene.people.positions[people][:, known])
    found = tree.summaries(groups, codes.astype(np.float64), codes, comparison.schema.shape()[column])
    worth = independent_guesses(np.bincount(found.first))
    return found.table.argmax(axis=1), (found.table > 0).sum(axis=1) == 1, worth
