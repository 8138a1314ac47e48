"""Many margins of one clique at the price of few: partial sums are shared.

To sum a clique of 147,000 cells to each of its 21 pairs one at a time is 21 passes over it. Removing the largest
attribute first leaves a table ten times smaller that serves many margins; sharing such partial sums makes two or
three passes of it. The same paths, walked backwards, add many small tables onto the clique. Where margins are very
small (pairs of binary attributes), the calls cost more than the sums: then several margins are taken together from a
common table of at most SMALL cells, by one sparse matrix of zeros and ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from understudy.core.arrays import Floats
from understudy.models.junction_tree import Margin

SMALL = 1024


class Lattice:
    """Paths of partial sums from a clique down to each of its margins."""

    def __init__(self, clique: Margin, sizes: Mapping[str, int], margins: Sequence[Margin]) -> None:
        self._clique = clique
        self._sizes = sizes
        self._margins = [tuple(margin) for margin in margins]
        self._groups = self._grouped()
        # Each node of the lattice but the clique: the table above it, and which axis of that is summed out.
        self._above: dict[Margin, tuple[Margin, int]] = {}
        for node in self._groups:
            self._reach(node)
        # Larger tables first: a table is complete before anything is taken from it, or pushed up into it.
        self._order = sorted(self._above, key=len, reverse=True)
        # Around the axis that is summed out: cells before it, its levels, cells after it.
        self._split = {
            node: (self._cells(above[:axis]), self._sizes[above[axis]], self._cells(above[axis + 1 :]))
            for node, (above, axis) in self._above.items()
        }
        self._matrices = {node: self._sums(node, numbers) for node, numbers in self._groups.items() if numbers}

    def _grouped(self) -> dict[Margin, list[int]]:
        """Which margins are taken from which common table; none stands for a margin that is a table of its own."""
        groups: list[tuple[Margin, list[int]]] = []
        for number, margin in enumerate(self._margins):
            for place, (union, numbers) in enumerate(groups):
                wider = tuple(name for name in self._clique if name in union or name in margin)
                if self._cells(wider) <= SMALL:
                    groups[place] = (wider, [*numbers, number])
                    break
            else:
                groups.append((margin, [number]))
        merged: dict[Margin, list[int]] = {}
        for union, numbers in groups:
            merged.setdefault(union, []).extend(numbers)
        return {
            union: [] if len(numbers) == 1 and self._margins[numbers[0]] == union else numbers
            for union, numbers in merged.items()
        }

    def _sums(self, node: Margin, numbers: Sequence[int]) -> tuple[Any, list[int], Any]:
        """The matrix that sums a table to some of the margins, one after another, and its transpose."""
        from scipy import sparse

        codes = np.indices(self._shape(node)).reshape(len(node), -1)
        rows, begin = [], 0
        for number in numbers:
            margin = self._margins[number]
            cells = np.ravel_multi_index([codes[node.index(name)] for name in margin], self._shape(margin))
            rows.append(begin + cells)
            begin += self._cells(margin)
        place = np.concatenate(rows)
        columns = np.tile(np.arange(codes.shape[1]), len(numbers))
        matrix = sparse.csr_array((np.ones(len(place)), (place, columns)), shape=(begin, codes.shape[1]))
        ends = np.cumsum([self._cells(self._margins[number]) for number in numbers])
        return matrix, [int(end) for end in ends[:-1]], matrix.T.tocsr()

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
        sums = {self._clique: table.ravel()}
        for node in self._order:
            above = sums[self._above[node][0]].reshape(self._split[node])
            sums[node] = (above[:, 0] + above[:, 1] if above.shape[1] == 2 else above.sum(axis=1)).ravel()
        found: list[Floats] = [sums.get(margin, table) for margin in self._margins]
        for node, (matrix, ends, _) in self._matrices.items():
            for number, part in zip(self._groups[node], np.split(matrix @ sums[node], ends), strict=True):
                found[number] = part
        return [part.reshape(self._shape(margin)) for part, margin in zip(found, self._margins, strict=True)]

    def scatter(self, base: Floats, tables: Sequence[Floats]) -> Floats:
        """``base`` plus every table spread over the clique (the transpose of ``gather``)."""
        waiting: dict[Margin, Floats] = {}
        grouped = {number for numbers in self._groups.values() for number in numbers}
        for number, (margin, table) in enumerate(zip(self._margins, tables, strict=True)):
            if number not in grouped:
                waiting[margin] = waiting[margin] + table.ravel() if margin in waiting else table.ravel()
        for node, (_, _, transposed) in self._matrices.items():
            joined = transposed @ np.concatenate([tables[number].ravel() for number in self._groups[node]])
            waiting[node] = waiting[node] + joined if node in waiting else joined
        for node in reversed(self._order):
            if node in waiting:
                above, (before, levels, after) = self._above[node][0], self._split[node]
                lifted = waiting.pop(node).reshape(before, 1, after)
                if above in waiting:
                    lifted = waiting[above].reshape(before, levels, after) + lifted
                waiting[above] = np.broadcast_to(lifted, (before, levels, after)).ravel()
        if self._clique not in waiting:
            return base
        return base + waiting[self._clique].reshape(base.shape)

    def _shape(self, margin: Margin) -> tuple[int, ...]:
        return tuple(self._sizes[name] for name in margin)
