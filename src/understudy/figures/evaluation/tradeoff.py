"""Utility against epsilon, when several releases of the same data are evaluated together."""

from __future__ import annotations

from understudy.figures.drawing import ORIGINAL, SYNTHETIC, Canvas, Drawing, round_ticks, shortened
from understudy.figures.evaluation_figure import Frames, draws_from, figures


@figures.add
@draws_from("tradeoff")
def tradeoff(frames: Frames) -> Drawing:
    """Mean S_pMSE by epsilon with Raab's bands. Releases without an epsilon are drawn apart, at the right."""
    table = frames["tradeoff"]
    rows = table.to_pylist()
    canvas = Canvas(7.0, 4.2)
    axis = canvas.axes[0, 0]
    known = [row["epsilon"] for row in rows if row["epsilon"]]
    apart = 4 * max(known, default=1.0)
    for way, colour in ((2, ORIGINAL), (3, SYNTHETIC)):
        points = sorted(
            (row["epsilon"] or apart, row[f"s_pmse_{way}"], row["release"])
            for row in rows
            if row[f"s_pmse_{way}"] is not None
        )
        axis.plot(
            [point[0] for point in points], [point[1] for point in points], "o-", color=colour, label=f"{way}-way"
        )
        if way == 2:
            for epsilon, value, name in points:
                axis.annotate(shortened(name, 18), (epsilon, value), textcoords="offset points", xytext=(4, 4), size=7)
    for level, text in ((1, "correct model"), (10, "good below"), (30, "usable below")):
        axis.axhline(level, color="#888", linewidth=0.7, linestyle=":")
        axis.annotate(text, (1.0, level), xycoords=("axes fraction", "data"), size=7, ha="right", va="bottom")
    axis.set_xscale("log")
    axis.set_yscale("log")
    scores = [row[f"s_pmse_{way}"] for row in rows for way in (2, 3) if row[f"s_pmse_{way}"]]
    round_ticks(axis.xaxis, [*known, apart])
    round_ticks(axis.yaxis, [1.0, 30.0, *scores])
    axis.set_xlabel("epsilon" + (" (releases without one at the far right)" if len(known) < len(rows) else ""))
    axis.set_ylabel("mean S_pMSE")
    axis.legend(frameon=False)
    return canvas.finished(table)
