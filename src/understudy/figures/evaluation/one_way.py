"""One-way bars: the share of every level, original beside synthetic."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from understudy.figures.drawing import ORIGINAL, SYNTHETIC, Canvas, Drawing, shortened
from understudy.figures.evaluation_figure import Frames, draws_from, figures

MOST_ATTRIBUTES, MOST_LEVELS = 24, 15


@figures.add
@draws_from("one_way")
def one_way(frames: Frames) -> Drawing:
    """Bars of every attribute. If it has many levels, only the most frequent ones are shown."""
    by_attribute: dict[str, list[dict[str, object]]] = {}
    for row in frames["one_way"].to_pylist():
        by_attribute.setdefault(row["attribute"], []).append(row)
    chosen = list(by_attribute)[:MOST_ATTRIBUTES]
    columns = min(3, len(chosen))
    lines = -(-len(chosen) // columns)
    canvas = Canvas(3.6 * columns, 2.6 * lines, lines, columns)
    drawn = []
    for axis, name in zip(canvas.axes.flat, chosen, strict=False):
        levels = by_attribute[name]
        if len(levels) > MOST_LEVELS:
            common = sorted(levels, key=lambda row: -float(row["original_percent"]))[:MOST_LEVELS]  # type: ignore[arg-type]
            levels = [row for row in levels if row in common]
        drawn += levels
        place = np.arange(len(levels))
        axis.barh(place - 0.2, [row["original_percent"] for row in levels], 0.4, color=ORIGINAL, label="original")
        axis.barh(place + 0.2, [row["synthetic_percent"] for row in levels], 0.4, color=SYNTHETIC, label="synthetic")
        axis.set_yticks(place, [shortened(str(row["level"]), 22) for row in levels], fontsize=7)
        axis.invert_yaxis()
        axis.set_title(shortened(name, 30))
    for axis in list(canvas.axes.flat)[len(chosen) :]:
        axis.set_visible(False)
    canvas.legend_above()
    canvas.figure.supxlabel("percent of rows", fontsize=8)
    return canvas.finished(pa.Table.from_pylist(drawn))
