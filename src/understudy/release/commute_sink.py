"""Where drawn commutes go: Parquet files of a run folder, written as the blocks come."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from understudy.core.arrays import Codes
from understudy.core.places import ELSEWHERE, Places
from understudy.engines.reading.places_file import texts
from understudy.release.commutes import TABLE_SCHEMA
from understudy.release.folder import hash_file

ROW_GROUP = 2**20


class ParquetSink:
    """Synthetic commutes as Parquet files of one folder; a table is there when it is closed, or not at all."""

    def __init__(self, folder: Path, places: Places) -> None:
        self.folder = folder
        self._places = places
        self._writer: pq.ParquetWriter | None = None
        self._path = folder
        self._waiting: list[tuple[Codes, Codes, NDArray[np.int64]]] = []
        self._rows = 0
        self._marks = np.zeros(len(places) + 1, dtype=bool)
        self._numbers = np.empty(len(places) + 1, dtype=np.int32)

    def path(self, copy: int) -> Path:
        return self.folder / f"drawn_{copy}.parquet"

    def remembered(self, copy: int, note: dict[str, Any]) -> bool:
        path = self.path(copy)
        return path.is_file() and hash_file(path) == note.get("sha256")

    def open(self, copy: int) -> None:
        self._path = self.path(copy)
        self._waiting, self._rows = [], 0
        self._path.unlink(missing_ok=True)  # of a run that died while drawing: nobody was given it
        descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.close(descriptor)
        self._writer = pq.ParquetWriter(str(self._path), TABLE_SCHEMA, compression="zstd", compression_level=1)

    def add(self, origins: Codes, destinations: Codes, jobs: NDArray[np.int64]) -> None:
        self._waiting.append((origins, destinations, jobs))
        self._rows += len(jobs)
        if self._rows >= ROW_GROUP:
            self._write()

    def _write(self) -> None:
        """Everything that waits, as one part of the file."""
        assert self._writer is not None  # noqa: S101 - opened by the gate
        if not self._waiting:
            return
        origins, destinations, jobs = (np.concatenate(columns) for columns in zip(*self._waiting, strict=True))
        columns = [self._texts(origins), self._texts(destinations), pa.array(jobs)]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=TABLE_SCHEMA), row_group_size=len(jobs) or None)
        self._waiting, self._rows = [], 0

    def _texts(self, codes: Codes) -> pa.DictionaryArray:
        """A dictionary of the places of this part only: all ids in each part would be most of the file.

        Which places occur is marked in an array over all places, which is faster than sorting the codes; elsewhere has
        the mark after the last place.
        """
        self._marks[codes] = True
        used = np.flatnonzero(self._marks)
        self._marks[used] = False
        self._numbers[used] = np.arange(len(used), dtype=np.int32)
        far = int(len(used) > 0 and used[-1] == len(self._places))
        names = texts(self._places.ids[used[: len(used) - far]])
        if far:
            names = pa.concat_arrays([names, pa.array([ELSEWHERE], type=names.type)])
        return pa.DictionaryArray.from_arrays(pa.array(self._numbers[codes]), names)

    def close(self) -> dict[str, Any]:
        assert self._writer is not None  # noqa: S101
        self._write()
        self._writer.close()
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return {"file": self._path.name, "sha256": hash_file(self._path)}
