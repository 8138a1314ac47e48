"""Densities of numeric attributes by their values, original beside synthetic."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from understudy.figures.drawing import Drawing
from understudy.figures.evaluation_figure import Frames, draws_from, figures
from understudy.figures.house_style import ORIGINAL, SYNTHETIC, Canvas, shortened

MOST = 12


@figures.add
@draws_from("histograms")
def densities(frames: Frames) -> Drawing:
    """Step histograms of every numeric attribute between its public bounds."""
    by_attribute: dict[str, list[dict[str, Any]]] = {}
    for row in frames["histograms"].to_pylist():
        by_attribute.setdefault(row["attribute"], []).append(row)
    chosen = list(by_attribute)[:MOST]
    columns = min(3, len(chosen))
    lines = -(-len(chosen) // columns)
    canvas = Canvas(3.6 * columns, 2.4 * lines, lines, columns)
    drawn = []
    for axis, name in zip(canvas.axes.flat, chosen, strict=False):
        rows = by_attribute[name]
        drawn += rows
        edges = [row["from"] for row in rows] + [rows[-1]["to"]]
        for side, colour in (("original", ORIGINAL), ("synthetic", SYNTHETIC)):
            axis.stairs([100 * row[side] for row in rows], edges, color=colour, label=side, linewidth=1.4)
        axis.set_title(shortened(name, 30))
        axis.tick_params(labelsize=7)
        if rows[0].get("kind") == "date":
            _dates_below(axis)
    for axis in list(canvas.axes.flat)[len(chosen) :]:
        axis.set_visible(False)
    canvas.legend_above()
    canvas.figure.supylabel("percent of rows", fontsize=8)
    return canvas.finished(pa.Table.from_pylist(drawn))


def _dates_below(axis: Any) -> None:
    """Ticks that show days since 1970, which is how dates are stored, as dates."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
