"""Weighted tables of a survey: what the population looks like by the original rows, and by the synthetic ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.bins import bins_of
from understudy.core.result import Finding, Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.counted_tables import count_together
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.results import Collected, frame

NOTABLE = 0.1


@measures.add
def weighted(comparison: Comparison) -> Section:
    """Weighted shares of every level, original and synthetic, with weights by the mean of their bins; for surveys."""
    found = Collected()
    schema = comparison.schema
    if schema.weight is None or schema.weight.column not in comparison.names:
        return found.section()
    column = schema.weight.column
    mean_weight = bins_of(schema[column]).means()
    rows: list[dict[str, Any]] = []
    apart: dict[str, float] = {}
    others = [name for name in comparison.names if name not in schema.weights]
    for margin, flat, copies in count_together(
        comparison.original, comparison.copies, [schema.margin((name, column)) for name in others]
    ):
        name = next(one for one in margin if one != column)
        shape = schema.shape(margin)
        if flat.size != np.prod(shape):
            found.omit("weighted", name, "its table with the weight is too large to hold")
            continue
        axis = margin.index(column)
        original, *synthetic = (_shares(one.reshape(shape), mean_weight, axis) for one in (flat, *copies))
        mean = np.mean(synthetic, axis=0)
        apart[name] = float(np.abs(mean - original).sum() / 2)
        rows += [
            {"attribute": name, "level": level, "original": float(a), "synthetic": float(b), "difference": float(b - a)}
            for level, a, b in zip(schema[name].code_names, original, mean, strict=True)
        ]
    if not apart:
        return found.section()
    found.frames["weighted"] = frame(rows)
    worst = max(apart, key=lambda name: apart[name])
    found.findings.append(
        Finding(
            code="utility.weighted.tvd",
            title=f"largest total variation distance of a weighted table: {worst}",
            value=apart[worst],
            severity="warning" if apart[worst] > NOTABLE else "good",
        )
    )
    return found.section()


def _shares(counts: NDArray[np.int64], weights: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """The weighted share of every level of an attribute, from its table with the weight."""
    summed = np.tensordot(counts.astype(np.float64), weights, axes=([axis], [0]))
    total = float(summed.sum())
    return np.asarray(summed / total if total > 0 else summed)
