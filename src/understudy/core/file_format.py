"""The format of a text file: the ``[file]`` of a schema.

An agency's export has decimal commas, days before months, three spellings of "male" and several texts for "no answer".
All of it is declared, so that nothing is guessed when a release is made. A format says how values are written, not what
they mean, so it is not part of a schema's fingerprint.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from understudy.core.clock import PATTERN as TIME
from understudy.errors import SchemaError, unknown_name

DAY_ORDERS = ("ymd", "dmy", "mdy")
THOUSANDS = {"": "", ".": ".", ",": ",", "'": "'\u2019", " ": " \u00a0\u202f"}  # how each mark may be written
# 2026-11-17T08:30, 2026-11-17 08:30:15.5+01:00, 11/17/2026 8:30 PM
TIME_OF_DAY = r"(?:[T ]\s*\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s*[AaPp][Mm])?\s*(?:Z|[+-]\d{2}:?\d{2})?)?"
DAY = re.compile(rf"(\d{{1,2}})[./-](\d{{1,2}})[./-](\d{{4}}){TIME_OF_DAY}")
YEAR_FIRST = re.compile(rf"(\d{{4}})[./-](\d{{1,2}})[./-](\d{{1,2}}){TIME_OF_DAY}", re.ASCII)  # 2026/11/17, 2026.1.7
ISO_DAY = re.compile(rf"(\d{{4}}-\d{{2}}-\d{{2}}){TIME_OF_DAY}", re.ASCII)  # Python also reads weeks such as 2026-W01-1
UNREADABLE = ("error", "missing")
EXPONENT = r"([eE][+-]?\d+)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFormat:
    """The format of one column, if it differs from the rest of the file.

    Raises
    ------
    SchemaError
        If a value is not what was expected.
    """

    missing_values: tuple[str, ...] = ()
    """More texts that stand for a missing value in this column."""
    spellings: tuple[tuple[str, str], ...] = ()
    """Pairs of a text in the file and the level it stands for, or a mapping, such as ``{"M": "male"}``."""
    decimal: Literal[".", ","] | None = None
    """The decimal mark of this column."""
    thousands: str | None = None
    """The mark between thousands of this column."""
    dates: Literal["ymd", "dmy", "mdy"] | None = None
    """The order of day, month and year in the dates of this column."""
    unreadable: Literal["error", "missing"] | None = None
    """What a text is that is no number (or no date) in this column."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing_values", _texts(self.missing_values, "missing_values"))
        pairs = self.spellings.items() if isinstance(self.spellings, Mapping) else self.spellings
        pairs = tuple(tuple(pair) for pair in pairs)
        if not all(len(pair) == 2 and all(isinstance(text, str) for text in pair) for pair in pairs):
            raise SchemaError('[file]: spellings must be like { M = "male", Male = "male" }.')
        if len({text for text, _ in pairs}) != len(tuple(pairs)):
            raise SchemaError("[file]: a spelling is listed twice.")
        object.__setattr__(self, "spellings", pairs)
        _check_unreadable(self.unreadable or "error")
        _check_marks(self.decimal or ".", self.thousands or "", self.dates or "ymd", pair=self.decimal is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    """The format of the CSV files of a table.

    Raises
    ------
    SchemaError
        If a value is not what was expected.

    Examples
    --------
    >>> FileFormat(delimiter=";", decimal=",", thousands=".", dates="dmy").written("pay", "numeric")("1.234,50")
    '1234.50'
    """

    delimiter: str | None = None
    """What separates fields; by default a comma, or a tab in .tsv."""
    encoding: str | None = None
    """The encoding of the text, such as ``latin-1``; by default UTF-8."""
    decimal: Literal[".", ","] = "."
    """The decimal mark of numbers."""
    thousands: str = ""
    """The mark between thousands: a point, a comma, an apostrophe or a space; by default none."""
    missing_values: tuple[str, ...] = ()
    """Texts that stand for a missing value in every column, besides the empty text. If a level of the schema is such a
    text, it is that level."""
    dates: Literal["ymd", "dmy", "mdy"] = "ymd"
    """The order of day, month and year: ``ymd`` (2026-11-17), ``dmy`` (17.11.2026) or ``mdy`` (11/17/2026). With any of
    them 2026/11/17 is read too."""
    trim: bool = False
    """Whether blanks around a value are removed."""
    ignore_case: bool = False
    """Whether upper and lower case are the same in levels."""
    unreadable: Literal["error", "missing"] = "error"
    """What a text is that is no number or no date, in a column of these: an error, or a missing value."""
    columns: tuple[tuple[str, ColumnFormat], ...] = field(default=())
    """Pairs of a column and its format, or a mapping."""

    def __post_init__(self) -> None:
        for key in ("delimiter", "encoding"):
            if not isinstance(getattr(self, key), str | None):
                raise SchemaError(f"[file]: {key} must be a text.")
        if self.delimiter is not None and (
            len(self.delimiter) != 1 or self.delimiter in '"\r\n' or not self.delimiter.isascii()
        ):
            raise SchemaError(f"[file]: delimiter ({self.delimiter!r}) must be one character such as ',' or ';'.")
        for key in ("trim", "ignore_case"):
            if not isinstance(getattr(self, key), bool):
                raise SchemaError(f"[file]: {key} must be true or false.")
        object.__setattr__(self, "missing_values", _texts(self.missing_values, "missing_values"))
        _check_marks(self.decimal, self.thousands, self.dates)
        _check_unreadable(self.unreadable)
        pairs = self.columns.items() if isinstance(self.columns, Mapping) else self.columns
        object.__setattr__(self, "columns", tuple(pairs))
        if not all(isinstance(one, ColumnFormat) for _, one in self.columns):
            raise SchemaError("[file]: columns must be pairs of a name and a ColumnFormat.")

    def check(self, names: Collection[str], levels: Mapping[str, Collection[str]]) -> None:
        """Refuse columns that the schema does not have, and spellings of levels that it does not list.

        Parameters
        ----------
        names
            The columns that are read.
        levels
            The texts of the levels of each attribute that has levels.

        Raises
        ------
        SchemaError
            If one does not fit.
        """
        for name, column in self.columns:
            if name not in names:
                raise unknown_name("[file.columns]: column", name, names, error=SchemaError)
            if column.spellings and name not in levels:
                raise SchemaError(f"[file.columns]: spellings go with levels, and '{name}' has none.")
            for text, level in column.spellings:
                if level not in levels[name]:
                    raise unknown_name(f"[file.columns]: level of '{name}'", level, levels[name], error=SchemaError)
                if text in levels[name] and text != level:
                    raise SchemaError(
                        f"[file.columns]: '{text}' of '{name}' is a level and a spelling of '{level}'; leave one out."
                    )

    def written(
        self, name: str, kind: Literal["levels", "numeric", "date"], *, own: Collection[str] = (), clock: bool = False
    ) -> Written:
        """Put together the format of one column.

        Parameters
        ----------
        name
            The column.
        kind
            What it holds.
        own
            The texts of its levels, or of the special codes that are texts beside numbers.
        clock
            Whether its numbers are written as times.

        Returns
        -------
        Written
            A function that turns a text of the file into the standard one.
        """
        column = dict(self.columns).get(name, ColumnFormat())
        return Written(
            kind=kind,
            own=tuple(own),
            missing=(*self.missing_values, *column.missing_values),
            spellings=column.spellings,
            decimal=column.decimal or self.decimal,
            thousands=self.thousands if column.thousands is None else column.thousands,
            dates=column.dates or self.dates,
            trim=self.trim,
            ignore_case=self.ignore_case,
            drop=(column.unreadable or self.unreadable) == "missing",
            clock=clock,
        )

    def said(self) -> list[str]:
        """The settings that differ from the default, for people to read.

        Returns
        -------
        list[str]
            One line for each.
        """
        names = {"\t": "a tab", " ": "a space"}
        lines = []
        if self.delimiter is not None:
            lines.append(f"fields are separated by {names.get(self.delimiter, repr(self.delimiter))}")
        if self.encoding is not None:
            lines.append(f"letters are written in {self.encoding}")
        if self.decimal != ".":
            lines.append("numbers have a decimal comma")
        if self.thousands:
            lines.append(f"thousands are marked with {names.get(self.thousands, repr(self.thousands))}")
        if self.missing_values:
            lines.append(f"{', '.join(map(repr, self.missing_values))} stands for a missing value")
        if self.dates != "ymd":
            lines.append({"dmy": "days stand before months", "mdy": "months stand before days"}[self.dates])
        if self.trim:
            lines.append("blanks around values are removed")
        if self.ignore_case:
            lines.append("upper and lower case are the same in levels")
        if self.unreadable == "missing":
            lines.append("a text that is no number (or no date) is a missing value")
        for name, column in self.columns:
            lines.append(f"{name}: {', '.join(part for part in _parts(column))}")
        return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Turns the texts of one column into standard ones: called with a text, it gives the text that the schema reads.

    A missing value is None. A text that cannot be read stays as it is, and is counted as a violation. A number that
    could be two numbers (1.500, if commas are decimal and no mark of thousands is declared) is made unreadable.
    """

    kind: Literal["levels", "numeric", "date"]
    """What the column holds."""
    own: tuple[str, ...] = ()
    """Levels, or texts beside numbers."""
    missing: tuple[str, ...] = ()
    """Texts that stand for a missing value."""
    spellings: tuple[tuple[str, str], ...] = ()
    """Pairs of a text and the level it stands for."""
    decimal: str = "."
    """The decimal mark."""
    thousands: str = ""
    """The mark between thousands."""
    dates: str = "ymd"
    """The order of days."""
    trim: bool = False
    """Whether blanks around a text are removed."""
    ignore_case: bool = False
    """Whether upper and lower case are the same in levels."""
    drop: bool = False
    """Whether a text that is no number (or no date) is a missing value."""
    clock: bool = False
    """Whether numbers are written as times."""

    @property
    def plain(self) -> bool:
        """Whether every text is already the standard one."""
        changes = self.missing or self.trim
        if self.kind == "levels":
            return not (changes or self.spellings or self.ignore_case)
        return not (changes or self.drop or self.kind == "date") and self.decimal + self.thousands == "."

    def __call__(self, text: str) -> str | None:
        return self.all([text])[0]

    def all(self, texts: Iterable[str | None]) -> list[str | None]:
        """Turn many texts into standard ones.

        Parameters
        ----------
        texts
            Texts of the file.

        Returns
        -------
        list[str | None]
            The standard text of each, or None if it is missing.
        """
        own = set(self.own)
        missing = set(self.missing)
        spelled = dict(self.spellings)
        folded = {level.casefold(): level for level in self.own} if self.ignore_case else {}
        number = self._number_pattern()

        def usual(text: str | None) -> str | None:
            if text is None or text in own:
                return text
            short = text.strip() if self.trim or self.kind != "levels" else text
            if short in own:
                return short
            if text in missing or short in missing:
                return None
            if self.kind == "levels":
                return spelled.get(text, spelled.get(short, folded.get(short.casefold(), short)))
            found = self._day(short) if self.kind == "date" else self._number(short, number)
            if self.clock and TIME.fullmatch(short):
                return short
            return None if self.drop and not _readable(found, self.kind) else found

        return [usual(text) for text in texts]

    def _number_pattern(self) -> re.Pattern[str]:
        point = re.escape(self.decimal)
        marks = f"[{re.escape(THOUSANDS[self.thousands])}]" if self.thousands else ""
        grouped = rf"\d{{1,3}}(?:{marks}\d{{3}})+(?:{point}\d*)?|" if marks else ""
        return re.compile(rf"[+-]?(?:{grouped}\d+{point}?\d*|{point}\d+){EXPONENT}")

    def _number(self, text: str, pattern: re.Pattern[str]) -> str:
        if pattern.fullmatch(text):
            for mark in THOUSANDS[self.thousands]:
                text = text.replace(mark, "")
            return text.replace(self.decimal, ".")
        # With a decimal comma, 1.500 may mean 1500: it must not be read as one and a half.
        return text.replace(".", ",") if self.decimal == "," and re.fullmatch(r"[\d+.eE-]+", text) else text

    def _day(self, text: str) -> str:
        if (found := YEAR_FIRST.fullmatch(text)) is not None:  # there is no doubt which is the day
            year, month, day = found.groups()
        elif self.dates != "ymd" and (found := DAY.fullmatch(text)) is not None:
            first, second, year = found.groups()
            day, month = (first, second) if self.dates == "dmy" else (second, first)
        else:
            return text
        return f"{year}-{int(month):02d}-{int(day):02d}"


def _readable(text: str, kind: str) -> bool:
    """Whether a standard text is a number, or a day that exists."""
    try:
        if kind == "date":
            found = ISO_DAY.fullmatch(text)
            return found is not None and bool(datetime.date.fromisoformat(found[1]))
        return math.isfinite(float(text)) and "_" not in text
    except ValueError:
        return False


def read_file_format(table: object) -> FileFormat:
    """The ``[file]`` of a schema file.

    >>> read_file_format({"decimal": ",", "columns": {"sex": {"spellings": {"M": "male"}}}}).columns[0][1].spellings
    (('M', 'male'),)
    """
    given = _checked(table, "[file]", FileFormat)
    columns = given.pop("columns", {})
    if not isinstance(columns, dict):
        raise SchemaError('[file]: put the format of one column under [file.columns."its name"].')
    pairs = tuple(
        (name, ColumnFormat(**_checked(one, f"[file.columns.{name}]", ColumnFormat))) for name, one in columns.items()
    )
    return FileFormat(**given, columns=pairs)


def _checked(table: object, where: str, kind: type[Any]) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise SchemaError(f"write {where} with one pair of brackets, and keys below it.")
    known = [one.name for one in fields(kind)]
    for key in table:
        if key not in known:
            raise unknown_name(f"{where}: key", key, known, error=SchemaError)
    return dict(table)


def _texts(values: object, key: str) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SchemaError(f'[file]: {key} must be a list of texts such as ["", "NA"].')
    listed = tuple(values)
    if not all(isinstance(text, str) for text in listed):
        raise SchemaError(f'[file]: {key} must be a list of texts such as ["", "NA"].')
    return tuple(dict.fromkeys(listed))


def _check_marks(decimal: object, thousands: object, dates: object, *, pair: bool = True) -> None:
    if decimal not in (".", ","):
        raise SchemaError(f"[file]: decimal ({decimal!r}) must be a point or a comma.")
    if thousands not in THOUSANDS:
        raise SchemaError(f"[file]: thousands ({thousands!r}) must be a point, a comma, an apostrophe or a space.")
    if pair and thousands == decimal:
        raise SchemaError(f"[file]: decimal and thousands are both {decimal!r}; they must differ.")
    if dates not in DAY_ORDERS:
        raise unknown_name("[file]: dates", str(dates), DAY_ORDERS, error=SchemaError)


def _check_unreadable(unreadable: object) -> None:
    if unreadable not in UNREADABLE:
        raise unknown_name("[file]: unreadable", str(unreadable), UNREADABLE, error=SchemaError)


def _parts(column: ColumnFormat) -> Iterable[str]:
    if column.missing_values:
        yield f"{', '.join(map(repr, column.missing_values))} stands for a missing value"
    if column.spellings:
        yield f"{len(column.spellings)} spelling(s) of levels"
    if column.decimal is not None:
        yield "a decimal comma" if column.decimal == "," else "a decimal point"
    if column.thousands is not None:
        yield f"thousands marked with {column.thousands!r}" if column.thousands else "no mark between thousands"
    if column.dates is not None:
        yield f"days in the order {column.dates}"
    if column.unreadable is not None:
        yield "other texts are errors" if column.unreadable == "error" else "other texts are missing values"
