"""Every figure is a picture and the table it shows. matplotlib is loaded when the first figure is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    import pyarrow

FORMATS = ("svg", "png", "pdf")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawing:
    """A figure with the numbers in it."""

    table: pyarrow.Table
    figure: Any

    @property
    def svg(self) -> str:
        """The picture as SVG. Equal numbers give equal text."""
        return self._bytes("svg").decode()

    def save(self, path: str | Path) -> Path:
        """Write the picture. The ending of the file name gives the format (svg, png or pdf)."""
        target = Path(path)
        kind = target.suffix.lstrip(".").lower()
        if kind not in FORMATS:
            raise InputError(f"{target.name} must end in one of .{', .'.join(FORMATS)}.")
        if not target.parent.is_dir():
            raise InputError(f"{target.parent} is not a folder; make it first.")
        target.write_bytes(self._bytes(kind))
        return target

    def _bytes(self, kind: str) -> bytes:
        import matplotlib

        out = io.BytesIO()
        # Without a date and with fixed ids a picture changes only when its numbers do.
        with matplotlib.rc_context({"svg.hashsalt": "understudy", "svg.fonttype": "none"}):
            self.figure.savefig(out, format=kind, metadata={"Date": None} if kind == "svg" else None)
        return out.getvalue()


def draw(
    table: pyarrow.Table, paint: Callable[[Any, Any], None], *, width: float = 6.4, height: float = 4.0
) -> Drawing:
    """A figure with one set of axes, painted by ``paint(figure, axes)``; no display and no global state are touched."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("figures need matplotlib; install it with: pip install 'understudy[report]'") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    paint(figure, axes)
    _lay_out(figure)
    return Drawing(table=table, figure=figure)


def _lay_out(figure: Any) -> None:
    """The final layout. A second one would move things slightly and change the file."""
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")


# How figures look: their colours, their settings, and the canvas that they are drawn on.


ORIGINAL, SYNTHETIC, BAD, QUIET = "#3b4a6b", "#d1782b", "#a3243b", "#b8bec9"
STYLE: Any = {
    "text.parse_math": False,  # a dollar sign in a name is no mathematics
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
}


class Canvas:
    """A matplotlib figure with a grid of axes."""

    def __init__(self, width: float, height: float, rows: int = 1, columns: int = 1) -> None:
        from matplotlib.figure import Figure as MatplotlibFigure

        self.figure: Any = MatplotlibFigure(figsize=(width, height), layout="constrained")
        self.axes: Any = self.figure.subplots(rows, columns, squeeze=False)

    def legend_above(self) -> None:
        """The legend of the first axes, above all axes, so that it covers nothing."""
        handles, labels = self.axes[0, 0].get_legend_handles_labels()
        self.figure.legend(
            handles, labels, frameon=False, fontsize=8, loc="outside upper right", ncols=max(1, len(labels))
        )

    def finished(self, table: Any) -> Drawing:
        """The drawing of a table, with its final layout."""
        _lay_out(self.figure)
        return Drawing(table=table, figure=self.figure)


def house_style() -> AbstractContextManager[None]:
    """The house style while a figure is drawn: matplotlib reads the settings when it makes each part."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("figures need matplotlib; install it with: pip install 'understudy[report]'") from None
    context: AbstractContextManager[None] = matplotlib.rc_context(STYLE)
    return context


def shortened(text: str, most: int = 42) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


# Ticks on logarithmic axes as ordinary numbers (0.5, 1, 2), not as powers of ten.


STEPS = (1, 2, 5)


def ticks_at(way: Any, places: Sequence[float]) -> None:
    """Ticks of an axis (``axes.xaxis`` or ``axes.yaxis``) at exactly these places."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    way.set_major_locator(FixedLocator(sorted(set(places))))
    way.set_minor_locator(NullLocator())
    way.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def round_ticks(way: Any, values: Sequence[float], *, further: Sequence[float] = ()) -> None:
    """Ticks at 1, 2, 5, 10, ... within the values, and at ``further`` places; at the ends if these are too few."""
    low, high = min(values), max(values)
    wanted = [step * 10.0**power for power in range(-6, 9) for step in STEPS]
    shown = [value for value in (*wanted, *further) if low / 1.05 <= value <= high * 1.05]
    ticks_at(way, shown if len(shown) > 1 else [low, high])
