"""What a code book says about columns, for the draft of a schema: SDV metadata, Frictionless, CSVW and DDI.

A code book is public, so what it says goes before what was seen in the data. It says less than a schema needs, so a
person still reviews the draft.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

from understudy.core.folders import as_path
from understudy.core.schema import as_number
from understudy.engines.reading.statfiles import Labels
from understudy.errors import InputError

Kind = Literal["levels", "number", "date", "identifier"]
LARGEST = 50_000_000  # bytes of a code book
SDV_KINDS: dict[str, Kind] = {"categorical": "levels", "boolean": "levels", "numerical": "number", "datetime": "date"}
TYPES: dict[str, Kind] = {
    **dict.fromkeys(("integer", "int", "long", "short", "number", "decimal", "double", "float", "year"), "number"),
    **dict.fromkeys(("nonNegativeInteger", "positiveInteger", "unsignedInt", "gYear"), "number"),
    **dict.fromkeys(("date", "datetime", "dateTime"), "date"),
    "boolean": "levels",
}
KNOWN = "SDV metadata, Frictionless (datapackage.json), CSVW (both JSON) and DDI Codebook (XML)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Codebook:
    """What a code book says, by the name of the column."""

    labels: Labels = field(default_factory=Labels)
    kinds: dict[str, Kind] = field(default_factory=dict)
    bounds: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)

    def add(
        self,
        name: str,
        *,
        label: object = "",
        levels: Mapping[Any, str] | None = None,
        kind: Kind | None = None,
        bounds: tuple[object, object] = (None, None),
    ) -> None:
        if label:
            self.labels.columns[name] = " ".join(str(label).split())
        if levels:
            self.labels.levels[name] = {_code(code): said for code, said in levels.items()}
        if kind is not None:
            self.kinds[name] = kind
        low, high = map(_bound, bounds)
        if low is not None or high is not None:
            self.bounds[name] = low, high


def read_codebook(path: object) -> Codebook:
    """Read a code book of one of the known kinds; its contents say which it is."""
    place = as_path(path, "the code book")
    text = _text(place)
    if text.lstrip().startswith("<"):
        return _ddi(_xml(text, place))
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{place} is neither JSON nor XML; code books that are read are {KNOWN}.") from None
    found = _first(document)
    if found is None:
        raise InputError(f"{place} is no code book that is known here; those that are read are {KNOWN}.")
    book = Codebook()
    try:
        for read, table in found:
            read(table, book)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(f"{place} cannot be read as a code book: a part of it is not what its kind says.") from None
    return book


def _text(place: Path) -> str:
    try:
        if place.stat().st_size > LARGEST:
            raise InputError(f"{place} is larger than {LARGEST:,} bytes, which no code book is.")
        return place.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"the code book {place} does not exist; check the name and the folder.") from None
    except (OSError, UnicodeError):
        raise InputError(f"the code book {place} cannot be read as UTF-8 text.") from None


def _first(document: Any) -> list[tuple[Callable[[Any, Codebook], None], Any]] | None:
    """The reader of each table that a JSON document describes."""
    if not isinstance(document, dict):
        return None
    tables = document.get("tables")
    if isinstance(document.get("columns"), dict):
        return [(_sdv, document)]
    if isinstance(tables, dict):
        return [(_sdv, table) for table in tables.values()]
    if isinstance(document.get("fields"), list):
        return [(_frictionless, document)]
    if isinstance(document.get("resources"), list):
        return [(_frictionless, resource["schema"]) for resource in document["resources"] if "schema" in resource]
    if isinstance(document.get("tableSchema"), dict):
        return [(_csvw, document["tableSchema"])]
    if isinstance(tables, list):
        return [(_csvw, table["tableSchema"]) for table in tables if "tableSchema" in table]
    return None


def _sdv(table: Mapping[str, Any], book: Codebook) -> None:
    keys = {table.get("primary_key"), table.get("sequence_key"), *table.get("alternate_keys", ())}
    for name, column in table["columns"].items():
        stated = column.get("sdtype", "")
        kind = (
            "identifier" if name in keys else SDV_KINDS.get(stated, "identifier")
        )  # its other types are personal data
        book.add(name, label=column.get("description", ""), kind=kind)


def _frictionless(schema: Mapping[str, Any], book: Codebook) -> None:
    keys = _listed(schema.get("primaryKey"))
    for column in schema["fields"]:
        limits = column.get("constraints", {})
        stated = column.get("categories") or limits.get("enum") or ()
        pairs = [(one["value"], one.get("label", "")) if isinstance(one, dict) else (one, "") for one in stated]
        kind = TYPES.get(column.get("type", ""))
        if column["name"] in keys or limits.get("unique"):
            kind = "identifier"
        book.add(
            column["name"],
            label=column.get("title") or column.get("description", ""),
            levels=dict(pairs),
            kind="levels" if pairs and kind != "identifier" else kind,
            bounds=(limits.get("minimum"), limits.get("maximum")),
        )


def _csvw(schema: Mapping[str, Any], book: Codebook) -> None:
    keys = _listed(schema.get("primaryKey"))
    for column in schema["columns"]:
        titles = _listed(_words(column.get("titles")))
        stated = column.get("datatype", "string")
        details = stated if isinstance(stated, dict) else {"base": stated}
        kind = TYPES.get(details.get("base", ""))
        pattern = str(details.get("format", ""))
        levels = dict.fromkeys(pattern.split("|"), "") if re.fullmatch(r"[\w ]+(\|[\w ]+)+", pattern) else {}
        label = _words(column.get("dc:description") or column.get("dcterms:description") or column.get("rdfs:comment"))
        for name in {column.get("name"), *titles} - {None}:
            # a column is found by its name or by a title; a title that is not how it is found is its label
            told = [*_listed(label), *(title for title in titles if title != name)]
            book.add(
                name,
                label=told[0] if told else "",
                levels=levels if kind is None else None,
                kind="identifier" if column.get("name") in keys else "levels" if levels and kind is None else kind,
                bounds=(
                    details.get("minimum", details.get("minInclusive")),
                    details.get("maximum", details.get("maxInclusive")),
                ),
            )


def _ddi(root: ElementTree.Element) -> Codebook:
    book = Codebook()
    for var in _all(root, "var"):
        name = var.get("name") or var.get("ID")
        if not name:
            continue
        levels = {
            _inner(category, "catValu"): _inner(category, "labl")
            for category in _all(var, "catgry")
            if _inner(category, "catValu")
        }
        ranges = [(one.get("min"), one.get("max")) for part in _all(var, "valrng") for one in _all(part, "range")]
        numeric = any(one.get("type") == "numeric" for one in _all(var, "varFormat"))
        listed = var.get("intrvl") == "discrete" and levels
        book.add(
            name,
            label=_inner(var, "labl"),
            levels=levels,
            kind="levels" if listed else "number" if numeric and var.get("intrvl") == "contin" else None,
            bounds=ranges[0] if ranges else (None, None),
        )
    if not (book.labels.columns or book.labels.levels or book.kinds):
        raise InputError(f"the XML file describes no variable; code books that are read are {KNOWN}.")
    return book


def _xml(text: str, place: Path) -> ElementTree.Element:
    if re.search(r"<!(DOCTYPE|ENTITY)", text):
        raise InputError(f"{place} declares entities, which a code book needs not; remove its DOCTYPE.")
    try:
        return ElementTree.fromstring(text.encode())  # noqa: S314 - without entities there is nothing to expand
    except ElementTree.ParseError:
        raise InputError(f"{place} is not well-formed XML.") from None


def _all(element: ElementTree.Element, tag: str) -> list[ElementTree.Element]:
    """Every element of a name below another, whatever its namespace."""
    return [one for one in element.iter() if one is not element and str(one.tag).rpartition("}")[2] == tag]


def _inner(element: ElementTree.Element, tag: str) -> str:
    for one in element:
        if str(one.tag).rpartition("}")[2] == tag:
            return " ".join("".join(one.itertext()).split())
    return ""


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | dict) else [value]


def _words(value: Any) -> Any:
    """A text, or the first language of a text in several."""
    return next(iter(value.values()), None) if isinstance(value, dict) else value


def _code(code: object) -> object:
    number = as_number(code) if isinstance(code, str) else None
    return number if number is not None and str(code) == f"{number:g}" else code


def _bound(value: object) -> float | None:
    number = as_number(value) if isinstance(value, str) else value
    return float(number) if isinstance(number, int | float) and not isinstance(number, bool) else None
