"""Attribute disclosure by a maximum-knowledge attacker: leave one attribute out and guess it (Ruiz et al., Tables 3-4).

The intruder links each person to the nearest synthetic records on the other attributes, in ranks, and reads the ranks
of the attribute from them: a set of ranks from each of M copies, and from all copies the range they span. Several
copies may help, by agreeing near the truth, or confuse, by agreeing elsewhere or on nothing. The synthetic attribute is
reverse-mapped first: a value of rank k stands for the original value of rank k. Ranges, values, hits and claims are all
about that original value, so a monotone change of the synthetic values, or margins that differ, hide nothing. People
whose value follows from the public schema are not asked about.

What "narrow" means here. The ranks from M copies span a range; over all people a share c of those ranges holds the
truth. The range from one copy is shorter and holds it less often. It is widened on both sides by the least h with which
it holds the truth as often; then it is what one copy tells with the same reliability. For a person the M copies
*narrow* the range if theirs is shorter than that, *help* if it also holds the truth, and *confuse* if it is shorter and
does not hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.result import Finding, Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.attack import Scene, attacks, play_scenes, section_of
from understudy.evaluation.shared.attack_success import DECIDED, Believed, Tally, independent_guesses, of_a_sample
from understudy.evaluation.shared.neighbours import nearest_without_each
from understudy.evaluation.shared.ranks import mid_rank_matrix, ranks_among, same_size
from understudy.evaluation.shared.results import frame

MOST_PEOPLE = 2_000  # whose attributes are guessed; they are looked for among all synthetic records
SHOWN_PEOPLE = 200  # in the table of ranges
SAID = ("comforted", "narrowed", "confused")
CLOSE = 0.05  # the probability that unrelated copies are as close as copies that comfort, at most
CRITERIA = ("sum", "maximum", "minimum")
FEWER = 200  # people, by each criterion
BY_CHANCE = 2_000  # spans of unrelated copies


@attacks.add
class RankAttribution:
    """The ranks an intruder gets for an attribute from each copy, their range, and how often it is right."""

    name: ClassVar[str] = "rank_attribution"
    summary: ClassVar[str] = (
        "an attribute guessed from the synthetic records nearest in the others' ranks, M copies together"
    )
    needs: ClassVar[tuple[str, ...]] = ()
    question: ClassVar[str] = "Guess where a person stands in one answer from rows that stand alike in others"
    believed_by: ClassVar[str] = "whoever knows the original file but for one answer"
    of_one_person: ClassVar[bool] = True
    guesses_an_answer: ClassVar[bool] = True

    def run(self, comparison: Comparison) -> Section:
        summary: list[dict[str, Any]] = []
        ranges: list[dict[str, Any]] = []
        by_person: list[pa.Table] = []
        targets = [target for target in comparison.attacked if comparison.known(target)]

        def play(scene: Scene) -> dict[str, Tally]:
            real = scene.people is comparison.people and scene.tables is comparison.tables
            tallies = {}
            for target, guess in attack_attributes(comparison, scene, targets).items():
                if not len(guess.people):
                    tallies[target] = Tally(successes=0, guesses=0, asked=0, note=DECIDED)
                    continue
                right = int(np.sum(guess.value == guess.true_code))
                tallies[target] = Tally(
                    successes=right,
                    guesses=len(guess.value),
                    independent=guess.independent,
                    believed=Believed(
                        made=int(guess.claims.sum()), right=int(guess.right.sum()), people=len(guess.people)
                    ),
                    note=of_a_sample(len(guess.people), len(scene.people)),
                )
                if real:
                    summary.append({"attribute": target, **guess.summary()})
                    ranges.extend(guess.rows(target))
                    by_person.append(guess.by_person(target))
            return tallies

        outcomes = play_scenes(comparison, self.name, play) if targets else []
        in_refit = comparison.whole is not None
        worst = max(summary, key=lambda row: row["correct"], default=None)
        findings = () if worst is None else (_finding(worst, len(comparison.tables)),)
        return section_of(
            outcomes=tuple(outcomes),
            frames={
                "rank_attribution": frame(summary),
                "rank_ranges": frame(ranges),
                **({"rank_criteria": frame(_by_criterion(comparison, targets))} if summary and not in_refit else {}),
                **({"rank_people": pa.concat_tables(by_person)} if by_person else {}),
            },
            findings=findings,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
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
    independent: float  # effective number of guesses: people linked to the same record get the same one

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
            **self._said_in_all(),
            "claims": int(self.claims.sum()),
            "correct": int(self.right.sum()),
            "false": int((self.claims & ~self.right).sum()),
        }

    def _said_in_all(self) -> dict[str, float | None]:
        """Shares of people; for the comforted and the narrowed also the share whose range leaves the truth out."""
        said, holds = self.copies_say
        several = len(self.low) > 1
        shares = {f"copies_{name}": float(np.mean(said == number)) for number, name in enumerate(SAID)}
        wrongly = {f"copies_{name}_wrongly": float(np.mean((said == n) & ~holds)) for n, name in enumerate(SAID[:2])}
        return {name: share if several else None for name, share in {**shares, **wrongly}.items()}

    @cached_property
    def copies_say(self) -> tuple[Integers, Flags]:
        """What the copies do to an intruder, per person: 0 comforted, 1 narrowed, 2 confused; is the truth inside?

        Section 4 of the paper, made exact. The middles of the copies' ranks span a length. It is compared with spans by
        chance: those of unrelated copies, from the middles of other people drawn anew in each copy. Copies *comfort* if
        at most 5 percent of the spans by chance are so short, *confuse* if at least half of them are shorter, and
        *narrow* the range in between.
        """
        middle = (self.low + self.high) / 2
        span = middle.max(axis=0) - middle.min(axis=0)
        generator = np.random.default_rng(len(span))
        drawn = generator.integers(0, len(span), (len(middle), BY_CHANCE))
        unrelated = np.take_along_axis(middle, drawn, axis=1)
        chance = np.sort(unrelated.max(axis=0) - unrelated.min(axis=0))
        upto, below = (np.searchsorted(chance, span, side=side) / BY_CHANCE for side in ("right", "left"))
        said = np.where(upto <= CLOSE, 0, np.where(below >= 0.5, 2, 1))
        holds = (self.low.min(axis=0) <= self.true_rank) & (self.true_rank <= self.high.max(axis=0))
        return said, holds

    def by_person(self, attribute: str) -> pa.Table:
        """For each person: the range that all copies span, what the copies do, whether the truth is in the range."""
        said, holds = self.copies_say
        return pa.table(
            {
                "attribute": pa.array([attribute] * len(self.people)),
                "record": self.people,
                "true_rank": self.true_rank,
                "low": self.low.min(axis=0),
                "high": self.high.max(axis=0),
                "copies": pa.array([SAID[one] for one in said] if len(self.low) > 1 else ["one copy"] * len(said)),
                "holds_truth": holds,
            }
        )

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
    return attack_attributes(comparison, scene, (target,), most=most)[target]


def attack_attributes(
    comparison: Comparison, scene: Scene, targets: Sequence[str], *, most: int | None = None, criterion: str = "sum"
) -> dict[str, Guesses]:
    """For each target: link people on everything known except the target, and read the target.

    ``criterion`` is of the differences of ranks: their sum (weighted, if the comparison has weights), maximum or
    minimum.
    """
    columns = comparison.columns(tuple(targets))
    everybody = comparison.reference
    own, n, width = comparison.in_rank_order(everybody), len(everybody), len(comparison.names)
    chosen = comparison.affordable_people(
        len(scene.people), most or MOST_PEOPLE, "rank_attribution", differences=n * width * len(scene.tables)
    )
    ranks = ranks_among(comparison.in_rank_order(scene.people)[chosen], own)
    all_ranks = mid_rank_matrix(own[:, columns])
    of_rank = np.argsort(own[:, columns], axis=0, kind="stable")  # the person whose original value has each rank
    levels = [comparison.schema.shape()[column] for column in columns]
    weights = _weights(comparison, targets, weighted=criterion == "sum")
    low, high, tables, together = (np.empty((len(scene.tables), len(columns)), object) for _ in range(4))
    for m, copy in enumerate(scene.tables):
        sized = copy.take(same_size(len(copy), n, comparison.seed))
        synthetic = mid_rank_matrix(comparison.in_rank_order(sized))
        # Reverse mapping: a synthetic value of rank k stands for the original value of rank k, whatever it says itself.
        places = np.floor(synthetic[:, columns]).astype(np.int64) - 1
        mapped = np.take_along_axis(of_rank, places, axis=0)
        found = nearest_without_each(
            synthetic,
            ranks,
            columns,
            ranks=np.take_along_axis(all_ranks, mapped, axis=0),
            codes=np.take_along_axis(everybody.codes[:, columns], mapped, axis=0),
            levels=levels,
            weights=weights,
            criterion=criterion,
        )
        for t, linked in enumerate(found):
            low[m, t], high[m, t], tables[m, t] = linked.low, linked.high, linked.table
            together[m, t] = linked.first
    guesses = {}
    for t, (target, column) in enumerate(zip(targets, columns, strict=True)):
        asked = comparison.undecided(scene.people.take(chosen), target)
        true_code = scene.people.codes[chosen[asked], column]
        by_copy = [table[asked] for table in tables[:, t]]
        guesses[target] = Guesses(
            people=chosen[asked],
            size=n,
            true_rank=ranks[asked, column],
            true_code=true_code,
            low=np.array([one[asked] for one in low[:, t]]),
            high=np.array([one[asked] for one in high[:, t]]),
            hits=np.array([table[np.arange(len(true_code)), true_code] > 0 for table in by_copy]),
            pooled=np.sum(by_copy, axis=0),
            independent=float(np.mean([independent_guesses(np.bincount(one[asked])) for one in together[:, t]])),
        )
    return guesses


def _weights(comparison: Comparison, targets: Sequence[str], *, weighted: bool) -> Floats:
    """How much each attribute counts in a link; what the intruder does not know does not count."""
    scale = comparison.rank_weights if weighted and comparison.rank_weights else (1.0,) * len(comparison.names)
    known = {name for target in targets for name in (*comparison.known(target), *((target,) * (not comparison.keys)))}
    return np.array([weight if name in known else -1.0 for name, weight in zip(comparison.names, scale, strict=True)])


def _by_criterion(comparison: Comparison, targets: Sequence[str]) -> list[dict[str, Any]]:
    """The attack by other criteria too: the paper asks for several."""
    scene = Scene(people=comparison.people, tables=comparison.tables)
    rows = []
    for criterion in CRITERIA:
        for target, guess in attack_attributes(comparison, scene, targets, most=FEWER, criterion=criterion).items():
            if not len(guess.people):
                continue
            told = guess.summary()
            kept = (
                "people",
                "hit_one_copy",
                "hit_any_copy",
                "rank_error_all_copies",
                "range_width",
                "correct",
                "false",
            )
            right = float(np.mean(guess.value == guess.true_code))
            rows.append(
                {"attribute": target, "criterion": criterion, "guessed_right": right, **{k: told[k] for k in kept}}
            )
    return rows


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
