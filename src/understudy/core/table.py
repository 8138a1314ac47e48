"""A table as small-integer codes: what synthesizers make and what counting kernels read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Progress
from understudy.core.counts import Counts, SparseCounts
from understudy.core.schema import Schema
from understudy.errors import InputError

Codes = NDArray[np.integer]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class CodedTable:
    """Columns of codes, one per attribute of the schema, in schema order.

    Raises
    ------
    InputError
        If the columns are not those of the schema, or differ in length.
    """

    schema: Schema
    """The schema that gives the codes their meaning."""
    columns: Mapping[str, Codes]
    """The codes of each attribute, by name."""

    def __post_init__(self) -> None:
        if set(self.columns) != set(self.schema.names):
            raise InputError("a coded table needs exactly the attributes of its schema.")
        object.__setattr__(self, "columns", {name: self.columns[name] for name in self.schema.names})
        if len({len(column) for column in self.columns.values()}) > 1:
            raise InputError("the columns of a coded table differ in length.")

    @classmethod
    def from_cells(cls, schema: Schema, cells: NDArray[np.int64]) -> CodedTable:
        """Make a table of rows that are given by the flat number of their cell in the full cross-tabulation.

        Parameters
        ----------
        schema
            The schema.
        cells
            One cell number for each row; the last attribute varies fastest.

        Returns
        -------
        CodedTable
            The table.
        """
        parts = np.unravel_index(cells, schema.shape())
        return cls(
            schema=schema,
            columns={
                name: part.astype(np.min_scalar_type(max(schema[name].size - 1, 0)))
                for name, part in zip(schema.names, parts, strict=True)
            },
        )

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"CodedTable({self.rows} rows x {len(self.columns)} attributes)"

    def counts(self, margin: Sequence[str]) -> NDArray[np.int64]:
        """Count the rows of each cell of a margin.

        Parameters
        ----------
        margin
            Names of attributes.

        Returns
        -------
        NDArray[np.int64]
            A dense table of counts with one axis for each attribute.
        """
        shape = self.schema.shape(margin)
        if not margin:
            return np.array(self.rows, dtype=np.int64)
        flat = np.ravel_multi_index(tuple(self.columns[name].astype(np.int64) for name in margin), shape)
        return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(np.int64)


class CodedSource:
    """Coded rows in memory behind the interface of a source: one reading of a file serves many runs."""

    def __init__(self, table: CodedTable) -> None:
        self.table = table
        self.schema = table.schema

    def total(self) -> int:
        return self.table.rows

    def count(self, margins: Sequence[tuple[str, ...]], progress: Progress | None = None) -> list[Counts]:  # noqa: ARG002
        return [Counts(margin=tuple(margin), values=self.table.counts(margin)) for margin in margins]

    def count_sparse(self, margin: tuple[str, ...], progress: Progress | None = None) -> SparseCounts:  # noqa: ARG002
        """By the rows alone, because the table of all cells may be too large to hold."""
        columns = tuple(self.table.columns[name].astype(np.int64) for name in margin)
        cells, counts = np.unique(np.ravel_multi_index(columns, self.schema.shape(margin)), return_counts=True)
        return SparseCounts(
            margin=tuple(margin), domain_cells=self.schema.cells(margin), _cells=cells.astype(np.int64), _values=counts
        )
