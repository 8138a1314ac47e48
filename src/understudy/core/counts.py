"""Cross-tabulated counts. Confidential: only the gate may hold them, and nothing here can be written anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.schema import Schema
from understudy.errors import DisclosureError, InputError

COVERS = ("whole_domain",)  # the law of the mechanism gives every cell of the public domain, empty or not


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Counts:
    """A dense table of counts over the whole public domain of a margin, empty cells included."""

    margin: tuple[str, ...]
    values: Integers

    def __post_init__(self) -> None:
        values = np.asarray(self.values)
        if values.dtype.kind not in "iu" or values.ndim != len(self.margin):
            raise InputError("counts need one integer axis per attribute of the margin.")
        object.__setattr__(self, "values", values.astype(np.int64, copy=False))

    def __repr__(self) -> str:
        return f"Counts({' x '.join(self.margin) or 'total'}, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("counts are confidential and cannot be saved; measure them through the gate.")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class SparseCounts:
    """The non-empty cells of a margin too large for a dense table.

    Which cells are listed is itself confidential: noise on the listed cells alone would reveal the support. So the
    type hands out its cells only to a mechanism that declares how it covers the cells that are not listed.
    """

    margin: tuple[str, ...]
    domain_cells: int
    _cells: Integers
    _values: Integers

    def __repr__(self) -> str:
        return f"SparseCounts({' x '.join(self.margin)}, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("counts are confidential and cannot be saved; measure them through the gate.")

    def open_for(self, mechanism: object) -> tuple[Integers, Integers]:
        """Flat cell numbers and counts, for a mechanism whose law covers every cell of the public domain."""
        covers = getattr(mechanism, "covers", None)
        if covers not in COVERS:
            raise DisclosureError(
                f"{type(mechanism).__name__} would add noise to the listed cells only, which reveals which cells are "
                "not empty. Use a mechanism over the whole domain."
            )
        return self._cells, self._values


@runtime_checkable
class Source(Protocol):
    """A confidential table that an engine can count. ``count`` makes one scan however many margins are asked for."""

    schema: Schema

    def total(self) -> int: ...

    def count(
        self, margins: Sequence[tuple[str, ...]], progress: Callable[[int, int | None], None] | None = None
    ) -> list[Counts]: ...

    def count_sparse(self, margin: tuple[str, ...]) -> SparseCounts: ...


@runtime_checkable
class Recognizable(Protocol):
    """Confidential data that a resumed run can know again."""

    def identify(self, key: bytes) -> None:
        """Know the rows by this key from now on, so that the next scan can hash them on its way."""
        ...

    def fingerprint(self) -> str:
        """A keyed sum over all rows that does not depend on their order. Confidential."""
        ...
