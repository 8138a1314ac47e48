"""How useful and how risky a release of households is, at both levels. All of it is internal.

What belongs together is compared over all pairs of members: partners, parents and children, siblings. Beside it stand
the usual tables of households and of members. Attacks are those of tables: on whole households (one row for each, with
the slots of its members), on single members, and on partners and children with what is known of the others at home.
What the public schema forces, such as an empty slot, is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.core.bins import bins_of
from understudy.core.household_roles import CHILD, PARTNER, REFERENCE
from understudy.core.linked_schema import COMPOSITION, SIZE, LinkedSchema
from understudy.core.result import Evaluation, EvaluationRequest, Finding, Section
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.engines.opening import open_source
from understudy.engines.reading.decode import decode
from understudy.errors import InputError
from understudy.evaluation.inputs.comparison import compare
from understudy.evaluation.risk import evaluate_risk, joined_board_frames
from understudy.households.household_release import HouseholdRelease, public_words
from understudy.households.linked_table import LinkedTable, member_codes
from understudy.households.pair_tables import kinds_of, pair_tables, pairs_of, total_variation
from understudy.households.source import HouseholdSource, impossible_households
from understudy.release.table_release import wrap

LEVELS = ("households", "members")
CALLED = {"households": "whole households", "members": "single members"}
FEWEST = 100  # rows, below which an attack says nothing
NOT_AGAIN = "releases of linked tables are not made again here; give a holdout of other households"
ONE_PERSON = "The guarantee limits what is learned of one person at a time, and says nothing of whole households."


def evaluate_households(release: HouseholdRelease, source: HouseholdSource, asked: EvaluationRequest) -> Evaluation:
    """Utility from all copies (means), and risk from attacks at both levels."""
    if asked.models or asked.keys or asked.targets or tuple(asked.ways) != EvaluationRequest().ways:
        raise InputError(
            "models, keys, targets and ways are for a single table; evaluate release.homes, one row for each "
            "household, to ask for them."
        )
    truth = source.confidential_families()
    utility = Section()
    if "utility" in asked.parts:
        utility = _utility(truth, [release.linked(copy) for copy in range(1, release.copies + 1)])
    risk = Section()
    if "risk" in asked.parts:
        holdout = asked.holdout
        if holdout is not None and not isinstance(holdout, HouseholdSource):
            from understudy.households.source import open_households

            holdout = open_households(holdout, release.schema)
        risk = _risk(release, truth, None if holdout is None else holdout.confidential_families(), asked)
    return Evaluation(utility=utility, risk=risk)


def _utility(truth: LinkedTable, copies: Sequence[LinkedTable]) -> Section:
    belonging, levels, correlations = (
        pa.Table.from_pylist(list(make(truth, copies))) for make in (_belonging, _levels, _correlations)
    )
    wrong = sum(impossible_households(one) for one in copies)
    worst = max(belonging.to_pylist(), key=lambda row: row["tvd"], default=None)
    findings = [
        Finding(
            code="impossible_households", title="Impossible synthetic households", value=wrong,
            severity="info" if not wrong else "warning", audience="internal", reference="docs/theory/households.md",
        )
    ]  # fmt: skip
    if worst is not None:
        findings.append(
            Finding(
                code="worst_pair_table", title=f"Worst table of pairs: {worst['table']} ({worst['kind']})",
                value=round(worst["tvd"], 4), severity="info", audience="internal",
                reference="docs/theory/households.md",
            )
        )  # fmt: skip
    frames = {"belonging": belonging, "levels": levels, "correlations": correlations}
    return Section(findings=tuple(findings), frames=frames)


def _belonging(truth: LinkedTable, copies: Sequence[LinkedTable]) -> Iterator[dict[str, Any]]:
    for kind in kinds_of(truth):
        made = [dict(pair_tables(one, kind)) for one in copies]
        for names, counts in pair_tables(truth, kind):
            yield {
                "table": " x ".join(names),
                "kind": kind,
                "cells": int(counts.size),
                "tvd": float(np.mean([total_variation(counts, one[names]) for one in made])),
            }


def _levels(truth: LinkedTable, copies: Sequence[LinkedTable]) -> Iterator[dict[str, Any]]:
    for level in LEVELS:
        ours, theirs = _table(truth, level), [_table(one, level) for one in copies]
        for way in (1, 2):
            found = {
                " x ".join(names): float(
                    np.mean([total_variation(_counts(ours, names), _counts(one, names)) for one in theirs])
                )
                for names in combinations(ours, way)
            }
            if found:
                worst = max(found, key=found.__getitem__)
                yield {
                    "level": level, "way": way, "tables": len(found), "mean_tvd": float(np.mean(list(found.values()))),
                    "worst_table": worst, "worst_tvd": found[worst],
                }  # fmt: skip


Columns = dict[str, tuple[NDArray[np.int64], int]]  # codes and how many there can be


def _table(linked: LinkedTable, level: str) -> Columns:
    schema = linked.schema
    own = linked.households if level == "households" else linked.members
    found = {name: (own.columns[name].astype(np.int64), own.schema[name].size) for name in own.schema.names}
    if level == "households":
        found[SIZE] = (linked.by_role.sum(axis=1) - schema.at_least, len(schema.size_range))
        found[COMPOSITION] = (linked.compositions, len(schema.kinds))
    return found


def _counts(columns: Columns, names: Sequence[str]) -> NDArray[np.int64]:
    flat, cells = np.zeros(len(next(iter(columns.values()))[0]), dtype=np.int64), 1
    for name in names:
        codes, size = columns[name]
        flat, cells = flat * size + codes, cells * size
    return np.bincount(flat, minlength=cells)


def _correlations(truth: LinkedTable, copies: Sequence[LinkedTable]) -> Iterator[dict[str, Any]]:
    """Correlations of numbers between members who belong together, numbers taken in the middle of their bins."""
    members = truth.schema.members
    for kind in kinds_of(truth):
        for attribute in members.attributes:
            if attribute.kind == "numeric":
                yield {
                    "kind": kind,
                    "attribute": attribute.name,
                    "confidential": _correlation(truth, kind, attribute.name),
                    "synthetic": float(np.mean([_correlation(one, kind, attribute.name) for one in copies])),
                }


def _correlation(linked: LinkedTable, kind: str, name: str) -> float:
    attribute = linked.schema.members[name]
    middle = np.append(bins_of(attribute).means(), np.full(attribute.size - attribute.bins, np.nan))
    one, other = (middle[linked.members.columns[name][part].astype(np.int64)] for part in pairs_of(linked, kind))
    known = ~np.isnan(one) & ~np.isnan(other)
    if known.sum() < 2 or not one[known].std() or not other[known].std():
        return float("nan")
    return float(np.corrcoef(one[known], other[known])[0, 1])


def _risk(
    release: HouseholdRelease, truth: LinkedTable, holdout: LinkedTable | None, asked: EvaluationRequest
) -> Section:
    """The attacks of tables on whole households, on single members, and on members beside the reference person."""
    findings: list[Finding] = []
    frames: dict[str, pa.Table] = {}
    sections: dict[str, Section] = {}
    made = release.linked(1)
    for level in (*LEVELS, *_beside(release.schema)):
        rows = {name: _rows_of(one, level) for name, one in (("made", made), ("truth", truth))}
        if any(one.rows < FEWEST for one in rows.values()):
            continue
        plain = rows["truth"].schema
        others = None if holdout is None else _rows_of(holdout, level)
        table = wrap(_values(rows["made"]), plain)
        unit = release.statement.unit
        if level != "households" or unit.unit_id is None or unit.unit_id != release.schema.person_id:
            # What is said of one member is an event of the same output, so the bound for the unit holds for it too.
            stated = replace(table.statement, guarantee=release.statement.guarantee)
            table = replace(table, statement=stated)
        comparison = compare(
            table,
            open_source(_values(rows["truth"]), plain),
            holdout=None if others is None or others.rows < FEWEST else open_source(_values(others), plain),
            targets=_targets(release.schema, level),
            thorough=asked.thorough, no_refit=NOT_AGAIN,
            rows_together=_members_together(truth) if level == "members" else 1.0,
        )  # fmt: skip
        section = evaluate_risk(comparison, progress=asked.progress)
        sections[CALLED.get(level, f"the {level}")] = section
        findings += [_at(level, one) for one in section.findings]
        frames |= {f"{level}_{name}": table for name, table in section.frames.items()}
    board = joined_board_frames(sections, {CALLED["households"]: ONE_PERSON})
    return Section(findings=tuple(findings), frames={**board, **frames})


def _members_together(linked: LinkedTable) -> float:
    """How many members are worth one: a household is in the data or in the holdout as a whole (Kish 1965)."""
    sizes = np.bincount(linked.owner).astype(np.float64)
    return float(np.sum(sizes**2) / sizes.sum())


def _beside(schema: LinkedSchema) -> tuple[str, ...]:
    """The roles whose members are attacked with what is known of the rest of their household."""
    return tuple(slot.role for slot in schema.slots if not slot.second and slot.role in (PARTNER, CHILD))


def _targets(schema: LinkedSchema, level: str) -> tuple[str, ...]:
    """What an intruder guesses. An empty slot follows from the composition, which the schema says; so in rows of whole
    households only attributes of the household and of whoever is always there are guessed."""
    if level == "members":
        return ()
    if level != "households":
        return tuple(f"{level}_{name}" for name in schema.members.names)
    always = [slot for slot in schema.slots if schema.always_filled(slot)]
    return (*schema.households.names, *(slot.column(name) for slot in always for name in schema.members.names))


def _rows_of(linked: LinkedTable, level: str) -> CodedTable:
    """The rows that are attacked. For a role: households that have such a member, with everybody in them who is sure
    to be there, so no value follows from who is missing."""
    schema = linked.schema
    if level == "members":
        return CodedTable(schema=schema.members.without_rules, columns=linked.members.columns)
    wide = linked.wide(public_words().words(len(linked.owner), "homes", 1))
    if level == "households":
        return CodedTable(schema=schema.wide.without_rules, columns=wide.columns)
    here = np.flatnonzero(linked.by_role[:, schema.role_names.index(level)] > 0)
    columns: dict[str, Any] = {name: wide.columns[name][here] for name in (*schema.households.names, SIZE)}
    attributes = [schema.wide[name] for name in columns]
    for slot in schema.slots:
        if slot.second or slot.role not in (REFERENCE, level):
            continue
        always = schema.always_filled(slot)
        for name in schema.members.names:
            column = slot.column(name)
            columns[column] = member_codes(schema, name, wide.columns[column][here], always)
            attributes.append(replace(schema.members[name], name=column))
    return CodedTable(schema=Schema(attributes=tuple(attributes)), columns=columns)


def _values(rows: CodedTable) -> pa.Table:
    stream = public_words()
    return decode(rows, stream, "values")


def _at(level: str, finding: Finding) -> Finding:
    return replace(finding, title=f"{finding.title} ({level})", code=f"{level}_{finding.code}")
