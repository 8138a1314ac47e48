"""A guess of the format of a CSV file, for the draft of a schema and nothing else.

Only a draft may guess. The guess is written into ``[file]`` and reported, and a person checks it. Commands that make a
release read only what is declared.
"""

from __future__ import annotations

import codecs
import gzip
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from understudy.core.file_format import DAY, YEAR_FIRST, ColumnFormat, FileFormat, Written

MOST_ROWS = 200_000  # rows looked at
MOST_TEXTS = 20_000  # different texts kept of a column
MOST = 0.8  # of the filled rows: then the others are errors or words beside numbers
MOST_SPELLED = 100  # different texts of a column whose spellings are joined
# Texts for "no answer": among numbers and dates all of them, among words only those that are not words themselves.
NEVER_WORDS = {"na", "n/a", "n.a.", "#n/a", "nan", "null", "<na>", ".", ".."}
ABSENT = NEVER_WORDS | {"none", "nil", "-", "--", "?", "missing"}
STYLES: tuple[tuple[Literal[".", ","], str], ...] = (
    (".", ""), (",", ""), (",", "."), (".", ","), (".", "'"), (".", " "), (",", " "), (",", "'"),
)  # fmt: skip
TWO_LETTERS = re.compile(r"[A-Z]{2}")
Kind = Literal["levels", "numeric", "date"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """The guessed format of a file, what its columns seem to hold, and remarks for a person."""

    file: FileFormat
    written: Mapping[str, Written]
    remarks: Mapping[str, tuple[str, ...]]


def guess_encoding(paths: Sequence[str]) -> str | None:
    """The encoding of files that are not UTF-8; None if they are, or if they mix encodings."""
    for path in paths:
        with gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb") as file:
            content = file.read()
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        try:
            content.decode()
        except UnicodeDecodeError:
            if any(_is_beyond_ascii(line) for line in content.split(b"\n")):
                return None
            try:
                content.decode("cp1252")
            except UnicodeDecodeError:
                return "latin-1"
            return "cp1252" if re.search(rb"[\x80-\x9f]", content) else "latin-1"
    return None


def _is_beyond_ascii(line: bytes) -> bool:
    try:
        return not line.decode().isascii()
    except UnicodeDecodeError:
        return False


def texts_of_columns(batches: Iterable[pa.RecordBatch]) -> dict[str, Counter[str]]:
    """The texts of each column with their rows, of the first rows."""
    found: dict[str, Counter[str]] = {}
    rows = 0
    for batch in batches:
        for name in batch.schema.names:
            counter = found.setdefault(name, Counter())
            if len(counter) <= MOST_TEXTS:
                for one in pc.value_counts(batch.column(name).dictionary_decode()).to_pylist():
                    counter[one["values"]] += one["counts"]
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            break
    return found


def guess_format(texts: Mapping[str, Counter[str]], told: FileFormat) -> Guess:
    """The format that the texts of the columns suggest, together with what the user said."""
    filled = {name: _filled(counter, told) for name, counter in texts.items()}
    days = {name: order for name, counter in filled.items() if (order := _day_order(counter)) is not None}
    orders = Counter(order for order in days.values() if order != "either")
    order = orders.most_common(1)[0][0] if orders else ("dmy" if days else told.dates)
    styles = {name: _styles(counter) for name, counter in filled.items() if name not in days}
    decimal, thousands = _common_style(styles, told)
    remarks: dict[str, tuple[str, ...]] = {}
    columns: dict[str, ColumnFormat] = dict(told.columns)
    kinds: dict[str, Kind] = dict.fromkeys(texts, "levels")
    for name, found in styles.items():
        if (decimal, thousands) in found:
            kinds[name] = "numeric"
        elif found:
            kinds[name] = "numeric"
            columns[name] = ColumnFormat(decimal=found[0][0], thousands=found[0][1])
    for name, own in days.items():
        kinds[name] = "date"
        if own not in (order, "either"):
            columns[name] = ColumnFormat(dates=own)  # type: ignore[arg-type]  # one of the orders
        elif own == "either" and not orders:
            remarks[name] = ("no day is above 12, so days and months may be confused: check dates under [file].",)
    kept: dict[str, list[str]] = {}
    absent: dict[str, None] = {}
    for name, counter in texts.items():
        codes, values = _absent(counter, kinds[name])
        kept[name] = values
        absent |= dict.fromkeys(codes)
        if kinds[name] == "levels" and (spelled := _spellings(filled[name])):
            columns[name] = replace(columns.get(name, ColumnFormat()), spellings=tuple(spelled.items()))
            shown = ", ".join(f"{text!r} as {level!r}" for text, level in spelled.items())
            remarks[name] = (f"spellings are read as one level: {shown}. Separate what is not the same.",)
    file = replace(
        told,
        decimal=decimal,
        thousands=thousands,
        dates=order,  # type: ignore[arg-type]
        missing_values=(*told.missing_values, *(text for text in absent if text not in told.missing_values)),
        trim=told.trim or any(text != text.strip() for counter in texts.values() for text in counter if text.strip()),
        columns=tuple(columns.items()),
    )
    written = {name: file.written(name, kinds[name], own=kept[name]) for name in texts}
    return Guess(file=file, written=written, remarks=remarks)


def _filled(counter: Counter[str], told: FileFormat) -> Counter[str]:
    """The texts that may be values, without blanks around them."""
    values: Counter[str] = Counter()
    for text, rows in counter.items():
        short = text.strip()
        if short and short not in told.missing_values and short.casefold() not in ABSENT:
            values[short] += rows
    return values


def _day_order(counter: Counter[str]) -> str | None:
    """The order of days and months: 'either' if it is not clear, None if the texts are no dates."""
    parts = [(found, rows) for text, rows in counter.items() if (found := DAY.fullmatch(text))]
    if parts_by_year := [(found, rows) for text, rows in counter.items() if (found := YEAR_FIRST.fullmatch(text))]:
        real = all(1 <= int(one[2]) <= 12 and 1 <= int(one[3]) <= 31 for one, _ in parts_by_year)
        if real and sum(rows for _, rows in parts_by_year) >= MOST * counter.total():
            return "ymd"
    if not parts or sum(rows for _, rows in parts) < MOST * counter.total():
        return None
    first, second = max(int(found[1]) for found, _ in parts), max(int(found[2]) for found, _ in parts)
    if max(first, second) > 31 or min(first, second) > 12:
        return None
    return "dmy" if first > 12 else "mdy" if second > 12 else "either"


def _styles(counter: Counter[str]) -> list[tuple[Literal[".", ","], str]]:
    """The ways to write numbers under which nearly all texts are numbers. Plain whole numbers fit all of them."""
    total = counter.total()
    found = []
    for decimal, thousands in STYLES if total else ():
        pattern = Written(kind="numeric", decimal=decimal, thousands=thousands)._number_pattern()
        numbers = [text for text in counter if pattern.fullmatch(text)]
        # 1,234 and no other kind of comma: thousands. 0,500 and 1,23 are not thousands.
        if (
            decimal == ","
            and thousands == ""
            and all(re.fullmatch(r"[+-]?([1-9]\d{0,2}(,\d{3})?|0)", t) for t in numbers)
        ):
            numbers = [text for text in numbers if "," not in text]
        if sum(counter[text] for text in numbers) >= MOST * total:
            found.append((decimal, thousands))
    return found


def _common_style(
    styles: Mapping[str, Sequence[tuple[Literal[".", ","], str]]], told: FileFormat
) -> tuple[Literal[".", ","], str]:
    """The way under which most columns hold numbers; the usual one if none is better."""
    possible = [style for style in STYLES if told.decimal == "." or style[0] == ","]
    if told.thousands:
        possible = [(told.decimal, told.thousands)]
    return max(possible, key=lambda style: sum(style in found for found in styles.values()))  # the first of equals


def _absent(counter: Counter[str], kind: Kind) -> tuple[list[str], list[str]]:
    """Texts that stand for a missing value, and look-alikes that are values here (NA among the codes of countries)."""
    known = NEVER_WORDS if kind == "levels" else ABSENT
    found = [text.strip() for text in counter if text.strip().casefold() in known]
    others = [text for text in counter if text.strip() and text.strip() not in found]
    if kind == "levels" and len(others) > 2 and all(TWO_LETTERS.fullmatch(text) for text in others):
        return [], found
    return found, []


def _spellings(counter: Counter[str]) -> dict[str, str]:
    """Texts that differ from a more frequent text only in upper and lower case, each with that text."""
    if len(counter) > MOST_SPELLED:
        return {}
    usual: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for text, _ in counter.most_common():
        level = usual.setdefault(text.casefold(), text)
        if level != text:
            spelled[text] = level
    return spelled


def absent_texts(texts: Iterable[str]) -> list[str]:
    """Texts that usually stand for a missing value."""
    return sorted(text for text in texts if text.strip().casefold() in ABSENT)


def remark_on_absent(texts: list[str]) -> str:
    shown = ", ".join(repr(text) for text in texts)
    return (
        f"{shown} is listed as a value. If it means a missing value, draft a CSV again with --missing-text "
        f"{texts[0]} (missing_text in Python), or add it to missing_values under [file]; else correct the data."
    )
