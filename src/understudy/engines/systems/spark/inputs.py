"""Opening what lies on a cluster: DataFrames, files that every machine sees, URIs, tables of the catalogue."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from understudy.core.schema import Attribute, Schema, level_text
from understudy.engines.reading.readers import same_columns
from understudy.engines.systems.local.inputs import (
    DELIMITERS,
    KINDS,
    are_paths,
    ending_of,
    kind_of,
    known_encoding,
    paths_of,
    told_format,
    written_columns,
)
from understudy.engines.systems.spark.session import check_protection, explained_failures, import_spark, session_for
from understudy.engines.systems.spark.source import SparkSource, Table, map_numbers, share
from understudy.engines.systems.spark.tasks import FileRows, FrameRows, Inline, Piece, ShapeOfFile
from understudy.errors import InputError, SchemaError, UnsupportedError

TASKS_PER_SLOT = 4  # so that no slot waits long for the last task; each task sends its counts once
TASK_ROWS = 2**20  # fewer rows are not worth a task
FOOTERS_AT_A_TIME = 8


def is_spark_frame(data: object) -> bool:
    """Whether something is a Spark DataFrame, without importing Spark."""
    kind = type(data)
    return kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql")


def open_spark(data: Any, schema: Schema, *, unit_id: str | None = None, **reading: Any) -> SparkSource:
    """A confidential table on Spark, ready to be counted through the gate. Opening checks the columns.

    ``reading`` is what :func:`open_table` takes.
    """
    if not isinstance(schema, Schema):
        raise InputError(f"schema ({type(schema).__name__}) must be a schema; read one with read_schema(path).")
    table = open_table(data, schema=schema, **reading)
    for attribute in schema.attributes:
        for kinds in table.kinds:
            if attribute.name in kinds:
                _check_kind(attribute, kinds[attribute.name])
    return SparkSource(table, schema, unit_id=unit_id)


def open_table(
    data: Any,
    *,
    schema: Schema | None = None,
    master: str | None = None,
    allow_insecure_cluster: bool = False,
    missing_text: str = "",
    delimiter: str | None = None,
    decimal_comma: bool = False,
    encoding: str | None = None,
    table: str | None = None,
    query: str | None = None,
) -> Table:
    """Rows on Spark.

    ``data``: a Spark DataFrame; CSV or Parquet files that every machine sees under one path, as a path, a glob or a
    list; Parquet under URIs that Spark reads; or None with a ``table`` or ``query`` of Spark's catalogue. ``schema``
    says how CSV files are written, if not as usual.
    """
    if isinstance(data, list) and not data:
        data = None
    text_options = missing_text != "" or delimiter is not None or decimal_comma or encoding is not None
    if is_spark_frame(data):
        _refuse(table is not None or query is not None, "table and query", "a DataFrame")
        _refuse(text_options, "missing_text, delimiter, decimal_comma and encoding", "a DataFrame")
        return _frame(data, master=master, allow_insecure_cluster=allow_insecure_cluster)
    if data is not None and not (isinstance(data, str | os.PathLike) or (isinstance(data, list) and are_paths(data))):
        raise UnsupportedError(
            f"engine 'spark' cannot open a {type(data).__name__}; give a Spark DataFrame, or paths of CSV or Parquet."
        )
    if (table is not None or query is not None) == (data is not None):
        raise InputError("engine 'spark' needs either data, or a table or query of Spark's catalogue.")
    listed = [] if data is None else [os.fspath(item) for item in (data if isinstance(data, list) else [data])]
    remote = [path for path in listed if "://" in path]
    if listed and not remote:  # refuse what can be refused before Spark is started
        paths = paths_of(listed)
        kind = kind_of(paths)
        if kind not in ("csv", "parquet"):
            raise UnsupportedError(f"engine 'spark' reads CSV and Parquet, not a {KINDS[kind]}; convert it to Parquet.")
        _refuse(
            kind != "csv" and text_options, "missing_text, delimiter, decimal_comma and encoding", f"a {KINDS[kind]}"
        )
        _check_delimiter(delimiter)
        file = told_format(
            None if schema is None else schema.file, missing_text=missing_text, delimiter=delimiter,
            decimal_comma=decimal_comma, encoding=encoding,
        )  # fmt: skip
        probe = FileRows(
            kind=kind,
            pieces=Inline([]),
            delimiter=file.delimiter or DELIMITERS.get(ending_of(paths[0]), ","),
            written={} if schema is None else written_columns(file, schema),
            encoding=known_encoding(file.encoding),
            missing_text=missing_text,
        )
        session = session_for(master, allow_insecure_cluster=allow_insecure_cluster, jvm_reads=False)
        return _files(session, paths, probe)
    if len(remote) < len(listed):
        raise InputError("name the data either by paths or by URIs, not by both.")
    if any(ending_of(path) in DELIMITERS for path in remote):
        raise UnsupportedError(
            "CSV files are read under a path that every machine sees, not under a URI; mount them, or convert them to "
            "Parquet."
        )
    _refuse(text_options, "missing_text, delimiter, decimal_comma and encoding", "Parquet and tables")
    session = session_for(master, allow_insecure_cluster=allow_insecure_cluster)
    with explained_failures("opening the data"):
        if remote:
            frame = session.read.parquet(*remote)
            _check_footers(session, frame)
        else:
            frame = session.table(table) if table is not None else session.sql(str(query))
    return _frame(frame, allow_insecure_cluster=True)  # its session was checked


def _refuse(given: bool, options: str, what: str) -> None:
    if given:
        raise InputError(f"{options} do not go with {what}.")


def _check_delimiter(delimiter: str | None) -> None:
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n' or not delimiter.isascii()):
        raise InputError(f"delimiter ({delimiter!r}) must be one character such as ',' or ';'.")


def _frame(frame: Any, *, master: str | None = None, allow_insecure_cluster: bool) -> Table:
    import_spark()
    if not hasattr(frame, "_jdf"):
        raise UnsupportedError(
            "a DataFrame of Spark Connect has no closure that a key could travel in; use a classic session."
        )
    session = frame.sparkSession
    if master is not None and master != session.sparkContext.master:
        raise InputError(f"the DataFrame belongs to a session on {session.sparkContext.master}; leave master out.")
    check_protection(session, allow_insecure_cluster=allow_insecure_cluster)
    return Table(
        session=session,
        frame=frame,
        rows=FrameRows(),
        columns=tuple(frame.columns),
        read_by_tasks=False,
        kinds=(dict(frame.dtypes),),
    )


def _check_kind(attribute: Attribute, kind: str) -> None:
    """Refuses a column whose type cannot hold the attribute: it was read as something that it is not."""
    family = kind.partition("(")[0].partition("<")[0]
    number = family in ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
    expected = None
    if family in ("array", "map", "struct", "binary", "variant", "interval"):
        expected = "text, numbers, booleans, dates or timestamps"
    elif attribute.kind == "numeric" and family in ("boolean", "date", "timestamp", "timestamp_ntz"):
        expected = "numbers"
    elif attribute.kind == "date" and (number or family == "boolean"):
        expected = "dates, or text such as 2026-01-31"
    elif attribute.most_codes and not attribute.among:
        pass  # numbers are codes too, by their text
    elif attribute.levels and number and not any(_is_number(level_text(level)) for level in attribute.levels):
        expected = f"texts such as '{level_text(attribute.levels[0])}'"
    if expected is not None:
        raise SchemaError(
            f"column '{attribute.name}' was read as {family}, and its attribute has {expected}. Read it as text (no "
            "inferSchema), or cast it where it is read; in a file, write it as text."
        )


def _is_number(text: str) -> bool:
    """Whether a number can have this text: '3' can, '03' and 'x' cannot."""
    try:
        return level_text(int(text)) == text
    except ValueError:
        return False


def _check_footers(session: Any, frame: Any) -> None:
    """Refuses files with other columns than the first: Spark would fill in missing values for those they lack."""
    files = list(frame.inputFiles())

    def columns(file: str) -> tuple[str, ...]:
        return tuple(session.read.parquet(file).columns)

    with ThreadPoolExecutor(FOOTERS_AT_A_TIME) as pool:
        found = list(pool.map(columns, files))
    if found:
        same_columns(files, found)


def _files(session: Any, paths: Sequence[str], probe: FileRows) -> Table:
    """Files divided among tasks. Their columns and sizes are looked up by tasks: footers hold values too."""
    absolute = [os.path.abspath(path) for path in paths]
    shapes = map_numbers(session, ShapeOfFile(rows=probe, paths=share(session, absolute)), len(absolute))
    columns = same_columns(absolute, [tuple(shape["columns"]) for shape in shapes])
    slots = int(session.sparkContext.defaultParallelism)
    tasks = _tasks(absolute, [shape["groups"] for shape in shapes], slots * TASKS_PER_SLOT)
    return Table(
        session=session,
        frame=session.range(0, len(tasks), 1, len(tasks)),
        rows=replace(probe, pieces=share(session, tasks)),
        columns=columns,
        read_by_tasks=True,
        kinds=tuple(shape["kinds"] for shape in shapes),
        missing_text=probe.missing_text if probe.kind == "csv" else None,
    )


def _tasks(paths: Sequence[str], groups: Sequence[list[int] | None], wanted: int) -> list[list[Piece]]:
    """Pieces of about the same number of rows for each task. A CSV file is one piece; Parquet is cut at row groups.

    >>> for pieces in _tasks(["a", "b"], [[TASK_ROWS, 5, TASK_ROWS], [5, TASK_ROWS]], 4):
    ...     print(*((piece.path, piece.row_groups) for piece in pieces))
    ('a', (0,))
    ('a', (1, 2))
    ('b', (0, 1))
    >>> _tasks(["a", "b"], [None, None], 4)
    [[Piece(path='a', row_groups=None)], [Piece(path='b', row_groups=None)]]
    """
    tasks: list[list[Piece]] = []
    total = sum(sum(sizes) for sizes in groups if sizes is not None)
    share_of_task = max(TASK_ROWS, -(-total // wanted))
    held = share_of_task
    for path, sizes in zip(paths, groups, strict=True):
        if sizes is None:
            tasks.append([Piece(path)])
            continue
        for number, rows in enumerate(sizes):
            if held >= share_of_task or not tasks:
                tasks.append([])
                held = 0
            held += rows
            last = tasks[-1][-1] if tasks[-1] else None
            if last is not None and last.path == path and last.row_groups is not None:
                tasks[-1][-1] = Piece(path, (*last.row_groups, number))
            else:
                tasks[-1].append(Piece(path, (number,)))
    return tasks or [[]]
