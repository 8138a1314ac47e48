"""Synthetic households as people would draw them: everybody in a row, with their ages, the small ones small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.figures.drawing import BAD, ORIGINAL, QUIET, SYNTHETIC, Drawing, draw

COLOURS = {"reference": ORIGINAL, "partner": SYNTHETIC, "child": BAD, "other": "#6b7a3b", "member": ORIGINAL}
GROWN, SMALLEST = 18.0, 0.35  # years from which somebody is drawn full size, and the size of a newborn
COLUMNS, CELL = 4, 5.2
ROOM = 0.5  # that somebody needs; with less, everybody in the household is drawn slimmer
Person = tuple[str, float, str]  # role, age, and a letter such as F or M


def families(homes: Sequence[tuple[str, Sequence[Person]]], *, title: str) -> Drawing:
    """Households with a text each, in a grid of four columns."""
    import pyarrow as pa

    table = pa.table(
        {
            "household": [place + 1 for place, (_, people) in enumerate(homes) for _ in people],
            "role": [role for _, people in homes for role, _, _ in people],
            "age": [age for _, people in homes for _, age, _ in people],
            "letter": [letter for _, people in homes for _, _, letter in people],
        }
    )

    def paint(figure: Any, axes: Any) -> None:
        del figure
        from matplotlib.patches import Circle, Polygon

        for place, (text, people) in enumerate(homes):
            row, column = divmod(place, COLUMNS)
            left, ground = column * CELL, -2.0 * row
            axes.plot([left, left + CELL - 0.6], [ground, ground], color=QUIET, linewidth=0.8)
            axes.text(left, ground - 0.22, text, fontsize=6, color="#555555", va="top")
            step = min(0.85, (CELL - 0.6) / max(len(people), 1))
            slim = min(1.0, step / ROOM)
            for number, (role, age, letter) in enumerate(people):
                size = SMALLEST + (1 - SMALLEST) * min(age, GROWN) / GROWN
                x, colour = left + 0.4 + number * step, COLOURS.get(role, QUIET)
                axes.add_patch(Circle((x, ground + 0.86 * size), 0.16 * size * slim, color=colour))
                wide = 0.24 * size * slim
                body = [(x, ground + 0.74 * size), (x - wide, ground + 0.02), (x + wide, ground + 0.02)]
                axes.add_patch(Polygon(body, color=colour))
                axes.text(x, ground + 1.08 * size, f"{age:.0f}{letter}", fontsize=6 * slim, ha="center", va="bottom")
        for role in dict.fromkeys(role for _, people in homes for role, _, _ in people):
            axes.plot([], [], marker="^", linestyle="none", color=COLOURS.get(role, QUIET), label=role)
        rows = (len(homes) + COLUMNS - 1) // COLUMNS
        axes.set_xlim(-0.2, COLUMNS * CELL)
        axes.set_ylim(-2.0 * (rows - 1) - 0.7, 1.4)
        axes.set_aspect("equal")
        axes.axis("off")
        axes.set_title(title, fontsize=9)
        axes.legend(
            fontsize=6, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=5, frameon=False
        )  # below everybody

    rows = (len(homes) + COLUMNS - 1) // COLUMNS
    return draw(table, paint, width=9.0, height=0.6 + 0.9 * rows)
