"""Opening a confidential table with the system that is to count it: here, or on a Spark cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from understudy.core.counts import Source
from understudy.core.schema import Schema
from understudy.errors import unknown_name

DEFAULT_ENGINE = "local"


def open_source(
    data: Any,
    schema: Schema,
    *,
    engine: str | None = None,
    master: str | None = None,
    allow_insecure_cluster: bool = False,
    **reading: Any,
) -> Source:
    """Open a confidential table by its schema.

    Opening checks the columns and uses no value; rows are counted later, through the gate. With Spark, data are files
    that every machine sees, Parquet under a URI, or a ``table`` or ``query`` of its catalogue.

    Parameters
    ----------
    data
        Files (CSV, Parquet, Stata, SPSS, SAS), globs, a DuckDB file, or anything that speaks Arrow.
    schema
        The public schema.
    engine
        What counts: ``local`` (the default) or ``spark``. Data that only one engine reads, such as a Spark DataFrame,
        need no ``engine``.
    master
        Where Spark is (``local[*]``, ``spark://host:7077``); left out in a running session and under spark-submit.
    allow_insecure_cluster
        Let keys and rows travel over a cluster without encryption.
    **reading
        How files are written (``missing_text``, ``delimiter``, ``decimal_comma``), which ``table`` or ``query`` of a
        database is meant, and which column identifies the protected unit (``unit_id``).

    Returns
    -------
    Source
        The opened table. Confidential.

    Raises
    ------
    UnknownNameError
        If there is no such engine.
    SchemaError
        If the columns are not those of the schema.
    InputError
        If the data cannot be read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import understudy as us
    >>> schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),))
    >>> people = us.open_source(pa.table({"sex": ["F", "M", "F"]}), schema)
    >>> people.schema.names
    ('sex',)
    >>> us.open_source(pa.table({"gender": ["F"]}), schema)     # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    understudy.errors.SchemaError: the data name 0 of the 1 columns of the schema ('sex'). ...
    """
    from understudy.engines.engine import engines

    if engine is None:
        plain = isinstance(data, str | Path | list)  # files: no engine claims them, so none needs to be asked
        others = [] if plain else [name for name in engines if name != DEFAULT_ENGINE]
        engine = next((name for name in others if engines[name].claims(data)), DEFAULT_ENGINE)
    if engine not in engines:
        raise unknown_name("engine", engine, engines)
    given: dict[str, Any] = {"master": master} if master is not None else {}
    given |= {"allow_insecure_cluster": True} if allow_insecure_cluster else {}
    return engines[engine].open(data, schema, **given, **reading)
