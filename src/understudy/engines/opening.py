"""Opening a confidential table with the system that is to count it: here, or on a Spark cluster."""

from __future__ import annotations

from typing import Any

from understudy.core.counts import Source
from understudy.core.schema import Schema
from understudy.errors import InputError, unknown_name


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
    from understudy.engines.base import engines
    from understudy.engines.spark_inputs import is_spark_frame, open_spark

    chosen = engine or ("spark" if is_spark_frame(data) else "duckdb")
    if chosen not in engines:
        raise unknown_name("engine", chosen, engines)
    if chosen == "spark":
        return open_spark(data, schema, master=master, allow_insecure_cluster=allow_insecure_cluster, **reading)
    if master is not None or allow_insecure_cluster:
        raise InputError("master and allow_insecure_cluster go with engine 'spark'.")
    from understudy.engines.inputs import open_local

    return open_local(data, schema, **reading)
