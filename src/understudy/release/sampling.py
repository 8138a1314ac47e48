"""More rows from a release that was measured: post-processing of what is public, so it costs no privacy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from understudy.core.mechanism import Stream
from understudy.engines.reading.decode import decode
from understudy.errors import InputError, UnsupportedError
from understudy.release.memory import BYTES_PER_VALUE, available_memory
from understudy.release.parts import NOTE, Recipe, sample_here, sample_on_spark
from understudy.release.table_release import Release, require_table


def sample_again(release: Release, *, rows: int, copies: int, stream: Stream, **size: int) -> Release:
    """A release with the same promise and measurements, and new tables of any size drawn from them.

    Refused where the rows were drawn from the data themselves (``dirichlet``): there the posterior is the data, and
    another draw is another charge. Tables of more than a million rows are drawn in blocks (see ``parts``).
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
    release: Release, path: Path, *, rows: int, copies: int, stream: Stream, session: Any = None, overwrite: bool,
    csv: bool = False, **size: int,
) -> Path:  # fmt: skip
    """The same, written as a release folder block by block: no table is ever whole in memory.

    With a Spark ``session`` its executors write it, in parts.
    """
    recipe = Recipe.of(require_table(release, "sample"), rows=rows, copies=copies, **size)
    if not recipe.in_parts:
        return sample_again(release, rows=rows, copies=copies, stream=stream).write(path, overwrite=overwrite, csv=csv)
    if session is None:
        return sample_here(release, path, recipe=recipe, key=_key(stream), overwrite=overwrite, csv=csv)
    return sample_on_spark(release, path, recipe=recipe, session=session, key=_key(stream), overwrite=overwrite)


def _key(stream: Stream) -> Any:
    """The key of everything a sample draws; the stream must be a fresh one."""
    if not hasattr(stream, "hand_out"):
        raise UnsupportedError(f"a {type(stream).__name__} has no key, so a table cannot be drawn in parts.")
    return stream.hand_out()
