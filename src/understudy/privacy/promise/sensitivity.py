"""How far one unit can move a query: derived from the query and the unit, never given by a caller.

See docs/theory/sensitivity.md for the proofs; tests enumerate all neighbours of all small tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from understudy.core.schema import Schema
from understudy.core.walsh import CONTRASTS, masks_of, most_signs_that_differ
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.event import Sensitivity

# A margin with structural zeros is searched for a possible move up to this size; beyond it a move is assumed.
LARGEST_SEARCH = 2**26


def margin_sensitivity(schema: Schema, margin: Sequence[str], unit: Unit, cells: str = "all") -> Sensitivity:
    """Sensitivity of the counts of a margin; b is ``unit.rows_per_unit``.

    ``add_remove``: all b rows of a unit may sit in one cell: L1 = L2 = Linf = b. ``replace``: they may all move from
    one cell to another: L1 = 2b, L2^2 = 2b^2, Linf = b; and 0 where no row can move, because every allowed cell
    differs from the others in a ``fixed`` attribute. ``cells="first"`` is one cell of two with a public total:
    L1 = L2 = Linf = b. ``cells="contrasts"`` are the K Fourier coefficients of the margin's own, sums of counts with
    signs. ``add_remove``: each moves by b, so L1 = b K, L2^2 = b^2 K, Linf = b. ``replace``: a row that moves from one
    cell to another changes those in which the two have another sign, at most D of them, by 2 each: L1 = 2 b D, L2^2 =
    4 b^2 D, Linf = 2b.

    Structural zeros count where the margin has all attributes of the rule, as they do for the noise. Rules that reach
    outside the margin could only make the truth smaller.
    """
    names = schema.margin(margin)
    for name in unit.fixed:
        schema[name]  # an unknown name would silently protect less than intended
    rows = unit.rows_per_unit
    if cells == "all":
        if unit.kind == "add_remove":
            return Sensitivity(l1=rows, l2_squared=rows**2, linf=rows)
        if _row_can_move(schema, names, unit.fixed):
            return Sensitivity(l1=2 * rows, l2_squared=2 * rows**2, linf=rows)
        return Sensitivity(l1=0, l2_squared=0, linf=0)
    if cells == CONTRASTS:
        sizes = schema.shape(names)
        if unit.kind == "add_remove":
            count = prod(masks_of(size) for size in sizes)
            return Sensitivity(l1=rows * count, l2_squared=rows**2 * count, linf=rows)
        differ = most_signs_that_differ(sizes, [name not in unit.fixed for name in names])
        return Sensitivity(l1=2 * rows * differ, l2_squared=4 * rows**2 * differ, linf=2 * rows if differ else 0)
    if cells != "first":
        raise InputError(f"cells ({cells!r}) must be 'all', 'first' or '{CONTRASTS}'.")
    if not unit.public_total:
        raise UnsupportedError("measuring one cell of two needs a public total, which add_remove does not give.")
    # A table of more cells than this has more than two allowed ones, unless its rules rule out nearly everything.
    possible = int(schema.allowed(names).sum()) if schema.cells(names) <= LARGEST_SEARCH else LARGEST_SEARCH
    if possible != 2:
        raise UnsupportedError(
            f"measuring one cell of two needs a margin with two possible cells; it has {possible:,}."
        )
    moved = rows if _row_can_move(schema, names, unit.fixed) else 0
    return Sensitivity(l1=moved, l2_squared=moved**2, linf=moved)


def code_sensitivity(schema: Schema, margin: Sequence[str], unit: Unit) -> Sensitivity:
    """Sensitivity of the counts of unlisted codes: a unit may move from any code to any other.

    ``linf`` is the number of rows of a unit, so the number of codes that it may have for itself.
    """
    (name,) = schema.margin(margin)
    if name in unit.fixed:
        raise InputError(f"'{name}' is fixed, so its codes are public; list them as levels.")
    rows = unit.rows_per_unit
    moved = 1 if unit.kind == "add_remove" else 2
    return Sensitivity(l1=moved * rows, l2_squared=moved * rows**2, linf=rows)


def selection_sensitivity(weights: Sequence[int], unit: Unit) -> int:
    """Largest change of a score weight x L1 distance(true counts, whole-number model counts) by one unit.

    By the triangle inequality a distance moves by at most the L1 sensitivity of the counts: b, or 2b under
    ``replace``.
    """
    if not weights or any(isinstance(weight, bool) or not isinstance(weight, int | np.integer) for weight in weights):
        raise InputError("a selection needs at least one candidate, each with a whole-number weight.")
    moves = 2 if unit.kind == "replace" else 1
    return max(abs(int(weight)) for weight in weights) * unit.rows_per_unit * moves


def comparison_sensitivity(weights: Sequence[int], unit: Unit) -> Sensitivity:
    """Sensitivity of many distances that are handed out together, each weight x L1 distance(true, model counts).

    One unit can move every one of them, each by as much as ``selection_sensitivity`` says of it alone. So the L1
    sensitivity is their sum, and the squared L2 sensitivity the sum of their squares.
    """
    moves = [selection_sensitivity([weight], unit) for weight in weights]
    return Sensitivity(l1=sum(moves), l2_squared=sum(move**2 for move in moves), linf=max(moves, default=0))


def _row_can_move(schema: Schema, margin: tuple[str, ...], fixed: tuple[str, ...]) -> bool:
    """Whether two allowed cells of the margin agree on every fixed attribute."""
    free = [name for name in margin if name not in fixed]
    if prod(schema.shape(free)) < 2:
        return False
    inside = [rule for rule in schema.zeros if set(rule.attributes) <= set(margin)]
    if not inside or schema.cells(margin) > LARGEST_SEARCH:
        return True
    allowed = schema.allowed(margin)
    per_stratum = allowed.sum(axis=tuple(margin.index(name) for name in free))
    return bool((per_stratum >= 2).any())
