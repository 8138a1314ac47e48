"""Densities of numeric attributes by their values, original beside synthetic."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from understudy.figures.drawing import ORIGINAL, SYNTHETIC, Canvas, Drawing, shortened
from understudy.figures.evaluation_figure import Frames, draws_from, figures

MOST = 12


@figures.add
@draws_from("histograms")
def densities(frames: Frames) -> Drawing:
    """Step histograms of every numeric attribute between its public bounds, amounts with a long tail on a log scale.
    Small strokes below are the ends of bins that were found inside the budget."""
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
        elif rows[0].get("scale"):
            _amounts_below(axis, rows[0]["scale"])
        if rows[0].get("found_edges"):
            ends = [float(edge) for edge in rows[0]["found_edges"].split()]
            axis.plot(ends, [0.0] * len(ends), "|", color="black", markersize=7, clip_on=False)
    for axis in list(canvas.axes.flat)[len(chosen) :]:
        axis.set_visible(False)
    canvas.legend_above()
    canvas.figure.supylabel("percent of rows", fontsize=8)
    return canvas.finished(pa.Table.from_pylist(drawn))


def _amounts_below(axis: Any, scale: float) -> None:
    """A scale that is linear up to a small amount and logarithmic beyond, with ticks such as 0.1 and 10k."""
    from matplotlib.ticker import EngFormatter

    short = EngFormatter(sep="")
    axis.set_xscale("symlog", linthresh=scale)
    axis.xaxis.set_major_formatter(lambda value, _: short(value) if abs(value) >= 1000 else f"{value:g}")


def _dates_below(axis: Any) -> None:
    """Ticks that show days since 1970, which is how dates are stored, as dates."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=6)  # type: ignore[no-untyped-call]
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
