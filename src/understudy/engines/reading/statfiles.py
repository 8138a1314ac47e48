"""Files of Stata (.dta), SPSS (.sav, .zsav) and SAS (.sas7bdat), read in chunks with pyreadstat (extra ``stat``).

Values are the stored codes, never their labels: ``levels = [1, 2]`` matches the code 1 whatever the file calls it.
Missing is what the file itself calls missing: the system's missing value, Stata's ``.a`` to ``.z``, SAS's ``.A`` to
``.Z`` and ``._``, codes that an SPSS file declares as user-missing, and the empty text. Dates and times become dates
and timestamps. Labels are used by the draft of a schema alone; a schema decides what a value means, not the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from understudy.engines.reading.readers import same_columns
from understudy.errors import InputError, MissingExtraError, UnderstudyError

READ_WITH = {".dta": "read_dta", ".sav": "read_sav", ".zsav": "read_sav", ".sas7bdat": "read_sas7bdat"}
KIND = {".dta": "a Stata file", ".sav": "an SPSS file", ".zsav": "an SPSS file", ".sas7bdat": "a SAS file"}
CHUNK_VALUES = 2**21  # values in memory at a time, about 70 MB as Python objects
LEAST_CHUNK = 10_000  # rows; each chunk begins by skipping the earlier ones
STATA_BEGIN, STATA_END = b"<stata_dta>", b"</stata_dta>"


def pyreadstat_module() -> Any:
    """pyreadstat, or an error that says how to install it."""
    try:
        import pyreadstat
    except ImportError:
        raise MissingExtraError(
            "Stata, SPSS and SAS files need the package pyreadstat; install it with: pip install 'understudy[stat]'"
        ) from None
    return pyreadstat


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What a file says about its columns."""

    columns: dict[str, str] = field(default_factory=dict)
    levels: dict[str, dict[object, str]] = field(default_factory=dict)


class StatReader:
    """One or more files of a statistics package with the same columns."""

    text_only = True  # an empty text is how these formats write a missing text

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        columns, self.labels, self._rows = [], Labels(), []
        for path in self._paths:
            _refuse_cut_short(path)
            with _readable(path):
                _, about = self._function(path)(path, metadataonly=True, **_declared_missing(path))
            columns.append(tuple(about.column_names))
            self._rows.append(about.number_rows)
            self.labels = self.labels if self.labels.columns or self.labels.levels else _labels(about)
        self.columns = same_columns(self._paths, columns)
        known = [rows for rows in self._rows if rows is not None]
        self.rows: int | None = sum(known) if len(known) == len(self._rows) else None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        names = list(columns)
        step = max(LEAST_CHUNK, CHUNK_VALUES // max(len(names), 1))
        for path, stated in zip(self._paths, self._rows, strict=True):
            done = 0
            while True:
                with _readable(path):
                    values, _ = self._function(path)(
                        path, usecols=names, row_offset=done, row_limit=step, output_format="dict"
                    )
                    batch = pa.record_batch([_column(values[name], name) for name in names], names=names)
                if batch.num_rows:
                    yield batch
                done += batch.num_rows
                if batch.num_rows < step or done == stated:
                    break
            if stated is not None and done != stated:
                raise InputError(f"{path} does not hold as many rows as it states; it is damaged or cut short.")

    @staticmethod
    def _function(path: str) -> Any:
        return getattr(pyreadstat_module(), READ_WITH[os.path.splitext(path)[1].lower()])


def _declared_missing(path: str) -> dict[str, bool]:
    """Asks for the codes that an SPSS file declares as missing; the other formats mark missing values themselves."""
    return {"user_missing": True} if path.lower().endswith("sav") else {}


def _column(values: list[Any], name: str) -> pa.Array:
    """A column as Arrow; what is neither text, number, date nor time of a date is refused later, by its type."""
    try:
        return pa.array(values, from_pandas=True)
    except pa.ArrowException as problem:
        raise InputError(f"column '{name}' holds values of several types ({type(problem).__name__}).") from None


def _labels(about: Any) -> Labels:
    """Labels of columns and of codes, without the codes that the file declares as missing: those become nulls."""
    levels = {}
    for name, texts in about.variable_value_labels.items():
        ranges = about.missing_ranges.get(name, [])
        kept = {code: text for code, text in texts.items() if not any(_within(code, part) for part in ranges)}
        if kept:
            levels[name] = kept
    columns = {name: text for name, text in about.column_names_to_labels.items() if text}
    return Labels(columns=columns, levels=levels)


def _within(code: object, part: dict[str, Any]) -> bool:
    try:
        return bool(part["lo"] <= code <= part["hi"])
    except TypeError:  # a text beside numbers
        return False


def _refuse_cut_short(path: str) -> None:
    """Stata writes its labels last, so a file can lose them and still give all its rows; its end shows that."""
    try:
        with open(path, "rb") as file:
            if file.read(len(STATA_BEGIN)) != STATA_BEGIN:
                return
            file.seek(-min(64, os.path.getsize(path)), os.SEEK_END)
            if file.read().rstrip(b"\0\r\n ").endswith(STATA_END):
                return
    except PermissionError:
        raise InputError(f"{path} may not be read by this user.") from None
    raise InputError(f"{path} has no end mark of a Stata file; it is damaged or cut short.")


@contextmanager
def _readable(path: str) -> Iterator[None]:
    """Turns any error of pyreadstat into ours without its text, which may quote the data."""
    try:
        yield
    except UnderstudyError:
        raise
    except PermissionError:
        raise InputError(f"{path} may not be read by this user.") from None
    except UnicodeDecodeError:
        raise InputError(
            f"{path} holds texts in another encoding than it states; save it again as Unicode with the program that "
            "made it."
        ) from None
    except OverflowError:
        raise InputError(f"{path} holds a date beyond the year 9999; correct it, or save the column as text.") from None
    except Exception as problem:  # pyreadstat has its own errors without a common base, and narwhals raises others
        kind = KIND[os.path.splitext(path)[1].lower()]
        raise InputError(
            f"{path} cannot be read as {kind} ({type(problem).__name__}); it may be damaged or cut short."
        ) from None
