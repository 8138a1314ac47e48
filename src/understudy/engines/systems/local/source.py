"""The embedded engine: a table on one machine, streamed as Arrow batches and counted by ``tally``.

The file is scanned out of core: memory does not grow with the number of rows. While they fit ``REMEMBERED_BYTES``, the
codes of the first scan are kept (one byte per value for up to 256 codes), so that an adaptive method, which counts
again and again, does not read the file again.
"""

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.core.arrays import Integers, Progress
from understudy.core.counts import ClusterCounts, CodeCounts, Counts, SparseCounts
from understudy.core.mechanism import Words
from understudy.core.schema import Schema
from understudy.core.table import CodedTable, Codes
from understudy.engines.counting.bounding import id_texts, refuse_missing_ids, rows_to_leave_out
from understudy.engines.counting.cluster_counts import cluster_counts
from understudy.engines.counting.kernel import flat_cells
from understudy.engines.counting.packing import hash_rows, pack, word_groups
from understudy.engines.counting.scanned_source import (
    ScannedSource,
    check_margin,
    dense_cells,
    must_be_bounded,
    needed_attributes,
)
from understudy.engines.counting.tally import Tally
from understudy.engines.counting.unlisted_codes import CodeTally, open_codes, text_words, with_codes
from understudy.engines.engine import engines
from understudy.engines.reading.encode import Encoder, check_header, code_type, columns_to_read
from understudy.engines.reading.readers import Reader, private_settings
from understudy.errors import InputError, LargeClustersWarning, UnderstudyError, UnsupportedError, unknown_name
from understudy.privacy.promise.definition import Unit
from understudy.privacy.randomness.fingerprint import RowSum

REMEMBERED_BYTES = 100_000_000
DENSE_CELLS_PER_SCAN = 2**28

Batch = dict[str, Codes]


@engines.add
class LocalSource(ScannedSource):
    """A confidential table on this machine."""

    name: ClassVar[str] = "local"

    @classmethod
    def claims(cls, data: object) -> bool:  # noqa: ARG003 - it takes what nobody else claims
        return False

    @classmethod
    def open(cls, data: Any, schema: Schema, **reading: Any) -> LocalSource:
        from understudy.engines.systems.local.inputs import open_local

        if {"master", "allow_insecure_cluster"} & set(reading):
            raise InputError("master and allow_insecure_cluster go with engine 'spark'.")
        known = [name for name in inspect.signature(open_local).parameters if name not in ("data", "schema")]
        for name in reading:
            if name not in known:
                raise unknown_name("option of reading", name, known)
        return open_local(data, schema, **reading)

    def __init__(
        self,
        reader: Reader,
        schema: Schema,
        *,
        missing_text: str | None = None,
        unit_id: str | None = None,
        remembered_bytes: int = REMEMBERED_BYTES,
        kernel: str | None = None,
    ) -> None:
        check_header(reader.columns, schema)
        super().__init__(schema, reader.columns, unit_id=unit_id)
        self._reader = reader
        self._missing_text = missing_text
        self._remembered_bytes = remembered_bytes
        self._kernel = kernel
        self._remembered: list[Batch] | None = None
        self._left_out: NDArray[np.int64] = np.empty(0, np.int64)
        self._read_by = schema  # what rows are read by: the declared schema, where bins were found
        self._recoded: dict[str, NDArray[np.int64]] = {}

    def _scan_every_row(self) -> None:
        for _ in self._scan(None):
            pass

    def count(self, margins: Sequence[tuple[str, ...]], progress: Progress | None = None) -> list[Counts]:
        """Dense counts of many margins in one scan; the first scan checks every row against the schema."""
        wanted = [check_margin(self.schema, margin) for margin in margins]
        sizes = [dense_cells(self.schema, margin) for margin in wanted]
        if sum(sizes) > DENSE_CELLS_PER_SCAN:
            raise UnsupportedError(
                f"the margins asked for have {sum(sizes):,} cells together, above {DENSE_CELLS_PER_SCAN:,} in one "
                "scan; count them in several calls."
            )
        names = needed_attributes(self.schema, wanted)
        places = {name: place for place, name in enumerate(names)}
        with Tally(
            self.schema.shape(names),
            [tuple(places[name] for name in margin) for margin in wanted],
            rows=self._total or self._reader.rows,
            kernel=self._kernel,
        ) as tally:
            for batch in self._scan(progress, names):
                tally.add([batch[name] for name in names])
            tables = tally.tables()
        return [Counts(margin=margin, values=table) for margin, table in zip(wanted, tables, strict=True)]

    def _count_large(self, margin: tuple[str, ...], domain: int, progress: Progress | None) -> SparseCounts:
        shape = self.schema.shape(margin)
        scan = self._scan(progress, needed_attributes(self.schema, [margin]))
        cells, values = count_cells(flat_cells([batch[name] for name in margin], shape) for batch in scan)
        return SparseCounts(margin=margin, domain_cells=domain, _cells=cells, _values=values)

    def confidential_codes(self) -> CodedTable:
        """Every row as codes, in memory: for evaluation inside the building, whose findings are internal.

        Synthesizers cannot reach this: the gate gives them no source.
        """
        return self._together(list(self._scan(None)))

    def _together(self, batches: list[Batch]) -> CodedTable:
        return CodedTable(
            schema=self.schema,
            columns={
                name: np.concatenate([batch[name] for batch in batches])
                if batches
                else np.empty(0, code_type(self.schema[name]))
                for name in self.schema.names
            },
        )

    def _encoder(self, names: Sequence[str]) -> Encoder:
        commas = getattr(self._reader, "decimal_commas", False)
        return Encoder(self._read_by, names, missing_text=self._missing_text, decimal_commas=commas)

    def confidential_table(self) -> tuple[CodedTable, pa.Table]:
        """Every row as codes and as it stands in the data, from one reading: for evaluation inside the building."""
        encoder = self._encoder(self.schema.names)
        batches: list[Batch] = []
        rows: list[pa.RecordBatch] = []
        done = 0
        for raw in self._reader.batches(columns_to_read(self._reader.columns, self.schema, self.schema.names)):
            keep = self._kept(done, raw.num_rows)
            batches.append({name: column[keep] for name, column in encoder.encode(raw).items()})
            rows.append(raw.filter(pa.array(keep)))
            done += raw.num_rows
        encoder.violations.check()
        codes = self._together(batches)
        self._total = codes.rows
        if not rows:  # no row says which type a column would have
            return codes, pa.table({name: pa.array([], pa.null()) for name in self.schema.names})
        return codes, pa.Table.from_batches(rows).select(list(self.schema.names))

    @property
    def rows_left_out(self) -> int:
        """How many rows ``bounded`` left out. Confidential."""
        return len(self._left_out)

    def under(self, schema: Schema) -> LocalSource:
        """The same rows, in the bins of a schema that was found: rows are read by the declared one, and recoded."""
        other = LocalSource(
            self._reader, schema, missing_text=self._missing_text, unit_id=self._unit_id,
            remembered_bytes=self._remembered_bytes, kernel=self._kernel,
        )  # fmt: skip
        other._unit, other._left_out = self._unit, self._left_out
        # Codes that were found are read as such: what was read before does not tell one from another.
        other._read_by = with_codes(self._read_by, schema)
        other._recoded = schema.recoded(other._read_by)
        if self._remembered is not None:
            other._total, other._remembered = self._total, [other._in_found_bins(batch) for batch in self._remembered]
        return other

    def count_codes(self, name: str, length: int | None) -> CodeCounts:
        """How often each text occurs in a column whose codes are to be found, or each beginning of that length."""
        tally, done = CodeTally(self._read_by[name], self._missing_text, length), 0
        for raw in self._reader.batches([name]):
            tally.add(raw.column(name), self._kept(done, raw.num_rows))
            done += raw.num_rows
        return tally.counts()

    def require_clusters(self, column: str) -> None:
        """Refuses a column of clusters that is not there, or not filled in every row."""
        if column not in self._reader.columns:
            raise unknown_name("the column of clusters:", column, self._reader.columns, error=InputError)
        refuse_missing_ids(
            sum(id_texts(raw.column(column), column, self._missing_text).null_count
                for raw in self._reader.batches([column])), column,
        )  # fmt: skip

    def count_clusters(
        self, column: str, classes: Mapping[str, Sequence[int]], *, largest: int, within: str, stream: Words
    ) -> ClusterCounts:
        """Each row with the next of its cluster, and the sizes of clusters. Cluster and codes are held in memory."""
        names = list(dict.fromkeys((*classes, *((within,) if within else ()))))
        encoder, done = self._encoder(self.schema.names), 0
        ids: list[pa.Array] = []
        batches: list[Batch] = []
        wanted = dict.fromkeys((*columns_to_read(self._reader.columns, self.schema, self.schema.names), column))
        for raw in self._reader.batches(list(wanted)):
            keep = self._kept(done, raw.num_rows)
            ids.append(id_texts(raw.column(column), column, self._missing_text).filter(pa.array(keep)))
            batch = self._in_found_bins({name: values[keep] for name, values in encoder.encode(raw).items()})
            batches.append({name: batch[name] for name in names})
            done += raw.num_rows
        encoder.violations.check()
        codes = {name: np.concatenate([np.empty(0, np.int64), *(one[name] for one in batches)]) for name in names}
        texts = pa.chunked_array(ids, pa.large_string()).combine_chunks().dictionary_encode()
        refuse_missing_ids(texts.null_count, column)
        numbers = texts.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if within:
            _, numbers = np.unique(numbers * self.schema[within].size + codes[within], return_inverse=True)
        if too_large := int((np.bincount(numbers.reshape(-1)) > largest).sum()):
            warnings.warn(
                f"internal: {too_large:,} cluster(s) of '{column}' have more than {largest} rows, and the schema says "
                "that none has (largest_cluster). They count as so large, so design effects are too small and "
                "intervals too short: correct the schema.",
                LargeClustersWarning,
                stacklevel=2,
            )
        return cluster_counts(numbers.reshape(-1), codes, classes, largest=largest, stream=stream)

    def _in_found_bins(self, batch: Batch) -> Batch:
        found: Batch = dict(batch)
        for name, codes in self._recoded.items():
            if name in found:
                found[name] = codes.astype(code_type(self.schema[name]))[batch[name]]
        return found

    def bounded(self, unit: Unit, stream: Words) -> LocalSource:
        """The same table with at most ``unit.rows_per_unit`` rows of each ``unit.unit_id`` (see ``bounding``)."""
        if not must_be_bounded(unit, self._unit, self._reader.columns):
            return self
        assert unit.unit_id is not None  # noqa: S101  (else there is nothing to bound by)
        bounded = LocalSource(
            self._reader,
            self.schema,
            missing_text=self._missing_text,
            unit_id=self._unit_id,
            remembered_bytes=self._remembered_bytes,
            kernel=self._kernel,
        )
        bounded._unit = unit
        bounded._left_out = rows_to_leave_out(
            self._ids_and_words(unit.unit_id, unit.fixed),
            words=len(word_groups(self.schema, unit.fixed)) + len(open_codes(self.schema)),
            column=unit.unit_id,
            limit=unit.rows_per_unit,
            stream=stream,
            missing_text=self._missing_text,
        )
        return bounded

    def _ids_and_words(
        self, unit_id: str, fixed: tuple[str, ...]
    ) -> Iterator[tuple[pa.Array, list[NDArray[np.int64]]]]:
        """The id of every row and its codes as words, fixed attributes first.

        Rows that break the schema are counted by the first scan.
        """
        encoder = self._encoder(self.schema.names)
        wanted = list(dict.fromkeys((*self.schema.names, unit_id)))
        for raw in self._reader.batches(wanted):
            words = pack(encoder.encode(raw), self.schema, fixed) + text_words(raw, self.schema)
            yield raw.column(unit_id), words

    def _scan(self, progress: Progress | None, names: tuple[str, ...] | None = None) -> Iterator[Batch]:
        """Every row once, as codes of (at least) the attributes named, or of all.

        The first scan reads and checks every attribute; a scan that ends without an error knows the number of rows,
        and their fingerprint if a key was given. Later ones read what is needed, and check that.
        """
        done = 0
        key = self._key_of_this_scan()
        sums = RowSum(key) if key is not None else None
        if self._remembered is not None:
            for batch in self._remembered:
                if sums is not None:
                    hash_rows(sums, batch, self.schema)
                yield batch
                done += _rows(batch)
                if progress is not None:
                    progress(done, self._total)
            self._scanned(done, sums.text if sums is not None else None)
            return
        every = self._total is None or names is None or sums is not None
        wanted = self.schema.names if every else names or ()
        encoder = self._encoder(wanted)
        kept: list[Batch] | None = [] if wanted == self.schema.names and self._may_be_remembered() else None
        room, total = self._remembered_bytes, 0
        for raw in self._reader.batches(columns_to_read(self._reader.columns, self.schema, wanted)):
            texts = text_words(raw, self.schema) if sums is not None else []
            more = [word[self._kept(done, raw.num_rows)] for word in texts]
            batch = self._in_found_bins(self._without_left_out(encoder.encode(raw), done, raw))
            done += raw.num_rows
            total += _rows(batch)
            room -= sum(column.nbytes for column in batch.values())
            if kept is not None and room >= 0:
                kept.append(batch)
            else:
                kept = None
            if sums is not None:
                hash_rows(sums, batch, self.schema, more)
            yield batch
            if progress is not None:
                progress(done, self._reader.rows)
        encoder.violations.check()
        self._scanned(total, sums.text if sums is not None else None)
        self._remembered = kept

    def _may_be_remembered(self) -> bool:
        """Not if it is known beforehand that the codes will not fit: half of them would be kept for nothing. Nor while
        codes are still to be found, which the rows will be read for again."""
        if open_codes(self.schema):
            return False
        bytes_per_row = sum(code_type(attribute).itemsize for attribute in self.schema.attributes)
        rows = (self._reader.rows or 0) - len(self._left_out)
        return rows * bytes_per_row <= self._remembered_bytes

    def _without_left_out(self, batch: Batch, start: int, raw: pa.RecordBatch) -> Batch:
        keep = self._kept(start, raw.num_rows)
        return batch if keep.all() else {name: column[keep] for name, column in batch.items()}

    def _kept(self, start: int, count: int) -> NDArray[np.bool_]:
        """Of so many rows from ``start`` on, those that bounding the rows of each unit keeps."""
        keep = np.ones(count, bool)
        first, last = np.searchsorted(self._left_out, [start, start + count])
        keep[self._left_out[first:last] - start] = False
        return keep


def _rows(batch: Batch) -> int:
    return len(next(iter(batch.values())))


# Counting cells of a domain too large for a dense table: DuckDB groups them, and spills to disk when memory is short.
#
# Measured against sorting in numpy: 50 million distinct cells took 24 CPU seconds against 15, with 1.2 GB against
# 3.2, of which the result is 0.8; a million distinct among 10 million took 1.1 against 0.8. So it trades time for
# memory.

MEMORY = "256MB"  # DuckDB's share; beyond it groups go to a temporary folder that only this user can read
THREADS = 1  # as fast as two here, and two sometimes ran out of memory while groups were on their way to the disk
RESULT_ROWS = 2**17
GROWTH = 2**21  # cells by which the result grows at a time
CELL_SCHEMA = pa.schema([("cell", pa.int64())])


class _Cells:
    """Batches of cell numbers for DuckDB, which would wrap an error of the reader in one of its own."""

    def __init__(self, batches: Iterable[Integers]) -> None:
        self._batches = batches
        self.problem: UnderstudyError | None = None

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for cells in self._batches:
                yield pa.record_batch([pa.array(cells)], schema=CELL_SCHEMA)
        except UnderstudyError as problem:
            self.problem = problem
            raise


class _Growing:
    """An array that grows in place. Joining parts at the end would have the whole in memory twice."""

    def __init__(self) -> None:
        self._array, self._end = np.empty(0, np.int64), 0

    def append(self, part: Integers) -> None:
        end = self._end + len(part)
        if end > len(self._array):
            self._array.resize(end + GROWTH, refcheck=False)
        self._array[self._end : end] = part
        self._end = end

    def finished(self) -> Integers:
        self._array.resize(self._end, refcheck=False)
        return self._array


def count_cells(batches: Iterable[Integers], *, memory: str = MEMORY) -> tuple[Integers, Integers]:
    """The distinct cells in increasing order and how often each occurs. Memory grows with the result alone."""
    cells, result = _Cells(batches), (_Growing(), _Growing())
    settings = {"memory_limit": memory, "threads": THREADS, "preserve_insertion_order": False}
    with (
        tempfile.TemporaryDirectory(prefix="understudy-") as folder,
        duckdb.connect(config=private_settings(folder) | settings) as connection,
    ):
        connection.register("cells", pa.RecordBatchReader.from_batches(CELL_SCHEMA, cells.record_batches()))
        try:
            grouped = connection.sql("SELECT cell, count(*) AS rows FROM cells GROUP BY cell ORDER BY cell")
            for batch in grouped.to_arrow_reader(RESULT_ROWS):
                for column, whole in zip(batch.columns, result, strict=True):
                    whole.append(column.to_numpy())
        except (duckdb.Error, pa.ArrowException, OSError) as problem:  # its text may quote the data
            raise cells.problem or InputError(
                f"the cells could not be grouped ({type(problem).__name__}); is there room on the disk for temporary "
                "files? TMPDIR names another folder for them."
            ) from None
    return result[0].finished(), result[1].finished()
