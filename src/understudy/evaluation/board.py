"""The first screen about risk: three sentences for a board, and a line for each attack in everyday words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from understudy.core.result import Section
from understudy.evaluation.person import PERSON_PART
from understudy.evaluation.shared.attack import attacks
from understudy.evaluation.shared.results import ATTACKS, frame

FIRST_SCREEN = "first_screen"
IN_WORDS = "in_everyday_words"
FALSE_DISCLOSURES = "false_disclosures"
LITERATURE = "names_in_the_literature"
GROUPS = ("first", "second", "third")
NOT_MEASURED = "not measured"
Rows = Sequence[Mapping[str, Any]]


def board_frames(section: Section) -> dict[str, pa.Table]:
    """The three sentences, the lines of attacks and the false disclosures of a risk section."""
    attacked = section.frames[ATTACKS].to_pylist() if ATTACKS in section.frames else []
    if not attacked:
        return {}
    part = section.frames[PERSON_PART].to_pylist() if PERSON_PART in section.frames else []
    reason = next((one.title for one in section.findings if one.code == "risk.person.not_measured"), "")
    return {
        FIRST_SCREEN: frame([_took_part(part, reason), _people_like_them(attacked, part), _told_false(attacked)]),
        IN_WORDS: frame(_lines(attacked, part)),
        FALSE_DISCLOSURES: frame(_false(attacked)),
        LITERATURE: frame(_names()),
    }


def _took_part(part: Rows, reason: str) -> dict[str, Any]:
    """What an intruder gains because somebody took part, by the attack that gains most clearly."""
    title = "Because somebody took part"
    if not part:
        sentence = f"{reason[:1].upper()}{reason[1:]}." if reason else "This was not measured."
        return _sentence(title, sentence, None)
    worst = max(part, key=lambda row: row["gain_low"])
    inside, outside = _thousand(worst["inside"]), _thousand(worst["outside"])
    question = _question(worst["attack"], worst["subject"])
    limit = (
        "This release has no guarantee, so nothing limits the difference."
        if worst["most_allowed"] is None
        else f"The guarantee allows at most {_thousand(worst['most_allowed'])} more."
    )
    who = "people who are not in the data" if worst["by"] == "holdout" else "people who were left out"
    sentence = (
        f"The attack that gains most ({question}) is right about {inside} of 1,000 people in the data and about "
        f"{outside} of 1,000 {who}: {_thousand(worst['gain'])} more, with 95 percent "
        f"confidence between {_thousand(worst['gain_low'])} and {_thousand(worst['gain_high'])}. {limit}"
    )
    more = inside - min(inside, outside)
    allowed = 0 if worst["most_allowed"] is None else min(_thousand(worst["most_allowed"]), 1000 - outside) - more
    groups = (
        (min(inside, outside), "right anyway"),
        (more, "more because they took part"),
        (allowed, "more that the guarantee would allow"),
    )
    return _sentence(title, sentence, inside - outside, *groups)


def _people_like_them(attacked: Rows, part: Rows) -> dict[str, Any]:
    """What the release says about everybody, whether or not they took part."""
    title = "About people like them"
    guesses = [row for row in attacked if row["attack"] == "attribute_inference" and row["guesses"]]
    if not guesses:
        return _sentence(title, "No answer could be guessed from the synthetic rows.", None)
    best = max(guesses, key=lambda row: row["residual"] if row["against"] == "baseline" else row["control"])
    others = {row["subject"]: float(row["outside"]) for row in part if row["attack"] == "attribute_inference"}
    right = _thousand(others.get(best["subject"], float(best["success"])))
    alone = _thousand(best["baseline"])
    sentence = (
        f"Whoever knows all other answers of a person guesses \u2018{best['subject']}\u2019 right for {right} of 1,000 "
        f"people, with or without that person in the data. From the shares of each answer alone it is {alone}."
    )
    first = min(right, alone)
    return _sentence(
        title, sentence, right, (first, "right from shares alone"), (right - first, "more with the release")
    )


def _told_false(attacked: Rows) -> dict[str, Any]:
    """How many would be told something false by an intruder who believes rows that agree."""
    title = "Told something false"
    claims = [row for row in attacked if row["attack"] == "attribution" and row["asked"]]
    if not claims:
        return _sentence(title, "No attack makes claims about single people.", None)
    worst = max(claims, key=lambda row: row["wrong"] / row["asked"])
    wrong, right = (_thousand(worst[what] / worst["asked"]) for what in ("wrong", "successes"))
    sentence = (
        "Whoever believes synthetic rows that agree would be told something false about "
        f"\u2018{_short(worst['subject'])}\u2019 for {wrong} of 1,000 people, and something true for {right}."
    )
    return _sentence(title, sentence, wrong, (wrong, "told something false"), (right, "told something true"))


def _sentence(title: str, sentence: str, number: int | None, *groups: tuple[int, str]) -> dict[str, Any]:
    """A sentence, its number, and of which groups a thousand people consist: up to three, with what they are."""
    given = [*groups, *[(0, "")] * (len(GROUPS) - len(groups))]
    return {
        "title": title,
        "sentence": sentence,
        "of_1000": number,
        **{
            key: value
            for name, (count, meaning) in zip(GROUPS, given, strict=True)
            for key, value in ((name, max(count, 0)), (f"{name}_means", meaning))
        },
    }


def _lines(attacked: Rows, part: Rows) -> list[dict[str, Any]]:
    """One line for each attack: its clearest gain, what it finds out about anybody, what it claims falsely."""
    lines = []
    names = dict.fromkeys([*(row["attack"] for row in attacked), *(row["attack"] for row in part)])
    for name in names:
        gains = [row for row in part if row["attack"] == name]
        gain = max(gains, key=lambda row: row["gain_low"], default=None)
        rows = [row for row in attacked if row["attack"] == name and row["asked"]]
        best = max(rows, key=lambda row: row["successes"] / row["asked"], default=None)
        limit = None if gain is None else gain["most_allowed"]
        claims = getattr(attacks[name], "of_one_person", False) and getattr(attacks[name], "believed_by", "")
        lines.append(
            {
                "light": NOT_MEASURED if gain is None else gain["light"],
                "attack": _question(name),
                "about": (gain or best or {"subject": ""})["subject"],
                "in_the_data": _thousand(gain["inside"]) if gain else best and _thousand(_share(best, "successes")),
                "not_in_the_data": gain and _thousand(gain["outside"]),
                "more": gain and _thousand(gain["gain"]),
                "more_low": gain and _thousand(gain["gain_low"]),
                "more_high": gain and _thousand(gain["gain_high"]),
                "most_allowed": None if limit is None else _thousand(limit),
                "told_false": max((_thousand(_share(row, "wrong")) for row in rows if claims), default=None),
                "name": name,
            }
        )
    order = ("red", "amber", "green", NOT_MEASURED)
    return sorted(lines, key=lambda line: (order.index(line["light"]), -(line["more"] or 0)))


def _false(attacked: Rows) -> list[dict[str, Any]]:
    """Raab: a disclosure that turns out to be false also harms. Claims of every attack that makes any."""
    return [
        {
            "attack": row["attack"],
            "subject": row["subject"],
            "people": row["asked"],
            "claims": row["guesses"],
            "right": row["successes"],
            "wrong": row["wrong"],
            "believed_by": getattr(attacks[row["attack"]], "believed_by", ""),
        }
        for row in attacked
        if getattr(attacks[row["attack"]], "believed_by", "")
    ]


def _names() -> list[dict[str, Any]]:
    """What each attack is called in tables and papers."""
    return [
        {"attack": name, "in_everyday_words": _question(name), "measures": attacks[name].summary} for name in attacks
    ]


def _share(row: Mapping[str, Any], what: str) -> float:
    return float(row[what]) / float(row["asked"])


def _thousand(share: float) -> int:
    return round(1000 * share)


def _short(subject: str) -> str:
    """An attribute without the number of the copy."""
    return subject.split(", copy ", maxsplit=1)[0]


def _question(name: str, subject: str = "") -> str:
    words = getattr(attacks[name], "question", attacks[name].summary) if name in attacks else name.replace("_", " ")
    return f"{words[:1].lower()}{words[1:]}; {_short(subject)}" if subject else words
