"""Belief propagation: the margins of every clique, and the normalising constant, from log potentials."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.core.arrays import Floats
from understudy.models.junction_tree import JunctionTree, Margin


def axes_outside(margin: Margin, kept: Sequence[str]) -> tuple[int, ...]:
    """The axes of a table over ``margin`` that are not in ``kept``."""
    return tuple(axis for axis, name in enumerate(margin) if name not in kept)


def spread(table: Floats, margin: Margin, onto: Margin) -> Floats:
    """A view of a table over ``margin`` that broadcasts over ``onto`` (both in schema order)."""
    sizes = iter(table.shape)
    return table.reshape([next(sizes) if name in margin else 1 for name in onto])


class Propagation:
    """Two passes over a junction tree: messages to the root, then beliefs from it.

    Potentials are logarithms and may be minus infinity (structural zeros). Beliefs are probabilities that add up to
    one. On the way up, a clique keeps its table divided by its message: its distribution given the separator. On the
    way down, this is multiplied by the distribution of the separator. So each table is exponentiated once.
    """

    def __init__(self, tree: JunctionTree) -> None:
        self.tree = tree
        self._separators = [tree.separator(i) for i in range(len(tree.cliques))]
        self._outside = [axes_outside(c, s) for c, s in zip(tree.cliques, self._separators, strict=True)]
        self._above = [
            axes_outside(tree.cliques[parent], separator) if parent >= 0 else ()
            for parent, separator in zip(tree.parents, self._separators, strict=True)
        ]

    def run(self, potentials: Sequence[Floats]) -> tuple[list[Floats], float]:
        """The probability table of every clique, and log Z."""
        tree = self.tree
        tables = list(potentials)
        for i in range(len(tables) - 1, 0, -1):
            tables[i], message = _conditional(tables[i], self._outside[i])
            parent, separator = tree.parents[i], self._separators[i]
            tables[parent] = tables[parent] + spread(message, separator, tree.cliques[parent])
        tables[0], log_z = _conditional(tables[0], self._outside[0])
        for i in range(1, len(tables)):
            above = tables[tree.parents[i]].sum(axis=self._above[i])
            tables[i] = tables[i] * spread(above, self._separators[i], tree.cliques[i])
        return tables, float(log_z)


def _conditional(table: Floats, axes: tuple[int, ...]) -> tuple[Floats, Floats]:
    """exp(table) divided by its sum over some axes, and the log of that sum (minus infinity if no cell is possible)."""
    top = table.max(axis=axes, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    weights = np.exp(table - top)
    total = weights.sum(axis=axes, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_total = (np.log(total) + top).reshape([size for axis, size in enumerate(table.shape) if axis not in axes])
        weights /= np.where(total > 0, total, 1.0)
    return weights, log_total
