"""Risk against epsilon: the success of each attack beyond guessing, for every release."""

from __future__ import annotations

import pyarrow as pa

from understudy.figures.drawing import Canvas, Drawing, round_ticks
from understudy.figures.evaluation_figure import Frames, draws_from, figures


@figures.add
@draws_from("risk_by_epsilon")
def risk_by_epsilon(frames: Frames) -> Drawing:
    """A line for each attack. A release without a guarantee is drawn at the right end."""
    rows = frames["risk_by_epsilon"].to_pylist()
    canvas = Canvas(6.4, 4.0)
    axis = canvas.axes[0, 0]
    known = [row["epsilon"] for row in rows if row["epsilon"] is not None]
    end = 10 * max(known, default=1.0)
    for attack in dict.fromkeys(row["attack"] for row in rows):
        own = sorted(
            ((row["epsilon"] or end, row["residual"]) for row in rows if row["attack"] == attack), key=lambda at: at[0]
        )
        axis.plot([x for x, _ in own], [y for _, y in own], "o-", markersize=3, linewidth=1.2, label=attack)
    axis.set_xscale("log")
    round_ticks(axis.xaxis, [*known, end])
    axis.axhline(0, color="k", linewidth=0.6)
    axis.set_xlabel(f"epsilon (no guarantee: at {end:g})")
    axis.set_ylabel("residual risk, the largest of all targets")
    axis.legend(frameon=False, fontsize=7)
    return canvas.finished(pa.Table.from_pylist(rows))
