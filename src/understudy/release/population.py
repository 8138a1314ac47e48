"""People instead of weighted rows: a table in which every row stands for equally many people of the population."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.core.survey_design import calibrated_column, declared_size
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.randomness.draws import unit_interval
from understudy.release.table_release import Release, require_table

MOST_ROWS = 10**8
NOTE = (
    "Rows that stand for people of the population: drawn from weighted synthetic rows in proportion to their weights, "
    "so they have no weight, and a row may occur several times. They have no noisy tables of their own: ask the "
    "release with the weights."
)


def population(release: Release, *, rows: int | None = None, stream: Stream | None = None) -> Release:
    """Draw rows that stand for equally many people each, from the weighted rows of a release. It costs no privacy.

    A row is taken in proportion to its weight (the calibrated one, if there are public totals), by systematic
    sampling: a row with k times the mean weight is taken the whole number below or above k times ``rows`` over the
    rows there are.

    Parameters
    ----------
    release
        A release whose schema has a weight.
    rows
        The rows of each new table; by default one for each person of the population, whose public size the schema
        declares.
    stream
        Makes the draw repeatable, for tests; by default a fresh one.

    Returns
    -------
    Release
        Tables without weights, with the same promise.

    Raises
    ------
    InputError
        If the schema has no weight, or ``rows`` is no positive whole number, or is left out and no size is declared.
    UnsupportedError
        If a rule or a derived attribute of the schema speaks of the weight.

    Examples
    --------
    >>> import pyarrow as pa, understudy as us
    >>> schema = us.Schema(attributes=(us.Attribute(name="sex", levels=("F", "M")),),
    ...     weight=us.Weight(column="w", bounds=(1, 10)))
    >>> weighted = us.wrap(pa.table({"sex": ["F", "M"], "w": [9.0, 3.0]}), schema)
    >>> us.population(weighted, rows=400).to_pandas()["sex"].value_counts().to_dict()
    {'F': 300, 'M': 100}
    """
    from understudy.privacy.randomness.streams import SecureStream

    found = require_table(release, "population")
    schema = found.schema
    if schema.weight is None:
        raise InputError("this release has no weight: its rows stand for equally many people already.")
    if rows is None:
        rows = population_size(schema)
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MOST_ROWS:
        raise InputError(f"rows ({rows!r}) must be a whole number from 1 to {MOST_ROWS:,}.")
    column = next(iter(calibrated_column(schema.weight)), schema.weight.column)
    people = _without_weights(schema)
    words = SecureStream() if stream is None else stream
    tables = []
    for copy in range(1, found.copies + 1):
        table = found.frame(copy)
        if not table.num_rows:
            raise InputError("a table of this release has no rows, so nobody can be drawn from it.")
        tables.append(_drawn(table, column, rows, words, copy).select(list(people.columns)))
    return replace(
        found,
        schema=people,
        tables=tuple(tables),
        measurements=(),
        finding=(),
        fitted=None,
        provenance=replace(found.provenance, notes=(*found.provenance.notes, NOTE)),
    )


def population_size(schema: object) -> int:
    """The number of people in the population, as a schema declares it: in its design, or by public totals.

    Raises
    ------
    InputError
        If there is no weight, or no size, or it is too large for a table.
    """
    if not isinstance(schema, Schema) or schema.weight is None:
        raise InputError('rows = "population" is for a schema with a survey weight ([weight]).')
    size = declared_size(schema, schema.weight)
    if size is None:
        raise InputError(
            "how many people the population has is not declared ([design] population, or [[weight.total]]); declare "
            "it, or say how many rows with understudy.population(release, rows=...)."
        )
    if size > MOST_ROWS:
        raise InputError(f"the population has {size:,.0f} people; a table has at most {MOST_ROWS:,} rows.")
    return max(round(size), 1)


def _without_weights(schema: Schema) -> Schema:
    """The schema of people: without weights and without a design."""
    gone = set(schema.weights)
    ruled = {name for zero in schema.zeros for name in zero.attributes}
    ruled |= {name for rule in schema.rules for name in rule.attributes}
    ruled |= {name for derived in schema.derived for name in derived.sources}
    if ruled & gone:
        raise UnsupportedError(f"a rule of the schema speaks of the weight '{(ruled & gone).pop()}'.")
    kept = tuple(one for one in schema.attributes if one.name not in gone)
    return replace(schema, attributes=kept, weight=None, design=None, workload=())


def _drawn(table: pa.Table, column: str, rows: int, stream: Stream, copy: int) -> pa.Table:
    """Systematic sampling in proportion to the weights, in random order."""
    weights = table.column(column).to_numpy().astype(np.float64)
    order = np.argsort(stream.words(len(weights), "population", "order", copy), kind="stable")
    steps = np.cumsum(weights[order])
    start = float(unit_interval(stream, 1, "population", "start", copy)[0])
    points = (np.arange(rows) + start) / rows * steps[-1]
    taken = order[np.minimum(np.searchsorted(steps, points, side="right"), len(order) - 1)]
    shuffled = np.argsort(stream.words(rows, "population", "shuffle", copy), kind="stable")
    return table.take(pa.array(taken[shuffled]))
