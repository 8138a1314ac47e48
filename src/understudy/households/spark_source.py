"""Households and members on Spark: rows are brought together by household, linked and counted where they are.

Each row is read and checked by a task, and becomes the id of its household, its codes as words, and the few texts that
order members and give roles. These are brought together by the id once. A task then has whole households, and does
with them what one machine does with all of them (``source``): links, roles, the row of each household, counts. Who
stands in a slot depends on the id of the household and a key alone. So the counts are those of one machine, whatever
the number of tasks. The driver sees counts and never a row.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.core.arrays import Integers, Progress
from understudy.core.counts import Counts, SparseCounts
from understudy.core.linked_schema import LinkedSchema
from understudy.core.schema import Schema
from understudy.core.table import Codes
from understudy.engines.counting.bounding import id_texts
from understudy.engines.counting.packing import pack, unpack, word_groups
from understudy.engines.counting.scanned_source import filled_cells
from understudy.engines.systems.spark.inputs import open_spark
from understudy.engines.systems.spark.source import SparkSource, closure, receive_counts, running, share
from understudy.engines.systems.spark.tasks import (
    Batches,
    DataChangedError,
    EncodedRows,
    News,
    Shared,
    counts_and_news,
    guarded,
)
from understudy.errors import DisclosureError, InputError, UnsupportedError
from understudy.households.linked_table import LinkedTable
from understudy.households.source import FLAT, HouseholdSource, homes_of, kept_columns, link, parts_of
from understudy.privacy.randomness.draws import KeyedStream
from understudy.privacy.randomness.fingerprint import RowSum

ROWS_OF_A_TASK = 2**19  # members that a task holds at once, about
ABOVE, BELOW = 0, 1  # rows of households, and of members


class SparkHouseholdSource(HouseholdSource):
    """Confidential households with their members on Spark, behind their public schema.

    Parameters
    ----------
    schema
        The public schema of both tables.
    tables
        Each table on Spark; under an empty name the one flat table.
    """

    def __init__(self, schema: LinkedSchema, tables: Mapping[str, SparkSource]) -> None:
        super().__init__(schema, {}, None)
        self._tables = tables

    def linked(self) -> tuple[LinkedTable, Integers]:
        """Refused: no machine holds all rows.

        Raises
        ------
        UnsupportedError
            Always.
        """
        raise UnsupportedError(
            "this looks at every household with its members on one machine, and these tables are on Spark; open files "
            "without engine 'spark' for it."
        )

    def rows_of(self, stream: KeyedStream) -> SparkHomes:
        """The row of each household, its members chosen and bounded by the words of a key.

        Parameters
        ----------
        stream
            The key of the run's data.

        Returns
        -------
        SparkHomes
            What the gate counts. Confidential.
        """
        for table in self._tables.values():
            table.check(self.schema.household_id)
        return SparkHomes(self.schema, self._tables, stream.derived_key("members of a household"))


class SparkHomes:
    """One row for each household, counted on the executors. Confidential."""

    def __init__(self, schema: LinkedSchema, tables: Mapping[str, SparkSource], key: bytes) -> None:
        self.schema = schema.wide
        self._linked, self._words_key = schema, key
        self._session = next(iter(tables.values())).session
        self._public = share(self._session, (schema, FLAT in tables))
        self._rows = self._brought_together(tables)
        weakref.finalize(self, self._rows.unpersist).atexit = False
        self._fingerprint_key: bytes | None = None
        self._fingerprint = ""
        self._total: int | None = None

    def __repr__(self) -> str:
        return "SparkHomes(confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("a source is confidential and cannot be saved; open it again where the data are.")

    def _brought_together(self, tables: Mapping[str, SparkSource]) -> Any:
        """A frame in which all rows of a household are in one partition."""
        linked = self._linked
        parts = parts_of(linked, tables)
        words = max(len(word_groups(part)) for part in parts.values())
        names = list(dict.fromkeys(name for table in parts for name in kept_columns(linked, table)))
        types = ["side int", "id string", *(f"word_{n} long" for n in range(words))]
        types += [f"text_{n} string" for n in range(len(names) - 1)]
        frames = []
        for name, table in tables.items():
            side = ABOVE if name == linked.household_table and FLAT not in tables else BELOW
            keys = kept_columns(linked, name)
            frame, scan = table.rows_with(keys)
            task = SideTask(side=side, scan=scan, keys=tuple(keys), names=tuple(names), words=words)
            frames.append(frame.mapInArrow(closure(task), ", ".join(types)))
        both = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
        slots = int(self._session.sparkContext.defaultParallelism)
        rows = sum(table.total() for table in tables.values())
        with running(self._session, "bringing households together"):
            return both.repartition(max(slots, -(-rows // ROWS_OF_A_TASK)), "id").persist()

    def _scan(self, of: str, margins: Sequence[tuple[str, ...]]) -> list[Counts]:
        """One scan: counts of ``homes``, ``members`` or ``pairs``. The first checks everything, and hashes rows."""
        counted = [self._linked.counted_in(margin) if margin else self.schema for margin in margins]
        cells = [schema.cells(margin) for schema, margin in zip(counted, margins, strict=True)]
        task = HomesTask(
            public=self._public, of=of, margins=share(self._session, list(margins)),
            words_key=self._words_key, fingerprint_key=self._fingerprint_key if not self._fingerprint else None,
        )  # fmt: skip
        with running(self._session, "counting households"):
            found, news = receive_counts(self._rows, task, sum(cells), with_key=True)
        if not news.rows:
            raise InputError(
                "the data have no rows (is it a file with column names alone?); there is nothing to release."
            )
        if self._total not in (None, news.rows):
            raise DataChangedError("the data changed between two scans; nothing may write to them during a run.")
        self._total = news.rows
        if self._fingerprint_key is not None and not self._fingerprint:
            self._fingerprint = news.hashed.text
        tables = np.split(found, np.cumsum(cells)[:-1]) if margins else []
        return [
            Counts(margin=tuple(margin), values=table.reshape(schema.shape(margin)))
            for schema, margin, table in zip(counted, margins, tables, strict=True)
        ]

    def total(self) -> int:
        """The number of households."""
        if self._total is None:
            self._scan("homes", [])
        return int(self._total or 0)

    def count(self, margins: Sequence[tuple[str, ...]], progress: Progress | None = None) -> list[Counts]:
        """Dense tables of households."""
        found = self._scan("homes", margins)
        if progress is not None:
            progress(self.total(), self.total())
        return found

    def count_sparse(self, margin: tuple[str, ...], progress: Progress | None = None) -> SparseCounts:
        """The non-empty cells of a table of households."""
        return filled_cells(self.count([margin], progress)[0])

    @property
    def members(self) -> SparkPart:
        """The members that were kept, each with the attributes of its household. Confidential."""
        return SparkPart(self, "members", self._linked.persons)

    def pairs(self) -> SparkPart:
        """Pairs of members who are alike, each member in at most one of them. Confidential."""
        return SparkPart(self, "pairs", self._linked.pairs or self._linked.persons)

    def identify(self, key: bytes) -> None:
        """Take this key for the fingerprint."""
        self._fingerprint_key, self._fingerprint = key, ""

    def fingerprint(self) -> str:
        """A keyed sum over all households and all their members, the same as on one machine. Confidential."""
        if self._fingerprint_key is None:
            raise InputError("a source has a fingerprint only under a key; identify it first.")
        if not self._fingerprint:
            self._scan("homes", [])
        return self._fingerprint


class SparkPart:
    """Members, or pairs of them, counted on the executors. Confidential."""

    def __init__(self, homes: SparkHomes, of: str, schema: Schema) -> None:
        self.schema = schema
        self._homes, self._of = homes, of

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("a source is confidential and cannot be saved; open it again where the data are.")

    def total(self) -> int:
        """The number of rows."""
        return int(self.count([self.schema.names[:1]])[0].values.sum())

    def count(self, margins: Sequence[tuple[str, ...]], progress: Progress | None = None) -> list[Counts]:  # noqa: ARG002
        """Dense tables."""
        return self._homes._scan(self._of, margins)

    def count_sparse(self, margin: tuple[str, ...], progress: Progress | None = None) -> SparseCounts:
        """The non-empty cells of a table."""
        return filled_cells(self.count([margin], progress)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTask:
    """Each row of one of the tables as the id of its household, its codes as words, and the texts that are kept."""

    side: int
    scan: EncodedRows
    keys: tuple[str, ...]  # of this table; the first is the id of the household
    names: tuple[str, ...]  # of all tables
    words: int

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._rows(incoming), reports=False)

    def _rows(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        schema: Schema = self.scan.schema.value
        news = News()
        columns = ["side", "id", *(f"word_{n}" for n in range(self.words))]
        columns += [f"text_{n}" for n in range(len(self.names) - 1)]
        for raw, codes in self.scan.with_rows(incoming, news):
            texts = {
                name: id_texts(raw.column(name), name, self.scan.missing_text).cast(pa.string()) for name in self.keys
            }
            words = pack(codes, schema)
            none = np.zeros(raw.num_rows, np.int64)
            made = [pa.array(np.full(raw.num_rows, self.side, np.int32)), texts[self.keys[0]]]
            made += [pa.array(words[n] if n < len(words) else none) for n in range(self.words)]
            made += [texts.get(name, pa.nulls(raw.num_rows, pa.string())) for name in self.names[1:]]
            yield pa.record_batch(made, names=columns)
        if news.violations:
            raise DataChangedError("the data do not fit the schema any more.")


@dataclass(frozen=True, slots=True, kw_only=True)
class HomesTask:
    """Counts of the whole households of a partition, and the news: how many there are, and the sum of hashed rows."""

    public: Shared
    of: str
    margins: Shared
    words_key: bytes = field(repr=False)
    fingerprint_key: bytes | None = field(default=None, repr=False)

    def __call__(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        return guarded(self._counts(incoming))

    def _counts(self, incoming: Batches) -> Iterator[pa.RecordBatch]:
        schema, flat = self.public.value
        margins: list[tuple[str, ...]] = self.margins.value
        rows = pa.Table.from_batches(list(incoming))
        news = News() if self.fingerprint_key is None else News(hashed=RowSum(self.fingerprint_key))
        counts = np.empty(0, np.int64)
        if rows.num_rows:
            homes = homes_of(*_linked(schema, rows, flat=flat), self.words_key)
            news.rows = homes.total()
            if self.fingerprint_key is not None:
                homes.hash_into(news.hashed)
            counted = {"homes": lambda: homes, "members": lambda: homes.members, "pairs": homes.pairs}[self.of]()
            tables = counted.count(margins) if margins else []
            counts = np.concatenate([one.values.ravel() for one in tables]) if tables else counts
        yield from counts_and_news(counts.astype(np.int64), news)


def _linked(schema: LinkedSchema, rows: pa.Table, *, flat: bool) -> tuple[LinkedTable, Integers]:
    """The households of a partition with their members."""
    parts = parts_of(schema, {FLAT: None} if flat else {})
    names = list(dict.fromkeys(name for table in parts for name in kept_columns(schema, table)))
    side = rows.column("side").to_numpy()
    found = []
    for table, number in [(FLAT, BELOW)] if flat else [(schema.household_table, ABOVE), (schema.member_table, BELOW)]:
        mine = rows.filter(pa.array(side == number))
        keys = kept_columns(schema, table)
        own = parts[table]
        words = [mine.column(f"word_{n}").to_numpy() for n in range(len(word_groups(own)))]
        codes: dict[str, Codes] = unpack(words, own)
        texts = {names[0]: mine.column("id")} | {
            name: mine.column(f"text_{n}") for n, name in enumerate(names[1:]) if name in keys
        }
        found.append((codes, pa.table(texts)))
    above, below = (None, found[0]) if flat else (found[0], found[1])
    return link(schema, above, below, None)


def open_on_spark(tables: Mapping[str, Any], schema: LinkedSchema, **reading: Any) -> SparkHouseholdSource:
    """Open households with their members on Spark."""
    reading.pop("engine", None)
    if not schema.member_id:
        raise InputError(
            "on Spark rows have no order, and the order of members can give them their roles: name the column of their "
            "ids, id under the [[table]] of members."
        )
    opened = {}
    for name, described in parts_of(schema, tables).items():
        opened[name] = open_spark(tables[name], described, **reading)
        opened[name].require(kept_columns(schema, name))
    return SparkHouseholdSource(schema, opened)
