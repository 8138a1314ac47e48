"""Tasks that need a key: which rows of a unit are kept, and tables drawn stratum by stratum.

Every draw is named by what it is about (a unit's id, a stratum's number) and never by a partition, an attempt or a
machine. A task makes its stream anew each time it runs. So a task that is repeated, or run twice at once, draws the
same words, and how the work was divided cannot be seen in the result. See docs/theory/spark-determinism.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.mechanism import Words
from understudy.core.schema import Schema
from understudy.engines.counting.bounding import PURPOSE, id_texts, kept_places
from understudy.engines.counting.packing import pack, word_groups
from understudy.engines.counting.unlisted_codes import column_texts, open_codes, text_words
from understudy.engines.systems.spark.tasks import (
    Batches,
    DataChangedError,
    EncodedRows,
    News,
    Shared,
    gathered,
    guarded,
)
from understudy.errors import InternalError
from understudy.privacy.gate.table_draws import draw_stratum, split_strata
from understudy.privacy.randomness.draws import TravellingKey

HELD_ROWS = 2**18  # rows of one unit that wait for their draw; more are drawn among as they come
CELLS = "stratum long, inner long, rows long"
DRAWN = "cell long, times long"


def word_names(schema: Schema, first: tuple[str, ...] = ()) -> list[str]:
    return [f"word_{number}" for number in range(len(word_groups(schema, first)))]


def hash_names(schema: Schema) -> list[str]:
    return [f"hash_{number}" for number in range(len(open_codes(schema)))]


def text_names(schema: Schema) -> list[str]:
    return [f"text_{number}" for number in range(len(open_codes(schema)))]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRowsTask:
    """Each row as the id of its unit and its codes as words, fixed attributes first. For columns whose codes are to be
    found, then a hash of its text, by which rows are in order on every engine, and the text itself."""

    scan: EncodedRows
    unit_id: str
    fixed: tuple[str, ...] = ()

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._rows(incoming), reports=False)

    def _rows(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        schema: Schema = self.scan.schema.value
        names = ["id", *word_names(schema, self.fixed), *hash_names(schema), *text_names(schema)]
        news = News()
        for raw, codes in self.scan.with_rows(incoming, news):
            ids = id_texts(raw.column(self.unit_id), self.unit_id, self.scan.missing_text).cast(pa.string())
            words = [*pack(codes, schema, self.fixed), *text_words(raw, schema)]
            texts = [column_texts(raw, name).cast(pa.string()) for name in open_codes(schema)]
            yield pa.record_batch([ids, *map(pa.array, words), *texts], names=names)
        if news.violations:
            raise DataChangedError("the data do not fit the schema any more.")


class _OpenUnit:
    """The unit whose rows may go on in the next batch. However many there are, few are held."""

    def __init__(self, unit: str, limit: int, held_rows: int, stream: Words) -> None:
        self.unit, self._limit, self._stream = unit, limit, stream
        self._held_rows = max(limit, held_rows)
        self._waiting: list[Integers] = []  # rows by words
        self._count = 0
        self._best: tuple[NDArray[np.uint64], Integers] | None = None

    def add(self, rows: Integers) -> None:
        self._waiting.append(rows)
        self._count += len(rows)
        if self._count > self._held_rows:
            self._draw()

    def kept(self) -> Integers:
        if self._best is None:
            rows = np.concatenate(self._waiting)
            if len(rows) <= self._limit:
                return rows
            return np.asarray(rows[kept_places(len(rows), self._limit, self._stream, self.unit)])
        self._draw()
        words, rows = self._best
        if words[self._limit - 1] == words[self._limit]:  # see kept_places; here most rows are gone already
            raise InternalError("two words of a draw are equal, which happens once in 2^64; run it again.")
        return rows[: self._limit]

    def _draw(self) -> None:
        """One word for every row that waits, in order; the rows of the smallest, one more than are kept, stay."""
        words = self._stream.words(self._count, PURPOSE, self.unit)
        rows = np.concatenate(self._waiting)
        if self._best is not None:
            words, rows = np.concatenate([self._best[0], words]), np.concatenate([self._best[1], rows])
        order = np.argsort(words, kind="stable")[: self._limit + 1]
        self._best = words[order], rows[order]
        self._waiting, self._count = [np.empty((0, rows.shape[1]), np.int64)], 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepTask:
    """Of rows sorted by unit and words, at most ``limit`` of each unit, as ``bounding`` says.

    ``texts``: how many columns of texts come last, each with a hash that came before all of them and is left out here.
    """

    key: TravellingKey
    limit: int
    words: int
    texts: int = 0
    held_rows: int = HELD_ROWS

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._kept(incoming), reports=False)

    def _kept(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        stream: Any = self.key.stream()  # words only: noise is never drawn in a task
        last: _OpenUnit | None = None
        for batch in incoming:
            if not batch.num_rows:
                continue
            ids = batch.column(0)
            columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns[1:]]
            rows = np.stack(columns, axis=1)  # of objects, if there are texts
            changes = pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1)).to_numpy(zero_copy_only=False)
            starts = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(ids)]])
            first = 0
            if last is not None and last.unit == ids[0].as_py():
                last.add(rows[: starts[1]])
                first = 1
            if first < len(starts) - 1:  # another unit begins, so the open one is complete
                if last is not None:
                    yield self._batch(last.kept())
                yield self._batch(self._complete(ids, rows, starts[first:-1], stream))
                last = _OpenUnit(ids[int(starts[-2])].as_py(), self.limit, self.held_rows, stream)
                last.add(rows[starts[-2] :])
        if last is not None:
            yield self._batch(last.kept())

    def _complete(self, ids: pa.Array, rows: Integers, starts: NDArray[np.int64], stream: Words) -> Integers:
        """The rows that are kept of the units that begin and end within a batch; the last start is the end of them."""
        keep = np.zeros(len(rows), bool)
        keep[starts[0] : starts[-1]] = True
        lengths = np.diff(starts)
        for place in np.flatnonzero(lengths > self.limit):
            begin, count = int(starts[place]), int(lengths[place])
            keep[begin : begin + count] = False
            keep[begin + kept_places(count, self.limit, stream, ids[begin].as_py())] = True
        return rows[keep]

    def _batch(self, rows: Integers) -> pa.RecordBatch:
        columns = [pa.array(np.ascontiguousarray(rows[:, word], np.int64)) for word in range(self.words)]
        columns += [pa.array(rows[:, place], pa.string()) for place in range(self.words + self.texts, rows.shape[1])]
        names = [f"word_{number}" for number in range(self.words)] + [f"text_{place}" for place in range(self.texts)]
        return pa.record_batch(columns, names=names)


@dataclass(frozen=True, slots=True, kw_only=True)
class StratumTask:
    """Cells of a margin by stratum and cell within it."""

    schema: Shared
    margin: tuple[str, ...]
    strata: tuple[str, ...]

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._split(incoming), reports=False)

    def _split(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        for batch in incoming:
            stratum, inner = split_strata(self.schema.value, self.margin, self.strata, batch.column(0).to_numpy())
            yield pa.record_batch(
                [pa.array(stratum), pa.array(inner), batch.column(1)], names=["stratum", "inner", "rows"]
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawTask:
    """A synthetic table of each stratum, from its non-empty cells in order. The row of cell -1 only names a stratum,
    so that those without any record are drawn too."""

    key: TravellingKey
    schema: Shared
    mechanisms: Shared
    margin: tuple[str, ...]
    strata: tuple[str, ...]
    purpose: tuple[str | int, ...]

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._draws(incoming), reports=False)

    def _draws(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        stream: Any = self.key.stream()  # words only: noise of the operating system is never drawn in a task
        for number, (inner, counts) in gathered(incoming):
            yield self._drawn(number, inner, counts, stream)

    def _drawn(self, number: int, inner: Integers, counts: Integers, stream: Any) -> pa.RecordBatch:
        cells, times = draw_stratum(
            self.schema.value, self.margin, self.strata, number, self.mechanisms.value[number],
            inner, counts, stream, *self.purpose,
        )  # fmt: skip
        return pa.record_batch([pa.array(cells), pa.array(times)], names=["cell", "times"])
