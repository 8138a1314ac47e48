"""Public outlines under the dots, from a GeoJSON file. Only shapes are taken; properties stay outside the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.errors import InputError

MOST_BYTES = 50_000_000
MOST_POINTS = 200_000
SHAPES = ("Polygon", "MultiPolygon", "LineString", "MultiLineString")
DEPTHS = {"LineString": 0, "MultiLineString": 1, "Polygon": 1, "MultiPolygon": 2}

Ring = NDArray[np.float64]


def read_outlines(path: str | Path) -> list[Ring]:
    """Rings and lines of a GeoJSON file, each an array of latitude and longitude in degrees."""
    file = Path(path)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"{file} is larger than {MOST_BYTES // 1_000_000} MB; simplify the outlines first.")
        document = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{file} does not exist; --outlines needs a GeoJSON file.") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise InputError(f"{file} cannot be read as JSON; --outlines needs a GeoJSON file.") from None
    rings = [ring for shape in _shapes(document, file) for ring in _rings(shape, file)]
    if not rings:
        raise InputError(f"{file} has no outlines: none of {', '.join(SHAPES)} is in it.")
    points = sum(len(ring) for ring in rings)
    if points > MOST_POINTS:
        raise InputError(
            f"{file} has {points:,} points; at most {MOST_POINTS:,} are drawn. Simplify the outlines first."
        )
    return rings


def _shapes(document: Any, file: Path) -> list[dict[str, Any]]:
    kind = document.get("type") if isinstance(document, dict) else None
    if kind == "FeatureCollection" and isinstance(document.get("features"), list):
        return [shape for feature in document["features"] for shape in _shapes(feature, file)]
    if kind == "Feature":
        return [] if document.get("geometry") is None else _shapes(document["geometry"], file)
    if kind == "GeometryCollection" and isinstance(document.get("geometries"), list):
        return [shape for geometry in document["geometries"] for shape in _shapes(geometry, file)]
    if kind in SHAPES:
        return [document]
    if kind in ("Point", "MultiPoint"):
        raise InputError(f"{file} holds points; outlines are polygons or lines ({', '.join(SHAPES)}).")
    found = f"of type {kind!r}" if isinstance(kind, str) else "without a type"
    raise InputError(f"{file} is not GeoJSON: it holds something {found}; expected a FeatureCollection or a geometry.")


def _rings(shape: dict[str, Any], file: Path) -> list[Ring]:
    lines: list[Any] = [shape.get("coordinates")]
    for _ in range(DEPTHS[shape["type"]]):  # unwrap one level of lists at a time
        if not all(isinstance(line, list) for line in lines):
            break
        lines = [inner for outer in lines for inner in outer]
    return [_ring(line, shape["type"], file) for line in lines]


def _ring(line: Any, kind: str, file: Path) -> Ring:
    try:
        points = np.array([(point[1], point[0]) for point in line], dtype=np.float64)
    except (TypeError, ValueError, IndexError, KeyError):
        points = np.empty((0, 2))
    if len(points) < 2 or not np.isfinite(points).all():
        raise InputError(f"a {kind} in {file} is not a list of [longitude, latitude] pairs.")
    if np.abs(points[:, 0]).max() > 90 or np.abs(points[:, 1]).max() > 360:
        raise InputError(
            f"{file} has coordinates outside -90 to 90 and -180 to 180 degrees; GeoJSON is in longitude and latitude "
            "(WGS 84), longitude first. Convert it first."
        )
    return points
