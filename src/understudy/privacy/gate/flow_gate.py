"""The gate for commuting tables: the only way to touch who commutes where.

It keeps the order of every gate: charge what the plan announced, then look at the data, then run the mechanism, then
journal, then hand out. A synthesizer gets sizes of destinations only where the unit calls the destination fixed, noisy
counts of public classes of jobs, and synthetic commutes. See docs/theory/commute.md.

A drawn table can be gigabytes, so it is not written into the journal: it is the file that will be released, written to
the run folder and forced to the disk, and the journal notes its name and hash. A file that was not noted was never
answered to anybody: a resumed run removes it and draws again, with a new key, and the charge covers that one draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers, Progress
from understudy.core.counts import COVERS
from understudy.core.flows import FlowSource, Partition
from understudy.core.measurement import CLASSES, Measurement
from understudy.core.mechanism import Mechanism, Stream
from understudy.core.places import DESTINATION, PAIR, Places
from understudy.errors import DisclosureError, InputError, InternalError, UnsupportedError
from understudy.privacy.gate.charge_first import OTHER_DATA, ChargingGate
from understudy.privacy.gate.flow_blocks import DrawOrder, FlowWorker, LocalFlows
from understudy.privacy.gate.journal import Journal, pack_array, unpack_array
from understudy.privacy.mechanisms.draw_facts import FlowFacts
from understudy.privacy.mechanisms.flow_draws import FlowMechanism
from understudy.privacy.mechanisms.reviewed import FLOW_DRAWS, require_reviewed
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.event import Sensitivity
from understudy.privacy.promise.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowTable:
    """A public classification of jobs into disjoint cells, by the codes of their origins and destinations.

    ``by_destination``: the class depends on the destination alone, so that a fixed destination makes the counts public.
    ``segments``: partitions of the jobs; the cell is the class and the segment of each of them, so that a job is still
    in one cell. Such a table is measured with noise also where the destination is fixed.
    """

    label: str
    cells: int
    classify: Callable[[NDArray[np.int32], NDArray[np.int32]], Integers]
    by_destination: bool = False
    segments: tuple[Partition, ...] = ()

    def __post_init__(self) -> None:
        if self.by_destination and self.segments:
            raise InternalError("a table by destination and segment is not public where destinations are.")

    @property
    def combinations(self) -> int:
        """How many combinations of segments there are; the last partition runs fastest."""
        return math.prod(len(one.columns) for one in self.segments)


@runtime_checkable
class SegmentedSource(Protocol):
    """Commutes whose rows say in which segments their jobs are. Only the gate may ask."""

    def check_segments(self, partitions: tuple[Partition, ...]) -> None:
        """Refuses rows whose jobs are not each in exactly one segment of every partition, and combinations of several
        partitions where these are not known."""
        ...

    def count_segments(self, table: FlowTable) -> Integers:
        """Jobs by class and segments: cell = class times the number of combinations, plus the combination."""
        ...


class Around(Protocol):
    """A public division of the origins as some destinations see it, and a public way to place workers in it."""

    @property
    def domains(self) -> Integers:
        """How many cells each destination has, ``elsewhere`` included."""
        ...

    def encode(self, starts: Integers, origins: NDArray[np.int32]) -> Integers:
        """The cell of each pair; those of the d-th destination lie at starts[d]:starts[d + 1]."""
        ...

    def place(
        self, starts: Integers, drawn: Integers, key: bytes, drawn_starts: Integers | None = None
    ) -> NDArray[np.int32]:
        """The code of an origin for each row, -1 for elsewhere, from the cells of drawn rows. There may be more drawn
        rows than rows: those of the d-th destination lie at drawn_starts[d]:drawn_starts[d + 1]."""
        ...


class Division(Protocol):
    """How many cells a public division of the origins has, which may differ from destination to destination."""

    def cells_of(self, destinations: Integers) -> Integers:
        """How many cells each destination has, ``elsewhere`` included: what a draw over them is charged for."""
        ...


class Regions(Division, Protocol):
    """A division that can be drawn over."""

    def around(self, destinations: Integers) -> Around:
        """Looks around some destinations, once for all that is done with them; several threads may look at a time."""
        ...


class Sink(Protocol):
    """Where synthetic commutes go: a file of the run folder, or memory."""

    def remembered(self, copy: int, note: dict[str, Any]) -> bool:
        """Whether the table noted in a journal is there, unchanged."""
        ...

    def open(self, copy: int) -> None: ...

    def add(self, origins: NDArray[np.int32], destinations: NDArray[np.int32], jobs: Integers) -> None: ...

    def close(self) -> dict[str, Any]:
        """Finishes a table, forced to the disk; what the journal shall note about it."""
        ...


def flow_sensitivity(table: FlowTable, unit: Unit) -> Sensitivity:
    """A job is in one cell; b of them may move from one cell to another, or appear."""
    rows = unit.rows_per_unit
    if unit.kind == "add_remove":
        return Sensitivity(l1=rows, l2_squared=rows**2, linf=rows)
    if table.by_destination and DESTINATION in unit.fixed:
        return Sensitivity(l1=0, l2_squared=0, linf=0)
    return Sensitivity(l1=2 * rows, l2_squared=2 * rows**2, linf=rows)


def _measured(table: FlowTable, values: Integers, noise: Mechanism) -> Measurement:
    return Measurement(margin=PAIR, values=values, mechanism=noise, cells=CLASSES, label=table.label)


class FlowGate(ChargingGate):
    """Charges, counts or draws, journals: in that order."""

    counts = "jobs"

    def __init__(
        self,
        *,
        source: FlowSource | None,
        places: Places,
        plan: Plan,
        stream: Stream,
        journal: Journal | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(plan=plan, stream=stream, journal=journal)
        self._source = source
        self._places = places
        self._progress = progress
        self._sizes: Integers | None = None
        self._segments: dict[str, Integers] = {}  # public ones, by the name of their partition
        self._unseen: set[str] = set()  # those of a journal that the data given again were not compared with
        for entry in journal.entries() if journal else ():
            if entry.kind == "public" and "partition" in entry.payload:
                counts = np.zeros(len(places) * int(entry.payload["columns"]), dtype=np.int64)
                counts[unpack_array(entry.payload["cells"])] = unpack_array(entry.payload["jobs"])
                self._segments[str(entry.payload["partition"])] = counts
                self._unseen.add(str(entry.payload["partition"]))
            elif entry.kind == "public":
                self._sizes = np.zeros(len(places), dtype=np.int64)
                self._sizes[unpack_array(entry.payload["places"])] = unpack_array(entry.payload["sizes"])

    def look_ahead(self) -> None:
        """Reads and checks the whole table before anything is charged, and notes what is public about it."""
        self._worker().total()
        if self.unit.public_total:
            _ = self.records
        if DESTINATION in self.unit.fixed:
            self.sizes()

    def _count_records(self) -> int:
        return self._worker().total()

    def sizes(self) -> Integers:
        """n(d): the jobs at each destination, public only where the unit fixes the destination."""
        if DESTINATION not in self.unit.fixed:
            raise DisclosureError(
                "the number of jobs at a destination is public only if the unit fixes the destination."
            )
        if self._sizes is None:
            self._sizes = self._worker().sizes()
            filled = np.flatnonzero(self._sizes)
            self._write("public", {"places": pack_array(filled), "sizes": pack_array(self._sizes[filled])})
        return self._sizes

    def measure(self, table: FlowTable, noise: Mechanism) -> Measurement:
        """Noisy counts of all cells of a public classification of jobs, empty cells included."""
        event = self._noise_event(table.label, noise, flow_sensitivity(table, self.unit))
        self._charge("measure", table.label, PAIR, event)
        remembered = self._remembered("measurement", table.label)
        if remembered is not None:
            self._require_charged(remembered["mechanism"] == noise.to_json())
            return _measured(table, unpack_array(remembered["values"]), noise)
        values = self._noisy(table, noise)
        self._write(
            "measurement",
            {"label": table.label, "mechanism": noise.to_json(), "values": pack_array(values.astype(np.int64))},
        )
        return _measured(table, values, noise)

    def check_segments(self, groups: Sequence[tuple[Partition, ...]]) -> None:
        """Refuses, before the charge, segments that do not partition the jobs of every row; ``groups``: partitions
        whose combinations must be known."""
        self._worker()
        for partitions in groups:
            self._segmented().check_segments(partitions)

    def segment_sizes(self, partition: Partition) -> Integers:
        """n(d, s): the jobs at each destination in each segment (cell = destination times segments, plus segment),
        public only where the unit fixes both the destination and the partition."""
        if not {DESTINATION, partition.name} <= set(self.unit.fixed):
            raise DisclosureError(
                f"the jobs of a destination by {partition.name} are public only if the unit fixes the destination and "
                f"{partition.name}."
            )
        if partition.name in self._unseen and self._source is not None:
            self._unseen.discard(partition.name)
            if not np.array_equal(self._count_segment_sizes(partition), self._segments[partition.name]):
                raise InputError(OTHER_DATA)
        if partition.name not in self._segments:
            counts = self._count_segment_sizes(partition)
            self._segments[partition.name] = counts
            filled = np.flatnonzero(counts)
            self._write(
                "public",
                {
                    "partition": partition.name, "columns": len(partition.columns), "cells": pack_array(filled),
                    "jobs": pack_array(counts[filled]),
                },
            )  # fmt: skip
        return self._segments[partition.name].reshape(len(self._places), -1)

    def _count_segment_sizes(self, partition: Partition) -> Integers:
        def by_destination(origins: NDArray[np.int32], destinations: NDArray[np.int32]) -> Integers:  # noqa: ARG001
            return destinations.astype(np.int64)

        self._worker()
        cells = len(self._places) * len(partition.columns)
        table = FlowTable(label=partition.name, cells=cells, classify=by_destination, segments=(partition,))
        return self._segmented().count_segments(table)

    def _segmented(self) -> SegmentedSource:
        if not isinstance(self._source, SegmentedSource):
            raise UnsupportedError("this source does not count segments; give files or a Spark table, or none.")
        return self._source

    def _noisy(self, table: FlowTable, noise: Mechanism) -> Integers:
        """Dense noise is drawn here, once; sparse noise where the pairs are, and of it only what is reported comes."""
        worker = self._worker()
        if table.segments:
            counts = self._segmented().count_segments(table)
            if len(counts) != table.cells or int(counts.sum()) != worker.total():
                raise InternalError("segments do not partition the jobs; nothing was measured.")
            return noise.run(counts, self._stream)
        if isinstance(noise, SparseGeometric):
            if noise.domain != table.cells:
                raise InternalError("noise for a domain of another size.")
            return noise.dense(*worker.draw_sparse(table, noise, self._stream, (noise.name, table.label)))
        return noise.run(worker.count(table), self._stream)

    def draw(
        self,
        mechanism: FlowMechanism,
        regions: Regions,
        *,
        rows: Integers,
        label: str,
        copy: int,
        sink: Sink,
        drop_elsewhere: bool = False,
    ) -> None:
        """Synthetic commutes for every destination: ``rows`` of them over the cells of a division, put into the sink.

        The cost is that of this draw: of its rows, of the cells that the division has, and of the public sizes.
        """
        require_reviewed(mechanism, FLOW_DRAWS)
        facts = self._draw_facts(regions, rows)
        self._charge("draw", label, PAIR, mechanism.event_for(facts))
        remembered = self._remembered("draw", label)
        if remembered is not None:
            stated = facts.to_json()
            self._require_charged(remembered.get("facts", stated) == stated)  # early journals do not say
            if not sink.remembered(copy, remembered["table"]):
                raise InputError(
                    f"the table of copy {copy} that this run drew is missing or was changed; it cannot be drawn again "
                    "under the same charge. Start a new run."
                )
            return
        if mechanism.covers not in COVERS:
            raise DisclosureError("a draw must cover the pairs that are empty, or it shows which are not.")
        cells = np.zeros_like(rows)
        cells[facts.destinations] = facts.cells
        order = DrawOrder(
            mechanism=mechanism, regions=regions, rows=rows, cells=cells, purpose=("commute", label, copy),
            drop_elsewhere=drop_elsewhere,
        )  # fmt: skip
        sink.open(copy)
        done, total = 0, int(rows.sum())
        for origins, destinations, jobs in self._worker().draw_blocks(order, self._stream):
            sink.add(origins, destinations, jobs)
            done += int(jobs.sum())
            if self._progress is not None:
                self._progress(done, total)
        self._write("draw", {"label": label, "copy": copy, "facts": facts.to_json(), "table": sink.close()})

    def _draw_facts(self, regions: Regions, rows: Integers) -> FlowFacts:
        """What the cost of a draw rests on. Public sizes of destinations are counted by the gate itself."""
        drawing = np.flatnonzero(rows)
        return FlowFacts(
            unit=self.unit,
            destinations=drawing,
            rows=rows[drawing],
            cells=regions.cells_of(drawing),
            records=self.sizes()[drawing] if DESTINATION in self.unit.fixed else None,
        )

    def _worker(self) -> FlowWorker:
        if self._source is None:
            raise InputError(
                "this run stopped before everything was drawn. Give the same data again (--source FILE); what was "
                "charged already covers it, and values already measured are kept."
            )
        worker = self._source if isinstance(self._source, FlowWorker) else LocalFlows(self._source.flows())
        if self._unchecked:
            self._unchecked = False
            same = self._records is None or worker.total() == self._records
            if not same or (self._sizes is not None and not np.array_equal(worker.sizes(), self._sizes)):
                raise InputError(OTHER_DATA)
        return worker
