"""The command that recomputes what papers printed."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.cli.options import AsJson


def reproduce(
    *,
    papers: Annotated[list[str] | None, typer.Argument(metavar="[PAPER...]", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute the numbers that papers printed: published value, computed value, the reading used, a verdict.

    Example: `understudy reproduce`
    """
