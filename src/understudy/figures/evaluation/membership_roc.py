"""Membership inference as an ROC curve: true positives against false positives."""

from __future__ import annotations

import pyarrow as pa

from understudy.figures.drawing import BAD, ORIGINAL, QUIET, Canvas, Drawing
from understudy.figures.evaluation_figure import Frames, draws_from, figures


@figures.add
@draws_from("membership_curve")
def membership_roc(frames: Frames) -> Drawing:
    """A curve for each score. The diagonal is guessing by a coin."""
    rows = frames["membership_curve"].to_pylist()
    canvas = Canvas(4.8, 4.6)
    axis = canvas.axes[0, 0]
    axis.plot([0, 1], [0, 1], color=QUIET, linewidth=1)
    for score, colour in zip(dict.fromkeys(row["score"] for row in rows), (BAD, ORIGINAL), strict=False):
        own = [row for row in rows if row["score"] == score]
        false, true = ([row[key] for row in own] for key in ("false_positive_rate", "true_positive_rate"))
        axis.plot(false, true, color=colour, linewidth=1.4, label=score)
    axis.set_xlabel("false positive rate")
    axis.set_ylabel("true positive rate")
    axis.legend(frameon=False, fontsize=8)
    return canvas.finished(pa.Table.from_pylist(rows))
