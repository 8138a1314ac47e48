"""Commutes on Spark: pairs are coded, counted and drawn on the executors, block of destinations by block.

The driver holds what is public (places, sizes of fixed destinations, the tables that were drawn) and counts of public
classes. No pair of the data comes to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.core.flows import Flows
from understudy.core.mechanism import Stream
from understudy.core.places import Places
from understudy.engines.commutes import CommuteSource
from understudy.engines.places_file import read_places
from understudy.engines.spark import Table, closure, key_of, receive_counts, running, share
from understudy.engines.spark_inputs import open_table
from understudy.engines.spark_tasks import Batches, News, Rows, Shared, counts_and_news, guarded
from understudy.errors import DisclosureError, InputError, UnsupportedError
from understudy.privacy.draws import TravellingKey
from understudy.privacy.event import GeometricNoise
from understudy.privacy.flow_blocks import Drawn, DrawOrder
from understudy.privacy.flow_gate import FlowTable

PAIRS = "destination long, origin long, jobs long"
BLOCKS = "block long, data binary"

Integers = NDArray[np.int64]
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

    def pairs(self, incoming: Batches) -> Iterator[Pairs]:
        reader: Any = _PartReader(rows=self.rows, columns=self.columns, incoming=incoming)
        for origins, destinations, jobs in CommuteSource(reader, self.places.value).coded_batches():
            counted = np.ones(len(origins), np.int64) if jobs is None else jobs.astype(np.int64)
            yield origins, destinations, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTask:
    """Jobs by the cells of a public classification."""

    scan: PairScan
    table: Shared

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._count(incoming))

    def _count(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        table, news = self.table.value, News()
        counts = np.zeros(table.cells, np.int64)
        for origins, destinations, jobs in self.scan.pairs(incoming):
            classes = table.classify(origins, destinations)
            counts += np.bincount(classes, weights=jobs, minlength=table.cells).astype(np.int64)
            news.rows += int(jobs.sum())
        yield from counts_and_news(counts, news)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTask:
    """The pairs of a partition, those of one batch added up."""

    scan: PairScan

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._pairs(incoming), reports=False)

    def _pairs(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        for origins, destinations, jobs in self.scan.pairs(incoming):
            keys, inverse = np.unique((destinations.astype(np.int64) << 32) | origins, return_inverse=True)
            summed = np.bincount(inverse, weights=jobs, minlength=len(keys)).astype(np.int64)
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
        held: list[tuple[Integers, Integers, Integers]] = []
        current: int | None = None
        for batch in incoming:
            block, *rest = (column.to_numpy() for column in batch.columns)
            starts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(block)]
            for begin, end in pairwise(starts):
                if begin == end:
                    continue
                if current is not None and int(block[begin]) != current:
                    yield self._drawn(current, held)
                    held = []
                current = int(block[begin])
                named = rest[1][begin:end] >= 0
                held.append(tuple(column[begin:end][named] for column in rest))
        if current is not None:
            yield self._drawn(current, held)

    def _drawn(self, number: int, held: Sequence[tuple[Integers, Integers, Integers]]) -> pa.RecordBatch:
        order: DrawOrder = self.order.value
        stream: Any = self.key.stream()  # words only: noise is never drawn in a task
        destinations, origins, jobs = (np.concatenate([part[side] for part in held]) for side in range(3))
        inside = order.inside(*order.blocks()[number])
        starts = np.searchsorted(destinations, np.append(inside, np.iinfo(np.int64).max))
        if starts[-1] - starts[0] != len(destinations) or not np.isin(destinations, inside).all():
            kept = np.isin(destinations, inside)  # records where, by noisy sizes, nobody is to be drawn
            destinations, origins, jobs = destinations[kept], origins[kept], jobs[kept]
            starts = np.searchsorted(destinations, np.append(inside, np.iinfo(np.int64).max))
        drawn = order.draw(inside, starts, origins.astype(np.int32), jobs.astype(np.int32), stream)
        table = pa.record_batch([pa.array(column) for column in drawn], names=["origin", "destination", "jobs"])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_batch(table)
        return pa.record_batch([[number], [sink.getvalue().to_pybytes()]], names=["block", "data"])


class SparkCommuteSource:
    """Jobs by origin and destination on Spark, opened against public places. Confidential: only the gate asks it."""

    def __init__(self, table: Table, places: Places) -> None:
        self.places = places
        self._table = table
        reader: Any = _PartReader(rows=table.rows, columns=table.columns, incoming=())
        self._columns = CommuteSource(reader, places).columns
        self._scan = PairScan(rows=table.rows, columns=table.columns, places=share(table.session, places))
        self._sizes: Integers | None = None

    def __repr__(self) -> str:
        return f"SparkCommuteSource({len(self.places):,} places, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("a source is confidential and cannot be saved; open it again where the data are.")

    def flows(self) -> Flows:
        raise DisclosureError("commutes on Spark do not come to the driver; they are counted and drawn where they are.")

    def total(self) -> int:
        return int(self.sizes().sum())

    def sizes(self) -> Integers:
        """Jobs at each destination; the first call reads and checks the whole table."""
        if self._sizes is None:
            by_place = FlowTable(label="", cells=len(self.places), classify=_destination, by_destination=True)
            self._sizes = self.count(by_place)
        return self._sizes

    def count(self, table: FlowTable) -> Integers:
        """Jobs in each cell of a public classification."""
        session = self._table.session
        with running(session, "counting commutes"):
            task = ClassTask(scan=self._scan, table=share(session, table))
            counts, news = receive_counts(self._table.select(self._columns), task, table.cells)
        if self._sizes is not None and news.rows != self.total():
            raise InputError("the data changed between two scans; nothing may write to them during a run.")
        return counts

    def draw_blocks(self, order: DrawOrder, stream: Stream) -> Iterator[Drawn]:
        """Blocks are drawn on the executors under a key that is handed out for this draw, and fetched one by one."""
        if isinstance(order.mechanism.event, GeometricNoise):
            raise UnsupportedError(
                "noise from the operating system's entropy must not be drawn on executors, which may repeat a task: "
                "use mechanism=urn, or open the commutes on one machine."
            )
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


def _destination(_: NDArray[np.int32], destinations: NDArray[np.int32]) -> Integers:
    return destinations.astype(np.int64)


def open_spark_commutes(data: Any, *, places: Any, **reading: Any) -> SparkCommuteSource:
    """Commutes on Spark against public places; ``reading`` is what :func:`~.spark_inputs.open_table` takes."""
    return SparkCommuteSource(open_table(data, **reading), read_places(places))
