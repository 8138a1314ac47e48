"""Several copies against one: for how many people the range gets narrower, and whether it still has the true rank."""

from __future__ import annotations

import pyarrow as pa

from understudy.figures.drawing import BAD, QUIET, Canvas, Drawing, shortened
from understudy.figures.evaluation_figure import Frames, draws_from, figures


@figures.add
@draws_from("rank_attribution")
def help_or_confusion(frames: Frames) -> Drawing:
    """Bars of the people helped (to the right) and confused (to the left), by attribute."""
    rows = frames["rank_attribution"].to_pylist()
    canvas = Canvas(6.4, 0.35 * len(rows) + 1.4)
    axis = canvas.axes[0, 0]
    for place, row in enumerate(rows):
        axis.barh(place, 100 * row["helped"], color=BAD, label="the intruder is helped" if place == 0 else None)
        axis.barh(place, -100 * row["confused"], color=QUIET, label="the intruder is confused" if place == 0 else None)
    axis.axvline(0, color="k", linewidth=0.6)
    axis.set_yticks(range(len(rows)), [shortened(str(row["attribute"])) for row in rows])
    axis.invert_yaxis()
    axis.set_xlabel(f"percent of people whose range is narrower with {rows[0]['copies']} copies than with one")
    axis.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=2)
    return canvas.finished(pa.Table.from_pylist(rows))
