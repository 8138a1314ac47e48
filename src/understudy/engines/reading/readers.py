"""Where rows come from: files, databases and frames as streams of Arrow batches, in the same order at every scan.

CSV and Parquet are streamed by Arrow's own readers, which took a third (CSV) and a tenth (Parquet) of the time of
DuckDB's on 2 million rows of text, and DuckDB's CSV reader drops the empty lines of a one-column file, where an empty
line is a missing value. Messages of the readers quote lines of the data, so they are never passed on.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import os
import re
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import IO, Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from understudy.core.file_format import Written
from understudy.core.spreadsheet import from_cell
from understudy.errors import InputError, SchemaError, unknown_name

# 20 MB of ten 64-bit columns: some batches are in memory at a time. Half as many rows cost a tenth more time.
BATCH_ROWS = 2**18
RESULT = "memory.main.query_result"
PARQUET_BUFFER = 2**20  # bytes read at a time of each column
CSV_BLOCK = 2**24  # bytes; a row may not be longer
RAGGED = re.compile(r"Expected \d+ columns, got \d+")  # what Arrow says of a row with too few or too many fields
SURROGATE = re.compile("[\ud800-\udfff]")  # stands for a byte that is not UTF-8
UNNAMED = "unnamed"  # the column of row numbers that R and pandas write, and what follows a comma at the end of lines


class Reader(Protocol):
    """A table that can be read again and again, in the same order."""

    columns: tuple[str, ...]
    rows: int | None  # None where only a scan can tell
    text_only: bool  # whether missing values are written as a text

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...


class ArrowReader:
    """A table in memory: anything that speaks Arrow."""

    text_only = False

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.columns = tuple(table.column_names)
        self.rows: int | None = table.num_rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(list(columns)).to_batches(max_chunksize=BATCH_ROWS)


class ParquetReader:
    """One or more Parquet files with the same columns."""

    text_only = False

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = tuple(paths)
        shapes = [parquet_shape(path) for path in self._paths]
        self.columns = same_columns(self._paths, [columns for columns, _ in shapes])
        self.rows: int | None = sum(sum(groups) for _, groups in shapes)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for path in self._paths:
            yield from parquet_batches(path, columns)


def parquet_batches(
    path: str, columns: Sequence[str], row_groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one Parquet file, or of some of its row groups; texts as dictionaries."""
    with _readable(path, "Parquet"), pa.parquet.ParquetFile(path) as file:
        texts = [
            field.name
            for field in file.schema_arrow
            if field.name in columns and (pa.types.is_string(field.type) or pa.types.is_large_string(field.type))
        ]
    # Buffering ahead would keep the whole file in memory until its end.
    options = {"read_dictionary": texts, "pre_buffer": False, "buffer_size": PARQUET_BUFFER}
    with _readable(path, "Parquet"), pa.parquet.ParquetFile(path, **options) as file:
        for batch in file.iter_batches(BATCH_ROWS, row_groups=row_groups, columns=list(columns)):
            yield batch.select(list(columns))


def parquet_shape(path: str) -> tuple[tuple[str, ...], list[int]]:
    """The columns of one Parquet file and the rows of each of its row groups; none of the footer's statistics."""
    with _readable(path, "Parquet"), pa.parquet.ParquetFile(path) as file:
        groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
        return tuple(file.schema_arrow.names), groups


class CsvReader:
    """One or more CSV files with the same header, every column as text, nothing sniffed.

    In a file with one column an empty line is a row with an empty value; with more columns it is not a row.
    """

    text_only = True
    rows: int | None = None

    def __init__(
        self,
        paths: Sequence[str],
        *,
        delimiter: str,
        written: Mapping[str, Written] | None = None,
        encoding: str | None = None,
    ) -> None:
        self._paths = tuple(paths)
        self._encoding = encoding  # None: UTF-8, read piece by piece; any other is held in memory while it is read
        self.delimiter = delimiter
        self._written = {name: one for name, one in (written or {}).items() if not one.plain}
        self.decimal_commas = any(one.decimal == "," for one in self._written.values())
        headers = [self._header(path) for path in self._paths]
        named = [tuple(from_cell(cell) or UNNAMED for cell in header) for header, _ in headers]
        self.columns = same_columns(self._paths, named)
        # How a file writes its names, where that is otherwise (see core.spreadsheet).
        self._cells = {
            path: dict(zip(names, header, strict=True))
            for path, names, (header, _) in zip(self._paths, named, headers, strict=True)
        }
        self._empty = {path for path, (_, has_rows) in zip(self._paths, headers, strict=True) if not has_rows}
        self._closed: set[str] = set()  # files whose quotation marks are known to be closed

    def _header(self, path: str) -> tuple[tuple[str, ...], bool]:
        with _readable(path, "CSV"), self._open(path) as raw:
            text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
            lines = csv.reader(text, delimiter=self.delimiter)
            try:
                header = next(lines, None)
            except csv.Error:
                header = [""]
            if header is None:
                raise InputError(f"{path} is empty; a CSV file begins with a line of column names.")
            try:
                "".join(header).encode()
            except UnicodeEncodeError:
                raise _not_utf8(path) from None
            if header.count("") > 1 or header == [""] or ("" in header and UNNAMED in header):
                raise InputError(f"{path}: the first line must name every column; a name is empty or unreadable.")
            try:
                has_rows = any(line or len(header) == 1 for line in lines)
            except csv.Error:
                has_rows = True
            return tuple(header), has_rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        import pyarrow.csv as arrow_csv

        for path in self._paths:
            if path in self._empty:
                continue
            cells = [self._cells[path][name] for name in columns]
            options = {
                "read_options": arrow_csv.ReadOptions(block_size=CSV_BLOCK),
                "parse_options": arrow_csv.ParseOptions(
                    delimiter=self.delimiter, newlines_in_values=True, ignore_empty_lines=len(self.columns) > 1
                ),
                "convert_options": arrow_csv.ConvertOptions(
                    column_types={cell: pa.dictionary(pa.int32(), pa.string()) for cell in cells},
                    include_columns=cells,
                    strings_can_be_null=False,
                ),
            }
            with _readable(path, "CSV"):
                try:
                    # Arrow's own file, and no handler of ours: see _arrow_file.
                    with self._arrow_file(path) as file, arrow_csv.open_csv(file, **options) as stream:
                        yield from (self._usual(batch.rename_columns(list(columns))) for batch in stream)
                except pa.ArrowInvalid as problem:
                    if not RAGGED.search(str(problem)):
                        raise
                    self._refuse_unclosed(path)
                    raise self._ragged(path) from None
                self._refuse_unclosed(path)

    def _open(self, path: str) -> IO[bytes]:
        """The bytes of a file as UTF-8."""
        return _open(path) if self._encoding is None else io.BytesIO(_as_utf8(path, self._encoding))

    def _arrow_file(self, path: str) -> AbstractContextManager[pa.NativeFile]:
        if self._encoding is None:
            return _arrow_file(path)
        reader: AbstractContextManager[pa.NativeFile] = pa.BufferReader(_as_utf8(path, self._encoding))
        return reader

    def _refuse_unclosed(self, path: str) -> None:
        """Arrow's reader takes a quotation mark that is never closed for a very long value. Looked for once."""
        if path in self._closed:
            return
        with self._open(path) as raw:
            marks = sum(block.count(b'"') for block in iter(lambda: raw.read(CSV_BLOCK), b""))
        if marks % 2:
            raise InputError(f"{path}: a quotation mark is opened and never closed, so rows run together.")
        self._closed.add(path)

    def _ragged(self, path: str) -> InputError:
        """How many rows have too few or too many fields; Arrow stops at the first."""
        width, found = len(self.columns), 0
        with self._open(path) as raw, contextlib.suppress(csv.Error):  # a value beyond what Python reads ends the count
            text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
            for line in csv.reader(text, delimiter=self.delimiter):
                if len(line) != width and (line or width == 1):
                    found += 1
                    if SURROGATE.search("".join(line)):
                        return _not_utf8(path)
        return InputError(
            f"{path}: {max(found, 1):,} row(s) do not have the {width} fields that the header names. "
            "Quote values that contain the delimiter, also decimal commas, or give the right delimiter."
        )

    def _usual(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Values as the schema reads them, by what was declared of each column. A missing value is null."""
        for position, name in enumerate(batch.schema.names):
            if (written := self._written.get(name)) is not None:
                column = batch.column(position)
                texts = pa.array(written.all(column.dictionary.to_pylist()), pa.string())
                batch = batch.set_column(position, name, pa.DictionaryArray.from_arrays(column.indices, texts))
        return batch


class DatabaseReader:
    """A table, view or query of a DuckDB database file, opened read-only.

    A view or query runs once, into a table of a private database that goes away with the reader: it may give its rows
    in another order each time, and every scan must see the same rows in the same order.

    Once the file is attached, nothing else can be reached: a view is written by whoever made the database, and one that
    names another file would bring that file's rows into the table.
    """

    text_only = False
    rows: int | None = None

    def __init__(self, path: str, *, table: str | None, query: str | None) -> None:
        self._path = path
        self._folder = tempfile.TemporaryDirectory(prefix="understudy-")
        # Attached to a connection of its own: DuckDB refuses to open one file twice with different settings.
        settings = private_settings(self._folder.name) | {"enable_external_access": True}  # until it is attached
        self._connection = duckdb.connect(config=settings)
        weakref.finalize(self, _close, self._connection, self._folder)
        try:
            quoted = _quoted(path, quote="'")
            self._connection.execute(f"ATTACH {quoted} AS confidential (TYPE duckdb, READ_ONLY)")
            self._connection.execute("USE confidential")
            self._connection.execute("SET enable_external_access = false")
            self._connection.execute("SET lock_configuration = true")
        except (duckdb.Error, OSError):
            raise InputError(f"{path} cannot be opened as a DuckDB database; is it one, and is it in use?") from None
        self._waiting: str | None = None  # what has to run before the first scan
        if table is not None:
            self._from, is_view = self._find(table)
            if is_view:
                self._waiting, self._from = self._from, RESULT
        else:
            self._waiting, self._from = f"({self._one_select(str(query))}\n)", RESULT
        with self._running():
            self.columns = tuple(self._connection.sql(f"SELECT * FROM {self._waiting or self._from}").columns)

    def _find(self, table: str) -> tuple[str, bool]:
        found = self._connection.execute(
            "SELECT schema_name, table_name, false FROM duckdb_tables() WHERE database_name = 'confidential' UNION ALL "
            "SELECT schema_name, view_name, true FROM duckdb_views() WHERE database_name = 'confidential' "
            "AND NOT internal ORDER BY ALL"
        ).fetchall()
        names = {f"{schema}.{name}": (schema, name, is_view) for schema, name, is_view in found}
        names |= {name: (schema, name, is_view) for schema, name, is_view in found if schema == "main"}
        if table not in names:
            raise unknown_name(f"{self._path}: table", table, names, error=InputError)
        schema, name, is_view = names[table]
        return ".".join(map(_quoted, ("confidential", schema, name))), bool(is_view)

    def _one_select(self, query: str) -> str:
        try:
            kinds = [statement.type for statement in self._connection.extract_statements(query)]
        except duckdb.Error:
            kinds = []
        if kinds != [duckdb.StatementType.SELECT]:
            raise InputError("query must be one SELECT statement that DuckDB understands.")
        return query.rstrip().removesuffix(";")

    @contextmanager
    def _running(self) -> Iterator[None]:
        try:
            yield
        except duckdb.PermissionException:
            raise InputError(
                f"{self._path}: the view or query reads another file, or loads an extension. Only the database itself "
                "is read; bring the other rows into a table of it first."
            ) from None
        except (duckdb.Error, pa.ArrowException, OSError) as problem:
            raise InputError(
                f"{self._path}: DuckDB could not read the rows ({type(problem).__name__}). Its message may quote "
                "confidential values and is not shown; run the query in DuckDB itself to see it."
            ) from None

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        named = ", ".join(map(_quoted, columns))
        with self._running():
            if self._waiting is not None:
                self._connection.execute(f"CREATE TABLE {RESULT} AS SELECT * FROM {self._waiting}")
                self._waiting = None
            yield from self._connection.cursor().sql(f"SELECT {named} FROM {self._from}").to_arrow_reader(BATCH_ROWS)


def private_settings(folder: str) -> dict[str, Any]:
    """DuckDB restricted to what it is handed: no network, no files, no Python variable that happens to have the name of
    a table. It spills to a folder only this user can read."""
    return {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "enable_external_access": False,
        "python_enable_replacements": False,
        "temp_directory": folder,
        "preserve_insertion_order": True,
    }


def _close(connection: duckdb.DuckDBPyConnection, folder: tempfile.TemporaryDirectory[str]) -> None:
    connection.close()
    folder.cleanup()


def _quoted(name: str, quote: str = '"') -> str:
    return quote + name.replace(quote, quote * 2) + quote


def _open(path: str) -> IO[bytes]:
    return gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def _as_utf8(path: str, encoding: str) -> bytes:
    """A file of another encoding, translated in memory: no second copy of confidential data lies on a disk."""
    with _open(path) as raw:
        content = raw.read()
    try:
        return content.decode(encoding).encode()
    except UnicodeError:  # its text quotes the data
        raise InputError(f"{path} is not text in the encoding {encoding}; give the right --encoding.") from None


@contextmanager
def _arrow_file(path: str) -> Iterator[pa.NativeFile]:
    """A file that Arrow opens, unpacks and closes by itself.

    Arrow reads in threads of its own, and one of them may let go of the file after the last row was handed out. A
    Python file, or a Python function for ragged rows, would be let go there as well. That needs the interpreter, and
    the process is aborted if the interpreter is ending at that moment.
    """
    with pa.OSFile(path, "rb") as file:
        if not path.lower().endswith(".gz"):
            yield file
            return
        with pa.CompressedInputStream(file, "gzip") as unpacked:
            yield unpacked


@contextmanager
def _readable(path: str, kind: str) -> Iterator[None]:
    """Turns a reader's error into ours without its text, which may quote the data."""
    try:
        yield
    except (SchemaError, InputError):
        raise
    except PermissionError:
        raise InputError(f"{path} may not be read by this user.") from None
    except (pa.ArrowException, duckdb.Error, OSError, EOFError, ValueError) as problem:
        if kind == "CSV" and "utf8" in str(problem).lower():
            raise _not_utf8(path) from None
        raise InputError(
            f"{path} cannot be read as {kind} ({type(problem).__name__}); it may be damaged or cut short."
        ) from None


def _not_utf8(path: str) -> InputError:
    """Which remedy is right depends on whether the rest of the file is UTF-8 already."""
    bad = good = 0
    marks = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    with contextlib.suppress(OSError, EOFError), _open(path) as raw:
        if raw.read(2) in marks:
            return InputError(f'{path} is written in UTF-16; say so: --encoding utf-16 (encoding="utf-16" in Python).')
    with contextlib.suppress(OSError, EOFError), _open(path) as raw:
        for line in raw:
            try:
                good += not line.decode().isascii()
            except UnicodeDecodeError:
                bad += 1
    if good:
        return InputError(
            f"{path} is not UTF-8 text: it mixes encodings. {bad:,} line(s) are not UTF-8 and {good:,} are, so "
            "converting the whole file would damage these; write it again in one encoding where it comes from."
        )
    return InputError(
        f"{path} is not UTF-8 text ({bad:,} line(s)); say how its letters are written, for example --encoding latin-1 "
        '(encoding="latin-1" in Python).'
    )


def same_columns(paths: Sequence[str], columns: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    for path, names in zip(paths, columns, strict=True):
        if sorted(names) != sorted(columns[0]):
            raise SchemaError(
                f"{path} has other columns than {os.path.basename(paths[0])}; files read together must agree."
            )
    return columns[0]
