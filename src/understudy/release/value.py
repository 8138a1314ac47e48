"""A release: the synthetic tables, what they promise, and everything an analyst outside needs. Public by type."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa

from understudy.core.exact_numbers import show_up
from understudy.core.folders import as_path
from understudy.core.measurement import Measurement
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.engines.reading.decode import with_derived
from understudy.engines.reading.encode import encode_table
from understudy.errors import InputError, MissingExtraError, UnsupportedError
from understudy.models.fitted import Fitted
from understudy.privacy.exact.gaussian_profile import Bound
from understudy.privacy.promise.definition import Definition, NonPrivate, ProbabilisticDP, Unit
from understudy.privacy.promise.event import Event
from understudy.privacy.promise.plan import Plan
from understudy.release.stored import StoredTables

NOT_TRACKED = "not tracked across runs"
TEST_RANDOMNESS = "made with test randomness that anybody can repeat: no guarantee"
OUTSIDE = "not made by understudy: nothing is known about its guarantee"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What is promised: to whom, how much, and whether an account keeps track of it."""

    unit: Unit
    """Who is protected."""
    guarantee: Definition
    """How much is promised."""
    ledger: Mapping[str, Any] | None = None
    """Account, run, head and sequence of the charge; ``None``: not tracked across runs."""
    warnings: tuple[str, ...] = ()
    """What everybody who is handed the release must be told."""

    @property
    def protects_nobody(self) -> bool:
        """Whether there is no guarantee. Its tables may then be the confidential ones: only their owner reads them."""
        return isinstance(self.guarantee, NonPrivate)

    def lines(self) -> tuple[str, ...]:
        """Say the promise in plain words, warnings first.

        Returns
        -------
        tuple[str, ...]
            One text for each statement.
        """
        if self.ledger is None:
            tracked = f"Privacy account: {NOT_TRACKED}."
        else:
            tracked = f"Privacy account: {self.ledger['account']}, run {self.ledger['run']}."
        warnings = tuple(f"WARNING: {text}." for text in self.warnings)
        drawn = of_the_raw_draw(self.guarantee)
        said = (f"Guarantee: {self.guarantee}.", *([drawn] if drawn else []), self.guarantee.protects(self.unit))
        return (*warnings, *said, tracked)


def of_the_raw_draw(guarantee: Definition) -> str | None:
    """Over what Definition 6 is a probability, and what it is not a statement about; for other guarantees nothing."""
    if not isinstance(guarantee, ProbabilisticDP):
        return None
    factor, delta = f"e^{show_up(guarantee.epsilon)}", show_up(guarantee.delta)
    return (
        "This is Definition 6 of Machanavajjhala et al. (2008), for what was drawn. Whatever the table with these "
        f"public sizes is: with probability at least 1 - {delta} the draws give a result that is at most {factor} "
        "times likelier with one set of values of any protected unit than with another. It is a probability over the "
        "randomness of the draws alone, and the worst case over tables. A failure in any destination, stratum or copy "
        "counts: there probabilities add. Later processing, such as placing workers, does not preserve this form; "
        f"it preserves the {guarantee.implied()} that follows from it, and accounts charge that."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """How the tables were made, from public facts only."""

    method: str
    """The name of the method."""
    package_version: str
    """The version of understudy that made it."""
    plan: Plan | None = None
    """The plan that was run."""
    events: tuple[Event, ...] = ()
    """What was charged."""
    draws: tuple[Mapping[str, Any], ...] = ()
    """Tables that were drawn straight from the data: how, and no cell of them."""
    rows_drawn: str = ""
    """How the rows were drawn, in words."""
    copies_share_measurements: bool = False
    """Whether all copies rest on one set of noisy measurements."""
    notes: tuple[str, ...] = ()
    """Remarks about the run."""
    records: int | None = None
    """The exact number of confidential rows, only where the unit makes it public."""

    @property
    def by(self) -> Bound:
        """By which bound the loss of its events may be read."""
        return "concentrated" if self.plan is None else self.plan.by


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
            raise MissingExtraError("to_pandas needs the package pandas; install it with: pip install pandas")
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
            raise MissingExtraError("to_polars needs the package polars; install it with: pip install polars")
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


def require_table(release: Any, verb: str) -> Release:
    """Refuses releases of another kind where only a table of people makes sense."""
    if not isinstance(release, Release):
        raise UnsupportedError(
            f"{verb} works on releases of tables; a release of commutes is read with flows(), evaluated, verified and "
            "mapped."
        )
    return release


def _codes(table: pa.Table, schema: Schema) -> CodedTable:
    coded = encode_table(table, replace(schema, impossible=()))
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
