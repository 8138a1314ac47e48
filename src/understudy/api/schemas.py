"""Verbs about the public schema and the data that should fit it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from understudy.core.linked_schema import LinkedSchema
from understudy.core.schema import Schema
from understudy.engines.opening import open_source
from understudy.errors import InputError

if TYPE_CHECKING:
    from understudy.engines.reading.draft_in_parts import Draft


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
