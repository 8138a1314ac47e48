"""Forest plot of regressions: every coefficient with its interval, original above synthetic."""

from __future__ import annotations

import pyarrow as pa

from understudy.figures.drawing import ORIGINAL, SYNTHETIC, Canvas, Drawing, shortened
from understudy.figures.evaluation_figure import Frames, draws_from, figures

MOST = 40  # coefficients of one model
ENDS = ("original_low", "original_high", "synthetic_low", "synthetic_high")


@figures.add
@draws_from("regressions")
def forest(frames: Frames) -> Drawing:
    """Coefficients without the intercept, with 95 percent intervals, in units of the original's standard error."""
    by_model: dict[str, list[dict[str, float]]] = {}
    for row in frames["regressions"].to_pylist():
        if row["term"] != "(intercept)" and row["original_se"] and None not in (row[name] for name in ENDS):
            by_model.setdefault(row["model"], []).append(row)
    by_model = {model: rows[:MOST] for model, rows in by_model.items()}
    lengths = [max(3, len(rows)) for rows in by_model.values()] or [3]
    canvas = Canvas(8.0, sum(0.34 * length + 0.9 for length in lengths), max(1, len(by_model)), 1)
    canvas.figure.get_layout_engine().set(h_pad=0.08)
    drawn = []
    for axis, (model, rows) in zip(canvas.axes[:, 0], by_model.items(), strict=False):
        drawn += rows
        for place, row in enumerate(rows):
            unit = row["original_se"]
            for side, colour, shift in (("original", ORIGINAL, -0.14), ("synthetic", SYNTHETIC, 0.14)):
                ends = [row[f"{side}_low"] / unit, row[f"{side}_high"] / unit]
                axis.plot(ends, [place + shift] * 2, color=colour, linewidth=1.6)
                first = side if place == 0 else None
                axis.plot(row[side] / unit, place + shift, "o", color=colour, markersize=4, label=first)
        axis.axvline(0, color="k", linewidth=0.6)
        axis.set_yticks(range(len(rows)), [shortened(str(row["term"]), 40) for row in rows])
        axis.set_ylim(max(3, len(rows)) - 0.4, -0.6)  # a model with one coefficient is not enlarged
        axis.set_title(shortened(model, 80))
    if drawn:
        canvas.axes[0, 0].legend(frameon=False, fontsize=8)
    canvas.axes[-1, 0].set_xlabel("coefficient / standard error of the original")
    return canvas.finished(pa.Table.from_pylist(drawn))
