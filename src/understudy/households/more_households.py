"""More households from a release, and its tables as files for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from understudy.core.folders import publish_folder, release_above
from understudy.core.linked_schema import COMPOSITION, ROLE, SIZE, LinkedSchema
from understudy.core.mechanism import Stream
from understudy.core.schema import Attribute, Schema
from understudy.errors import InputError, UnsupportedError
from understudy.households.household_release import HouseholdRelease, family_tables
from understudy.households.shared.balancing import draw_families
from understudy.release.export import LIMITS, WRITERS, short_names
from understudy.release.table_release import Release

NOTE = "Drawn again from its model."
MOST_HOUSEHOLDS = 20_000_000


def sample_households(release: HouseholdRelease, *, rows: int, copies: int, stream: Stream) -> HouseholdRelease:
    """As many households as are asked for, with the same promise: post-processing of the published model."""
    if release.fitted is None:
        raise UnsupportedError("this release holds no model, so no more households can be drawn from it.")
    for name, value, most in (("rows", rows, MOST_HOUSEHOLDS), ("copies", copies, 1000)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise InputError(f"{name} ({value!r}) must be a whole number from 1 to {most:,}; rows are households.")
    schema, fitted = release.schema, release.fitted
    tables = []
    for copy in range(1, copies + 1):
        families = draw_families(
            schema, fitted, stream, "families", copy,
            measured=release.measurements, rows=rows, fixed=release.statement.unit.fixed,
        )  # fmt: skip
        tables.append(family_tables(families, stream, "decode", copy))
    notes = (*(note for note in release.provenance.notes if note != NOTE), NOTE)
    return replace(release, tables=tuple(tables), provenance=replace(release.provenance, notes=notes))


def export_households(release: HouseholdRelease, folder: Path, *, to: str) -> Path:
    """Files of each copy: households, members, and both joined; as CSV, Stata or SPSS files."""
    if to not in WRITERS:
        raise UnsupportedError(
            f"linked tables are exported as {', '.join(WRITERS)}; {to} is offered for a single table."
        )
    if (inside := release_above(folder)) is not None:
        raise InputError(f"{folder} lies in the release {inside}, which holds nothing but its own files.")
    schema = release.schema
    tables = {schema.household_table: _households_of, schema.member_table: _members_of, "joined": _joined_of}

    def fill(target: Path) -> None:
        told: list[str] = []
        for name, made in tables.items():
            one = made(release)
            columns = [attribute.name for attribute in one.schema.attributes]
            names = short_names(columns, LIMITS[to].name) if to in LIMITS else {column: column for column in columns}
            told += [f"{name}: {short} is {column}" for column, short in names.items() if short != column]
            for copy in range(1, release.copies + 1):
                WRITERS[to](one, copy, names, target / f"{name}_{copy}.{to}")
        lines = [
            "Synthetic households. No row is a person.", "",
            f"{schema.household_table}_N.{to} and {schema.member_table}_N.{to} are linked by {schema.household_id};",
            f"joined_N.{to} has a row for each member with the columns of its household.", "",
            *(["Names that are too long for these files were shortened:", *told, ""] if told else []),
            *release.statement.lines(),
        ]  # fmt: skip
        (target / "README.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    publish_folder(folder, fill, private=release.statement.protects_nobody)
    return folder


def _described(release: HouseholdRelease, attributes: Sequence[Attribute], tables: Sequence[pa.Table]) -> Release:
    """One of the tables as a release of a table, for what writes its files."""
    return Release(
        schema=Schema(attributes=tuple(attributes)),
        tables=tuple(tables),
        statement=release.statement,
        provenance=release.provenance,
    )


def _of_households(schema: LinkedSchema) -> list[Attribute]:
    return [
        *schema.households.attributes,
        schema.wide[SIZE],
        schema.wide[COMPOSITION],
        *(Attribute(name=one.name, edges=(0, 1), outside="clip") for one in schema.derived),
    ]


def _of_members(release: HouseholdRelease) -> list[Attribute]:
    schema = release.schema
    return [
        _number(schema.household_id, release.tables[0].households.num_rows),
        _number(schema.person_id, schema.at_most),
        Attribute(name=ROLE, levels=schema.role_names),
        *schema.members.attributes,
    ]


def _number(name: str, most: int) -> Attribute:
    return Attribute(name=name, edges=(1, most + 1), integer=True, outside="clip")


def _households_of(release: HouseholdRelease) -> Release:
    number = _number(release.schema.household_id, release.tables[0].households.num_rows)
    return _described(
        release, [number, *_of_households(release.schema)], [both.households for both in release.tables]
    )  # fmt: skip


def _members_of(release: HouseholdRelease) -> Release:
    return _described(release, _of_members(release), [both.members for both in release.tables])


def _joined_of(release: HouseholdRelease) -> Release:
    attributes = [*_of_members(release), *_of_households(release.schema)]
    return _described(release, attributes, [release.frame(copy) for copy in range(1, release.copies + 1)])
