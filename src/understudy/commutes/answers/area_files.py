"""Profiles of areas as files for other programs: CSV tables, and GeoJSON that a map program shows by area."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.commutes.answers.profiles import area_flows, area_profiles, directions
from understudy.commutes.commute_release import CommuteRelease
from understudy.core.folders import publish_folder, release_above
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.release.csv_file import write_csv
from understudy.release.folder import NO_PERSON
from understudy.release.readme import one_line

FORMATS = ("csv", "geojson")
README = "README.txt"
COLUMNS = """Columns of areas_*: workers (jobs there), residents (workers who live there), live_and_work, live_only (and
work elsewhere), work_only (and live elsewhere), mean_miles_of_workers. Columns ending in _low and _high are the range
of the number before them; an empty range means that the release does not tell. workers_SEGMENT and residents_SEGMENT
count those in a segment (SA01 is age 29 or younger, and so on); they add up to the synthetic jobs. directions_* counts
the workers of an area by where they live, seen from their work. flows_* counts jobs by area of home and of work."""


def export_areas(
    release: CommuteRelease, folder: Path, *, to: str, by: str | None, outlines: str | Path | None = None
) -> Path:
    """Write profiles of the areas of a level into a new folder: ``csv``, or ``geojson`` with public outlines."""
    if to not in FORMATS:
        raise unknown_name("format of commutes", str(to), FORMATS)
    groupings = release.places.groupings
    if not groupings:
        raise UnsupportedError("the places of this release have no areas; there is nothing to export by.")
    if by is None:
        raise InputError(f"say by which areas: --by LEVEL, one of {', '.join(groupings)}.")
    if outlines is not None and to != "geojson":
        raise InputError("outlines go with geojson.")
    if (inside := release_above(folder)) is not None:
        raise InputError(
            f"{folder} lies in the release {inside}, which holds nothing but its own files; choose another."
        )
    table = area_profiles(release, by)
    name = by.replace(" ", "_")

    def fill(target: Path) -> None:
        if to == "geojson":
            shapes = None if outlines is None else read_shapes(Path(outlines))
            text = json.dumps(as_geojson(release, by, table, shapes), ensure_ascii=False)
            (target / f"areas_{name}.geojson").write_text(text, encoding="utf-8")
        else:
            write_csv(table, target / f"areas_{name}.csv")
            write_csv(area_flows(release, by), target / f"flows_{name}.csv")
            try:
                write_csv(directions(release, by), target / f"directions_{name}.csv")
            except UnsupportedError as error:
                (target / f"no_directions_{name}.txt").write_text(f"{error}\n", encoding="utf-8")
        promise = "\n".join(one_line(line) for line in release.statement.lines())
        (target / README).write_text(f"{NO_PERSON}\n\n{promise}\n\n{COLUMNS}\n", encoding="utf-8")

    publish_folder(folder, fill, private=release.statement.protects_nobody)
    return folder


def read_shapes(file: Path) -> list[dict[str, Any]]:
    """The features of a GeoJSON file."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise InputError(f"{file} cannot be read as JSON; outlines need a GeoJSON file.") from None
    features = document.get("features") if isinstance(document, dict) else None
    if not isinstance(features, list) or not all(isinstance(one, dict) for one in features):
        raise InputError(f"{file} has no features; outlines need a FeatureCollection whose features have ids of areas.")
    return features


def as_geojson(
    release: CommuteRelease, level: str, table: pa.Table, shapes: list[dict[str, Any]] | None
) -> dict[str, Any]:
    """A feature for each area: its outline if one has its id among its properties, otherwise a point in its middle."""
    places = release.places
    by_id: dict[str, Any] = {}
    ids = set(table["area"].to_pylist())
    for shape in shapes or ():
        told = [shape.get("id"), *(shape.get("properties") or {}).values()]
        for value in told:
            if isinstance(value, str | int) and str(value) in ids:
                by_id.setdefault(str(value), shape.get("geometry"))
    if shapes is not None and not by_id:
        raise InputError(f"no outline has the id of an area of level '{level}' among its properties.")
    features = []
    for row in table.to_pylist():
        own = (places.groupings[level] == row["area"].encode()) & places.inside
        geometry = by_id.get(row["area"])
        if geometry is None and own.any():
            middle = [float(np.mean(places.longitude[own])), float(np.mean(places.latitude[own]))]
            geometry = {"type": "Point", "coordinates": [round(one, 6) for one in middle]}
        features.append({"type": "Feature", "id": row["area"], "geometry": geometry, "properties": row})
    return {"type": "FeatureCollection", "features": features}
