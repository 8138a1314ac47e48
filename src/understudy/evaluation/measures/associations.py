"""Whether pairs of attributes are associated as in the original: Cramer's V, and Spearman's correlation if ordered.

Both are computed from the two-way tables. A lost dependence shows here and not in one-way scores.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.result import Finding, Section
from understudy.core.schema import Attribute
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.counted_tables import count_together
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.results import Collected, frame, label

Counts = NDArray[np.int64]
NOTABLE = 0.1


def cramers_v(table: Counts) -> float | None:
    """sqrt(chi2 / (n (min(r, c) - 1))) over the levels that occur; None if either attribute is constant.

    >>> float(cramers_v(np.array([[5, 0], [0, 5]])))
    1.0
    """
    used = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0].astype(np.float64)
    if min(used.shape) < 2:
        return None
    expected = used.sum(axis=1, keepdims=True) * used.sum(axis=0, keepdims=True) / used.sum()
    chi2 = float(np.sum((used - expected) ** 2 / expected))
    return float(np.sqrt(chi2 / (used.sum() * (min(used.shape) - 1))))


def spearman(table: Counts) -> float | None:
    """Correlation of midranks of a table whose rows and columns are in order; None if either attribute is constant.

    >>> round(spearman(np.array([[5, 0], [0, 5]])), 6)
    1.0
    """
    counts = table.astype(np.float64)
    total = counts.sum()
    if total == 0:
        return None
    ranks = [_midranks(counts.sum(axis=1 - axis)) for axis in (0, 1)]
    centred = [rank - (total + 1) / 2 for rank in ranks]
    spread = [float(np.sum(c**2 * counts.sum(axis=1 - axis))) for axis, c in enumerate(centred)]
    if min(spread) <= 0:
        return None
    return float(centred[0] @ counts @ centred[1] / np.sqrt(spread[0] * spread[1]))


def _midranks(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.cumsum(counts) - (counts - 1) / 2


def ranked(attribute: Attribute) -> bool:
    return attribute.ordered or not attribute.levels


@measures.add
def associations(comparison: Comparison) -> Section:
    """Cramer's V of every pair, Spearman's correlation of every pair with an order: original, synthetic, difference."""
    found = Collected()
    rows: list[dict[str, Any]] = []
    if len(comparison.names) < 2:
        found.omit("associations", "all of it", "the schema has one attribute only")
        return found.section()
    pairs = list(combinations(comparison.names, 2))
    for margin, flat, copies in count_together(comparison.original, comparison.copies, pairs):
        shape = comparison.schema.shape(margin)
        if flat.size != np.prod(shape):
            found.omit("associations", label(margin), "the two-way table is too large to hold")
            continue
        tables = [one.reshape(shape) for one in (flat, *copies)]
        attributes = [comparison.schema[name] for name in margin]
        kinds = {"Cramer's V": [cramers_v(table) for table in tables]}
        if all(ranked(attribute) for attribute in attributes):
            inside = tuple(slice(0, attribute.bins) for attribute in attributes)  # missing values have no rank
            kinds["Spearman"] = [spearman(table[inside]) for table in tables]
        for kind, (original, *synthetic) in kinds.items():
            if original is None:
                found.omit("associations", f"{kind} of {label(margin)}", "an attribute is constant in the original")
                continue
            known = [value for value in synthetic if value is not None]
            mean = float(np.mean(known)) if known else None
            if mean is None:
                found.omit("associations", f"{kind} of {label(margin)}", "an attribute is constant in every copy")
            rows.append(
                {
                    "pair": label(margin),
                    "first": margin[0],
                    "second": margin[1],
                    "measure": kind,
                    "original": original,
                    "synthetic": mean,
                    "difference": None if mean is None else mean - original,
                    "sd_between_copies": float(np.std(known, ddof=1)) if len(known) > 1 else None,
                }
            )
    rows.sort(key=lambda row: -abs(row["difference"]) if row["difference"] is not None else -np.inf)
    found.frames["associations"] = frame(rows)
    for kind in ("Cramer's V", "Spearman"):
        of_kind = [row for row in rows if row["measure"] == kind and row["difference"] is not None]
        if of_kind:
            largest = abs(of_kind[0]["difference"])
            found.findings.append(
                Finding(
                    code=f"utility.association.{'cramer' if kind != 'Spearman' else 'spearman'}",
                    title=f"largest difference in {kind}: {of_kind[0]['pair']}",
                    value=largest,
                    severity="warning" if largest > NOTABLE else "good",
                )
            )
    return found.section()
