"""The worst tables cell by cell: original beside synthetic, and their difference."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from understudy.figures.drawing import BAD, ORIGINAL, SYNTHETIC, Canvas, Drawing, shortened
from understudy.figures.evaluation_figure import Frames, draws_from, figures

TABLES, CELLS = 3, 15


@figures.add
@draws_from("worst_tables")
def worst_tables(frames: Frames) -> Drawing:
    """For the three worst tables, the cells that differ most: original, synthetic, difference."""
    rows = frames["worst_tables"].to_pylist()
    ranks = sorted({row["rank"] for row in rows})[:TABLES]
    drawn = []
    canvas = Canvas(9.5, 3.4 * len(ranks), len(ranks), 2)
    for line, rank in zip(canvas.axes, ranks, strict=True):
        cells = sorted((row for row in rows if row["rank"] == rank), key=lambda row: -abs(row["difference"]))[:CELLS]
        drawn += cells
        place = np.arange(len(cells))
        names = [shortened(row["cell"], 38) for row in cells]
        line[0].barh(place - 0.2, [row["original"] for row in cells], 0.4, color=ORIGINAL, label="original")
        line[0].barh(place + 0.2, [row["synthetic"] for row in cells], 0.4, color=SYNTHETIC, label="synthetic")
        line[0].set_yticks(place, names)
        line[0].set_title(f"{shortened(cells[0]['table'], 48)}: S_pMSE {cells[0]['s_pmse']:.3g}")
        line[1].barh(place, [row["difference"] for row in cells], 0.7, color=BAD)
        line[1].axvline(0, color="k", linewidth=0.6)
        line[1].set_yticks(place, [""] * len(cells))
        line[1].set_title("synthetic - original")
        for axis in line:
            axis.invert_yaxis()
    canvas.legend_above()
    return canvas.finished(pa.Table.from_pylist(drawn))
