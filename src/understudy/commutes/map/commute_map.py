"""The map of a commuting release: one HTML file that shows where the workers of any place live.

Only what is inside a release goes into the page: its places, its synthetic jobs and its statement. A table, a file of
records or another kind of release is refused, because nothing says that it may leave the building. Outlines are public
shapes that the caller names; of a GeoJSON file only the shapes are taken.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.map.counts_law import (
    near_errors,
    off_alike,
    pair_noise,
    part_inside,
    stated_law,
    whole_areas_only,
)
from understudy.commutes.map.map_wording import (
    caution_html,
    explanation_html,
    numbers_text,
    part_words,
    plain_words,
    promise_html,
    promise_text,
)
from understudy.commutes.map.page_arrays import (
    KM_PER_MILE,
    MapFlows,
    MapPlaces,
    NearErrors,
    Packer,
    pack_flows,
    pack_outlines,
    pack_places,
)
from understudy.commutes.shared.segments import NAMES as SEGMENT_NAMES
from understudy.core.folders import explained_disk_errors, scratch_path, write_private
from understudy.errors import DisclosureError, InputError, InternalError, UnsupportedError, unknown_name
from understudy.release.statement import Statement

if TYPE_CHECKING:
    from understudy.commutes.commute_release import CommuteRelease
    from understudy.core.places import Places
    from understudy.release.kind import AnyRelease

MOST_DOTS = 1_000_000  # the same number as in dots.js; a test compares them
MOST_PAIRS = 4_000_000
MOST_IDLE_PLACES = 200_000  # beyond so many places those without any job are left out of the page
TITLE = "Where people live and work"
KEYS = ("A", "B")

# Origin, destination and jobs of the shown pairs, and which of all pairs they are.
Jobs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shown:
    """One release as the page shows it."""

    statement: Statement
    method: str
    flows: MapFlows


def commute_map(
    release: AnyRelease,
    *,
    to: str | Path,
    compare: AnyRelease | None = None,
    outlines: str | Path | None = None,
    base: str | Path | None = None,
    within: str | None = None,
    title: str = TITLE,
    miles: bool = False,
    copy: int = 1,
    overwrite: bool = False,
) -> Path:
    """Write the map of a commuting release as one HTML file that needs no network.

    Parameters
    ----------
    release
        The commuting release.
    to
        The new file.
    compare
        A second release of the same places, shown beside the first.
    outlines
        A GeoJSON file of public outlines. Names are taken from a property ``name`` (or ``NAMELSAD``, ``NAME``).
    base
        A GeoJSON file of public water and roads: polygons are drawn as water, lines as roads. None is fetched.
    within
        Keep the jobs at workplaces of one area (``county=44007``), for releases too large for one page.
    title
        The title of the page.
    miles
        Show distances in miles instead of kilometres.
    copy
        The number of the copy, from 1.
    overwrite
        Replace an earlier file.

    Returns
    -------
    Path
        Where the file is.

    Raises
    ------
    InputError
        If the file exists or cannot be written there, or the releases are of different places.
    DisclosureError
        If it is given anything but a release.

    Examples
    --------
    >>> import tempfile, warnings
    >>> import understudy as us
    >>> from understudy.demo.commuters import make_world
    >>> city = make_world(places=200, jobs=2000)
    >>> commutes = us.open_commutes(city.flows_table(), places=city.places)
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(commutes, budget=us.ApproxDP(epsilon=2, delta="1e-5"))
    >>> us.commute_map(release, to=tempfile.mkdtemp() + "/map.html").name
    'map.html'
    """
    releases = [_commutes(one) for one in (release, *([] if compare is None else [compare]))]
    target = _checked_target(Path(to), overwrite=overwrite)
    rings = [] if outlines is None else read_outlines(outlines)
    ground = Ground() if base is None and outlines is None else Ground(
        names=[] if outlines is None else read_outline_names(outlines),
        water=[] if base is None else read_outlines(base, only=("Polygon", "MultiPolygon")),
        roads=[] if base is None else read_outlines(base, only=("LineString", "MultiLineString")),
    )  # fmt: skip
    if base is not None and not ground.water and not ground.roads:
        raise InputError(f"{base} has neither polygons (water) nor lines (roads).")
    text = build_map(releases, rings=rings, ground=ground, within=within, title=title, miles=miles, copy=copy)
    with explained_disk_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if any(one.statement.protects_nobody for one in releases):
            write_private(target, text)
        else:
            scratch = scratch_path(target.parent)
            scratch.write_text(text, encoding="utf-8")
            scratch.replace(target)
    return target


def _checked_target(target: Path, *, overwrite: bool) -> Path:
    if target.is_dir():
        raise InputError(f"{target} is a folder; name the file to write, for example {target / 'map.html'}.")
    if (target.parent / "manifest.json").is_file():
        raise InputError(f"{target.parent} is a release, and nothing is added to a release; choose another place.")
    if os.path.lexists(target) and not overwrite:
        raise InputError(f"{target} already exists; choose another name, or say --overwrite.")
    return target


def build_map(
    releases: list[CommuteRelease],
    *,
    rings: list[Ring],
    ground: Ground | None = None,
    within: str | None = None,
    title: str = TITLE,
    miles: bool = False,
    copy: int = 1,
) -> str:
    """The page as text."""
    places = releases[0].places
    if any(other.places.fingerprint != places.fingerprint for other in releases[1:]):
        raise InputError("the two releases are of different places, so they cannot be compared on one map.")
    kept_area = None if within is None else _places_within(places, within)
    tables = [_jobs(one, copy, kept_area) for one in releases]
    if not any(len(jobs) for _, _, jobs, _ in tables):
        raise InputError(
            "the release has no jobs, so there is nothing to draw."
            if within is None
            else f"the release has no jobs at workplaces in {within}; choose another area."
        )
    kept, code_of = _kept_places(len(places), tables)
    shown = [
        Shown(
            statement=one.statement,
            method=one.provenance.method,
            flows=_map_flows(one, copy, table, kept, code_of),
        )
        for one, table in zip(releases, tables, strict=True)
    ]
    return render(_map_places(places, kept), shown, rings=rings, ground=ground, title=title, miles=miles, within=within)


def render(
    places: MapPlaces,
    shown: list[Shown],
    *,
    rings: list[Ring],
    title: str,
    miles: bool,
    within: str | None = None,
    ground: Ground | None = None,
) -> str:
    """The page of places and jobs that are already known to be public."""
    from understudy import __version__

    packer = Packer()
    levels = pack_places(packer, places)
    for number, one in enumerate(shown):
        pack_flows(packer, number, one.flows)
    pack_outlines(packer, rings)
    if ground is not None:
        pack_outlines(packer, ground.water, "water")
        pack_outlines(packer, ground.roads, "road")
        if ground.names:
            packer.add_json("outline_names", ground.names)
    statements = [one.statement for one in shown]
    keys = KEYS[: len(shown)] if len(shown) > 1 else ("",)
    names = [
        f"{key} · {one.method}, {numbers_text(one.statement.guarantee) or one.statement.guarantee.title}"
        for key, one in zip(keys, shown, strict=True)
    ]
    data = packer.text()
    about = {
        "format": 1,
        "unit": "mi" if miles else "km",
        "levels": levels,
        "arrays": packer.directory,
        "releases": [
            {
                "method": one.method,
                "promise": promise_text(one.statement),
                "noRanges": one.flows.why_no_law,
                "segments": list(one.flows.segments),
                "near": None
                if one.flows.law is None or one.flows.law.near is None
                else {
                    "variance": one.flows.law.near.variance,
                    "km": (one.flows.law.near.miles * KM_PER_MILE).tolist(),
                },
                "off": None if one.flows.law is None or one.flows.law.off is None else asdict(one.flows.law.off),
                "offOutside": None
                if one.flows.law is None or one.flows.law.off_outside is None
                else asdict(one.flows.law.off_outside),
                "pairs": None if one.flows.pairs is None else asdict(one.flows.pairs),
            }
            for one in shown
        ],
    }
    figure = part("figure.html")
    maps = "".join(
        fill(
            figure,
            {
                "number": str(number),
                "label": escape(f"Map of synthetic jobs{f', release {key}' if key else ''}. Arrow keys move it."),
                "name": escape(name),
                "unnamed": "" if key else " hidden",
            },
        )
        for number, (key, name) in enumerate(zip(keys, names, strict=True))
    )
    markup = {
        "generator": escape(f"understudy {__version__}"),
        "title": escape(title),
        "promises": "".join(promise_html(one, key) for one, key in zip(statements, keys, strict=True))
        + caution_html(statements),
        "words": escape(part_words(within) + plain_words(dict(zip(keys, statements, strict=True)))),
        "explanation": explanation_html(statements, [one.method for one in shown], MOST_DOTS),
        "maps": maps,
    }
    return page(about=about, data=data, markup=markup)


def _commutes(release: AnyRelease) -> CommuteRelease:
    from understudy.commutes.commute_release import CommuteRelease
    from understudy.release.table_release import Release

    if isinstance(release, CommuteRelease):
        return release
    if isinstance(release, Release):
        raise UnsupportedError("this release is a table of people, not of commutes, so there is no map of it.")
    raise DisclosureError(
        f"a map shows releases only, and this is of type {type(release).__name__}. Nothing says that it may be "
        "published; make a release first (understudy synthesize --method commute) and read it with read_release."
    )


def _jobs(release: CommuteRelease, copy: int, area: NDArray[np.bool_] | None) -> Jobs:
    origin, destination, jobs = (np.asarray(column, dtype=np.int64) for column in release.coded(copy))
    keep = jobs > 0
    if area is not None:
        keep &= area[destination]
    if int(keep.sum()) > MOST_PAIRS:
        raise InputError(
            f"the release has {int(keep.sum()):,} pairs of home and workplace; a page holds at most {MOST_PAIRS:,}. "
            "Show a part of it, for example --within county=44007."
        )
    return origin[keep], destination[keep], jobs[keep], keep


def _map_flows(
    release: CommuteRelease, copy: int, table: Jobs, kept: NDArray[np.int64], code_of: NDArray[np.int64]
) -> MapFlows:
    origin, destination, jobs, kept_pairs = table
    sizes = np.bincount(code_of[destination], jobs, len(kept)).astype(np.int64)
    inside = part_inside(release, *(np.asarray(column, dtype=np.int64) for column in release.coded(copy)[::2]))
    law, why = stated_law(release.provenance, release.statement, copy, sizes, inside)
    if law is not None:  # a large workplace may have more cells than places, but cannot tell more homes apart
        law = replace(
            law, cells=np.minimum(law.cells, len(release.places)), off=off_alike(release, copy),
            off_outside=off_alike(release, copy, outside=True), near=_kept_near(near_errors(release, copy), kept),
        )  # fmt: skip
    pairs = pair_noise(release, copy)
    if pairs is not None:
        why = whole_areas_only(list(release.places.areas)[pairs.level])
    return MapFlows(
        origin=code_of[origin], destination=code_of[destination], jobs=jobs, law=law, pairs=pairs, why_no_law=why,
        segments=_segments(release, copy, kept_pairs),
    )  # fmt: skip


def _kept_near(near: NearErrors | None, kept: NDArray[np.int64]) -> NearErrors | None:
    return None if near is None else replace(near, group=near.group[kept])


def _segments(release: CommuteRelease, copy: int, kept_pairs: NDArray[np.bool_]) -> dict[str, NDArray[np.int64]]:
    """Jobs of the shown pairs by segment, under the names that people read."""
    if not release.segments:
        return {}
    table = release.flows(copy)
    return {SEGMENT_NAMES.get(name, name): table[name].to_numpy()[kept_pairs] for name in release.segments}


def _places_within(places: Places, within: str) -> NDArray[np.bool_]:
    level, equals, area = within.partition("=")
    if not equals:
        raise InputError(f"within ({within!r}) must look like level=area, for example county=44007.")
    inside: NDArray[np.bool_] = places.area(level) == area.encode()
    if not inside.any():
        known = [value.decode() for value in np.unique(places.area(level))]
        raise unknown_name(level, area, known)
    return inside


def _kept_places(count: int, tables: list[Jobs]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which places the page holds, and the new number of every old one (elsewhere, -1, is the last)."""
    used = np.ones(count, dtype=bool)
    if count > MOST_IDLE_PLACES:
        used[:] = False
        for origin, destination, _, _ in tables:
            used[origin[origin >= 0]] = True
            used[destination] = True
    kept = np.flatnonzero(used)
    code_of = np.full(count + 1, len(kept), dtype=np.int64)
    code_of[kept] = np.arange(len(kept))
    return kept, code_of


def _map_places(places: Places, kept: NDArray[np.int64]) -> MapPlaces:
    return MapPlaces(
        ids=[value.decode() for value in places.ids[kept]],
        latitude=np.where(places.inside, places.latitude, np.nan)[kept],  # of homes outside only rough ones are known
        longitude=np.where(places.inside, places.longitude, np.nan)[kept],
        names=None if places.names is None else [str(name) for name in places.names[kept]],
        # Nested levels first: their numbers are those of the areas that were measured.
        areas={level: [value.decode() for value in areas[kept]] for level, areas in places.groupings.items()},
        area_names=places.area_names,
    )


# Public outlines under the dots, from a GeoJSON file. Only shapes are taken; properties stay outside the page.

MOST_BYTES = 50_000_000
MOST_POINTS = 200_000
SHAPES = ("Polygon", "MultiPolygon", "LineString", "MultiLineString")
DEPTHS = {"LineString": 0, "MultiLineString": 1, "Polygon": 1, "MultiPolygon": 2}

Ring = NDArray[np.float64]


NAMES = ("name", "NAMELSAD", "NAME", "Name")
MOST_NAMES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ground:
    """What is drawn under the dots beside outlines: names of outlines with the box of each, water and roads."""

    names: list[list[Any]] = field(default_factory=list)  # text, south, west, north, east, first ring, rings
    water: list[Ring] = field(default_factory=list)
    roads: list[Ring] = field(default_factory=list)


def read_outlines(path: str | Path, *, only: tuple[str, ...] = SHAPES) -> list[Ring]:
    """Rings and lines of a GeoJSON file, each an array of latitude and longitude in degrees."""
    file = Path(path)
    document = _document(file)
    shapes = [shape for shape in _shapes(document, file) if shape["type"] in only]
    rings = [ring for shape in shapes for ring in _rings(shape, file)]
    if not rings and only == SHAPES:
        raise InputError(f"{file} has no outlines: none of {', '.join(SHAPES)} is in it.")
    points = sum(len(ring) for ring in rings)
    if points > MOST_POINTS:
        raise InputError(
            f"{file} has {points:,} points; at most {MOST_POINTS:,} are drawn. Simplify the outlines first."
        )
    return rings


def read_outline_names(path: str | Path) -> list[list[Any]]:
    """The names of outlines, each with the box of its shape and its place among all outlines: text, south, west, north,
    east, first, count."""
    file = Path(path)
    document = _document(file)
    found, first = [], 0
    for feature in document.get("features", ()) if isinstance(document, dict) else ():
        rings = [ring for shape in _shapes(feature, file) for ring in _rings(shape, file)]
        first += len(rings)
        told = feature.get("properties") if isinstance(feature, dict) else None
        text = next((str(told[one]) for one in NAMES if told.get(one)), "") if isinstance(told, dict) else ""
        if text and rings:
            points = np.concatenate(rings)
            box = [*points.min(axis=0).tolist(), *points.max(axis=0).tolist()]
            found.append([text[:80], *(round(one, 6) for one in box), first - len(rings), len(rings)])
    return found[:MOST_NAMES]


def _document(file: Path) -> Any:
    """The JSON of a file of shapes."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"{file} is larger than {MOST_BYTES // 1_000_000} MB; simplify the outlines first.")
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{file} does not exist; a GeoJSON file of shapes is needed.") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise InputError(f"{file} cannot be read as JSON; a GeoJSON file of shapes is needed.") from None


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


# One HTML file from the parts in ``templates``: no network, nothing to install, nothing but what it is given.
#
# The scripts are ES modules that node's test runner tests one by one. A page can hold only one, so they are joined in
# the order of their imports; top-level names are unique across them. The page's policy allows exactly this script and
# this style sheet, by their hashes, and no connection to anywhere.

FIRST = "main.js"
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z_]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function|class)\b)", re.MULTILINE)
SLOT = re.compile(r"@@([a-z]+)@@")


def part(name: str) -> str:
    """The text of one file of the template."""
    return (files("understudy.commutes.map") / "templates" / name).read_text(encoding="utf-8")


def script() -> str:
    """All modules as one, each after those it imports."""
    joined: dict[str, str] = {}
    visiting: set[str] = set()

    def visit(name: str) -> None:
        if name in joined:
            return
        if name in visiting:
            raise InternalError(f"the modules of the map import each other in a circle at {name}.")
        visiting.add(name)
        text = part(name)
        for names, other in IMPORT.findall(text):
            if " as " in names:
                raise InternalError(f"{name} renames an import; joined modules share their names.")
            visit(other)
        joined[name] = f"// ---- {name}\n{EXPORT.sub('', IMPORT.sub('', text)).strip()}\n"

    visit(FIRST)
    return "\n".join(joined.values())


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace every @@slot@@ of a template, once: a value that looks like a slot stays as it is."""
    return SLOT.sub(lambda slot: values[slot[1]], template)


def embedded_json(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def policy(script_text: str, style_text: str) -> str:
    """The Content-Security-Policy: this script, this style, no connections, no forms, no frames."""
    return (
        f"default-src 'none'; script-src '{_hash(script_text)}'; style-src '{_hash(style_text)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def page(*, about: Mapping[str, Any], data: str, markup: Mapping[str, str]) -> str:
    """The file. ``about`` is public JSON, ``data`` base64, ``markup`` HTML for the remaining slots."""
    code, style = script(), part("style.css")
    values = {
        **markup,
        "policy": policy(code, style),
        "style": style,
        "script": code,
        "about": embedded_json(about),
        "data": data,
    }
    return fill(part("page.html"), values)
