"""How figures look: their colours, their settings, and the canvas that they are drawn on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from understudy.errors import MissingExtraError
from understudy.figures.drawing import Drawing

ORIGINAL, SYNTHETIC, BAD, QUIET = "#3b4a6b", "#d1782b", "#a3243b", "#b8bec9"
STYLE: Any = {
    "text.parse_math": False,  # a dollar sign in a name is no mathematics
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
}


class Canvas:
    """A matplotlib figure with a grid of axes."""

    def __init__(self, width: float, height: float, rows: int = 1, columns: int = 1) -> None:
        from matplotlib.figure import Figure as MatplotlibFigure

        self.figure: Any = MatplotlibFigure(figsize=(width, height), layout="constrained")
        self.axes: Any = self.figure.subplots(rows, columns, squeeze=False)

    def legend_above(self) -> None:
        """The legend of the first axes, above all axes, so that it covers nothing."""
        handles, labels = self.axes[0, 0].get_legend_handles_labels()
        self.figure.legend(
            handles, labels, frameon=False, fontsize=8, loc="outside upper right", ncols=max(1, len(labels))
        )

    def finished(self, table: Any) -> Drawing:
        """The drawing of a table, with its final layout."""
        self.figure.draw_without_rendering()
        self.figure.set_layout_engine("none")
        return Drawing(table=table, figure=self.figure)


def house_style() -> AbstractContextManager[None]:
    """The house style while a figure is drawn: matplotlib reads the settings when it makes each part."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("figures need matplotlib; install it with: pip install 'understudy[report]'") from None
    context: AbstractContextManager[None] = matplotlib.rc_context(STYLE)
    return context


def shortened(text: str, most: int = 42) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
