"""Pictures of a guarantee: its epsilon-delta curve, beliefs, noise, priors, and log odds of neighbouring tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import InputError
from understudy.figures.drawing import Drawing, draw

if TYPE_CHECKING:
    import pyarrow

INK, ACCENT, FAINT = "#00429d", "#d1782b", "#9aa3b2"
MOST_BARS = 30
LEAST_DELTA = 1e-12


def proved_profile(profile: pyarrow.Table, *, stated: tuple[float, float] | None = None) -> Drawing:
    """delta against epsilon on a logarithmic scale, with the stated guarantee as a point."""
    epsilons, deltas = profile["epsilon"].to_pylist(), profile["delta"].to_pylist()

    def paint(figure: Any, axes: Any) -> None:  # noqa: ARG001
        shown = [(e, d) for e, d in zip(epsilons, deltas, strict=True) if d >= LEAST_DELTA]
        axes.plot([e for e, _ in shown], [d for _, d in shown], color=INK, linewidth=2)
        axes.set_yscale("log" if len(shown) > 1 else "linear")
        if stated is not None:
            axes.axvline(stated[0], color=ACCENT, linestyle="--", linewidth=1)
            if stated[1] >= LEAST_DELTA:
                axes.plot([stated[0]], [stated[1]], color=ACCENT, marker="o")
            axes.annotate(
                "stated", (stated[0], 1), xycoords=("data", "axes fraction"), xytext=(4, -12),
                textcoords="offset points", color=ACCENT, fontsize=9,
            )  # fmt: skip
        axes.set_xlabel("epsilon")
        axes.set_ylabel("delta, at most")
        axes.grid(visible=True, alpha=0.3)
        _plain(axes)

    return draw(profile, paint, width=6.4, height=3.4)


def beliefs(table: pyarrow.Table) -> Drawing:
    """Beliefs about one person before and, at most, after the release."""
    before, after = table["before"].to_pylist(), table["after_at_most"].to_pylist()

    def paint(figure: Any, axes: Any) -> None:  # noqa: ARG001
        places = range(len(before))
        axes.barh([p + 0.2 for p in places], before, height=0.36, color=FAINT, label="before")
        bars = axes.barh([p - 0.2 for p in places], after, height=0.36, color=INK, label="after, at most")
        axes.bar_label(bars, labels=[f"{100 * value:.3g} %" for value in after], padding=3, fontsize=9)
        axes.set_yticks(list(places), [f"{100 * value:g} %" for value in before])
        axes.set_ylabel("belief before")
        axes.set_xlim(0, 1.12)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
        axes.legend(frameon=False, loc="lower right")
        _plain(axes)

    return draw(table, paint, width=6.4, height=3.2)


def noise_by_table(table: pyarrow.Table) -> Drawing:
    """The standard deviation of the noise on one cell of every measured table, the noisiest first."""
    rows = sorted(table.to_pylist(), key=lambda row: -(row["noise_sd"] or 0.0))[:MOST_BARS][::-1]

    def paint(figure: Any, axes: Any) -> None:  # noqa: ARG001
        names = [_short(row["table"]) for row in rows]
        bars = axes.barh(range(len(rows)), [row["noise_sd"] or 0.0 for row in rows], color=INK, height=0.7)
        axes.bar_label(bars, labels=[f"{row['noise_sd'] or 0.0:.3g}" for row in rows], padding=3, fontsize=8)
        axes.set_yticks(range(len(rows)), names, fontsize=8, parse_math=False)
        axes.set_xlabel("standard deviation of the noise on one count")
        axes.margins(x=0.12)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        _plain(axes)

    return draw(table, paint, width=6.4, height=max(2.0, 0.5 + 0.24 * len(rows)))


def _short(text: str, most: int = 34) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _plain(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


# The epsilon-delta curve of a mechanism, and the prior that each calibration rule gives.


def privacy_curve(profile: pyarrow.Table, *, title: str = "") -> Drawing:
    """delta against epsilon on a logarithmic scale; exact zeros end the curve."""
    epsilons, deltas = profile["epsilon"].to_pylist(), profile["delta"].to_pylist()

    def paint(figure: Any, axes: Any) -> None:  # noqa: ARG001
        shown = [(e, d) for e, d in zip(epsilons, deltas, strict=True) if d > 0]
        axes.plot([e for e, _ in shown], [d for _, d in shown], color="#00429d", marker=".", markersize=3)
        axes.set_yscale("log" if shown else "linear")
        axes.set_xlabel("epsilon")
        axes.set_ylabel("delta (exact)")
        axes.grid(visible=True, alpha=0.3)
        if title:
            axes.set_title(title, fontsize=9)

    return draw(profile, paint)


def prior_bars(priors: pyarrow.Table, *, title: str = "") -> Drawing:
    """The prior per cell by each calibration rule, as bars with their numbers."""
    rules, values = priors["rule"].to_pylist(), priors["prior"].to_pylist()

    def paint(figure: Any, axes: Any) -> None:  # noqa: ARG001
        bars = axes.barh(rules[::-1], values[::-1], color="#00429d")
        axes.bar_label(bars, labels=[f"{value:.4g}" for value in values[::-1]], padding=3, fontsize=8)
        axes.set_xlabel("prior per cell")
        axes.margins(x=0.15)
        if title:
            axes.set_title(title, fontsize=9)

    return draw(priors, paint, height=2.6)


# The heat map of log odds: which outputs distinguish which neighbouring tables, and how clearly.


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
