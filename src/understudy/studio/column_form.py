"""A column as a form, and back: what a person can say about it in the fields of a page."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from understudy.core.schema import Attribute, Edge, Level, Special, level_text
from understudy.errors import InputError, SchemaError

LEFT_OUT, LEVELS, NUMBERS, DATES = "left_out", "levels", "numbers", "dates"
KINDS = {
    LEVELS: "a list of values",
    NUMBERS: "numbers",
    DATES: "dates",
    LEFT_OUT: "leave this column out",
}
OUTSIDE = {
    "error": "stop, and say how many there are",
    "clip": "count it as the nearest bin",
    "missing": "count it as missing",
}
BETWEEN = " | "  # between a value and its meaning
WHOLE = re.compile(r"[+-]?\d+")
TRUTH = {"true": True, "false": False}
FIELDS = (
    "kind", "label", "levels", "ordered", "edges", "found", "low", "high", "heavy_tail", "integer", "decimals",
    "special", "missing", "outside",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the file: what is said about it now (nothing: it is left out), and whether a person has looked."""

    name: str
    attribute: Attribute | None
    reviewed: bool = False

    @property
    def kind(self) -> str:
        if self.attribute is None:
            return LEFT_OUT
        return {"levels": LEVELS, "numeric": NUMBERS, "date": DATES}[self.attribute.kind]

    @property
    def in_short(self) -> str:
        """What is said about it, in a few words."""
        one = self.attribute
        if one is None:
            return "left out"
        if one.levels:
            shown = ", ".join(map(level_text, one.levels[:4])) + (", ..." if len(one.levels) > 4 else "")
            text = f"{len(one.levels)} values: {shown}"
        elif one.open:
            text = f"{level_text(one.bounds[0])} to {level_text(one.bounds[1])}, bins found privately"
        else:
            text = f"{level_text(one.edges[0])} to {level_text(one.edges[-1])}, {one.bins} bins"
        special = f"; {len(one.special)} special code(s)" if one.special else ""
        return f"{text}{special}{'; can be missing' if one.missing else ''}"


def fields_of(column: Column) -> dict[str, str]:
    """What the fields of the form say at first."""
    one = column.attribute
    empty = dict.fromkeys(FIELDS, "") | {"kind": column.kind, "outside": "error"}
    if one is None:
        return empty
    low, high = one.bounds if one.open else ("", "")
    return empty | {
        "label": one.label,
        "levels": "\n".join(_pairs(list(map(level_text, one.levels)), one.level_labels)),
        "ordered": _checked(one.ordered),
        "edges": "" if one.open else ", ".join(map(level_text, one.edges)),
        "found": _checked(one.open),
        "low": _shown(low),
        "high": _shown(high),
        "heavy_tail": _checked(one.heavy_tail),
        "integer": _checked(one.integer),
        "decimals": "" if one.decimals is None else str(one.decimals),
        "special": "\n".join(
            _pairs([_shown(code) for code, _ in one.special], [meaning for _, meaning in one.special])
        ),
        "missing": _checked(one.missing),
        "outside": one.outside,
    }


def column_from(column: Column, fields: Mapping[str, str]) -> Column:
    """The column as the form says it. What the form has no field for stays as it was, if the kind stays.

    Raises
    ------
    SchemaError
        If the fields contradict each other; the message names the column.
    """
    kind = fields.get("kind", "")
    if kind not in KINDS:
        raise SchemaError(f"column '{column.name}': say what is in it.")
    if kind == LEFT_OUT:
        return replace(column, attribute=None, reviewed=True)
    said: dict[str, Any] = {
        "label": fields.get("label", "").strip(),
        "missing": bool(fields.get("missing")),
        "outside": fields.get("outside") or "error",
    }
    before = column.attribute if column.kind == kind else None
    said |= _levels(column.name, fields, before) if kind == LEVELS else _bins(column.name, fields, kind)
    if before is None:
        return replace(column, attribute=Attribute(name=column.name, **said), reviewed=True)
    kept = before.declared
    if kind == LEVELS and said["levels"] != kept.levels:
        kept = replace(kept, tree=(), distances=())  # they say something about each level
    if kept.density == "log" and (said.get("bounds") or _not_positive(said.get("edges", ()))):
        kept = replace(kept, density="uniform")
    # Bounds and edges exclude each other, and what goes with bounds has no meaning beside edges.
    if kind != LEVELS and not said["bounds"]:
        said |= {"spikes": (), "cuts": (), "scale": None, "measured_in": ""}
    return replace(column, attribute=replace(kept, **said), reviewed=True)


def _levels(name: str, fields: Mapping[str, str], before: Attribute | None) -> dict[str, Any]:
    values, meanings = _read_pairs(fields.get("levels", ""))
    if not values:
        raise SchemaError(f"column '{name}': list its values, one on each line.")
    labels = tuple(meanings) if any(meanings) else ()
    return {"levels": _typed(values, before), "level_labels": labels, "ordered": bool(fields.get("ordered"))}


def _typed(values: Sequence[str], before: Attribute | None) -> tuple[Level, ...]:
    """Values of the kind that they were before, where all of them still can be; else texts."""
    first = before.levels[0] if before is not None and before.levels else None
    if isinstance(first, bool) and all(value in TRUTH for value in values):
        return tuple(TRUTH[value] for value in values)
    if isinstance(first, int) and all(WHOLE.fullmatch(value) and str(int(value)) == value for value in values):
        return tuple(int(value) for value in values)
    return tuple(values)


def _bins(name: str, fields: Mapping[str, str], kind: str) -> dict[str, Any]:
    read = _date if kind == DATES else _number
    special = tuple(
        (_special(name, code, kind), meaning or f"code {code}")
        for code, meaning in zip(*_read_pairs(fields.get("special", "")), strict=True)
    )
    decimals = fields.get("decimals", "").strip()
    if decimals and not re.fullmatch(r"\d", decimals):
        raise SchemaError(f"column '{name}': digits after the point ({decimals}) must be a number from 0 to 9.")
    said: dict[str, Any] = {
        "special": special,
        "integer": bool(fields.get("integer")) and kind == NUMBERS,
        "decimals": int(decimals) if decimals and kind == NUMBERS else None,
    }
    if fields.get("found"):
        ends = tuple(read(name, fields.get(end, "").strip()) for end in ("low", "high"))
        return said | {"bounds": ends, "edges": (), "heavy_tail": bool(fields.get("heavy_tail"))}
    texts = [text for text in re.split(r"[,;\s]+", fields.get("edges", "")) if text]
    if len(texts) < 2:
        raise SchemaError(f"column '{name}': give at least two edges, such as {_example(kind)}.")
    return said | {"edges": tuple(read(name, text) for text in texts), "bounds": (), "heavy_tail": False}


def _example(kind: str) -> str:
    return "2000-01-01, 2010-01-01, 2020-01-01" if kind == DATES else "0, 10, 20, 50"


def _number(name: str, text: str) -> Edge:
    try:
        return int(text) if WHOLE.fullmatch(text) else float(text)
    except ValueError:
        raise SchemaError(f"column '{name}': '{text}' is not a number; write it as 12 or 12.5.") from None


def _date(name: str, text: str) -> Edge:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise SchemaError(f"column '{name}': '{text}' is not a date; write it as 2026-01-31.") from None


def _special(name: str, text: str, kind: str) -> Special:
    if kind == DATES:
        return _date(name, text)
    try:
        return _number(name, text)
    except InputError:
        return text  # a text beside numbers, such as N


def _read_pairs(text: str) -> tuple[list[str], list[str]]:
    """Lines of a value and perhaps its meaning, behind a bar."""
    values, meanings = [], []
    for line in text.splitlines():
        if not line.strip():
            continue
        value, bar, meaning = f"{line} ".rpartition(BETWEEN)
        values.append((value if bar else line).strip())
        meanings.append(meaning.strip() if bar else "")
    return values, meanings


def _pairs(values: Sequence[str], meanings: Sequence[str]) -> list[str]:
    told = meanings or [""] * len(values)
    return [
        f"{value}{BETWEEN}{meaning}" if meaning or BETWEEN in f"{value} " else value
        for value, meaning in zip(values, told, strict=True)
    ]


def _not_positive(edges: Sequence[Edge]) -> bool:
    return any(not isinstance(edge, int | float) or edge <= 0 for edge in edges[:1])


def _checked(flag: bool) -> str:
    return "yes" if flag else ""


def _shown(value: Special) -> str:
    return value if isinstance(value, str) else level_text(value)
