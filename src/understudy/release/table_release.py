"""A release of tables: the synthetic tables, what they promise, and everything an analyst outside needs.

A release may hold a billion rows. Opening its folder reads hashes and footers; a table comes into memory when somebody
wants all of it, and ``batches`` gives it piece by piece, which is how ``verify`` looks at every row on a small machine.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, overload

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.core.folders import as_path
from understudy.core.measurement import Measurement
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.engines.reading.decode import restore_types, with_derived
from understudy.engines.reading.encode import Encoder, check_columns, columns_to_read, encode_table
from understudy.engines.reading.readers import parquet_batches
from understudy.errors import InputError, MissingExtraError, UnsupportedError
from understudy.models.published_model import Fitted
from understudy.privacy.promise.definition import NonPrivate, Unit
from understudy.release.kind import kind_of_release
from understudy.release.statement import Provenance, Statement

OUTSIDE = "not made by understudy: nothing is known about its guarantee"
FileState = tuple[int, int]  # bytes and time of the last change


class StoredTables(Sequence[pa.Table]):
    """Tables in files, some files for each; ``rows`` are those that the manifest states, checked by the footers."""

    def __init__(self, files: Sequence[Sequence[Path]], rows: Sequence[int], schema: Schema) -> None:
        self.rows = tuple(rows)
        self._schema = schema
        self._files = tuple(tuple(own) for own in files)
        self._read: dict[int, pa.Table] = {}
        self._states = {file: _state(file) for own in self._files for file in own}
        for own, stated in zip(self._files, self.rows, strict=True):
            if not own:
                raise InputError("a release lacks a table that its manifest counts.")
            found = 0
            for file in own:
                with pq.ParquetFile(file) as table:
                    check_columns(table.schema_arrow.names, schema)
                    found += table.metadata.num_rows
            if found != stated:
                raise InputError(f"'{own[0].name}' has {found:,} rows, and its manifest states {stated:,}.")

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, number: int) -> pa.Table: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[pa.Table]: ...
    def __getitem__(self, number: int | slice) -> pa.Table | Sequence[pa.Table]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        place = range(len(self))[number]
        if place not in self._read:
            parts = []
            for file in self._files[place]:
                self._require_unchanged(file)
                try:
                    parts.append(pq.read_table(file))
                except (pa.ArrowException, OSError) as problem:
                    raise InputError(f"{file} cannot be read as Parquet ({type(problem).__name__}).") from None
            self._read[place] = restore_types(pa.concat_tables(parts, promote_options="permissive"), self._schema)
        return self._read[place]

    def batches(self, place: int) -> Iterator[pa.Table]:
        """One table in pieces, as ``frame`` gives it: a quarter of a million rows are in memory at a time."""
        for batch in self._raw_batches(place):
            yield restore_types(pa.Table.from_batches([batch]), self._schema)

    def check_rows(self, place: int) -> None:
        """Refuses values outside the schema, structural zeros, and wrong derived values; counts them all."""
        encoder = Encoder(self._schema)
        for batch in self._raw_batches(place):
            encoder.encode(batch)
        encoder.violations.check()

    def _raw_batches(self, place: int) -> Iterator[pa.RecordBatch]:
        for file in self._files[place]:
            self._require_unchanged(file)
            columns = columns_to_read(pq.read_schema(file).names, self._schema)
            yield from parquet_batches(str(file), columns)

    def _require_unchanged(self, file: Path) -> None:
        """What was checked when the release was opened must be what is read now."""
        if _state(file) != self._states[file]:
            raise InputError(
                f"{file} was removed or changed after its release was opened; read the release again, and keep its "
                "folder as it is while you use it."
            )


def _state(file: Path) -> FileState | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Release:
    """Synthetic tables with their promise. All of it is public.

    Raises
    ------
    InputError
        If there is no table, or one does not have the columns of the schema.
    """

    schema: Schema
    """The public schema."""
    tables: Sequence[pa.Table]
    """The synthetic tables, in memory or in files until they are asked for."""
    statement: Statement
    """What is promised, and to whom."""
    provenance: Provenance
    """How the tables were made."""
    measurements: tuple[Measurement, ...] = field(default=())
    """The noisy counts behind the tables."""
    fitted: Fitted | None = None
    """The model the rows were drawn from, where it is public."""
    finding: tuple[Measurement, ...] = field(default=())
    """The noisy counts by which bins were found that the declared schema leaves open."""
    numbers: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    """Where a row stands for several people: for each kind of them a column, and how many there are by its code."""
    linked: bool = False
    """Whether the rows are one side of linked tables. Bins of their weights are public, and weighted intervals were not
    measured, so weighted answers are ``model-based`` at best."""

    def __post_init__(self) -> None:
        if not self.tables:
            raise InputError("a release needs at least one synthetic table.")
        for table in () if isinstance(self.tables, StoredTables) else self.tables:
            if tuple(table.column_names) != self.schema.columns:
                raise InputError("the columns of a synthetic table are not the attributes of the schema.")

    @property
    def copies(self) -> int:
        """How many synthetic tables there are."""
        return len(self.tables)

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of each table."""
        if isinstance(self.tables, StoredTables):
            return self.tables.rows
        return tuple(table.num_rows for table in self.tables)

    def frame(self, copy: int = 1) -> pa.Table:
        """Give one synthetic table. Derived columns come last.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        pa.Table
            An Arrow table; ``.to_pandas()`` gives ordered categoricals.
        """
        return self.tables[self._place(copy)]

    def to_pandas(self, copy: int = 1) -> Any:
        """Give one synthetic table as a pandas frame; levels are categories, ordered where the schema says so.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        pandas.DataFrame
            The table.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        if importlib.util.find_spec("pandas") is None:
            raise MissingExtraError("to_pandas needs the package pandas; install it with: pip install pandas.")
        return self.frame(copy).to_pandas()

    def to_polars(self, copy: int = 1) -> Any:
        """Give one synthetic table as a polars frame.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        polars.DataFrame
            The table.

        Raises
        ------
        MissingExtraError
            If polars is not installed.
        """
        if importlib.util.find_spec("polars") is None:
            raise MissingExtraError("to_polars needs the package polars; install it with: pip install polars.")
        import polars

        return polars.from_arrow(self.frame(copy))

    def batches(self, copy: int = 1) -> Iterator[pa.Table]:
        """Give one synthetic table piece by piece. Of a table in a file only a piece is in memory at a time.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        Iterator[pa.Table]
            Arrow tables.

        Examples
        --------
        >>> import pyarrow as pa, understudy as us
        >>> made = us.wrap(pa.table({"sex": ["F", "M", "M"]}), us.Schema(attributes=(us.Attribute(name="sex",
        ...     levels=("F", "M")),)))
        >>> sum(piece.num_rows for piece in made.batches())
        3
        """
        place = self._place(copy)
        if isinstance(self.tables, StoredTables):
            yield from self.tables.batches(place)
        else:
            yield from (pa.Table.from_batches([batch]) for batch in self.tables[place].to_batches())

    def check_rows(self, copy: int = 1) -> None:
        """Refuse a table with a row that does not fit the schema, without holding it in memory.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Raises
        ------
        InputError
            If a row does not fit.
        """
        place = self._place(copy)
        if isinstance(self.tables, StoredTables):
            self.tables.check_rows(place)
        else:
            encode_table(self.tables[place], self.schema)

    def _place(self, copy: int) -> int:
        if not isinstance(copy, int) or not 1 <= copy <= self.copies:
            raise InputError(f"copy ({copy}) must be between 1 and {self.copies}.")
        return copy - 1

    def coded(self, copy: int = 1) -> CodedTable:
        """Give one synthetic table as codes of the schema.

        Impossible combinations keep their codes: somebody else's synthetic table may hold them, and an evaluation
        counts them.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        CodedTable
            The table of codes.
        """
        return _codes(self.frame(copy), self.schema)

    def write(self, path: str | Path, *, overwrite: bool = False, csv: bool = False) -> Path:
        """Write the release folder. It is there whole or not at all: files are written elsewhere first and then moved.

        Parameters
        ----------
        path
            The new folder.
        overwrite
            Replace an earlier release.
        csv
            Write CSV files too.

        Returns
        -------
        Path
            Where the folder is.

        Raises
        ------
        InputError
            If the folder exists, or cannot be written.
        """
        from understudy.release.folder import write_release

        return write_release(self, as_path(path, "the release folder"), overwrite=overwrite, csv=csv)

    def __repr__(self) -> str:
        rows = ", ".join(f"{count:,}" for count in self.rows[:3]) + (", ..." if self.copies > 3 else "")
        return f"Release({self.provenance.method}; {self.statement.guarantee}; {self.copies} table(s) of {rows} rows)"

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{escape(line)}</li>" for line in self.statement.lines())
        head = next(self.batches(), pa.table({})).slice(0, 5)
        cells = "".join(
            "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row.values()) + "</tr>"
            for row in head.to_pylist()
        )
        names = "".join(f"<th>{escape(name)}</th>" for name in self.schema.columns)
        return (
            f"<div><b>Synthetic release</b> by {escape(self.provenance.method)}<ul>{lines}</ul>"
            f"<table><tr>{names}</tr>{cells}</table></div>"
        )


def asked_table(release: Any, question: str | None = None, **how: Any) -> Any:
    """What questions are put to: a release of tables as it is; of households, one row for each of them, or one for each
    member if that is what the question is about."""
    if question is not None and (table_for := getattr(release, "table_for", None)) is not None:
        return table_for(question, **how)
    homes = getattr(release, "homes", None)
    return homes if isinstance(homes, Release) else release


def require_table(release: Any, verb: str) -> Release:
    """Refuses releases of another kind where only a table of people makes sense."""
    if not isinstance(release, Release):
        kind = kind_of_release(release)
        this = f"this is a {type(release).__name__}" if kind is None else kind.uses
        raise UnsupportedError(f"{verb} works on releases of tables; {this}.")
    return release


def _codes(table: pa.Table, schema: Schema) -> CodedTable:
    coded = encode_table(table, schema.without_rules)
    return CodedTable(schema=schema, columns=coded.columns)


def wrap(frame: Any, schema: Schema) -> Release:
    """Wrap anybody's synthetic table as a release, so that it can be evaluated like ours.

    Nothing is known about how it was made, so it carries no guarantee and says so.

    Parameters
    ----------
    frame
        A table that speaks Arrow, or a list of them for several copies.
    schema
        The public schema.

    Returns
    -------
    Release
        A release without a guarantee.

    Raises
    ------
    InputError
        If a table does not speak Arrow, or does not fit the schema.

    Examples
    --------
    >>> import pyarrow as pa, understudy as us
    >>> schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
    >>> us.wrap(pa.table({"sex": ["F", "M", "M"]}), schema)
    Release(outside; no guarantee; 1 table(s) of 3 rows)
    """
    from understudy import __version__

    if not isinstance(schema, Schema):
        raise InputError("wrap needs a schema; read one with understudy.read_schema.")
    tables = []
    for one in frame if isinstance(frame, list | tuple) else (frame,):
        if not hasattr(one, "__arrow_c_stream__"):
            raise InputError(f"{type(one).__name__} does not speak Arrow; give a pandas, polars or pyarrow table.")
        table = pa.table(one)
        _codes(table, schema)  # refuses other columns and values outside the schema
        tables.append(with_derived(table, schema))
    return Release(
        schema=schema,
        tables=tuple(tables),
        statement=Statement(unit=Unit(), guarantee=NonPrivate(), warnings=(OUTSIDE,)),
        provenance=Provenance(method="outside", package_version=__version__),
    )
