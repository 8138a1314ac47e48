"""Ticks on logarithmic axes as ordinary numbers (0.5, 1, 2), not as powers of ten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
