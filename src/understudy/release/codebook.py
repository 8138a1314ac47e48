"""The code book inside a release folder: every value that can stand in a column, and what it means, as one CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from understudy.core.schema import Attribute, Schema, level_text
from understudy.core.spreadsheet import as_cell

COLUMNS = ("column", "label", "kind", "value", "meaning")


def codebook_text(schema: Schema) -> str:
    """One line for each level, special code and range of numbers; a missing value is an empty one."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    attributes = (*schema.attributes, *(derived.attribute(schema) for derived in schema.derived))
    for attribute in attributes:
        for kind, value, meaning in _values(attribute):
            lines.writerow([as_cell(text) for text in (attribute.name, attribute.label, kind, value, meaning)])
    return out.getvalue()


def _values(attribute: Attribute) -> Iterator[tuple[str, str, str]]:
    if attribute.levels:
        labels = attribute.level_labels or ("",) * len(attribute.levels)
        for level, said in zip(attribute.levels, labels, strict=True):
            yield "level", level_text(level), said
    else:
        first, last = level_text(attribute.edges[0]), level_text(attribute.edges[-1])
        kind = "dates" if attribute.kind == "date" else "whole numbers" if attribute.integer else "numbers"
        digits = f" with {attribute.decimals} decimals" if attribute.decimals else ""
        yield kind, f"{first} to {last}", f"known by {attribute.bins} bins{digits}"
        for code, said in attribute.special:
            yield "special code", level_text(code), said
    if attribute.missing:
        yield "missing", "", "no value"
