"""A noisy answer that left the gate: public, and together with its mechanism everything inference needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.mechanism import Mechanism
from understudy.core.walsh import CONTRASTS
from understudy.errors import InputError

CLASSES = "classes"
CODES = "codes"
NEIGHBOURS, SIZES = "neighbours", "sizes"  # of clusters


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurement:
    """Noisy counts of a margin, which left the gate. They are public.

    Raises
    ------
    InputError
        If the values do not have one axis for each attribute.
    """

    margin: tuple[str, ...]
    """The attributes that were counted."""
    values: NDArray[np.int64]
    """The noisy counts. Cells ruled out by structural zeros are exactly 0, without noise."""
    mechanism: Mechanism
    """The law of the noise."""
    cells: str = "all"
    """``all``, or ``first``: of a two-cell table with a public total only the first cell was measured, and ``values``
    is that number. ``classes``: they are counts of a public classification of the records, one after the other.
    ``codes``: they are counts of the ``codes`` that were found. ``contrasts``: they are Fourier coefficients, by the
    masks of each attribute (``core/walsh.py``). ``neighbours``: of a row and the next one of its cluster, in classes of
    the attribute, row after row. ``sizes``: how many others the rows have in their clusters in all, and how many rows
    there are."""
    label: str = ""
    """The label of the step in the plan."""
    codes: tuple[str, ...] = ()
    """The codes that were found, if that was asked for."""

    def __post_init__(self) -> None:
        axes = {
            "all": len(self.margin),
            "first": 0,
            CLASSES: 1,
            CODES: 1,
            NEIGHBOURS: 1,
            SIZES: 1,
            CONTRASTS: len(self.margin),
        }
        if self.cells not in axes:
            raise InputError(f"cells ({self.cells!r}) must be one of {', '.join(axes)}.")
        if self.cells == CODES and len(self.codes) != len(self.values):
            raise InputError("there must be a noisy count for each code that was found.")
        values = np.asarray(self.values, dtype=np.int64)
        if values.ndim != axes[self.cells]:
            raise InputError("a measurement needs one axis per attribute of its margin.")
        values = values.copy()
        values.setflags(write=False)
        object.__setattr__(self, "values", values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draw:
    """A synthetic table that a mechanism drew straight from the data: its non-empty cells and their counts."""

    margin: tuple[str, ...]
    cells: NDArray[np.int64]
    counts: NDArray[np.int64]
    mechanisms: tuple[dict[str, str], ...]  # one, or one per stratum
    label: str = ""
    sizes: tuple[int, ...] | None = None  # of the strata, if they are public; the cost of each draw depends on them

    def to_json(self) -> dict[str, object]:
        """What a release says about the draw: how it was made, and no cell of it."""
        sizes = {} if self.sizes is None else {"sizes": list(self.sizes)}
        return {"label": self.label, "margin": list(self.margin), "mechanisms": list(self.mechanisms), **sizes}
