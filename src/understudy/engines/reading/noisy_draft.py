"""A schema from noisy counts of the classes of every column. Post-processing: no record is seen here.

What is written is public: it follows from the names of the columns, from what the steward said, and from noisy counts.
Everything is chosen so that data fit without retyping. Values beyond the bounds are clipped, texts that are no numbers
are missing values, codes are found by the release. What is not clear of the noise is left out, and a comment says so.
See docs/theory/private-draft.md.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.bounds import MOST_DAYS, WHOLE
from understudy.core.discovered_codes import DISCOVER
from understudy.core.file_format import ColumnFormat, FileFormat
from understudy.core.schema import Attribute, Schema
from understudy.core.schema_file import parse_schema, write_schema
from understudy.engines.reading.draft import CODE_NAME, ID_NAME
from understudy.engines.reading.draft_classes import (
    ABOVE,
    ABSENT_TEXT,
    BELOW,
    BOOLEAN,
    BUCKETS,
    CODES,
    DAY_FORMS,
    FIRST_YEAR,
    FORMS,
    LONG,
    MARKS,
    MISSING,
    MOST_DECIMALS,
    PLACES,
    SHORT,
    STEPS,
    YEARS,
    number_form,
)
from understudy.engines.reading.drafted_rules import WEIGHT_NAME
from understudy.engines.reading.guessed_format import ABSENT
from understudy.errors import InputError

CLEAR = 3.0  # standard deviations of the noise that the leading form needs
CONTINUES = 2.5  # standard deviations of a place beside others that are clear
SURE = 6.0  # standard deviations of a code: there are many of them, and one that is not there would become a level
STEEP, FALLING = 25.0, 8.0  # standard deviations of the outermost place: how far its bound is pushed outwards
WIDE = 15.0  # times the median: amounts with a long tail
NARROW = 5.0  # times the lowest number, up to which the lower bound is not 0
OWN = 0.5  # of the rows around it that a code has
SPREAD = 0.02  # of the rows with a short text that the largest kind may have, if texts are hardly ever the same
USUAL = tuple(sorted(ABSENT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The noisy counts of one column."""

    name: str
    forms: Floats
    places: Floats
    spread: float
    """The standard deviation of the noise of one count."""


def noisy_draft(
    columns: Sequence[Column], *, ignored: Mapping[str, str], text_file: bool, told: FileFormat, head: Sequence[str]
) -> str:
    """The schema that the noisy counts suggest, as TOML.

    Parameters
    ----------
    columns
        The columns that were counted.
    ignored
        Columns that were not counted, with the reason.
    text_file
        Whether the data are a file of texts, whose format has to be declared.
    told
        What the steward said about its format.
    head
        Lines for the head of the file.

    Returns
    -------
    str
        The schema.

    Raises
    ------
    InputError
        If no column is clear of the noise.
    """
    found, formats, remarks = [], {}, {}
    left_out = dict(ignored)
    for column in columns:
        attribute, written, said = _drafted(column)
        if attribute is None:
            left_out[column.name] = said
            continue
        found.append(attribute)
        remarks[column.name] = said
        if written is not None and text_file:
            formats[column.name] = written
    if not found:
        raise InputError(
            "no column is clear of the noise, so nothing can be drafted. The counts were charged. Use a larger "
            "epsilon, more rows or fewer columns, or write the schema from a code book."
        )
    file = None
    if text_file:
        usual = tuple(text for text in USUAL if text not in told.missing_values)
        spelled = tuple(dict.fromkeys((*told.missing_values, *usual, *(text.upper() for text in usual))))
        file = _shared(replace(told, missing_values=spelled, trim=True, unreadable="missing"), formats)
    schema = Schema(attributes=tuple(found), ignore=tuple(left_out), file=file)
    return _text(schema, remarks, left_out, head)


def _shared(file: FileFormat, formats: Mapping[str, ColumnFormat]) -> FileFormat:
    """The format of the file: what most columns have, and apart from that the columns that differ."""
    marks = Counter((one.decimal, one.thousands) for one in formats.values() if one.decimal is not None)
    orders = Counter(one.dates for one in formats.values() if one.dates is not None)
    if marks:
        decimal, thousands = marks.most_common(1)[0][0]
        file = replace(file, decimal=decimal or ".", thousands=thousands or "")
    elif not file.thousands:
        file = replace(file, thousands="." if file.decimal == "," else ",")
    if orders:
        file = replace(file, dates=orders.most_common(1)[0][0] or "ymd")
    columns = {}
    for name, one in formats.items():
        same = one.decimal is None or (one.decimal, one.thousands) == (file.decimal, file.thousands)
        own = ColumnFormat(
            decimal=None if same else one.decimal,
            thousands=None if same else one.thousands,
            dates=None if one.dates == file.dates else one.dates,
        )
        if own != ColumnFormat():
            columns[name] = own
    return replace(file, columns=tuple(columns.items()))


def _drafted(column: Column) -> tuple[Attribute | None, ColumnFormat | None, str]:
    """What a column seems to be: the attribute and its format, or None; and a remark."""
    values = np.where(np.isin(FORMS, (MISSING, ABSENT_TEXT)), -np.inf, column.forms)
    leading = FORMS[int(values.argmax())]
    count = float(values.max())
    if count < CLEAR * column.spread:
        return None, None, "no form of value stands clear of the noise: few are filled, or they are of many kinds"
    if ID_NAME.fullmatch(column.name):
        return None, None, "is an identifier or a key, by its name"
    if leading == LONG:
        return None, None, "holds long texts, which can name people"
    if leading == BOOLEAN:
        return Attribute(name=column.name, levels=(False, True), missing=True), None, "the column is of booleans"
    if leading in DAY_FORMS:
        return _dates(column, leading)
    if leading == SHORT or CODE_NAME.fullmatch(column.name):
        return _codes(column, count, text=leading == SHORT)
    return _numbers(column, leading)


def _codes(column: Column, count: float, *, text: bool) -> tuple[Attribute | None, ColumnFormat | None, str]:
    kinds = column.places[[PLACES.index(f"text {number}") for number in range(BUCKETS)]]
    if text and float(kinds.max()) < max(SPREAD * count, CONTINUES * column.spread):
        return None, None, "holds short texts that are hardly ever the same, as identifiers and names are"
    attribute = Attribute(name=column.name, levels=DISCOVER, missing=True)  # type: ignore[arg-type]
    remark = "codes are found by the release, which needs a delta; or list the levels that everybody may know"
    if not text:
        remark = f"whole numbers that are codes, by the name of the column; {remark}"
    return attribute, None, remark


def _dates(column: Column, leading: str) -> tuple[Attribute | None, ColumnFormat | None, str]:
    order = DAY_FORMS[leading]
    clear = {form: float(column.forms[FORMS.index(form)]) for form in DAY_FORMS}
    if order != "ymd":  # days that are written in both orders tell nothing
        order = "mdy" if clear["month/day/year"] > clear["day.month.year"] else "dmy"
    counts = column.places[[PLACES.index(name) for name in YEARS]]
    first, last = _run(counts, column.spread)
    first = max(first - (counts[first] < FALLING * column.spread), 0)
    last = min(last + (counts[last] < FALLING * column.spread), len(YEARS) - 1)
    low = datetime.date(FIRST_YEAR + 10 * first, 1, 1)
    high = datetime.date(FIRST_YEAR + 10 * last + 9, 12, 31)
    low = max(low, high - datetime.timedelta(days=MOST_DAYS))
    attribute = Attribute(name=column.name, bounds=(low, high), missing=True, outside="clip")
    written = ColumnFormat(dates=order)  # type: ignore[arg-type]
    return attribute, written, f"decades with a clear count: {low.year} to {high.year}"


def _numbers(column: Column, leading: str) -> tuple[Attribute | None, ColumnFormat | None, str]:
    marks = leading.partition("number: ")[2].rpartition(", ")[0]
    point = "comma" if marks.startswith("comma") else "point"
    if marks == "point" and leading == number_form("point", 0):
        point = _decimal_mark(column)
    by_decimals = np.array(
        [
            sum(column.forms[FORMS.index(number_form(name, decimals))] for name in MARKS if name.startswith(point))
            for decimals in range(MOST_DECIMALS + 1)
        ]
    )
    clear = np.flatnonzero(by_decimals > CLEAR * column.spread * math.sqrt(len(MARKS) / 2))
    decimals = int(clear.max()) if len(clear) else 0
    low, high, median = _range(column)
    special = tuple((code, f"code {code}") for code in CODES if _is_code(column, code, low, high))
    digits = None if decimals == MOST_DECIMALS else decimals  # None: as many digits as the range needs
    if digits and high - low < WIDE * 10.0**-digits:
        digits = None
    if digits == 0 and high - low <= WHOLE:  # the last bin holds two whole numbers: let it hold none that occur
        high += 1
    tail = high > WIDE * max(median, 10.0 ** -(digits or 0)) and high - low > WHOLE
    bounds = (int(low), int(high)) if low == int(low) and high == int(high) else (low, high)
    attribute = Attribute(
        name=column.name, bounds=bounds, heavy_tail=tail, decimals=digits, special=special, missing=True, outside="clip"
    )
    thousands = {"comma": ".", "point": ","}[point]
    for mark in (" ", "'"):
        names = [name for name, (_, own) in MARKS.items() if own == mark and name.startswith(point)]
        told = sum(column.forms[FORMS.index(number_form(name, d))] for name in names for d in range(MOST_DECIMALS + 1))
        if told > CLEAR * column.spread * math.sqrt(MOST_DECIMALS + 1):
            thousands = mark
    # Whole numbers without a mark are read alike in every format, so they say nothing about it.
    grouped = sum(column.forms[FORMS.index(number_form(name, 0))] for name, (_, own) in MARKS.items() if own)
    silent = not decimals and grouped < CLEAR * column.spread * math.sqrt(len(MARKS))
    written = None if silent else ColumnFormat(decimal="," if point == "comma" else ".", thousands=thousands)
    remark = f"places with a clear count lie within the bounds, most below {2 * median:g}; what is beyond is clipped"
    if WEIGHT_NAME.fullmatch(column.name):
        remark += "; by its name it may be a survey weight, which goes under [weight]"
    return attribute, written, remark


def _is_code(column: Column, code: int, low: float, high: float) -> bool:
    """Whether many rows have a code for "no answer" that is no ordinary number: beyond the others, or far more
    frequent than those around it."""
    own = float(column.places[PLACES.index(f"code {code}")])
    if own < SURE * column.spread:
        return False
    step = int(np.searchsorted(STEPS, abs(code), side="right")) - 1
    around = float(column.places[PLACES.index((ABOVE if code > 0 else BELOW)[step])])
    return not low <= code <= high or own > OWN * around


def _decimal_mark(column: Column) -> str:
    """Whether more numbers have a decimal comma than a decimal point."""
    told = {}
    for point in ("point", "comma"):
        names = [name for name in MARKS if name.startswith(point)]
        told[point] = sum(
            column.forms[FORMS.index(number_form(name, decimals))]
            for name in names
            for decimals in range(1, MOST_DECIMALS + 1)
        )
    noise = column.spread * math.sqrt(MOST_DECIMALS * len(MARKS) / 2)
    return "comma" if told["comma"] > max(told["point"], 0.0) + CLEAR * noise else "point"


def _run(counts: Floats, spread: float) -> tuple[int, int]:
    """The first and last of the places that are clear of the noise, beginning at the fullest; one gap is allowed."""
    clear = counts > CONTINUES * spread
    first = last = int(counts.argmax())
    while first > 0 and (clear[first - 1] or (first > 1 and clear[first - 2])):
        first -= 1 if clear[first - 1] else 2
    while last < len(counts) - 1 and (clear[last + 1] or (last < len(counts) - 2 and clear[last + 2])):
        last += 1 if clear[last + 1] else 2
    return first, last


def _range(column: Column) -> tuple[float, float, float]:
    """Bounds on a public grid, and about the median of the sizes. Where counts end softly, the bound lies further."""
    spread, zero = column.spread, float(column.places[PLACES.index("zero")])
    above, below = (column.places[[PLACES.index(name) for name in names]] for names in (ABOVE, BELOW))
    sizes, rows = [0.0], [max(zero, 0.0)]
    ends = []
    low_end = 0.0
    for counts in (above, below):
        if float(counts.max()) < CLEAR * spread:
            ends.append(0.0)
            continue
        first, last = _run(counts, spread)
        ends.append(_pushed(last, float(counts[last]), spread))
        sizes += [STEPS[place] for place in range(first, last + 1)]
        rows += [max(float(count), 0.0) for count in counts[first : last + 1]]
        if counts is above and zero < CLEAR * spread and STEPS[first] * NARROW >= ends[0]:
            low_end = STEPS[first if counts[first] > STEEP * spread else max(first - 1, 0)]
    high, low = ends[0], -ends[1] if ends[1] else low_end
    order = np.argsort(sizes)
    upto = np.cumsum(np.array(rows)[order])
    median = sizes[int(order[min(int(np.searchsorted(upto, upto[-1] / 2)), len(order) - 1)])]
    return low, high if high > low else low + 1.0, median


def _pushed(step: int, count: float, spread: float) -> float:
    """The end of a place, further out the less clear its count is: a soft end has a long tail behind it."""
    further = 0 if count > STEEP * spread else 1 if count > FALLING * spread else 3
    return STEPS[min(step + 1 + further, len(STEPS) - 1)]


def _text(schema: Schema, remarks: Mapping[str, str], left_out: Mapping[str, str], head: Sequence[str]) -> str:
    lines = []
    attributes = iter(schema.attributes)
    for line in write_schema(schema).splitlines():
        if line == "[[attribute]]":
            lines.append(f"# {_plain(remarks[next(attributes).name])}.")
        lines.append(line)
    told = [f"# '{_plain(name)}' was left out: {_plain(reason)}." for name, reason in left_out.items()]
    text = "\n".join([*(f"# {_plain(line)}" for line in head), *told, *lines, ""])
    parse_schema(text, "the draft")
    return text


def _plain(name: str) -> str:
    """A text that cannot end a comment."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)
