"""Junction trees: how a distribution with few interactions is taken apart into cliques that fit in memory.

Given which attributes interact, the graph is made chordal by eliminating attributes one at a time, cheapest first; the
cliques that arise are joined in a tree along their largest common parts. Attributes keep the order of the schema in
every clique, so tables are aligned by inserting axes and never by transposing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from understudy.errors import InputError, UnsupportedError

Margin = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JunctionTree:
    """Cliques from the root downwards; ``parents[i]`` is the clique that clique i hangs on (-1 for the root)."""

    sizes: Mapping[str, int]
    cliques: tuple[Margin, ...]
    parents: tuple[int, ...]

    @classmethod
    def build(cls, sizes: Mapping[str, int], groups: Iterable[Sequence[str]], limit: int | None = None) -> JunctionTree:
        """The tree of a graph in which the attributes of each group interact.

        ``limit`` is the largest number of cells all cliques together may have.
        """
        cliques = _eliminate(sizes, groups)
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
        holding = [i for i, clique in enumerate(self.cliques) if set(margin) <= set(clique)]
        return min(holding, key=lambda i: prod(self.shape(self.cliques[i])), default=None)


def tree_cells(sizes: Mapping[str, int], groups: Iterable[Sequence[str]]) -> int:
    """How many cells the cliques of a graph would have, without building the tree."""
    return sum(prod(sizes[name] for name in clique) for clique in _eliminate(sizes, groups))


def _eliminate(sizes: Mapping[str, int], groups: Iterable[Sequence[str]]) -> list[Margin]:
    """Maximal cliques of a chordal completion: eliminate the attribute whose clique is smallest, and repeat."""
    neighbours: dict[str, set[str]] = {name: set() for name in sizes}
    for group in groups:
        for name in group:
            if name not in neighbours:
                raise InputError(f"'{name}' is not an attribute of the model.")
            neighbours[name].update(group)
    for name, around in neighbours.items():
        around.discard(name)
    position = {name: i for i, name in enumerate(sizes)}
    left = set(sizes)
    found: list[frozenset[str]] = []

    def cost(name: str) -> tuple[int, int]:
        return sizes[name] * prod(sizes[other] for other in neighbours[name]), position[name]

    costs = {name: cost(name) for name in sizes}
    while left:
        name = min(left, key=costs.__getitem__)
        around = neighbours[name]
        clique = frozenset({name, *around})
        if not any(clique <= other for other in found):
            found.append(clique)
        for other in around:
            neighbours[other] |= around
            neighbours[other] -= {other, name}
        costs.update((other, cost(other)) for other in around)  # nobody else's neighbours changed
        left.discard(name)
    return [tuple(sorted(clique, key=position.__getitem__)) for clique in found]


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
