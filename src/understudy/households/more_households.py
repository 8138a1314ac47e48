"""More households from a release, and its tables as files for other programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from understudy.core.folders import publish_folder, release_above
from understudy.core.mechanism import Stream
from understudy.errors import InputError, UnsupportedError
from understudy.households.household_release import HouseholdRelease, family_tables
from understudy.households.shared.families import families_of
from understudy.release.csv_file import write_csv

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
        drawn = fitted.draw(schema.wide, rows, stream, "rows", copy)
        families = families_of(schema, fitted.parts[0].model, drawn, stream, "families", copy)
        tables.append(family_tables(families, stream, "decode", copy))
    notes = (*(note for note in release.provenance.notes if note != NOTE), NOTE)
    return replace(release, tables=tuple(tables), provenance=replace(release.provenance, notes=notes))


def export_households(release: HouseholdRelease, folder: Path, *, to: str) -> Path:
    """CSV files of each copy: households, members, and both joined."""
    if to != "csv":
        raise UnsupportedError(f"linked tables are exported as csv; {to} is offered for a single table.")
    if (inside := release_above(folder)) is not None:
        raise InputError(f"{folder} lies in the release {inside}, which holds nothing but its own files.")
    schema = release.schema

    def fill(target: Path) -> None:
        for copy, both in enumerate(release.tables, start=1):
            write_csv(both.households, target / f"{schema.household_table}_{copy}.csv")
            write_csv(both.members, target / f"{schema.member_table}_{copy}.csv")
            write_csv(release.frame(copy), target / f"joined_{copy}.csv")
        lines = [
            "Synthetic households. No row is a person.", "",
            f"{schema.household_table}_N.csv and {schema.member_table}_N.csv are linked by {schema.household_id};",
            "joined_N.csv has a row for each member with the columns of its household.", "",
            *release.statement.lines(),
        ]  # fmt: skip
        (target / "README.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    publish_folder(folder, fill, private=release.statement.protects_nobody)
    return folder
