"""All tables of a few rows in a few cells, which of them are neighbours, and what each output discloses.

Tables are rows of an integer array in lexicographic order. Tables are counted before they are built, and refused if
they would not fit. An audit of a large space uses its structure (``dirichlet_profile``, ``auditing.noise_losses``) or
is refused. It never uses a sample of the space.
"""

from __future__ import annotations

import math

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.promise.definition import Unit

LARGEST_SPACE = 4_000_000  # entries of a transition matrix: 32 MB of probabilities
LARGEST_LISTING = 2_000_000  # numbers in a list of tables
HUGE = 10**15  # larger numbers of tables are not counted further


def choose(n: int, k: int) -> int:
    """n over k, or ``HUGE`` where it is larger: no need to build a number of a million digits to refuse it."""
    estimate = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return HUGE if estimate > math.log(HUGE) else math.comb(n, k)


def check_size(value: int, name: str) -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} ({value}) must be a whole number of at least 1.")
    return int(value)


def how_many(records: int, cells: int, unit: Unit) -> int:
    """How many tables there are: of exactly ``records`` rows under replace, of 0 to ``records`` under add_remove.

    >>> how_many(5, 2, Unit()), how_many(5, 2, Unit(kind="add_remove"))
    (6, 21)
    """
    extra = 0 if unit.kind == "replace" else 1  # a table of at most n rows is one of n rows with a cell for the rest
    return choose(records + cells - 1 + extra, cells - 1 + extra)


def tables_of(records: int, cells: int) -> Integers:
    """Every table of exactly ``records`` rows, in lexicographic order.

    >>> tables_of(2, 2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    refuse_large(choose(records + cells - 1, cells - 1) * cells, LARGEST_LISTING, "tables")
    found = np.zeros((1, 0), dtype=np.int64)
    left = np.array([records])
    for _ in range(cells - 1):
        choices = left + 1
        parent = np.repeat(np.arange(len(found)), choices)
        taken = np.arange(len(parent)) - np.repeat(np.cumsum(choices) - choices, choices)
        found = np.column_stack([found[parent], taken])
        left = left[parent] - taken
    return np.column_stack([found, left]).astype(np.int64)


def inputs_of(records: int, cells: int, unit: Unit) -> Integers:
    """The tables among which the unit has neighbours, in lexicographic order."""
    if unit.kind == "replace":
        return tables_of(records, cells)
    refuse_large(how_many(records, cells, unit) * cells, LARGEST_LISTING, "tables")
    return tables_of(records, cells + 1)[:, :cells]  # the cell for the rest is last, so the order stays


def sort_tables(tables: Integers) -> Integers:
    """Distinct tables in lexicographic order."""
    return np.unique(tables, axis=0)


def neighbours(inputs: Integers, unit: Unit) -> Integers:
    """Pairs (i, j), i < j, of neighbouring inputs: one row moved (replace) or one row more (add_remove).

    >>> neighbours(tables_of(2, 2), Unit()).tolist()
    [[0, 1], [1, 2]]
    """
    if unit.rows_per_unit != 1:
        raise UnsupportedError(
            f"an exact audit moves one row at a time; rows_per_unit is {unit.rows_per_unit}. Audit one row and "
            "multiply epsilon (pure differential privacy of a group)."
        )
    where = {table.tobytes(): number for number, table in enumerate(np.ascontiguousarray(inputs))}
    cells = inputs.shape[1]
    pairs: set[tuple[int, int]] = set()
    moves = (
        [(i, j) for i in range(cells) for j in range(cells) if i != j]
        if unit.kind == "replace"
        else [(i, -1) for i in range(cells)]
    )
    for gain, loss in moves:
        moved = inputs.copy()
        moved[:, gain] += 1
        if loss >= 0:
            moved[:, loss] -= 1
        for number, table in enumerate(np.ascontiguousarray(moved)):
            other = where.get(table.tobytes())
            if other is not None:
                pairs.add((min(number, other), max(number, other)))
    return np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)


def refuse_large(size: float, limit: int, what: str) -> None:
    """Refuses what would exhaust the memory of the machine."""
    if size > limit:
        raise UnsupportedError(
            f"the space has {'more than ' * (size >= HUGE)}{min(size, HUGE):.3g} {what}; enumeration is limited to "
            f"{limit:,}. Use fewer records, rows or cells; "
            "delta and epsilon of Dirichlet-multinomial and independent noise are computed by structure at any size."
        )


# Disclosure sets read off a transition law by enumeration (Machanavajjhala et al. 2008, Definitions 5 and 6).
#
# The law is given as log probabilities (inputs x outputs), with the pairs of neighbouring inputs. Nothing is sampled.
# See docs/theory/exact-audit.md.


# Log odds this close above epsilon are equal to it: with exact arithmetic they often are (Abowd and Vilhuber, Fig. 4).
RESOLUTION = 1e-12


def signed_odds(log_law: Floats, pairs: Integers) -> Floats:
    """ln P(m | first) - ln P(m | second) for each pair and output; 0 where the output is impossible for both."""
    first, second = log_law[pairs[:, 0]], log_law[pairs[:, 1]]
    with np.errstate(invalid="ignore"):
        odds = first - second
    return np.where(np.isneginf(first) & np.isneginf(second), 0.0, odds)


def exceeds(odds: Floats, epsilon: float) -> Flags:
    """Whether log odds are above epsilon, by more than rounding can be."""
    return np.abs(odds) > epsilon + RESOLUTION * max(1.0, epsilon)


def disclosure_sets(log_law: Floats, inputs: Integers, pairs: Integers, epsilon: float) -> Flags:
    """For each input D, the outputs of Disc(D, epsilon) (Machanavajjhala et al. 2008, Definition 5).

    An output is in it if some two neighbours X1, X2, each equal to D or a neighbour of D, have log odds above epsilon.
    """
    bad = exceeds(signed_odds(log_law, pairs), epsilon)
    near: list[set[int]] = [{number} for number in range(len(inputs))]
    for one, other in pairs.tolist():
        near[one].add(other)
        near[other].add(one)
    found = np.zeros(log_law.shape, dtype=bool)
    for number in np.flatnonzero(bad.any(axis=1)):
        one, other = pairs[number].tolist()
        found[sorted(near[one] & near[other])] |= bad[number]
    return found
