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
    """Open a confidential table by its schema: CSV, Parquet, globs, DuckDB, or anything that speaks Arrow.

    Opening checks the columns and uses no value; rows are counted later, through the gate. ``reading`` says how files
    are written (``missing_text``, ``delimiter``, ``decimal_comma``), which ``table`` or ``query`` of a database is
    meant, and which column identifies the protected unit (``unit_id``).

    ``engine="spark"`` counts on Apache Spark: files that every machine sees, Parquet under a URI, a ``table`` or
    ``query`` of its catalogue. ``master`` says where (local[*], spark://host:7077); it is left out in a running session
    and under spark-submit. A Spark DataFrame needs no ``engine``. Keys and rows travel over a cluster without
    encryption only with ``allow_insecure_cluster``.

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
