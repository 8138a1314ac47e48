"""The tables of a release folder, in their files until they are asked for.

A release may hold a billion rows. Opening it reads hashes and footers; a table comes into memory when somebody wants
all of it, and ``batches`` gives it piece by piece, which is how ``verify`` looks at every row on a small machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.core.schema import Schema
from understudy.engines.reading.decode import restore_types
from understudy.engines.reading.encode import Encoder, check_columns, columns_to_read
from understudy.engines.reading.readers import parquet_batches
from understudy.errors import InputError

FileState = tuple[int, int]  # bytes and time of the last change


class StoredTables(Sequence[pa.Table]):
    """Tables in files, some files for each; ``rows`` are those that the manifest states, checked by the footers."""

    def __init__(self, files: Sequence[Sequence[Path]], rows: Sequence[int], schema: Schema) -> None:
        self.rows = tuple(rows)
        self._schema = schema
        self._files = tuple(tuple(own) for own in files)
        self._read: dict[int, pa.Table] = {}
        self._states = {file: _state(file) for own in self._files for file in own}
        for own, stated in zip(self._files, self.rows, strict=True):
            if not own:
                raise InputError("a release lacks a table that its manifest counts.")
            found = 0
            for file in own:
                with pq.ParquetFile(file) as table:
                    check_columns(table.schema_arrow.names, schema)
                    found += table.metadata.num_rows
            if found != stated:
                raise InputError(f"'{own[0].name}' has {found:,} rows, and its manifest states {stated:,}.")

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, number: int) -> pa.Table: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[pa.Table]: ...
    def __getitem__(self, number: int | slice) -> pa.Table | Sequence[pa.Table]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        place = range(len(self))[number]
        if place not in self._read:
            parts = []
            for file in self._files[place]:
                self._require_unchanged(file)
                try:
                    parts.append(pq.read_table(file))
                except (pa.ArrowException, OSError) as problem:
                    raise InputError(f"{file} cannot be read as Parquet ({type(problem).__name__}).") from None
            self._read[place] = restore_types(pa.concat_tables(parts, promote_options="permissive"), self._schema)
        return self._read[place]

    def batches(self, place: int) -> Iterator[pa.Table]:
        """One table in pieces, as ``frame`` gives it: a quarter of a million rows are in memory at a time."""
        for batch in self._raw_batches(place):
            yield restore_types(pa.Table.from_batches([batch]), self._schema)

    def check_rows(self, place: int) -> None:
        """Refuses values outside the schema, structural zeros, and derived values off their rule; counts them all."""
        encoder = Encoder(self._schema)
        for batch in self._raw_batches(place):
            encoder.encode(batch)
        encoder.violations.check()

    def _raw_batches(self, place: int) -> Iterator[pa.RecordBatch]:
        for file in self._files[place]:
            self._require_unchanged(file)
            columns = columns_to_read(pq.read_schema(file).names, self._schema)
            yield from parquet_batches(str(file), columns)

    def _require_unchanged(self, file: Path) -> None:
        """What was checked when the release was opened must be what is read now."""
        if _state(file) != self._states[file]:
            raise InputError(
                f"{file} was removed or changed after its release was opened; read the release again, and keep its "
                "folder as it is while you use it."
            )


def _state(file: Path) -> FileState | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
