"""Every figure is a picture and the table it shows. matplotlib is loaded when the first figure is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable
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
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # a second layout would move things slightly and change the file
    return Drawing(table=table, figure=figure)
