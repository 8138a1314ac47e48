"""Risk per attribute and attack: residual risk with its interval."""

from __future__ import annotations

import pyarrow as pa

from understudy.figures.drawing import BAD, ORIGINAL, Canvas, Drawing, shortened
from understudy.figures.evaluation_figure import Frames, draws_from, figures

MOST = 40


@figures.add
@draws_from("attacks")
def risk_by_attribute(frames: Frames) -> Drawing:
    """Every target of every attack, the largest risk first; red if the risk of people in the data is surely higher.

    Targets for which no guess was possible are left out, unless this is so for all of them.
    """
    listed = frames["attacks"].to_pylist()
    tried = [row for row in listed if row.get("guesses") != 0] or listed
    rows = sorted(tried, key=lambda row: -row["residual_low"])[:MOST]
    canvas = Canvas(7.2, 0.24 * len(rows) + 1.2)
    axis = canvas.axes[0, 0]
    for place, row in enumerate(rows):
        colour = BAD if row["residual_low"] > 0 and row.get("personal") else ORIGINAL
        axis.plot([row["residual_low"], row["residual_high"]], [place, place], color=colour, linewidth=1.6)
        axis.plot(row["residual"], place, "o", color=colour, markersize=4)
    axis.axvline(0, color="k", linewidth=0.6)
    axis.set_yticks(range(len(rows)), [shortened(f"{row['attack']}: {row['subject']}", 50) for row in rows], fontsize=7)
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlim(-1.05, 1.05)
    axis.set_xlabel("success beyond guessing (0: nothing, 1: everything)")
    return canvas.finished(pa.Table.from_pylist(rows))
