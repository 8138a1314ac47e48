"""Counting cells of a domain too large for a dense table: DuckDB groups them, and spills to disk when memory is short.

Measured against sorting in numpy on 50 million rows that are all distinct: both took 15 seconds, DuckDB with half the
memory (1.1 GB, of which 0.8 are the result). On 10 million rows of a million distinct cells they were equal too.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.engines.readers import private_settings
from understudy.errors import InputError, UnderstudyError

MEMORY = "256MB"  # DuckDB's share; beyond it groups go to a temporary folder that only this user can read
THREADS = 2  # more would need more memory to start with
RESULT_ROWS = 2**17
CELL_SCHEMA = pa.schema([("cell", pa.int64())])

Integers = NDArray[np.int64]


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


def count_cells(batches: Iterable[Integers], *, memory: str = MEMORY) -> tuple[Integers, Integers]:
    """The distinct cells in increasing order and how often each occurs. Memory grows with the result alone."""
    cells = _Cells(batches)
    settings = {"memory_limit": memory, "threads": THREADS, "preserve_insertion_order": False}
    with (
        tempfile.TemporaryDirectory(prefix="understudy-") as folder,
        duckdb.connect(config=private_settings(folder) | settings) as connection,
    ):
        connection.register("cells", pa.RecordBatchReader.from_batches(CELL_SCHEMA, cells.record_batches()))
        try:
            grouped = connection.sql("SELECT cell, count(*) AS rows FROM cells GROUP BY cell ORDER BY cell")
            numbers: list[Integers] = []
            counts: list[Integers] = []
            for batch in grouped.to_arrow_reader(RESULT_ROWS):
                numbers.append(batch.column(0).to_numpy().copy())
                counts.append(batch.column(1).to_numpy().copy())
        except (duckdb.Error, pa.ArrowException, OSError) as problem:  # its text may quote the data
            raise cells.problem or InputError(
                f"the cells could not be grouped ({type(problem).__name__}); is there room on the disk for temporary "
                "files? TMPDIR names another folder for them."
            ) from None
    return _joined(numbers), _joined(counts)


def _joined(parts: list[Integers]) -> Integers:
    """One array of all parts, each let go as soon as it is copied so that the whole is not in memory twice."""
    whole = np.empty(sum(map(len, parts)), np.int64)
    end = len(whole)
    while parts:
        part = parts.pop()
        whole[end - len(part) : end] = part
        end -= len(part)
    return whole
