"""Every one-, two-, three-way table (or as asked): all table measures, the worst tables named, NIST's score.

Two- and three-way tables lead, because scores of one-way tables cannot see a dependence that was lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from understudy.core.result import Finding, Section
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.counted_tables import count_together
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.results import Collected, frame, label
from understudy.evaluation.shared.table_measures import MEASURES, band, k_marginal_score, measure_table, severity_of

WORST = 10
SHOWN_CELLS = 2_000  # cells of a worst table that are written out
RAAB = "Raab (2022), section 3"

Measured = tuple[tuple[str, ...], dict[str, Any]]  # a table's attributes and what was measured of it
NIST = "NIST Diverse Communities, k-marginal"


@measures.add
def margins(comparison: Comparison) -> Section:
    """Tables of 1, 2, 3 attributes: S_pMSE and the other table measures, worst tables, NIST's k-marginal score."""
    found = Collected()
    by_table: list[Measured] = []
    by_way: list[dict[str, Any]] = []
    for way in comparison.ways:
        rows: list[Measured] = []
        each = []
        for margin, original, copies in count_together(comparison.original, comparison.copies, comparison.margins(way)):
            measured = [measure_table(original, copy) for copy in copies]
            each.append([(one["s_pmse"], one["tvd"]) for one in measured])
            rows.append((margin, _row(comparison, way, margin, measured)))
        if not rows:
            found.omit("margins", f"{way}-way tables", f"the schema has {len(comparison.names)} attributes only")
            continue
        by_table += sorted(rows, key=_distance)
        summary = _summary(way, [row for _, row in rows], np.array(each))
        by_way.append(summary)
    for summary in sorted(by_way, key=lambda row: row["way"] == 1):  # one-way tables come last: they see least
        found.findings += _findings(summary)
    found.frames["tables"] = frame([row for _, row in by_table])
    found.frames["ways"] = frame(by_way)
    found.frames["one_way"] = _shares(comparison)
    if pairs := {margin: row for margin, row in by_table if len(margin) == 2}:
        found.frames["two_way"] = _pairs(comparison, pairs)
    worst = [(margin, row) for margin, row in by_table if len(margin) > 1] or by_table
    worst = sorted(worst, key=_distance)[:WORST]
    found.frames["worst_tables"] = _written_out(comparison, worst, found)
    _cover(comparison, [row for _, row in by_table], found)
    return found.section()


def _distance(measured: Measured) -> float:
    """The worst table first."""
    return -float(measured[1]["s_pmse"])


def _row(comparison: Comparison, way: int, margin: tuple[str, ...], measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the copies; degrees of freedom differ between copies and are averaged too."""
    mean = {name: float(np.mean([one[name] for one in measured])) for name in MEASURES}
    return {
        "way": way,
        "table": label(margin),
        "copies": len(measured),
        "cells": comparison.schema.cells(margin),
        "filled_cells": float(np.mean([one["cells"] for one in measured])),
        "df": float(np.mean([one["df"] for one in measured])),
        "g_cells_left_out": float(np.mean([one["g_cells_left_out"] for one in measured])),
        "band": band(mean["s_pmse"]),
        "covered": comparison.covered(margin),
        "s_pmse_sd": _spread([one["s_pmse"] for one in measured]),
        **mean,
    }


def _spread(values: list[float]) -> float | None:
    """The standard deviation between copies; one copy has none."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def _summary(way: int, rows: list[dict[str, Any]], each: np.ndarray[Any, Any]) -> dict[str, Any]:
    """One line per way. ``each`` has S_pMSE and TVD by table and copy."""
    worst = max(rows, key=lambda row: row["s_pmse"])
    scores = [k_marginal_score(each[:, copy, 1]) for copy in range(each.shape[1])]
    known = [row for row in rows if row["covered"] is not None]
    inside = [row["s_pmse"] for row in known if row["covered"]]
    outside = [row["s_pmse"] for row in known if not row["covered"]]
    return {
        "way": way,
        "tables": len(rows),
        "copies": each.shape[1],
        "mean_s_pmse": float(each[:, :, 0].mean()),
        "expected_s_pmse": 1.0,
        "sd_between_copies": _spread(list(each[:, :, 0].mean(axis=0))),
        "worst_table": worst["table"],
        "worst_s_pmse": worst["s_pmse"],
        "good": sum(row["band"] == "good" for row in rows),
        "usable": sum(row["band"] == "usable" for row in rows),
        "poor": sum(row["band"] == "poor" for row in rows),
        "mean_tvd": float(each[:, :, 1].mean()),
        "k_marginal_score": float(np.mean(scores)),
        "covered_tables": len(inside) if known else None,
        "mean_s_pmse_covered": float(np.mean(inside)) if inside else None,
        "mean_s_pmse_not_covered": float(np.mean(outside)) if outside else None,
    }


def _findings(summary: dict[str, Any]) -> list[Finding]:
    way, mean = summary["way"], summary["mean_s_pmse"]
    worst = summary["worst_s_pmse"]
    return [
        Finding(
            code=f"utility.s_pmse.{way}",
            title=f"mean S_pMSE of the {way}-way tables ({band(mean)}; 1 is a correct model)",
            value=mean,
            severity=severity_of(mean),
            reference=RAAB,
        ),
        Finding(
            code=f"utility.worst.{way}",
            title=f"worst {way}-way table by S_pMSE: {summary['worst_table']} ({band(worst)})",
            value=worst,
            severity=severity_of(worst),
            reference=RAAB,
        ),
        Finding(
            code=f"utility.k_marginal.{way}",
            title=f"NIST k-marginal score of the {way}-way tables (1000 is best)",
            value=summary["k_marginal_score"],
            reference=NIST,
        ),
    ]


def _shares(comparison: Comparison) -> Any:
    """Every attribute level by level, in percent; synthetic is the mean of the copies."""
    rows = []
    for name in comparison.names:
        counts = [table.counts((name,)) for table in (comparison.original, *comparison.copies)]
        shares = [100 * one / one.sum() for one in counts]
        synthetic = np.mean(shares[1:], axis=0)
        for level, before, after in zip(comparison.schema[name].code_names, shares[0], synthetic, strict=True):
            rows.append(
                {
                    "attribute": name,
                    "level": level,
                    "original_percent": float(before),
                    "synthetic_percent": float(after),
                    "difference": float(after - before),
                }
            )
    return frame(rows)


def _pairs(comparison: Comparison, rows: Mapping[tuple[str, str], dict[str, Any]]) -> Any:
    """In the schema's order."""
    return frame(
        [
            {
                "first": first,
                "second": second,
                **{key: rows[first, second][key] for key in ("s_pmse", "tvd", "band", "covered")},
            }
            for first, second in combinations(comparison.names, 2)
        ]
    )


def _written_out(comparison: Comparison, worst: list[Measured], found: Collected) -> Any:
    """The worst tables cell by cell: original, synthetic (per original row, mean of the copies), difference."""
    rows = []
    for rank, (margin, entry) in enumerate(worst, start=1):
        if comparison.schema.cells(margin) > SHOWN_CELLS:
            found.omit("margins", f"cells of {entry['table']}", f"more than {SHOWN_CELLS:,} cells are not written out")
            continue
        original = comparison.original.counts(margin)
        scale = [comparison.original.rows / copy.rows for copy in comparison.copies]
        synthetic = np.mean(
            [copy.counts(margin) * by for copy, by in zip(comparison.copies, scale, strict=True)], axis=0
        )
        for cell in np.ndindex(original.shape):
            if original[cell] or synthetic[cell]:
                rows.append(
                    {
                        "rank": rank,
                        "table": entry["table"],
                        "s_pmse": entry["s_pmse"],
                        "cell": " | ".join(
                            comparison.schema[name].code_names[code] for name, code in zip(margin, cell, strict=True)
                        ),
                        "original": int(original[cell]),
                        "synthetic": float(synthetic[cell]),
                        "difference": float(synthetic[cell] - original[cell]),
                    }
                )
    return frame(rows)


def _cover(comparison: Comparison, by_table: list[dict[str, Any]], found: Collected) -> None:
    """Raab's compatibility: tables outside the model cannot be expected to agree, whatever the noise."""
    outside = [row for row in by_table if row["covered"] is False]
    if comparison.covered(()) is None:
        found.omit("margins", "which tables the model covers", "nothing is known about how the release was made")
    elif outside:
        found.findings.append(
            Finding(
                code="utility.not_covered",
                title="tables that the generative model does not cover; they may be biased, not only noisy",
                value=len(outside),
                severity="warning",
                reference="Raab (2022), compatible generative models",
            )
        )
