"""The forest picture: estimates with their intervals, one under the other."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from understudy.errors import InputError
from understudy.figures.drawing import Drawing, draw

MOST = 80  # lines that can be read
COLOURS = {"valid": "#1b4f72", "range": "#7d6608"}
OTHERS = "#922b21"


def forest(
    names: Sequence[str], values: Sequence[tuple[float, float, float]], labels: Sequence[str], *, title: str, zero: bool
) -> Drawing:
    """Estimates (value, low, high) with their labels; ``zero``: with a line at 0, for coefficients and differences."""
    import pyarrow as pa

    if len(names) > MOST:
        raise InputError(f"a picture of {len(names):,} estimates cannot be read; at most {MOST}.")
    table = pa.table(
        {
            "name": list(names),
            "estimate": [value for value, _, _ in values],
            "low": [low for _, low, _ in values],
            "high": [high for _, _, high in values],
            "label": list(labels),
        }
    )

    def paint(figure: Any, axes: Any) -> None:
        del figure
        for place, ((value, low, high), label) in enumerate(zip(values, labels, strict=True)):
            if not (isfinite(low) and isfinite(high)):
                axes.text(0.01, place, f" {label}", transform=axes.get_yaxis_transform(), va="center", fontsize=7)
                continue
            colour = COLOURS.get(label, OTHERS)
            axes.plot([low, high], [place, place], color=colour, linewidth=1.5, solid_capstyle="butt")
            axes.plot([value], [place], marker="o" if label == "valid" else "D", color=colour, markersize=4)
        for label in dict.fromkeys(labels):
            axes.plot([], [], marker="o" if label == "valid" else "D", color=COLOURS.get(label, OTHERS), label=label)
        if zero:
            axes.axvline(0, color="#808080", linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(names)), list(names), fontsize=8)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_title(title, fontsize=9)
        axes.legend(fontsize=7, loc="best")

    return draw(table, paint, width=7.0, height=1.2 + 0.28 * len(names))
