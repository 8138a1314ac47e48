"""All attacks on a release, put together: one table of outcomes, the tables of each attack, findings for a reader."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import pyarrow as pa

from understudy.core.arrays import Progress
from understudy.core.result import Finding, Section
from understudy.errors import InputError, unknown_name
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.attack import Attack, attacks
from understudy.evaluation.shared.attack_success import LEVEL, Z
from understudy.evaluation.shared.results import ATTACKS, Collected, frame, part_of
from understudy.evaluation.taking_part import (
    INVENTED,
    MEMBERSHIP,
    OUTLIERS,
    PERSON_PART,
    RAREST,
    clearest,
    person_part,
    told_by_enough,
)
from understudy.release import Release

NEEDED = {
    "holdout": "a holdout: people of the same kind who are not in the data",
    "keys": "keys: the attributes an intruder knows about a person",
    "synthesizer": "a synthesizer: a callable that makes a synthetic table (in Python only)",
}
SAMPLE = re.compile(r"[\d,]+ of [\d,]+ people")  # a note of ``of_a_sample``
NOTABLE = 0.05  # a residual risk above this, with its whole interval above 0, is worth a warning


def evaluate_risk(
    comparison: Comparison, *, only: Sequence[str] | None = None, progress: Progress | None = None
) -> Section:
    """Attack a release (anyone's) with what an intruder might know, and say who and what is at risk.

    ``only`` names the attacks to run. Every finding and table is internal.

    The table ``attacks`` has a line per attack and subject: success, baseline (the same attack given only the
    release's one-way margins), control (the same attack on the holdout), residual risk with its interval.
    """
    names = chosen_attacks(only)
    _check_people(comparison)
    found = Collected()
    halfway = 1.0 if only is not None else 0.5
    attacking = part_of(progress, 0.0, halfway)
    for done, name in enumerate(names):
        attack = attacks[name]
        missing = _missing(attack, comparison)
        if missing:
            if only is not None:
                raise InputError(f"attack '{name}' needs {missing}.")
            found.findings.append(
                Finding(
                    code=f"risk.{name}.not_run", title=f"{attack.summary}: not tried, it needs {missing}", value=None
                )
            )
            continue
        section = attack().run(comparison)
        found.add(section)
        if comparison.finished is not None:
            comparison.finished(name, section)
        if attacking is not None:
            attacking(done + 1, len(names))
    if only is None or comparison.outsiders is not None:
        measured = person_part(comparison, found.attacked, progress=part_of(progress, halfway, 1.0))
        found.add(measured)
        if comparison.finished is not None:
            comparison.finished(PERSON_PART, measured)
    found.findings = [
        *_headlines(found.attacked, _surely_personal(found)),
        *_told_of_samples(found),
        *_chosen_keys(comparison),
        *_without_order(comparison),
        *found.findings,
    ]
    section = found.section()
    if only is None:
        section = replace(section, frames={**board_frames(section, comparison.knows), **section.frames})
    return section if ATTACKS in section.frames else replace(section, frames={**section.frames, ATTACKS: frame([])})


def _check_people(comparison: Comparison) -> None:
    if len(comparison.people) < 2:
        raise InputError("the confidential data have fewer than two records; there is nobody to attack.")
    if min(len(table) for table in comparison.tables) < 2:
        raise InputError("a synthetic table has fewer than two records; nothing can be learned about its risk.")
    if comparison.outsiders is not None and len(comparison.outsiders) < 2:
        raise InputError("the holdout has fewer than two records; it is no control.")


def chosen_attacks(only: Sequence[str] | None) -> tuple[str, ...]:
    """The attacks asked for, or all; an unknown name is refused."""
    if only is None:
        return attacks.names()
    for name in only:
        if name not in attacks:
            raise unknown_name("attack", name, attacks.names())
    return tuple(only)


def _missing(attack: type[Attack], comparison: Comparison) -> str:
    has = {
        "holdout": comparison.outsiders is not None,
        "keys": bool(comparison.keys),
        "synthesizer": comparison.synthesizer is not None,
    }
    return " and ".join(NEEDED[need] for need in attack.needs if not has[need])


def _surely_personal(found: Collected) -> set[tuple[str, str]]:
    """Attacks and subjects whose whole interval shows a gain from people in the data.

    The interval of a residual risk is propagated, and too short if few people are attacked. So if there is a
    control, a warning depends on the difference of the two shares. Attacks that distinguish people in the data by
    themselves have no control; there it is the residual risk, at a level for all of them together (Bonferroni).
    """
    part = found.frames[PERSON_PART].to_pylist() if PERSON_PART in found.frames else []
    judged = {row["attack"] for row in part}
    alone = [row for row in found.attacked if row["personal"] and row["attack"] not in judged]
    wider = NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / max(len(alone), 1)) / Z
    sure = [row for row in alone if row["residual"] - wider * (row["residual"] - row["residual_low"]) > 0]
    sure += [row for row in part if row["by"] == "holdout" and row["gain_low"] > 0]
    return {(row["attack"], row["subject"]) for row in sure}


def _headlines(attacked: Sequence[Mapping[str, Any]], surely: set[tuple[str, str]]) -> list[Finding]:
    """For each attack, the subject with the greatest residual risk."""
    worst: dict[str, Mapping[str, Any]] = {}
    subjects = Counter(row["attack"] for row in attacked)
    for row in attacked:
        before = worst.get(row["attack"])
        if before is None or (row["guesses"] > 0, row["residual_low"]) > (
            before["guesses"] > 0,
            before["residual_low"],
        ):
            worst[row["attack"]] = row
    findings = []
    for name, row in worst.items():
        against = "people not in the data" if row["against"] == "control" else "guessing from margins"
        note = f" ({row['note']})" if row["note"] else ""
        many = f"; the greatest of {subjects[name]} subjects" if subjects[name] > 1 else ""
        if not row["guesses"]:
            title = f"{attacks[name].summary}: no guess could be made{many}{note}"
            findings.append(Finding(code=f"risk.{name}", title=title, value=None))
            continue
        findings.append(
            Finding(
                code=f"risk.{name}",
                title=(
                    f"{attacks[name].summary} [{row['subject']}]: success {row['success']:.3f}, residual risk "
                    f"{row['residual']:.3f} ({row['residual_low']:.3f} to {row['residual_high']:.3f}) over "
                    f"{against}{many}{note}"
                ),
                value=row["residual"],
                # What margins do not show may be true of the whole population; that is not a risk of taking part.
                severity="warning" if row["residual"] > NOTABLE and (name, row["subject"]) in surely else "info",
                reference="residual risk (Giomi et al. 2023), Wilson intervals of 95%",
            )
        )
    return findings


def _told_of_samples(found: Collected) -> list[Finding]:
    """The smallest random sample of people that an attack used, and the error of its shares."""
    notes = [row["note"].rsplit("; ", maxsplit=1)[-1] for row in found.attacked]
    asked = [int(note.split(" of ")[0].replace(",", "")) for note in notes if SAMPLE.fullmatch(note)]
    if not asked:
        return []
    fewest = min(asked)
    error = 100 * Z * 0.5 / fewest**0.5
    return [
        Finding(
            code="risk.sampled",
            title=(
                f"some attacks used a random sample of {fewest:,} people or more: the sampling error of their "
                f"shares is at most {error:.1f} percentage points (95 percent) and is included in the intervals; "
                "--thorough uses more people"
            ),
            value=fewest,
        )
    ]


def _chosen_keys(comparison: Comparison) -> list[Finding]:
    if comparison.keys or len(comparison.names) < 2:
        return []
    return [
        Finding(
            code="risk.keys",
            title=(
                f"no keys were given: records are matched on {', '.join(comparison.matching_keys)}, chosen by "
                "the names "
                "of the attributes; in other attacks an intruder knows every attribute except the target"
            ),
            value=None,
        )
    ]


def _without_order(comparison: Comparison) -> list[Finding]:
    names = comparison.without_order
    if not names:
        return []
    return [
        Finding(
            code="risk.rank_order",
            title=(
                f"two attacks compare people by the order of their answers, and take those to {', '.join(names)} as "
                "the schema lists them, which may mean nothing: write ordered = true, or a tree or distances of the "
                "answers, into the schema"
            ),
            value=len(names),
            severity="warning",  # about the attack, which may miss something; not about people
            reference="Domingo-Ferrer, Sánchez and Rufian-Torrell 2013: semantic marginality",
        )
    ]


def risk_against_epsilon(results: Sequence[tuple[str, Release, Section]]) -> pa.Table:
    """For several releases of the same data: epsilon and the greatest residual risk of each attack (for the figure)."""
    rows = []
    for name, release, section in results:
        stated = release.statement.guarantee
        epsilon = getattr(stated, "epsilon", None)
        worst: dict[str, dict[str, Any]] = {}
        for row in section.frames["attacks"].to_pylist():
            if row["attack"] not in worst or row["residual_low"] > worst[row["attack"]]["residual_low"]:
                worst[row["attack"]] = row
        rows += [
            {
                "release": name,
                "guarantee": str(stated),
                "epsilon": None if epsilon is None else float(epsilon),
                **{key: row[key] for key in ("attack", "subject", "residual", "residual_low", "residual_high")},
            }
            for row in worst.values()
        ]
    return pa.Table.from_pylist(rows)


# The first screen about risk: three sentences for a board, and a line for each attack in everyday words.

FIRST_SCREEN = "first_screen"
IN_WORDS = "in_everyday_words"
FALSE_DISCLOSURES = "false_disclosures"
LITERATURE = "names_in_the_literature"
GROUPS = ("first", "second", "third")
NOT_MEASURED = "not measured"
LIKENESS = ("attribute_inference", "rank_attribution")  # attacks that read an answer off the most similar rows
NO_LIMIT = "This release has no guarantee, so nothing limits the difference."
WHO = {
    RAREST: "Say of one of the most unusual people that they were in the data",
    INVENTED: "Say of a person invented for this test that they were in the data",
}
Rows = Sequence[Mapping[str, Any]]


def board_frames(section: Section, knows: Callable[[str], str]) -> dict[str, pa.Table]:
    """The three sentences, the lines of attacks and the false disclosures of a risk section.

    ``knows`` says in words what an intruder knows who guesses an attribute.
    """
    attacked = section.frames[ATTACKS].to_pylist() if ATTACKS in section.frames else []
    if not attacked:
        return {}
    part = section.frames[PERSON_PART].to_pylist() if PERSON_PART in section.frames else []
    reason = next((one.title for one in section.findings if one.code == "risk.person.not_measured"), "")
    return {
        FIRST_SCREEN: frame(
            [_took_part(part, reason), _people_like_them(attacked, part, knows), _told_false(attacked)]
        ),
        IN_WORDS: frame(_lines(attacked, part)),
        FALSE_DISCLOSURES: frame(_false(attacked, part)),
        LITERATURE: frame(_names()),
    }


def joined_board_frames(parts: Mapping[str, Section], limits: Mapping[str, str]) -> dict[str, pa.Table]:
    """One first screen for several parts of a release (households, single members): each sentence of the worst part.

    ``parts`` has a section for each part, by what its people are called. ``limits`` says, for a part without a bound,
    why there is none although the release may have a guarantee.
    """
    told = {name: part.frames for name, part in parts.items() if FIRST_SCREEN in part.frames}
    if not told:
        return {}
    gains = [
        {**row, "part": name}
        for name, frames in told.items()
        for row in (frames[PERSON_PART].to_pylist() if PERSON_PART in frames else [])
    ]
    sentences = []
    for place in range(len(GROUPS)):
        rows = {name: frames[FIRST_SCREEN].to_pylist()[place] for name, frames in told.items()}
        name = max(rows, key=lambda one: -1 if rows[one]["of_1000"] is None else rows[one]["of_1000"])
        if not place and gains:  # the first sentence is about the clearest gain of all
            name = clearest([row for row in gains if row["subject"] != INVENTED])["part"]
        said = rows[name]["sentence"].replace(NO_LIMIT, limits.get(name, NO_LIMIT))
        sentences.append({**rows[name], "sentence": f"Asked about {name}: {said}"})
    lines = [
        {**line, "attack": f"{line['attack']} ({name})"}
        for name, frames in told.items()
        for line in frames[IN_WORDS].to_pylist()
    ]
    literature = next(iter(told.values()))[LITERATURE]
    board = {FIRST_SCREEN: frame(sentences), IN_WORDS: frame(_by_light(lines)), LITERATURE: literature}
    return {**board, PERSON_PART: frame(gains)} if gains else board


def _took_part(part: Rows, reason: str) -> dict[str, Any]:
    """What an intruder gains because somebody took part, by the attack that gains most clearly."""
    title = "Because somebody took part"
    if not part:
        sentence = f"{reason[:1].upper()}{reason[1:]}." if reason else "This was not measured."
        return _sentence(title, sentence, None)
    worst = clearest([row for row in part if row["subject"] != INVENTED])
    inside, outside = _thousand(worst["inside"]), _thousand(worst["outside"])
    more = max(inside - outside, 0)
    low, high = _thousand(worst["gain_low"]), max(_thousand(worst["gain_high"]), more)
    surely = worst["gain_low"] > 0
    likely = (
        f"because they took part (with 95 percent confidence between {low:,} and {high:,})"
        if surely
        else f"perhaps by chance (with 95 percent confidence at most {high:,} because they took part, perhaps none)"
    )
    limit = (
        NO_LIMIT
        if worst["most_allowed"] is None
        else f"The guarantee allows at most {_thousand(worst['most_allowed'])} more: that is what the release promises."
    )
    who = "people like them who are not" if worst["by"] == "holdout" else "people like them who were left out of it"
    if worst["attack"] == MEMBERSHIP:  # what it says of people left out is wrong, however often it says it
        says = (
            f"An intruder says of {inside:,} of 1,000 people in the data that they were in the data, and also of "
            f"{outside:,} of 1,000 {who}"
        )
    else:
        says = (
            f"An intruder is right about {inside:,} of 1,000 people who are in the data and about {outside:,} of 1,000 "
            f"{who}"
        )
    sentence = f"{says}: {more:,} more, {likely}. {_how(worst)} {limit}"
    allowed = 0 if worst["most_allowed"] is None else min(_thousand(worst["most_allowed"]), 1000 - outside) - more
    groups = (
        (min(inside, outside), "said anyway" if worst["attack"] == MEMBERSHIP else "right anyway"),
        (more, "more because they took part" if surely else "more, perhaps by chance"),
        (allowed, "more that the guarantee would allow"),
    )
    return _sentence(title, sentence, more, *groups, light=worst["light"])


def _how(worst: Mapping[str, Any]) -> str:
    """The attack in everyday words, with the answer that it guesses or the people it attacks."""
    words, subject = _question(worst["attack"]), _short(worst["subject"])
    if getattr(attacks[worst["attack"]], "guesses_an_answer", False):
        about = f" (here \u2018{subject}\u2019)"
    else:
        about = f" (here {subject})" if subject in (RAREST, OUTLIERS) else ""
    tried = f"{worst['people']:,} {'person' if worst['people'] == 1 else 'people'}"
    if worst["by"] == "refits":
        tried += f" at a time, by making the release {worst['times']} times again from half of the data"
    chosen = (
        "Of all attacks this one gains most clearly"
        if worst["gain_low"] > 0
        else "No attack gains for certain. Among those tried on enough people this one has the greatest difference"
    )
    return f"{chosen}: {words[:1].lower()}{words[1:]}{about}; it was tried on {tried}."


def _people_like_them(attacked: Rows, part: Rows, knows: Callable[[str], str]) -> dict[str, Any]:
    """What the release says about everybody, whether or not they took part.

    Where people who did not take part were not asked about, nothing is said of them: a copy of the data would be right
    about everybody in it.
    """
    title = "About people like them"
    guesses = [row for row in attacked if row["attack"] == "attribute_inference" and row["guesses"]]
    if not guesses:
        return _sentence(title, "No answer could be guessed from the synthetic rows.", None)
    best = max(guesses, key=lambda row: row["residual"] if row["against"] == "baseline" else row["control"])
    others = {row["subject"]: float(row["outside"]) for row in part if row["attack"] == "attribute_inference"}
    measured = best["subject"] in others
    right = _thousand(others[best["subject"]] if measured else float(best["success"]))
    alone = _thousand(best["baseline"])
    whom = "people, with or without that person in the data" if measured else "people who are in the data"
    unknown = "" if measured else " Whether it is as many of other people was not measured."
    sentence = (
        f"Whoever knows {knows(best['subject'])} of a person guesses \u2018{best['subject']}\u2019 right for {right} "
        f"of 1,000 {whom}. From the shares of each answer alone it is {alone}.{unknown}"
    )
    first = min(right, alone)
    return _sentence(
        title, sentence, right, (first, "right from shares alone"), (right - first, "more with the release")
    )


def _told_false(attacked: Rows) -> dict[str, Any]:
    """How many would be told something false by an intruder who believes rows that agree."""
    title = "Told something false"
    claims = [row for row in attacked if row["attack"] == "attribution" and row["claims_of"]]
    if not claims:
        return _sentence(title, "No attack makes claims about single people.", None)
    worst = max(claims, key=_share_wrong)
    wrong, right = _thousand(_share_wrong(worst)), _thousand(worst["claims_right"] / worst["claims_of"])
    sentence = (
        "Somebody who knows other answers of a person, and believes the release where all synthetic rows with these "
        f"answers say the same, is told something false about \u2018{_short(worst['subject'])}\u2019 for {wrong} of "
        f"1,000 people, and something true for {right}."
    )
    by_likeness = [row for row in attacked if row["attack"] in LIKENESS and row["claims_of"]]
    if by_likeness:
        most = max(by_likeness, key=_share_wrong)
        sentence += (
            " Somebody who also believes rows that are only similar, where the most similar ones say the same, is told "
            f"something false about \u2018{_short(most['subject'])}\u2019 for {_thousand(_share_wrong(most))}."
        )
    return _sentence(title, sentence, wrong, (wrong, "told something false"), (right, "told something true"))


def _sentence(
    title: str, sentence: str, number: int | None, *groups: tuple[int, str], light: str = ""
) -> dict[str, Any]:
    """A sentence, its number, and the groups that make up a thousand people: up to three, with their texts.

    ``light`` is that of the person's part. The other sentences have none.
    """
    given = [*groups, *[(0, "")] * (len(GROUPS) - len(groups))]
    return {
        "title": title,
        "sentence": sentence,
        "of_1000": number,
        "light": light,
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
    apart = [(MEMBERSHIP, who) for who in (RAREST, INVENTED) if any(row["subject"] == who for row in part)]
    for name, who in [*((name, "") for name in names), *apart]:
        gains = [row for row in part if row["attack"] == name and (row["subject"] in (RAREST, INVENTED)) == bool(who)]
        gains = [row for row in gains if not who or row["subject"] == who]
        gain = clearest(gains) if gains else None
        rows = [row for row in attacked if row["attack"] == name and row["asked"]]
        of_people = [row for row in rows if row["claims_of"]]  # the others are shares of cells or of statements
        best = max(of_people, key=lambda row: _share(row, "successes"), default=None)
        about = (gain or best or {"subject": ""})["subject"]
        if gain is not None and not told_by_enough(gain):
            gain = best = None
        limit = None if gain is None else gain["most_allowed"]
        inside, outside = (_thousand(gain[side]) if gain else None for side in ("inside", "outside"))
        lines.append(
            {
                "light": NOT_MEASURED if gain is None else gain["light"],
                "attack": WHO.get(who) or _question(name),
                "about": about,
                "in_the_data": best and _thousand(_share(best, "successes")) if inside is None else inside,
                "not_in_the_data": outside,
                "more": None if inside is None or outside is None else inside - outside,  # as a reader subtracts
                "more_low": gain and _thousand(gain["gain_low"]),
                "more_high": gain and _thousand(gain["gain_high"]),
                "most_allowed": None if limit is None else _thousand(limit),
                "told_false": next(
                    (_thousand(_share_wrong(row)) for row in rows if row["claims_of"] and about in _subjects(row)), None
                ),
                "name": name,
            }
        )
    return _by_light(lines)


def _by_light(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    order = ("red", "amber", "green", NOT_MEASURED)
    return sorted(lines, key=lambda line: (order.index(line["light"]), -(line["more"] or 0)))


def _false(attacked: Rows, part: Rows) -> list[dict[str, Any]]:
    """Raab: a disclosure that turns out to be false also harms. What each attack claims, rightly and wrongly."""
    rows = [
        {
            "attack": row["attack"],
            "subject": row["subject"],
            "people": row["claims_of"] or None,
            "claims": row["claims"],
            "right": row["claims_right"],
            "wrong": row["claims"] - row["claims_right"],
        }
        for row in attacked
    ]
    for gain in part:  # without a holdout, who took part is told of the people of refits, as many kept as left out
        if gain["attack"] == MEMBERSHIP and gain["by"] == "refits":
            right, wrong = (round(gain[side] * gain["people"]) for side in ("inside", "outside"))
            about = {"attack": MEMBERSHIP, "subject": gain["subject"], "people": 2 * gain["people"]}
            rows.append({**about, "claims": right + wrong, "right": right, "wrong": wrong})
    return [{**row, "believed_by": getattr(attacks[row["attack"]], "believed_by", "")} for row in rows]


def _names() -> list[dict[str, Any]]:
    """What each attack is called in tables and papers."""
    return [
        {"attack": name, "in_everyday_words": _question(name), "measures": attacks[name].summary} for name in attacks
    ]


def _share_wrong(row: Mapping[str, Any]) -> float:
    """Of the people about whom an attack could claim something, those of whom it claims something false."""
    return float(row["claims"] - row["claims_right"]) / float(row["claims_of"])


def _share(row: Mapping[str, Any], what: str) -> float:
    return float(row[what]) / float(row["asked"])


def _thousand(share: float) -> int:
    return round(1000 * share)


def _subjects(row: Mapping[str, Any]) -> tuple[str, str]:
    """What an attack is about, with and without the number of the copy: refits take all copies together."""
    return row["subject"], _short(row["subject"])


def _short(subject: str) -> str:
    """An attribute without the number of the copy."""
    return subject.split(", copy ", maxsplit=1)[0]


def _question(name: str) -> str:
    if name not in attacks:
        return name.replace("_", " ")
    words: str = getattr(attacks[name], "question", attacks[name].summary)
    return words
