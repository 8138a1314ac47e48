"""The engine for tables that outgrow a machine: Apache Spark counts, the driver sees counts and never a row.

Every scan is one ``mapInArrow``: executors read or receive Arrow batches, encode and check them, and add them up with
the kernel of the embedded engine; the counts of the tasks are summed in one small aggregation. Selection, noise on
dense counts, fitting and the ledger stay on the driver.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from understudy.core.arrays import Integers, Progress
from understudy.core.counts import CodeCounts, Counts, SparseCounts
from understudy.core.mechanism import Stream, Words
from understudy.core.schema import Schema
from understudy.engines.counting.bounding import PURPOSE, refuse_missing_ids
from understudy.engines.counting.scanned_source import (
    ScannedSource,
    check_margin,
    dense_cells,
    must_be_bounded,
    needed_attributes,
)
from understudy.engines.counting.unlisted_codes import open_codes, with_codes
from understudy.engines.engine import engines
from understudy.engines.reading.encode import code_type, columns_to_read
from understudy.engines.systems.spark.keyed_tasks import (
    CELLS,
    DRAWN,
    DrawTask,
    KeepTask,
    StratumTask,
    UnitRowsTask,
    hash_names,
    text_names,
    word_names,
)
from understudy.engines.systems.spark.session import explained_failures
from understudy.engines.systems.spark.tasks import (
    CHUNK,
    CODE_COUNTS,
    COUNTS,
    MESSAGE,
    SPARSE_CELLS,
    Broadcast,
    CodesTask,
    CountTask,
    EncodedRows,
    FoundRows,
    Inline,
    News,
    NumberTask,
    PackedRows,
    Rows,
    Scan,
    Shared,
    SparseTask,
    packed_value,
    sum_messages,
)
from understudy.errors import InternalError, SchemaError, UnsupportedError, unknown_name
from understudy.privacy.gate.table_draws import TableMechanism
from understudy.privacy.promise.definition import Unit

# Cells of margins counted in one scan: 128 MB in a task. More margins are counted in several scans.
CELLS_PER_SCAN = 2**24
INLINE_BYTES = 2**16  # a public value up to this size travels with its task
CLOSURE_BYTES = 2**19  # pyspark broadcasts a larger closure, through a file; one with a key must not be
ARROW_ROWS = 2**17  # rows of a batch, for the work that is done once per batch; a batch is all a task holds
ARROW_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Where rows come from: a frame (of rows, or of numbers of tasks that read files) and how a task reads it."""

    session: Any
    frame: Any
    rows: Rows
    columns: tuple[str, ...]
    read_by_tasks: bool  # whether the frame holds numbers of tasks
    kinds: tuple[dict[str, str], ...] = ()  # the types of columns, of every file, where a type says anything
    missing_text: str | None = None

    def select(self, columns: Sequence[str]) -> Any:
        if self.read_by_tasks:
            return self.frame
        return self.frame.select(*(f"`{name.replace('`', '``')}`" for name in columns))


@engines.add
class SparkSource(ScannedSource):
    """A confidential table on Spark."""

    name: ClassVar[str] = "spark"

    @classmethod
    def claims(cls, data: object) -> bool:
        from understudy.engines.systems.spark.inputs import is_spark_frame

        return is_spark_frame(data)

    @classmethod
    def open(cls, data: Any, schema: Schema, **reading: Any) -> SparkSource:
        from understudy.engines.systems.spark.inputs import open_spark

        return open_spark(data, schema, **reading)

    def __init__(self, table: Table, schema: Schema, *, unit_id: str | None = None) -> None:
        super().__init__(schema, table.columns, unit_id=unit_id)
        self._table = table
        self._shared_schema = share(table.session, schema)
        self._kept: Any = None  # of a bounded source: the rows that are kept, as words
        self._declared: SparkSource | None = None  # where bins were found: what reads the rows

    def _scan_every_row(self) -> None:
        self._scan([])

    def count(self, margins: Sequence[tuple[str, ...]], progress: Progress | None = None) -> list[Counts]:
        """Dense counts of many margins; the first scan checks every row against the schema."""
        wanted = [check_margin(self.schema, margin) for margin in margins]
        for margin in wanted:
            dense_cells(self.schema, margin)
        found: list[Counts] = []
        for part in self._parts(wanted):
            found += self._scan(part)
            if progress is not None and self._total is not None:
                progress(self._total * len(found) // len(wanted), self._total)
        return found

    def _count_large(self, margin: tuple[str, ...], domain: int, progress: Progress | None) -> SparseCounts:
        """Cells are grouped on the executors; the driver holds the result, as the embedded engine does."""
        del progress  # Spark says nothing before it has grouped everything
        with self._running("counting cells"):
            grouped = self._grouped(margin).toArrow()
        cells, values = (grouped.column(name).to_numpy().astype(np.int64) for name in ("cell", "rows"))
        order = np.argsort(cells)
        return SparseCounts(margin=margin, domain_cells=domain, _cells=cells[order], _values=values[order])

    def count_codes(self, name: str, length: int | None) -> CodeCounts:
        """How often each text occurs in a column whose codes are to be found, or each beginning of that length.

        Texts are counted on the executors. All that occur come to the driver, each with its number of rows.
        """
        self.total()
        with self._running("counting codes"):
            frame, scan = self._source((name,))
            task = CodesTask(
                scan=scan, schema=self._shared_schema, name=name, length=length, missing_text=self._table.missing_text
            )
            counted = frame.mapInArrow(closure(task), CODE_COUNTS).groupBy("code").agg({"rows": "sum"})
            grouped = counted.toDF("code", "rows").toArrow()
        found = sorted(zip(grouped.column("code").to_pylist(), grouped.column("rows").to_pylist(), strict=True))
        values = np.array([rows for _, rows in found], np.int64)
        return CodeCounts(margin=(name,), _codes=tuple(code for code, _ in found), _values=values)

    def draw_strata(
        self,
        mechanisms: Sequence[TableMechanism],
        *,
        margin: tuple[str, ...],
        strata: tuple[str, ...],
        stream: Stream,
        purpose: tuple[str | int, ...],
    ) -> tuple[Integers, Integers]:
        """What ``privacy.gate.table_draws.draw_strata`` draws, drawn on the executors: no cell of the data comes here.

        A stratum is one task's work, so its non-empty cells must fit a task's memory.
        """
        if len(mechanisms) != self.schema.cells(strata):
            raise InternalError(f"{len(mechanisms)} mechanisms for {self.schema.cells(strata)} strata.")
        session, wanted = self._table.session, check_margin(self.schema, margin)
        task = DrawTask(
            key=key_of(stream, *purpose),
            schema=self._shared_schema,
            mechanisms=share(session, list(mechanisms)),
            margin=wanted,
            strata=strata,
            purpose=purpose,
        )
        split = StratumTask(schema=self._shared_schema, margin=wanted, strata=strata)
        with self._running("drawing"):
            cells = self._grouped(wanted).mapInArrow(closure(split), CELLS)
            every = session.range(len(mechanisms)).selectExpr("id AS stratum", "-1L AS inner", "0L AS rows")
            parts = min(len(mechanisms), self._parallelism())
            by_stratum = cells.union(every).repartition(parts, "stratum").sortWithinPartitions("stratum", "inner")
            drawn = by_stratum.mapInArrow(closure(task, with_key=True), DRAWN).toArrow()
        flat, times = (drawn.column(name).to_numpy() for name in ("cell", "times"))
        order = np.argsort(flat, kind="stable")
        return flat[order], times[order]

    def under(self, schema: Schema) -> SparkSource:
        """The same rows, in the bins of a schema that was found: tasks read by the declared one, and recode."""
        other = SparkSource(self._table, schema, unit_id=self._unit_id)
        other._unit, other._total, other._declared = self._unit, self._total, self._declared or self
        return other

    def bounded(self, unit: Unit, stream: Words) -> SparkSource:
        """The same table with at most ``unit.rows_per_unit`` rows of each ``unit.unit_id`` (see ``bounding``).

        Rows are brought together by unit once, and those that are kept stay on the executors as codes.
        """
        if not must_be_bounded(unit, self._unit, self._table.columns):
            return self
        assert unit.unit_id is not None  # noqa: S101  (else there is nothing to bound by)
        self._scan([], unit_id=unit.unit_id)
        key = key_of(stream, PURPOSE)
        names, texts = word_names(self.schema, unit.fixed), text_names(self.schema)
        encoded = self._encoded(self.schema.names, unit.unit_id)
        rows = UnitRowsTask(scan=encoded, unit_id=unit.unit_id, fixed=unit.fixed)
        keep = KeepTask(key=key, limit=unit.rows_per_unit, words=len(names), texts=len(texts))
        columns = self._columns(self.schema.names, unit.unit_id)
        with self._running("grouping rows by unit"):
            hashes = hash_names(self.schema)
            strings = [f"{name} string" for name in texts]
            typed = ", ".join(["id string", *(f"{name} long" for name in (*names, *hashes)), *strings])
            by_unit = self._table.select(columns).mapInArrow(closure(rows), typed)
            by_unit = by_unit.repartition(self._parallelism(), "id").sortWithinPartitions("id", *names, *hashes)
            typed = ", ".join([*(f"{name} long" for name in names), *strings])
            kept = by_unit.mapInArrow(closure(keep, with_key=True), typed).persist()
        bounded = SparkSource(self._table, self.schema, unit_id=self._unit_id)
        bounded._unit, bounded._kept = unit, kept
        weakref.finalize(bounded, kept.unpersist).atexit = False
        return bounded

    @property
    def session(self) -> Any:
        """The Spark session."""
        return self._table.session

    def require(self, columns: Sequence[str]) -> None:
        """Refuses a table that lacks a column."""
        for column in columns:
            if column not in self._table.columns:
                raise unknown_name("the data have no column", column, self._table.columns, error=SchemaError)

    def check(self, unit_id: str) -> None:
        """Reads and checks every row against the schema, and that each has an id."""
        self._scan([], unit_id=unit_id)

    def rows_with(self, columns: Sequence[str]) -> tuple[Any, EncodedRows]:
        """A frame to map, and how a task reads codes of all attributes from it beside these columns as they stand."""
        read = list(dict.fromkeys([*self._columns(self.schema.names), *columns]))
        return self._table.select(read), replace(self._encoded(self.schema.names), columns=tuple(read))

    def _parts(self, margins: Sequence[tuple[str, ...]]) -> Iterator[list[tuple[str, ...]]]:
        part: list[tuple[str, ...]] = []
        cells = 0
        for margin in margins:
            size = self.schema.cells(margin)
            if part and cells + size > CELLS_PER_SCAN:
                yield part
                part, cells = [], 0
            part.append(margin)
            cells += size
        if part:
            yield part

    def _parallelism(self) -> int:
        return int(self._table.session.sparkContext.defaultParallelism)

    def _columns(self, names: tuple[str, ...], unit_id: str | None = None) -> list[str]:
        found = columns_to_read(self._table.columns, self.schema, names)
        return list(dict.fromkeys([*found, *([unit_id] if unit_id is not None else [])]))

    def _encoded(
        self, names: tuple[str, ...], unit_id: str | None = None, read_by: Shared | None = None
    ) -> EncodedRows:
        return EncodedRows(
            rows=self._table.rows,
            schema=read_by or self._shared_schema,
            names=names,
            columns=tuple(self._columns(names, unit_id)),
            missing_text=self._table.missing_text,
            unit_id=unit_id,
        )

    def _source(
        self, names: tuple[str, ...], unit_id: str | None = None, read_by: Shared | None = None
    ) -> tuple[Any, Scan]:
        """The frame to scan and how a task reads codes of (at least) the attributes named from it.

        ``read_by``: a schema with codes that were found, if the declared one has none.
        """
        if self._declared is not None:
            declared, session = self._declared.schema, self._table.session
            by_codes = with_codes(declared, self.schema)
            reading = None if by_codes is declared else share(session, by_codes)
            frame, scan = self._declared._source(names, unit_id, reading)
            recoded = {
                name: codes.astype(code_type(self.schema[name]))
                for name, codes in self.schema.recoded(by_codes).items()
            }
            return frame, FoundRows(scan=scan, recoded=share(session, recoded))
        if self._kept is not None and self._unit is not None:
            packed = PackedRows(
                schema=self._shared_schema, first=self._unit.fixed, texts=open_codes(self.schema), read_by=read_by,
                missing_text=self._table.missing_text,
            )  # fmt: skip
            return self._kept, packed
        return self._table.select(self._columns(names, unit_id)), self._encoded(names, unit_id, read_by)

    def _scan(self, margins: list[tuple[str, ...]], unit_id: str | None = None) -> list[Counts]:
        """One scan. The first reads and checks every attribute; later ones read what is needed, and check that."""
        needed = needed_attributes(self.schema, margins)
        key = self._key_of_this_scan()
        names = self.schema.names if self._total is None or unit_id is not None or key is not None else needed
        sizes = [self.schema.cells(margin) for margin in margins]
        with self._running("counting"):
            frame, scan = self._source(names, unit_id)
            shared = share(self._table.session, margins)
            task = CountTask(scan=scan, schema=self._shared_schema, margins=shared, fingerprint_key=key)
            counts, news = receive_counts(frame, task, sum(sizes), with_key=key is not None)
        news.violations.check()
        if unit_id is not None:
            refuse_missing_ids(news.missing_ids, unit_id)
        self._scanned(news.rows, None if key is None else news.hashed.text)
        tables = np.split(counts, np.cumsum(sizes)[:-1]) if margins else []
        return [
            Counts(margin=margin, values=table.reshape(self.schema.shape(margin)))
            for margin, table in zip(margins, tables, strict=True)
        ]

    def _grouped(self, margin: tuple[str, ...]) -> Any:
        """A frame of the non-empty cells of a margin with their rows; the data are checked first."""
        self.total()
        frame, scan = self._source(self.schema.margin(margin))
        task = SparseTask(scan=scan, schema=self._shared_schema, margin=margin)
        return frame.mapInArrow(closure(task), SPARSE_CELLS).groupBy("cell").agg({"rows": "sum"}).toDF("cell", "rows")

    def _running(self, what: str) -> AbstractContextManager[None]:
        return running(self._table.session, what)


@contextmanager
def running(session: Any, what: str) -> Iterator[None]:
    """Around everything that starts a job over confidential rows."""
    with larger_batches(session), explained_failures(what):
        yield


def receive_counts(frame: Any, task: Any, cells: int, *, with_key: bool = False) -> tuple[Integers, News]:
    """One scan by a task that sends counts and news: the counts of ``cells`` cells, summed on the executors."""
    slots = int(frame.sparkSession.sparkContext.defaultParallelism)
    parts = max(1, min(-(-cells // CHUNK), slots))
    messages = frame.mapInArrow(closure(task, with_key=with_key), MESSAGE).repartition(parts, "number")
    counts, news = np.zeros(cells, np.int64), News()
    for kind, number, data in messages.mapInArrow(sum_messages, MESSAGE).collect():
        if kind == COUNTS:
            part = np.frombuffer(data, "<i8")
            counts[number * CHUNK : number * CHUNK + len(part)] = part
        else:
            news.add_json(json.loads(bytes(data)))
    return counts, news


def share(session: Any, value: Any) -> Shared:
    """A public value for every task: within the closure if it is small, broadcast if not."""
    packed = packed_value(value)
    if len(packed) <= INLINE_BYTES:
        return Inline(value)
    return Broadcast(session.sparkContext.broadcast(packed))


def closure(task: Any, *, with_key: bool = False) -> Any:
    """The function that Spark sends to executors. One that holds a key must stay so small that it is not broadcast."""

    def run(batches: Any) -> Any:
        return task(batches)

    if with_key and len(packed_value(run)) > CLOSURE_BYTES:
        raise InternalError("a task with a key is too large to travel in its closure; nothing was drawn.")
    return run


def key_of(stream: Words, *purpose: str | int) -> Any:
    """The key of a stream for tasks that draw under ``purpose``."""
    if not hasattr(stream, "hand_out"):
        raise UnsupportedError(f"a {type(stream).__name__} cannot be used on Spark: it has no key that could travel.")
    return stream.hand_out(*purpose)


@contextmanager
def larger_batches(session: Any) -> Iterator[None]:
    """Larger batches, for which starting a kernel pays, in the jobs started inside."""
    before = session.conf.get(ARROW_SETTING)
    session.conf.set(ARROW_SETTING, str(ARROW_ROWS))
    try:
        yield
    finally:
        session.conf.set(ARROW_SETTING, before)


def map_numbers(session: Any, work: Any, count: int, *, tasks: int | None = None, with_key: bool = False) -> list[Any]:
    """What ``work`` (a picklable callable) answers for the numbers 0 to ``count`` - 1, in order, from the executors."""
    parts = max(1, min(count, tasks or session.sparkContext.defaultParallelism))
    numbers = session.range(0, count, 1, parts)
    with explained_failures("the work on the executors"):
        received = numbers.mapInArrow(closure(NumberTask(work=work), with_key=with_key), MESSAGE).collect()
    found: dict[int, Any] = {}
    for _, number, data in received:
        answer = json.loads(bytes(data))
        if "problem" in answer:
            News().add_json(answer)
        found[number] = answer
    return [found[number] for number in range(count)]
