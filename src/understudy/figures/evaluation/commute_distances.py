"""Average commute of every destination against its size, true and synthetic: figures 1 to 4 of the commuting paper."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from understudy.figures.drawing import ORIGINAL, SYNTHETIC, Canvas, Drawing, ticks_at
from understudy.figures.evaluation_figure import Frames, draws_from, figures

MOST_POINTS = 4_000
PANELS = (("all commutes", "true", "synthetic"), ("short commutes", "true_short", "synthetic_short"))


@figures.add
@draws_from("destinations")
def commute_distances(frames: Frames) -> Drawing:
    """One point for each destination and table, by the number of workers at the destination."""
    rows = frames["destinations"].to_pylist()
    step = max(1, len(rows) // MOST_POINTS)
    rows = rows[::step]
    canvas = Canvas(9.0, 3.8, columns=2)
    for axis, (title, true, synthetic) in zip(canvas.axes[0], PANELS, strict=True):
        for name, column, colour in (("true", true, ORIGINAL), ("synthetic", synthetic, SYNTHETIC)):
            shown = [(row["workers"], row[column]) for row in rows if row[column] is not None]
            x, y = np.array(shown, dtype=float).T if shown else ([], [])
            axis.scatter(x, y, s=4, alpha=0.35, color=colour, linewidths=0, label=name, rasterized=True)
        axis.set_xscale("log")
        largest = max(row["workers"] for row in rows)
        ticks_at(axis.xaxis, [10**power for power in range(len(str(largest)))])
        axis.set_title(title)
        axis.set_xlabel("workers at the destination")
    canvas.axes[0, 0].set_ylabel("average commute, miles")
    canvas.axes[0, 0].legend(frameon=False, markerscale=3)
    return canvas.finished(pa.Table.from_pylist(rows))
