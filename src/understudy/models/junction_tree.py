"""Junction trees and belief propagation: a distribution with few interactions is split into cliques that fit in memory.

The graph of interactions is made chordal by eliminating attributes one at a time, the cheapest first. The resulting
cliques are joined to a tree along their largest common parts. Attributes keep the order of the schema in every clique,
so tables are aligned by inserting axes and never by transposing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from understudy.core.arrays import Floats
from understudy.errors import InputError, UnsupportedError

Margin = tuple[str, ...]
MANY = 100  # margins for which compiled loops pay for loading them (a second and a hundred MB)


@dataclass(frozen=True, slots=True, kw_only=True)
class JunctionTree:
    """Cliques from the root downwards; ``parents[i]`` is the clique that clique i hangs on (-1 for the root)."""

    sizes: Mapping[str, int]
    cliques: tuple[Margin, ...]
    parents: tuple[int, ...]

    @classmethod
    def build(cls, sizes: Mapping[str, int], groups: Iterable[Sequence[str]], limit: int | None = None) -> JunctionTree:
        """The tree of a graph in which the attributes of each group interact.

        ``limit`` is the largest number of cells that all cliques together may have.
        """
        cliques = _cliques(sizes, groups)
        cells = sum(prod(sizes[name] for name in clique) for clique in cliques)
        if limit is not None and cells > limit:
            worst = max(cliques, key=lambda clique: prod(sizes[name] for name in clique))
            raise UnsupportedError(
                f"the model needs tables with {cells:,} cells, above the limit of {limit:,}; the largest joins "
                f"{' x '.join(worst)}. Use fewer or smaller margins."
            )
        order, parents = _join(cliques)
        return cls(sizes=dict(sizes), cliques=tuple(cliques[i] for i in order), parents=tuple(parents))

    @property
    def cells(self) -> int:
        """Cells of all cliques together: what a model costs in memory and time."""
        return sum(prod(self.shape(clique)) for clique in self.cliques)

    def shape(self, margin: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.sizes[name] for name in margin)

    def separator(self, clique: int) -> Margin:
        """The attributes a clique shares with its parent."""
        parent = self.parents[clique]
        if parent < 0:
            return ()
        return tuple(name for name in self.cliques[clique] if name in self.cliques[parent])

    def host(self, margin: Sequence[str]) -> int | None:
        """The smallest clique that holds all attributes of a margin, if one does."""
        wanted = set(margin)
        holding = [i for i, clique in enumerate(self.cliques) if wanted.issubset(clique)]
        return min(holding, key=lambda i: prod(self.shape(self.cliques[i])), default=None)


def tree_cells(sizes: Mapping[str, int], groups: Iterable[Sequence[str]]) -> int:
    """How many cells the cliques of a graph would have, without building the tree."""
    return sum(cells for _, cells in _eliminate(sizes, groups))


def cells_with(
    sizes: Mapping[str, int], groups: Iterable[Sequence[str]], margins: Sequence[Sequence[str]]
) -> list[float]:
    """``tree_cells`` of a graph with one margin added, for each margin."""
    if len(margins) < MANY:
        given = list(groups)
        return [float(tree_cells(sizes, [*given, margin])) for margin in margins]
    import numpy as np

    from understudy.models.elimination_compiled import cells_with_each

    position = {name: place for place, name in enumerate(sizes)}
    joined = np.zeros((len(sizes), len(sizes)), dtype=np.bool_)
    for group in groups:
        places = [position[name] for name in group]
        joined[np.ix_(places, places)] = True
    flags = np.zeros((len(margins), len(sizes)), dtype=np.bool_)
    for number, margin in enumerate(margins):
        flags[number, [position[name] for name in margin]] = True
    return [float(cells) for cells in cells_with_each(joined, np.array(list(sizes.values()), dtype=float), flags)]


def _cliques(sizes: Mapping[str, int], groups: Iterable[Sequence[str]]) -> list[Margin]:
    """Maximal cliques of a chordal completion, attributes in the order of the schema."""
    names = tuple(sizes)
    return [tuple(names[place] for place in _places(clique)) for clique, _ in _eliminate(sizes, groups)]


def _eliminate(sizes: Mapping[str, int], groups: Iterable[Sequence[str]]) -> list[tuple[int, int]]:
    """Maximal cliques and their cells: eliminate the attribute whose clique is smallest, and repeat.

    Sets of attributes are bits of a number, and the cells of every attribute's clique are kept up to date: an adaptive
    method asks this for hundreds of graphs in every round.
    """
    position = {name: place for place, name in enumerate(sizes)}
    levels = list(sizes.values())
    around = [0] * len(levels)
    for group in groups:
        members = 0
        for name in group:
            if name not in position:
                raise InputError(f"'{name}' is not an attribute of the model.")
            members |= 1 << position[name]
        for name in group:
            around[position[name]] |= members
    cells = []
    for place in range(len(levels)):
        around[place] &= ~(1 << place)
        cells.append(levels[place] * prod(levels[other] for other in _places(around[place])))
    if not any(around):  # each by itself, in the order in which they would be eliminated: there may be thousands
        return [(1 << place, cells[place]) for place in sorted(range(len(levels)), key=cells.__getitem__)]
    left = list(range(len(levels)))
    found: list[tuple[int, int]] = []
    while left:
        place = min(left, key=cells.__getitem__)  # the first of equals
        here = around[place]
        clique = here | 1 << place
        if not any(clique & other == clique for other, _ in found):
            found.append((clique, cells[place]))
        for other in _places(here):
            new = clique & ~around[other] & ~(1 << other)
            cells[other] = cells[other] * prod(levels[one] for one in _places(new)) // levels[place]
            around[other] = (around[other] | new) & ~(1 << place)
        left.remove(place)
    return found


def _places(bits: int) -> list[int]:
    """The places of the ones in a number, ascending."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def _join(cliques: Sequence[Margin]) -> tuple[list[int], list[int]]:
    """A maximum spanning tree by the size of common parts (Prim), as an order from the root and parents in it."""
    sets = [set(clique) for clique in cliques]
    order, parents = [0], [-1]
    waiting = {i: (len(sets[i] & sets[0]), 0) for i in range(1, len(cliques))}
    while waiting:
        chosen = max(waiting, key=lambda i: (waiting[i][0], -i))
        order.append(chosen)
        parents.append(waiting.pop(chosen)[1])
        for i, (common, _) in waiting.items():
            shared = len(sets[i] & sets[chosen])
            if shared > common:
                waiting[i] = (shared, len(order) - 1)
    return order, parents


# Belief propagation: the margins of every clique, and the normalising constant, from log potentials.


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
