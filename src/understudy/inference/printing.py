"""Answers as analysts print them: cross-tabulations as tables, digits that the interval supports, each note once."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, isfinite, log10
from typing import TYPE_CHECKING

from understudy.core.questions import FAMILIES
from understudy.core.result import Estimate
from understudy.errors import unknown_name
from understudy.inference.labels import MODEL, NOT_DETERMINED, RANGE, SELECTION

if TYPE_CHECKING:
    from understudy.inference.answer import Answer

FORMATS = ("text", "latex", "html", "csv")
MARKS = {RANGE: "r", SELECTION: "s", MODEL: "m", NOT_DETERMINED: "n"}
DECIMALS, MOST_DECIMALS = 3, 6
LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A table of texts with a title and notes."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def decimals(low: float, high: float) -> int:
    """How many decimals an estimate deserves: two digits of half its interval.

    >>> decimals(0.4312, 0.4788), decimals(1200.0, 1900.0)
    (3, 0)
    """
    half = (high - low) / 2
    if not isfinite(half) or half <= 0:
        return DECIMALS
    return min(MOST_DECIMALS, max(0, 1 - floor(log10(half))))


def estimate_text(one: Estimate, *, percent: bool, label: str = "") -> str:
    """An estimate with its interval, and a mark for a label below ``valid``."""
    mark = f" {MARKS[label]}" if label in MARKS else ""
    value, low, high = in_digits(one, 100.0 if percent else 1.0)
    return f"-{mark}" if value == "-" else f"{value} [{low}, {high}]{mark}"


def in_digits(one: Estimate, times: float = 1.0) -> tuple[str, str, str]:
    """An estimate and the ends of its interval, in as many digits as the interval supports.

    An interval that is open at one end has those that the other end supports. One that is open at both says nothing.
    """
    low, value, high = times * one.low, times * one.value, times * one.high
    known = [end for end in (low, high) if isfinite(end)]
    digits = 0
    if known and isfinite(value):
        digits = decimals(low, high) if len(known) == 2 else decimals(*sorted((value, 2 * value - known[0])))
    shown = f"{value:,.{digits}f}" if known and isfinite(value) else "-"
    return shown, _end(low, digits), _end(high, digits)


def _end(end: float, digits: int) -> str:
    return f"{end:,.{digits}f}" if isfinite(end) else "-inf" if end < 0 else "inf"


def lay_out(answer: Answer) -> Layout:
    """The table in which an answer is printed."""
    percent = answer.kind in ("crosstab", "proportion")
    level = f"{100 * answer.estimates[0].level:g}%"
    shown = [
        estimate_text(one, percent=percent, label=label)
        for one, label in zip(answer.estimates, answer.labels, strict=True)
    ]
    unit = "percent " if percent else ""
    if len(answer.axes) >= 2:
        *outer, (last, columns) = answer.axes
        names = [text.rsplit(", ", 1)[0] for text in answer.names[:: len(columns)]]
        rows = tuple(
            (name, *shown[place * len(columns) : (place + 1) * len(columns)]) for place, name in enumerate(names)
        )
        head = (", ".join(name for name, _ in outer), *(f"{last}={one}" for one in columns))
    elif answer.kind in FAMILIES:
        p_values = answer.p_values if answer.draws is not None else (None,) * len(shown)
        head = ("", f"coefficient [{level}]", "std. error", "p")
        rows = tuple(
            (name, text, short(error), "-" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}")
            for name, text, error, p in zip(answer.names, shown, answer.standard_errors, p_values, strict=True)
        )
    else:
        head = ("", f"{unit}estimate [{level}]", "worth")
        rows = tuple(
            (name, text, answer.information_text(place))
            for place, (name, text) in enumerate(zip(answer.names, shown, strict=True))
        )
    title = answer.question + (f" ({unit}with {level} intervals)" if len(answer.axes) >= 2 else "")
    return Layout(title=title, head=head, rows=rows, notes=_notes(answer))


def short(error: float) -> str:
    """A standard error in two digits."""
    if not isfinite(error):
        return "-"
    return f"{error:,.0f}" if error >= 10 else f"{error:.2g}"


def _notes(answer: Answer) -> tuple[str, ...]:
    """Every note once; marks are explained where they are used."""
    used = [f"{mark}: {label}" for label, mark in MARKS.items() if label in answer.labels]
    best = "All valid" if not used else "Marks: " + "; ".join([*used, "none: valid"])
    told = [f"{text[:1].upper()}{text[1:]}." for text in dict.fromkeys(answer.warnings)]
    if answer.kind in FAMILIES and answer.draws is not None:
        told.append(P_CAVEAT)
    records = "a number of records that is not public" if answer.records is None else f"{answer.records:,} records"
    return (f"From {records}; {answer.method}. {best}.", *told)


P_CAVEAT = (
    "p: two-sided, that a coefficient is 0 in the population, with noise and sampling accounted for and the posterior "
    "taken as normal; of a model-based coefficient it is only as good as the assumption. Among many coefficients some "
    "have a small p by chance."
)


def printed(answers: Sequence[Answer], form: str) -> str:
    """Some answers in a format; notes that several share are printed once, at the end."""
    if form not in FORMATS:
        raise unknown_name("format", form, FORMATS)
    if form == "csv":
        return _csv(answers)
    layouts = [lay_out(answer) for answer in answers]
    notes = tuple(dict.fromkeys(note for one in layouts for note in one.notes))
    writers = {"text": _text, "latex": _latex, "html": _html}
    return writers[form](layouts, notes)


def _text(layouts: Sequence[Layout], notes: Sequence[str]) -> str:
    lines: list[str] = []
    for one in layouts:
        widths = [max(len(row[place]) for row in (one.head, *one.rows)) for place in range(len(one.head))]
        lines += [one.title, "-" * (sum(widths) + 2 * len(widths) - 2)]
        for row in (one.head, *one.rows):
            first, *others = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append("  ".join([first, *(cell.strip().rjust(len(cell)) for cell in others)]).rstrip())
        lines.append("")
    return "\n".join([*lines, *notes])


def _latex(layouts: Sequence[Layout], notes: Sequence[str]) -> str:
    def clean(text: str) -> str:
        return "".join(LATEX.get(letter, letter) for letter in text)

    lines: list[str] = []
    for one in layouts:
        lines += [
            r"\begin{table}",
            rf"\caption{{{clean(one.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(one.head) - 1)}}}",
            r"\hline",
            " & ".join(map(clean, one.head)) + r" \\",
            r"\hline",
            *(" & ".join(map(clean, row)) + r" \\" for row in one.rows),
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
        ]
    return "\n".join([*lines, *(rf"\par\noindent {clean(note)}" for note in notes)])


def _html(layouts: Sequence[Layout], notes: Sequence[str]) -> str:
    lines: list[str] = []
    for one in layouts:
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in one.head)
        lines += [f"<table><caption>{escape(one.title)}</caption>", f"<thead><tr>{head}</tr></thead>", "<tbody>"]
        for first, *others in one.rows:
            cells = "".join(f"<td>{escape(cell)}</td>" for cell in others)
            lines.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
        lines += ["</tbody>", "</table>"]
    return "\n".join([*lines, *(f"<p>{escape(note)}</p>" for note in notes)])


def _csv(answers: Sequence[Answer]) -> str:
    """Tidy: one line for each estimate, with the levels of its attributes apart."""
    out = io.StringIO()
    axes = list(dict.fromkeys(name for answer in answers for name, _ in answer.axes))
    fixed = ["question", "name", "estimate", "standard_error", "low", "high", "level", "information", "label"]
    writer = csv.DictWriter(out, fieldnames=[*fixed[:2], *axes, *fixed[2:]], lineterminator="\n")
    writer.writeheader()
    for answer in answers:
        for row in answer.tidy():
            writer.writerow({"question": answer.question, **row})
    return out.getvalue()
