"""All tables of an original and its synthetic copies, counted together and handed out one by one.

Dense tables are counted group by group, so that memory stays bounded whatever the number of tables; one scan of the
rows serves a whole group. A table with very many cells is counted by sorting, as only cells with somebody in
them can differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.table import CodedTable
from understudy.engines.counting.kernel import flat_cells
from understudy.engines.counting.tally import Tally

GROUP_CELLS = 2**24  # cells counted in one scan, per table of rows: 128 MB
DENSE_CELLS = 2**22  # a larger table is counted by sorting
LARGEST = 2**62  # cells that a 64-bit number can name
Pair = tuple[Integers, list[Integers]]


def count_together(
    original: CodedTable, copies: Sequence[CodedTable], margins: Sequence[tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], Integers, list[Integers]]]:
    """Each margin with the flat counts of the original and of every copy, over the same cells."""
    group: list[tuple[str, ...]] = []
    cells = 0
    for margin in margins:
        size = original.schema.cells(margin)
        if size > DENSE_CELLS:
            yield (margin, *_sorted(original, copies, margin))
            continue
        if group and cells + size > GROUP_CELLS:
            yield from _dense(original, copies, group)
            group, cells = [], 0
        group.append(margin)
        cells += size
    yield from _dense(original, copies, group)


def _dense(
    original: CodedTable, copies: Sequence[CodedTable], margins: list[tuple[str, ...]]
) -> Iterator[tuple[tuple[str, ...], Integers, list[Integers]]]:
    if not margins:
        return
    counted = [_count(table, margins) for table in (original, *copies)]
    for margin, first, *rest in zip(margins, *counted, strict=True):
        yield margin, first.ravel(), [one.ravel() for one in rest]


def _count(table: CodedTable, margins: list[tuple[str, ...]]) -> list[Integers]:
    place = {name: number for number, name in enumerate(table.schema.names)}
    columns = [tuple(place[name] for name in margin) for margin in margins]
    with Tally(table.schema.shape(), columns, rows=table.rows) as tally:
        tally.add(list(table.columns.values()))
        return tally.tables()


def _sorted(original: CodedTable, copies: Sequence[CodedTable], margin: tuple[str, ...]) -> Pair:
    counts = count_filled((original, *copies), margin)
    return counts[0], counts[1:]


def count_filled(tables: Sequence[CodedTable], margin: Sequence[str]) -> list[Integers]:
    """Counts of each table over the cells that are filled in any of them, by sorting the rows."""
    schema = tables[0].schema
    if schema.cells(margin) <= LARGEST:
        sizes = [schema[name].size for name in margin]
        flat = np.concatenate([flat_cells([table.columns[name] for name in margin], sizes) for table in tables])
        cells, place = np.unique(flat, return_inverse=True)
    else:  # too many cells to number: equal rows are found column by column
        rows = [np.concatenate([table.columns[name].astype(np.uint32) for table in tables]) for name in margin]
        cells, place = np.unique(np.stack(rows, axis=1), axis=0, return_inverse=True)
    bounds = np.cumsum([0, *(table.rows for table in tables)])
    place = place.ravel()
    return [np.bincount(place[begin:end], minlength=len(cells)) for begin, end in pairwise(bounds)]
