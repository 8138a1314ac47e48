"""How far one unit can move a query: derived from the query and the unit, never given by a caller.

See docs/theory/sensitivity.md for the proofs; tests enumerate all neighbours of all small tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from understudy.core.linked_schema import SIZE, LinkedSchema
from understudy.core.measurement import NEIGHBOURS
from understudy.core.schema import Schema
from understudy.core.survey_design import Design
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


def members_per_unit(schema: LinkedSchema, unit: Unit) -> int:
    """How many rows of the table of members one unit can move.

    A household moves all of its members, at most ``at_most``. A person moves its own row: the household's attributes
    and its size stay, so they are fixed. This holds only where nobody is left out of a large household, because who
    stays can depend on what one member says. A role is an attribute of members only where it comes from a column, so it
    moves with that member alone.
    """
    person = unit.unit_id == schema.person_id and {*schema.households.names, SIZE} <= set(unit.fixed)
    return 1 if person and schema.beyond == "error" else schema.at_most


def linked_sensitivity(schema: LinkedSchema, margin: Sequence[str], unit: Unit, cells: str = "all") -> Sensitivity:
    """Sensitivity of a table of linked tables: one row for each household, or one for each member.

    A table of households moves by one row for a household and for a person (docs/theory/households.md). A table of
    members moves by all rows of a household, or by one row of a person. Of pairs of members, in which each member is at
    most once, a household has half as many, and a person one. What the unit calls fixed is fixed there too.
    """
    if schema.is_of_households(margin):
        return margin_sensitivity(schema.wide, margin, unit, cells)
    counted, rows = schema.counted_in(margin), members_per_unit(schema, unit)
    if schema.is_of_pairs(margin):
        rows = max(rows // 2, 1)
    fixed = tuple(name for name in unit.fixed if name in counted.names)
    return margin_sensitivity(counted, margin, replace(unit, rows_per_unit=rows, fixed=fixed), cells)


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


def neighbours_sensitivity(unit: Unit, clusters: str) -> Sensitivity:
    """Sensitivity of the counts of pairs: each row with the next one of its cluster, in a random order of its rows.

    The order of the others does not depend on a row, so it is the same with and without it. A row that comes between
    two others takes one pair away and adds two, which are not in the same cell unless one of them is in the cell that
    loses one; beside one other row it adds two: L1 <= 3, L2^2 <= 4. A row that leaves and one that comes: L1 <= 6,
    L2^2 <= 11, Linf <= 3 (docs/theory/survey-weights.md, Proposition 5). A unit of b rows moves b times as much; if it
    is the cluster itself, its b pairs alone.
    """
    rows = unit.rows_per_unit
    if unit.unit_id == clusters:
        moved = 1 if unit.kind == "add_remove" else 2
        return Sensitivity(l1=moved * rows, l2_squared=moved * rows**2, linf=rows)
    if unit.kind == "add_remove":
        return Sensitivity(l1=3 * rows, l2_squared=4 * rows**2, linf=2 * rows)
    return Sensitivity(l1=6 * rows, l2_squared=11 * rows**2, linf=3 * rows)


def sizes_sensitivity(unit: Unit, clusters: str, largest: int) -> Sensitivity:
    """Sensitivity of two numbers: the sum of m (m - 1) over clusters of m rows, at most ``largest``, and the rows.

    One row more or less changes the first by at most 2 (largest - 1), and the second by one. Under ``replace`` one row
    leaves and one comes, with opposite signs, and the number of rows stays. A unit that is the cluster itself, with at
    most b rows, changes the first by at most b (b - 1), or by the largest cluster's.
    """
    rows = unit.rows_per_unit
    if unit.unit_id == clusters:
        most = min(rows, largest)
        moved = most * (most - 1)
    else:
        moved = 2 * (largest - 1) * rows
    if unit.kind == "replace":
        return Sensitivity(l1=moved, l2_squared=moved**2, linf=moved)
    return Sensitivity(l1=moved + rows, l2_squared=moved**2 + rows**2, linf=max(moved, rows))


def clusters_sensitivity(design: Design | None, unit: Unit, cells: str) -> Sensitivity:
    """Sensitivity of what is counted of the clusters of a design: ``neighbours`` or ``sizes``."""
    if design is None or not design.measure_effects:
        raise InputError("clusters are counted, and the schema does not ask for that.")
    if cells == NEIGHBOURS:
        return neighbours_sensitivity(unit, design.clusters)
    return sizes_sensitivity(unit, design.clusters, design.largest_cluster)


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
