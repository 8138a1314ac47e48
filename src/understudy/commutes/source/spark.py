"""Commutes on Spark: pairs are coded, counted and drawn on the executors, block of destinations by block.

The driver holds what is public (places, sizes of fixed destinations, the tables that were drawn) and counts of public
classes. No pair of the data comes to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.commutes.source.local import CommuteSource, Problems, refuse, refuse_repeated
from understudy.commutes.source.places_file import read_places
from understudy.core.arrays import Integers
from understudy.core.flows import Flows, Partition
from understudy.core.mechanism import Stream
from understudy.core.places import Places
from understudy.engines.systems.spark.inputs import open_table
from understudy.engines.systems.spark.source import Table, closure, key_of, receive_counts, running, share
from understudy.engines.systems.spark.tasks import Batches, News, Rows, Shared, counts_and_news, gathered, guarded
from understudy.errors import DisclosureError, InputError, InternalError
from understudy.privacy.gate.flow_blocks import Drawn, DrawOrder
from understudy.privacy.gate.flow_gate import FlowTable
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric
from understudy.privacy.randomness.draws import TravellingKey
from understudy.privacy.randomness.fingerprint import RowSum

PAIRS = "destination long, origin long, jobs long"
BLOCKS = "block long, data binary"
CLASSES = "part long, cell long, jobs long"
NOISY = "cell long, noisy long"
HELD_JOBS = 2**20  # rows whose classes are added up before they are sent on

Pairs = tuple[NDArray[np.int32], NDArray[np.int32], Integers]  # origins, destinations, jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartReader:
    """The rows of one partition, as a reader of the embedded engine."""

    rows: Rows
    columns: tuple[str, ...]
    incoming: Batches
    text_only: bool = False

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self.rows.batches(self.incoming, columns):
            yield batch.select(list(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairScan:
    """Codes of origins and destinations, with jobs, of the rows of a partition."""

    rows: Rows
    columns: tuple[str, ...]
    places: Shared

    def source(self, incoming: Batches) -> CommuteSource:
        """The rows of a partition, opened as on one machine."""
        reader: Any = _PartReader(rows=self.rows, columns=self.columns, incoming=incoming)
        return CommuteSource(reader, self.places.value)

    def pairs(self, incoming: Batches, problems: Problems | None = None) -> Iterator[Pairs]:
        """Rows that cannot be read are counted in ``problems``, or refused."""
        for origins, destinations, jobs in self.source(incoming).coded_batches(problems):
            counted = np.ones(len(origins), np.int64) if jobs is None else jobs.astype(np.int64)
            yield origins, destinations, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTask:
    """Jobs by the cells of a public classification; with a key also the sum of hashed jobs."""

    scan: PairScan
    table: Shared
    fingerprint_key: bytes | None = field(default=None, repr=False)

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._count(incoming))

    def _count(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        table = self.table.value
        news = News() if self.fingerprint_key is None else News(hashed=RowSum(self.fingerprint_key))
        counts = np.zeros(table.cells, np.int64)
        for origins, destinations, jobs in self.scan.pairs(incoming, news.unreadable):
            if self.fingerprint_key is not None:
                news.hashed.add([origins.astype(np.int64), destinations.astype(np.int64)], jobs)
            classes = table.classify(origins, destinations)
            if table.cells <= 4 * len(classes):
                counts += np.bincount(classes, weights=jobs, minlength=table.cells).astype(np.int64)
            else:  # far more cells than rows: touch only those that occur
                np.add.at(counts, classes, jobs)
            news.rows += int(jobs.sum())
        yield from counts_and_news(counts, news)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTask:
    """Jobs by the cells of a public classification and by segment."""

    scan: PairScan
    table: Shared

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._count(incoming))

    def _count(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        table, news = self.table.value, News()
        size, counts = table.combinations, np.zeros(table.cells, np.int64)
        for origins, destinations, segments, bad in self.scan.source(incoming).segment_batches(table.segments):
            news.unreadable.update(bad)
            if bad:
                continue
            classes = table.classify(origins, destinations)
            np.add.at(counts, classes[:, None] * size + np.arange(size), segments)
            news.rows += int(segments.sum())
        yield from counts_and_news(counts, news)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTask:
    """The pairs of a partition, those of one batch added up, or row by row."""

    scan: PairScan
    row_by_row: bool = False

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._pairs(incoming), reports=False)

    def _pairs(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        for origins, destinations, jobs in self.scan.pairs(incoming):
            keys, summed = (destinations.astype(np.int64) << 32) | origins, jobs
            if not self.row_by_row:
                keys, summed = added_up(keys, jobs)
            columns = [pa.array(keys >> 32), pa.array(keys & 0xFFFFFFFF), pa.array(summed)]
            yield pa.record_batch(columns, names=["destination", "origin", "jobs"])


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTask:
    """Draws whole blocks of destinations from their pairs, sorted by block, destination and origin.

    The row of origin -1 only names a block, so that destinations without any record are drawn too.
    """

    key: TravellingKey
    order: Shared

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._draws(incoming), reports=False)

    def _draws(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        for number, pairs in gathered(incoming):
            yield self._drawn(number, *pairs)

    def _drawn(self, number: int, destinations: Integers, origins: Integers, jobs: Integers) -> pa.RecordBatch:
        order: DrawOrder = self.order.value
        stream: Any = self.key.stream()  # words only: a task never draws randomness from the operating system
        inside = order.inside(*order.blocks()[number])
        starts = np.searchsorted(destinations, np.append(inside, np.iinfo(np.int64).max))
        if starts[-1] - starts[0] != len(destinations) or not np.isin(destinations, inside).all():
            kept = np.isin(destinations, inside)  # without destinations at which, by noisy sizes, nobody is drawn
            destinations, origins, jobs = destinations[kept], origins[kept], jobs[kept]
            starts = np.searchsorted(destinations, np.append(inside, np.iinfo(np.int64).max))
        drawn = order.draw(inside, starts, origins.astype(np.int32), jobs.astype(np.int32), stream)
        table = pa.record_batch([pa.array(column) for column in drawn], names=["origin", "destination", "jobs"])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_batch(table)
        return pa.record_batch([[number], [sink.getvalue().to_pybytes()]], names=["block", "data"])


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTask:
    """Cells of a public classification that occur in a partition, with their jobs and the part of the domain they are
    in, put together as far as memory allows."""

    scan: PairScan
    table: Shared
    part_cells: int

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._cells(incoming), reports=False)

    def _cells(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        held: list[tuple[Integers, Integers]] = []
        for origins, destinations, jobs in self.scan.pairs(incoming):
            held.append((self.table.value.classify(origins, destinations), jobs))
            if sum(len(classes) for classes, _ in held) >= HELD_JOBS:
                yield self._batch(held)
                held = []
        if held:
            yield self._batch(held)

    def _batch(self, held: list[tuple[Integers, Integers]]) -> pa.RecordBatch:
        cells, jobs = added_up(*map(np.concatenate, zip(*held, strict=True)))
        columns = [pa.array(cells // self.part_cells), pa.array(cells), pa.array(jobs)]
        return pa.record_batch(columns, names=["part", "cell", "jobs"])


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseNoiseTask:
    """Noise over whole parts of a domain, from their cells sorted by part and cell; what it brings above the threshold.

    A cell may come several times, from several tasks. The row of cell -1 only names a part: one without any record
    gets its noise too.
    """

    key: TravellingKey
    noise: SparseGeometric
    purpose: tuple[str | int, ...]

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._draws(incoming), reports=False)

    def _draws(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        stream: Any = self.key.stream()
        for part, pairs in gathered(incoming):
            cells, noisy = self.noise.draw_part(part, *added_up(*pairs), stream, *self.purpose)
            yield pa.record_batch([pa.array(cells), pa.array(noisy)], names=["cell", "noisy"])


def _one_class(origins: NDArray[np.int32], destinations: NDArray[np.int32]) -> Integers:  # noqa: ARG001
    return np.zeros(len(origins), dtype=np.int64)


def added_up(keys: Integers, jobs: Integers) -> tuple[Integers, Integers]:
    """Each key once, in order, with the jobs of all its rows."""
    found, inverse = np.unique(keys, return_inverse=True)
    return found, np.bincount(inverse, weights=jobs, minlength=len(found)).astype(np.int64)


class SparkCommuteSource:
    """Jobs by origin and destination on Spark, opened against public places. Confidential: only the gate asks it."""

    def __init__(self, table: Table, places: Places) -> None:
        self.places = places
        self._table = table
        reader: Any = _PartReader(rows=table.rows, columns=table.columns, incoming=())
        embedded = CommuteSource(reader, places)
        self._columns, self._counted, self._embedded = embedded.columns, embedded.counted, embedded
        self._scan = PairScan(rows=table.rows, columns=table.columns, places=share(table.session, places))
        self._sizes: Integers | None = None
        self._fingerprint_key: bytes | None = None
        self._fingerprint: str | None = None

    def __repr__(self) -> str:
        return f"SparkCommuteSource({len(self.places):,} places, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("a source is confidential and cannot be saved; open it again where the data are.")

    def flows(self) -> Flows:
        raise DisclosureError("commutes on Spark do not come to the driver; they are counted and drawn where they are.")

    def total(self) -> int:
        return int(self.sizes().sum())

    def identify(self, key: bytes) -> None:
        """Use this key for the fingerprint from now on: the next count also hashes the jobs, on the executors."""
        self._fingerprint_key, self._fingerprint = key, None

    def fingerprint(self) -> str:
        """The keyed sum over all jobs, that of the embedded engine. Confidential."""
        if self._fingerprint is None:
            self.count(_by_place(len(self.places)))
        if self._fingerprint is None:
            raise InternalError("a source has a fingerprint only under a key; identify it first.")
        return self._fingerprint

    def sizes(self) -> Integers:
        """Jobs at each destination; the first call reads and checks the whole table."""
        if self._sizes is None:
            sizes = self.count(_by_place(len(self.places)))
            if self._counted:
                refuse_repeated(self._repeated())
            self._sizes = sizes
        return self._sizes

    def _repeated(self) -> int:
        """How many rows name a pair that another row has named."""
        with running(self._table.session, "looking for pairs given twice"):
            task = PairTask(scan=self._scan, row_by_row=True)
            pairs = self._table.select(self._columns).mapInArrow(closure(task), PAIRS)
            named = pairs.groupBy("destination", "origin").count()
            if self.places.outside is not None:  # several homes outside are one place, so their rows are added up
                named = named.where(~named["origin"].isin(np.flatnonzero(self.places.outside).tolist()))
            found = named.selectExpr("sum(count - 1) AS repeated").collect()[0]["repeated"]
        return int(found or 0)

    def count(self, table: FlowTable) -> Integers:
        """Jobs in each cell of a public classification."""
        session = self._table.session
        key = self._fingerprint_key if self._fingerprint is None else None
        with running(session, "counting commutes"):
            task = ClassTask(scan=self._scan, table=share(session, table), fingerprint_key=key)
            frame = self._table.select(self._columns)
            counts, news = receive_counts(frame, task, table.cells, with_key=key is not None)
        refuse(news.unreadable)
        if self._sizes is not None and news.rows != self.total():
            raise InputError("the data changed between two scans; nothing may write to them during a run.")
        self._fingerprint = self._fingerprint if key is None else news.hashed.text
        return counts

    def check_segments(self, partitions: tuple[Partition, ...]) -> None:
        """Refuse, with the number of rows, jobs that are not each in exactly one segment of every partition."""
        cells = math.prod(len(one.columns) for one in partitions)
        self.count_segments(FlowTable(label="segments", cells=cells, classify=_one_class, segments=partitions))

    def count_segments(self, table: FlowTable) -> Integers:
        """Jobs by class and combination of segments, for the gate. Confidential."""
        columns = self._embedded.segment_columns(table.segments)
        session = self._table.session
        with running(session, "counting segments"):
            task = SegmentTask(scan=self._scan, table=share(session, table))
            frame = self._table.select([*self._columns, *columns])
            counts, news = receive_counts(frame, task, table.cells, with_key=False)
        refuse(news.unreadable)
        return counts

    def draw_sparse(
        self, table: FlowTable, noise: SparseGeometric, stream: Stream, purpose: tuple[str | int, ...]
    ) -> tuple[Integers, Integers]:
        """Noise over all cells of a classification, drawn on the executors: the driver gets what is reported."""
        self.sizes()  # checks every row
        session = self._table.session
        classes = CellTask(scan=self._scan, table=share(session, table), part_cells=noise.part_cells)
        task = SparseNoiseTask(key=key_of(stream, *purpose), noise=noise, purpose=purpose)
        with running(session, "drawing noise"):
            cells = self._table.select(self._columns).mapInArrow(closure(classes), CLASSES)
            every = session.range(noise.parts).selectExpr("id AS part", "-1L AS cell", "0L AS jobs")
            slots = min(noise.parts, int(session.sparkContext.defaultParallelism) * 4)
            by_part = cells.union(every).repartition(slots, "part").sortWithinPartitions("part", "cell")
            drawn = by_part.mapInArrow(closure(task, with_key=True), NOISY).toArrow()
        found, noisy = (drawn.column(name).to_numpy() for name in ("cell", "noisy"))
        order = np.argsort(found)
        return found[order], noisy[order]

    def draw_blocks(self, order: DrawOrder, stream: Stream) -> Iterator[Drawn]:
        """Blocks are drawn on the executors under a key that is handed out for this draw, and fetched one by one."""
        self.sizes()  # checks every row
        session, blocks = self._table.session, order.blocks()
        wanted = [number for number, (first, last) in enumerate(blocks) if len(order.inside(first, last))]
        task = BlockTask(key=key_of(stream, *order.purpose), order=share(session, order))
        firsts = share(session, np.array([first for first, _ in blocks], np.int64))
        with running(session, "drawing commutes"):
            pairs = self._table.select(self._columns).mapInArrow(closure(PairTask(scan=self._scan)), PAIRS)
            summed = pairs.groupBy("destination", "origin").agg({"jobs": "sum"}).toDF("destination", "origin", "jobs")
            named = summed.mapInArrow(closure(NameBlock(firsts=firsts)), f"block long, {PAIRS}")
            every = session.createDataFrame([(number, -1, -1, 0) for number in wanted], f"block long, {PAIRS}")
            parts = max(1, min(len(wanted), int(session.sparkContext.defaultParallelism) * 4))
            sorted_pairs = (
                named.union(every)
                .repartitionByRange(parts, "block")
                .sortWithinPartitions("block", "destination", "origin")
            )
            drawn = sorted_pairs.mapInArrow(closure(task, with_key=True), BLOCKS).persist()
            try:
                drawn.count()  # all blocks at once; fetching them one by one would draw them one by one
                for row in drawn.toLocalIterator():
                    if row["block"] in set(wanted):
                        table = pa.ipc.open_stream(bytes(row["data"])).read_all()
                        origins, destinations, jobs = (column.to_numpy() for column in table.columns)
                        yield origins, destinations, jobs
            finally:
                drawn.unpersist()


@dataclass(frozen=True, slots=True, kw_only=True)
class NameBlock:
    """The block of each pair."""

    firsts: Shared

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._named(incoming), reports=False)

    def _named(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        for batch in incoming:
            place = np.searchsorted(self.firsts.value, batch.column(0).to_numpy(), side="right") - 1
            yield pa.record_batch([pa.array(place), *batch.columns], names=["block", "destination", "origin", "jobs"])


def _by_place(places: int) -> FlowTable:
    return FlowTable(label="", cells=places, classify=_destination, by_destination=True)


def _destination(_: NDArray[np.int32], destinations: NDArray[np.int32]) -> Integers:
    return destinations.astype(np.int64)


def open_spark_commutes(data: Any, *, places: Any, **reading: Any) -> SparkCommuteSource:
    """Commutes on Spark against public places; ``reading`` is what :func:`~.spark_inputs.open_table` takes."""
    return SparkCommuteSource(open_table(data, **reading), read_places(places))
