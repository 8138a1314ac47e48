"""Templates of pages: everything that is put into a page is escaped, and an unknown name is an error."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

STYLE = Path(__file__).parent / "static" / "style.css"  # of every page, also of those of the studio


def environment(folder: Path, **names: Any) -> Environment:
    """The templates of a folder. ``names`` are known to all of them."""
    made = Environment(
        loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.globals.update(names)
    made.filters["moment"] = _moment
    made.filters["sentence"] = lambda text: text[:1].upper() + text[1:]
    made.filters["number"] = lambda value: "" if value is None else f"{value:.4g}"
    return made


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
