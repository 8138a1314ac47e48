"""Pictures of a guarantee: the delta proved at each epsilon, the largest change of a belief, the amount of noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
