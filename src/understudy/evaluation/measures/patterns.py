"""Impossible combinations in the synthetic rows, and whether values are missing together as they were."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.result import Finding, Section
from understudy.core.table import CodedTable
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.results import Collected, frame
from understudy.evaluation.shared.table_measures import band, measure_table, severity_of

SHOWN = 50
LARGEST = 62  # attributes with missing values whose patterns a 64-bit number can name


@measures.add
def patterns(comparison: Comparison) -> Section:
    """Rows that break a structural zero, and patterns of missing values: original, synthetic, S_pMSE."""
    found = Collected()
    _impossible(comparison, found)
    _missing(comparison, found)
    return found.section()


def _impossible(comparison: Comparison, found: Collected) -> None:
    schema = comparison.schema
    if not schema.zeros:
        found.omit("patterns", "impossible combinations", "the schema names none")
        return
    rows: list[dict[str, Any]] = []
    broken = np.zeros(sum(copy.rows for copy in comparison.copies), bool)
    for rule in schema.zeros:
        codes = rule.codes(schema)
        inside = np.concatenate(
            [
                np.logical_and.reduce([np.isin(copy.columns[name], chosen) for name, chosen in codes.items()])
                for copy in comparison.copies
            ]
        )
        broken |= inside
        share = 100 * float(inside.mean())
        rows.append({"rule": rule.describe(), "synthetic_rows": int(inside.sum()), "synthetic_percent": share})
    found.frames["impossible"] = frame(rows)
    found.findings.append(
        Finding(
            code="utility.impossible",
            title="percent of synthetic rows with an impossible combination",
            value=100 * float(broken.mean()),
            severity="problem" if broken.any() else "good",
        )
    )


def _missing(comparison: Comparison, found: Collected) -> None:
    names = [attribute.name for attribute in comparison.schema.attributes if attribute.missing]
    if not names:
        found.omit("patterns", "missing values", "the schema allows none")
        return
    if len(names) > LARGEST:
        found.omit("patterns", "missing values", f"more than {LARGEST} attributes may be missing")
        return
    numbered = [_pattern(table, names) for table in (comparison.original, *comparison.copies)]
    kinds, place = np.unique(np.concatenate(numbered), return_inverse=True)
    bounds = np.cumsum([0, *map(len, numbered)])
    counts = [
        np.bincount(place[bounds[i] : bounds[i + 1]], minlength=len(kinds)).astype(np.int64)
        for i in range(len(numbered))
    ]
    share = [one / one.sum() for one in counts]
    synthetic = np.mean(share[1:], axis=0)
    order = np.argsort(-(share[0] + synthetic), kind="stable")[:SHOWN]
    found.frames["missing_patterns"] = frame(
        [
            {
                "missing": ", ".join(name for bit, name in enumerate(names) if kinds[i] >> bit & 1) or "none",
                "original_percent": 100 * float(share[0][i]),
                "synthetic_percent": 100 * float(synthetic[i]),
                "difference": 100 * float(synthetic[i] - share[0][i]),
            }
            for i in order
        ]
    )
    if len(kinds) > SHOWN:
        found.omit("patterns", f"{len(kinds) - SHOWN} rare patterns of missing values", f"the first {SHOWN} are listed")
    value = float(np.mean([measure_table(counts[0], copy)["s_pmse"] for copy in counts[1:]]))
    found.findings.append(
        Finding(
            code="utility.missing",
            title=f"S_pMSE of the patterns of missing values ({band(value)})",
            value=value,
            severity=severity_of(value),
        )
    )


def _pattern(table: CodedTable, names: list[str]) -> Integers:
    number = np.zeros(table.rows, np.int64)
    for bit, name in enumerate(names):
        number |= (table.columns[name] == table.schema[name].missing_code).astype(np.int64) << bit
    return number
