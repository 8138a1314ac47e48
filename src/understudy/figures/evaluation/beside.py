"""A release beside other protections: the attacker's success against utility, a curve for each method."""

from __future__ import annotations

from typing import Any

from understudy.figures.drawing import BAD, ORIGINAL, Canvas, Drawing, round_ticks
from understudy.figures.evaluation_figure import Frames, draws_from, figures

COLOURS = {
    "noise": ORIGINAL,
    "swap": "#4d8b5b",
    "pram": "#8a6fb0",
    "microaggregation": "#5aa0c8",
    "ipf": "#b8860b",
}


@figures.add
@draws_from("beside")
def beside(frames: Frames) -> Drawing:
    """Guesses that are right (left) and own records found (right), by mean S_pMSE; the release as a star."""
    table = frames["beside"]
    rows = table.to_pylist()
    canvas = Canvas(9.6, 4.2, columns=2)
    guessed, found = canvas.axes[0]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    release = [row for row in rows if row["strength"] is None]
    for method in methods:
        own = [row for row in rows if row["method"] == method]
        if own[0]["strength"] is None:
            continue
        colour = COLOURS[method]
        _curve(guessed, own, "guessed_right", colour, method)
        linked = [row for row in own if row["own_record"] is not None]
        if linked:
            _curve(found, linked, "own_record", colour, method)
    for marker, row in zip("*DPX", release, strict=False):
        guessed.plot(
            row["mean_s_pmse"], 100 * row["guessed_right"], marker, color=BAD, markersize=8, label=row["method"]
        )
    guessed.axhline(100 * rows[0]["from_margins"], color="#888", linewidth=0.8, linestyle=":")
    guessed.annotate(
        "from shares alone", (0.02, 100 * rows[0]["from_margins"]), xycoords=("axes fraction", "data"), size=7,
        ha="left", va="top", xytext=(0, -3), textcoords="offset points",
    )  # fmt: skip
    found.axvline(release[0]["mean_s_pmse"], color=BAD, linewidth=0.8, linestyle="--")
    found.annotate(
        "the release: no row belongs to a person", (release[0]["mean_s_pmse"], 1.0), xycoords=("data", "axes fraction"),
        size=7, color=BAD, ha="left", va="top", xytext=(3, -2), textcoords="offset points",
    )  # fmt: skip
    for axis in (guessed, found):
        axis.set_xscale("log")
        round_ticks(axis.xaxis, [row["mean_s_pmse"] for row in rows if row["mean_s_pmse"] > 0])
        axis.set_xlabel("mean S_pMSE of pairs (smaller: more useful)")
        axis.set_ylim(bottom=0)
    guessed.set_ylabel("percent of people guessed right")
    guessed.set_title("An answer guessed from all others")
    found.set_ylabel("percent of people found")
    found.set_title("A person's own record picked out")
    canvas.legend_above()
    return canvas.finished(table)


def _curve(axis: Any, rows: list[dict[str, Any]], column: str, colour: str, label: str) -> None:
    axis.plot(
        [row["mean_s_pmse"] for row in rows], [100 * row[column] for row in rows], "o-", color=colour, markersize=4,
        linewidth=1.2, label=label,
    )  # fmt: skip
