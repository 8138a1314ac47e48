"""Belief propagation: the margins of every clique, and the normalising constant, from log potentials."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.models.junction_tree import JunctionTree, Margin

Floats = NDArray[np.float64]


def axes_outside(margin: Margin, kept: Sequence[str]) -> tuple[int, ...]:
    """The axes of a table over ``margin`` that are not in ``kept``."""
    return tuple(axis for axis, name in enumerate(margin) if name not in kept)


def spread(table: Floats, margin: Margin, onto: Margin) -> Floats:
    """A view of a table over ``margin`` that broadcasts over ``onto`` (both in schema order)."""
    sizes = iter(table.shape)
    return table.reshape([next(sizes) if name in margin else 1 for name in onto])


def log_sum(table: Floats, axes: tuple[int, ...]) -> Floats:
    """log of the sum of exp over some axes; minus infinity where everything summed is impossible."""
    if not axes:
        return table
    top = table.max(axis=axes, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(table - top).sum(axis=axes)) + top.reshape(_kept_shape(table, axes)))


def _kept_shape(table: Floats, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for axis, size in enumerate(table.shape) if axis not in axes)


class Propagation:
    """Two passes over a junction tree: messages to the root, then beliefs from it.

    Potentials are in logs and may be minus infinity (structural zeros). Beliefs are probabilities that add to one.
    """

    def __init__(self, tree: JunctionTree) -> None:
        self.tree = tree
        self._separators = [tree.separator(i) for i in range(len(tree.cliques))]
        self._outside = [axes_outside(c, s) for c, s in zip(tree.cliques, self._separators, strict=True)]

    def run(self, potentials: Sequence[Floats]) -> tuple[list[Floats], float]:
        """The probability table of every clique, and log Z."""
        tree = self.tree
        tables = list(potentials)
        messages: list[Floats] = [np.zeros(())] * len(tables)
        for i in range(len(tables) - 1, 0, -1):
            messages[i] = log_sum(tables[i], self._outside[i])
            parent = tree.parents[i]
            tables[parent] = tables[parent] + spread(messages[i], self._separators[i], tree.cliques[parent])
        log_z = float(log_sum(tables[0], tuple(range(tables[0].ndim))))
        beliefs: list[Floats] = [np.exp(tables[0] - log_z)]
        for i in range(1, len(tables)):
            parent = tree.parents[i]
            above = beliefs[parent].sum(axis=axes_outside(tree.cliques[parent], self._separators[i]))
            with np.errstate(divide="ignore"):
                ratio = np.where(above > 0, np.log(above) - messages[i], -np.inf)
            beliefs.append(np.exp(tables[i] + spread(ratio, self._separators[i], tree.cliques[i])))
        return beliefs, log_z
