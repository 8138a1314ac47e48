"""What runs on the executors: reading, encoding, counting. Counts and reports leave a task; rows never do.

Each task is a frozen value that is called with the Arrow batches of one partition, as ``mapInArrow`` does. Input that
is wrong is reported, not raised: Spark would repeat the task to no effect, and would log a traceback. Anything else
that goes wrong is raised again without its text, which may quote values, and Spark repeats the task.
"""

from __future__ import annotations

import gc
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy import errors
from understudy.core.arrays import Integers
from understudy.core.file_format import Written
from understudy.core.schema import Schema
from understudy.core.table import Codes
from understudy.engines.counting.bounding import id_texts
from understudy.engines.counting.kernel import flat_cells
from understudy.engines.counting.packing import hash_rows, unpack
from understudy.engines.counting.scanned_source import needed_attributes
from understudy.engines.counting.tally import Tally
from understudy.engines.counting.unlisted_codes import CodeTally, text_words
from understudy.engines.reading.encode import Encoder
from understudy.engines.reading.readers import CsvReader, parquet_batches, parquet_shape
from understudy.engines.reading.violations import Violations
from understudy.errors import InputError, UnderstudyError
from understudy.privacy.randomness.fingerprint import RowSum

MESSAGE = "kind int, number long, data binary"  # what tasks that count send
COUNTS, NEWS = 0, 1
CHUNK = 2**15  # counts sent in one piece: 256 KB, summed by one task
SPARSE_CELLS = "cell long, rows long"
CODE_COUNTS = "code string, rows long"
SPARK_KINDS: dict[str, Callable[[pa.DataType], bool]] = {
    "boolean": pa.types.is_boolean, "bigint": pa.types.is_integer, "double": pa.types.is_floating,
    "decimal": pa.types.is_decimal, "date": pa.types.is_date, "timestamp": pa.types.is_timestamp,
    "struct": pa.types.is_struct, "map": pa.types.is_map, "array": pa.types.is_nested, "binary": pa.types.is_binary,
}  # fmt: skip
MERGED_ROWS = 2**20  # cell numbers that are put together before they are sent on
_MESSAGE = pa.schema([("kind", pa.int32()), ("number", pa.int64()), ("data", pa.binary())])

Batches = Iterable[pa.RecordBatch]


class TaskError(Exception):
    """A failure in a task, by its type alone."""


class Shared(Protocol):
    """A public value that every task has: within the task itself, or broadcast if it is large."""

    @property
    def value(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Inline:
    """A public value that travels with the task."""

    value: Any


class Broadcast:
    """A public value that is broadcast, as the bytes that Spark makes of a closure.

    Spark itself broadcasts by plain pickle, which refuses functions that are defined inside others, and a public
    classification of records is such a function.
    """

    def __init__(self, packed: Any) -> None:
        self._packed = packed
        self._value: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Broadcast, (self._packed,)

    @property
    def value(self) -> Any:
        """Unpacked once in each task."""
        if self._value is None:
            self._value = _closure_serializer().loads(self._packed.value)
        return self._value


def packed_value(value: Any) -> bytes:
    """A value as Spark sends it in a closure."""
    packed: bytes = _closure_serializer().dumps(value)
    return packed


def _closure_serializer() -> Any:
    from pyspark import serializers

    serializer: Any = serializers.CloudPickleSerializer
    return serializer()


@dataclass(slots=True)
class News:
    """What a task says beside its counts: how many rows it saw and what is wrong with them."""

    rows: int = 0
    missing_ids: int = 0
    violations: Violations = field(default_factory=Violations)
    hashed: RowSum = field(default_factory=lambda: RowSum(b""))  # of the rows seen, if the task has a key
    unreadable: Counter[str] = field(default_factory=Counter)  # rows of another kind of table, by what is wrong

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows, "missing_ids": self.missing_ids, "violations": self.violations.to_json(),
            "hashed": self.hashed.parts, "unreadable": self.unreadable,
        }  # fmt: skip

    def add_json(self, found: dict[str, Any]) -> None:
        """Adds the news of a task; raises the problem it had, if any."""
        if "problem" in found:
            raise getattr(errors, found["problem"])(found["text"])
        self.rows += found["rows"]
        self.missing_ids += found["missing_ids"]
        self.violations.add_json(found["violations"])
        self.hashed.merge(found["hashed"])
        self.unreadable.update(found["unreadable"])


def message(kind: int, number: int, data: bytes) -> pa.RecordBatch:
    return pa.record_batch([[kind], [number], [data]], schema=_MESSAGE)


def guarded(work: Iterator[pa.RecordBatch], *, reports: bool = True) -> Iterator[pa.RecordBatch]:
    """The work of a task, whose failures say nothing about the data."""
    try:
        yield from work
    except UnderstudyError as problem:
        if not reports:
            raise TaskError(type(problem).__name__) from None
        news = {"problem": type(problem).__name__, "text": str(problem)}
        yield message(NEWS, 0, json.dumps(news).encode())
    except Exception as problem:
        raise TaskError(type(problem).__name__) from None


class Piece(NamedTuple):
    """A file, or some row groups of it."""

    path: str
    row_groups: tuple[int, ...] | None = None


class Rows(Protocol):
    """How a task gets the rows of its partition."""

    def batches(self, incoming: Batches, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameRows:
    """A Spark DataFrame, of which the driver selected the columns: its rows come as they are."""

    def batches(self, incoming: Batches, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        yield from incoming


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """Files that every machine can open, read by the readers of the embedded engine.

    What comes in are numbers of tasks. Reading here rather than in Spark's JVM saves the way of every value through
    Spark's rows and a socket, and a CSV means the same on every engine.
    """

    kind: str
    pieces: Shared  # a list of pieces for each task
    delimiter: str = ","
    written: Mapping[str, Written] = field(default_factory=dict)
    encoding: str | None = None
    missing_text: str = ""

    def batches(self, incoming: Batches, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for numbers in incoming:
            for number in numbers.column(0).to_pylist():
                for piece in self.pieces.value[number]:
                    yield from self._read(piece, columns)

    def _read(self, piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        require_file(piece.path)
        if self.kind == "parquet":
            return parquet_batches(piece.path, columns, piece.row_groups)
        return self.csv(piece.path).batches(columns)

    def csv(self, path: str) -> CsvReader:
        return CsvReader([path], delimiter=self.delimiter, written=self.written, encoding=self.encoding)

    def shape(self, path: str) -> dict[str, Any]:
        """The columns of a file, and the rows of its row groups if it has any. Runs in a task, as it opens the file."""
        require_file(path)
        if self.kind == "parquet":
            columns, groups = parquet_shape(path)
            return {"columns": columns, "groups": groups, "kinds": parquet_kinds(path)}
        return {"columns": self.csv(path).columns, "groups": None, "kinds": {}}


def parquet_kinds(path: str) -> dict[str, str]:
    """The type of every column of a Parquet file, by the names that Spark has for types."""
    kinds = {}
    for column in pq.read_schema(path):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        found = [name for name, is_one in SPARK_KINDS.items() if is_one(kind)]
        kinds[column.name] = found[0] if found else "string"
    return kinds


def require_file(path: str) -> None:
    if not os.path.exists(path):
        raise InputError(
            f"{path} does not exist on a worker. Put the data where every machine sees them under one path, name them "
            "by a URI that Spark reads (hdfs://...), or give a Spark DataFrame."
        )


class Scan(Protocol):
    """Rows of a partition as codes, with news about them."""

    def with_rows(self, incoming: Batches, news: News) -> Iterator[tuple[pa.RecordBatch, dict[str, Codes]]]:
        """Also the rows themselves; of rows that are codes already, the texts of columns with codes to be found."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRows:
    """Rows encoded and checked by the schema, of the attributes named."""

    rows: Rows
    schema: Shared
    names: tuple[str, ...]
    columns: tuple[str, ...]
    missing_text: str | None
    unit_id: str | None = None

    def with_rows(self, incoming: Batches, news: News) -> Iterator[tuple[pa.RecordBatch, dict[str, Codes]]]:
        encoder = Encoder(self.schema.value, self.names, missing_text=self.missing_text)
        encoder.violations = news.violations
        for raw in self.rows.batches(incoming, self.columns):
            news.rows += raw.num_rows
            if self.unit_id is not None:
                news.missing_ids += id_texts(raw.column(self.unit_id), self.unit_id, self.missing_text).null_count
            yield raw, encoder.encode(raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRows:
    """Rows that are codes already, as words (see ``packing``), those of ``first`` in front. After the words come the
    texts of the columns ``texts``, whose codes are to be found; ``read_by``: a schema that has them."""

    schema: Shared
    first: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    read_by: Shared | None = None
    missing_text: str | None = None

    def with_rows(self, incoming: Batches, news: News) -> Iterator[tuple[pa.RecordBatch, dict[str, Codes]]]:
        encoder = None
        if self.read_by is not None:
            encoder = Encoder(self.read_by.value, self.texts, missing_text=self.missing_text)
        for batch in incoming:
            news.rows += batch.num_rows
            words = batch.num_columns - len(self.texts)
            codes = unpack([column.to_numpy() for column in batch.columns[:words]], self.schema.value, self.first)
            raw = pa.record_batch(batch.columns[words:], names=list(self.texts)) if self.texts else batch
            yield raw, codes if encoder is None else codes | encoder.encode(raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRows:
    """Rows read by the declared schema, in the bins that were found."""

    scan: Scan
    recoded: Shared

    def with_rows(self, incoming: Batches, news: News) -> Iterator[tuple[pa.RecordBatch, dict[str, Codes]]]:
        recoded: dict[str, Codes] = self.recoded.value
        for raw, batch in self.scan.with_rows(incoming, news):
            yield raw, {name: recoded[name][codes] if name in recoded else codes for name, codes in batch.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTask:
    """Dense counts of margins, in chunks, and the news; with a key also the sum of hashed rows."""

    scan: Scan
    schema: Shared
    margins: Shared
    fingerprint_key: bytes | None = field(default=None, repr=False)

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._count(incoming))

    def _count(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        schema: Schema = self.schema.value
        margins: list[tuple[str, ...]] = self.margins.value
        names = needed_attributes(schema, margins)
        places = {name: place for place, name in enumerate(names)}
        columns = [tuple(places[name] for name in margin) for margin in margins]
        news = News() if self.fingerprint_key is None else News(hashed=RowSum(self.fingerprint_key))
        with Tally(schema.shape(names), columns, threads=1) as tally:
            for raw, batch in self.scan.with_rows(incoming, news):
                if self.fingerprint_key is not None:
                    hash_rows(news.hashed, batch, schema, text_words(raw, schema))
                tally.add([batch[name] for name in names])
            tables = tally.tables() if margins else []
        counts = np.concatenate([table.ravel() for table in tables]) if tables else np.empty(0, np.int64)
        spare_what_is_loaded()
        yield from counts_and_news(counts, news)


@cache
def spare_what_is_loaded() -> None:
    """Once in a worker, when the kernel is there. pyspark collects garbage after every task, and looking through all
    that numba has loaded takes longer (50 ms) than most tasks of a small table."""
    gc.collect()
    gc.freeze()


def counts_and_news(counts: Integers, news: News) -> Iterator[pa.RecordBatch]:
    """What a task that counts sends; chunks without a count are left out."""
    for number, start in enumerate(range(0, len(counts), CHUNK)):
        part = counts[start : start + CHUNK]
        if part.any():
            yield message(COUNTS, number, part.astype("<i8").tobytes())
    yield message(NEWS, -1, json.dumps(news.to_json()).encode())


def sum_messages(incoming: Batches) -> Iterator[pa.RecordBatch]:
    """Chunks of one number added up: the one small aggregation. News are passed on."""
    return guarded(_sum_messages(incoming))


def _sum_messages(incoming: Batches) -> Iterator[pa.RecordBatch]:
    sums: dict[int, Integers] = {}
    for batch in incoming:
        for kind, number, data in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if kind != COUNTS:
                yield message(kind, number, data)
            elif number in sums:
                sums[number] += np.frombuffer(data, "<i8")
            else:
                sums[number] = np.frombuffer(data, "<i8").astype(np.int64)
    for number, total in sums.items():
        yield message(COUNTS, number, total.astype("<i8").tobytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseTask:
    """The cells of rows over a margin with how often they occur, put together as far as memory allows.

    The data were checked by an earlier scan, so whatever is wrong now has changed since.
    """

    scan: Scan
    schema: Shared
    margin: tuple[str, ...]

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._cells(incoming), reports=False)

    def _cells(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        schema: Schema = self.schema.value
        shape, news = schema.shape(self.margin), News()
        held: list[Integers] = []
        for _, batch in self.scan.with_rows(incoming, news):
            held.append(flat_cells([batch[name] for name in self.margin], shape))
            if sum(map(len, held)) >= MERGED_ROWS:
                yield _merged(held)
                held = []
        if held:
            yield _merged(held)
        if news.violations:
            raise DataChangedError("the data do not fit the schema any more.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodesTask:
    """How often each text occurs in a column whose codes are to be found; the data were checked by an earlier scan."""

    scan: Scan
    schema: Shared
    name: str
    length: int | None
    missing_text: str | None

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._texts(incoming), reports=False)

    def _texts(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        tally, news = CodeTally(self.schema.value[self.name], self.missing_text, self.length), News()
        for raw, _ in self.scan.with_rows(incoming, news):
            tally.add(raw.column(self.name), np.ones(raw.num_rows, bool))
        if news.violations:
            raise DataChangedError("the data do not fit the schema any more.")
        codes, rows = tally.texts_and_rows()
        yield pa.record_batch([pa.array(codes, pa.string()), pa.array(rows)], names=["code", "rows"])


class DataChangedError(InputError):
    """The data are not what an earlier scan saw."""


def _merged(held: list[Integers]) -> pa.RecordBatch:
    cells, rows = np.unique(np.concatenate(held), return_counts=True)
    return pa.record_batch([pa.array(cells), pa.array(rows, pa.int64())], names=["cell", "rows"])


def gathered(incoming: Batches) -> Iterator[tuple[int, tuple[Integers, ...]]]:
    """Rows that come sorted by their first column, put together by it: the number, and the other columns.

    A row whose second column is negative only names its number, so that a number without any record is met too.
    """
    held: list[list[Integers]] = []
    current: int | None = None
    for batch in incoming:
        numbers, *columns = (column.to_numpy() for column in batch.columns)
        for begin, end in pairwise([0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]):
            if begin == end:
                continue
            if current is not None and int(numbers[begin]) != current:
                yield current, tuple(map(np.concatenate, zip(*held, strict=True)))
                held = []
            current = int(numbers[begin])
            named = columns[0][begin:end] >= 0
            held.append([column[begin:end][named] for column in columns])
    if current is not None:
        yield current, tuple(map(np.concatenate, zip(*held, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberTask:
    """Calls a function with numbers; what it answers is public and small enough for JSON."""

    work: Callable[[int], dict[str, Any]]

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._answers(incoming))

    def _answers(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        for numbers in incoming:
            for number in numbers.column(0).to_pylist():
                yield message(NEWS, number, json.dumps(self.work(number)).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeOfFile:
    """The shape of the file of a number."""

    rows: FileRows
    paths: Shared

    def __call__(self, number: int) -> dict[str, Any]:
        return self.rows.shape(self.paths.value[number])
