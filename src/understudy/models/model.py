"""A fitted distribution over all attributes, held as the tables of a junction tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import InternalError, UnsupportedError
from understudy.models.junction_tree import JunctionTree, Margin, axes_outside, spread
from understudy.models.sample import draw_cells, draw_given

LARGEST_PRODUCT = 2**26  # cells of an intermediate table


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """``beliefs[i]`` is the probability table of clique i; ``total`` is the number of records of the whole."""

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

    def with_counts(self, margin: Margin, counts: NDArray[np.integer]) -> Model:
        """The nearest model (by relative entropy) with these counts of a margin that lies in one clique.

        Everything else keeps its distribution given the margin. A cell that the model calls impossible stays empty.
        """
        host = self.tree.host(margin)
        if host is None:
            raise InternalError(f"no clique holds {' x '.join(margin)}.")
        beliefs, waiting = list(self.beliefs), [(host, -1)]
        clique = self.tree.cliques[host]
        wanted = np.where(self.project(margin) > 0, counts, 0).astype(np.float64)
        beliefs[host] = _rescaled(beliefs[host], clique, margin, wanted / wanted.sum())
        while waiting:
            here, before = waiting.pop()
            for other, parent in enumerate(self.tree.parents):
                if other == before or (parent != here and self.tree.parents[here] != other):
                    continue
                shared = self.tree.separator(other if parent == here else here)
                moved = np.asarray(beliefs[here].sum(axis=axes_outside(self.tree.cliques[here], shared)))
                beliefs[other] = _rescaled(beliefs[other], self.tree.cliques[other], shared, moved)
                waiting.append((other, here))
        return replace(self, beliefs=tuple(beliefs))

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
            # Its distribution given the separator, summed over the attributes that are not wanted.
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
                f"the margin needs an intermediate table of {cells:,} cells; at most {LARGEST_PRODUCT:,} are possible."
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


def _rescaled(table: Floats, names: Margin, margin: Margin, wanted: Floats) -> Floats:
    """A table whose sums over a margin are the wanted ones; within each of its cells shares stay as they are."""
    now = table.sum(axis=axes_outside(names, margin))
    times = np.divide(wanted, now, out=np.zeros_like(wanted), where=now > 0)
    return np.asarray(table * spread(times, margin, names))


def _ordered(names: Iterable[str], order: Sequence[str]) -> Margin:
    chosen = set(names)
    return tuple(name for name in order if name in chosen)


# All two-way margins of a model at once: one walk over the junction tree for each attribute.
#
# Margins of attributes that share a clique are sums of its table. For the others, the joint distribution of one
# attribute a and a separator S is carried from clique to clique: with D the next clique, P(a, b) = sum_S P(a, S) P(b
# | S) for every b in D, and P(a, S') = sum P(a, S) P(S' | S) for every separator S' that leads on. The conditional
# tables do not depend on a and are computed once. Projecting each pair separately would multiply whole cliques together
# again and again.


class PairMargins:
    """Two-way margins of one model, by pair in schema order."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._tree = model.tree
        self._next: dict[int, list[int]] = defaultdict(list)
        for clique, parent in enumerate(self._tree.parents):
            if parent >= 0:
                self._next[clique].append(parent)
                self._next[parent].append(clique)
        self._sums: dict[tuple[int, Margin], Floats] = {}
        self._given: dict[tuple[int, Margin, Margin], Floats] = {}

    def tables(self, pairs: Iterable[Margin]) -> dict[Margin, Floats]:
        """Expected counts of each pair."""
        found: dict[Margin, Floats] = {}
        apart: dict[str, set[str]] = defaultdict(set)
        for pair in pairs:
            host = self._tree.host(pair)
            if host is not None:
                found[pair] = self._model.total * self._sum(host, pair)
            else:
                apart[pair[0]].add(pair[1])
        for first, others in apart.items():
            for second, table in self._walk(first, others):
                found[first, second] = self._model.total * table
        return found

    def _walk(self, name: str, others: set[str]) -> Iterable[tuple[str, Floats]]:
        """The joint table of one attribute with each of the others, none of which shares a clique with it."""
        start = next(i for i, clique in enumerate(self._tree.cliques) if name in clique)
        # Clique, where from, separator, P(name, separator).
        waiting: list[tuple[int, int, Margin, Floats]] = [(start, -1, (), np.zeros((0, 0)))]
        left = set(others)
        while waiting and left:
            clique, before, separator, joint = waiting.pop()
            members = self._tree.cliques[clique]
            inside = name in members
            if not inside:
                for other in [one for one in members if one in left]:
                    left.discard(other)
                    yield other, joint @ self._conditional(clique, separator, (other,))
            for after in self._next[clique]:
                if after == before:
                    continue
                onward = tuple(one for one in members if one in self._tree.cliques[after])
                if inside:
                    rest = tuple(one for one in onward if one != name)
                    moved = self._with(clique, name, rest)
                else:
                    moved = self._carry(clique, separator, onward, joint)
                waiting.append((after, clique, onward, moved))

    def _with(self, clique: int, name: str, rest: Margin) -> Floats:
        """P(name, rest) as a matrix, from a clique that holds all of it."""
        members = self._tree.cliques[clique]
        wanted = tuple(one for one in members if one == name or one in rest)
        table = np.moveaxis(self._sum(clique, wanted), wanted.index(name), 0)
        return table.reshape(self._tree.sizes[name], -1)

    def _carry(self, clique: int, separator: Margin, onward: Margin, joint: Floats) -> Floats:
        """P(name, onward) from P(name, separator): what both separators share stays, the rest is summed out."""
        shared = tuple(one for one in separator if one in onward)
        gone = tuple(one for one in separator if one not in onward)
        new = tuple(one for one in onward if one not in separator)
        sizes = self._tree.sizes
        count = [int(np.prod([sizes[one] for one in part])) for part in (shared, gone, new)]
        table = joint.reshape(-1, *(sizes[one] for one in separator))
        order = [1 + separator.index(one) for one in (*shared, *gone)]
        blocks = table.transpose(0, *order).reshape(-1, count[0], count[1]).transpose(1, 0, 2)
        given = self._conditional(clique, separator, new).reshape(*(sizes[one] for one in separator), -1)
        order = [separator.index(one) for one in (*shared, *gone)]
        blocks = blocks @ given.transpose(*order, len(separator)).reshape(count[0], count[1], count[2])
        mixed = blocks.transpose(1, 0, 2).reshape(-1, *(sizes[one] for one in (*shared, *new)))
        order = [1 + (*shared, *new).index(one) for one in onward]
        return mixed.transpose(0, *order).reshape(len(mixed), -1)

    def _conditional(self, clique: int, separator: Margin, new: Margin) -> Floats:
        """P(new | separator), one row per state of the separator."""
        key = (clique, separator, new)
        if key not in self._given:
            members = self._tree.cliques[clique]
            wanted = tuple(one for one in members if one in separator or one in new)
            table = self._sum(clique, wanted)
            table = table.transpose([wanted.index(one) for one in (*separator, *new)])
            rows = table.reshape(int(np.prod([self._tree.sizes[one] for one in separator])), -1)
            total = rows.sum(axis=1, keepdims=True)
            self._given[key] = np.divide(rows, total, out=np.zeros_like(rows), where=total > 0)
        return self._given[key]

    def _sum(self, clique: int, wanted: Margin) -> Floats:
        key = (clique, wanted)
        if key not in self._sums:
            outside = axes_outside(self._tree.cliques[clique], wanted)
            self._sums[key] = np.asarray(self._model.beliefs[clique].sum(axis=outside))
        return self._sums[key]
