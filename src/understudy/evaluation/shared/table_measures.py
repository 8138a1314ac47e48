"""Measures of how far a synthetic table of counts is from the original one.

Notation: n original and k synthetic rows, N = n + k, c = k / N; cell counts d (original) and s (synthetic). Sums run
over the cells with s + d > 0: the order of cells, rows and columns does not matter, and empty cells may be left out.

All ``S_`` measures are divided by what they would be on average if the synthetic rows had been drawn from the original
proportions: 1 is as good as a sample can be, whatever n, k and the number of cells. Raab's experience: below 10 good,
below 30 usable (Raab 2022, section 3). Derivations and the null laws stand in ``docs/theory/utility.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from understudy.core.arrays import Floats
from understudy.core.result import Severity
from understudy.errors import InputError

GOOD, USABLE = 10.0, 30.0


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """The non-empty cells of a pair of tables and what all measures share."""

    d: Floats
    s: Floats
    n: float
    k: float

    @property
    def odds(self) -> float:
        """c / (1 - c): how many synthetic rows there are to one original row."""
        return self.k / self.n

    @property
    def df(self) -> int:
        return len(self.d) - 1

    @property
    def difference(self) -> Floats:
        return self.s - self.d * self.odds

    @property
    def expected(self) -> Floats:
        return (self.s + self.d) * (self.k / (self.n + self.k))


def _cells(original: ArrayLike, synthetic: ArrayLike) -> _Cells:
    d, s = np.asarray(original), np.asarray(synthetic)
    if d.shape != s.shape:
        raise InputError(
            f"the tables have different shapes, {d.shape} and {s.shape}; compare tables of the same cells."
        )
    if d.dtype.kind not in "iuf" or s.dtype.kind not in "iuf":
        raise InputError("tables must hold counts (numbers).")
    d, s = d.ravel(), s.ravel()
    if not (np.isfinite(d).all() and np.isfinite(s).all()) or (d < 0).any() or (s < 0).any():
        raise InputError("tables must hold counts: finite numbers of at least 0.")
    keep = (d > 0) | (s > 0)
    d, s = d[keep].astype(np.float64), s[keep].astype(np.float64)
    n, k = float(d.sum()), float(s.sum())
    if n == 0 or k == 0:
        raise InputError(f"the {'original' if n == 0 else 'synthetic'} table has no rows; there is nothing to compare.")
    return _Cells(d=d, s=s, n=n, k=k)


def degrees_of_freedom(original: ArrayLike, synthetic: ArrayLike) -> int:
    """Cells in which somebody is, original or synthetic, less one."""
    return _cells(original, synthetic).df


def voas_williamson(original: ArrayLike, synthetic: ArrayLike) -> float:
    """VW = sum diff^2 / e with diff = s - d c/(1-c), e = c (s + d); df on average for rows drawn from the original.

    >>> round(voas_williamson([10, 20, 30], [12, 18, 30]), 6)
    0.574163
    """
    return _vw(_cells(original, synthetic))


def pmse(original: ArrayLike, synthetic: ArrayLike) -> float:
    """Propensity score mean square error of a table: VW c (1-c)^2 / N, the same as the mean of (s/(s+d) - c)^2."""
    return _pmse(_cells(original, synthetic))


def s_pmse(original: ArrayLike, synthetic: ArrayLike) -> float:
    """VW / df: Raab's U for k = n. 0 if only one cell is filled: such a table cannot differ.

    >>> round(s_pmse([10, 20, 30], [12, 18, 30]), 6)
    0.287081
    """
    cells = _cells(original, synthetic)
    return _per_df(_vw(cells), cells.df)


def freeman_tukey(original: ArrayLike, synthetic: ArrayLike) -> float:
    """FT = 4 sum (sqrt s - sqrt(d c/(1-c)))^2."""
    return _ft(_cells(original, synthetic))


def g(original: ArrayLike, synthetic: ArrayLike) -> float:
    """G = 2 sum s ln[(s/k) / (d/n)] over the cells with both above 0 (:func:`measure_table` counts the others)."""
    return _g(_cells(original, synthetic))[0]


def jsd(original: ArrayLike, synthetic: ArrayLike) -> float:
    """Jensen-Shannon divergence in bits, against the midpoint: 0 for equal proportions, 1 for disjoint tables."""
    return _jsd(_cells(original, synthetic))


def tvd(original: ArrayLike, synthetic: ArrayLike) -> float:
    """Total variation distance of the proportions: half the sum of their absolute differences.

    >>> tvd([1, 1, 1, 1], [2, 0, 0, 1])
    0.5
    """
    return _tvd(_cells(original, synthetic))


def mabsdd(original: ArrayLike, synthetic: ArrayLike) -> float:
    """Sum of the absolute differences of proportions: 2 TVD."""
    return 2 * tvd(original, synthetic)


def wmabsdd(original: ArrayLike, synthetic: ArrayLike) -> float:
    """Sum of |diff| / sqrt(e), divided by sqrt(2/pi), the mean of a standard normal's absolute value."""
    return _wmabsdd(_cells(original, synthetic))


def bhattacharyya(original: ArrayLike, synthetic: ArrayLike) -> float:
    """sqrt(1 - sum sqrt(P Q)): a distance between 0 and 1."""
    return _bhattacharyya(_cells(original, synthetic))


def specks(original: ArrayLike, synthetic: ArrayLike) -> float:
    """Kolmogorov-Smirnov distance of the propensity scores; for a table it is the total variation distance."""
    return tvd(original, synthetic)


def po50(original: ArrayLike, synthetic: ArrayLike) -> float:
    """Percent of all N rows that the rule "synthetic where s/k > d/n" classifies correctly, minus 50.

    For k = n it is 50 TVD. For other k it depends on c as well, so compare releases of unequal size by :func:`tvd`.
    """
    return _po50(_cells(original, synthetic))


def mann_whitney(original: ArrayLike, synthetic: ArrayLike) -> float:
    """U: pairs of a synthetic and an original row in which the synthetic one has the higher propensity, ties half.

    U / (n k) is the area under the curve of the best classifier that knows the table: one half if it cannot tell.

    >>> mann_whitney([2, 0], [0, 3])
    6.0
    """
    return _u(_cells(original, synthetic))


MEASURES = (
    "s_pmse", "pmse", "voas_williamson", "freeman_tukey", "s_freeman_tukey", "g", "s_g", "jsd", "s_jsd", "tvd",
    "mabsdd", "wmabsdd", "s_wmabsdd", "bhattacharyya", "specks", "po50", "mann_whitney", "auc",
)  # fmt: skip


def measure_table(original: ArrayLike, synthetic: ArrayLike) -> dict[str, Any]:
    """Every measure of one table, raw and standardised, with its degrees of freedom and the cells G leaves out."""
    cells = _cells(original, synthetic)
    vw, ft, divergence, distance, weighted = _vw(cells), _ft(cells), _jsd(cells), _tvd(cells), _wmabsdd(cells)
    likelihood, both = _g(cells)
    u = _u(cells)
    return {
        "cells": len(cells.d),
        "df": cells.df,
        "g_cells_left_out": len(cells.d) - both,
        "s_pmse": _per_df(vw, cells.df),
        "pmse": _pmse(cells),
        "voas_williamson": vw,
        "freeman_tukey": ft,
        "s_freeman_tukey": _per_df(ft, cells.df),
        "g": likelihood,
        "s_g": _per_df(likelihood, both - 1),
        "jsd": divergence,
        "s_jsd": _per_df(8 * cells.k * math.log(2) * divergence, cells.df),
        "tvd": distance,
        "mabsdd": 2 * distance,
        "wmabsdd": weighted,
        "s_wmabsdd": _per_df(weighted, cells.df),
        "bhattacharyya": _bhattacharyya(cells),
        "specks": distance,
        "po50": _po50(cells),
        "mann_whitney": u,
        "auc": u / (cells.n * cells.k),
    }


SEVERITY_OF_BAND: Mapping[str, Severity] = {"good": "good", "usable": "warning", "poor": "problem"}


def band(value: float) -> str:
    """Raab's reading of S_pMSE.

    >>> [band(value) for value in (1.0, 10.0, 30.0)]
    ['good', 'usable', 'poor']
    """
    return "good" if value < GOOD else "usable" if value < USABLE else "poor"


def severity_of(value: float) -> Severity:
    """How much an S_pMSE in its band matters."""
    return SEVERITY_OF_BAND[band(value)]


def k_marginal_score(distances: ArrayLike) -> float:
    """NIST's k-marginal score from the total variation distances of the margins: 1000 is perfect, 0 is disjoint.

    (2 - mean of sum |P - Q|) * 500.

    >>> k_marginal_score([0.5])
    500.0
    """
    found = np.asarray(distances, np.float64)
    if found.size == 0:
        raise InputError("a k-marginal score needs at least one margin.")
    return float((2 - 2 * found.mean()) * 500)


def _per_df(value: float, df: int) -> float:
    return value / df if df > 0 else 0.0


def _vw(cells: _Cells) -> float:
    return float(np.sum(cells.difference**2 / cells.expected))


def _pmse(cells: _Cells) -> float:
    total = cells.n + cells.k
    return _vw(cells) * cells.k * cells.n**2 / total**4


def _ft(cells: _Cells) -> float:
    return float(4 * np.sum((np.sqrt(cells.s) - np.sqrt(cells.d * cells.odds)) ** 2))


def _g(cells: _Cells) -> tuple[float, int]:
    both = (cells.d > 0) & (cells.s > 0)
    s, d = cells.s[both], cells.d[both]
    return float(2 * np.sum(s * np.log((s / cells.k) / (d / cells.n)))), int(both.sum())


def _jsd(cells: _Cells) -> float:
    p, q = cells.d / cells.n, cells.s / cells.k
    middle = (p + q) / 2
    parts = (np.sum(one[one > 0] * np.log2(one[one > 0] / middle[one > 0])) for one in (p, q))
    return max(0.0, float(sum(parts)) / 2)


def _tvd(cells: _Cells) -> float:
    return min(1.0, float(np.abs(cells.d / cells.n - cells.s / cells.k).sum()) / 2)


def _wmabsdd(cells: _Cells) -> float:
    return float(np.sum(np.abs(cells.difference) / np.sqrt(cells.expected)) / math.sqrt(2 / math.pi))


def _bhattacharyya(cells: _Cells) -> float:
    affinity = float(np.sum(np.sqrt((cells.d / cells.n) * (cells.s / cells.k))))
    return math.sqrt(max(0.0, 1 - affinity))


def _po50(cells: _Cells) -> float:
    synthetic = cells.s * cells.n > cells.d * cells.k  # whole numbers: a tie is a tie, not a rounding error
    right = cells.s[synthetic].sum() + cells.d[~synthetic].sum()
    return 100 * float(right) / (cells.n + cells.k) - 50


def _u(cells: _Cells) -> float:
    score = cells.s / (cells.s + cells.d)
    order = np.argsort(score, kind="stable")
    s, d, score = cells.s[order], cells.d[order], score[order]
    starts = np.flatnonzero(np.r_[True, np.diff(score) > 0])
    s, d = np.add.reduceat(s, starts), np.add.reduceat(d, starts)
    below = np.cumsum(d) - d
    return float(np.sum(s * (below + d / 2)))
