"""Counts of groups: how wrong small and large ones are, which real groups vanished, which were invented.

Groups are the cells of the one- and two-way tables. Drawing as many rows from the original itself would lose a group
of d people out of n with probability (1 - d/n)^k; that expectation stands beside what was found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.result import Finding, Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.counted_tables import count_together
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.results import Collected, frame, label

SIZES = ((1, 4), (5, 9), (10, 49), (50, 199), (200, None))
WAYS = (1, 2)
SHOWN = 50


@measures.add
def subgroups(comparison: Comparison) -> Section:
    """Errors of the counts of groups by their size; groups that vanished and groups that were invented."""
    found = Collected()
    schema = comparison.schema
    scale = [comparison.original.rows / copy.rows for copy in comparison.copies]
    by_size: dict[tuple[int, int], list[dict[str, Any]]] = {}
    vanished: list[dict[str, Any]] = []
    invented: list[dict[str, Any]] = []
    for way in [way for way in WAYS if way <= len(comparison.names)]:
        for margin, original, copies in count_together(comparison.original, comparison.copies, comparison.margins(way)):
            if original.size != schema.cells(margin):
                found.omit("subgroups", label(margin), "the table is too large to hold")
                continue
            scaled = np.array([copy * by for copy, by in zip(copies, scale, strict=True)])
            errors = np.abs(scaled - original)
            for place, (low, high) in enumerate(SIZES):
                inside = (original >= low) & (original <= (np.inf if high is None else high))
                if inside.any():
                    part = _part(original[inside], scaled[:, inside], errors[:, inside], comparison)
                    by_size.setdefault((way, place), []).append(part)
            always = scaled.max(axis=0)
            vanished += _named(comparison, margin, original, np.flatnonzero((original > 0) & (always == 0)))
            mean = scaled.mean(axis=0)
            invented += _named(comparison, margin, mean, np.flatnonzero((original == 0) & (mean > 0)))
    rows = []
    for (way, place), parts in sorted(by_size.items()):
        low, high = SIZES[place]
        groups = sum(part["groups"] for part in parts)
        rows.append(
            {
                "way": way,
                "people_in_group": f"{low}-{high}" if high else f"{low} and more",
                "groups": groups,
                "mean_absolute_error": sum(part["error"] for part in parts) / groups,
                "mean_relative_error_percent": 100 * sum(part["relative"] for part in parts) / groups,
                "vanished_percent": 100 * sum(part["vanished"] for part in parts) / groups,
                "expected_vanished_percent": 100 * sum(part["expected"] for part in parts) / groups,
            }
        )
    found.frames["subgroups"] = frame(rows)
    for name, verb, listed in (("vanished", "vanished", vanished), ("invented", "were invented", invented)):
        listed.sort(key=lambda row: -row["people"])
        found.frames[name] = frame(listed[:SHOWN]) if listed else _no_groups()
        found.findings.append(
            Finding(
                code=f"utility.{name}",
                title=f"groups of the one- and two-way tables that {verb}"
                + (f"; the largest: {listed[0]['group']} ({listed[0]['table']})" if listed else ""),
                value=len(listed),
                severity="warning" if listed and listed[0]["people"] >= 10 else "info",
            )
        )
    return found.section()


def _part(
    original: NDArray[np.int64], scaled: NDArray[np.float64], errors: NDArray[np.float64], comparison: Comparison
) -> dict[str, float]:
    chance = [(1 - original / comparison.original.rows) ** copy.rows for copy in comparison.copies]
    return {
        "groups": len(original),
        "error": float(errors.mean(axis=0).sum()),
        "relative": float((errors / original).mean(axis=0).sum()),
        "vanished": float((scaled == 0).mean(axis=0).sum()),
        "expected": float(np.mean(chance, axis=0).sum()),
    }


def _named(
    comparison: Comparison, margin: tuple[str, ...], people: NDArray[Any], cells: NDArray[np.int64]
) -> list[dict[str, Any]]:
    parts = np.unravel_index(cells, comparison.schema.shape(margin))
    names = [comparison.schema[name].code_names for name in margin]
    return [
        {
            "table": label(margin),
            "group": " | ".join(texts[code] for texts, code in zip(names, codes, strict=True)),
            "people": float(people[cell]),
        }
        for cell, codes in zip(cells, zip(*parts, strict=True), strict=True)
    ]


def _no_groups() -> Any:
    import pyarrow as pa

    return pa.table(
        {"table": pa.array([], pa.string()), "group": pa.array([], pa.string()), "people": pa.array([], pa.float64())}
    )
