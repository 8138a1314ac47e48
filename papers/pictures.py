"""Pictures of numbers that papers printed: the published values beside the computed ones, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from understudy.figures.drawing import BAD, ORIGINAL, SYNTHETIC, Canvas, Drawing, draw, house_style, ticks_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOMINAL = 95
COPY_COLOURS = (ORIGINAL, SYNTHETIC, BAD, "#3f7f4f")
DATA_SET_COLOURS = ("#00429d", "#b3491a", "#3f7f4f", "#7a3b8f", "#c9a227", "#4aa5c9", "#c2517b")


def printed_matrices(table: pa.Table) -> Drawing:
    """One row of pictures per figure, published left and computed right, on one scale of colours.

    ``table`` has the columns ``figure``, ``row``, ``column``, ``published`` and ``computed``.
    """
    cells = table.to_pylist()
    names = list(dict.fromkeys(cell["figure"] for cell in cells))
    with house_style():
        canvas = Canvas(7.0, 2.6 * len(names), rows=len(names), columns=2)
        for number, name in enumerate(names):
            own = [cell for cell in cells if cell["figure"] == name]
            rows, columns = (list(dict.fromkeys(cell[side] for cell in own)) for side in ("row", "column"))
            most = max(abs(cell[which]) for cell in own for which in ("published", "computed"))
            for axis, which in zip(canvas.axes[number], ("published", "computed"), strict=True):
                values = np.full((len(rows), len(columns)), np.nan)
                for cell in own:
                    values[rows.index(cell["row"]), columns.index(cell["column"])] = cell[which]
                axis.imshow(values, cmap="Blues", vmin=0, vmax=most, aspect="auto")
                for (row, column), value in np.ndenumerate(values):
                    dark = value > 0.6 * most
                    axis.text(column, row, f"{value:.3g}", ha="center", va="center", size=6,
                              color="white" if dark else "black")  # fmt: skip
                axis.set_xticks(range(len(columns)), columns, size=7)
                axis.set_yticks(range(len(rows)), rows, size=7)
                axis.set_title(f"{name}, {which}")
        return canvas.finished(table)


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
                          color=COPY_COLOURS[number % len(COPY_COLOURS)], label=f"{copies:g} copies")  # fmt: skip
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


def replicated_uniques(table: pa.Table, *, title: str = "") -> Drawing:
    """Percent of uniques replicated by epsilon (a logarithmic axis), one line per data set.

    ``table`` has the columns ``data_set``, ``epsilon`` (null: without noise, drawn at the right end), ``computed``
    (null where the data cannot be had) and ``published`` (null where nothing is printed); published values are rings.
    """
    rows = table.to_pylist()
    end = 10 * max(row["epsilon"] for row in rows if row["epsilon"] is not None)

    def paint(figure: Any, axes: Any) -> None:  # noqa: ARG001
        for number, name in enumerate(dict.fromkeys(row["data_set"] for row in rows)):
            own = sorted(
                ((row["epsilon"] or end, row["computed"], row["published"]) for row in rows if row["data_set"] == name),
                key=lambda point: point[0],
            )
            colour = DATA_SET_COLOURS[number % len(DATA_SET_COLOURS)]
            made = [(e, c) for e, c, _ in own if c is not None]
            if made:
                axes.plot([e for e, _ in made], [c for _, c in made], color=colour, marker=".", label=name)
            printed = [(e, p) for e, _, p in own if p is not None]
            axes.plot([e for e, _ in printed], [p for _, p in printed], color=colour, marker="o",
                      linestyle="none", fillstyle="none", label=f"{name}, published")  # fmt: skip
        axes.set_xscale("log")
        axes.axvline(end / 10**0.5, color="#888888", linewidth=0.6, linestyle=":")
        axes.set_xlabel("epsilon (right of the line: no noise)")
        axes.set_ylabel("replicated uniques, % of uniques")
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize=6, ncols=2)
        if title:
            axes.set_title(title, fontsize=9)

    return draw(table, paint)


MOST_POINTS = 3_000


def average_commutes(experiments: Mapping[str, Mapping[str, Any]]) -> Drawing:
    """One row of panels for each experiment, all commutes left and short ones right: the average commute of every
    destination by its workers, true and synthetic. ``experiments`` holds the tables of an evaluation by title."""
    panels = (("all commutes", "true", "synthetic"), ("short commutes", "true_short", "synthetic_short"))
    kept: list[dict[str, Any]] = []
    with house_style():
        canvas = Canvas(9.0, 3.6 * len(experiments), rows=len(experiments), columns=2)
        for axes, (title, frames) in zip(canvas.axes, experiments.items(), strict=True):
            rows = frames["destinations"].to_pylist()
            rows = rows[:: max(1, len(rows) // MOST_POINTS)]
            kept += [{"experiment": title, **row} for row in rows]
            for axis, (told, true, synthetic) in zip(axes, panels, strict=True):
                for name, column, colour in (("true", true, ORIGINAL), ("synthetic", synthetic, SYNTHETIC)):
                    shown = [(row["workers"], row[column]) for row in rows if row[column] is not None]
                    axis.scatter([x for x, _ in shown], [y for _, y in shown], s=4, alpha=0.35, color=colour,
                                 linewidths=0, label=name, rasterized=True)  # fmt: skip
                axis.set_xscale("log")
                largest = max(row["workers"] for row in rows)
                ticks_at(axis.xaxis, [10**power for power in range(len(str(largest)))])
                axis.set_title(f"{title}, {told}", fontsize=8)
                axis.set_xlabel("workers at the destination")
            axes[0].set_ylabel("average commute, miles")
        canvas.axes[0, 0].legend(frameon=False, markerscale=3)
        return canvas.finished(pa.Table.from_pylist(kept))
