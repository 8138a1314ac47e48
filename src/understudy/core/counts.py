"""Cross-tabulated counts. Confidential: only the gate may hold them, and nothing here can be written anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.mechanism import Words
from understudy.core.schema import Schema
from understudy.errors import DisclosureError, InputError

COVERS = ("whole_domain",)  # the law of the mechanism gives every cell of the public domain, empty or not


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Counts:
    """A dense table of counts over the whole public domain of a margin, empty cells included.

    Raises
    ------
    InputError
        If the values are not whole numbers with one axis for each attribute.
    """

    margin: tuple[str, ...]
    """The attributes that were counted."""
    values: Integers
    """The counts, with one axis for each attribute."""

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
    """The attributes that were counted."""
    domain_cells: int
    """The number of cells of the public domain, empty ones included."""
    _cells: Integers
    _values: Integers

    def __repr__(self) -> str:
        return f"SparseCounts({' x '.join(self.margin)}, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("counts are confidential and cannot be saved; measure them through the gate.")

    def open_for(self, mechanism: object) -> tuple[Integers, Integers]:
        """Hand the cells to a mechanism whose law covers every cell of the public domain.

        Parameters
        ----------
        mechanism
            The mechanism that will see them.

        Returns
        -------
        tuple[Integers, Integers]
            Flat cell numbers, and the count of each.

        Raises
        ------
        DisclosureError
            If the mechanism would add noise to the listed cells only.
        """
        covers = getattr(mechanism, "covers", None)
        if covers not in COVERS:
            raise DisclosureError(
                f"{type(mechanism).__name__} would add noise to the listed cells only, which reveals which cells are "
                "not empty. Use a mechanism over the whole domain."
            )
        return self._cells, self._values


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class CodeCounts:
    """How often each code occurs in a column with codes to discover.

    Which codes occur is itself confidential. So the type hands them out only to a mechanism that is made for codes that
    occur, and whose delta covers those that only one unit has.
    """

    margin: tuple[str, ...]
    """The attribute."""
    _codes: tuple[str, ...]
    _values: Integers

    def __repr__(self) -> str:
        return f"CodeCounts({' x '.join(self.margin)}, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("counts are confidential and cannot be saved; measure them through the gate.")

    def open_for(self, mechanism: object) -> tuple[tuple[str, ...], Integers]:
        """Hand the codes to a mechanism that hides those which only one unit has.

        Parameters
        ----------
        mechanism
            The mechanism that will see them.

        Returns
        -------
        tuple[tuple[str, ...], Integers]
            The codes by their text, and the count of each.

        Raises
        ------
        DisclosureError
            If the mechanism would tell which codes occur.
        """
        if getattr(mechanism, "covers", None) != "codes_that_occur":
            raise DisclosureError(
                f"{type(mechanism).__name__} would tell which codes occur. Use a mechanism with a threshold."
            )
        return self._codes, self._values


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ClusterCounts:
    """What is counted of clusters: neighbours in classes of some attributes, and sizes."""

    neighbours: dict[str, Integers]
    """For each attribute how often a row of one class is followed by a row of another in its cluster."""
    sizes: Integers
    """How many others the rows have in their clusters in all, and how many rows there are."""

    def __repr__(self) -> str:
        return f"ClusterCounts({len(self.neighbours)} attributes, confidential)"

    def __reduce__(self) -> tuple[object, ...]:
        raise DisclosureError("counts are confidential and cannot be saved; measure them through the gate.")


@runtime_checkable
class Clustered(Protocol):
    """Confidential data whose rows can be told apart by clusters."""

    def require_clusters(self, column: str) -> None:
        """Refuse a column of clusters that is not in the data, or not filled in every row; nothing is told of it."""
        ...

    def count_clusters(
        self, column: str, classes: Mapping[str, Sequence[int]], *, largest: int, within: str, stream: Words
    ) -> ClusterCounts:
        """Count rows with the next row of their cluster, and the sizes of clusters. Confidential: for the gate alone.

        Parameters
        ----------
        column
            The column of clusters.
        classes
            For each attribute the class of each of its codes.
        largest
            Clusters of more rows count as clusters of so many.
        within
            An attribute in whose levels clusters are numbered (the sampling strata), or an empty text.
        stream
            Where the random order of the rows of a cluster comes from.

        Returns
        -------
        ClusterCounts
            The counts.
        """
        ...


@runtime_checkable
class Discoverable(Protocol):
    """Confidential data whose codes can be counted by their texts."""

    def count_codes(self, name: str, length: int | None) -> CodeCounts:
        """Count the texts of a column. Confidential: for the gate alone.

        Parameters
        ----------
        name
            An attribute whose codes are to be found. Missing values and texts that are too long do not count.
        length
            How many letters of each text are counted; ``None``: all. Texts that are no longer than that do not count.

        Returns
        -------
        CodeCounts
            The texts that occur, and how often.
        """
        ...


@runtime_checkable
class Source(Protocol):
    """A confidential table that an engine can count."""

    schema: Schema
    """The public schema of the table."""

    def total(self) -> int:
        """Count all rows. Confidential unless the unit makes the number public.

        Returns
        -------
        int
            The number of rows.
        """
        ...

    def count(
        self, margins: Sequence[tuple[str, ...]], progress: Callable[[int, int | None], None] | None = None
    ) -> list[Counts]:
        """Count the cells of several margins in one scan. Confidential: for the gate alone.

        Parameters
        ----------
        margins
            The margins, as tuples of names of attributes.
        progress
            Called with the rows read so far, and all rows where that is known.

        Returns
        -------
        list[Counts]
            One dense table for each margin, in the order asked for.
        """
        ...

    def count_sparse(self, margin: tuple[str, ...]) -> SparseCounts:
        """Count a margin that is too large for a dense table. Confidential: for the gate alone.

        Parameters
        ----------
        margin
            Names of attributes.

        Returns
        -------
        SparseCounts
            The non-empty cells.
        """
        ...


@runtime_checkable
class Recognizable(Protocol):
    """Confidential data that a resumed run can recognise."""

    def identify(self, key: bytes) -> None:
        """Take this key for the fingerprint. The next scan hashes the rows on its way."""
        ...

    def fingerprint(self) -> str:
        """A keyed sum over all rows that does not depend on their order. Confidential."""
        ...


@runtime_checkable
class Rereadable(Protocol):
    """Confidential data that can be counted by a schema that was found inside a run."""

    def under(self, schema: Schema) -> Source:
        """Count the same rows by another schema of the same columns, whose bins are joined cells of the present one.

        Parameters
        ----------
        schema
            The schema that was found.

        Returns
        -------
        Source
            The same confidential table.
        """
        ...
