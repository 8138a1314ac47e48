"""The public classification that a private draft counts: for every value its form, and where it lies.

Every value is put into one class of two lists that nobody had to see the data for: its form (a whole number, a number
with two decimals, a day, a short text, ...) and its place (between 200 and 500, in the 1990s, one of 128 kinds of
text, ...). A class depends on one value of one row and on nothing else, so a person who is replaced changes as many
rows of the classes as of the data. See docs/theory/private-draft.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.core.file_format import DAY, FileFormat, Written
from understudy.core.phases import tell
from understudy.core.schema import Attribute, Schema
from understudy.engines.reading.guessed_format import ABSENT
from understudy.engines.reading.readers import Reader
from understudy.engines.reading.values import canonical_texts, check_type, is_text, iso_day_number, plain
from understudy.errors import InputError, SchemaError

MISSING, ABSENT_TEXT, LONG, SHORT = "no value", "a text such as NA", "a long text", "a short text"
BOOLEAN = "a boolean"
LONGEST = 32  # characters of a short text
BUCKETS = 128  # kinds of short texts, by a public hash
MOST_DECIMALS = 4  # digits behind the point that are told apart
# How numbers are written: the decimal mark and the mark between thousands.
MARKS: Mapping[str, tuple[str, str]] = {
    "point": (".", ""), "point, thousands by comma": (".", ","), "point, thousands by apostrophe": (".", "'"),
    "point, thousands by blank": (".", " "), "comma": (",", ""), "comma, thousands by point": (",", "."),
    "comma, thousands by blank": (",", " "), "comma, thousands by apostrophe": (",", "'"),
}  # fmt: skip
AS_WRITTEN = Written(kind="date")  # makes 2026-11-17 of 2026/11/17
DAY_FORMS = {"day": "ymd", "day.month.year": "dmy", "month/day/year": "mdy", "day or month first": "dmy"}
# What surveys write for "no answer". They are counted apart from the numbers around them.
CODES = (-1, -2, -3, -4, -5, -6, -7, -8, -9, -97, -98, -99, -997, -998, -999, 9997, 9998, 9999, 99997, 99998, 99999,
         999997, 999998, 999999, 9999999, 99999999)  # fmt: skip
SMALLEST, LARGEST = -6, 12  # powers of ten between which numbers are told apart by size
FIRST_YEAR, LAST_YEAR = 1900, 2100
PLAIN = re.compile(r"[+-]?(?:(\d+)\.?|\d*\.(\d+))(?:[eE][+-]?\d+)?")
LEADING_ZERO = re.compile(r"[+-]?0\d+")
GROUPED = {  # what no other way of writing explains
    "point, thousands by comma": re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.(\d*))?"),
    "comma, thousands by point": re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+,(\d*)|[+-]?\d{1,3}(?:\.\d{3}){2,}()"),
    "point, thousands by apostrophe": re.compile(r"[+-]?\d{1,3}(?:['\u2019]\d{3})+(?:\.(\d*))?"),
    "point, thousands by blank": re.compile(r"[+-]?\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?:\.(\d*))?"),
    "comma, thousands by blank": re.compile(r"[+-]?\d{1,3}(?:[ \u00a0\u202f]\d{3})+,(\d*)"),
    "comma, thousands by apostrophe": re.compile(r"[+-]?\d{1,3}(?:['\u2019]\d{3})+,(\d*)"),
    "comma": re.compile(r"[+-]?\d*,(\d+)"),
}


def number_form(marks: str, decimals: int) -> str:
    """The name of a form of numbers."""
    return f"number: {marks}, {decimals} decimals"


FORMS: tuple[str, ...] = (
    MISSING, ABSENT_TEXT, SHORT, LONG, BOOLEAN, *DAY_FORMS,
    *(number_form(marks, decimals) for marks in MARKS for decimals in range(MOST_DECIMALS + 1)),
)  # fmt: skip


def _steps() -> list[float]:
    return [digit * 10.0**power for power in range(SMALLEST, LARGEST) for digit in (1, 2, 5)] + [10.0**LARGEST]


STEPS: tuple[float, ...] = tuple(_steps())
"""The ends of the places of positive numbers: 1, 2, 5, 10, 20, ... in both directions."""
ABOVE = tuple(f"above {step:g}" for step in STEPS)
BELOW = tuple(f"below -{step:g}" for step in STEPS)
YEARS = tuple(f"from {year}" for year in range(FIRST_YEAR, LAST_YEAR, 10))
PLACES: tuple[str, ...] = (
    MISSING, LONG, *(f"text {number}" for number in range(BUCKETS)), *(f"code {code}" for code in CODES),
    *reversed(BELOW), "tiny", "zero", *ABOVE, "earlier", *YEARS, "later",
)  # fmt: skip


def form_of(text: str, *, decimal_comma: bool = False) -> tuple[str, float | None]:
    """The form of a text that is filled, and its number if it is one.

    >>> form_of("1.234,50"), form_of("-8"), form_of("2026-11-17"), form_of("01"), form_of("17.11.2026")[0]
    (('number: comma, thousands by point, 2 decimals', 1234.5), ('number: point, 0 decimals', -8.0), ('day', None), \
('a short text', None), 'day.month.year')
    """
    if text.casefold() in ABSENT:
        return ABSENT_TEXT, None
    if iso_day_number(AS_WRITTEN(text) or "") is not None:
        return "day", None
    if found := DAY.fullmatch(text):
        first, second = int(found[1]), int(found[2])
        if not (1 <= first <= 31 and 1 <= second <= 31 and min(first, second) <= 12):
            return SHORT, None
        name = "day.month.year" if first > 12 else "month/day/year" if second > 12 else "day or month first"
        return name, None
    if LEADING_ZERO.fullmatch(text):  # 01 is a code
        return (SHORT if len(text) <= LONGEST else LONG), None
    if decimal_comma and re.fullmatch(r"[+-]?\d*,\d+", text):
        return _number(text, "comma", len(text.partition(",")[2]))
    if (found := PLAIN.fullmatch(text)) and any(found.groups()):
        return _number(text, "point", len(found[2] or "") if text.isascii() and "e" not in text.casefold() else 99)
    for marks, pattern in GROUPED.items():
        if found := pattern.fullmatch(text):
            return _number(text, marks, len(next((part for part in found.groups() if part), "")))
    return (SHORT if len(text) <= LONGEST else LONG), None


def _number(text: str, marks: str, decimals: int) -> tuple[str, float | None]:
    point, thousands = MARKS[marks]
    plain_text = re.sub("[ \u00a0\u202f'\u2019]", "", text)
    if thousands in (".", ","):
        plain_text = plain_text.replace(thousands, "")
    number = float(plain_text.replace(point, "."))
    if not np.isfinite(number):
        return SHORT, None
    return number_form(marks, min(decimals, MOST_DECIMALS)), number


def place_of(text: str, form: str, number: float | None) -> str:
    """The place of a value with that form.

    >>> place_of("250", "number", 250.0), place_of("-8", "number", -8.0), place_of("1995-03-01", "day", None)
    ('above 200', 'code -8', 'from 1990')
    """
    if form in (MISSING, ABSENT_TEXT):
        return MISSING
    if form == LONG:
        return LONG
    if form == SHORT:
        return f"text {hashlib.sha256(text.encode('utf-8', 'replace')).digest()[0] % BUCKETS}"
    if form in DAY_FORMS:
        return _decade(text, form)
    assert number is not None  # noqa: S101  (what is left are numbers)
    if number in CODES:
        return f"code {int(number)}"
    if not number:
        return "zero"
    step = int(np.searchsorted(STEPS, abs(number), side="right")) - 1
    if step < 0:
        return "tiny"
    return (ABOVE if number > 0 else BELOW)[step]


def _decade(text: str, form: str) -> str:
    found = DAY.fullmatch(text)
    year = int(text[:4]) if form == "day" or found is None else int(found[3])
    if year < FIRST_YEAR:
        return "earlier"
    return "later" if year >= LAST_YEAR else f"from {year // 10 * 10}"


@cache
def _numbers() -> tuple[dict[str, int], dict[str, int]]:
    return {name: place for place, name in enumerate(FORMS)}, {name: place for place, name in enumerate(PLACES)}


def class_names(column: int) -> tuple[str, str]:
    """The names of the two attributes of a column, by its number. Names of columns may be anything."""
    return f"form of column {column}", f"place of column {column}"


def class_schema(columns: Sequence[int]) -> Schema:
    """The public schema of the classes of these columns, by their numbers."""
    return Schema(
        attributes=tuple(
            Attribute(name=name, levels=levels)
            for column in columns
            for name, levels in zip(class_names(column), (FORMS, PLACES), strict=True)
        )
    )


def class_table(reader: Reader, names: Sequence[str], keep: str | None, *, told: FileFormat) -> pa.Table:
    """The classes of every value, row by row; and the column ``keep`` as it is, which says whose rows they are.

    Raises
    ------
    InputError
        If there are no rows.
    """
    missing = {"", *told.missing_values}
    parts: list[dict[str, pa.Array]] = []
    rows = 0
    known: dict[str, tuple[int, int]] = {}
    for batch in reader.batches(list(reader.columns)):
        tell("reading rows", rows, reader.rows)
        rows += batch.num_rows
        part: dict[str, pa.Array] = {}
        for number, name in enumerate(reader.columns):
            if name == keep:
                part[name] = batch.column(name)
            if name not in names:
                continue
            found = _classes(batch.column(name), known, missing, comma=told.decimal == ",")
            for label, codes, levels in zip(class_names(number), found.T, (FORMS, PLACES), strict=True):
                part[label] = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int16()), pa.array(levels))
        parts.append(part)
        if len(known) > 2_000_000:
            known.clear()
    if not rows:
        raise InputError("the data have no rows, so there is nothing to draft a schema from.")
    return pa.Table.from_batches([pa.RecordBatch.from_pydict(part) for part in parts])


def _classes(array: pa.Array, known: dict[str, tuple[int, int]], missing: set[str], *, comma: bool) -> np.ndarray:
    """For every row the numbers of its form and of its place."""
    forms, places = _numbers()
    array = plain(array)
    try:
        check_type(array.type, "a column")
    except SchemaError:  # nested or binary: nothing that could be an attribute
        return np.tile([forms[LONG], places[LONG]], (len(array), 1))
    if pa.types.is_dictionary(array.type):
        array = plain(array.dictionary_decode())
    if pa.types.is_null(array.type):
        return np.tile([forms[MISSING], places[MISSING]], (len(array), 1))
    if pa.types.is_boolean(array.type):
        filled = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))[:, None]
        return np.where(filled, [[forms[BOOLEAN], places["text 0"]]], [[forms[MISSING], places[MISSING]]])
    texts = _whole_texts(array) if pa.types.is_floating(array.type) else canonical_texts(array)
    texts = pc.utf8_trim_whitespace(texts) if is_text(texts.type) else texts
    coded = texts.dictionary_encode() if not pa.types.is_dictionary(texts.type) else texts
    pairs = []
    for text in coded.dictionary.to_pylist():
        pair = known.get(text)
        if pair is None:
            form, number = (MISSING, None) if text in missing else form_of(text, decimal_comma=comma)
            pair = known[text] = (forms[form], places[place_of(text, form, number)])
        pairs.append(pair)
    listed = np.array([*pairs, (forms[MISSING], places[MISSING])], dtype=np.int64)
    indices = np.asarray(pc.fill_null(coded.indices, len(pairs)).to_numpy(zero_copy_only=False), dtype=np.int64)
    return listed[indices]


def _whole_texts(array: pa.Array) -> pa.Array:
    """The texts of floats, whole ones as whole numbers whatever their size. A frame has a column of whole numbers as
    floats if one value is missing, and no other row may be in another class for that."""
    values = array.cast(pa.float64()).to_pylist()
    texts = canonical_texts(array).to_pylist()
    whole = (value is not None and value.is_integer() for value in values)
    return pa.array([f"{value:.0f}" if one else text for value, text, one in zip(values, texts, whole, strict=True)],
                    pa.large_string())  # fmt: skip
