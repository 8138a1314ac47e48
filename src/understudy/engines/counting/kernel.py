"""Adding rows of codes to many dense tables at once: compiled by numba, or the same with numpy.

Both kernels take the same :class:`Layout` and give the same counts. numba's is four times as fast
but takes a third of a second to load (and, once per machine, a second to compile), so small work is numpy's. The
variable ``UNDERSTUDY_KERNEL`` chooses by hand.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.table import Codes
from understudy.errors import InputError, InternalError

VARIABLE = "UNDERSTUDY_KERNEL"
CHOICES = ("auto", "numba", "numpy")
# Rows times tables. Below this numpy (3 ns for each, numba 0.8) is done before numba is loaded.
WORK_WORTH_LOADING = 2**26
NARROW = 2**8  # attributes of up to so many codes are read as bytes
CELLS_OF_A_TABLE = 2**32  # cell numbers have 32 bits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Where each table's cells lie in one flat array, and which columns make their numbers (last column fastest)."""

    sizes: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, sizes: Sequence[int], tables: Sequence[tuple[int, ...]]) -> Layout:
        cells = [prod(sizes[column] for column in table) for table in tables]
        if any(not table for table in tables) or any(count >= CELLS_OF_A_TABLE for count in cells):
            raise InternalError("a table to count needs a column, and fewer than 2^32 cells.")
        return cls(sizes=tuple(sizes), tables=tuple(tables), offsets=np.cumsum([0, *cells], dtype=np.int64))

    @property
    def cells(self) -> int:
        return int(self.offsets[-1])

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({column for table in self.tables for column in table}))


class Kernel(Protocol):
    """One way of counting. ``releases_gil`` says whether two threads with a target each are faster than one."""

    name: ClassVar[str]
    releases_gil: ClassVar[bool]

    def add(self, layout: Layout, columns: Sequence[Codes], target: NDArray[Any]) -> None:
        """Add every row to its cell of every table in ``target``, an array of ``layout.cells`` counts."""
        ...


class NumpyKernel:
    """One ``bincount`` per table."""

    name: ClassVar[str] = "numpy"
    releases_gil: ClassVar[bool] = False

    def add(self, layout: Layout, columns: Sequence[Codes], target: NDArray[Any]) -> None:
        _check_codes(layout, columns)
        for number, table in enumerate(layout.tables):
            cells = flat_cells([columns[column] for column in table], [layout.sizes[column] for column in table])
            part = target[layout.offsets[number] : layout.offsets[number + 1]]
            if len(part) <= 4 * len(cells):
                part += np.bincount(cells, minlength=len(part)).astype(part.dtype)
            else:  # a table far larger than the batch: touch only the cells that occur
                np.add.at(part, cells, 1)


class NumbaKernel:
    """One compiled pass over blocks of rows; see ``compiled``."""

    name: ClassVar[str] = "numba"
    releases_gil: ClassVar[bool] = True

    def __init__(self) -> None:
        from understudy.engines.counting import kernel_compiled as compiled

        self._tally = compiled.tally

    def add(self, layout: Layout, columns: Sequence[Codes], target: NDArray[Any]) -> None:
        _check_codes(layout, columns)
        used = layout.columns
        narrow = [column for column in used if layout.sizes[column] <= NARROW]
        wide = [column for column in used if layout.sizes[column] > NARROW]
        rows = len(columns[used[0]]) if used else 0
        parts = [column for table in layout.tables for column in table]
        self._tally(
            _stacked([columns[column] for column in narrow], rows, np.uint8),
            _stacked([columns[column] for column in wide], rows, np.uint32),
            np.cumsum([0, *map(len, layout.tables)], dtype=np.int64),
            np.array([layout.sizes[column] > NARROW for column in parts], bool),
            np.array([(wide if layout.sizes[c] > NARROW else narrow).index(c) for c in parts], np.int64),
            np.array([layout.sizes[column] for column in parts], np.uint32),
            layout.offsets,
            target,
        )


def kernel_for(work: int, choice: str | None = None) -> Kernel:
    """The kernel for so many rows times tables; ``choice``, or else ``UNDERSTUDY_KERNEL``, overrides that."""
    chosen = choice if choice is not None else os.environ.get(VARIABLE) or "auto"
    if chosen not in CHOICES:
        raise InputError(f"{VARIABLE} ({chosen!r}) must be one of {', '.join(CHOICES)}.")
    if chosen == "numpy" or (chosen == "auto" and work < WORK_WORTH_LOADING):
        return NumpyKernel()
    compiled = _numba_kernel()
    if isinstance(compiled, NumbaKernel):
        return compiled
    if chosen == "numba":
        raise InputError(f"{VARIABLE} is numba, which cannot be imported ({compiled}).")
    return NumpyKernel()


@cache
def _numba_kernel() -> NumbaKernel | ImportError:
    try:
        return NumbaKernel()
    except ImportError as problem:
        if os.environ.get(VARIABLE) != "numba":
            warnings.warn(
                f"numba cannot be imported ({problem}), so counting takes about four times as long. Install numba, or "
                f"set {VARIABLE}=numpy to count with numpy on purpose.",
                UserWarning,
                stacklevel=3,
            )
        return problem


def flat_cells(columns: Sequence[Codes], sizes: Sequence[int]) -> NDArray[np.int64]:
    """The number of every row's cell in a cross-tabulation, last column fastest."""
    cells = columns[0].astype(np.int64)
    for codes, size in zip(columns[1:], sizes[1:], strict=True):
        cells *= size
        cells += codes.astype(np.int64, copy=False)
    return cells


def _check_codes(layout: Layout, columns: Sequence[Codes]) -> None:
    """A code beyond its attribute would be counted in another cell, or written outside the table."""
    for column in layout.columns:
        codes = columns[column]
        if len(codes) and (int(codes.min()) < 0 or int(codes.max()) >= layout.sizes[column]):
            raise InternalError("a code lies outside its attribute; nothing was counted.")


def _stacked(columns: Sequence[Codes], rows: int, kind: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
    stacked = np.empty((len(columns), rows), kind)
    for row, codes in zip(stacked, columns, strict=True):
        row[:] = codes
    return stacked
