"""Many margins of one clique at the price of few: partial sums are shared.

To sum a clique of 147,000 cells to each of its 21 pairs one at a time is 21 passes over it. Removing the largest
attribute first leaves a table ten times smaller that serves many margins; sharing such partial sums makes two or
three passes of it. The same paths, walked backwards, add many small tables onto the clique.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from understudy.models.junction_tree import Margin

Floats = NDArray[np.float64]


class Lattice:
    """Paths of partial sums from a clique down to each of its margins."""

    def __init__(self, clique: Margin, sizes: Mapping[str, int], margins: Sequence[Margin]) -> None:
        self._clique = clique
        self._sizes = sizes
        self._margins = [tuple(margin) for margin in margins]
        # Each node of the lattice but the clique: the table above it, and which axis of that is summed out.
        self._above: dict[Margin, tuple[Margin, int]] = {}
        for margin in self._margins:
            self._reach(margin)
        # Larger tables first: a table is complete before anything is taken from it, or pushed up into it.
        self._order = sorted(self._above, key=len, reverse=True)

    def _reach(self, margin: Margin) -> None:
        if margin == self._clique or margin in self._above:
            return
        missing = [name for name in self._clique if name not in margin]
        # The smallest table already there that holds the margin, or the clique, with the smallest attributes put back.
        known = [node for node in self._above if set(margin) < set(node)]
        best = min(known, key=self._cells, default=None)
        if best is not None and self._cells(best) <= self._cells(margin) * min(self._sizes[n] for n in missing):
            above = best
            removed = [name for name in above if name not in margin]
            if len(removed) > 1:
                above = self._with(margin, min(removed, key=self._sizes.__getitem__))
                self._reach(above)
        else:
            above = self._with(margin, min(missing, key=self._sizes.__getitem__))
            self._reach(above)
        (gone,) = (name for name in above if name not in margin)
        self._above[margin] = (above, above.index(gone))

    def _cells(self, margin: Margin) -> int:
        return prod(self._sizes[name] for name in margin)

    def _with(self, margin: Margin, name: str) -> Margin:
        return tuple(other for other in self._clique if other in margin or other == name)

    def gather(self, table: Floats) -> list[Floats]:
        """The table summed to each margin."""
        sums = {self._clique: table}
        for node in self._order:
            above, axis = self._above[node]
            sums[node] = sums[above].sum(axis=axis)
        return [sums[margin] for margin in self._margins]

    def scatter(self, base: Floats, tables: Sequence[Floats]) -> Floats:
        """``base`` plus every table spread over the clique (the transpose of ``gather``)."""
        waiting: dict[Margin, Floats] = {self._clique: base}
        for margin, table in zip(self._margins, tables, strict=True):
            waiting[margin] = waiting[margin] + table if margin in waiting else table
        for node in reversed(self._order):
            if node in waiting:
                above, axis = self._above[node]
                lifted = np.expand_dims(waiting.pop(node), axis)
                waiting[above] = (
                    waiting[above] + lifted if above in waiting else np.broadcast_to(lifted, self._shape(above))
                )
        return waiting[self._clique]

    def _shape(self, margin: Margin) -> tuple[int, ...]:
        return tuple(self._sizes[name] for name in margin)
