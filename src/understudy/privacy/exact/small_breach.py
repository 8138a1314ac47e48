"""Definition 6 by enumeration as a function of a symmetric prior: for few cells, where Theorem 4.3 is not exact.

With no more cells than rows an output may leave no cell empty, and whether it betrays a row depends on two cells at
once: (1 + m_i/(a + b_i)) / (1 + m_j/(a + b_j)) > e^epsilon, b the table without the row. The disclosure sets change at
the positive roots, in the prior a, of (a + b_i + m_i)(a + b_j) = e^epsilon (a + b_i)(a + b_j + m_j).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.privacy.exact.profile import disclosure_sets
from understudy.privacy.exact.tables import how_many, neighbours, tables_of
from understudy.privacy.mechanisms.dirichlet import DirichletMultinomial
from understudy.privacy.promise.definition import Unit

LARGEST_SMALL = 60_000  # inputs x outputs, worked through once for each jump


def is_small(cells: int, records: int, rows: int) -> bool:
    """Whether listing everything again at each jump is feasible."""
    unit = Unit(kind="replace")
    return how_many(records, cells, unit) * how_many(rows, cells, unit) <= LARGEST_SMALL and records * rows <= 200


class SmallBreach:
    """All tables and outputs of a small space, and the breach probability as the prior moves."""

    def __init__(self, cells: int, records: int, rows: int, epsilon: float) -> None:
        self.cells, self.records, self.rows, self.epsilon = cells, records, rows, epsilon
        self.inputs: Integers = tables_of(records, cells)
        self.outputs: Integers = tables_of(rows, cells)
        self.pairs = neighbours(self.inputs, Unit(kind="replace"))

    def log_law(self, prior: float) -> NDArray[np.float64]:
        mechanism = DirichletMultinomial(prior=prior, cells=self.cells, rows=self.rows)
        return mechanism.log_pmf(self.outputs[None, :, :], self.inputs[:, None, :])

    def sets(self, prior: float) -> NDArray[np.bool_]:
        """The disclosure sets at a prior, one row for each table."""
        return disclosure_sets(self.log_law(prior), self.inputs, self.pairs, self.epsilon)

    def largest(self, prior: float, sets: NDArray[np.bool_]) -> float:
        """The largest probability of given sets over all tables."""
        return float((np.exp(self.log_law(prior)) * sets).sum(axis=1).max())

    def jumps(self) -> set[float]:
        """Every positive prior at which some disclosure set can change."""
        counts = np.arange(self.records)
        drawn = np.arange(self.rows + 1)
        b_i, m_i, b_j, m_j = (grid.ravel().astype(float) for grid in np.meshgrid(counts, drawn, counts, drawn))
        kept = (b_i + b_j <= self.records - 1) & (m_i + m_j <= self.rows) & (m_i > 0)
        b_i, m_i, b_j, m_j = b_i[kept], m_i[kept], b_j[kept], m_j[kept]
        growth = math.exp(self.epsilon)
        # (1 - g) a^2 + (b_i + m_i + b_j - g (b_i + b_j + m_j)) a + (b_i + m_i) b_j - g b_i (b_j + m_j) = 0
        square = np.full(len(b_i), 1 - growth)
        linear = b_i + m_i + b_j - growth * (b_i + b_j + m_j)
        constant = (b_i + m_i) * b_j - growth * b_i * (b_j + m_j)
        inside = linear**2 - 4 * square * constant
        root = np.sqrt(np.maximum(inside, 0))
        both = np.concatenate([(-linear + root)[inside >= 0], (-linear - root)[inside >= 0]])
        divided = both / (2 * np.concatenate([square[inside >= 0]] * 2))
        return {float(value) for value in divided if value > 0}
