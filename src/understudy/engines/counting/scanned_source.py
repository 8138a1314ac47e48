"""What every engine does in the same way: check the columns, recognise the rows, and count sparsely by way of a dense
table where that is faster. An engine adds how it scans.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import numpy as np

from understudy.core.arrays import Progress
from understudy.core.counts import Counts, SparseCounts
from understudy.core.schema import Schema
from understudy.engines.engine import DENSE_CELLS
from understudy.engines.reading.encode import check_columns
from understudy.errors import DisclosureError, InputError, InternalError, UnsupportedError, unknown_name
from understudy.privacy.promise.definition import Unit

# What every engine makes of a request before it looks at a row: margins checked and limited, units compared.


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


class ScannedSource(ABC):
    """A confidential table behind its public schema. It answers with counts, which only the gate may hold."""

    def __init__(self, schema: Schema, columns: Collection[str], *, unit_id: str | None) -> None:
        if unit_id is not None and unit_id not in columns:
            raise unknown_name("the unit's id:", unit_id, columns, error=InputError)
        check_columns(columns, schema, unit_id=unit_id)
        self.schema = schema
        self._unit_id = unit_id
        self._unit: Unit | None = None  # for which the source is bounded
        self._total: int | None = None
        self._fingerprint_key: bytes | None = None
        self._fingerprint: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.schema.names)} attributes, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("a source is confidential and cannot be saved; open it again where the data are.")

    def total(self) -> int:
        """The number of rows (of the bounded table, if it is bounded)."""
        if self._total is None:
            self._scan_every_row()
        assert self._total is not None  # noqa: S101  (a scan that ends has set it)
        return self._total

    def identify(self, key: bytes) -> None:
        """Take this key for the fingerprint. The next scan, whatever it is for, hashes the rows on its way."""
        self._fingerprint_key, self._fingerprint = key, None

    def fingerprint(self) -> str:
        """The keyed sum over all rows (``privacy.randomness.fingerprint``), the same on every engine. Confidential."""
        if self._fingerprint is None:
            self._scan_every_row()
        if self._fingerprint is None:
            raise InternalError("a source has a fingerprint only under a key; identify it first.")
        return self._fingerprint

    def count_sparse(self, margin: tuple[str, ...], progress: Progress | None = None) -> SparseCounts:
        """The non-empty cells by flat number, last attribute fastest. Memory grows with them, not with the domain."""
        wanted = check_margin(self.schema, margin)
        domain = sparse_domain(self.schema, wanted)
        if domain <= DENSE_FIRST:
            return filled_cells(self.count([wanted], progress)[0])
        return self._count_large(wanted, domain, progress)

    @abstractmethod
    def count(self, margins: Sequence[tuple[str, ...]], progress: Progress | None = None) -> list[Counts]:
        """Dense counts of many margins; the first scan checks every row against the schema."""

    @abstractmethod
    def _count_large(self, margin: tuple[str, ...], domain: int, progress: Progress | None) -> SparseCounts:
        """The non-empty cells of a domain that is too large for a dense table."""

    @abstractmethod
    def _scan_every_row(self) -> None:
        """A scan for its own sake: afterwards the number of rows is known, and their fingerprint if a key was given."""

    def _key_of_this_scan(self) -> bytes | None:
        """The key under which the scan that begins has to hash the rows; None if it need not."""
        return self._fingerprint_key if self._fingerprint is None else None

    def _scanned(self, rows: int, fingerprint: str | None) -> None:
        """Notes what a finished scan found; data that change during a run are refused."""
        if self._total is not None and rows != self._total:
            raise InputError("the data changed between two scans; nothing may write to them during a run.")
        self._total = rows
        self._fingerprint = self._fingerprint if fingerprint is None else fingerprint
