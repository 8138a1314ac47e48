"""What more copies do if they share the budget: coverage of a combining rule, and the posterior from the release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from understudy.figures.drawing import Drawing
from understudy.figures.house_style import BAD, ORIGINAL, SYNTHETIC, Canvas, house_style

if TYPE_CHECKING:
    from collections.abc import Sequence

NOMINAL = 95
COLOURS = (ORIGINAL, SYNTHETIC, BAD, "#3f7f4f")


def copies_and_coverage(coverage: Sequence[dict[str, float]], posterior: Sequence[dict[str, float]]) -> Drawing:
    """Left and middle: coverage in percent by epsilon, a line per number of copies, a panel per true share. Right: mean
    and two standard deviations of the posterior, for the data themselves (``copies`` 0) and for M copies."""
    shares = sorted({point["share"] for point in coverage})
    with house_style():
        canvas = Canvas(10.0, 3.4, columns=len(shares) + 1)
        for axis, share in zip(canvas.axes[0], shares, strict=False):
            for number, copies in enumerate(sorted({point["copies"] for point in coverage})):
                own = [point for point in coverage if point["share"] == share and point["copies"] == copies]
                axis.plot([p["epsilon"] for p in own], [p["coverage"] for p in own], "o-", markersize=3,
                          color=COLOURS[number % len(COLOURS)], label=f"{copies:g} copies")  # fmt: skip
            axis.axhline(NOMINAL, color="#888888", linewidth=0.7, linestyle=":")
            axis.set_ylim(0, 101)
            axis.set_title(f"coverage of T_f*, p = {share:g}")
            axis.set_xlabel("epsilon")
        canvas.axes[0, 0].set_ylabel("percent of intervals that cover")
        canvas.axes[0, 0].legend(frameon=False, fontsize=7)
        last = canvas.axes[0, -1]
        for place, point in enumerate(posterior):
            last.errorbar(place, point["mean"], yerr=2 * point["sd"], fmt="o", capsize=3,
                          color=ORIGINAL if point["copies"] == 0 else SYNTHETIC)  # fmt: skip
        names = ["data" if point["copies"] == 0 else f"M = {point['copies']:g}" for point in posterior]
        last.set_xticks(range(len(names)), names, size=7)
        last.set_title("posterior of p, release modelled")
        rows = [{"figure": 1, **point} for point in coverage]
        rows += [{"figure": 2, **point} for point in posterior]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        return canvas.finished(pa.table({name: [row.get(name) for row in rows] for name in columns}))
