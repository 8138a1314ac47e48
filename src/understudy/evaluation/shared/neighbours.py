"""Nearest records by any of the attacks' distances, exactly: distinct points in a tree, ties as groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.core.arrays import Flags, Floats, Integers
from understudy.errors import InputError

TIES_AT_ONCE = 2**22  # members of groups held at one time
DIFFERENCES_AT_ONCE = 2 * 10**8  # between values, in one call of a compiled loop


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distinct:
    """The distinct rows of a matrix, and which records lie on each: ``records[offsets[p]:offsets[p + 1]]``."""

    points: Floats
    point_of: Integers  # of each record
    offsets: Integers
    records: Integers


def distinct_rows(matrix: Floats) -> Distinct:
    """Equal rows gathered, in lexicographic order; records of a point in their own order."""
    rows = np.ascontiguousarray(matrix, dtype=np.float64)
    records = np.lexsort(rows.T[::-1]).astype(np.int64)
    ordered = rows[records]
    new = np.ones(len(rows), bool)
    new[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    starts = np.flatnonzero(new)
    point_of = np.empty(len(rows), np.int64)
    point_of[records] = np.cumsum(new) - 1
    return Distinct(points=ordered[starts], point_of=point_of, offsets=np.append(starts, len(rows)), records=records)


def as_matrix(values: ArrayLike, name: str) -> Floats:
    """A matrix of finite numbers with at least one row and one column."""
    try:
        matrix = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a matrix of numbers, one row per record.") from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"{name} has the shape {matrix.shape}; give a matrix with one row per record.")
    if not np.all(np.isfinite(matrix)):
        raise InputError(f"{name} must hold finite numbers only.")
    return np.ascontiguousarray(matrix)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """For each of some query points: the distance of its nearest points and, when asked for, which they are."""

    queries: Distinct
    distances: Floats  # of each distinct query
    ties: Integers  # how many distinct points have it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summaries:
    """For the nearest records of each query: least and greatest rank, records by code, the first point they lie on."""

    low: Floats
    high: Floats
    table: Integers
    first: Integers


def interruptible(queries: Integers, differences: int) -> Iterator[Integers]:
    """Queries in parts of about a second, for compiled loops: Ctrl-C waits until a loop ends.

    ``differences`` is how many differences one query computes at worst.

    >>> [part.tolist() for part in interruptible(np.arange(5), 10**8)]
    [[0, 1], [2, 3], [4]]
    """
    size = max(1, DIFFERENCES_AT_ONCE // max(differences, 1))
    for start in range(0, max(len(queries), 1), size):  # no queries are one part, of no answers
        yield queries[start : start + size]


class Neighbours:
    """Records to search among. ``nominal`` columns differ by their whole weight or not at all.

    ``criterion``: "sum" or "maximum" of the weighted differences. Cost: near n log n up to about eight attributes
    that vary freely; beyond that a search reads a growing share of the points, at worst all: n^2 p in time, n p in
    memory.
    """

    def __init__(
        self,
        matrix: Floats,
        *,
        nominal: Flags | None = None,
        weights: Floats | None = None,
        criterion: str = "sum",
    ) -> None:
        from understudy.evaluation.shared import nearest_compiled as compiled

        width = matrix.shape[1]
        self._kernel = compiled
        self._nominal = np.zeros(width, bool) if nominal is None else np.asarray(nominal, bool)
        self._weights = np.ones(width) if weights is None else np.asarray(weights, np.float64)
        self._largest = criterion == "maximum"
        self.records = distinct_rows(matrix)
        order, *self._tree = compiled.build(self.records.points, self._nominal, self._weights)
        self._order: Integers = order
        self._points = np.ascontiguousarray(self.records.points[order])
        self._place = np.empty_like(order)
        self._place[order] = np.arange(len(order))

    @property
    def _space(self) -> tuple[Flags, Floats, bool]:
        return self._nominal, self._weights, self._largest

    def _visit(self, points: Floats) -> Integers:
        """Queries in the order of a tree of their own, so that neighbours follow one another."""
        order: Integers = self._kernel.build(points, self._nominal, self._weights)[0]
        return order

    def nearest(self, matrix: Floats) -> Groups:
        queries = distinct_rows(matrix)
        distances, ties = np.empty(len(queries.points)), np.empty(len(queries.points), np.int64)
        visit = self._visit(queries.points)
        for part in interruptible(visit, self._points.size):
            distances[part], ties[part] = self._kernel.nearest(
                self._points, *self._tree, *self._space, queries.points[part], np.arange(len(part))
            )
        return Groups(queries=queries, distances=distances, ties=ties)

    def members(self, groups: Groups, chosen: Integers | None = None) -> tuple[Integers, Integers]:
        """Offsets and members: the distinct points nearest to each (chosen) distinct query, ascending."""
        chosen = np.arange(len(groups.ties)) if chosen is None else chosen
        offsets = np.concatenate([[0], np.cumsum(groups.ties[chosen])]).astype(np.int64)
        places = self._kernel.within(
            self._points, *self._tree, *self._space, groups.queries.points[chosen], groups.distances[chosen], offsets
        )
        found = self._order[places]
        group = np.repeat(np.arange(len(chosen)), groups.ties[chosen])
        return offsets, found[np.lexsort((found, group))]

    def chunks(self, groups: Groups) -> Iterator[tuple[Integers, Integers, Integers]]:
        """All groups, a bounded number of ties at a time: chosen queries, offsets, members."""
        start, total = 0, np.concatenate([[0], np.cumsum(groups.ties)])
        while start < len(groups.ties):
            stop = max(start + 1, int(np.searchsorted(total, total[start] + TIES_AT_ONCE, side="right")) - 1)
            chosen = np.arange(start, stop)
            yield chosen, *self.members(groups, chosen)
            start = stop

    def summaries(self, groups: Groups, ranks: Floats, codes: Integers, levels: int) -> Summaries:
        """What the records nearest to each query say of one attribute; ``ranks`` and ``codes`` are of the records."""
        count = len(groups.ties)
        low, high, first = np.empty(count), np.empty(count), np.empty(count, np.int64)
        table = np.empty((count, levels), np.int64)
        by_point = ranks[self.records.records], codes[self.records.records]
        for part, offsets, members in self.chunks(groups):
            low[part], high[part], table[part] = self._kernel.summarise(
                offsets, members, self.records.offsets, *by_point, levels
            )
            first[part] = members[offsets[:-1]]
        of = groups.queries.point_of
        return Summaries(low=low[of], high=high[of], table=table[of], first=first[of])

    def k_nearest(self, matrix: Floats, k: int, *, themselves: bool = False) -> Floats:
        """The k least distances of each row to records; ``themselves``: the rows are these records, each left out."""
        queries = distinct_rows(matrix)
        own = self._place if themselves else np.full(len(queries.points), -1, np.int64)
        counts = np.diff(self.records.offsets)[self._order]
        found = np.empty((len(queries.points), k))
        for part in interruptible(self._visit(queries.points), self._points.size):
            some = queries.points[part]
            found[part] = self._kernel.k_nearest(
                self._points, counts, *self._tree, *self._space, some, np.arange(len(part)), k, own[part]
            )
        return found[queries.point_of]


def nearest_without_each(
    matrix: Floats,
    queries: Floats,
    targets: Sequence[int],
    *,
    ranks: Floats,
    codes: Integers,
    levels: Sequence[int],
    nominal: Flags | None = None,
    weights: Floats | None = None,
    criterion: str = "sum",
) -> list[Summaries]:
    """What the records nearest in all columns but one say of that one, for each of the target columns.

    A column of negative weight is not known, and counts for no target. ``ranks``, ``codes`` and ``levels`` (the numbers
    of codes) are given by target. Records that are equal in all columns must have the same ``ranks`` and ``codes``. One
    pass over the records serves all targets. A tree for each target would, beyond about eight attributes, read most
    records once per target.

    >>> table = np.array([[0.0, 5.0], [1.0, 7.0], [1.0, 8.0]])
    >>> (found,) = nearest_without_each(
    ...     table, np.array([[1.0, 0.0]]), [1], ranks=table[:, [1]], codes=np.array([[0], [1], [2]]), levels=[3]
    ... )
    >>> found.low.tolist(), found.high.tolist(), found.table.tolist()
    ([7.0], [8.0], [[0, 1, 1]])
    """
    from understudy.evaluation.shared import nearest_compiled as kernel

    width = matrix.shape[1]
    records, asked = distinct_rows(matrix), distinct_rows(queries)
    of_point = records.records[records.offsets[:-1]]
    begins = np.concatenate([[0], np.cumsum(levels)]).astype(np.int64)
    of_records = (
        records.points,
        np.diff(records.offsets),
        np.ascontiguousarray(ranks[of_point], np.float64),
        np.ascontiguousarray(codes[of_point], np.int64),
    )
    how = (
        np.asarray(targets, np.int64),
        np.zeros(width, bool) if nominal is None else np.asarray(nominal, bool),
        np.ones(width) if weights is None else np.asarray(weights, np.float64),
        ("sum", "maximum", "minimum").index(criterion),
        begins,
    )
    parts = interruptible(np.arange(len(asked.points)), records.points.size)
    found = [kernel.without_each(*of_records, asked.points[part], *how) for part in parts]
    low, high, first, table = (np.concatenate(pieces) for pieces in zip(*found, strict=True))
    of = asked.point_of
    return [
        Summaries(low=low[of, t], high=high[of, t], table=table[of, begins[t] : begins[t + 1]], first=first[of, t])
        for t in range(len(targets))
    ]


# Which cell a record falls into, over any attributes, and how many fall into each.


def numbers_of(tables: Sequence[NDArray[Any]]) -> tuple[list[Integers], int]:
    """Equal rows of all tables get equal numbers, from 0; also how many there are."""
    pooled = np.concatenate([np.asarray(table, dtype=np.float64) for table in tables])
    if pooled.shape[1] == 0:
        return [np.zeros(len(table), np.int64) for table in tables], 1
    distinct = distinct_rows(pooled)
    stops = np.cumsum([len(table) for table in tables])[:-1]
    return list(np.split(distinct.point_of, stops)), len(distinct.points)


def cell_numbers(
    tables: Sequence[Integers], columns: Sequence[int], sizes: Sequence[int]
) -> tuple[list[Integers], int]:
    """The same for codes, by arithmetic where the cells are few enough to number."""
    space = 1
    for column in columns:
        space *= sizes[column]
    if space > 2**62:
        return numbers_of([table[:, list(columns)] for table in tables])
    flat = []
    for table in tables:
        number = np.zeros(len(table), np.int64)
        for column in columns:
            number = number * sizes[column] + table[:, column]
        flat.append(number)
    if space <= 4 * sum(len(table) for table in tables) + 1024:
        return flat, space
    _, place = np.unique(np.concatenate(flat), return_inverse=True)
    stops = np.cumsum([len(table) for table in tables])[:-1]
    return list(np.split(place.astype(np.int64), stops)), int(place.max()) + 1
