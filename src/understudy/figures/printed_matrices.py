"""Heat maps of tables that a paper printed as figures: the printed values beside the computed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from understudy.figures.drawing import Drawing
from understudy.figures.house_style import Canvas, house_style

if TYPE_CHECKING:
    import pyarrow


def printed_matrices(table: pyarrow.Table) -> Drawing:
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
