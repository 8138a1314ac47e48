"""A release for other programs: CSV, Stata (.dta) or SPSS (.sav), one file per copy, with labels and types.

An export is made from public files alone, so it changes nothing about what the release promises. It goes to a folder of
its own: a release folder holds what its manifest lists and nothing else.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeGuard, cast

import pyarrow as pa
import pyarrow.compute as pc

from understudy.core.folders import as_path, publish_folder, release_above
from understudy.core.schema import Attribute, Schema, level_text
from understudy.core.survey_design import calibrated_column
from understudy.engines.reading.decode import restore_types
from understudy.engines.reading.statfiles import pyreadstat_module
from understudy.errors import InputError, MissingExtraError, UnsupportedError
from understudy.release.checks import verify
from understudy.release.csv_file import write_csv
from understudy.release.folder import NO_PERSON, build_release
from understudy.release.kind import AnyRelease, kind_of_release
from understudy.release.manifest import read_manifest
from understudy.release.population import population as of_people
from understudy.release.readme import one_line
from understudy.release.table_release import Release

README = "README.txt"
NOT_VERIFIED = "WARNING: this release did not pass understudy verify. Do not rely on what it promises."
EMPTY_LEVEL = "(empty text)"  # a value label cannot be empty
STATA_CODES = 2**31 - 100  # Stata labels whole numbers up to here; the largest ones are its missing values
# Words of Stata and SPSS that cannot be the name of a variable, in lower case.
RESERVED = frozenset(
    {
        "_all",
        "_b",
        "_coef",
        "_cons",
        "_n",
        "_pi",
        "_pred",
        "_rc",
        "_skip",
        "byte",
        "double",
        "float",
        "if",
        "in",
        "int",
        "long",
        "strl",
        "using",
        "with",
        "all",
        "and",
        "by",
        "eq",
        "ge",
        "gt",
        "le",
        "lt",
        "ne",
        "not",
        "or",
        "to",
    }
)
RULE = (
    "A name keeps letters A-Z, digits and underscores; every other character becomes an underscore. A name that begins "
    "with anything but a letter, or is a word of Stata or SPSS, gets 'v_' in front. It is cut to {length} characters; "
    "if it is then taken (small and capital letters count as one) it ends in _2, _3 and so on."
)
PROGRAMS = {
    "csv": "CSV (UTF-8; an empty field is a missing value; an apostrophe stands before a text that a spreadsheet would "
    "take for a formula)",
    "dta": "Stata",
    "sav": "SPSS",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of an exported file: its values and what the file says about them."""

    name: str
    values: pa.ChunkedArray
    label: str
    value_labels: dict[int, str]
    measure: Literal["nominal", "ordinal", "scale"]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a format can hold, in characters (Stata) or bytes (SPSS)."""

    name: int
    label: int
    value_label: int
    file_label: int


LIMITS = {
    # Stata allows 32, and pyreadstat calls a set of value labels by the name of the column and up to five digits.
    "dta": Limits(name=27, label=80, value_label=32_000, file_label=80),
    "sav": Limits(name=64, label=255, value_label=120, file_label=64),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A release that is to be exported, and where the files go."""

    release: Any  # of whatever kind
    folder: Path
    source: Path | None  # its folder; None: it was never written
    verified: bool  # whether it passed every check of ``understudy verify``; one that was never written has none


def open_for_export(
    release: AnyRelease | str | os.PathLike[str],
    *,
    to: str,
    out: str | os.PathLike[str] | None,
    unverified: bool,
) -> Opened:
    """The release behind an export. One that does not pass ``verify`` is refused, unless ``unverified`` asks for it."""
    if not isinstance(release, str | os.PathLike):
        if kind_of_release(release) is None:
            raise UnsupportedError(f"export works on releases; this is a {type(release).__name__}.")
        if out is None:
            raise InputError("say where the export goes: out= names a new folder.")
        opened = Opened(release=release, folder=Path(out), source=None, verified=False)
    else:
        place = Path(os.path.abspath(as_path(release, "the release")))
        manifest = read_manifest(place)
        failed = [check for check in verify(place) if not check.passed]
        if failed and not unverified:
            raise InputError(
                f"{place} does not pass understudy verify ({failed[0].name}: {failed[0].detail.rstrip('.')}), so it is "
                "not exported. Get the release again from where it came from; or export it as it is with --unverified, "
                "and the export says so."
            )
        folder = place.with_name(f"{place.name}-{to}") if out is None else Path(out)
        opened = Opened(release=build_release(place, manifest), folder=folder, source=place, verified=not failed)
    if (inside := release_above(opened.folder)) is not None:
        raise InputError(
            f"{opened.folder} lies in the release {inside}, which holds nothing but its own files; choose another."
        )
    return opened


def write_export(opened: Opened, fill: Callable[[Path], None]) -> Path:
    """Let ``fill`` write the files of an export; the folder appears whole or not at all.

    A file of the release that disappears while it is read ends the export with a message, and nothing is left behind.
    """

    def filled(target: Path) -> None:
        try:
            fill(target)
        except FileNotFoundError as problem:
            if opened.source is None or opened.source not in Path(problem.filename or "").parents:
                raise
            gone = Path(problem.filename).name
            raise InputError(
                f"'{gone}' in {opened.source} disappeared while it was exported; nothing was written."
            ) from None

    publish_folder(opened.folder, filled, private=opened.release.statement.protects_nobody)
    return opened.folder


def export_table(opened: Opened, *, to: str, population: int | None = None) -> Path:
    """Write a table of people as CSV, Stata or SPSS files into a new folder; see ``understudy.export``."""
    found = cast(Release, opened.release)
    if population is not None:
        found = of_people(found, rows=population)
    columns = all_attributes(found.schema)
    names = {attribute.name: attribute.name for attribute in columns}
    length = LIMITS[to].name if to in LIMITS else 0
    if length:
        names = short_names(list(names), length)
    checked = opened.verified or opened.source is None

    def fill(target: Path) -> None:
        for copy in range(1, found.copies + 1):
            WRITERS[to](found, copy, names, target / f"synthetic_{copy}.{to}")
        told = readme_text(found, columns, to=to, names=names, length=length)
        (target / README).write_text(told if checked else f"{NOT_VERIFIED}\n\n{told}", encoding="utf-8")

    return write_export(opened, fill)


def all_attributes(schema: Schema) -> tuple[Attribute, ...]:
    """The columns of a synthetic table: its attributes, and the derived ones and calibrated weights as attributes."""
    weights = (
        Attribute(name=name, edges=(0, 1), label="survey weight, calibrated to public totals", outside="clip")
        for name in calibrated_column(schema.weight)
    )
    return (*schema.attributes, *(derived.attribute(schema) for derived in schema.derived), *weights)


def _write_csv(release: Release, copy: int, names: dict[str, str], path: Path) -> None:
    table = _typed(release, copy)
    write_csv(table.rename_columns([names[name] for name in table.column_names]), path)


def _write_stata(release: Release, copy: int, names: dict[str, str], path: Path) -> None:
    columns = _columns(release, copy, names, LIMITS["dta"])
    labels = {
        column.name: texts
        for column in columns
        if (texts := {code: text for code, text in column.value_labels.items() if abs(code) < STATA_CODES})
    }
    pyreadstat_module().write_dta(
        _frame(columns),
        path,
        file_label=shortened(_file_label(release), LIMITS["dta"].file_label),
        column_labels={column.name: column.label for column in columns if column.label},
        variable_value_labels=labels,
        version=15,
    )


def _write_spss(release: Release, copy: int, names: dict[str, str], path: Path) -> None:
    columns = _columns(release, copy, names, LIMITS["sav"])
    pyreadstat_module().write_sav(
        _frame(columns),
        path,
        file_label=shortened(_file_label(release), LIMITS["sav"].file_label),
        column_labels={column.name: column.label for column in columns if column.label},
        variable_value_labels={column.name: column.value_labels for column in columns if column.value_labels},
        variable_measure={column.name: column.measure for column in columns},
        variable_format={column.name: "F8.0" for column in columns if column.whole},
        row_compress=True,
    )


WRITERS: dict[str, Callable[[Release, int, dict[str, str], Path], None]] = {
    "csv": _write_csv,
    "dta": _write_stata,
    "sav": _write_spss,
}


def _typed(release: Release, copy: int) -> pa.Table:
    """One table with the types of its schema; somebody else's may come with others, and with impossible rows. Fakes of
    identifiers stay behind: they say nothing."""
    schema = replace(release.schema, impossible=(), rules=(), identifiers=())
    return restore_types(release.frame(copy).select(list(schema.columns)), schema)


def _file_label(release: Release) -> str:
    return f"SYNTHETIC DATA, no row is a person. {release.statement.guarantee}"


def _columns(release: Release, copy: int, names: dict[str, str], limits: Limits) -> list[Column]:
    table = _typed(release, copy)
    columns = []
    for attribute in all_attributes(release.schema):
        name = names[attribute.name]
        said = attribute.label or (attribute.name if name != attribute.name else "")
        values, labels = _coded(attribute, table.column(attribute.name))
        columns.append(
            Column(
                name=name,
                values=values,
                label=shortened(said, limits.label),
                value_labels={code: shortened(text, limits.value_label) for code, text in labels.items()},
                measure="ordinal" if attribute.ordered else "nominal" if attribute.levels else "scale",
                whole=bool(attribute.levels) or attribute.integer,
            )
        )
    return columns


def _coded(attribute: Attribute, column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, dict[int, str]]:
    """The values as a statistics package holds them, and their labels."""
    if attribute.text_codes:
        return _without_texts(attribute, column)
    if not attribute.levels:
        return column, {int(code): text for code, text in attribute.special if _is_whole(code)}
    values = column.cast(column.type.value_type)
    codes, labels = level_codes(attribute)
    known = pa.array(attribute.levels, values.type)
    return pc.take(pa.array(codes, pa.int64()), pc.index_in(values, value_set=known)), labels


def _without_texts(attribute: Attribute, column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, dict[int, str]]:
    """Numbers beside texts: each text becomes a whole number below all others, and its label says what it was."""
    numbers = [float(code) for code, _ in attribute.special if isinstance(code, int | float)]
    lowest = math.floor(min([0.0, float(attribute.edges[0]), *numbers]))  # type: ignore[arg-type]  # no dates here
    labels = {int(code): text for code, text in attribute.special if _is_whole(code)}
    for place, (code, text) in enumerate(pair for pair in attribute.special if isinstance(pair[0], str)):
        stand_in = lowest - 1 - place
        labels[stand_in] = f"{code}: {text}"
        column = pc.if_else(pc.equal(column, str(code)), str(stand_in), column)
    return column.cast(pa.int64() if attribute.integer else pa.float64()), labels


def level_codes(attribute: Attribute) -> tuple[list[int], dict[int, str]]:
    """The code of each level, and the label of each code."""
    texts = [level_text(level) or EMPTY_LEVEL for level in attribute.levels]
    if isinstance(attribute.levels[0], str):
        codes = list(range(1, len(texts) + 1))
        if attribute.level_labels:
            texts = [f"{t}: {said}" if said else t for t, said in zip(texts, attribute.level_labels, strict=True)]
        return codes, dict(zip(codes, texts, strict=True))
    codes = [int(level) for level in attribute.levels]
    said = attribute.level_labels or (tuple(texts) if isinstance(attribute.levels[0], bool) else ())
    return codes, {code: text for code, text in zip(codes, said, strict=False) if text}


def _is_whole(code: object) -> TypeGuard[int | float]:
    return isinstance(code, int | float) and code == int(code)


def _frame(columns: list[Column]) -> Any:
    """A pandas frame: whole numbers stay whole unless one is missing, dates are ``datetime.date``."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError(
            "Stata and SPSS files need the package pandas; install it with: pip install 'understudy[stat]'"
        ) from None
    return pd.DataFrame({column.name: column.values.to_pandas(date_as_object=True) for column in columns})


# Names and labels that fit Stata and SPSS.


def short_names(names: Sequence[str], length: int) -> dict[str, str]:
    """A name of its own for each column, valid in Stata and SPSS. Names that are valid already are never changed.

    >>> short_names(["age", "Age at death", "age-at-death", "9", "if"], 12)
    {'age': 'age', 'Age at death': 'Age_at_death', 'age-at-death': 'age_at_dea_2', '9': 'v_9', 'if': 'v_if'}
    """
    chosen = {name: name for name in names if _valid(name, length)}
    taken: dict[str, str] = {}
    for name in list(chosen):
        if name.lower() in taken:
            del chosen[name]  # differs from another valid name by its capitals only
        else:
            taken[name.lower()] = name
    for name in names:
        if name in chosen:
            continue
        cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name)
        if not re.match(r"[A-Za-z]", cleaned) or _reserved(cleaned):
            cleaned = f"v_{cleaned}"
        candidate, number = cleaned[:length], 1
        while candidate.lower() in taken:
            number += 1
            ending = f"_{number}"
            candidate = cleaned[: length - len(ending)] + ending
        chosen[name] = candidate
        taken[candidate.lower()] = name
    return {name: chosen[name] for name in names}


def _valid(name: str, length: int) -> bool:
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) is not None and len(name) <= length and not _reserved(name)


def _reserved(name: str) -> bool:
    return name.lower() in RESERVED or re.fullmatch(r"str\d+", name.lower()) is not None


def shortened(text: str, length: int) -> str:
    """The text cut to a number of UTF-8 bytes, with three points where something was left out.

    >>> shortened("Sex at registration", 10)
    'Sex at ...'
    """
    plain = " ".join(text.split())
    if len(plain.encode()) <= length:
        return plain
    return plain.encode()[: length - 3].decode(errors="ignore") + "..."


# The README.txt beside exported files: what they are, what they promise, and what every column means.


def readme_text(
    release: Release, columns: Sequence[Attribute], *, to: str, names: Mapping[str, str], length: int
) -> str:
    """Plain text, because these files travel without the release folder."""
    lines = _readme_lines(release, columns, to=to, names=names, length=length)
    return "".join(f"{' ' * (len(line) - len(line.lstrip(' ')))}{one_line(line)}\n" for line in lines)


def _readme_lines(
    release: Release, columns: Sequence[Attribute], *, to: str, names: Mapping[str, str], length: int
) -> Iterator[str]:
    provenance = release.provenance
    yield NO_PERSON
    yield ""
    yield f"Exported for {PROGRAMS[to]} from a release made by the method {provenance.method} of understudy "
    yield f"{provenance.package_version}; {release.copies} file(s) synthetic_*.{to}, one for each copy."
    yield ""
    yield from release.statement.lines()
    yield ""
    yield "Ordinary standard errors and confidence intervals computed from these rows are too narrow: they ignore the"
    yield "noise that protects the data. For conclusions use the release these files were exported from: it"
    yield "states that noise, and `understudy verify` checks it. These files carry no proof of their own."
    changed = {name: new for name, new in names.items() if name != new}
    if changed:
        yield ""
        yield "NAMES THAT WERE CHANGED"
        yield RULE.format(length=length)
        yield from (f"  {new}: {name}" for name, new in changed.items())
    yield ""
    yield "COLUMNS"
    derived = {one.name: one.describe() for one in release.schema.derived}
    for attribute in columns:
        said = f": {attribute.label}" if attribute.label else ""
        rule = f" (derived: {derived[attribute.name]})" if attribute.name in derived else ""
        missing = ", may be missing" if attribute.missing else ""
        yield f"  {names[attribute.name]}{said}{rule} [{_told_kind(attribute)}{missing}]"
        yield from (f"    {line}" for line in _told_values(attribute, coded=to != "csv"))


def _told_kind(attribute: Attribute) -> str:
    if attribute.levels:
        return f"{len(attribute.levels)} levels{', ordered' if attribute.ordered else ''}"
    first, last = level_text(attribute.edges[0]), level_text(attribute.edges[-1])
    kind = "date" if attribute.kind == "date" else "whole number" if attribute.integer else "number"
    return f"{kind} from {first} to {last}" + (f", {attribute.clock} since 0:00" if attribute.clock else "")


def _told_values(attribute: Attribute, *, coded: bool) -> Iterator[str]:
    labels = attribute.level_labels or ("",) * len(attribute.levels)
    for number, (level, label) in enumerate(zip(attribute.levels, labels, strict=True), start=1):
        text = level_text(level)
        if coded and isinstance(level, str):
            text = f"{number} = {text}"
        elif coded and isinstance(level, bool):
            text = f"{int(level)} = {text}"
        yield f"{text}: {label}" if label else text
    yield from (f"{level_text(code)} = {text}" for code, text in attribute.special)
