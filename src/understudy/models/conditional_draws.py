"""Some attributes of a fitted model drawn anew for given rows, from their exact distribution given all the others.

With beliefs b of the cliques C and of the separators S, p(x) is the product of the b(x_C) divided by the product of the
b(x_S). So the distribution of some attributes given all the others is proportional to the part of that product which
has any of them, and the others enter only through those tables. Attributes that no table joins are drawn apart.

Attributes with too many combinations are drawn clique by clique. With the conditional tables b(x_C) / b(x_S) at the
given codes, each clique tells its parent the sum over its own attributes, times what its children told it. From the
root downwards, the attributes of a clique are then drawn in proportion to its table times what its children told.
Post-processing: the model is public.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.mechanism import Stream
from understudy.models.junction_tree import Margin, axes_outside
from understudy.models.model import Model
from understudy.models.sample import draw_given

MOST_CELLS = 2**24  # of attributes that are drawn together
CELLS_AT_ONCE = 2**23


def draw_anew(
    model: Model, rows: Mapping[str, NDArray[np.integer]], names: Sequence[str], stream: Stream, *purpose: str | int
) -> tuple[dict[str, Integers], NDArray[np.bool_]]:
    """The attributes ``names`` for each row, given every other column of ``rows``; and for which rows there is any.

    A row whose other columns have probability 0 in the model has no distribution to draw from; its codes are 0.
    """
    count = len(next(iter(rows.values())))
    drawn: dict[str, Integers] = {}
    possible = np.ones(count, dtype=bool)
    for number, group in enumerate(_apart(model, names)):
        codes, there = _draw_group(model, rows, group, stream, *purpose, number)
        drawn |= codes
        possible &= there
    return drawn, possible


def _apart(model: Model, names: Iterable[str]) -> list[Margin]:
    """The attributes in groups that no table of the model joins."""
    groups: list[set[str]] = [{name} for name in names]
    for clique in model.tree.cliques:
        inside = [group for group in groups if group & set(clique)]
        if len(inside) > 1:
            groups = [group for group in groups if group not in inside] + [set().union(*inside)]
    order = tuple(model.tree.sizes)
    return [tuple(name for name in order if name in group) for group in groups]


def _draw_group(
    model: Model, rows: Mapping[str, NDArray[np.integer]], free: Margin, stream: Stream, *purpose: str | int
) -> tuple[dict[str, Integers], NDArray[np.bool_]]:
    tree = model.tree
    shape = tree.shape(free)
    touching, beside = _around(model, free)
    state, first = _states(rows, beside)
    if prod(shape) > MOST_CELLS:
        return _draw_by_clique(model, rows, free, stream, *purpose)
    codes = np.zeros(len(state), dtype=np.int64)
    possible = np.zeros(len(state), dtype=bool)
    step = max(1, CELLS_AT_ONCE // prod(shape))
    for begin in range(0, len(first), step):
        here = np.flatnonzero((state >= begin) & (state < begin + step))
        given = {name: np.asarray(rows[name])[first[begin : begin + step]].astype(np.int64) for name in beside}
        weights = _weights(model, touching, free, given, len(first[begin : begin + step]))
        there = weights.sum(axis=1) > 0
        possible[here] = there[state[here] - begin]
        weights[~there, 0] = 1.0
        codes[here] = draw_given(weights, state[here] - begin, "multinomial", stream, *purpose, begin)
    return dict(zip(free, np.unravel_index(codes, shape), strict=True)), possible


def _around(model: Model, free: Margin) -> tuple[list[int], Margin]:
    """The cliques that hold a free attribute, from the root downwards, and the other attributes in them."""
    tree = model.tree
    touching = [place for place, clique in enumerate(tree.cliques) if set(clique) & set(free)]
    held = {name for place in touching for name in tree.cliques[place]} - set(free)
    return touching, tuple(name for name in tree.sizes if name in held)


def _draw_by_clique(
    model: Model, rows: Mapping[str, NDArray[np.integer]], free: Margin, stream: Stream, *purpose: str | int
) -> tuple[dict[str, Integers], NDArray[np.bool_]]:
    tree = model.tree
    touching, beside = _around(model, free)
    state, first = _states(rows, beside)
    inside = {place: tuple(name for name in tree.cliques[place] if name in free) for place in touching}
    above = {place: tuple(name for name in tree.separator(place) if name in free) for place in touching}
    codes = {name: np.zeros(len(state), dtype=np.int64) for name in free}
    possible = np.zeros(len(state), dtype=bool)
    step = max(1, CELLS_AT_ONCE // max(prod(tree.shape(names)) for names in inside.values()))
    for begin in range(0, len(first), step):
        here = np.flatnonzero((state >= begin) & (state < begin + step))
        some = first[begin : begin + step]
        given = {name: np.asarray(rows[name])[some].astype(np.int64) for name in beside}
        tables, there = {}, np.ones(len(some), dtype=bool)
        for place in touching:
            belief, separator = model.beliefs[place], tree.separator(place)
            sums = belief.sum(axis=axes_outside(tree.cliques[place], separator))
            below = _part(sums, separator, inside[place], given, len(some))
            table = _part(belief, tree.cliques[place], inside[place], given, len(some))
            tables[place] = np.divide(table, below, out=np.zeros_like(table), where=below > 0)
        for place in reversed(touching):
            outside = tuple(1 + axis for axis, name in enumerate(inside[place]) if name not in above[place])
            told = tables[place].sum(axis=outside)
            largest = told.reshape(len(some), -1).max(axis=1)
            there &= largest > 0
            if above[place]:
                parent, scale = tree.parents[place], np.where(largest > 0, largest, 1.0)
                shape = [tree.sizes[name] if name in above[place] else 1 for name in inside[parent]]
                scaled = told / scale.reshape(-1, *(1 for _ in above[place]))
                tables[parent] = tables[parent] * scaled.reshape(len(some), *shape)
        possible[here] = there[state[here] - begin]
        for place in touching:
            rest = tuple(name for name in inside[place] if name not in above[place])
            if not rest:
                continue
            order = [1 + inside[place].index(name) for name in (*above[place], *rest)]
            weights = tables[place].transpose(0, *order).reshape(-1, prod(tree.shape(rest)))
            weights = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, 1.0)
            known = [state[here] - begin, *(codes[name][here] for name in above[place])]
            which = np.ravel_multi_index(known, (len(some), *tree.shape(above[place])))
            drawn = draw_given(weights, which, "multinomial", stream, *purpose, begin, "clique", place)
            for name, found in zip(rest, np.unravel_index(drawn, tree.shape(rest)), strict=True):
                codes[name][here] = found
    return codes, possible


def _states(rows: Mapping[str, NDArray[np.integer]], names: Margin) -> tuple[Integers, Integers]:
    """A number for each row that says which values it has, and the first row with each."""
    count = len(next(iter(rows.values())))
    state, first = np.zeros(count, dtype=np.int64), np.zeros(min(count, 1), dtype=np.int64)
    for name in names:
        codes = np.asarray(rows[name]).astype(np.int64)
        mixed = state * (int(codes.max(initial=0)) + 1) + codes
        _, first, state = np.unique(mixed, return_index=True, return_inverse=True)
    return state, first


def _weights(model: Model, touching: Sequence[int], free: Margin, given: Mapping[str, Integers], count: int) -> Floats:
    """The product of all tables with a free attribute, for each state of the others; each row of it is scaled."""
    tree = model.tree
    weights = np.ones((count, *tree.shape(free)))
    for place in touching:
        clique, belief = tree.cliques[place], model.beliefs[place]
        weights *= _part(belief, clique, free, given, count)
        separator = tree.separator(place)
        if set(separator) & set(free):
            below = belief.sum(axis=axes_outside(clique, separator))
            part = _part(below, separator, free, given, count)
            filled = np.broadcast_to(part > 0, weights.shape)
            weights = np.divide(weights, part, out=np.zeros_like(weights), where=filled)
        flat = weights.reshape(count, -1)
        largest = flat.max(axis=1, keepdims=True)
        np.divide(flat, largest, out=flat, where=largest > 0)
    return weights.reshape(count, -1)


def _part(table: Floats, names: Margin, free: Margin, given: Mapping[str, Integers], count: int) -> Floats:
    """A table at the given codes, with an axis for each state and for each free attribute."""
    held = [name for name in names if name not in free]
    open_names = [name for name in names if name in free]
    turned = table.transpose([names.index(name) for name in (*held, *open_names)])
    chosen = turned[tuple(given[name] for name in held)] if held else np.broadcast_to(turned, (count, *turned.shape))
    shape = [table.shape[names.index(name)] if name in open_names else 1 for name in free]
    return np.asarray(chosen).reshape(count, *shape)
