"""How sparse the tables are: cells k, percent of them empty (p0), percent of people alone in theirs (p1).

Raab's Table 1. A sparse table with many uniques is hard to synthesize and easy to disclose.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from understudy.core.result import Finding, Section
from understudy.core.table import CodedTable
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.inputs.counted_tables import count_filled
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.results import frame

RAAB = "Raab (2022), Table 1"


def describe_cells(table: CodedTable) -> dict[str, Any]:
    """k, p0 and p1 of the full cross-tabulation, a missing value being a level. Confidential like its table.

    Only cells with somebody in them are counted, so any number of attributes will do.
    """
    schema = table.schema
    cells = schema.cells()
    (filled,) = count_filled((table,), schema.names)
    return {
        "rows": table.rows,
        "cells": cells,
        "cells_without_missing": prod(attribute.bins + len(attribute.special) for attribute in schema.attributes),
        "filled_cells": len(filled),
        "empty_percent": 100 * (1 - len(filled) / cells),
        "uniques": int(np.sum(filled == 1)),
        "uniques_percent": 100 * float(np.sum(filled == 1)) / table.rows if table.rows else None,
    }


@measures.add
def cells(comparison: Comparison) -> Section:
    """Cells of the full cross-tabulation, empty ones (p0) and people alone in theirs (p1), original and synthetic."""
    tables = [("original", comparison.original)]
    tables += [(f"synthetic {number}", copy) for number, copy in enumerate(comparison.copies, start=1)]
    rows = [{"table": name, **describe_cells(table)} for name, table in tables]
    original = rows[0]
    return Section(
        findings=(
            Finding(
                code="utility.cells.empty",
                title="percent of the cells of the full cross-tabulation that are empty in the original (p0)",
                value=original["empty_percent"],
                reference=RAAB,
            ),
            Finding(
                code="utility.cells.uniques",
                title="percent of people who are alone in their cell in the original (p1)",
                value=original["uniques_percent"],
                reference=RAAB,
            ),
        ),
        frames={"cells": frame(rows)},
    )
