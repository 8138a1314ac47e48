"""The attacker's ranges: the ranks that several copies give for an attribute of a person, and the true rank."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from understudy.figures.drawing import BAD, ORIGINAL, QUIET, SYNTHETIC, Canvas, Drawing
from understudy.figures.evaluation_figure import Frames, draws_from, figures

PEOPLE = 20
ATTRIBUTES = 3


@figures.add
@draws_from("rank_ranges")
def attacker_ranges(frames: Frames) -> Drawing:
    """Table 3 of Ruiz et al. as a picture: a line per person, a mark per copy, a diamond for the truth."""
    by_attribute: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for row in frames["rank_ranges"].to_pylist():
        by_attribute.setdefault(row["attribute"], {}).setdefault(row["record"], []).append(row)
    chosen = dict(list(by_attribute.items())[:ATTRIBUTES])
    canvas = Canvas(4.2 * len(chosen), 5.2, 1, len(chosen))
    drawn = []
    for axis, (attribute, people) in zip(canvas.axes[0], chosen.items(), strict=True):
        for place, rows in enumerate(list(people.values())[:PEOPLE]):
            drawn += rows
            low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
            truth = rows[0]["true_rank"]
            axis.plot([low, high], [place, place], color=SYNTHETIC if low <= truth <= high else QUIET, linewidth=3)
            for row in rows:
                axis.plot([row["low"], row["high"]], [place, place], "|", color=BAD, markersize=6)
            axis.plot(truth, place, "D", color=ORIGINAL, markersize=4)
        axis.set_title(attribute)
        axis.set_xlabel("rank")
        axis.set_yticks([])
        axis.invert_yaxis()
    canvas.axes[0, 0].set_ylabel("people; grey: the true rank is outside the range")
    return canvas.finished(pa.Table.from_pylist(drawn))
