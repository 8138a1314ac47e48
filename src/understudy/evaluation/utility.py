"""The utility part of an evaluation: every family of measures, one section, nothing left out silently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from understudy.core.arrays import Progress
from understudy.core.result import Finding, Section
from understudy.errors import MissingExtraError, UnsupportedError
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.results import OMISSIONS, Collected, frame
from understudy.release import Release

LEADING = ("margins", "propensity")


def evaluate_utility(
    comparison: Comparison, *, families: Sequence[str] | None = None, progress: Progress | None = None
) -> Section:
    """How far the synthetic tables of a release are from the confidential one. Internal: never put it into a release.

    ``families`` chooses measures by name (all by default); one that is asked for by name and cannot be computed raises,
    while in a full evaluation it is listed in the frame ``omissions``.
    """
    chosen = _in_order(measures.names()) if families is None else tuple(families)
    for name in chosen:
        measures[name]
    found = Collected()
    for done, name in enumerate(chosen):
        try:
            section = measures[name](comparison)
            found.add(section)
            if comparison.finished is not None:
                comparison.finished(name, section)
            if progress is not None:
                progress(done + 1, len(chosen))
        except (MissingExtraError, UnsupportedError) as problem:
            if families is not None:
                raise
            found.omit(name, "all of it", str(problem))
    if found.left_out:
        found.findings.append(
            Finding(
                code="utility.omitted",
                title=f"measures that could not be computed; see '{OMISSIONS}' for the reasons",
                value=len(found.left_out),
            )
        )
    return found.section()


def _in_order(names: Sequence[str]) -> tuple[str, ...]:
    """Tables and classifiers lead: scores of single attributes miss a dependence that was lost."""
    return tuple(sorted(names, key=lambda name: (name not in LEADING, name)))


def against_epsilon(evaluated: Sequence[tuple[str, Release, Section]]) -> pa.Table:
    """One row per evaluated release: its epsilon (null if its guarantee has none) beside its utility."""
    rows = []
    for name, release, section in evaluated:
        epsilon = getattr(release.statement.guarantee, "epsilon", None)
        ways = {row["way"]: row for row in section.frames["ways"].to_pylist()} if "ways" in section.frames else {}
        row: dict[str, Any] = {
            "release": name,
            "method": release.provenance.method,
            "guarantee": str(release.statement.guarantee),
            "epsilon": None if epsilon is None else float(epsilon),
            "copies": release.copies,
        }
        for way in (1, 2, 3):
            row[f"s_pmse_{way}"] = ways[way]["mean_s_pmse"] if way in ways else None
            row[f"k_marginal_{way}"] = ways[way]["k_marginal_score"] if way in ways else None
        rows.append(row)
    return frame(rows)
