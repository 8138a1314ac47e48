"""The risk-utility map of a sweep (Duncan, Keller-McNulty and Stokes 2003), and risk and width against epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.figures.drawing import Drawing
from understudy.figures.house_style import BAD, ORIGINAL, SYNTHETIC, Canvas, house_style
from understudy.figures.ticks import round_ticks, ticks_at

if TYPE_CHECKING:
    import pyarrow

COLOURS = (SYNTHETIC, ORIGINAL, "#4d8b5b", "#8a6fb0", "#5aa0c8", "#b8860b", "#777777")
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
    return "#222222" if name == "no guarantee" else COLOURS[place % len(COLOURS)]


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
