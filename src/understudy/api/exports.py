"""The verb that writes a release for other programs and for catalogues."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.release.kind import AnyRelease

__all__ = ["export"]


def export(
    release: AnyRelease | str | os.PathLike[str],
    *,
    to: str,
    out: str | os.PathLike[str] | None = None,
    population: int | None = None,
    by: str | None = None,
    outlines: str | os.PathLike[str] | None = None,
    unverified: bool = False,
) -> Path:
    """Write a release as files for other programs, into a new folder.

    CSV holds the values as they are and an empty field for missing. Stata and SPSS get codes with value labels: a level
    that is a whole number is its own code, a text level gets its number in the schema's order (from 1) with the text as
    label, false and true are 0 and 1. Dates are dates, and missing is the format's own missing value. Names that the
    format cannot hold are shortened by a rule that README.txt in the folder states with every name it changed.

    ``r`` writes what the R package ``understudyr`` reads: tables, labels, promise and noisy tables. ``croissant`` and
    ``dcat`` write a description of the release for machines (Croissant; schema.org and DCAT), beside copies of its
    files. Every format says that the data are synthetic.

    Commutes are written by area: who works and lives in each area of a level, inflow and outflow, directions and flows,
    each number with its range.

    Parameters
    ----------
    release
        The release, or its folder. ``r``, ``croissant`` and ``dcat`` need the folder.
    to
        The format: ``csv``, ``dta`` (Stata), ``sav`` (SPSS), ``r``, ``croissant`` or ``dcat``; for commutes ``csv`` or
        ``geojson``.
    out
        The new folder; by default ``RELEASE-csv`` and the like, beside the release.
    population
        For a release with weights: write so many rows that stand for equally many people each, without a weight (see
        ``understudy.population``). With ``csv``, ``dta`` and ``sav``.
    by
        For commutes: the level of areas, such as ``tract`` or ``zip``.
    outlines
        For commutes as ``geojson``: a GeoJSON file of public outlines whose properties hold the ids of the areas.
        Without it every area is a point.
    unverified
        Export a folder that does not pass ``understudy verify``. The files say so.

    Returns
    -------
    Path
        Where the folder is.

    Raises
    ------
    UnknownNameError
        If there is no such format.
    InputError
        If the release does not pass ``verify``, the folder exists or cannot be written, or the format cannot hold the
        table.
    UnsupportedError
        If it is not a release that can be exported.

    Examples
    --------
    >>> import tempfile, understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> table = us.wrap(make_people(50).select(list(small_schema().names)), small_schema())
    >>> sorted(file.name for file in us.export(table, to="csv", out=tempfile.mkdtemp() + "/csv").iterdir())
    ['README.txt', 'synthetic_1.csv']
    """
    from understudy.release.export import open_for_export
    from understudy.release.kind import kind_of_release

    opened = open_for_export(release, to=to, out=out, unverified=unverified)
    kind = kind_of_release(opened.release)
    assert kind is not None  # noqa: S101  (it was opened as a release)
    return kind.export(opened, {"to": to, "population": population, "by": by, "outlines": outlines})
