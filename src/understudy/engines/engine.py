"""What an engine is: one system that can count a confidential table, behind one Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from understudy.core.arrays import Progress
from understudy.core.counts import Counts, SparseCounts
from understudy.core.mechanism import Words
from understudy.core.registry import Registry
from understudy.core.schema import Schema
from understudy.privacy.promise.definition import Unit

Self = TypeVar("Self", bound="Engine")

DENSE_CELLS = 2**27  # cells of one dense margin: 1 GB of 64-bit counts


@runtime_checkable
class Engine(Protocol):
    """A confidential table opened by one system. Every method may scan the table; none returns a row."""

    name: ClassVar[str]
    schema: Schema

    @classmethod
    def claims(cls, data: object) -> bool:
        """Whether data are of a kind that only this engine reads, such as its own frames."""
        ...

    @classmethod
    def open(cls: type[Self], data: Any, schema: Schema, **reading: Any) -> Self:
        """A table of this engine's. Opening checks the columns; what is unknown in ``reading`` is refused."""
        ...

    def total(self) -> int:
        """The number of rows (of the bounded table, if it is bounded)."""
        ...

    def count(self, margins: Sequence[tuple[str, ...]], progress: Progress | None = None) -> list[Counts]:
        """Dense counts of many margins in one scan, each with one axis per attribute in the order asked for."""
        ...

    def count_sparse(self, margin: tuple[str, ...], progress: Progress | None = None) -> SparseCounts:
        """The non-empty cells of a margin that may be too large for a dense table."""
        ...

    def bounded(self: Self, unit: Unit, stream: Words) -> Self:
        """The same table with at most ``unit.rows_per_unit`` rows of each ``unit.unit_id``."""
        ...

    def identify(self, key: bytes) -> None:
        """Know the rows by this key from now on, so that the next scan can make their fingerprint on its way."""
        ...

    def fingerprint(self) -> str:
        """The keyed sum over all rows (``privacy.randomness.fingerprint``), the same on every engine. Confidential."""
        ...


engines: Registry[type[Engine]] = Registry("engine", "understudy.engines.systems")
