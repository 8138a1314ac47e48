"""A release of synthetic commutes: public places, tables of origin, destination and jobs, and what they promise.

The tables stay in their files until they are asked for: a nation's is gigabytes.
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

from understudy.core.folders import publish_folder
from understudy.core.places import ELSEWHERE, ELSEWHERE_CODE, Places
from understudy.engines.reading.places_file import fixed_width, places_table, read_places
from understudy.errors import InputError
from understudy.privacy.gate.flow_gate import FlowMeasurement
from understudy.privacy.mechanisms.noise import mechanism_from_json
from understudy.release.csv_file import csv_table
from understudy.release.manifest import COMMUTES, MANIFEST, manifest_text, provenance_of, statement_of, text_in
from understudy.release.markdown import code, markdown
from understudy.release.value import Provenance, Statement

PLACES, MEASUREMENTS, README = "places.parquet", "measurements.parquet", "README.md"
TEXT = pa.dictionary(pa.int32(), pa.string())
TABLE_SCHEMA = pa.schema([("origin", TEXT), ("destination", TEXT), ("jobs", pa.int64())])


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
    measurements: tuple[FlowMeasurement, ...] = ()
    """The noisy counts behind the tables."""
    keeper: TemporaryDirectory[str] | None = field(default=None)
    """Removes the files of a release that was not written."""

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
        return pq.read_table(self._file(copy), schema=TABLE_SCHEMA)

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
        parts = list(self.coded_batches(copy))
        if not parts:
            return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64)
        return (
            np.concatenate([part[0] for part in parts]),
            np.concatenate([part[1] for part in parts]),
            np.concatenate([part[2] for part in parts]),
        )

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
        with pq.ParquetFile(self._file(copy), read_dictionary=["origin", "destination"]) as file:
            for batch in file.iter_batches(2**20):
                origins, destinations = (_codes(batch.column(number), self.places) for number in (0, 1))
                yield origins, destinations, batch.column(2).to_numpy()

    def table_rows(self) -> list[int]:
        """Count the rows of each table, without reading them.

        Returns
        -------
        list[int]
            One number for each table.
        """
        return [pq.read_metadata(file).num_rows for file in self.files]

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
        return write_commutes(self, Path(path), overwrite=overwrite, csv=csv)

    def __repr__(self) -> str:
        made = f"{self.copies} table(s) over {len(self.places):,} places"
        return f"CommuteRelease({self.provenance.method}; {self.statement.guarantee}; {made})"


def _codes(column: pa.Array, places: Places) -> NDArray[np.int32]:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    texts = fixed_width(column.dictionary, "place") if len(column.dictionary) else np.empty(0, "S1")
    found = np.minimum(np.searchsorted(places.ids, texts), len(places) - 1).astype(np.int32)
    far = texts == ELSEWHERE.encode()
    if ((places.ids[found] != texts) & ~far).any():
        raise InputError("a synthetic table names a place that is not among the places of its release.")
    codes = np.where(far, ELSEWHERE_CODE, found).astype(np.int32)
    result: NDArray[np.int32] = codes[column.indices.to_numpy(zero_copy_only=False)]
    return result


def write_commutes(release: CommuteRelease, path: Path, *, overwrite: bool, csv: bool, link: bool = False) -> Path:
    """The folder of a release of commutes; ``link`` where the drawn files are given up afterwards."""
    from understudy.release.folder import hash_file, require_replaceable

    def fill(folder: Path) -> None:
        pq.write_table(places_table(release.places), folder / PLACES, compression="zstd")
        for number, file in enumerate(release.files, start=1):
            target = folder / f"synthetic_{number}.parquet"
            if link:
                _link_or_copy(file, target)
            else:
                shutil.copyfile(file, target)
            # A drawn file is for its owner alone; here it becomes as readable as the umask lets the others be.
            target.chmod((folder / PLACES).stat().st_mode)
            if csv:
                _write_csv(target, folder / f"synthetic_{number}.csv")
        pq.write_table(_measurement_table(release.measurements), folder / MEASUREMENTS, compression="zstd")
        rows = [pq.read_metadata(folder / f"synthetic_{n}.parquet").num_rows for n in range(1, release.copies + 1)]
        (folder / README).write_text(_readme(release, rows), encoding="utf-8")
        files = {file.name: hash_file(file) for file in sorted(folder.iterdir())}
        text = manifest_text(
            release.statement, release.provenance, rows=rows, files=files,
            domain={"kind": COMMUTES, "places_fingerprint": release.places.fingerprint},
        )  # fmt: skip
        (folder / MANIFEST).write_text(text, encoding="utf-8")

    publish_folder(
        path, fill, replaces=require_replaceable if overwrite else None, private=release.statement.protects_nobody
    )
    return path


def _write_csv(file: Path, target: Path) -> None:
    """A table of pairs as CSV, a million at a time."""
    with (
        pq.ParquetFile(file) as table,
        pyarrow.csv.CSVWriter(target, csv_table(TABLE_SCHEMA.empty_table()).schema) as out,
    ):
        for batch in table.iter_batches(2**20):
            out.write_table(csv_table(pa.Table.from_batches([batch]).cast(TABLE_SCHEMA)))


def _link_or_copy(file: Path, target: Path) -> None:
    """A second name for a file that is never written again, where the disk allows it; gigabytes are not copied."""
    try:
        os.link(file, target)
    except OSError:  # another disk, or one without such names
        shutil.copyfile(file, target)


def _readme(release: CommuteRelease, rows: Sequence[int]) -> str:
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


def _measurement_table(measurements: Sequence[FlowMeasurement]) -> pa.Table:
    columns: dict[str, list[Any]] = {"label": [], "mechanism": [], "cell": [], "value": []}
    for one in measurements:
        count = len(one.values)
        columns["label"].append(pa.array([one.label] * count, type=pa.string()))
        columns["mechanism"].append(pa.array([json.dumps(one.mechanism.to_json())] * count, type=pa.string()))
        columns["cell"].append(pa.array(np.arange(count)))
        columns["value"].append(pa.array(one.values.astype(np.int64)))
    types = {"label": pa.string(), "mechanism": pa.string(), "cell": pa.int64(), "value": pa.int64()}
    return pa.table({name: pa.chunked_array(parts, type=types[name]) for name, parts in columns.items()})


def _read_measurements(file: Path) -> tuple[FlowMeasurement, ...]:
    table = pq.read_table(file)
    found = []
    for label in dict.fromkeys(table["label"].to_pylist()):
        rows = table.filter(pa.compute.equal(table["label"], label))
        mechanism = mechanism_from_json(json.loads(rows["mechanism"][0].as_py()))
        found.append(FlowMeasurement(label=label, values=rows["value"].to_numpy(), mechanism=mechanism))
    return tuple(found)


def read_commutes(path: Path, manifest: dict[str, Any]) -> CommuteRelease:
    """The release in a folder whose files were checked against its manifest."""
    places = read_places(str(path / PLACES))
    if places.fingerprint != manifest["places_fingerprint"]:
        raise InputError(f"the places in {path} are not those its manifest names.")
    files = tuple(path / f"synthetic_{copy}.parquet" for copy in range(1, len(manifest["rows"]) + 1))
    for file in files:
        if pq.read_schema(file).names != TABLE_SCHEMA.names:
            raise InputError(f"'{file.name}' in {path} does not have the columns of a table of commutes.")
    return CommuteRelease(
        places=places,
        files=files,
        measurements=_read_measurements(path / MEASUREMENTS),
        statement=statement_of(manifest),
        provenance=provenance_of(path, manifest, _draw),
    )


def _draw(draw: dict[str, Any]) -> dict[str, Any]:
    """One recorded draw: its label, and its mechanisms, whose priors are lists with an entry for each size."""
    mechanisms = [{text_in(key): value for key, value in one.items()} for one in draw["mechanisms"]]
    for one in mechanisms:
        text_in(one["mechanism"])
    return {**draw, "label": text_in(draw["label"]), "mechanisms": mechanisms}
