"""The README.txt beside exported files: what they are, what they promise, and what every column means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from understudy.core.schema import Attribute, level_text
from understudy.release.export_names import RULE
from understudy.release.markdown import one_line
from understudy.release.table_release import Release

PROGRAMS = {
    "csv": "CSV (UTF-8; an empty field is a missing value; an apostrophe stands before a text that a spreadsheet would "
    "take for a formula)",
    "dta": "Stata",
    "sav": "SPSS",
}


def readme_text(
    release: Release, columns: Sequence[Attribute], *, to: str, names: Mapping[str, str], length: int
) -> str:
    """Plain text, because these files travel without the release folder."""
    lines = _lines(release, columns, to=to, names=names, length=length)
    return "".join(f"{' ' * (len(line) - len(line.lstrip(' ')))}{one_line(line)}\n" for line in lines)


def _lines(
    release: Release, columns: Sequence[Attribute], *, to: str, names: Mapping[str, str], length: int
) -> Iterator[str]:
    provenance = release.provenance
    yield "SYNTHETIC DATA. NO ROW IS A PERSON."
    yield ""
    yield f"Exported for {PROGRAMS[to]} from a release made by the method {provenance.method} of understudy "
    yield f"{provenance.package_version}; {release.copies} file(s) synthetic_*.{to}, one for each copy."
    yield ""
    yield from release.statement.lines()
    yield ""
    yield "Ordinary standard errors and confidence intervals computed from these rows are too narrow: they know nothing"
    yield "of the noise that protects the data. For conclusions use the release these files were exported from: it"
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
        yield f"  {names[attribute.name]}{said}{rule} [{_kind(attribute)}{missing}]"
        yield from (f"    {line}" for line in _values(attribute, coded=to != "csv"))


def _kind(attribute: Attribute) -> str:
    if attribute.levels:
        return f"{len(attribute.levels)} levels{', ordered' if attribute.ordered else ''}"
    first, last = level_text(attribute.edges[0]), level_text(attribute.edges[-1])
    kind = "date" if attribute.kind == "date" else "whole number" if attribute.integer else "number"
    return f"{kind} from {first} to {last}"


def _values(attribute: Attribute, *, coded: bool) -> Iterator[str]:
    labels = attribute.level_labels or ("",) * len(attribute.levels)
    for number, (level, label) in enumerate(zip(attribute.levels, labels, strict=True), start=1):
        text = level_text(level)
        if coded and isinstance(level, str):
            text = f"{number} = {text}"
        elif coded and isinstance(level, bool):
            text = f"{int(level)} = {text}"
        yield f"{text}: {label}" if label else text
    yield from (f"{level_text(code)} = {text}" for code, text in attribute.special)
