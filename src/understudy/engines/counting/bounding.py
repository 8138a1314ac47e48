"""At most b rows per unit: which rows to leave out so that one person cannot move a count by more than b.

Law: of the k > b rows of a unit, a subset of b is kept, uniformly among all such subsets; units with at most b rows
keep them all. The draw of a unit comes from a substream named by its id, so it depends on that unit's rows alone:
neighbouring tables, which differ in one unit, keep the same rows of every other unit. That is what makes
noise for sensitivity b enough: whatever the stream's words, two bounded neighbours differ in at most b rows of the one
unit, and the words do not depend on the data.

A unit's rows are numbered in the order of their codes, so the rows that are kept depend on what the rows say and not on
how files, batches or partitions are ordered: every engine keeps the same. ``fixed`` attributes come first in that
order. Neighbours agree on them, so under the same words they keep rows with the same fixed values, and the promise
holds for every value of the words (docs/theory/sensitivity.md, bounding). They are drawn under the key of the run's
data, which a resumed run finds in its folder: it keeps the same rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.mechanism import Words
from understudy.engines.reading.readers import private_settings
from understudy.engines.reading.values import absent_texts, canonical_texts, check_type, plain, readable_column
from understudy.errors import InputError, UnderstudyError

PURPOSE = "rows per unit"


def id_texts(raw: pa.Array, column: str, missing_text: str | None) -> pa.Array:
    """The ids as text, by which units are told apart; null where there is none."""
    array = plain(raw)
    check_type(array.type, column)
    with readable_column(column):
        array.validate(full=True)
        return _texts(array, column, missing_text)


def _texts(array: pa.Array, column: str, missing_text: str | None) -> pa.Array:
    if pa.types.is_temporal(array.type) or pa.types.is_boolean(array.type):
        raise InputError(f"the unit's id '{column}' must be text or a number, not a date or a boolean.")
    if pa.types.is_null(array.type):
        return array.cast(pa.large_string())
    if pa.types.is_dictionary(array.type):
        return _texts(plain(array.dictionary), column, missing_text).take(array.indices)
    texts = canonical_texts(array)
    if missing_text is None:
        return texts
    absent = pc.is_in(texts, absent_texts(missing_text, texts.type))
    return pc.if_else(absent, pa.scalar(None, pa.large_string()), texts)


def refuse_missing_ids(missing: int, column: str) -> None:
    """A row without an id could belong to any unit."""
    if missing:
        raise InputError(
            f"{missing:,} row(s) have no '{column}', so it is unknown to which unit they belong; give every row "
            "the id of its unit."
        )


class _NumberedIds:
    """The ids as text beside the words of their rows and their row numbers, counting the missing ones on the way."""

    def __init__(
        self, batches: Iterable[tuple[pa.Array, Sequence[Integers]]], words: int, column: str, missing_text: str | None
    ) -> None:
        self._batches = batches
        self._column = column
        self._missing_text = missing_text
        self.words = [f"word_{number}" for number in range(words)]
        self.schema = pa.schema(
            [("id", pa.large_string()), *((word, pa.int64()) for word in self.words), ("row", pa.int64())]
        )
        self.missing = 0
        self.problem: UnderstudyError | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._numbered()
        except UnderstudyError as problem:  # DuckDB, which reads this, would wrap it in an error of its own
            self.problem = problem
            raise

    def _numbered(self) -> Iterator[pa.RecordBatch]:
        start = 0
        for raw, words in self._batches:
            ids = id_texts(raw, self._column, self._missing_text)
            self.missing += ids.null_count
            rows = np.arange(start, start + len(ids), dtype=np.int64)
            start += len(ids)
            yield pa.record_batch([ids, *map(pa.array, words), pa.array(rows)], schema=self.schema)


def rows_to_leave_out(
    batches: Iterable[tuple[pa.Array, Sequence[Integers]]],
    *,
    words: int,
    column: str,
    limit: int,
    stream: Words,
    missing_text: str | None,
) -> NDArray[np.int64]:
    """Sorted numbers of the rows to leave out, from batches of ids and of the ``words`` that a row's codes make.

    Grouping is DuckDB's, so it spills to disk when memory is short.
    """
    numbered = _NumberedIds(batches, words, column, missing_text)
    left_out: list[NDArray[np.int64]] = []
    with (
        tempfile.TemporaryDirectory(prefix="understudy-") as folder,
        duckdb.connect(config=private_settings(folder)) as connection,
    ):
        source = pa.RecordBatchReader.from_batches(numbered.schema, numbered.batches())
        connection.register("ids", source)
        try:
            connection.execute(
                f"CREATE TEMP TABLE crowded AS SELECT id, list(row ORDER BY {', '.join(numbered.words)}, row) AS rows "
                f"FROM ids GROUP BY id HAVING count(*) > {int(limit)}"
            )
        except duckdb.Error as problem:  # its text may quote the data
            raise numbered.problem or InputError(
                f"the rows could not be grouped by '{column}' ({type(problem).__name__})."
            ) from None
        refuse_missing_ids(numbered.missing, column)
        for batch in connection.sql("SELECT id, rows FROM crowded").to_arrow_reader(100_000):
            lists = batch.column("rows")
            ends = np.cumsum(lists.value_lengths().to_numpy())
            by_unit = np.split(lists.flatten().to_numpy(), ends[:-1])
            for unit, rows in zip(batch.column("id").to_pylist(), by_unit, strict=True):
                left_out.append(np.delete(rows, kept_places(len(rows), limit, stream, unit)))
    return np.sort(np.concatenate(left_out)) if left_out else np.empty(0, np.int64)


def kept_places(count: int, limit: int, stream: Words, unit: str) -> NDArray[np.intp]:
    """Places of the ``limit`` smallest of ``count`` > ``limit`` words: uniform by symmetry.

    Drawn again if the last that is kept ties with the first that is not; no other tie matters.
    """
    while True:
        words = stream.words(count, PURPOSE, unit)
        smallest = np.argpartition(words, limit)[: limit + 1]
        last, next_one = np.partition(words[smallest], limit - 1)[limit - 1 :]
        if last < next_one:
            return np.flatnonzero(words <= last)
