"""Attribute disclosure by a maximum-knowledge attacker: leave one attribute out and guess it (Ruiz et al., Tables 3-4).

The intruder links each person to the nearest synthetic records on the other attributes, in ranks, and reads the ranks
of the attribute from them: a set of ranks from each of M copies, and from all copies the range they span. Several
copies may help, by agreeing near the truth, or confuse, by agreeing elsewhere or on nothing. The synthetic attribute is
reverse-mapped first: a value of rank k stands for the original value of rank k. Ranges, values, hits and claims are all
about that original value, so a monotone change of the synthetic values, or margins that differ, hide nothing. People
whose value follows from the public schema are not asked about.

What "narrow" means here. The ranks from M copies span a range; over all people a share c of those ranges holds the
truth. The range from one copy is shorter and holds it less often; widened on both sides by the least h with which it
holds the truth as often, it is what one copy tells with the same reliability. For a person the M copies *narrow* the
range if theirs is shorter than that, *help* if it also holds the truth, and *confuse* if it is shorter and does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.result import Finding, Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of
from understudy.evaluation.shared.attack_success import DECIDED, Tally, independent_guesses
from understudy.evaluation.shared.neighbours import Neighbours
from understudy.evaluation.shared.ranks import mid_rank_matrix, mid_ranks, ranks_among, same_size
from understudy.evaluation.shared.results import frame

MOST_PEOPLE = 20_000  # whose attributes are guessed; they are looked for among all synthetic records
SHOWN_PEOPLE = 200  # in the table of ranges


@attacks.add
class RankAttribution:
    """The ranks an intruder gets for an attribute from each copy, their range, and how often it is right."""

    name: ClassVar[str] = "rank_attribution"
    summary: ClassVar[str] = (
        "an attribute guessed from the synthetic records nearest in the others' ranks, M copies together"
    )
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Guess where a person stands in one answer, knowing all their others"
    believed_by: ClassVar[str] = "whoever knows the original file but for one answer"
    of_one_person: ClassVar[bool] = True

    def run(self, comparison: Comparison) -> Section:
        summary: list[dict[str, Any]] = []
        ranges: list[dict[str, Any]] = []

        def play(scene: Scene) -> dict[str, Tally]:
            real = scene.people is comparison.people and scene.tables is comparison.tables
            tallies = {}
            for target in comparison.attacked:
                if not comparison.known(target):
                    continue
                guess = attack_attribute(comparison, scene, target)
                if not len(guess.people):
                    tallies[target] = Tally(successes=0, guesses=0, asked=0, note=DECIDED)
                    continue
                right = int(np.sum(guess.value == guess.true_code))
                tallies[target] = Tally(successes=right, guesses=len(guess.value), independent=guess.independent)
                if real:
                    summary.append({"attribute": target, **guess.summary()})
                    ranges.extend(guess.rows(target))
            return tallies

        outcomes = play_scenes(comparison, self.name, play)
        worst = max(summary, key=lambda row: row["correct"], default=None)
        findings = () if worst is None else (_finding(worst, len(comparison.tables)),)
        return section_of(
            outcomes=tuple(outcomes),
            frames={"rank_attribution": frame(summary), "rank_ranges": frame(ranges)},
            findings=findings,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Guesses:
    """What the intruder has for one attribute: of each person and copy the least and greatest linked rank."""

    people: Integers  # their numbers
    size: int  # of the whole table, which is the greatest rank
    true_rank: Floats
    true_code: Integers
    low: Floats  # by copy and person
    high: Floats
    hits: Flags  # by copy and person: a linked record has the true value
    pooled: Integers  # linked records of all copies by person and code
    independent: float  # people linked to the same record are told the same: how many guesses theirs are worth

    @property
    def value(self) -> Integers:
        """The value most linked records have; the first of equals."""
        most: Integers = self.pooled.argmax(axis=1)
        return most

    @property
    def claims(self) -> Flags:
        """All linked records of all copies agree."""
        agreed: Flags = (self.pooled > 0).sum(axis=1) == 1
        return agreed

    @property
    def right(self) -> Flags:
        right: Flags = self.claims & (self.value == self.true_code)
        return right

    def summary(self) -> dict[str, Any]:
        n = float(self.size - 1)
        middle = (self.low + self.high) / 2  # of each copy
        errors = np.abs(middle - self.true_rank)
        low, high = self.low.min(axis=0), self.high.max(axis=0)
        holds = (low <= self.true_rank) & (self.true_rank <= high)
        width = high - low
        share = float(holds.mean())
        outside = np.maximum(np.maximum(self.low[0] - self.true_rank, self.true_rank - self.high[0]), 0.0)
        # The least widening of one copy's range after which it holds the truth as often.
        reach = np.sort(outside)[max(int(holds.sum()) - 1, 0)] if holds.any() else 0.0
        one = np.minimum(self.high[0] + reach, float(self.size)) - np.maximum(self.low[0] - reach, 1.0)
        narrow = width < one
        # The chance error of a rank drawn at random, for the same true ranks.
        away = self.true_rank - 1
        chance = (away * (away + 1) + (n - away) * (n - away + 1)) / (2 * self.size)
        return {
            "copies": len(self.low),
            "people": len(self.people),
            "hit_one_copy": float(self.hits[0].mean()),
            "hit_any_copy": float(self.hits.any(axis=0).mean()),
            "rank_error_one_copy": float(errors[0].mean() / n),
            "rank_error_all_copies": float(np.abs(np.median(middle, axis=0) - self.true_rank).mean() / n),
            "rank_error_chance": float(chance.mean() / n),
            "range_holds_truth": share,
            "range_width": float(width.mean() / n),
            "one_copy_width": float(one.mean() / n),
            "narrowed": float(narrow.mean()),
            "helped": float((narrow & holds).mean()),
            "confused": float((narrow & ~holds).mean()),
            "claims": int(self.claims.sum()),
            "correct": int(self.right.sum()),
            "false": int((self.claims & ~self.right).sum()),
        }

    def rows(self, attribute: str) -> list[dict[str, Any]]:
        """Table 3 of the paper: the ranks from each copy, for some people."""
        return [
            {
                "attribute": attribute,
                "record": int(self.people[i]),
                "copy": m + 1,
                "true_rank": float(self.true_rank[i]),
                "low": float(self.low[m, i]),
                "high": float(self.high[m, i]),
            }
            for i in range(min(len(self.people), SHOWN_PEOPLE))
            for m in range(len(self.low))
        ]


def attack_attribute(comparison: Comparison, scene: Scene, target: str, *, most: int | None = None) -> Guesses:
    """Link ``most`` people on what is known, read the target."""
    column = comparison.names.index(target)
    known = comparison.columns(comparison.known(target))
    everybody = comparison.reference(scene.people)
    n = len(everybody)
    chosen = comparison.some_people(len(scene.people), most or MOST_PEOPLE, "rank_attribution")
    chosen = chosen[comparison.undecided(scene.people.take(chosen), target)]
    ranks = ranks_among(scene.people.positions[chosen][:, known], everybody.positions[:, known])
    true_code = scene.people.codes[chosen, column]
    all_ranks = mid_ranks(everybody.positions[:, column])
    of_rank = np.argsort(everybody.positions[:, column], kind="stable")  # whose original value has a rank
    together: list[float] = []
    low, high, hits, pooled = [], [], [], np.zeros((len(chosen), comparison.schema.shape()[column]), np.int64)
    for copy in scene.tables:
        sized = copy.take(same_size(len(copy), n, comparison.seed))
        # Reverse mapping: a synthetic value of rank k stands for the original value of rank k, whatever it says itself.
        mapped = of_rank[np.floor(mid_ranks(sized.positions[:, column])).astype(np.int64) - 1]
        tree = Neighbours(mid_rank_matrix(sized.positions[:, known]))
        codes = everybody.codes[mapped, column]
        linked = tree.summaries(tree.nearest(ranks), all_ranks[mapped], codes, pooled.shape[1])
        low.append(linked.low)
        high.append(linked.high)
        hits.append(linked.table[np.arange(len(chosen)), true_code] > 0)
        pooled += linked.table
        together.append(independent_guesses(np.bincount(linked.first)))
    return Guesses(
        people=chosen,
        size=n,
        true_rank=ranks_among(scene.people.positions[chosen][:, [column]], everybody.positions[:, [column]])[:, 0],
        true_code=true_code,
        low=np.array(low),
        high=np.array(high),
        hits=np.array(hits),
        pooled=pooled,
        independent=float(np.mean(together)),
    )


def _finding(worst: dict[str, Any], copies: int) -> Finding:
    tables = f"{copies} {'copy' if copies == 1 else 'copies'}"
    return Finding(
        code="risk.rank_attribution.worst",
        title=(
            f"{worst['attribute']}: of {worst['people']:,} people {worst['claims']:,} get a value that all linked "
            f"records agree on ({tables}); {worst['correct']:,} of these are right and {worst['false']:,} wrong"
        ),
        value=worst["correct"] / worst["people"],
        severity="info",
        reference="Ruiz, Muralidhar and Domingo-Ferrer 2018, Tables 3-4; Raab 2022 (a false disclosure harms too)",
    )
