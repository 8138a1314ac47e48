"""Pictures of what is explored before a release: the curve of advice, and the map of risk and utility."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.figures.drawing import (
    BAD,
    ORIGINAL,
    SYNTHETIC,
    Canvas,
    Drawing,
    house_style,
    round_ticks,
    shortened,
    ticks_at,
)

if TYPE_CHECKING:
    import pyarrow

COLOURS = (SYNTHETIC, ORIGINAL, "#4d8b5b", "#8a6fb0", "#5aa0c8", "#999999")
BELIEFS = (
    ("belief_from_0.5", "from 50 in 100"),
    ("belief_from_0.1", "from 10 in 100"),
    ("belief_from_0.01", "from 1 in 100"),
)


def advice_curve(widths: pyarrow.Table, table: pyarrow.Table, *, target: float, title: str = "") -> Drawing:
    """Left: the width of intervals relative to the real data, a line for each number of copies, with the range where
    95 of 100 will be. Right: the largest belief of an attacker who has every record but one, and how often a guess of
    the attacker is right."""
    with house_style():
        canvas = Canvas(9.6, 4.0, columns=2)
        left, right = canvas.axes[0]
        _widths(left, widths.to_pylist(), target)
        _beliefs(right, table.to_pylist())
        if title:
            canvas.figure.suptitle(shortened(title, 100), fontsize=10, x=0.01, ha="left")
        return canvas.finished(widths)


MOST_DRAWN = 10.0  # times the middle: an upper end beyond it, or none, is cut off in the picture


def _widths(axis: Any, rows: list[dict[str, Any]], target: float) -> None:
    worst: dict[tuple[int, float], dict[str, Any]] = {}
    for row in rows:
        at = (row["copies"], row["epsilon"])
        if row["ratio"] is not None and (at not in worst or row["ratio"] > worst[at]["ratio"]):
            worst[at] = row
    copies = sorted({number for number, _ in worst})
    ends: list[float] = []
    for number, colour in zip(copies, COLOURS * (1 + len(copies) // len(COLOURS)), strict=False):
        line = sorted((epsilon, row) for (own, epsilon), row in worst.items() if own == number)
        label = f"{number} {'copy' if number == 1 else 'copies'}" if len(copies) > 1 else "release"
        ranged = [(epsilon, row) for epsilon, row in line if None not in (row["ratio_low"], row["ratio_high"])]
        lows = [row["ratio_low"] for _, row in ranged]
        highs = [min(row["ratio_high"], MOST_DRAWN * row["ratio"]) for _, row in ranged]
        ends += [*lows, *highs]
        axis.fill_between(
            [epsilon for epsilon, _ in ranged], lows, highs, color=colour, alpha=0.15, linewidth=0,
            label="95 of 100 releases" if len(copies) == 1 and ranged else None,
        )  # fmt: skip
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
    round_ticks(axis.yaxis, [row["ratio"] for row in worst.values()] + ends + [1.0, target], further=(target, 1.25, 3))
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


# The risk-utility map of a sweep (Duncan, Keller-McNulty and Stokes 2003), and risk and width against epsilon.


LINE_COLOURS = (SYNTHETIC, ORIGINAL, "#4d8b5b", "#8a6fb0", "#5aa0c8", "#b8860b", "#777777")
UNIQUES = ("repU_of_uniques", "replicated uniques, % of the unique people")
TOLD = ("DiSCO", "DiSCO, % of the people")

Row = dict[str, Any]


def risk_utility_map(table: pyarrow.Table, *, note: str = "") -> Drawing:
    """Three panels over the same settings: risk by utility, risk by epsilon (Raab 2022, Fig. 1), width by epsilon."""
    rows = [row for row in table.to_pylist() if row["releases"]]
    with house_style():
        canvas = Canvas(13.2, 4.3, columns=3)
        risk, label = UNIQUES if any(row["repU_of_uniques"] is not None for row in rows) else TOLD
        series = _series(rows)
        first, second, third = canvas.axes[0]
        _map(first, series, risk, label)
        _by_epsilon(second, series, risk, label, "Risk against epsilon (Raab, Fig. 1)")
        _by_epsilon(third, series, "width_ratio", "width of intervals, real data = 1", "Width against epsilon")
        third.axhline(1, color="#444", linewidth=0.8)
        third.axhline(1.5, color=BAD, linewidth=0.8, linestyle="--")
        first.legend(frameon=False, fontsize=8)
        if note:
            canvas.figure.suptitle(note, fontsize=9, color=BAD, x=0.01, ha="left")
        return canvas.finished(table)


def _series(rows: list[Row]) -> dict[str, list[Row]]:
    """A line for each method and number of copies. Releases without a guarantee are single points."""
    several = len({row["copies"] for row in rows}) > 1
    found: dict[str, list[Row]] = {}
    for row in rows:
        name = "no guarantee" if row["epsilon"] is None else str(row["method"])
        if several and row["epsilon"] is not None:
            name += f", {row['copies']} {'copy' if row['copies'] == 1 else 'copies'}"
        found.setdefault(name, []).append(row)
    return found


def _colour(place: int, name: str) -> str:
    return "#222222" if name == "no guarantee" else LINE_COLOURS[place % len(LINE_COLOURS)]


def _map(axis: Any, series: dict[str, list[Row]], risk: str, label: str) -> None:
    for place, (name, rows) in enumerate(series.items()):
        points = [row for row in rows if row.get("s_pmse_2") is not None and row[risk] is not None]
        axis.errorbar(
            [row["s_pmse_2"] for row in points], [row[risk] for row in points],
            xerr=[row["s_pmse_2_sd"] or 0.0 for row in points], yerr=[row.get(f"{risk}_sd") or 0.0 for row in points],
            fmt="o-" if name != "no guarantee" else "*", markersize=4 if name != "no guarantee" else 10, linewidth=1,
            color=_colour(place, name), label=name, elinewidth=0.7, capsize=2,
        )  # fmt: skip
        for row in points:
            if row["epsilon"] is not None:
                axis.annotate(
                    f"{row['epsilon']:g}",
                    (row["s_pmse_2"], row[risk]),
                    textcoords="offset points",
                    xytext=(4, 4),
                    size=7,
                )
    axis.set_xscale("log")
    drawn = [row["s_pmse_2"] for rows in series.values() for row in rows if row.get("s_pmse_2") is not None]
    if drawn:
        round_ticks(axis.xaxis, drawn)
    axis.set_xlabel("mean S_pMSE of pairs (1: a correct model)")
    axis.set_ylabel(label)
    axis.set_title("Risk and utility, epsilon at each point")


def _by_epsilon(axis: Any, series: dict[str, list[Row]], column: str, label: str, title: str) -> None:
    for place, (name, rows) in enumerate(series.items()):
        points = [row for row in rows if row["epsilon"] is not None and row[column] is not None]
        if points:
            axis.errorbar(
                [row["epsilon"] for row in points], [row[column] for row in points],
                yerr=[row.get(f"{column}_sd") or 0.0 for row in points],
                fmt="o-", markersize=4, linewidth=1, color=_colour(place, name), elinewidth=0.7, capsize=2,
            )  # fmt: skip
        chance = [row for row in points if row.get(f"{column}_null") is not None]
        axis.plot(
            [row["epsilon"] for row in chance], [row[f"{column}_null"] for row in chance], "--", linewidth=0.8,
            color=_colour(place, name), alpha=0.7,
        )  # fmt: skip
        apart = [row for row in rows if row["epsilon"] is None and row[column] is not None]
        for row in apart:
            axis.axhline(row[column], color=_colour(place, name), linewidth=0.9, linestyle=":")
            axis.annotate(
                "no guarantee", (1.0, row[column]), xycoords=("axes fraction", "data"), size=7, ha="right", va="bottom"
            )
    axis.set_xscale("log")
    epsilons = sorted({row["epsilon"] for rows in series.values() for row in rows if row["epsilon"] is not None})
    if epsilons:
        ticks_at(axis.xaxis, epsilons)
    drawn = [row[column] for rows in series.values() for row in rows if row[column] is not None]
    if column == "width_ratio" and drawn:
        axis.set_yscale("log")
        round_ticks(axis.yaxis, [*drawn, 1.0, 1.5], further=(1.5, 3))
    axis.set_xlabel("epsilon")
    axis.set_ylabel(label)
    axis.set_title(title)
    if any(row.get(f"{column}_null") is not None for rows in series.values() for row in rows):
        axis.annotate("dashed: independent columns", (0.02, 0.98), xycoords="axes fraction", size=7, va="top")
