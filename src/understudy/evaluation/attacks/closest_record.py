"""Distance to the closest synthetic record, for all people, and separately for those who stand out.

Two numbers per person: the distance to the closest synthetic record, and its ratio to the distance to the second
closest. A person is *closer than company* if a synthetic record is nearer to them than any other person in the data
(Gower distance). With a holdout: copies of the data lie nearer to the people in it than to people who are not.
Exact copies are looked for among all people, since a sample hides them. Distances are those of a random sample where
there are many people. Outliers, the people farthest from company, leak first.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.result import Finding, Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.records import Records
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of
from understudy.evaluation.shared.attack_success import Believed, Tally, of_a_sample
from understudy.evaluation.shared.neighbours import Neighbours, numbers_of
from understudy.evaluation.shared.results import frame

MOST_PEOPLE = 20_000  # whose distances are taken
LOOKS = 2  # searches of all records for a person: among people, and among synthetic records
OUTLIERS = 0.05  # the share of people called outliers
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5)


@attacks.add
class ClosestRecord:
    """Closest synthetic records of all people, of the holdout, and of the outliers."""

    name: ClassVar[str] = "closest_record"
    summary: ClassVar[str] = "distance to the closest synthetic record and its ratio to the next; outliers apart"
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Find a synthetic row that is closer to a person than any other person is"
    believed_by: ClassVar[str] = "whoever takes the closest synthetic row for a person's own"

    def run(self, comparison: Comparison) -> Section:
        columns = list(range(len(comparison.names)))
        space: dict[str, Any] = {"nominal": comparison.nominal(columns), "weights": comparison.spans(columns)}
        data = Neighbours(comparison.people.positions, **space)
        everybody = {"people": comparison.people, "holdout": comparison.outsiders}
        asked = {
            who: people.take(self._chosen(comparison, people, who))
            for who, people in everybody.items()
            if people is not None
        }
        company = {"people": data.k_nearest(asked["people"].positions, 2)[:, 1]}  # the first is the person
        if "holdout" in asked:
            company["holdout"] = data.k_nearest(asked["holdout"].positions, 1)[:, 0]
        rows: list[dict[str, Any]] = []

        def play(scene: Scene) -> dict[str, Tally]:
            who = "people" if scene.people is comparison.people else "holdout"
            apart = outliers(company[who])
            tallies = {}
            for number, copy in enumerate(scene.tables, start=1):
                two = Neighbours(copy.positions, **space).k_nearest(asked[who].positions, 2)
                copied = _have_copies(scene.people, copy)
                closer = two[:, 0] < company[who]
                for label, chosen in (("everybody", np.ones(len(apart), bool)), ("outliers", apart)):
                    found_out, people = int(closer[chosen].sum()), int(chosen.sum())
                    same = int(np.sum(closer & chosen & (two[:, 0] == 0)))
                    tallies[f"{label}, copy {number}"] = Tally(
                        successes=found_out,
                        guesses=people,
                        believed=Believed(made=found_out, right=same, people=people),
                        note=of_a_sample(len(apart), len(scene.people)),
                    )
                    if scene.tables is comparison.tables:
                        found = distances(two[chosen])
                        if label == "everybody":
                            found["exact_copies"] = float(copied.mean())
                        rows.append({"who": who, "group": label, "copy": number, **found})
            return tallies

        outcomes = play_scenes(comparison, self.name, play)
        return section_of(
            outcomes=tuple(outcomes), frames={"closest_record": frame(rows)}, findings=tuple(_findings(rows))
        )

    def _chosen(self, comparison: Comparison, people: Records, who: str) -> Integers:
        differences = LOOKS * len(comparison.people) * len(comparison.names)
        return comparison.affordable_people(len(people), MOST_PEOPLE, f"{self.name} {who}", differences=differences)


def _have_copies(people: Records, copy: Records) -> Flags:
    """Which people have a synthetic record that equals theirs in everything."""
    (here, there), cells = numbers_of([people.positions, copy.positions])
    copied: Flags = (np.bincount(there, minlength=cells) > 0)[here]
    return copied


def outliers(company: Floats) -> Flags:
    """The people farthest from their nearest company: at least one, at most 5% unless tied."""
    flags: Flags = company >= np.quantile(company, 1 - OUTLIERS, method="higher")
    return flags


def distances(two: Floats) -> dict[str, float | int]:
    """Quantiles of the distance to the closest record, exact copies, and the ratio to the second closest."""
    ratio = np.divide(two[:, 0], two[:, 1], out=np.ones(len(two)), where=two[:, 1] > 0)
    return {
        "people": len(two),
        "exact_copies": float(np.mean(two[:, 0] == 0)),
        **{f"closest_q{round(100 * q):02d}": float(np.quantile(two[:, 0], q)) for q in QUANTILES},
        "closest_mean": float(two[:, 0].mean()),
        "ratio_q05": float(np.quantile(ratio, 0.05)),
        "ratio_median": float(np.median(ratio)),
    }


def _findings(rows: list[dict[str, Any]]) -> list[Finding]:
    def mean(who: str, group: str, key: str) -> float | None:
        found = [row[key] for row in rows if (row["who"], row["group"]) == (who, group)]
        return float(np.mean(found)) if found else None

    inside, outside = mean("people", "everybody", "exact_copies"), mean("holdout", "everybody", "exact_copies")
    rare = mean("people", "outliers", "exact_copies")
    against = "" if outside is None else f"; of people not in the data {100 * outside:.2f}%"
    return [
        Finding(
            code="risk.closest_record.copies",
            title=(
                f"{100 * (inside or 0):.2f}% of the people have an exact copy in a synthetic table{against}; of the "
                f"outliers {100 * (rare or 0):.2f}%"
            ),
            value=inside,
            severity="info",
        )
    ]
