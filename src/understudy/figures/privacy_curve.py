"""The epsilon-delta curve of a mechanism, and the prior that each calibration rule gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.figures.drawing import Drawing, draw

if TYPE_CHECKING:
    import pyarrow


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
