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
    """The name of the engine, for ``engine=``."""
    schema: Schema
    """The public schema of the opened table."""

    @classmethod
    def claims(cls, data: object) -> bool:
        """Say whether data are of a kind that only this engine reads, such as its own frames.

        Parameters
        ----------
        data
            What was given to ``open_source``.

        Returns
        -------
        bool
            Whether the engine takes them.
        """
        ...

    @classmethod
    def open(cls: type[Self], data: Any, schema: Schema, **reading: Any) -> Self:
        """Open a table. Opening checks the columns; what is unknown in ``reading`` is refused.

        Parameters
        ----------
        data
            What was given to ``open_source``.
        schema
            The public schema.
        **reading
            How the data are to be read.

        Returns
        -------
        Self
            The opened table.

        Raises
        ------
        SchemaError
            If the columns are not those of the schema.
        """
        ...

    def total(self) -> int:
        """Count the rows (of the bounded table, if it is bounded).

        Returns
        -------
        int
            The number of rows. Confidential unless the unit makes it public.
        """
        ...

    def count(self, margins: Sequence[tuple[str, ...]], progress: Progress | None = None) -> list[Counts]:
        """Count many margins in one scan.

        Parameters
        ----------
        margins
            The margins, as tuples of names of attributes.
        progress
            Called while it works, with what is done and what there is to do.

        Returns
        -------
        list[Counts]
            Dense counts of each margin, with one axis for each attribute in the order asked for.
        """
        ...

    def count_sparse(self, margin: tuple[str, ...], progress: Progress | None = None) -> SparseCounts:
        """Count a margin that may be too large for a dense table.

        Parameters
        ----------
        margin
            Names of attributes.
        progress
            Called while it works, with what is done and what there is to do.

        Returns
        -------
        SparseCounts
            The non-empty cells.
        """
        ...

    def bounded(self: Self, unit: Unit, stream: Words) -> Self:
        """Keep at most ``unit.rows_per_unit`` rows of each ``unit.unit_id``.

        Parameters
        ----------
        unit
            Who is protected.
        stream
            The keyed stream by which rows are chosen.

        Returns
        -------
        Self
            The bounded table.
        """
        ...

    def identify(self, key: bytes) -> None:
        """Take this key for the fingerprint, which the next scan can then make on its way.

        Parameters
        ----------
        key
            The secret key of the run.
        """
        ...

    def fingerprint(self) -> str:
        """Give the keyed sum over all rows, the same on every engine (``privacy.randomness``). Confidential.

        Returns
        -------
        str
            The sum as hexadecimal text.
        """
        ...


engines: Registry[type[Engine]] = Registry("engine", "understudy.engines.systems")
