"""The first screen of a report: a judgement in words, the three numbers that matter, and the steward's criteria.

Nothing is judged that was not demanded beforehand: without criteria in the plan the page says what was found and
leaves the question open. A public report knows nothing of the confidential data, so there usefulness and risk are what
the noise and the guarantee imply, and criteria that need an evaluation are left to the internal report.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from understudy.core.result import Evaluation
from understudy.evaluation.taking_part import INVENTED, clearest
from understudy.privacy.promise.plan import AT_MOST, CRITERIA
from understudy.release.kind import Summary
from understudy.reporting.promise_in_words import label_of, odds_of, short_factor, thousandths_up

MOSTLY, NEARLY_ALL = 0.5, 0.9  # of the tables of two attributes
CROSS_FITTED = "boosting"  # the classifier that is judged on rows it did not learn from
MET, NOT_MET, NOT_MEASURED, ELSEWHERE = "met", "not met", "not measured", "judged in the internal report"
TONES = ("good", "warning", "problem")


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One of the three numbers: what it is, the number, and a sentence."""

    title: str
    number: str
    unit: str
    sentence: str
    tone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """A criterion of the plan, what was found, and whether that meets it."""

    what: str
    demanded: str
    found: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The headline, the sentence below it, three cards and the criteria."""

    headline: str
    sentence: str
    tone: str
    cards: tuple[Card, Card, Card]
    criteria: tuple[Criterion, ...] = ()


def judgement_of(subject: Summary, evaluation: Evaluation | None) -> Judgement:
    """What a reader should take away before anything else."""
    cards = (_promise(subject), _usefulness(subject, evaluation), _risk(subject, evaluation))
    criteria = _criteria(subject, evaluation)
    if criteria:
        return _judged(cards, criteria)
    if evaluation is None:
        headline = label_of(subject).headline
        return Judgement(
            headline=f"{headline}.",
            sentence="This page rests on what is public about the release. It was not compared with real data here.",
            tone=cards[0].tone,
            cards=cards,
        )
    tone = max((card.tone for card in cards), key=TONES.index)
    return Judgement(
        headline="Fit for release? No criteria were written beforehand.",
        sentence="So this page says what was found and does not judge it. Write criteria into the next plan "
        "(understudy plan --criteria): then each is met or not.",
        tone=tone,
        cards=cards,
    )


def _judged(cards: tuple[Card, Card, Card], criteria: tuple[Criterion, ...]) -> Judgement:
    failed = sum(one.status == NOT_MET for one in criteria)
    open_ones = sum(one.status in (NOT_MEASURED, ELSEWHERE) for one in criteria)
    many = f"{len(criteria)} criteria" if len(criteria) > 1 else "criterion"
    if failed:
        headline = f"Not fit for release: {failed} of {len(criteria)} criteria not met."
    elif open_ones:
        headline = f"Fit for release? {open_ones} of {len(criteria)} criteria not judged here."
    else:
        headline = f"Fit for release: {'all ' if len(criteria) > 1 else 'the '}{many} met."
    return Judgement(
        headline=headline,
        sentence="The steward wrote the criteria into the plan before the data were touched.",
        tone="problem" if failed else "warning" if open_ones else "good",
        cards=cards,
        criteria=criteria,
    )


def _promise(subject: Summary) -> Card:
    odds, label = odds_of(subject.statement.guarantee), label_of(subject)
    if odds.epsilon is None:
        sentence = "No limit is promised to what somebody can learn about one person."
        return Card(title="The promise", number="none", unit="", sentence=sentence, tone="problem")
    whole = subject.statement.unit.kind == "add_remove"
    what = "that one person is in the data" if whole else "about one person"
    return Card(
        title="The promise",
        number=f"× {short_factor(odds.factor)}",
        unit="at most, on an intruder's odds",
        sentence=f"The release changes the odds {what} by at most this factor, even for somebody who knows everybody "
        f"else. The term for this is {subject.statement.guarantee}.",
        tone=label.tone,
    )


def _usefulness(subject: Summary, evaluation: Evaluation | None) -> Card:
    title = "Usefulness"
    pairs = _pairs(evaluation)
    if pairs is not None:
        good, tables = pairs["good"], pairs["tables"]
        share = good / tables
        kept = "Nearly all" if share >= NEARLY_ALL else "Most" if share >= MOSTLY else "Few"
        many = {1: "one attribute", 2: "two attributes", 3: "three attributes"}[pairs["way"]]
        sentence = f"{kept} tables are close to the original; {pairs['poor']:,} of {tables:,} are poor."
        told = _told_apart(evaluation)
        if told is not None:
            sentence += (
                " Of 100 pairs of a real and a synthetic row, a program that learned to tell them apart gets "
                f"{told:.0f} right; a coin gets 50."
            )
        tone = "good" if share >= NEARLY_ALL else "warning" if share >= MOSTLY else "problem"
        return Card(
            title=title, number=f"{good:,} of {tables:,}", unit=f"tables of {many} are good",
            sentence=sentence, tone=tone,
        )  # fmt: skip
    noise = [row["noise_sd"] for row in subject.measured if row.get("noise_sd") is not None]
    if noise:
        usual = 2 * median(noise)
        return Card(
            title=title, number=f"± {usual:,.0f}" if usual >= 10 else f"± {usual:.2g}", unit="on a noisy count",
            sentence="Most counts of a measured table are no farther from the real ones. A smaller difference may be "
            "noise.",
            tone="good",
        )  # fmt: skip
    return Card(
        title=title, number="not measured", unit="", tone="warning",
        sentence="Nothing here says how close the tables are to the original.",
    )  # fmt: skip


def _risk(subject: Summary, evaluation: Evaluation | None) -> Card:
    title = "Risk"
    row = _first_sentence(evaluation)
    if row is not None and row["of_1000"] is not None:
        part = _person_part(evaluation)
        lights = {one["light"] for one in _rows(evaluation, "risk", "person_part")}
        light = "problem" if "red" in lights else "good" if lights == {"green"} else "warning"
        limit = None if part is None or part["most_allowed"] is None else round(1000 * part["most_allowed"])
        allowed = f"The guarantee allows {limit} more at most."
        if limit is None and odds_of(subject.statement.guarantee).epsilon is None:
            allowed = "Nothing limits the difference."
        elif limit is None:  # it protects another unit than the one that was attacked
            allowed = "The guarantee states no limit for this."
        sure = part is None or part["gain_low"] > 0
        unit = "of 1,000 people, because they took part" if sure else "of 1,000 people, perhaps by chance"
        found = "The attack that gains most clearly is right about so many more of them than of others."
        if not sure:
            found = "No attack gains for certain. One was right about so many more who took part."
        return Card(
            title=title, number=f"{row['of_1000']:+,}", unit=unit, sentence=f"{found} {allowed}",
            tone=light,
        )  # fmt: skip
    odds = odds_of(subject.statement.guarantee)
    if odds.epsilon is None:
        return Card(
            title=title, number="1,000", unit="of 1,000 at most", tone="problem",
            sentence="Nothing limits how often an intruder is right about one person.",
        )  # fmt: skip
    right = thousandths_up(odds.belief(0.5))
    return Card(
        title=title, number=f"{right:,}", unit="of 1,000 at most", tone=label_of(subject).tone,
        sentence="Somebody who knows everybody else picks the right one of two equally likely possibilities no more "
        "often. A coin is right 500 times.",
    )  # fmt: skip


def _criteria(subject: Summary, evaluation: Evaluation | None) -> tuple[Criterion, ...]:
    plan = subject.provenance.plan
    demanded: Mapping[str, float] = {} if plan is None else plan.criteria
    found = _found(subject, evaluation)
    judged = []
    for name, number in demanded.items():
        least = not name.endswith(AT_MOST)
        value = found.get(name)
        if value is None:
            public = name in ("epsilon_at_most", "delta_at_most")
            status = NOT_MEASURED if evaluation is not None or public else ELSEWHERE
        else:
            status = MET if (value >= number if least else value <= number) else NOT_MET
        what = CRITERIA[name]
        judged.append(
            Criterion(
                what=f"{what[:1].upper()}{what[1:]}",
                demanded=f"at {'least' if least else 'most'} {number:g}",
                found="" if value is None else f"{value:.4g}",
                status=status,
            )
        )
    return tuple(judged)


def _found(subject: Summary, evaluation: Evaluation | None) -> dict[str, float | None]:
    """What was found for each criterion; None where it was not measured."""
    odds = odds_of(subject.statement.guarantee)
    pairs = _pairs(evaluation)
    part, told_false = _person_part(evaluation), _told_false(evaluation)
    two = pairs if pairs is not None and pairs["way"] == 2 else None
    return {
        "epsilon_at_most": math.inf if odds.epsilon is None else odds.epsilon,
        "delta_at_most": odds.delta,
        "pairs_good_percent_at_least": None if two is None else 100 * two["good"] / two["tables"],
        "pairs_poor_percent_at_most": None if two is None else 100 * two["poor"] / two["tables"],
        "told_apart_percent_at_most": _told_apart(evaluation),
        "gain_per_1000_at_most": None if part is None else 1000 * part["gain_high"],
        "told_false_per_1000_at_most": told_false,
    }


def _rows(evaluation: Evaluation | None, part: str, name: str) -> list[dict[str, Any]]:
    frame = None if evaluation is None else getattr(evaluation, part).frames.get(name)
    return [] if frame is None else frame.to_pylist()


def _pairs(evaluation: Evaluation | None) -> dict[str, Any] | None:
    """The tables of two attributes, or of as many as were compared."""
    rows = [row for row in _rows(evaluation, "utility", "ways") if row["mean_s_pmse"] is not None]
    return next((row for row in rows if row["way"] == 2), rows[-1]) if rows else None


def _told_apart(evaluation: Evaluation | None) -> float | None:
    rows = [row for row in _rows(evaluation, "utility", "propensity") if row["classifier"].lower() == CROSS_FITTED]
    return None if not rows else 100 * max(rows[0]["auc"], 0.5)


def _first_sentence(evaluation: Evaluation | None) -> dict[str, Any] | None:
    return next(iter(_rows(evaluation, "risk", "first_screen")), None)


def _person_part(evaluation: Evaluation | None) -> dict[str, Any] | None:
    """The attack that the first sentence about risk tells of."""
    rows = [row for row in _rows(evaluation, "risk", "person_part") if row["subject"] != INVENTED]
    return dict(clearest(rows)) if rows else None


def _told_false(evaluation: Evaluation | None) -> float | None:
    """As the third sentence of the page says it."""
    rows = [row for row in _rows(evaluation, "risk", "first_screen") if "false" in row["title"].lower()]
    return None if not rows or rows[0]["of_1000"] is None else float(rows[0]["of_1000"])
