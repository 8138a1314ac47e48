"""How often the truth survives: what statistical disclosure limitation reads off the rows of a transition matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.auditing.space import Space
from understudy.errors import UnsupportedError

Table = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMeasures:
    """What statistical disclosure limitation looks at: how often the truth survives (Abowd and Vilhuber, Section 3).

    ``cell_uncertainty`` is the smallest P(m_i != n_i) over tables and cells; ``truth`` the largest P(m = n).
    """

    cell_uncertainty: float
    cell: int
    cell_table: Table
    truth: float
    truth_table: Table


def row_measures(space: Space) -> RowMeasures:
    """The row measures of a listed space."""
    if space.outputs.shape[1] != space.inputs.shape[1]:
        raise UnsupportedError("outputs have other cells than inputs, so no cell can be compared with its truth.")
    law = np.exp(space.log_law)
    changed = np.stack(
        [
            (law * (space.outputs[None, :, i] != space.inputs[:, None, i])).sum(axis=1)
            for i in range(space.inputs.shape[1])
        ]
    )
    cell, number = np.unravel_index(int(np.argmin(changed)), changed.shape)
    same = (law * (space.outputs[None] == space.inputs[:, None]).all(axis=2)).sum(axis=1)
    kept = int(np.argmax(same))
    return RowMeasures(
        cell_uncertainty=float(changed[cell, number]),
        cell=int(cell),
        cell_table=tuple(space.inputs[number].tolist()),
        truth=float(same[kept]),
        truth_table=tuple(space.inputs[kept].tolist()),
    )
