"""The utility part of an evaluation: every family of measures, one section, nothing left out silently."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from understudy.core.arrays import Progress
from understudy.core.counts import Source
from understudy.core.formula import parse_formula
from understudy.core.result import Finding, Section
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import InputError, MissingExtraError, SchemaError, UnsupportedError
from understudy.evaluation.shared.measure import OMISSIONS, Collected, Comparison, frame, measures
from understudy.models.design import check_functions
from understudy.release import Release

LEADING = ("margins", "propensity")
NULLS = ("auto", "formula", "permutation", "copies")


def evaluate_utility(
    release: Release,
    confidential: Source,
    *,
    holdout: Source | None = None,
    models: Sequence[str] = (),
    ways: Sequence[int] = (1, 2, 3),
    families: Sequence[str] | None = None,
    null: str = "auto",
    permutations: int = 10,
    progress: Progress | None = None,
) -> Section:
    """How far the synthetic tables of a release are from the confidential one. Internal: never put it into a release.

    ``models`` are regressions such as "income ~ age + sex". ``ways`` says of how many attributes the tables are.
    ``families`` chooses measures by name (all by default); one that is asked for by name and cannot be computed raises,
    while in a full evaluation it is listed in the frame ``omissions``. ``null`` is how propensity scores are
    standardised: by formula, by ``permutations``, by pairs of copies, or (auto) as fits the classifier.
    """
    comparison = compare(
        release,
        confidential,
        holdout=holdout,
        models=models,
        ways=ways,
        null=null,
        permutations=permutations,
        progress=progress,
    )
    chosen = _in_order(measures.names()) if families is None else tuple(families)
    for name in chosen:
        measures[name]
    found = Collected()
    for name in chosen:
        try:
            found.add(measures[name](comparison))
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


def compare(
    release: Release,
    confidential: Source,
    *,
    holdout: Source | None = None,
    models: Sequence[str] = (),
    ways: Sequence[int] = (1, 2, 3),
    null: str = "auto",
    permutations: int = 10,
    progress: Progress | None = None,
) -> Comparison:
    """The release and the data as codes of one schema, after everything about them is checked."""
    if null not in NULLS:
        raise InputError(f"null ({null!r}) must be one of {', '.join(NULLS)}.")
    if null == "copies" and release.copies < 2:
        raise InputError("null 'copies' compares pairs of copies; this release has one. Use 'permutation'.")
    if isinstance(permutations, bool) or not isinstance(permutations, int) or permutations < 2:
        raise InputError(f"permutations ({permutations}) must be a whole number of at least 2.")
    chosen = tuple(dict.fromkeys(ways))
    if not chosen or any(isinstance(way, bool) or not isinstance(way, int) or way < 1 for way in chosen):
        raise InputError(f"ways ({', '.join(map(str, ways))}) must be whole numbers of at least 1.")
    original = _codes(confidential, release.schema, "the confidential data")
    copies = tuple(release.coded(copy) for copy in range(1, release.copies + 1))
    for number, copy in enumerate(copies, start=1):
        if not copy.rows:
            raise InputError(f"synthetic table {number} has no rows; there is nothing to compare.")
    chosen_models = (models,) if isinstance(models, str) else tuple(models)
    for model in chosen_models:  # refused before anything long is computed
        check_functions(release.schema, parse_formula(model, release.schema.names))
    return Comparison(
        release=release,
        original=original,
        copies=copies,
        original_rows=cache(lambda: _rows(confidential)),  # two families read them
        holdout=None if holdout is None else _codes(holdout, release.schema, "the holdout data"),
        models=chosen_models,
        ways=chosen,
        null=null,
        permutations=permutations,
        progress=progress,
    )


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


def _codes(source: Any, schema: Schema, what: str) -> CodedTable:
    if not isinstance(source, Source) or not hasattr(source, "confidential_codes"):
        raise InputError(f"{what} must be a source; open them with understudy.open_source(data, release.schema).")
    _same_codes(source.schema, schema, what)
    table: CodedTable = source.confidential_codes()
    if not table.rows:
        raise InputError(f"{what} have no rows; there is nothing to compare.")
    return CodedTable(schema=schema, columns=table.columns)


def _rows(source: Any) -> pa.Table:
    return source.confidential_rows()


def _same_codes(ours: Schema, theirs: Schema, what: str) -> None:
    """Labels and ignored columns may differ; attributes, their levels and bins may not."""
    if set(ours.names) != set(theirs.names):
        odd = sorted(set(ours.names) ^ set(theirs.names))[0]
        where = "the release" if odd in theirs.names else what
        raise SchemaError(f"attribute '{odd}' is in {where} only; open the data with the schema of the release.")
    for name in theirs.names:
        if ours[name].code_names != theirs[name].code_names or ours[name].kind != theirs[name].kind:
            raise SchemaError(
                f"attribute '{name}' has other levels or bins in {what} than in the release; open them with its schema."
            )
