"""Opening what a steward has: files, globs, databases, frames. The ending or the type tells what it is."""

from __future__ import annotations

import codecs
import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from understudy.core.file_format import FileFormat, Written
from understudy.core.schema import Attribute, Schema, level_text
from understudy.engines.reading.readers import ArrowReader, CsvReader, DatabaseReader, ParquetReader, Reader
from understudy.engines.reading.statfiles import READ_WITH, StatReader
from understudy.engines.systems.local.source import LocalSource
from understudy.errors import InputError, UnsupportedError

DELIMITERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
PARQUET = (".parquet", ".pq")
DATABASE = (".duckdb", ".ddb", ".db")
ADVICE = {
    (
        ".xlsx",
        ".xls",
        ".xlsm",
        ".ods",
    ): "a spreadsheet changes values such as 01 and dates; save the sheet as CSV (UTF-8)",
    (".rds", ".rdata", ".por", ".xpt", ".feather", ".arrow", ".json"): "convert it to Parquet or CSV",
}
KNOWN = "CSV (.csv, .tsv, also .gz), Parquet (.parquet), Stata, SPSS, SAS (.dta, .sav, .sas7bdat) and DuckDB (.duckdb)"
KINDS = {
    "csv": "CSV file",
    "parquet": "Parquet file",
    "stat": "file of a statistics package",
    "database": "database",
    "frame": "frame",
}
# What a file with the ending of a text file may be instead, by its first bytes.
NOT_TEXT = {
    b"PK\x03\x04": "a ZIP archive, as Excel workbooks are; open it there and save the sheet as CSV (UTF-8)",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; open it there and save the sheet as CSV (UTF-8)",
    b"PAR1": "a Parquet file; give it the ending .parquet",
    b"\x1f\x8b": "compressed with gzip; give it the ending .gz",
}


def open_local(
    data: object,
    schema: Schema,
    *,
    missing_text: str = "",
    delimiter: str | None = None,
    decimal_comma: bool = False,
    encoding: str | None = None,
    table: str | None = None,
    query: str | None = None,
    unit_id: str | None = None,
) -> LocalSource:
    """A confidential table, ready to be counted through the gate. Opening checks the columns and uses no value.

    ``data``: the path of a CSV, Parquet, Stata, SPSS, SAS or DuckDB file; a glob or a list of files with the same
    columns; or anything that speaks Arrow (``__arrow_c_stream__``: pandas, polars, pyarrow). CSV: ``missing_text`` is
    the text that stands for a missing value, ``delimiter`` separates fields (by default a comma, or a tab in .tsv;
    what the first line has if it has none of these),
    ``decimal_comma`` says that numbers are written 1,5, ``encoding`` how letters are. DuckDB: ``table`` or ``query``
    says which rows. ``unit_id`` names a column that identifies the protected unit and need not be listed.
    """
    if not isinstance(schema, Schema):
        raise InputError(f"schema ({type(schema).__name__}) must be a schema; read one with read_schema(path).")
    file = told_format(
        schema.file, missing_text=missing_text, delimiter=delimiter, decimal_comma=decimal_comma, encoding=encoding
    )
    reader = open_reader(
        data,
        names=schema.names,
        written=written_columns(file, schema),
        missing_text=missing_text,
        delimiter=delimiter,
        encoding=encoding,
        declared=file,
        table=table,
        query=query,
    )
    if decimal_comma and not isinstance(reader, CsvReader):
        raise InputError("decimal_comma goes with CSV files; other files hold numbers as numbers.")
    return LocalSource(reader, schema, missing_text=missing_text if reader.text_only else None, unit_id=unit_id)


def told_format(
    declared: FileFormat | None,
    *,
    missing_text: str = "",
    delimiter: str | None = None,
    decimal_comma: bool = False,
    encoding: str | None = None,
) -> FileFormat:
    """How a file is written, by the schema and by options together. What contradicts each other is refused."""
    file = declared or FileFormat()
    for key, given in {"delimiter": delimiter, "encoding": encoding}.items():
        said = getattr(file, key)
        if None not in (given, said) and given != said:
            raise InputError(
                f"{key} ({given!r}) is not what the schema says under [file] ({said!r}); change one of them."
            )
    if decimal_comma and declared is not None and declared.decimal != ",":
        raise InputError('decimal_comma (--decimal ,) is not what the schema says; write decimal = "," under [file].')
    if not isinstance(missing_text, str):
        raise InputError(f"missing_text ({missing_text!r}) must be a text.")
    return replace(
        file,
        delimiter=delimiter or file.delimiter,
        encoding=encoding or file.encoding,
        decimal="," if decimal_comma else file.decimal,
        missing_values=(*file.missing_values, *([missing_text] if missing_text else [])),
    )


def written_columns(file: FileFormat, schema: Schema) -> dict[str, Written]:
    """How each attribute, and each derived column that the data may hold, is written."""
    described = (*schema.attributes, *(derived.attribute(schema) for derived in schema.derived))
    return {
        one.name: file.written(
            one.name,
            one.kind,
            own=[level_text(own) for own in one.levels or _whole_codes(one)],
            clock=bool(one.clock),
        )
        for one in described
    }


def _whole_codes(attribute: Attribute) -> list[str | int]:
    """Special codes that are written in one way only: they go before a text for missing values."""
    return [code for code, _ in attribute.special if isinstance(code, str | int)]


def open_reader(
    data: object,
    *,
    names: Sequence[str],
    written: Mapping[str, Written] | None = None,
    missing_text: str = "",
    delimiter: str | None = None,
    encoding: str | None = None,
    declared: FileFormat | None = None,
    table: str | None = None,
    query: str | None = None,
) -> Reader:
    """The rows of ``data`` as they are stored, whatever holds them. ``names`` are column names one would expect."""
    if isinstance(data, str | os.PathLike) or (isinstance(data, list | tuple) and are_paths(data)):
        paths = paths_of(data)
        kind = kind_of(paths)
    else:
        paths, kind = [], "frame"
    _refuse_options(kind, missing_text=missing_text, delimiter=delimiter, table=table, query=query)
    if known_encoding(encoding) is not None and kind != "csv":
        raise InputError(f"encoding goes with CSV files; this is a {KINDS[kind]}.")
    if kind == "csv":
        file = declared or FileFormat(delimiter=delimiter, encoding=encoding)
        return _csv(paths, names, file.delimiter, written=written, encoding=known_encoding(file.encoding))
    if kind == "parquet":
        return ParquetReader(paths)
    if kind == "stat":
        return StatReader(paths)
    if kind == "database":
        return _database(paths, table, query)
    return ArrowReader(_arrow(data))


def csv_paths(data: object) -> list[str]:
    """The files that ``data`` names, if these are CSV files; nothing otherwise."""
    named = isinstance(data, str | os.PathLike) or (isinstance(data, list | tuple) and are_paths(data))
    paths = paths_of(data) if named else []
    return paths if paths and kind_of(paths) == "csv" else []


def usual_delimiter(path: str) -> str:
    """What separates the fields of a file with this ending, as a rule."""
    return DELIMITERS[ending_of(path)]


def are_paths(data: Sequence[object]) -> bool:
    return all(isinstance(item, str | os.PathLike) for item in data)


def paths_of(data: Any) -> list[str]:
    if isinstance(data, list | tuple):
        if not data:
            raise InputError("the list of files is empty; give at least one.")
        return [path for item in data for path in paths_of(item)]
    path = os.fspath(data)
    if not isinstance(path, str) or "\0" in path:
        raise InputError("the path of the data must be text.")
    if not os.path.exists(path):
        if not glob.has_magic(path):
            raise InputError(f"{path} does not exist; check the name and the folder.")
        found = sorted(name for name in glob.glob(path, recursive=True) if not os.path.isdir(name))
        if not found:
            raise InputError(f"no file matches {path}; check the pattern and the folder.")
        return found
    if os.path.isdir(path):
        raise InputError(f"{path} is a directory; give a file or a glob such as {os.path.join(path, '*.parquet')}.")
    if not os.path.isfile(path):
        raise InputError(
            f"{path} is not a regular file, and the data are read more than once; save them to a file first."
        )
    return [path]


def kind_of(paths: Sequence[str]) -> str:
    kinds = {_kind_of(path) for path in paths}
    if len(kinds) > 1:
        raise InputError(
            f"files read together must be of one kind, not {' and '.join(sorted(KINDS[kind] for kind in kinds))}."
        )
    return kinds.pop()


def _kind_of(path: str) -> str:
    ending = ending_of(path)
    if ending in DELIMITERS:
        return "csv"
    if ending in PARQUET:
        return "parquet"
    if ending in READ_WITH:
        return "stat"
    if ending in DATABASE:
        return "database"
    advice = next((text for endings, text in ADVICE.items() if ending in endings), "convert it to one of them")
    raise UnsupportedError(f"{path}: files ending in '{ending}' are not read ({KNOWN} are); {advice}.")


def ending_of(path: str) -> str:
    name = os.path.basename(path).lower()
    stem, last = os.path.splitext(name)
    return os.path.splitext(stem)[1] + last if last == ".gz" else last


def _refuse_options(
    kind: str, *, missing_text: str, delimiter: str | None, table: str | None, query: str | None
) -> None:
    given = {"missing_text": missing_text != "", "delimiter": delimiter is not None}
    for name, used in given.items():
        if used and kind != "csv":
            raise InputError(f"{name} goes with CSV files; this is a {KINDS[kind]}.")
    for name, value in {"table": table, "query": query}.items():
        if value is not None and kind != "database":
            raise InputError(f"{name} goes with a DuckDB database file; this is a {KINDS[kind]}.")


def _csv(
    paths: Sequence[str],
    names: Sequence[str],
    delimiter: str | None,
    **how: Any,
) -> CsvReader:
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii()):
        raise InputError(f"delimiter ({delimiter!r}) must be one character such as ',' or ';'.")
    for path in paths:
        _refuse_binary(path)
    chosen = delimiter or usual_delimiter(paths[0])
    reader = CsvReader(paths, delimiter=chosen, **how)
    if len(reader.columns) == 1 and reader.columns[0] not in names:
        for other in ";\t|,":
            if other not in reader.columns[0]:
                continue
            if delimiter is not None:
                raise InputError(f"{paths[0]} has one column when read with {chosen!r}; try the delimiter {other!r}.")
            return CsvReader(paths, delimiter=other, **how)
    return reader


def known_encoding(name: str | None) -> str | None:
    """The usual name of an encoding of texts; None for UTF-8, which needs no translation."""
    if name is None:
        return None
    try:
        "".encode(name)
        found = codecs.lookup(name).name
    except (LookupError, TypeError, ValueError):
        raise InputError(f"encoding ({name!r}) is unknown; usual ones are utf-8, latin-1, cp1252 and utf-16.") from None
    return None if found in ("utf-8", "utf-8-sig", "ascii") else found


def _refuse_binary(path: str) -> None:
    """Refuses a file that has the ending of a text file and is not one."""
    if ending_of(path).endswith(".gz"):
        return
    try:
        with open(path, "rb") as file:
            begin = file.read(4)
    except PermissionError:
        raise InputError(f"{path} may not be read by this user.") from None
    for mark, text in NOT_TEXT.items():
        if begin.startswith(mark):
            raise InputError(f"{path} is not a text file although its ending says so; it is {text}.")


def _database(paths: Sequence[str], table: str | None, query: str | None) -> DatabaseReader:
    if len(paths) > 1:
        raise InputError("give one DuckDB database file, not several.")
    if (table is None) == (query is None):
        raise InputError(f"{paths[0]} is a database: say which rows with either table= or query=.")
    return DatabaseReader(paths[0], table=table, query=query)


def _arrow(data: object) -> pa.Table:
    """One Arrow table. A stream that can be read only once is read into memory, because it is counted more than
    once."""
    if not hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.RecordBatch):
        hint = "; call .collect() first" if hasattr(data, "collect") else ""
        raise UnsupportedError(
            f"a value of type {type(data).__name__} cannot be opened{hint}; give a path, a list of paths, or a "
            "frame that speaks Arrow (pandas, polars, pyarrow)."
        )
    try:
        table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else pa.table(data)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:  # their texts quote values
        raise InputError(
            f"the {type(data).__name__} cannot be handed over as Arrow columns ({type(problem).__name__}); does it "
            "have a column of mixed types, or two columns of one name?"
        ) from None
    index = [name for name in table.column_names if name.startswith("__index_level_")]  # pandas' nameless index
    return table.drop_columns(index) if index else table
