"""Attribute inference: a target guessed from the synthetic records nearest in what is known (after Giomi et al. 2023).

All copies are used together, with Gower distance and every tie. The guess is the value that most of the nearest records
have. A guess is right if it falls into the same level or bin. The control separates what the release says about
everybody (which is its purpose) from what it says about the people in the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from understudy.core.arrays import Flags, Integers
from understudy.core.result import Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of
from understudy.evaluation.shared.attack_success import DECIDED, Believed, Tally, independent_guesses, of_a_sample
from understudy.evaluation.shared.neighbours import nearest_without_each
from understudy.evaluation.shared.results import frame

PEOPLE = 2000


@attacks.add
class AttributeInference:
    """Each target guessed for some people, and how often the level or bin is right."""

    name: ClassVar[str] = "attribute_inference"
    summary: ClassVar[str] = "a target guessed from the nearest synthetic records of all copies"
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Guess a missing answer from the most similar synthetic rows"
    believed_by: ClassVar[str] = "whoever knows the other answers of a person and trusts the most similar rows"
    of_one_person: ClassVar[bool] = True
    guesses_an_answer: ClassVar[bool] = True

    def run(self, comparison: Comparison) -> Section:
        rows: list[dict[str, Any]] = []
        targets = [target for target in comparison.attacked if comparison.known(target)]

        def play(scene: Scene) -> dict[str, Tally]:
            chosen = comparison.affordable_people(
                len(scene.people), PEOPLE, self.name, differences=sum(map(len, scene.tables)) * len(comparison.names)
            )
            tallies = {}
            for target, told in infer(comparison, scene, targets, chosen).items():
                if not len(told.people):
                    tallies[target] = Tally(successes=0, guesses=0, asked=0, note=DECIDED)
                    continue
                truth = scene.people.codes[told.people, comparison.names.index(target)]
                right, agreed = told.guess == truth, told.agreed
                tallies[target] = Tally(
                    successes=int(right.sum()),
                    guesses=len(right),
                    independent=told.worth,
                    believed=Believed(made=int(agreed.sum()), right=int(np.sum(right & agreed)), people=len(right)),
                    note=of_a_sample(len(right), len(scene.people)),
                )
                if scene.people is comparison.people and scene.tables is comparison.tables:
                    column = np.concatenate([copy.codes[:, comparison.names.index(target)] for copy in scene.tables])
                    commonest = int(np.bincount(column).argmax())
                    rows.append({
                        "target": target, "people": len(right), "right": int(right.sum()),
                        "sure_and_right": int(np.sum(right & agreed)), "sure_and_wrong": int(np.sum(~right & agreed)),
                        "guess_of_commonest": float(np.mean(truth == commonest)),
                    })  # fmt: skip
            return tallies

        outcomes = play_scenes(comparison, self.name, play) if targets else []
        return section_of(outcomes=tuple(outcomes), frames={"attribute_inference": frame(rows)})


class Told(NamedTuple):
    """What the nearest records say of one target."""

    people: Integers  # for whom the public schema leaves the target open
    guess: Integers  # the code most of the nearest records have
    agreed: Flags  # whether all of them have it
    worth: float  # effective number of guesses: people with the same nearest records get the same guess


def infer(comparison: Comparison, scene: Scene, targets: Sequence[str], people: Integers) -> dict[str, Told]:
    """Each target guessed for some people, from the records nearest in everything known except the target."""
    columns = comparison.columns(tuple(targets))
    everything = list(range(len(comparison.names)))
    known = {name for target in targets for name in comparison.known(target)}
    spans = comparison.spans(everything)
    weights = np.where([name in known or not comparison.keys for name in comparison.names], spans, -1.0)
    codes = np.concatenate([copy.codes for copy in scene.tables])[:, columns]
    found = nearest_without_each(
        np.concatenate([copy.positions for copy in scene.tables]),
        scene.people.positions[people],
        columns,
        ranks=codes.astype(np.float64),
        codes=codes,
        levels=[comparison.schema.shape()[column] for column in columns],
        nominal=comparison.nominal(everything),
        weights=weights,
    )
    told = {}
    for target, near in zip(targets, found, strict=True):
        asked = comparison.undecided(scene.people.take(people), target)
        table = near.table[asked]
        worth = independent_guesses(np.bincount(near.first[asked]))
        told[target] = Told(people[asked], table.argmax(axis=1), (table > 0).sum(axis=1) == 1, worth)
    return told
