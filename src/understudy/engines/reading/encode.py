"""From Arrow columns to small-integer codes, by the schema and never by guessing.

Text is matched as text, so '01' stays '01'. Typed columns are matched by value through the one canonical text of
:func:`~understudy.core.schema.level_text`, so the integer 3 and the float 3.0 are both the level 3. Every distinct
text is looked at once per batch however many rows carry it. ``docs/tutorials/values.md`` is the full table.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.derived_attributes import NUMBERS, Derived
from understudy.core.discovered_codes import LevelFinder
from understudy.core.rules import Asked
from understudy.core.schema import Attribute, Schema, level_text
from understudy.core.spreadsheet import as_cell
from understudy.core.table import CodedTable, Codes
from understudy.engines.reading.rule_values import LimitCheck, in_steps
from understudy.engines.reading.values import (
    absent_texts,
    as_numpy,
    calendar_days,
    canonical_texts,
    check_type,
    day_number,
    is_text,
    iso_day_number,
    on_clock,
    parse_numbers,
    plain,
    readable_column,
)
from understudy.engines.reading.violations import (
    DISAGREES,
    MISSING,
    NO_WEIGHT,
    NOT_DATE,
    NOT_NUMBER,
    NOT_WHOLE,
    OUTSIDE,
    UNKNOWN,
    Violations,
)
from understudy.errors import SchemaError, unknown_name

Marks = NDArray[np.int64]  # one code or negative mark per value
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
BOOLEAN_TEXTS = {True: ("true", "True", "TRUE"), False: ("false", "False", "FALSE")}
SPAN = 2**16  # whole numbers within so wide a range are looked up in a table, which then is small beside a batch
FEW_BOUNDS = 64  # up to so many bounds comparing with each (0.2 ns a value) beats a binary search (13 ns and more)


class Encoder:
    """Codes for batches of one source, of the attributes named (by default all).

    ``missing_text`` is the text that stands for a missing value in a format without nulls (CSV); None means that only
    nulls and NaN are missing. Nothing at all stands for one too. A level the schema lists wins over both, so '' or 'NA'
    can be a level.
    """

    def __init__(
        self,
        schema: Schema,
        names: Sequence[str] | None = None,
        *,
        missing_text: str | None = None,
        decimal_commas: bool = False,
    ) -> None:
        wanted = schema.names if names is None else tuple(names)
        self.schema = schema
        self.missing_text = missing_text
        self.violations = Violations(commas_possible=not decimal_commas)
        self._columns = {
            name: _ColumnEncoder(schema[name], missing_text, weight=name in schema.weights) for name in wanted
        }
        self._rules = [
            (
                f"impossible ({rule.describe()})",
                {name: _chosen(schema[name], codes) for name, codes in rule.codes(schema).items()},
            )
            for rule in schema.impossible
            if set(rule.attributes) <= set(wanted)
        ]
        self._rules += [
            (
                f"against the rule ({rule.describe()})",
                {name: _chosen(schema[name], codes) for name, codes in zero.codes(schema).items()},
            )
            for rule in schema.rules
            if isinstance(rule, Asked)
            for zero in rule.zeros(schema)
            if set(zero.attributes) <= set(wanted)
        ]
        self._limits = LimitCheck(schema, wanted)

    def encode(self, batch: pa.RecordBatch) -> dict[str, Codes]:
        """Codes of each attribute. Rows that do not fit are counted in ``violations`` and coded 0."""
        columns: dict[str, Codes] = {}
        bad: dict[str, NDArray[np.bool_]] = {}
        for name, encoder in self._columns.items():
            with readable_column(name):
                columns[name], wrong = encoder.encode(batch.column(name), self.violations)
            if wrong is not None:
                bad[name] = wrong
        for description, chosen in self._rules:
            inside = np.logical_and.reduce(
                [selected[columns[name]] & ~bad.get(name, np.False_) for name, selected in chosen.items()]
            )
            if rows := int(np.count_nonzero(inside)):
                self.violations.add_rule(description, rows)
        for description, broken in self._limits.broken(batch, columns, bad):
            self.violations.add_rule(f"against the rule ({description})", broken)
        if self.schema.derived:
            check_derived(
                batch,
                self.schema,
                codes=columns,
                bad=bad,
                violations=self.violations,
                missing_text=self.missing_text,
            )
        return columns


def encode_table(table: pa.Table, schema: Schema) -> CodedTable:
    """The codes of a whole Arrow table in memory; SchemaError if anything does not fit."""
    check_columns(table.column_names, schema)
    encoder = Encoder(schema)
    parts = [encoder.encode(batch) for batch in table.select(columns_to_read(table.column_names, schema)).to_batches()]
    encoder.violations.check()
    return CodedTable(
        schema=schema,
        columns={
            name: np.concatenate([part[name] for part in parts]) if parts else np.empty(0, code_type(schema[name]))
            for name in schema.names
        },
    )


def columns_to_read(columns: Iterable[str], schema: Schema, names: Sequence[str] | None = None) -> list[str]:
    """The attributes named (by default all), and the derived columns of the data that they can check."""
    present, wanted = set(columns), list(schema.names if names is None else names)
    derived = [one.name for one in schema.derived if one.name in present and set(one.sources) <= set(wanted)]
    return wanted + derived


def check_columns(columns: Iterable[str], schema: Schema, *, unit_id: str | None = None) -> None:
    """Refuse a table whose columns are not exactly those of the schema, save the ignored ones and the unit's id."""
    names = list(columns)
    check_header(names, schema)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaError(f"column '{twice[0]}' occurs twice in the data; every column needs its own name.")
    for name in schema.names:
        if name not in names:
            raise unknown_name(
                "the data have no column for an attribute of the schema:", name, names, error=SchemaError
            )
    identifiers = {one.name for one in schema.identifiers}
    known = {*schema.columns, *schema.ignore, *identifiers} | ({unit_id} if unit_id is not None else set())
    unlisted = [name for name in names if name not in known]
    if unlisted:
        shown = ", ".join(f'"{name}"' for name in unlisted)
        raise SchemaError(
            f"the data have {len(unlisted)} column(s) that the schema does not list: {shown}. Describe each as an "
            f"[[attribute]], or leave it out with [[ignore]] and columns = [{shown}] (also a unit's id)."
        )


def check_header(names: Sequence[str], schema: Schema) -> None:
    """If the header is missing, the first row of the data is taken for the names; no message may show it."""
    seen = {name.strip().casefold() for name in names}
    found = sum(name.strip().casefold() in seen for name in schema.names)
    if 2 * found < len(schema.names):
        wanted = ", ".join(f"'{name}'" for name in schema.names[:12]) + (", ..." if len(schema.names) > 12 else "")
        raise SchemaError(
            f"the data name {found} of the {len(schema.names)} columns of the schema ({wanted}). Is the line of column "
            "names missing, or is it another table? The names found are not shown, as they may be values."
        )


def code_type(attribute: Attribute) -> np.dtype[np.unsignedinteger]:
    """The smallest type that holds every code of an attribute."""
    return np.min_scalar_type(attribute.size - 1)


class _ColumnEncoder:
    def __init__(self, attribute: Attribute, missing_text: str | None, *, weight: bool = False) -> None:
        self.attribute = attribute
        self.missing_text = missing_text
        self.weight = weight
        without = NO_WEIGHT if weight else MISSING
        self.missing_mark = without if attribute.missing_code is None else attribute.missing_code
        self.outside_mark = self.missing_mark if attribute.outside == "missing" else OUTSIDE
        self.unknown_mark = self.missing_mark if attribute.outside == "missing" else UNKNOWN
        self._dictionary: tuple[pa.Array, Marks] | None = None
        self._span: tuple[pa.DataType, int, Marks] | None = None
        self.finder = LevelFinder(attribute) if attribute.most_codes else None
        if attribute.levels:
            pairs = [(text, code) for code, level in enumerate(attribute.levels) for text in _texts_of(level)]
            if missing_text is not None:  # a text file, in which a level that looks like a formula has an apostrophe
                pairs += _cells_of(attribute, pairs)
            self.texts = pa.array([text for text, _ in pairs], pa.large_string())
            self.text_codes = np.array([code for _, code in pairs], np.int64)
        else:
            self.edges = [day_number(edge) if isinstance(edge, datetime.date) else edge for edge in attribute.edges]
            self.special = {
                attribute.bins + place: day_number(code) if isinstance(code, datetime.date) else code
                for place, (code, _) in enumerate(attribute.special)
                if not isinstance(code, str)
            }
            self.text_special = pa.array(list(attribute.text_codes), pa.large_string())
            self.text_special_codes = np.array(list(attribute.text_codes.values()), np.int64)

    def encode(self, array: pa.Array, violations: Violations) -> tuple[Codes, NDArray[np.bool_] | None]:
        """Codes of one column, and which rows have none (None if all have)."""
        array = plain(array)
        if self.attribute.clock:
            array = on_clock(array, self.attribute.clock)
        check_type(array.type, self.attribute.name)
        if (whole := _whole_numbers(array)) is not None:
            numbers, low, high = whole
            marks = self._marks_of_span(array.type, numbers.type, low, high)
            if not numbers.null_count and marks[0] >= 0 and (np.diff(marks) == 1).all():  # coded already, but for 0
                codes: Codes = as_numpy(numbers).astype(code_type(self.attribute))  # modulo its range, as is the sum
                codes += np.array(marks[0] - low).astype(codes.dtype)
                return codes, None
            place: NDArray[Any] | None = _places(numbers, low, high)
            if numbers.null_count:
                marks = np.append(marks, self.missing_mark)
        else:
            marks, place = self._looked_up(array)
        wrong: NDArray[np.bool_] | None = None
        bad = marks < 0
        if bad.any():
            found = marks if place is None else marks.take(place)
            for mark in np.unique(marks[bad]):
                if rows := int(np.count_nonzero(found == mark)):
                    violations.add_value(self.attribute.name, int(mark), rows)
            wrong = found < 0
            marks = np.where(bad, 0, marks)
        codes = marks.astype(code_type(self.attribute))
        return (codes if place is None else codes.take(place)), wrong

    def _looked_up(self, array: pa.Array) -> tuple[Marks, NDArray[Any] | None]:
        """The mark of every distinct value with the place of each row's among them, or of every row (None)."""
        if pa.types.is_dictionary(array.type):
            values, indices = plain(array.dictionary), array.indices
        elif is_text(array.type) or self.attribute.levels:
            encoded = (array.cast(pa.large_string()) if is_text(array.type) else array).dictionary_encode()
            values, indices = encoded.dictionary, encoded.indices
        else:
            return self._marks(array), None
        marks = self._marks_of_dictionary(values)
        if indices.null_count:
            marks = np.append(marks, self.missing_mark)
            indices = pc.fill_null(indices.cast(pa.int64()), len(marks) - 1)
        return marks, as_numpy(indices)

    def _marks_of_dictionary(self, values: pa.Array) -> Marks:
        """A file repeats its dictionary batch after batch, and a large one is worth remembering."""
        values.validate(full=True)
        if self._dictionary is None or not self._dictionary[0].equals(values):
            self._dictionary = values, self._marks(values)
        return self._dictionary[1]

    def _marks_of_span(self, kind: pa.DataType, stored: pa.DataType, low: int, high: int) -> Marks:
        """Marks of the values from ``low`` to ``high``, remembered from batch to batch."""
        wide_low, wide_high = low, high
        if self._span is not None and self._span[0] == kind:
            _, first, marks = self._span
            last = first + len(marks) - 1
            if first <= low and high <= last:
                return marks[low - first : high - first + 1]
            if max(high, last) - min(low, first) < SPAN:
                wide_low, wide_high = min(low, first), max(high, last)
        numbers = pa.array(np.arange(wide_low, wide_high + 1), pa.int64()).cast(stored)
        values = numbers.view(kind) if pa.types.is_date32(kind) else numbers.cast(kind)
        marks = self._marks(values)
        self._span = kind, wide_low, marks
        return marks[low - wide_low : high - wide_low + 1]

    def _marks(self, values: pa.Array) -> Marks:
        by_kind: dict[str, Callable[[pa.Array], Marks]] = {
            "levels": self._level_marks,
            "numeric": self._number_marks,
            "date": self._date_marks,
        }
        values.validate(full=True)  # Parquet and Arrow do not check that their texts are UTF-8
        if pa.types.is_null(values.type):
            return np.full(len(values), self.missing_mark, np.int64)
        marks = by_kind[self.attribute.kind](values)
        if self.missing_text is not None and is_text(values.type):
            stands_for_missing = as_numpy(pc.is_in(values, absent_texts(self.missing_text, values.type)))
            listed = (marks >= (0 if self.attribute.levels else self.attribute.bins)) & (marks < self._named)
            if self.finder is not None:  # whatever is not listed has a level too
                listed = as_numpy(pc.is_in(values.cast(pa.large_string()), value_set=self.texts))
            marks[stands_for_missing & ~listed] = self.missing_mark
        marks[as_numpy(values.is_null(nan_is_null=True))] = self.missing_mark
        return marks

    @property
    def _named(self) -> int:
        """Codes below this are levels, bins or special codes; the one after is the missing value."""
        return self.attribute.bins + len(self.attribute.special)

    def _level_marks(self, values: pa.Array) -> Marks:
        found = pc.index_in(canonical_texts(values), value_set=self.texts)
        places = as_numpy(pc.fill_null(found, -1))
        if self.finder is not None and (places < 0).any():
            return self._marks_of_unlisted(values, places)
        return np.where(places < 0, self.unknown_mark, self.text_codes[places])

    def _marks_of_unlisted(self, values: pa.Array, places: NDArray[Any]) -> Marks:
        """Of codes that were not found: their parent that was, or ``other``."""
        assert self.finder is not None  # noqa: S101  (only such attributes have codes that are not listed)
        marks: Marks = np.where(places < 0, self.unknown_mark, self.text_codes[places])
        texts = canonical_texts(values)
        for row in np.flatnonzero(places < 0):
            text = texts[int(row)].as_py()
            place = None if text is None else self.finder.place(text)
            if place is not None:
                marks[row] = place
        return marks

    def _number_marks(self, values: pa.Array) -> Marks:
        kind = values.type
        if pa.types.is_integer(kind):
            whole = pc.fill_null(values, 0)
            if kind != pa.uint64() or (len(whole) and pc.max(whole).as_py() < 2**63):
                return self._bin_whole(as_numpy(whole).astype(np.int64))
        if is_text(kind):
            is_number = pc.fill_null(pc.match_substring_regex(values, NUMBER), False)
            numbers = parse_numbers(pc.if_else(is_number, values, "0"))
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
            numbers, is_number = values.cast(pa.float64(), safe=False), None
        elif pa.types.is_decimal(kind):  # through its text, which rounds once and correctly as an edge's text does
            numbers, is_number = values.cast(pa.large_string()).cast(pa.float64()), None
        else:  # booleans, dates
            return np.full(len(values), NOT_NUMBER, np.int64)
        marks = self._bin_real(as_numpy(pc.fill_null(numbers, math.nan)))
        if is_number is not None:
            marks[~as_numpy(is_number)] = NOT_NUMBER
            if len(self.text_special):
                written = pc.utf8_trim_whitespace(values.cast(pa.large_string()))
                places = as_numpy(pc.fill_null(pc.index_in(written, value_set=self.text_special), -1))
                marks[places >= 0] = self.text_special_codes[places[places >= 0]]
        return marks

    def _date_marks(self, values: pa.Array) -> Marks:
        kind = values.type
        if is_text(kind):
            days = [iso_day_number(text) for text in values.to_pylist()]
            marks = self._bin_whole(np.array([0 if day is None else day for day in days], np.int64))
            marks[np.array([day is None for day in days], bool)] = NOT_DATE
            return marks
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            return self._bin_whole(as_numpy(pc.fill_null(calendar_days(values).cast(pa.int32()), 0)).astype(np.int64))
        return np.full(len(values), NOT_DATE, np.int64)

    def _bin_whole(self, values: NDArray[np.int64]) -> Marks:
        # v >= e exactly when v >= ceil(e), so whole numbers are never rounded to doubles. No value reaches an edge
        # above 64 bits, and every value is above one below them.
        reached = [max(math.ceil(edge), -(2**63)) for edge in self.edges[:-1] if edge < 2**63]
        lower = np.array(reached or [2**63 - 1], np.int64)
        marks = self._bin(values, lower, math.ceil(self.edges[0]), math.floor(self.edges[-1]))
        return self._mark_special(values, marks)

    def _bin_real(self, values: NDArray[np.float64]) -> Marks:
        edges = np.array(self.edges, np.float64)
        marks = self._bin(values, edges[:-1], edges[0], edges[-1])
        if self.attribute.integer:
            marks[np.isfinite(values) & (values != np.floor(values))] = NOT_WHOLE
        return self._mark_special(values, marks)

    def _bin(self, values: NDArray[Any], lower: NDArray[Any], first: float, last: float) -> Marks:
        """Left-closed bins, the last closed on both sides."""
        marks = _last_not_above(lower, values)
        below, above = values < first, values > last
        if self.attribute.outside == "clip":
            marks[below] = 0
            marks[above] = self.attribute.bins - 1
        else:
            marks[below | above] = self.outside_mark
        if self.weight:  # clipping is for weights that are too small or too large, not for what is no weight
            marks[(values <= 0) | np.isinf(values)] = NO_WEIGHT
        return marks

    def _mark_special(self, values: NDArray[Any], marks: Marks) -> Marks:
        for mark, code in self.special.items():
            marks[values == code] = mark
        return marks


def _whole_numbers(array: pa.Array) -> tuple[pa.Array, int, int] | None:
    """Integers, booleans and days as integers with their least and greatest, if these are not far apart.

    Such values are looked up in a table of the whole span, without a search for distinct ones.
    """
    kind = array.type
    if pa.types.is_boolean(kind):
        numbers = array.cast(pa.uint8())
    elif pa.types.is_date32(kind):
        numbers = array.view(pa.int32())
    elif pa.types.is_integer(kind) and kind != pa.uint64():
        numbers = array
    else:
        return None
    bounds = pc.min_max(numbers)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is None or high - low >= min(SPAN, max(len(array), 2**8)) or max(-low, high) > 2**62:
        return None  # all null, far apart, or where the next number may overflow
    return numbers, low, high


def _places(numbers: pa.Array, low: int, high: int) -> NDArray[np.intp]:
    """Places in a span, with the one after it for nulls."""
    if numbers.null_count:
        numbers = pc.fill_null(numbers.cast(pa.int64()), high + 1)
    places: NDArray[np.intp] = np.subtract(as_numpy(numbers), low, dtype=np.intp)
    return places


def _last_not_above(bounds: NDArray[Any], values: NDArray[Any]) -> Marks:
    """The place of the last bound that is not above each value; -1 below all, the last one for NaN."""
    if len(bounds) > FEW_BOUNDS:
        return np.searchsorted(bounds, values, side="right").astype(np.int64) - 1
    above, is_above = np.zeros(len(values), np.int8), np.empty(len(values), bool)
    for bound in bounds:
        np.less(values, bound, out=is_above)
        above += is_above
    return np.subtract(len(bounds) - 1, above, dtype=np.int64)


def _texts_of(level: str | int | bool) -> tuple[str, ...]:
    """The texts of a level in a file of texts; whole numbers are also written 1.0, as data frames with gaps do."""
    if isinstance(level, bool):
        return BOOLEAN_TEXTS[level]
    return (level_text(level), f"{level}.0") if isinstance(level, int) else (level_text(level),)


def _cells_of(attribute: Attribute, pairs: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The levels that a CSV file of a release writes otherwise than they are, as it writes them."""
    cells = [(written, code) for text, code in pairs if (written := as_cell(text)) != text]
    known = {text for text, _ in pairs}
    for written, code in cells:
        if written in known:
            raise SchemaError(
                f"attribute '{attribute.name}': the levels {level_text(attribute.levels[code])!r} and {written!r} "
                "cannot be told apart in a CSV file, where an apostrophe stands before a formula; use Parquet."
            )
    return cells


def _chosen(attribute: Attribute, codes: tuple[int, ...]) -> NDArray[np.bool_]:
    selected = np.zeros(attribute.size, bool)
    selected[list(codes)] = True
    return selected


# A derived column that the data hold already must agree with its rule: checked row by row, and never counted.


def check_derived(
    batch: pa.RecordBatch,
    schema: Schema,
    *,
    codes: Mapping[str, NDArray[Any]],
    bad: Mapping[str, NDArray[np.bool_]],
    violations: Violations,
    missing_text: str | None,
) -> None:
    """Counts rows whose derived value is not the one that the rule gives. Rows with a bad source are left aside."""
    for derived in schema.derived:
        if derived.name not in batch.schema.names or not codes.keys() >= set(derived.sources):
            continue
        check_type(batch.column(derived.name).type, derived.name)
        with readable_column(derived.name):
            wrong = _wrong(batch, schema, codes, derived, missing_text)
        for name in derived.sources:
            if name in bad:
                wrong &= ~bad[name]
        if rows := int(np.count_nonzero(wrong)):
            violations.add_value(derived.name, DISAGREES, rows)


def _wrong(
    batch: pa.RecordBatch, schema: Schema, codes: Mapping[str, NDArray[Any]], derived: Derived, missing_text: str | None
) -> NDArray[np.bool_]:
    """Which rows disagree."""
    column = plain(batch.column(derived.name))
    column.validate(full=True)
    if derived.function in NUMBERS:
        return _wrong_sums(batch, schema, codes, derived, _plain(column, missing_text))
    levels = [level_text(level) for level in derived.attribute(schema).levels]
    recorded = _plain(column, missing_text, levels)
    cells = [] if missing_text is None else [as_cell(level) for level in levels]  # as a CSV file may hold them
    found = _numpy(
        pc.fill_null(pc.index_in(_texts(recorded), value_set=pa.array(levels + cells, pa.large_string())), -1)
    )
    places = np.where(_numpy(recorded.is_null()), len(levels), np.where(found < 0, -1, found % len(levels)))
    result: NDArray[np.bool_] = places != derived.codes(schema, codes)
    return result


def _wrong_sums(
    batch: pa.RecordBatch, schema: Schema, codes: Mapping[str, NDArray[Any]], derived: Derived, recorded: pa.Array
) -> NDArray[np.bool_]:
    """Compares with the sum of the data's own numbers, which a clipped value still has."""
    total = np.zeros(batch.num_rows)
    power = 10 ** derived.digits(schema)
    for name, sign in zip(derived.sources, derived.signs, strict=True):
        amounts = _numbers(_plain(batch.column(name), None))
        amounts[codes[name] >= schema[name].bins] = np.nan  # special codes and missing
        total += sign * in_steps(amounts, power)
    found = in_steps(_numbers(recorded), power)
    present = ~_numpy(recorded.is_null())
    unreadable = present & np.isnan(found)
    differs = present & ~np.isnan(total) & (found != total)
    result: NDArray[np.bool_] = differs | unreadable | (present == np.isnan(total))
    return result


def _plain(array: pa.Array, missing_text: str | None, levels: Sequence[str] = ()) -> pa.Array:
    array = plain(array)
    if pa.types.is_dictionary(array.type):
        array = plain(array.dictionary_decode())
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
    if missing_text is not None and (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        array = pc.if_else(pc.is_in(array, absent_texts(missing_text, array.type, but=levels)), None, array)
    return array


def _texts(array: pa.Array) -> pa.Array:
    if pa.types.is_null(array.type):
        return array.cast(pa.large_string())
    return canonical_texts(array)


def _numbers(array: pa.Array) -> NDArray[np.float64]:
    """Numbers as doubles, exact up to 2^53; anything else is NaN."""
    texts = _texts(array)
    values = [_number(text) for text in pc.unique(texts).to_pylist()]
    places = pc.index_in(texts, value_set=pc.unique(texts))
    result: NDArray[np.float64] = np.array(values, np.float64)[_numpy(places)]
    return result


def _number(text: str | None) -> float:
    try:
        return float("nan") if text is None else float(text)
    except ValueError:
        return float("nan")


def _numpy(array: pa.Array) -> NDArray[Any]:
    result: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return result
