"""Replicated uniques against epsilon: the share of unique people who are unique in the synthetic data too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.figures.drawing import Drawing, draw

if TYPE_CHECKING:
    import pyarrow

COLOURS = ("#00429d", "#b3491a", "#3f7f4f", "#7a3b8f")


def replicated_uniques(table: pyarrow.Table, *, title: str = "") -> Drawing:
    """Percent of uniques replicated by epsilon (a logarithmic axis), one line per data set.

    ``table`` has the columns ``data_set``, ``epsilon`` (null: without noise, drawn at the right end), ``computed`` and
    ``published`` (null where nothing is printed); published values are drawn as rings.
    """
    rows = table.to_pylist()
    end = 10 * max(row["epsilon"] for row in rows if row["epsilon"] is not None)

    def paint(figure: Any, axes: Any) -> None:  # noqa: ARG001
        for number, name in enumerate(dict.fromkeys(row["data_set"] for row in rows)):
            own = sorted((row["epsilon"] or end, row["computed"], row["published"]) for row in rows
                         if row["data_set"] == name)  # fmt: skip
            colour = COLOURS[number % len(COLOURS)]
            axes.plot([e for e, _, _ in own], [c for _, c, _ in own], color=colour, marker=".", label=name)
            printed = [(e, p) for e, _, p in own if p is not None]
            axes.plot([e for e, _ in printed], [p for _, p in printed], color=colour, marker="o",
                      linestyle="none", fillstyle="none", label=f"{name}, published")  # fmt: skip
        axes.set_xscale("log")
        axes.axvline(end / 10**0.5, color="#888888", linewidth=0.6, linestyle=":")
        axes.set_xlabel("epsilon (right of the line: no noise)")
        axes.set_ylabel("replicated uniques, % of uniques")
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=8)
        if title:
            axes.set_title(title, fontsize=9)

    return draw(table, paint)
