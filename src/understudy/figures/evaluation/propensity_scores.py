"""Histograms of propensity scores: if both are equal, the classifier cannot distinguish the tables."""

from __future__ import annotations

from understudy.figures.drawing import ORIGINAL, SYNTHETIC, Canvas, Drawing
from understudy.figures.evaluation_figure import Frames, draws_from, figures


@figures.add
@draws_from("propensity_histogram")
def propensity_scores(frames: Frames) -> Drawing:
    """Scores of original and of synthetic rows, by classifier."""
    table = frames["propensity_histogram"]
    rows = table.to_pylist()
    names = list(dict.fromkeys(row["classifier"] for row in rows))
    canvas = Canvas(3.6 * len(names), 2.8, 1, len(names))
    for axis, name in zip(canvas.axes[0], names, strict=True):
        chosen = [row for row in rows if row["classifier"] == name]
        edges = [row["from"] for row in chosen] + [chosen[-1]["to"]]
        for side, colour in (("original", ORIGINAL), ("synthetic", SYNTHETIC)):
            axis.stairs([100 * row[side] for row in chosen], edges, color=colour, label=side, linewidth=1.4)
        axis.set_title(name)
        axis.set_xlabel("propensity score")
    canvas.axes[0, 0].set_ylabel("percent of rows")
    canvas.legend_above()
    return canvas.finished(table)
