"""Some attributes of a fitted model drawn anew for given rows, from their exact distribution given all the others.

With beliefs b of the cliques C and of the separators S, p(x) is the product of the b(x_C) divided by the product of the
b(x_S). So the distribution of some attributes given all the others is proportional to the part of that product which
has any of them, and the others enter only through those tables. Attributes that no table joins are drawn apart.
Post-processing: the model is public.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.mechanism import Stream
from understudy.errors import UnsupportedError
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
    if prod(shape) > MOST_CELLS:
        raise UnsupportedError(
            f"the attributes {', '.join(free)} have {prod(shape):,} combinations, above {MOST_CELLS:,} that are drawn "
            "together; use fewer or coarser attributes of members, or a smaller model_cells."
        )
    touching = [place for place, clique in enumerate(tree.cliques) if set(clique) & set(free)]
    beside = tuple(
        name for name in tree.sizes if name not in free and any(name in tree.cliques[place] for place in touching)
    )
    state, first = _states(rows, beside)
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
