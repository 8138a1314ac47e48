"""What every engine makes of a request before it looks at a row: margins checked and limited, units compared."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from understudy.core.counts import Counts, SparseCounts
from understudy.core.schema import Schema
from understudy.engines.engine import DENSE_CELLS
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.privacy.promise.definition import Unit

DENSE_FIRST = 2**22  # cells of a domain up to which sparse counts are made from a dense table, which is faster


def check_margin(schema: Schema, margin: Sequence[str]) -> tuple[str, ...]:
    """The margin in the order asked for; unknown and repeated names are refused."""
    schema.margin(margin)
    return tuple(margin)


def dense_cells(schema: Schema, margin: tuple[str, ...]) -> int:
    """The cells of a margin, if a dense table can hold them."""
    cells = schema.cells(margin)
    if cells > DENSE_CELLS:
        raise UnsupportedError(
            f"the margin {' x '.join(margin)} has {cells:,} cells, above the limit of {DENSE_CELLS:,} for a dense "
            "table; use fewer attributes, fewer levels or wider bins, or a method that measures smaller margins."
        )
    return cells


def sparse_domain(schema: Schema, margin: tuple[str, ...]) -> int:
    """The cells of a margin, if they can be numbered."""
    cells = schema.cells(margin)
    if cells >= 2**63:
        raise UnsupportedError(
            f"the margin {' x '.join(margin)} has {cells:.3g} cells, too many to number with 64 bits (9.22e+18); "
            "use fewer attributes, fewer levels or wider bins."
        )
    return cells


def needed_attributes(schema: Schema, margins: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The attributes of some margins; at least one, because a scan that counts rows needs a column."""
    return schema.margin({name for margin in margins for name in margin}) or schema.names[:1]


def filled_cells(counts: Counts) -> SparseCounts:
    """The non-empty cells of a dense table, by flat number."""
    table = counts.values.ravel()
    cells = np.flatnonzero(table)
    return SparseCounts(margin=counts.margin, domain_cells=len(table), _cells=cells, _values=table[cells])


def must_be_bounded(unit: Unit, bounded_for: Unit | None, columns: Collection[str]) -> bool:
    """Whether a source has to be bounded for a unit: not if the unit names no id, or if it was bounded for it."""
    if unit.unit_id is None:
        return False
    if bounded_for is not None:
        if (bounded_for.unit_id, bounded_for.rows_per_unit) == (unit.unit_id, unit.rows_per_unit):
            return False
        raise InputError("this source is bounded already for another unit; open it again.")
    if unit.unit_id not in columns:
        raise unknown_name("the unit's id:", unit.unit_id, columns, error=InputError)
    return True
