"""The sections of a report, each from what the report was given: how it was made, privacy, utility, risk, inference."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from understudy.core.questions import KINDS
from understudy.core.result import Evaluation, Finding, Section
from understudy.core.spreadsheet import as_cell
from understudy.figures.drawing import Drawing, house_style
from understudy.figures.evaluation.first_screen import thousand
from understudy.figures.evaluation_figure import drawable, figures
from understudy.figures.promise import beliefs, noise_by_table, proved_profile
from understudy.inference.answer import Answer
from understudy.inference.labels import REFUSED, VALID, worst
from understudy.inference.validity import OF_ITS_KIND, validity_of
from understudy.release.kind import Summary
from understudy.reporting.promise_in_words import beliefs_of, odds_of, profile_of

CAPTIONS = {
    "two_way": (
        "Every pair of attributes",
        "How well the release keeps each two-way table: 1 is a correct model, below 10 is good. A dot: not in "
        "the model.",
    ),
    "worst_tables": ("The worst tables", "Where original and synthetic counts differ most."),
    "one_way": ("One attribute at a time", "Original and synthetic shares."),
    "densities": ("Numbers", "Original and synthetic distributions."),
    "propensity_scores": (
        "Can a classifier tell?",
        "The scores of a classifier that tries to distinguish original from synthetic rows.",
    ),
    "forest": ("Regressions", "Coefficients and their intervals, from the original and from the synthetic rows."),
    "risk_by_attribute": (
        "Every attack",
        "How often each attack is right, beyond guessing from the share of each answer, with intervals. It can be "
        "right about people in the data and about others. Red: surely more often about people in the data.",
    ),
    "attacker_ranges": ("What an intruder's range is", "The ranks that are possible for an intruder, copy by copy."),
    "help_or_confusion": (
        "Help or confusion?",
        "Whether more copies make an intruder's range narrower, or miss the true rank.",
    ),
    "membership_roc": (
        "Was somebody in the data?",
        "True positives against false positives; the diagonal is guessing.",
    ),
    "tradeoff": ("Utility against epsilon", "Several releases of the same data, side by side."),
    "risk_by_epsilon": ("Risk against epsilon", "Several releases of the same data, side by side."),
}
UTILITY_TABLES = {
    "ways": "Tables by the number of attributes",
    "tables": "All compared tables, the worst first",
    "weighted": "Weighted shares, original and synthetic",
    "propensity": "Can a classifier tell?",
    "giveaways": "What gives synthetic rows away",
    "regression_models": "Regressions compared",
    "omissions": "What was not computed, and why",
}
RISK_TABLES = {
    "in_everyday_words": "Every attack in everyday words, per 1,000 people",
    "person_part": "What an intruder gains because somebody took part",
    "false_disclosures": "False disclosures: claims made, right and wrong",
    "names_in_the_literature": "The attacks and their names in the literature",
    "attacks": "Attacks: success, baseline, control, residual risk",
    "attribution": "What could be attributed, by attribute",
    "attribution_levels": "Levels that carry the risk",
    "anonymity": "Anonymity of the release",
    "uniqueness": "Unique people, and uniques that came back",
}
# What a reader needs of the widest tables; the rest is in the download.
COLUMNS = {
    "ways": (
        "way", "tables", "mean_s_pmse", "worst_table", "worst_s_pmse", "good", "usable", "poor", "k_marginal_score",
    ),
    "tables": ("way", "table", "cells", "df", "s_pmse", "band", "tvd", "covered"),
    "propensity": ("classifier", "form", "s_pmse", "pmse", "auc", "band", "null"),
    "regression_models": (
        "model", "family", "mean_overlap", "same_sign_percent", "same_significance_percent", "covered",
    ),
    "in_everyday_words": (
        "light", "attack", "in_the_data", "not_in_the_data", "more", "more_low", "more_high", "most_allowed",
        "told_false",
    ),
    "person_part": (
        "attack", "subject", "by", "times", "inside", "outside", "gain", "gain_low", "gain_high", "most_allowed",
        "light",
    ),
    "attacks": (
        "attack", "subject", "guesses", "success", "baseline", "control", "residual", "residual_low", "residual_high",
        "note",
    ),
    "attribution": ("tables", "copy", "target", "iS", "DiS", "DiSCO", "DiSDiO", "DCAP", "baseCAP"),
}  # fmt: skip
SEVERITIES = ("problem", "warning", "good", "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A section's pictures, the tables worth reading, and the others for download."""

    pictures: tuple[Picture, ...] = ()
    grids: tuple[Grid, ...] = ()
    more: tuple[Grid, ...] = ()
    findings: Grid | None = None
    in_short: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A sentence of the first screen with its number and its picture."""

    title: str
    number: str
    sentence: str
    picture: Picture


def made_of(subject: Summary) -> Part:
    """The plan and the measurements: what was asked of the data, and how much noise each answer has."""
    measured = list(subject.measured)
    pictures: tuple[Picture, ...] = ()
    if measured:
        import pyarrow as pa

        caption = (
            "Each bar is a table of noisy counts; the number is the standard deviation of the noise on one count, so "
            "two counts closer than about twice that cannot be told apart."
        )
        pictures = (
            picture("noise", "Noise on each measured table", caption, noise_by_table(pa.Table.from_pylist(measured))),
        )
    steps = [] if subject.provenance.plan is None else [
        {
            "step": step.label, "action": step.action,
            "table": " × ".join(step.margin) or ("" if step.cells else "chosen during the run"),
            "cells": step.cells or None, "noise_sd": step.standard_deviation,
            "times": f"up to {step.repeats}" if subject.provenance.plan.adaptive else step.repeats,
        }
        for step in subject.provenance.plan.steps
    ]  # fmt: skip
    drawn = [
        {
            "draw": draw.get("label", ""),
            "mechanism": one["mechanism"],
            "prior": one.get("prior"),
            "rows": one.get("rows"),
        }
        for draw in subject.provenance.draws
        for one in draw.get("mechanisms", ())
    ]
    chosen = subject.provenance.plan is not None and subject.provenance.plan.adaptive  # the plan names no tables
    listed = (
        grid("plan", _plan_title(subject), steps, shown=MOST_STEPS),
        grid("measured", "What was measured, table by table", measured, shown=MOST_STEPS)
        if chosen
        else grid("", "", ()),
        grid("draws", "Draws straight from the data", drawn, shown=MOST_STEPS),
    )
    attributes = [dict(one) for one in subject.domain]
    book = grid("attributes", "The attributes", attributes, shown=MOST_STEPS)
    return Part(pictures=pictures, grids=tuple(one for one in listed if one.total), more=(book,) if book.total else ())


def _plan_title(subject: Summary) -> str:
    adaptive = subject.provenance.plan is not None and subject.provenance.plan.adaptive
    return "The plan: the most the run was allowed to do" if adaptive else "The plan: every use of the data"


def privacy_pictures(subject: Summary) -> Part:
    """The deltas that the recorded events prove, and how far beliefs can change."""
    import pyarrow as pa

    profile = profile_of(subject)
    if not profile:
        return Part()
    odds = odds_of(subject.statement.guarantee)
    stated = None if odds.epsilon is None else (odds.epsilon, odds.delta)
    return Part(
        pictures=(
            picture(
                "profile",
                "What the recorded events prove",
                "For every epsilon the delta that the recorded events prove: the chance that the odds move by more "
                "than e^epsilon is no larger.",
                proved_profile(pa.Table.from_pylist(profile), stated=stated),
            ),
            picture(
                "beliefs",
                "How far a belief can move",
                "What somebody believed about one person before, and the most they may believe after, if they know "
                "everything else.",
                beliefs(pa.Table.from_pylist(beliefs_of(subject))),
            ),
        )
    )


def utility_of(evaluation: Evaluation) -> Part:
    return replace(
        _part(evaluation.utility, evaluation, UTILITY_TABLES, "utility"), in_short=_worth(evaluation.utility)
    )


def risk_of(evaluation: Evaluation, *, copies: int) -> Part:
    # With one copy there is nothing to compare.
    without = ("help_or_confusion",) if copies == 1 else ()
    without = ("first_screen", *without)  # it is at the top of the page
    return _part(evaluation.risk, evaluation, RISK_TABLES, "risk", without=without)


def _worth(section: Section) -> tuple[str, ...]:
    """The tables of two attributes (or of as many as were compared) in one sentence."""
    frame = section.frames.get("ways")
    rows = [] if frame is None else [row for row in frame.to_pylist() if row["mean_s_pmse"] is not None]
    if not rows:
        return ()
    row = next((one for one in rows if one["way"] == 2), rows[-1])
    return (
        f"Of {row['tables']:,} tables of {_attributes(row['way'])}, {row['good']:,} are good, {row['usable']:,} usable "
        f"and {row['poor']:,} poor. Their mean S_pMSE is {shown_value(row['mean_s_pmse'])}: 1 is what a correct model "
        "gives, below 10 is good, below 30 usable. The worst: "
        f"{row['worst_table']} ({shown_value(row['worst_s_pmse'])}).",
    )


def _attributes(way: int) -> str:
    return {1: "one attribute", 2: "two attributes", 3: "three attributes"}.get(way, f"{way} attributes")


def first_screen_of(evaluation: Evaluation) -> tuple[Said, ...]:
    """The three sentences about risk, each with a thousand people."""
    frame = evaluation.risk.frames.get("first_screen")
    if frame is None:
        return ()
    with house_style():
        return tuple(
            Said(
                title=row["title"],
                number="" if row["of_1000"] is None else f"{row['of_1000']:,}{'' if place else ' more'}",
                sentence=row["sentence"],
                picture=picture(f"people-{place}", row["title"], row["sentence"], thousand(place, row)),
            )
            for place, row in enumerate(frame.to_pylist())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An attack in everyday words with its light; numbers are people of 1,000, empty where they were not measured."""

    light: str
    attack: str
    inside: str
    outside: str
    more: str
    allowed: str
    told_false: str


def attack_lines_of(evaluation: Evaluation) -> tuple[Line, ...]:
    """One line for each attack, the gravest first."""
    frame = evaluation.risk.frames.get("in_everyday_words")
    return tuple(
        Line(
            light=row["light"],
            attack=row["attack"],
            inside=shown_value(row["in_the_data"]),
            outside=shown_value(row["not_in_the_data"]),
            more=shown_value(None if row["more"] is None else max(row["more"], 0)),
            allowed=shown_value(row["most_allowed"]),
            told_false=shown_value(row["told_false"]),
        )
        for row in ([] if frame is None else frame.to_pylist())
    )


def _part(
    section: Section, evaluation: Evaluation, named: Mapping[str, str], side: str, *, without: Sequence[str] = ()
) -> Part:
    frames = {name: frame for name, frame in section.frames.items() if frame.num_columns and frame.num_rows}
    everything = {**evaluation.utility.frames, **evaluation.risk.frames}
    pictures = []
    for name in sorted(drawable(everything), key=_place):
        wanted = figures[name].needs  # type: ignore[attr-defined]
        if name not in without and all(need in section.frames for need in wanted):
            title, caption = CAPTIONS.get(name, (name.replace("_", " "), ""))
            pictures.append(picture(f"{side}-{name}", title, caption, figures[name](everything)))
    listed = [
        {"severity": one.severity, "finding": one.title, "value": one.value, "reference": one.reference}
        for one in sorted(section.findings, key=lambda one: SEVERITIES.index(one.severity))
    ]
    return Part(
        pictures=tuple(pictures),
        grids=tuple(_framed(name, title, frames[name]) for name, title in named.items() if name in frames),
        more=tuple(_framed(name, name.replace("_", " "), frame) for name, frame in frames.items() if name not in named),
        findings=grid(f"{side}-findings", "Findings", listed, shown=60) if listed else None,
    )


def _place(name: str) -> int:
    """Pictures in the order of ``CAPTIONS``, others after them."""
    return list(CAPTIONS).index(name) if name in CAPTIONS else len(CAPTIONS)


def _framed(name: str, title: str, frame: Any) -> Grid:
    rows = frame.to_pylist()
    if name == "tables" and rows and "s_pmse" in rows[0]:
        rows.sort(key=lambda row: -(row["s_pmse"] if row["s_pmse"] is not None else -math.inf))
    return grid(name, title, rows, chosen=COLUMNS.get(name, ()))


def findings_of(evaluation: Evaluation) -> list[tuple[Finding, str]]:
    """What the evaluation warns of, the gravest first, with its text for the top of the page."""
    found: list[tuple[Finding, str]] = []
    for one in sorted(evaluation.findings, key=lambda finding: SEVERITIES.index(finding.severity)):
        if one.severity in ("warning", "problem"):
            number = isinstance(one.value, int | float) and not isinstance(one.value, bool)
            told = shown_value(one.value) if number else ""
            shown = f": {told}" if told and told not in one.title else ""
            found.append((one, f"{one.title[:1].upper()}{one.title[1:]}{shown}."))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """An answer to show: the question, how it was answered, and its estimates."""

    question: str
    method: str
    validity: str
    level: str
    warnings: tuple[str, ...]
    grid: Grid


def answers_of(answers: Sequence[Answer]) -> tuple[Answered, ...]:
    shown = []
    for number, answer in enumerate(answers, start=1):
        rows = [
            {
                "estimate of": name, "estimate": one.value, "low": one.low, "high": one.high, "standard error": error,
                "worth": answer.information_text(place),
            }
            for place, (name, one, error) in enumerate(
                zip(answer.names, answer.estimates, answer.standard_errors, strict=True)
            )
        ]  # fmt: skip
        shown.append(
            Answered(
                question=answer.question,
                method=answer.method,
                validity=answer.validity,
                level=f"{100 * answer.estimates[0].level:g}%",
                warnings=tuple(f"{text[:1].upper()}{text[1:]}." for text in answer.warnings),
                grid=grid(f"answer-{number}", answer.question, rows, shown=30),
            )
        )
    return tuple(shown)


def expectations_of(subject: Summary) -> Grid | None:
    """The best label that answers from this release can get, by kind of question."""
    if subject.tables is None:
        return None
    allowed = validity_of(subject.tables)
    grouped: dict[tuple[str, str], list[str]] = {}
    for kind in KINDS:
        label, why = OF_ITS_KIND.get(kind, (VALID, ""))
        status = REFUSED if allowed.status == REFUSED else worst((allowed.status, label))
        note = "; ".join(text for text in (why if status != REFUSED else "", allowed.note) if text)
        grouped.setdefault((status, note), []).append(kind)
    rows = [
        {"questions": ", ".join(kinds), "answers, at best": status, "note": note}
        for (status, note), kinds in grouped.items()
    ]
    return grid("expectations", "What analysts can expect", rows, shown=len(KINDS))


# The pieces a report is made of: tables to read and to download, and pictures with the table behind them.

MOST_STEPS = 400  # a plan is shown in full; longer ones are in the download
MOST_ROWS_SHOWN = 12
MOST_ROWS_KEPT = 5_000  # rows in a download: a report must remain small enough to be mailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table: what is shown of it, and all of it as CSV."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[bool, ...]  # numbers stand on the right
    total: int
    csv: str  # a data address
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure as a picture that cannot run anything, with its table."""

    name: str
    title: str
    caption: str
    image: str  # a data address
    grid: Grid


def grid(
    name: str,
    title: str,
    rows: Iterable[Mapping[str, Any]],
    *,
    shown: int = MOST_ROWS_SHOWN,
    note: str = "",
    chosen: Sequence[str] = (),
) -> Grid:
    """A table of records, with the columns of the first. Of the columns, ``chosen`` are shown, in this order."""
    listed = list(rows)
    everything = tuple(listed[0]) if listed else ()
    columns = tuple(column for column in chosen if column in everything) or everything
    kept = listed[:MOST_ROWS_KEPT]
    if len(columns) < len(everything):
        note = f"{note} The download has all {len(everything)} columns.".strip()
    if len(kept) < len(listed):
        note = f"{note} The download has the first {len(kept):,} of {len(listed):,} rows.".strip()
    right = tuple(all(_is_number(row.get(column)) for row in listed[:200]) for column in columns)
    return Grid(
        name=name,
        title=title,
        columns=columns,
        rows=tuple(tuple(shown_value(row.get(column)) for column in columns) for row in listed[:shown]),
        right=right,
        total=len(listed),
        csv=_data("text/csv", _csv(everything, kept)),
        note=note,
    )


def picture(name: str, title: str, caption: str, drawing: Drawing) -> Picture:
    """A drawing as an image address: an SVG in an image runs no script and reaches no network."""
    return Picture(
        name=name,
        title=title,
        caption=caption,
        image=_data("image/svg+xml", drawing.svg),
        grid=grid(name, title, drawing.table.to_pylist()),
    )


def shown_value(value: Any) -> str:
    """A value as a person reads it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "" if math.isnan(value) else ("∞" if value > 0 else "−∞")
        return f"{value:,.0f}" if value == int(value) and 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return ", ".join(shown_value(one) for one in value)
    return str(value)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_safe(column) for column in columns])
    for row in rows:
        writer.writerow([_safe(row.get(column)) for column in columns])
    return out.getvalue()


def _safe(value: Any) -> Any:
    """What a cell of a download holds."""
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    if isinstance(value, str):
        return as_cell(value)
    return "" if value is None else value


def _data(kind: str, text: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"
