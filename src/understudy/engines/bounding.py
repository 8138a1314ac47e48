"""At most b rows per unit: which rows to leave out so that one person cannot move a count by more than b.

Law: of the k > b rows of a unit, a subset of b is kept, uniformly among all such subsets; units with at most b rows
keep them all. The draw of a unit comes from a substream named by its id, so it depends on that unit's rows alone:
neighbouring tables, which differ in one unit, keep the same rows of every other unit. That is what makes
noise for sensitivity b enough: whatever the stream's words, two bounded neighbours differ in at most b rows of the one
unit, and the words do not depend on the data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.mechanism import Stream
from understudy.engines.readers import private_settings
from understudy.engines.values import canonical_texts, check_type, plain, readable_column
from understudy.errors import InputError, UnderstudyError

PURPOSE = "rows per unit"
ID_SCHEMA = pa.schema([("id", pa.large_string()), ("row", pa.int64())])


class _NumberedIds:
    """The ids as text beside their row numbers, counting the missing ones on the way."""

    def __init__(self, arrays: Iterable[pa.Array], column: str, missing_text: str | None) -> None:
        self._arrays = arrays
        self._column = column
        self._missing_text = missing_text
        self.missing = 0
        self.problem: UnderstudyError | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches()
        except UnderstudyError as problem:  # DuckDB, which reads this, would wrap it in an error of its own
            self.problem = problem
            raise

    def _batches(self) -> Iterator[pa.RecordBatch]:
        start = 0
        for raw in self._arrays:
            array = plain(raw)
            check_type(array.type, self._column)
            with readable_column(self._column):
                array.validate(full=True)
                ids = self._texts(array)
            self.missing += ids.null_count
            rows = pa.array(np.arange(start, start + len(ids), dtype=np.int64))
            start += len(ids)
            yield pa.record_batch([ids, rows], schema=ID_SCHEMA)

    def _texts(self, array: pa.Array) -> pa.Array:
        if pa.types.is_temporal(array.type) or pa.types.is_boolean(array.type):
            raise InputError(f"the unit's id '{self._column}' must be text or a number, not a date or a boolean.")
        if pa.types.is_null(array.type):
            return array.cast(pa.large_string())
        if pa.types.is_dictionary(array.type):
            return self._texts(plain(array.dictionary)).take(array.indices)
        texts = canonical_texts(array)
        if self._missing_text is None:
            return texts
        return pc.if_else(pc.equal(texts, self._missing_text), pa.scalar(None, pa.large_string()), texts)


def rows_to_leave_out(
    ids: Iterable[pa.Array], *, column: str, limit: int, stream: Stream, missing_text: str | None
) -> NDArray[np.int64]:
    """Sorted numbers of the rows to leave out. Grouping is DuckDB's, so it spills to disk when memory is short."""
    numbered = _NumberedIds(ids, column, missing_text)
    left_out: list[NDArray[np.int64]] = []
    with (
        tempfile.TemporaryDirectory(prefix="understudy-") as folder,
        duckdb.connect(config=private_settings(folder)) as connection,
    ):
        source = pa.RecordBatchReader.from_batches(ID_SCHEMA, numbered.batches())
        connection.register("ids", source)
        try:
            connection.execute(
                "CREATE TEMP TABLE crowded AS "
                f"SELECT id, list(row ORDER BY row) AS rows FROM ids GROUP BY id HAVING count(*) > {int(limit)}"
            )
        except duckdb.Error as problem:  # its text may quote the data
            raise numbered.problem or InputError(
                f"the rows could not be grouped by '{column}' ({type(problem).__name__})."
            ) from None
        if numbered.missing:
            raise InputError(
                f"{numbered.missing:,} row(s) have no '{column}', so nobody can say whose they are; give every row "
                "the id of its unit."
            )
        for batch in connection.sql("SELECT id, rows FROM crowded").to_arrow_reader(100_000):
            lists = batch.column("rows")
            ends = np.cumsum(lists.value_lengths().to_numpy())
            by_unit = np.split(lists.flatten().to_numpy(), ends[:-1])
            for unit, rows in zip(batch.column("id").to_pylist(), by_unit, strict=True):
                left_out.append(rows[_drawn_out(len(rows), limit, stream, unit)])
    return np.sort(np.concatenate(left_out)) if left_out else np.empty(0, np.int64)


def _drawn_out(count: int, limit: int, stream: Stream, unit: str) -> NDArray[np.intp]:
    """Positions that are not among the ``limit`` smallest of ``count`` words: uniform by symmetry, ties drawn again."""
    while True:
        words = stream.words(count, PURPOSE, unit)
        order = np.argsort(words)
        in_order = words[order]
        if (in_order[1:] > in_order[:-1]).all():
            return order[limit:]
