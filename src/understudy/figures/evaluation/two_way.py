"""Heat map of S_pMSE over all pairs of attributes: where two-way tables can be trusted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from understudy.figures.drawing import Canvas, Drawing, shortened
from understudy.figures.evaluation_figure import Frames, draws_from, figures

MOST = 40  # the most attributes that can be read
COLOURS = "viridis_r"


@figures.add
@draws_from("two_way")
def two_way(frames: Frames) -> Drawing:
    """S_pMSE of every two-way table on a logarithmic scale, with numbers if they fit; a dot: not in the model."""
    from matplotlib.colors import LogNorm

    rows = frames["two_way"].to_pylist()
    worst: dict[str, float] = {}
    for row in rows:
        for name in (row["first"], row["second"]):
            worst[name] = max(worst.get(name, 0.0), row["s_pmse"])
    order = list(dict.fromkeys(name for row in rows for name in (row["first"], row["second"])))
    if len(order) > MOST:
        kept = set(sorted(order, key=lambda name: -worst[name])[:MOST])
        order = [name for name in order if name in kept]
        rows = [row for row in rows if row["first"] in kept and row["second"] in kept]
    place = {name: number for number, name in enumerate(order)}
    grid = np.full((len(order), len(order)), np.nan)
    size = max(3.2, 0.42 * len(order) + 1.6)
    canvas = Canvas(size + 1.0, size)
    axis = canvas.axes[0, 0]
    for row in rows:
        high, low = place[row["second"]], place[row["first"]]
        grid[high, low] = max(row["s_pmse"], 0.1)
        if len(order) <= 16:
            dark = row["s_pmse"] > 10
            axis.text(low, high, f"{row['s_pmse']:.3g}", ha="center", va="center", size=7, color="w" if dark else "k")
        if row["covered"] is False:
            axis.plot(low + 0.36, high - 0.36, marker="o", markersize=3, color="#a3243b")
    image = axis.imshow(grid, cmap=COLOURS, norm=LogNorm(vmin=1, vmax=100))
    bar = canvas.figure.colorbar(image, ax=axis, shrink=0.7, ticks=[1, 3, 10, 30, 100])
    bar.ax.set_yticklabels(["1 correct model", "3", "10 good below", "30 usable below", "100"])
    axis.set_xticks(range(len(order)), [shortened(name, 18) for name in order], rotation=60, ha="right")
    axis.set_yticks(range(len(order)), [shortened(name, 18) for name in order])
    axis.set_title("S_pMSE of every two-way table")
    return canvas.finished(pa.Table.from_pylist(rows))
