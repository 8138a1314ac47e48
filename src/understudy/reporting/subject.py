"""What a report is about, whatever the kind of release: its promise, its making, its size and its public domain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from understudy.errors import InputError
from understudy.release.commutes import CommuteRelease
from understudy.release.value import Provenance, Release, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The public facts of a release that a report shows. ``tables`` is None where questions cannot be asked of it."""

    statement: Statement
    provenance: Provenance
    title: str
    copies: int
    rows: int
    size: tuple[str, str]  # a number and what it counts, beside the rows
    domain: tuple[Mapping[str, Any], ...]  # a record per attribute: attribute, label, kind, values, missing
    cells: int
    structural_zeros: int
    measured: tuple[Mapping[str, Any], ...]  # a record per noisy table: table, cells, noise, noise_sd
    mechanisms: tuple[str, ...]
    tables: Release | None


def subject_of(release: Any) -> Subject:
    """The subject of a report on a release of people, of anybody's tables, or of commutes."""
    if isinstance(release, Release):
        return _people(release)
    if isinstance(release, CommuteRelease):
        return _commutes(release)
    raise InputError("report needs a release: read one with read_release, or wrap a synthetic table.")


def _people(release: Release) -> Subject:
    schema, names = release.schema, release.schema.names
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return Subject(
        statement=release.statement,
        provenance=release.provenance,
        title=f"Synthetic data: {', '.join(names[:3])}{more}",
        copies=release.copies,
        rows=release.rows[0],
        size=(f"{len(names)}", "attributes"),
        domain=tuple(
            {
                "attribute": one.name,
                "label": one.label or "",
                "kind": one.kind,
                "values": one.size,
                "missing": one.missing,
            }
            for one in schema.attributes
        ),
        cells=schema.cells(),
        structural_zeros=len(schema.impossible),
        measured=tuple(
            {
                "table": " × ".join(one.margin) or one.label or "number of rows",
                "cells": int(schema.allowed(one.margin).sum()) if one.margin else 1,
                "noise": str(one.mechanism),
                "noise_sd": math.sqrt(one.mechanism.variance),
            }
            for one in release.measurements
        ),
        mechanisms=_mechanisms(release),
        tables=release,
    )


def _commutes(release: CommuteRelease) -> Subject:
    places = len(release.places)
    domain = tuple(
        {"attribute": name, "label": "", "kind": "place", "values": places, "missing": False}
        for name in ("origin", "destination")
    )
    return Subject(
        statement=release.statement,
        provenance=release.provenance,
        title=f"Synthetic commutes between {places:,} places",
        copies=release.copies,
        rows=release.table_rows()[0],
        size=(f"{places:,}", "places"),
        domain=domain,
        cells=places * places,
        structural_zeros=0,
        measured=tuple(
            {
                "table": one.label,
                "cells": int(one.values.size),
                "noise": str(one.mechanism),
                "noise_sd": math.sqrt(one.mechanism.variance),
            }
            for one in release.measurements
        ),
        mechanisms=_mechanisms(release),
        tables=None,
    )


def _mechanisms(release: Release | CommuteRelease) -> tuple[str, ...]:
    used = {one.mechanism.name for one in release.measurements}
    used |= {str(one["mechanism"]) for draw in release.provenance.draws for one in draw.get("mechanisms", ())}
    return tuple(sorted(used))
