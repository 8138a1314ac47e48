"""The curve of advice: what the analyst gains by a larger epsilon, and what an attacker gains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.figures.drawing import Drawing
from understudy.figures.house_style import BAD, ORIGINAL, SYNTHETIC, Canvas, house_style, shortened
from understudy.figures.ticks import round_ticks, ticks_at

if TYPE_CHECKING:
    import pyarrow

COLOURS = (SYNTHETIC, ORIGINAL, "#4d8b5b", "#8a6fb0", "#5aa0c8", "#999999")
BELIEFS = (
    ("belief_from_0.5", "from 50 in 100"),
    ("belief_from_0.1", "from 10 in 100"),
    ("belief_from_0.01", "from 1 in 100"),
)


def advice_curve(widths: pyarrow.Table, table: pyarrow.Table, *, target: float, title: str = "") -> Drawing:
    """Left: the width of intervals relative to the real data, a line for each number of copies. Right: the largest
    belief of an attacker who has every record but one, and how often a guess of the attacker is right."""
    with house_style():
        canvas = Canvas(9.6, 4.0, columns=2)
        left, right = canvas.axes[0]
        _widths(left, widths.to_pylist(), target)
        _beliefs(right, table.to_pylist())
        if title:
            canvas.figure.suptitle(shortened(title, 100), fontsize=10, x=0.01, ha="left")
        return canvas.finished(widths)


def _widths(axis: Any, rows: list[dict[str, Any]], target: float) -> None:
    worst: dict[tuple[int, float], dict[str, Any]] = {}
    for row in rows:
        at = (row["copies"], row["epsilon"])
        if row["ratio"] is not None and (at not in worst or row["ratio"] > worst[at]["ratio"]):
            worst[at] = row
    copies = sorted({number for number, _ in worst})
    for number, colour in zip(copies, COLOURS * (1 + len(copies) // len(COLOURS)), strict=False):
        line = sorted((epsilon, row) for (own, epsilon), row in worst.items() if own == number)
        label = f"{number} {'copy' if number == 1 else 'copies'}" if len(copies) > 1 else "release"
        axis.errorbar(
            [epsilon for epsilon, _ in line],
            [row["ratio"] for _, row in line],
            yerr=[2 * row["error"] / row["real_width"] for _, row in line],
            marker="o", markersize=3, linewidth=1.3, color=colour, label=label, capsize=2,
        )  # fmt: skip
    axis.axhline(1, color="#444", linewidth=0.8)
    axis.axhline(target, color=BAD, linewidth=0.8, linestyle="--")
    for level, text, colour in ((target, f"{target:g} times", BAD), (1, "the real data", "#444")):
        place = {"xycoords": ("axes fraction", "data"), "size": 7, "ha": "left", "va": "bottom", "color": colour}
        axis.annotate(text, (0.01, level), **place)
    axis.set_xscale("log")
    axis.set_yscale("log")
    ticks_at(axis.xaxis, [epsilon for _, epsilon in worst])
    round_ticks(axis.yaxis, [row["ratio"] for row in worst.values()] + [1.0, target], further=(target, 1.25, 3))
    axis.set_xlabel("epsilon of the release")
    axis.set_ylabel("width of the interval, real data = 1")
    axis.set_title("What an analyst gets")
    axis.legend(frameon=False, fontsize=8)


def _beliefs(axis: Any, rows: list[dict[str, Any]]) -> None:
    epsilons = [row["epsilon"] for row in rows]
    for (column, label), colour in zip(BELIEFS, (BAD, SYNTHETIC, ORIGINAL), strict=True):
        believed = [100 * row[column] for row in rows]
        axis.plot(epsilons, believed, "o-", markersize=3, linewidth=1.3, color=colour, label=label)
    exact = [(row["epsilon"], 100 * row["guess_exact"]) for row in rows if row["guess_exact"] is not None]
    if exact:
        axis.plot(
            [epsilon for epsilon, _ in exact], [value for _, value in exact], ":", color="#444", linewidth=1.3,
            label="right guesses, this noise exactly",
        )  # fmt: skip
    axis.set_xscale("log")
    ticks_at(axis.xaxis, epsilons)
    axis.set_ylim(0, 102)
    axis.set_xlabel("epsilon of the release")
    axis.set_ylabel("belief of an attacker at most, in 100")
    axis.set_title("What an attacker with all other records gets")
    axis.legend(frameon=False, fontsize=8)
