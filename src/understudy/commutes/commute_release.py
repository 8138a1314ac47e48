"""A release of synthetic commutes: public places, tables of origin, destination and jobs, and what they promise.

The tables stay in their files until they are asked for: a nation's is gigabytes. A drawn table goes straight into a
file of the run folder (see privacy/gate/flow_gate.py), and from there into the release folder.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from understudy.commutes.source.places_file import fixed_width, texts
from understudy.core.arrays import Codes
from understudy.core.folders import as_path
from understudy.core.measurement import CLASSES, Measurement
from understudy.core.places import ELSEWHERE, ELSEWHERE_CODE, PAIR, Places
from understudy.errors import InputError
from understudy.release.csv_file import csv_table
from understudy.release.folder import SYNTHETIC_MARK, hash_file, read_measurements, write_release
from understudy.release.kind import WrittenTables
from understudy.release.readme import code, markdown
from understudy.release.statement import Provenance, Statement

PLACES = "places.parquet"
TEXT = pa.dictionary(pa.int32(), pa.string())
TABLE_SCHEMA = pa.schema([("origin", TEXT), ("destination", TEXT), ("jobs", pa.int64())], metadata=SYNTHETIC_MARK)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CommuteRelease:
    """Synthetic commutes with their promise. All of it is public."""

    places: Places
    """The public places."""
    files: tuple[Path, ...]
    """The file of each synthetic table."""
    statement: Statement
    """What is promised, and to whom."""
    provenance: Provenance
    """How the tables were made."""
    measurements: tuple[Measurement, ...] = ()
    """The noisy counts behind the tables."""
    keeper: TemporaryDirectory[str] | None = field(default=None)
    """Removes the files of a release that was not written."""
    drawn: bool = False
    """Whether its files belong to a run: they are never written again, and are handed over to the release."""

    @property
    def copies(self) -> int:
        """How many synthetic tables there are."""
        return len(self.files)

    def _file(self, copy: int) -> Path:
        if not 1 <= copy <= self.copies:
            raise InputError(f"copy ({copy}) must be between 1 and {self.copies}.")
        return self.files[copy - 1]

    def flows(self, copy: int = 1) -> pa.Table:
        """Give one synthetic table: origin, destination, jobs. An origin may be ``elsewhere``.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        pa.Table
            An Arrow table.
        """
        return pq.read_table(self._file(copy), schema=_schema(self.segments))

    @property
    def segments(self) -> tuple[str, ...]:
        """The columns of segments that the tables have beside origin, destination and jobs."""
        return tuple(pq.read_schema(self.files[0]).names[len(TABLE_SCHEMA.names) :])

    def frame(self, copy: int = 1) -> pa.Table:
        """Give one synthetic table, under the name that every release has.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        pa.Table
            The same as ``flows``.
        """
        return self.flows(copy)

    def coded(self, copy: int = 1) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """Give one synthetic table as codes of the places.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        tuple of arrays
            Codes of origins (-1 for elsewhere), codes of destinations, and jobs.
        """
        return coded_file(self._file(copy), self.places)

    def coded_batches(self, copy: int = 1) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]]:
        """Give one synthetic table as codes, a million pairs at a time.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        Iterator
            The same three arrays, for some pairs.
        """
        yield from _coded_batches(self._file(copy), self.places)

    @property
    def rows(self) -> tuple[int, ...]:
        """How many pairs each table has, read from the ends of its files."""
        return tuple(pq.read_metadata(file).num_rows for file in self.files)

    def write(self, path: str | Path, *, overwrite: bool = False, csv: bool = False) -> Path:
        """Write the release folder. It is there whole or not at all: files are written elsewhere first and then moved.

        Parameters
        ----------
        path
            The new folder.
        overwrite
            Replace an earlier release.
        csv
            Write CSV files too.

        Returns
        -------
        Path
            Where the folder is.

        Raises
        ------
        InputError
            If the folder exists, or cannot be written.
        """
        return write_release(self, as_path(path, "the release folder"), overwrite=overwrite, csv=csv)

    def __repr__(self) -> str:
        made = f"{self.copies} table(s) over {len(self.places):,} places"
        return f"CommuteRelease({self.provenance.method}; {self.statement.guarantee}; {made})"


def _schema(segments: Sequence[str]) -> pa.Schema:
    """The columns of a table of commutes, with those of its segments."""
    schema = TABLE_SCHEMA
    for name in segments:
        schema = schema.append(pa.field(name, pa.int64()))
    return schema


def _coded_batches(
    path: Path, places: Places
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]]:
    with pq.ParquetFile(path, read_dictionary=["origin", "destination"]) as file:
        for batch in file.iter_batches(2**20, columns=TABLE_SCHEMA.names):
            origins, destinations = (_codes(batch.column(number), places) for number in (0, 1))
            yield origins, destinations, batch.column(2).to_numpy()


def coded_file(path: Path, places: Places) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """A table of commutes as codes of the places: origins (-1 for elsewhere), destinations, jobs."""
    parts = list(_coded_batches(path, places))
    if not parts:
        return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64)
    return (
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


def _codes(column: pa.Array, places: Places) -> NDArray[np.int32]:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    named = fixed_width(column.dictionary, "place") if len(column.dictionary) else np.empty(0, "S1")
    found = np.minimum(np.searchsorted(places.ids, named), len(places) - 1).astype(np.int32)
    far = named == ELSEWHERE.encode()
    if ((places.ids[found] != named) & ~far).any():
        raise InputError("a synthetic table names a place that is not among the places of its release.")
    codes = np.where(far, ELSEWHERE_CODE, found).astype(np.int32)
    result: NDArray[np.int32] = codes[column.indices.to_numpy(zero_copy_only=False)]
    return result


def write_tables(release: CommuteRelease, folder: Path, *, csv: bool) -> WrittenTables:
    """The tables of a release as files of a folder that holds its places already."""
    for number, file in enumerate(release.files, start=1):
        target = folder / f"synthetic_{number}.parquet"
        if release.drawn:
            _link_or_copy(file, target)
        else:
            shutil.copyfile(file, target)
        # A drawn file is for its owner alone; here it becomes as readable as the umask lets the others be.
        target.chmod((folder / PLACES).stat().st_mode)
        if csv:
            _write_csv(target, folder / f"synthetic_{number}.csv")
    return WrittenTables(rows=release.rows, hashes={})


def _write_csv(file: Path, target: Path) -> None:
    """A table of pairs as CSV, a million at a time."""
    schema = _schema(pq.read_schema(file).names[len(TABLE_SCHEMA.names) :])
    with (
        pq.ParquetFile(file) as table,
        pyarrow.csv.CSVWriter(target, csv_table(schema.empty_table()).schema) as out,
    ):
        for batch in table.iter_batches(2**20):
            out.write_table(csv_table(pa.Table.from_batches([batch]).cast(schema)))


def _link_or_copy(file: Path, target: Path) -> None:
    """A hard link to a file that is never written again, where the disk allows it, so that gigabytes are not copied."""
    try:
        os.link(file, target)
    except OSError:  # another disk, or one without hard links
        shutil.copyfile(file, target)


def readme_text(release: CommuteRelease, rows: Sequence[int]) -> str:
    promise = "\n".join(f"- {markdown(line)}" for line in release.statement.lines())
    notes = "".join(f"- {markdown(note)}\n" for note in release.provenance.notes)
    return f"""# Synthetic commutes

{len(rows)} table(s) ({", ".join(f"{count:,}" for count in rows)} pairs of origin and destination) made by the method
{code(release.provenance.method)} of understudy {markdown(release.provenance.package_version)}. No row is a worker.
Rows: {markdown(release.provenance.rows_drawn)}.

## What it promises

{promise}

## Reading it

```python
import pandas as pd

flows = pd.read_parquet("synthetic_1.parquet")
print(flows.groupby("destination", observed=True)["jobs"].sum().describe())
```

`origin` is where a synthetic worker lives, `destination` where the job is, `jobs` how many there are. The origin
`elsewhere` stands for everything beyond the distance cut. Single pairs are noise; sums over areas and distances are
what the table is for.

## Files

- `synthetic_*.parquet`: the pairs. `places.parquet`: the places, public beforehand.
- `measurements.parquet`: noisy counts that were measured on the way. `manifest.json`: guarantee, plan, charge, hashes;
  `understudy verify .` checks them.

## Notes

{notes}"""


def measurements_of(file: Path) -> tuple[Measurement, ...]:
    """The noisy counts of a release. Early releases have cells in order under a label, and no number or margin."""
    table = pq.read_table(file)
    if "measurement" not in table.column_names:
        labels = table["label"].to_pylist()
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        for name, values in (
            ("measurement", [numbers[label] for label in labels]),
            ("margin", [json.dumps(PAIR)] * len(table)),
            ("cells", [CLASSES] * len(table)),
        ):
            table = table.append_column(name, pa.array(values))

    def shape_of(margin: tuple[str, ...], cells: str, count: int) -> tuple[int, ...]:
        if margin != PAIR or cells != CLASSES:
            raise InputError("a measurement of commutes is of classes of origin and destination.")
        return (count,)

    return read_measurements(table, shape_of)


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
        self._path.unlink(missing_ok=True)  # left by a run that died while drawing; nobody has seen it
        descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.close(descriptor)
        # Least and greatest texts of a part would take more than half of the time of writing, and nobody asks for them.
        self._writer = pq.ParquetWriter(
            str(self._path), TABLE_SCHEMA, compression="zstd", compression_level=1,
            use_dictionary=["origin", "destination"], column_encoding={"jobs": "DELTA_BINARY_PACKED"},
            write_statistics=["jobs"],
        )  # fmt: skip

    def add(self, origins: Codes, destinations: Codes, jobs: NDArray[np.int64]) -> None:
        self._waiting.append((origins, destinations, jobs))
        self._rows += len(jobs)
        if self._rows >= ROW_GROUP:
            self._write()

    def _write(self) -> None:
        """Write all waiting pairs as one part of the file."""
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
