"""More rows from a release that was measured: post-processing of what is public, so it costs no privacy.

A copy of more than ``BLOCK_ROWS`` rows is drawn in blocks, each from the same model with words of its own, and a part
is some blocks in one file, written on this machine or on the executors of a Spark cluster. What a part holds follows
from the release, the key, the copy and the number of the part, so it does not matter where or how often a part is
drawn. Every block keeps the law of its rows: with ``rounding`` each block is rounded by itself.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.phases import tell
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.engines.reading.decode import decode, share_of_population
from understudy.engines.systems.spark.tasks import Shared
from understudy.errors import InputError, UnsupportedError
from understudy.models.published_model import Fitted
from understudy.privacy.promise.plan import Plan
from understudy.privacy.randomness.draws import KeyedStream, TravellingKey
from understudy.release.csv_file import csv_table
from understudy.release.folder import SYNTHETIC_MARK, hash_file, write_release
from understudy.release.kind import AnyRelease, WrittenTables
from understudy.release.table_release import Release, require_table
from understudy.synth.shared.found_columns import after_finding
from understudy.synth.shared.method import Redrawing, Request, Synthesis, configure

BLOCK_ROWS = 2**20
PART_BLOCKS = 8  # one fit serves a whole part, and the codes of its blocks are in memory together
LARGEST_SAMPLE = 10**12
NOTE = "Drawn again from its measurements."
SHARED_BY_BLOCKS = "bootstrap"  # random words for the fit alone: the same for every part, so all have one model


def sample_again(release: Release, *, rows: int, copies: int, stream: Stream, **size: int) -> Release:
    """A release with the same promise and measurements, and new tables of any size drawn from them.

    Refused where the rows were drawn from the data themselves (``dirichlet``): there the posterior is the data, and
    another draw is another charge. Tables of more than a million rows are drawn in blocks (see above).
    """
    recipe = Recipe.of(require_table(release, "sample"), rows=rows, copies=copies, **size)
    needed, available = rows * copies * len(release.schema.names) * BYTES_PER_VALUE, available_memory()
    if needed > available:
        raise InputError(
            f"{copies} table(s) of {rows:,} rows need about {needed / 2**30:.1f} GB of memory, and "
            f"{available / 2**30:.1f} GB are available. Write them to a folder as they are drawn (write_sample, or the "
            "command sample), or ask for fewer rows or copies."
        )
    if recipe.in_parts:
        key = _key(stream)
        tables = tuple(
            pa.concat_tables([block for part in range(recipe.parts) for block in recipe.blocks(key, copy, part)])
            for copy in range(1, copies + 1)
        )
    else:
        drawn = recipe.tables(rows, copies, stream)
        tables = tuple(decode(table, stream, "decode", copy) for copy, table in enumerate(drawn, start=1))
    return replace(
        release,
        tables=tables,
        provenance=replace(release.provenance, notes=(*recipe.plan.notes, NOTE)),
    )


def sample_to(
    release: AnyRelease, path: Path, *, rows: int, copies: int, stream: Stream, session: Any = None, overwrite: bool,
    csv: bool = False, **size: int,
) -> Path:  # fmt: skip
    """The same, written as a release folder block by block: no table is ever whole in memory.

    With a Spark ``session`` its executors write it, in parts.
    """
    tables = require_table(release, "sample")
    recipe = Recipe.of(tables, rows=rows, copies=copies, **size)
    if not recipe.in_parts:
        return sample_again(tables, rows=rows, copies=copies, stream=stream).write(path, overwrite=overwrite, csv=csv)
    if session is None:
        return sample_here(tables, path, recipe=recipe, key=_key(stream), overwrite=overwrite, csv=csv)
    return sample_on_spark(tables, path, recipe=recipe, session=session, key=_key(stream), overwrite=overwrite)


def _key(stream: Stream) -> Any:
    """The key of everything a sample draws; the stream must be a fresh one."""
    if not hasattr(stream, "hand_out"):
        raise UnsupportedError(f"a {type(stream).__name__} has no key, so a table cannot be drawn in parts.")
    return stream.hand_out()


class PartStream:
    """A task's stream whose words belong to one part, save those of the fit."""

    def __init__(self, stream: KeyedStream, *part: int) -> None:
        self.secure = stream.secure
        self._stream = stream
        self._part = part

    def words(self, count: int, *purpose: str | int) -> NDArray[np.uint64]:
        if SHARED_BY_BLOCKS in purpose:
            return self._stream.words(count, *purpose)
        return self._stream.words(count, *purpose, "part", *self._part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything public that a part is made from."""

    schema: Schema
    plan: Plan
    measurements: tuple[Measurement, ...]
    records: int | None
    rows: int
    fitted: Fitted | None = None  # draws without fitting again, where the release holds its model
    block_rows: int = BLOCK_ROWS
    part_blocks: int = PART_BLOCKS

    @classmethod
    def of(cls, release: Release, *, rows: int, copies: int, **size: int) -> Recipe:
        """Refuses a release whose rows cannot be drawn again."""
        plan = release.provenance.plan
        if plan is None:
            raise InputError("this release was not made by understudy; nothing says how to draw from it.")
        for name, value, most in (("rows", rows, LARGEST_SAMPLE), ("copies", copies, None)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1 or (most and value > most):
                raise InputError(f"{name} ({value!r}) must be a whole number from 1 to {most or 1000:,}.")
        Request(budget=plan.budget, unit=plan.unit, copies=copies)
        again = isinstance(configure(plan.method, plan.options), Redrawing) and release.measurements
        if release.fitted is None and not again:
            raise UnsupportedError(
                f"rows of method '{plan.method}' are drawn from the data themselves, so another draw is another "
                "charge: make another release with synthesize."
            )
        if release.fitted is None and plan.unit.fixed and plan.method != "histogram":
            raise UnsupportedError(
                "the exact counts of fixed attributes were used, and this release holds no model that knows them; make "
                "another release."
            )
        recipe = cls(
            schema=release.schema,
            plan=replace(after_finding(plan, release.schema), rows=rows, copies=copies),
            measurements=release.measurements,
            records=release.provenance.records, rows=rows, fitted=release.fitted, **size,
        )  # fmt: skip
        if recipe.in_parts and plan.options.get("draws") == "posterior":
            raise UnsupportedError(
                f"with draws = posterior every copy is one draw of the posterior and is not divided; ask for at most "
                f"{recipe.block_rows:,} rows."
            )
        return recipe

    @property
    def in_parts(self) -> bool:
        return self.rows > self.block_rows

    @property
    def part_rows(self) -> int:
        return self.block_rows * self.part_blocks

    @property
    def parts(self) -> int:
        """Parts of each copy."""
        return -(-self.rows // self.part_rows)

    def tables(self, rows: int, copies: int, stream: Any) -> Iterator[CodedTable]:
        """Tables one after the other: from the model if there is one, so that one block at a time is in memory."""
        if self.fitted is None:
            yield from self.again(rows, copies, stream).tables
            return
        for copy in range(1, copies + 1):
            yield self.fitted.draw(self.schema, rows, stream, "rows", copy)

    def again(self, rows: int, copies: int, stream: Any) -> Synthesis:
        plan = replace(self.plan, rows=rows, copies=copies)
        synthesizer: Any = configure(plan.method, plan.options)
        made: Synthesis = synthesizer.redraw(plan, self.schema, self.measurements, self.records, stream)
        return made

    def blocks(self, key: TravellingKey, copy: int, part: int) -> Iterator[pa.Table]:
        """The rows of one part, block by block."""
        stream = PartStream(key.stream(), copy, part)
        left = min(self.part_rows, self.rows - part * self.part_rows)
        whole, rest = divmod(left, self.block_rows)
        number = 0
        for rows, copies in ((self.block_rows, whole), (rest, 1)):
            if not rows or not copies:
                continue
            own = PartStream(key.stream(), copy, part, rows)  # the incomplete block is another draw than a whole one
            for table in self.tables(rows, copies, own):
                number += 1
                made = decode(table, stream, "decode", number)  # type: ignore[arg-type]  # words are all it takes
                yield share_of_population(made, self.schema, made.num_rows / self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePart:
    """Writes one part of one copy; runs where there is room, and says how many rows it wrote and their hash."""

    recipe: Shared
    key: TravellingKey
    folder: str

    def __call__(self, number: int) -> dict[str, Any]:
        recipe: Recipe = self.recipe.value
        copy, part = divmod(number, recipe.parts)
        name = part_name(copy + 1, part)
        if not os.path.isdir(self.folder):
            raise InputError(f"{self.folder} does not exist on a worker; write to a folder that every machine sees.")
        # A task may run twice at once; whichever is renamed last has the same rows.
        scratch = os.path.join(self.folder, f".{name}.{secrets.token_hex(8)}")
        rows = write_blocks(recipe.blocks(self.key, copy + 1, part), scratch)
        digest = hash_file(Path(scratch))
        os.replace(scratch, os.path.join(self.folder, name))
        return {"name": name, "copy": copy + 1, "rows": rows, "hash": digest}


def write_here(recipe: Recipe, key: TravellingKey, folder: Path, *, csv: bool) -> WrittenTables:
    """Every copy as one file, block by block: memory does not grow with the number of rows."""
    rows = []
    for copy in range(1, recipe.plan.copies + 1):
        blocks = _counted(recipe, key, copy)
        name = folder / f"synthetic_{copy}"
        rows.append(write_blocks(blocks, f"{name}.parquet", csv=f"{name}.csv" if csv else None))
    return WrittenTables(rows=tuple(rows), hashes={})


def _counted(recipe: Recipe, key: TravellingKey, copy: int) -> Iterator[pa.Table]:
    """The blocks of one copy, one after the other; says how many parts of all copies are drawn."""
    total = recipe.parts * recipe.plan.copies
    for part in range(recipe.parts):
        tell("drawing rows", (copy - 1) * recipe.parts + part, total)
        yield from recipe.blocks(key, copy, part)


def part_name(copy: int, part: int) -> str:
    return f"synthetic_{copy}.part-{part:05d}.parquet"


def write_blocks(blocks: Iterator[pa.Table], path: str, csv: str | None = None) -> int:
    """Blocks into one Parquet file, and into one CSV file too if that is named; gives the rows."""
    writers: list[Any] = []
    rows = 0
    try:
        for table in blocks:
            plain = csv_table(table) if csv else table
            if not writers:
                marked = table.schema.with_metadata({**(table.schema.metadata or {}), **SYNTHETIC_MARK})
                writers.append(pq.ParquetWriter(path, marked, compression="zstd"))
                writers += [pyarrow.csv.CSVWriter(csv, plain.schema)] if csv else []
            for writer, form in zip(writers, (table, plain), strict=False):
                writer.write_table(form)
            rows += table.num_rows
    finally:
        for writer in writers:
            writer.close()
    return rows


def write_on_spark(recipe: Recipe, session: Any, key: TravellingKey, folder: Path) -> WrittenTables:
    """Every part of every copy, written by the executors into a folder that they all see."""
    from understudy.engines.systems.spark.source import map_numbers, share

    work = WritePart(recipe=share(session, recipe), key=key, folder=str(folder))
    count = recipe.parts * recipe.plan.copies
    written = map_numbers(session, work, count, tasks=count, with_key=True)
    rows = [sum(one["rows"] for one in written if one["copy"] == copy + 1) for copy in range(recipe.plan.copies)]
    return WrittenTables(rows=tuple(rows), hashes={one["name"]: one["hash"] for one in written})


def sample_here(
    release: Release, path: Path, *, recipe: Recipe, key: TravellingKey, overwrite: bool, csv: bool
) -> Path:
    """A release folder whose tables were written as they were drawn."""
    described = replace(release, provenance=replace(release.provenance, notes=(*recipe.plan.notes, NOTE)))
    return write_release(
        described, path, overwrite=overwrite, csv=False,
        write_tables=lambda folder: write_here(recipe, key, folder, csv=csv),
    )  # fmt: skip


def sample_on_spark(
    release: Release, path: Path, *, recipe: Recipe, session: Any, key: TravellingKey, overwrite: bool
) -> Path:
    """A release folder of tables that were never in this process."""
    notes = (*recipe.plan.notes, NOTE)
    described = replace(release, provenance=replace(release.provenance, notes=notes))
    return write_release(
        described, path, overwrite=overwrite, csv=False,
        write_tables=lambda folder: write_on_spark(recipe, session, key, folder),
    )  # fmt: skip


# Whether tables fit into the memory of this machine, asked before anything is spent on them.


BYTES_PER_VALUE = 10  # a decoded value and its code
BYTES_PER_ROW = 48  # the cell of a row while rows are drawn and shuffled


def available_memory() -> int:
    """Bytes a new table may take: what Linux calls available (file caches can be freed), otherwise the whole memory."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
