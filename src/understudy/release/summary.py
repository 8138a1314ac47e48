"""The public facts of a release that a report shows, whatever its kind: promise, making, size and public domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from understudy.release.statement import Provenance, Statement

if TYPE_CHECKING:
    from understudy.release.kind import AnyRelease
    from understudy.release.table_release import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
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


def mechanisms_of(release: AnyRelease) -> tuple[str, ...]:
    """The names of all mechanisms that measured or drew for a release."""
    used = {one.mechanism.name for one in release.measurements}
    used |= {str(one["mechanism"]) for draw in release.provenance.draws for one in draw.get("mechanisms", ())}
    return tuple(sorted(used))
