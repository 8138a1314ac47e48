"""A reverse-mapped release: every synthetic value replaced by the original value of the same rank (Ruiz et al.).

It restores the original margins exactly, value by value, and keeps the ranks of the synthetic table. The paper proposes
to release it. It has no guarantee, even if the first release had one, because every value in it is somebody's.
Here it is made from a finished release, anybody's, down to the value; ``synthesize`` offers ``reverse_mapped`` in the
levels and bins of the schema, because the gate gives counts of cells and no values
(docs/decisions/0008-reverse-mapped-release.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.engines.opening import open_source
from understudy.engines.reading.encode import encode_table
from understudy.errors import SchemaError
from understudy.evaluation.inputs.records import records_of
from understudy.evaluation.shared.ranks import order_ranks, same_size
from understudy.privacy.promise.definition import NonPrivate
from understudy.release import Release

WARNING = (
    "reverse-mapped: every value is a value of the confidential data and each margin is theirs exactly; no guarantee, "
    "for comparison inside the building"
)
BROKEN = "reverse mapping pairs values anew, so some rows break the structural zeros of the schema, which are left out"


def reverse_mapped_release(release: Release, confidential: Any, *, seed: int = 0) -> Release:
    """The release with the original's margins: ``NonPrivate``, with its warning; as many rows as the data have.

    Ties are ranked in the order of the rows, special codes and missing values above all others.
    """
    schema = release.schema
    source: Any = confidential if hasattr(confidential, "confidential_table") else open_source(confidential, schema)
    codes, rows = source.confidential_table()
    original = records_of(codes, rows, schema)
    orders = np.argsort(original.positions, axis=0, kind="stable")
    tables = []
    for number in range(1, release.copies + 1):
        copy = records_of(release.coded(number), release.frame(number), schema)
        copy = copy.take(same_size(len(copy), len(original), seed))
        columns = {
            name: rows.column(name).take(pa.array(orders[order_ranks(copy.positions[:, j]) - 1, j]))
            for j, name in enumerate(schema.names)
        }
        tables.append(pa.table(columns))
    warnings: tuple[str, ...] = (WARNING,)
    for table in tables:
        try:
            encode_table(table, schema)
        except SchemaError:
            schema, warnings = schema.without_rules, (WARNING, BROKEN)
            break
    return Release(
        schema=schema,
        tables=tuple(tables),
        statement=replace(release.statement, guarantee=NonPrivate(), ledger=None, warnings=warnings),
        provenance=replace(
            release.provenance, method=f"{release.provenance.method}, reverse-mapped", plan=None, events=(), draws=()
        ),
    )
