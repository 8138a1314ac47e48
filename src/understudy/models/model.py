"""A fitted distribution over all attributes, held as the tables of a junction tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import UnsupportedError
from understudy.models.junction_tree import JunctionTree, Margin
from understudy.models.propagation import axes_outside, spread
from understudy.models.sample import draw_cells, draw_given

LARGEST_PRODUCT = 2**26  # cells of a table made on the way to a margin


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """``beliefs[i]`` is the probability table of clique i; ``total`` is the number of records it stands for."""

    tree: JunctionTree
    beliefs: tuple[Floats, ...]
    total: float

    def project(self, margin: Sequence[str]) -> Floats:
        """Expected counts of a margin, one axis per attribute in the order of the schema."""
        wanted = tuple(name for name in self.tree.sizes if name in margin)
        host = self.tree.host(wanted)
        if host is not None:
            return np.asarray(self.total * self.beliefs[host].sum(axis=axes_outside(self.tree.cliques[host], wanted)))
        return self.total * self._eliminate(wanted)

    def _eliminate(self, wanted: Margin) -> Floats:
        """A margin spread over several cliques: leaves of the tree are summed out towards the root."""
        order = tuple(self.tree.sizes)
        tables = [(set(clique), belief) for clique, belief in zip(self.tree.cliques, self.beliefs, strict=True)]
        needed = self._needed(wanted)
        for i in range(len(tables) - 1, 0, -1):
            if i not in needed:
                continue
            names, table = tables[i]
            parent, separator = self.tree.parents[i], self.tree.separator(i)
            # Its distribution given the separator, summed over what nobody asked for.
            kept = tuple(name for name in order if name in names and (name in separator or name in wanted))
            small = table.sum(axis=axes_outside(_ordered(names, order), kept))
            given = small.sum(axis=axes_outside(kept, separator), keepdims=True)
            share = np.divide(small, given, out=np.zeros_like(small), where=given > 0)
            above_names, above = tables[parent]
            joint = _ordered(above_names | set(kept), order)
            self._check_size(joint)
            product = spread(above, _ordered(above_names, order), joint) * spread(share, kept, joint)
            tables[parent] = (set(joint), product)
        names, table = tables[0]
        return np.asarray(table.sum(axis=axes_outside(_ordered(names, order), wanted)))

    def _needed(self, wanted: Margin) -> set[int]:
        """Cliques that hold a wanted attribute their parent does not, and those between them and the root."""
        needed: set[int] = set()
        for i in range(len(self.tree.cliques) - 1, 0, -1):
            new = set(self.tree.cliques[i]) - set(self.tree.separator(i))
            if i in needed or new & set(wanted):
                needed.add(i)
                needed.add(self.tree.parents[i])
        return needed

    def _check_size(self, margin: Margin) -> None:
        cells = int(np.prod([float(self.tree.sizes[name]) for name in margin]))
        if cells > LARGEST_PRODUCT:
            raise UnsupportedError(
                f"the margin needs a table of {cells:,} cells on the way; at most {LARGEST_PRODUCT:,}."
            )

    def log_prob(self, columns: Mapping[str, NDArray[np.integer]]) -> Floats:
        """Log probability of each row, exact for the model."""
        rows = len(next(iter(columns.values())))
        result = np.zeros(rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            for i, (clique, belief) in enumerate(zip(self.tree.cliques, self.beliefs, strict=True)):
                result += np.log(belief[tuple(columns[name] for name in clique)])
                separator = self.tree.separator(i)
                if separator:
                    below = belief.sum(axis=axes_outside(clique, separator))
                    result -= np.log(below[tuple(columns[name] for name in separator)])
        return np.where(np.isnan(result), -np.inf, result)

    def draw(self, schema: Schema, rows: int, by: str, stream: Stream, *purpose: str | int) -> CodedTable:
        """Rows from the model, clique by clique from the root; see ``models.sample`` for ``by``."""
        columns: dict[str, NDArray[np.int64]] = {}
        for i, (clique, belief) in enumerate(zip(self.tree.cliques, self.beliefs, strict=True)):
            separator = self.tree.separator(i)
            if not separator:
                cells = draw_cells(belief, rows, by, stream, *purpose, i)
                columns.update(zip(clique, np.unravel_index(cells, belief.shape), strict=True))
                continue
            rest = tuple(name for name in clique if name not in separator)
            axes = [clique.index(name) for name in (*separator, *rest)]
            shape = self.tree.shape(separator)
            table = belief.transpose(axes).reshape(int(np.prod(shape)), -1)
            state = np.ravel_multi_index([columns[name] for name in separator], shape)
            cells = draw_given(table, state, by, stream, *purpose, i)
            columns.update(zip(rest, np.unravel_index(cells, self.tree.shape(rest)), strict=True))
        return CodedTable(
            schema=schema,
            columns={name: columns[name].astype(np.min_scalar_type(schema[name].size - 1)) for name in schema.names},
        )


def _ordered(names: Iterable[str], order: Sequence[str]) -> Margin:
    chosen = set(names)
    return tuple(name for name in order if name in chosen)
