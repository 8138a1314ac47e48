"""A table as small-integer codes: what synthesizers make and what counting kernels read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.schema import Schema
from understudy.errors import InputError

Codes = NDArray[np.integer]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class CodedTable:
    """Columns of codes, one per attribute of the schema, in schema order."""

    schema: Schema
    columns: Mapping[str, Codes]

    def __post_init__(self) -> None:
        if set(self.columns) != set(self.schema.names):
            raise InputError("a coded table needs exactly the attributes of its schema.")
        object.__setattr__(self, "columns", {name: self.columns[name] for name in self.schema.names})
        if len({len(column) for column in self.columns.values()}) > 1:
            raise InputError("the columns of a coded table differ in length.")

    @classmethod
    def from_cells(cls, schema: Schema, cells: NDArray[np.int64]) -> CodedTable:
        """Rows given by the flat number of their cell in the full cross-tabulation (last attribute fastest)."""
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
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"CodedTable({self.rows} rows x {len(self.columns)} attributes)"

    def counts(self, margin: Sequence[str]) -> NDArray[np.int64]:
        """Dense cross-tabulation of a margin."""
        shape = self.schema.shape(margin)
        if not margin:
            return np.array(self.rows, dtype=np.int64)
        flat = np.ravel_multi_index(tuple(self.columns[name].astype(np.int64) for name in margin), shape)
        return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(np.int64)
