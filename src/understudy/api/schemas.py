"""Verbs about the public schema and the data that should fit it."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.linked_schema import LinkedSchema
from understudy.core.schema import Schema
from understudy.engines.opening import open_source
from understudy.errors import InputError, SchemaError

if TYPE_CHECKING:
    from understudy.engines.reading.draft_in_parts import Draft
    from understudy.privacy.promise.definition import Definition, Unit

MOST_COLUMNS = 1000
LEAST_ROWS = 10  # standard deviations of the noise of one count: with fewer rows hardly anything is clear of it


def check_data(data: Any, schema: Schema | LinkedSchema, **reading: Any) -> int:
    """Check that every row of the data fits a schema, and say how many rows there are.

    Parameters
    ----------
    data
        A source, or whatever ``open_source`` opens.
    schema
        The public schema, of one table or of linked tables.
    **reading
        How files are written, as for ``open_source``.

    Returns
    -------
    int
        The number of rows (of households, for linked tables). It may be confidential.

    Raises
    ------
    InputError
        If there are no rows.
    SchemaError
        If rows do not fit: how many, by attribute, and never a value.

    Examples
    --------
    >>> import pyarrow as pa, understudy as us
    >>> schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
    >>> us.check_data(pa.table({"sex": ["F", "M", "F"]}), schema)
    3
    """
    if isinstance(schema, LinkedSchema):
        from understudy.households.source import open_households
        from understudy.privacy.randomness.fingerprint import DataKey

        return open_households(data, schema, **reading).rows_of(DataKey.fresh().bounding()).total()
    rows = open_source(data, schema, **reading).total()
    if not rows:
        raise InputError("the data have no rows; is it a file with a line of column names alone?")
    return rows


def clipped_weights(data: Any, schema: Schema, **reading: Any) -> int:
    """Count the rows whose survey weight lies outside its public bounds and is clipped. Internal.

    Parameters
    ----------
    data
        A source, or whatever ``open_source`` opens.
    schema
        The public schema.
    **reading
        How files are written, as for ``open_source``.

    Returns
    -------
    int
        The number of rows, over all weights; 0 without a weight that is clipped. It is confidential.

    Examples
    --------
    >>> import pyarrow as pa, understudy as us
    >>> schema = us.Schema(attributes=(), weight=us.Weight(column="w", bounds=(1, 10), outside="clip"))
    >>> us.clipped_weights(pa.table({"w": [2.0, 30.0, 5.0]}), schema)
    1
    """
    weights = () if schema.weight is None else (schema.weight, *schema.weight.other)
    clipped = [one for one in weights if one.outside == "clip"]
    if not clipped:
        return 0
    columns = {one.column for one in clipped}
    strict = tuple(replace(one, outside="error") if one.name in columns else one for one in schema.attributes)
    others = tuple(replace(one, outside="error") for one in schema.weight.other) if schema.weight is not None else ()
    weight = None if schema.weight is None else replace(schema.weight, outside="error", other=others)
    try:
        open_source(data, replace(schema, attributes=strict, weight=weight), **reading).total()
    except SchemaError as problem:
        found = re.findall(r"^  (.+): ([\d,]+) rows? with a value outside the edges$", str(problem), flags=re.MULTILINE)
        return sum(int(rows.replace(",", "")) for name, rows in found if name in columns)
    return 0


def describe_data(data: Any, schema: Schema, **reading: Any) -> dict[str, Any]:
    """How sparse the data are: rows, cells, empty cells (p0) and people alone in their cell (p1). Internal.

    Parameters
    ----------
    data
        Whatever ``open_source`` opens.
    schema
        The public schema.
    **reading
        How files are written, as for ``open_source``.

    Returns
    -------
    dict
        Table 1 of Raab (2022) for these data, computed from confidential values.

    Examples
    --------
    >>> import pyarrow as pa, understudy as us
    >>> schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
    >>> us.describe_data(pa.table({"sex": ["F", "M", "F"]}), schema)["uniques"]
    1
    """
    from understudy.evaluation.measures.cells import describe_cells

    source: Any = open_source(data, schema, **reading)
    return {"audience": "internal", **describe_cells(source.confidential_codes())}


def draft_in_parts(data: Any, **reading: Any) -> Draft:
    """Draft a schema by looking at the data, for a form: what was drafted, and the remarks by column.

    Parameters
    ----------
    data
        Whatever ``draft_schema`` takes.
    **reading
        How files are written, as for ``draft_schema``.

    Returns
    -------
    Draft
        The draft and its remarks. Confidential, until a person has reviewed it.

    Raises
    ------
    InputError
        If the data cannot be read, or have no rows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> draft = draft_in_parts(pa.table({"sex": ["F", "M"] * 400, "age": [18 + k % 70 for k in range(800)]}))
    >>> draft.schema.names, [remark.text[:26] for remark in draft.remarks["age"]]
    (('sex', 'age'), ['the bounds were seen in th'])
    """
    from understudy.engines.reading.draft import draft_schema
    from understudy.engines.reading.draft_in_parts import read_draft

    return read_draft(draft_schema(data, **reading))


def draft_privately(
    data: Any,
    *,
    budget: Definition,
    ledger: str | os.PathLike[str],
    account: str,
    unit: Unit | str = "replace",
    out: str | os.PathLike[str] | None = None,
    **reading: Any,
) -> str:
    """Draft a schema from noisy counts, which are charged. The draft is public and needs no retyping.

    Every value is put into public classes: its form (a whole number, a day, a short text, ...) and its place (between
    200 and 500, in the 1990s, ...). The classes of every column are counted with noise, and the schema follows from
    the noisy counts and from the names of the columns. Rules, labels and lists of levels are left out.

    Parameters
    ----------
    data
        Whatever ``open_source`` opens.
    budget
        What the draft may spend.
    ledger
        The file of the ledger that pays.
    account
        The account in the ledger. It should be the one that pays for the releases of these data.
    unit
        Who is protected: ``replace``, ``add_remove`` or a ``Unit``.
    out
        Write the draft into this new file too.
    **reading
        How files are written, as for ``open_source``. Nothing about the format is taken from the data for free: say
        the delimiter (unless the first line shows it) and the encoding.

    Returns
    -------
    str
        The text of the schema, as TOML.

    Raises
    ------
    InputError
        If the data have no rows or cannot be read, if the noise would hide everything (nothing is charged then), or if
        no column is clear of the noise.
    BudgetError
        If the account does not allow it. Nothing is charged or drawn then.

    Examples
    --------
    >>> import pathlib, tempfile, pyarrow as pa, understudy as us
    >>> book = pathlib.Path(tempfile.mkdtemp(), "budget.db")
    >>> _ = us.Ledger.create(book).create_account("people", unit=us.Unit(), limit=us.PureDP(epsilon=2))
    >>> people = pa.table({"age": [18 + k % 70 for k in range(8000)]})
    >>> text = us.draft_privately(people, budget=us.PureDP(epsilon=1), ledger=book, account="people")
    >>> "bounds = [0, " in text
    True
    """
    from understudy.api.plans import plan as make_plan
    from understudy.api.releases import synthesize
    from understudy.engines.reading.draft import ID_NAME
    from understudy.engines.reading.draft_classes import class_names, class_schema, class_table
    from understudy.engines.reading.noisy_draft import Column, noisy_draft
    from understudy.engines.systems.local.inputs import open_reader, told_format
    from understudy.privacy.promise.definition import Unit as UnitOf

    target = None if out is None else Path(out)
    if target is not None and target.exists():
        raise InputError(f"{target} already exists; choose another name with --out.")
    how = {key: reading.pop(key, None) for key in ("table", "query")}
    told = told_format(None, **reading)
    reader = open_reader(
        data, names=(), missing_text=reading.get("missing_text", ""), delimiter=told.delimiter, encoding=told.encoding,
        **how,
    )  # fmt: skip
    if len(set(reader.columns)) != len(reader.columns):
        raise InputError("two columns of the data have the same name; every column needs its own.")
    protected = unit if isinstance(unit, UnitOf) else UnitOf(kind=unit)  # type: ignore[arg-type]
    ignored = {
        name: "is an identifier or a key, by its name"
        for name in reader.columns
        if ID_NAME.fullmatch(name) or name == protected.unit_id
    }
    ignored |= {name: "cannot be the name of an attribute" for name in reader.columns if not _is_a_name(name)}
    counted = {name: number for number, name in enumerate(reader.columns) if name not in ignored}
    if not counted:
        raise InputError("every column is an identifier by its name; there is nothing to draft a schema from.")
    if len(counted) > MOST_COLUMNS:
        raise InputError(
            f"{len(counted):,} columns are too many for a private draft: they share its budget. Give at "
            f"most {MOST_COLUMNS:,}, or write the schema from a code book. Nothing was charged."
        )
    classes = class_schema(list(counted.values()))
    planned = make_plan(classes, budget=budget, method="independent", unit=protected, rows=1)
    spread = max(step.standard_deviation or 0.0 for step in planned.steps)
    table = class_table(reader, list(counted), protected.unit_id, told=told)
    if protected.public_total and table.num_rows < LEAST_ROWS * spread:
        raise InputError(
            f"{len(counted)} columns are counted with noise of standard deviation {spread:.3g}, which "
            f"{table.num_rows:,} rows do not stand clear of. Use a larger "
            "epsilon, name a delta, give fewer columns, or write the schema "
            "from a code book. Nothing was charged."
        )
    made = synthesize(table, schema=classes, plan=planned, ledger=ledger, account=account)
    noisy = {one.margin: one for one in made.measurements if len(one.margin) == 1}
    columns = []
    for name, number in counted.items():
        forms, places = (noisy[(label,)] for label in class_names(number))
        columns.append(
            Column(
                name=name,
                forms=forms.values.astype(float),
                places=places.values.astype(float),
                spread=max(forms.mechanism.variance**0.5, 1e-9),
            )
        )
    text = noisy_draft(
        columns,
        ignored=ignored,
        text_file=reader.text_only,
        told=told,
        head=_head(str(made.statement.guarantee), protected, account, spread),
    )
    if target is not None:
        from understudy.core.folders import explained_disk_errors

        with explained_disk_errors(target):
            target.write_text(text, encoding="utf-8")
    return text


def _is_a_name(name: str) -> bool:
    return bool(name) and not name.startswith("<")


def _head(guarantee: str, unit: Unit, account: str, spread: float) -> list[str]:
    return [
        "This schema is public. Besides the names of the columns and what the steward said about the file, it follows",
        f"from noisy counts alone: {guarantee},",
        f"unit {unit.kind}, {unit.rows_per_unit} row(s) of a unit, charged to the account '{account}'.",
        f"Each count had noise of standard deviation {spread:.3g}; what is not clear of that was left out or is wide.",
        "Assumed: a value may be missing in every column; values beyond the bounds are few and may be clipped.",
        "Not looked for: rules between columns, labels, lists of levels. Add what is known without the data.",
    ]
