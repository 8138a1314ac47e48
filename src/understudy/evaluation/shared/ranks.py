"""Ranks of values, and samples of equal size: what the maximum-knowledge attacker compares.

Two rules for ties, each where it belongs. A permutation needs distinct ranks: equal values are ranked in the order in
which their records stand (``order_ranks``). A comparison needs equal ranks for equal values: they share the mean of
the ranks they would have (``mid_ranks``), so that records that agree are at distance 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from understudy.core.arrays import Floats, Integers
from understudy.errors import InputError


def order_ranks(values: ArrayLike) -> Integers:
    """Ranks 1 to n, ties in the order of the records.

    >>> order_ranks([30, 10, 30, 20]).tolist()
    [3, 1, 4, 2]
    """
    given = np.asarray(values)
    ranks = np.empty(len(given), np.int64)
    ranks[np.argsort(given, kind="stable")] = np.arange(1, len(given) + 1)
    return ranks


def mid_ranks(values: ArrayLike) -> Floats:
    """Ranks 1 to n, equal values at the mean of theirs.

    >>> mid_ranks([30, 10, 30, 20]).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    _, place, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2.0)[place]
    return ranks


def mid_rank_matrix(values: Floats) -> Floats:
    """Mid-ranks of every column."""
    return np.column_stack([mid_ranks(column) for column in values.T])


def ranks_among(values: Floats, everybody: Floats) -> Floats:
    """Mid-ranks of some rows among everybody's, column by column; each value occurs among everybody's.

    >>> ranks_among(np.array([[30.0], [10.0]]), np.array([[30.0], [10.0], [30.0], [20.0]])).tolist()
    [[3.5], [1.0]]
    """
    columns = []
    for some, all_of_them in zip(values.T, everybody.T, strict=True):
        ordered = np.sort(all_of_them)
        below, upto = (np.searchsorted(ordered, some, side=side) for side in ("left", "right"))
        columns.append((below + upto + 1) / 2.0)
    return np.column_stack(columns)


def same_size(rows: int, wanted: int, seed: int) -> Integers:
    """Which records make a table of ``wanted`` rows (Ruiz et al., section 3.1).

    More rows than wanted: a random subset. Fewer: all of them and random further ones. As many: all, as they are.

    >>> same_size(3, 3, seed=0).tolist(), len(set(same_size(9, 4, seed=0).tolist())), len(same_size(2, 5, seed=0))
    ([0, 1, 2], 4, 5)
    """
    if rows < 1 or wanted < 1:
        raise InputError("a table without rows cannot be brought to another size.")
    generator = np.random.default_rng(seed)
    if rows > wanted:
        return np.sort(generator.choice(rows, wanted, replace=False)).astype(np.int64)
    return np.concatenate([np.arange(rows), generator.integers(0, rows, wanted - rows)]).astype(np.int64)
