"""What the command line needs about mechanisms beside ``audit``, ``calibrate`` and ``prior_table``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

    from understudy.figures.drawing import Drawing


def draw_priors(table: pyarrow.Table, *, title: str = "") -> Drawing:
    """What ``prior_table`` gave, as bars."""
    from understudy.figures.privacy_curve import prior_bars

    return prior_bars(table, title=title)
