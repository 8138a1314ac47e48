"""What the cost of a draw rests on: public numbers that the gate takes from the draw itself, never from a caller.

A theorem speaks of cells, rows and records. If one part of the program calibrated for some cells and another drew over
others, the stated cost would be false although every formula is right. So a mechanism is asked for its cost with these
facts, the gate makes them from the very domain that it draws over, and ``verify`` makes them anew from what is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.domain import Domain
from understudy.errors import InternalError
from understudy.privacy.promise.definition import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """One draw of a table: who is protected, over how many possible cells it is drawn, from how many records.

    ``records`` is None where the unit does not make the number of records public. A cost must not depend on it then.
    ``domain`` holds the cells themselves, for a prior that differs between them.
    """

    unit: Unit
    cells: int
    records: int | None
    domain: Domain | None = None

    def to_json(self) -> dict[str, Any]:
        return {"cells": self.cells, "records": self.records}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowFacts:
    """One draw of commutes: for each destination that draws, its rows, its cells (``elsewhere`` included) and its
    records. ``records`` is None where the unit does not make the sizes of destinations public."""

    unit: Unit
    destinations: Integers
    rows: Integers
    cells: Integers
    records: Integers | None

    def __post_init__(self) -> None:
        lengths = {len(self.destinations), len(self.rows), len(self.cells)}
        lengths |= set() if self.records is None else {len(self.records)}
        if len(lengths) > 1:
            raise InternalError("the facts of a draw are not about the same destinations.")
        if len(self.cells) and int(self.cells.min()) < 1:
            raise InternalError("a destination draws over no cell.")

    def kinds(self) -> tuple[Integers, Integers, Integers | None]:
        """Rows, cells and records of the different kinds of destinations: many destinations are alike."""
        columns = [self.rows, self.cells] + ([] if self.records is None else [self.records])
        found = np.unique(np.stack(columns, axis=1), axis=0)
        return found[:, 0], found[:, 1], None if self.records is None else found[:, 2]

    def counts(self) -> Integers:
        """How many destinations there are of each kind."""
        columns = [self.rows, self.cells] + ([] if self.records is None else [self.records])
        return np.asarray(np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)[1])

    def to_json(self) -> dict[str, Any]:
        rows, cells, records = self.kinds()
        return {
            "rows": rows.tolist(),
            "cells": cells.tolist(),
            "records": None if records is None else records.tolist(),
        }
