"""The pieces a report is made of: tables to read and to download, and pictures with the table behind them."""

from __future__ import annotations

import base64
import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.core.spreadsheet import as_cell
from understudy.figures.drawing import Drawing

MOST_ROWS_SHOWN = 12
MOST_ROWS_KEPT = 5_000  # in a download: a report stays a file that can be mailed


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
    """A table of records; columns are those of the first. ``chosen`` are shown of them, in this order, if there are."""
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
