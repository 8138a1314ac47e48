"""The three sentences about risk as pictures: a thousand people each, coloured by what an intruder would get right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from understudy.figures.drawing import BAD, ORIGINAL, QUIET, SYNTHETIC, Canvas, Drawing
from understudy.figures.evaluation_figure import Frames, draws_from, figures

COLUMNS, ROWS = 50, 20
ALLOWED, NOBODY = "#f0c9a0", "#e3e6ec"
UNSURE, WRONG = "#8f9bb3", "#7a5aa6"
# The colours of the groups of people, for each sentence in order. In the first, people gained have the colour of its
# light. Red is for nothing else, and a difference that may be chance is no alarm.
COLOURS = ((ORIGINAL, UNSURE, ALLOWED), (ORIGINAL, SYNTHETIC), (WRONG, QUIET))
GAINED = {"red": BAD, "amber": SYNTHETIC}
GROUPS = ("first", "second", "third")


def thousand(place: int, row: Mapping[str, Any]) -> Drawing:
    """One sentence as a thousand people."""
    canvas = Canvas(4.6, 3.1)
    _dots(canvas.axes[0, 0], place, row)
    return canvas.finished(pa.Table.from_pylist([dict(row)]))


@figures.add
@draws_from("first_screen")
def first_screen(frames: Frames) -> Drawing:
    """All sentences below each other."""
    rows = frames["first_screen"].to_pylist()
    canvas = Canvas(4.8, 3.2 * len(rows), rows=len(rows))
    for place, row in enumerate(rows):
        _dots(canvas.axes[place, 0], place, row)
        canvas.axes[place, 0].set_title(row["title"])
    return canvas.finished(pa.Table.from_pylist(rows))


def _dots(axis: Any, place: int, row: Mapping[str, Any]) -> None:
    axis.set_axis_off()
    if row["of_1000"] is None:
        axis.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axis.transAxes)
        return
    palette = list(COLOURS[place])
    palette[1] = GAINED.get(row["light"], palette[1])
    shown = [(row[name], row[f"{name}_means"], colour) for name, colour in zip(GROUPS, palette, strict=False)]
    colours = [colour for count, _, colour in shown for _ in range(count)]
    colours += [NOBODY] * (COLUMNS * ROWS - len(colours))
    across = [number % COLUMNS for number in range(COLUMNS * ROWS)]
    down = [number // COLUMNS for number in range(COLUMNS * ROWS)]
    axis.scatter(across, down, s=9, c=colours, linewidths=0)
    axis.invert_yaxis()
    axis.set_aspect("equal")
    for count, meaning, colour in shown:
        if count:
            axis.scatter([], [], s=16, color=colour, label=f"{count:,} {meaning}")
    if any(count for count, _, _ in shown):
        axis.legend(frameon=False, fontsize=12, loc="upper left", bbox_to_anchor=(0.0, 0.0), handletextpad=0.1)
