"""All tables of an original and its synthetic copies, counted together and handed out one by one.

Dense tables are counted group by group, so that memory stays bounded whatever the number of tables; one scan of the
rows serves a whole group. A table with very many cells is counted by sorting, as only cells with somebody in
them can differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from understudy.core.table import CodedTable
from understudy.engines.tally import Tally
from understudy.errors import UnsupportedError

Integers = NDArray[np.int64]
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
    tables = (original, *copies)
    flat = [flat_cells(table, margin) for table in tables]
    cells, place = np.unique(np.concatenate(flat), return_inverse=True)
    bounds = np.cumsum([0, *(len(one) for one in flat)])
    counts = [np.bincount(place[begin:end], minlength=len(cells)) for begin, end in pairwise(bounds)]
    return counts[0], counts[1:]


def flat_cells(table: CodedTable, margin: Sequence[str]) -> Integers:
    """The number of the cell each row is in, last attribute fastest."""
    if table.schema.cells(margin) > LARGEST:
        raise UnsupportedError(
            f"the table {' x '.join(margin)} has {table.schema.cells(margin):.3g} cells, too many to number; "
            "ask for tables of fewer attributes."
        )
    flat = np.zeros(table.rows, np.int64)
    for name in margin:
        flat *= table.schema[name].size
        flat += table.columns[name]
    return flat
