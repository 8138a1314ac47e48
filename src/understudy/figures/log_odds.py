"""The heat map of log odds: which outputs distinguish which neighbouring tables, and how clearly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import InputError
from understudy.figures.drawing import Drawing, draw

Table = tuple[int, ...]
LARGEST = 120  # pairs or outputs that can be told apart in a picture
WRITTEN = 12  # up to this number of columns, the numbers are written into the cells


def log_odds_map(
    pairs: Sequence[tuple[Table, Table]],
    outputs: Sequence[Table],
    values: NDArray[np.float64],
    *,
    epsilon: float | None,
) -> Drawing:
    """Pairs by outputs, coloured by |ln P(m|n1)/P(m|n2)|; values above epsilon are framed, infinite ones red."""
    import pyarrow as pa

    if len(pairs) > LARGEST or len(outputs) > LARGEST:
        raise InputError(
            f"a heat map of {len(pairs):,} pairs by {len(outputs):,} outputs cannot be read; at most {LARGEST} of each."
        )
    rows = [f"{_text(one)} | {_text(other)}" for one, other in pairs]
    columns = [_text(out) for out in outputs]
    table = pa.table(
        {
            "pair": [row for row in rows for _ in columns],
            "output": columns * len(rows),
            "log_odds": values.ravel().tolist(),
        }
    )

    def paint(figure: Any, axes: Any) -> None:
        finite = np.where(np.isfinite(values), values, np.nan)
        half = np.nanmax(finite, initial=0) / 2
        image = axes.imshow(finite, cmap="cividis", vmin=0, aspect="auto")
        axes.set_facecolor("#b30000")  # infinite log odds have the colour of the background
        axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=7)
        axes.set_yticks(range(len(rows)), rows, fontsize=7)
        axes.set_xlabel("output m")
        axes.set_ylabel("neighbouring tables n1 | n2")
        figure.colorbar(image, label="log odds")
        for (row, column), value in np.ndenumerate(values):
            if epsilon is not None and value > epsilon + 1e-12:
                axes.add_patch(_frame(column, row))
            if len(columns) <= WRITTEN and len(rows) <= 2 * WRITTEN:
                light = np.isfinite(value) and value < half
                text = "inf" if np.isinf(value) else f"{value:.2f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=6, color="white" if light else "black")
        if epsilon is not None:
            axes.set_title(f"framed: above epsilon = {epsilon:g}", fontsize=9)

    return draw(table, paint, width=2.5 + 0.45 * min(len(columns), 30), height=2 + 0.3 * min(len(rows), 40))


def _frame(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="#b30000", linewidth=1.5)


def _text(table: Table) -> str:
    return "(" + ",".join(map(str, table)) + ")"
