"""The release folder on disk, for every kind: Parquet, JSON and TOML only, every file listed with its hash."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.core.folders import SIGNATURE, as_path, publish_folder
from understudy.core.measurement import CODES, Measurement
from understudy.errors import InputError, UnderstudyError
from understudy.privacy.mechanisms.noise import mechanism_from_json
from understudy.release.kind import AnyRelease, Shape, WrittenTables, kind_of_release, kind_stated
from understudy.release.manifest import MANIFEST, manifest_text, read_manifest
from understudy.release.signing import read_signature

MEASUREMENTS, README = "measurements.parquet", "README.md"
MODEL = "model.parquet"  # where there is one
CODEBOOK = "codebook.csv"  # of tables
FINDING = "finding.parquet"  # where the schema left something open: the noisy counts by which it was found
NO_PERSON = "SYNTHETIC DATA. NO ROW IS A PERSON."
SYNTHETIC_MARK = {"description": NO_PERSON}  # in the metadata of every Parquet file with synthetic rows
TABLE_NAME = re.compile(r"(?:synthetic|households)_([1-9][0-9]{0,3})\.(parquet|csv|part-[0-9]{5,}\.parquet)")


# The errors that reading raises if a file does not say what a release says.
NOT_COMPLETE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, MemoryError, OSError,
                pa.ArrowException)  # fmt: skip


def write_release(
    release: AnyRelease,
    path: Path,
    *,
    overwrite: bool,
    csv: bool,
    write_tables: Callable[[Path], WrittenTables] | None = None,
    created: datetime | None = None,
) -> Path:
    """Write everything to a temporary sibling folder and rename it into place.

    ``write_tables`` puts the table files there itself, where they do not fit the memory of this process. ``created`` is
    the time that manifest and files state, where the moment of writing says something that nobody outside may know.
    """
    kind = kind_of_release(release)
    if kind is None:
        raise InputError(f"a {type(release).__name__} is not a release, so no release folder is made of it.")

    def fill(folder: Path) -> None:
        kind.write_beside(release, folder)
        written = kind.write_tables(release, folder, csv=csv) if write_tables is None else write_tables(folder)
        pq.write_table(measurement_table(release.measurements), folder / MEASUREMENTS, compression="zstd")
        (folder / README).write_text(kind.readme(release, written.rows), encoding="utf-8")
        files = {file.name: written.hashes.get(file.name) or hash_file(file) for file in sorted(folder.iterdir())}
        text = manifest_text(
            release.statement,
            release.provenance,
            rows=written.rows,
            files=files,
            domain=kind.about(release),
            created=created,
        )
        (folder / MANIFEST).write_text(text, encoding="utf-8")
        if created is not None:
            for file in folder.iterdir():
                os.utime(file, (created.timestamp(), created.timestamp()))

    publish_folder(
        path, fill, replaces=require_replaceable if overwrite else None, private=release.statement.protects_nobody
    )
    return path


def measurement_table(measurements: Sequence[Measurement]) -> pa.Table:
    """Long form: one row per noisy cell; what repeats is a dictionary of one value, so a large table stays small."""
    repeated = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([
        ("measurement", pa.int32()), ("label", repeated), ("margin", repeated), ("mechanism", repeated),
        ("cells", repeated), ("cell", pa.int64()), ("value", pa.int64()),
        *([("code", pa.string())] if any(one.cells == CODES for one in measurements) else []),
    ])  # fmt: skip
    batches = []
    for number, one in enumerate(measurements):
        flat = one.values.ravel()
        same = pa.array(np.zeros(len(flat), dtype=np.int32))
        texts = (one.label, json.dumps(list(one.margin)), json.dumps(one.mechanism.to_json()), one.cells)
        columns = [pa.DictionaryArray.from_arrays(same, pa.array([text])) for text in texts]
        numbers = pa.array(np.full(len(flat), number, dtype=np.int32))
        codes = pa.array(one.codes or [None] * len(flat), pa.string())  # where codes were found, they are told here
        parts = [numbers, *columns, pa.array(np.arange(len(flat))), pa.array(flat), codes]
        batches.append(pa.RecordBatch.from_arrays(parts[: len(schema)], schema=schema))
    return pa.Table.from_batches(batches, schema=schema).unify_dictionaries()


def hash_file(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check_files(path: Path, manifest: dict[str, Any]) -> None:
    """Exactly the listed files, each a plain file of its kind with its hash, and at most a signature beside them."""
    files = check_belongs(path, manifest)
    for name, stated in files.items():
        file = path / name
        if not os.path.lexists(file):
            raise InputError(f"{path} lacks the file '{name}' that its manifest lists.")
        if hash_file(file) != stated:
            raise InputError(f"'{name}' in {path} was changed after the release was written (its hash differs).")


def check_belongs(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Refuses a folder with anything in it that is not a plain file of a release: listed by its manifest, or its
    signature."""
    files = manifest.get("files")
    domain = kind_stated(manifest, path).domain_file
    if not isinstance(files, dict) or not {domain, MEASUREMENTS, README} <= set(files) or not table_files(files, 1):
        raise InputError(f"the manifest of {path} does not list the files a release has.")
    for name in files:
        known = (domain, MEASUREMENTS, MODEL, CODEBOOK, FINDING, README)
        if name not in known and not TABLE_NAME.fullmatch(str(name)):
            raise InputError(f"the manifest of {path} lists '{name}', which does not belong in a release.")
    for file in sorted(path.iterdir()):
        if file.name not in files and file.name not in (MANIFEST, SIGNATURE):
            raise InputError(
                f"{path} holds '{file.name}', which its manifest does not list; a release holds nothing else."
            )
        if file.is_symlink() or not file.is_file():
            raise InputError(f"'{file.name}' in {path} is not a plain file; a release holds nothing else.")
    read_signature(path)  # refuses any other form, so that nothing can hide under its name
    return files


def require_replaceable(path: Path) -> None:
    """Refuses to delete a folder that is not wholly a release, judged by its format and the files it lists.

    The hashes are not compared: a release whose own files were edited or lost is replaced, as ``overwrite`` asks for.
    """
    try:
        check_belongs(path, read_manifest(path))
    except InputError as problem:
        raise InputError(
            f"{path} is not replaced, for it is not wholly a release: {problem} Choose another name, or remove it "
            "yourself."
        ) from None


def table_files(files: Iterable[str], copy: int) -> list[str]:
    """The Parquet files of one copy, in order: one, or its parts.

    >>> table_files(["synthetic_1.part-00001.parquet", "synthetic_1.part-00000.parquet", "synthetic_2.parquet"], 1)
    ['synthetic_1.part-00000.parquet', 'synthetic_1.part-00001.parquet']
    """
    return sorted(
        (name for name in files if name.startswith(f"synthetic_{copy}.") and name.endswith(".parquet")),
        key=lambda name: (len(name), name),
    )


def read_release(path: str | Path) -> AnyRelease:
    """Read a release folder back. Anything changed, unlisted or of another version is refused.

    Its tables stay in their files until they are asked for: ``frame`` reads one into memory, ``batches`` in pieces.

    Parameters
    ----------
    path
        The release folder.

    Returns
    -------
    AnyRelease
        The release: a ``Release`` of tables, or a ``CommuteRelease``.

    Raises
    ------
    InputError
        If the folder is no release, or is not as it was written.

    Examples
    --------
    >>> import tempfile, understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> table = us.wrap(make_people(50).select(list(small_schema().names)), small_schema())
    >>> us.read_release(table.write(tempfile.mkdtemp() + "/release")).frame().to_pylist() == table.frame().to_pylist()
    True
    """
    path = as_path(path, "the release")
    manifest = read_manifest(path)
    check_files(path, manifest)
    return build_release(path, manifest)


def build_release(path: Path, manifest: dict[str, Any]) -> AnyRelease:
    """The release in a folder whose files were checked against its manifest."""
    try:
        release: AnyRelease = kind_stated(manifest, path).read(path, manifest)
        return release
    except UnderstudyError:
        raise
    except NOT_COMPLETE as problem:
        raise InputError(f"{path} is not a complete release ({type(problem).__name__}).") from None


def read_measurements(table: pa.Table, shape_of: Shape) -> tuple[Measurement, ...]:
    """The measurements of a release; ``shape_of`` says how the values of one are laid out."""
    numbers = table["measurement"].to_numpy()
    found = []
    for number in np.unique(numbers):
        rows = table.filter(pa.array(numbers == number))
        margin = tuple(json.loads(rows["margin"][0].as_py()))
        cells = rows["cells"][0].as_py()
        shape = shape_of(margin, cells, len(rows))
        values = np.zeros(prod(shape), dtype=np.int64)
        values[rows["cell"].to_numpy()] = rows["value"].to_numpy()
        found.append(
            Measurement(
                margin=margin,
                values=values.reshape(shape),
                mechanism=mechanism_from_json(json.loads(rows["mechanism"][0].as_py())),
                cells=cells,
                label=rows["label"][0].as_py(),
                codes=tuple(rows["code"].to_pylist()) if cells == CODES else (),
            )
        )
    return tuple(found)
