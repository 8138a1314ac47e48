"""Rank-based record linkage: which synthetic records are nearest to each original record, all ties included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.core.arrays import Floats, Integers
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.evaluation.shared.neighbours import Distinct, Groups, Neighbours, as_matrix, distinct_rows

CRITERIA = ("sum", "maximum", "minimum", "weighted sum")
MOST_MEMBERS = 2**27  # of all groups together, when they are asked for at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Links:
    """The synthetic records nearest to each original record.

    Groups are kept by distinct rank vectors: original record i has the vector ``vector_of[i]``; the synthetic vectors
    nearest to vector v are ``members[offsets[v]:offsets[v + 1]]``; the records on a synthetic vector are in
    ``synthetic``. So memory grows with the records and the ties between vectors, not with the pairs of records.
    """

    original: Distinct
    synthetic: Distinct
    by_vector: Floats  # least distance of each distinct original vector
    _groups: Groups | None = None
    _tree: Neighbours | None = None

    @property
    def distances(self) -> Floats:
        """The least distance of each original record."""
        return self.by_vector[self.original.point_of]

    @property
    def vector_of(self) -> Integers:
        return self.original.point_of

    @property
    def offsets(self) -> Integers:
        return self._members()[0]

    @property
    def members(self) -> Integers:
        return self._members()[1]

    def of(self, record: int) -> Integers:
        """The synthetic records linked to one original record, ascending."""
        return np.sort(self._records(self.vectors(int(self.original.point_of[record]))))

    @property
    def indices(self) -> tuple[Integers, ...]:
        """The synthetic records linked to every original record: the groups, expanded."""
        offsets, members = self._members()
        groups = [np.sort(self._records(members[start:stop])) for start, stop in pairwise(offsets)]
        return tuple(groups[vector] for vector in self.original.point_of)

    def sizes(self) -> Integers:
        """How many synthetic records are linked to each original record."""
        counts = np.diff(self.synthetic.offsets)
        if self._tree is None or self._groups is None:
            sizes = np.array([counts[self.vectors(v)].sum() for v in range(len(self.by_vector))], np.int64)
            return sizes[self.original.point_of]
        by_vector = np.empty(len(self.by_vector), np.int64)
        for chosen, offsets, members in self._tree.chunks(self._groups):
            by_vector[chosen] = np.add.reduceat(counts[members], offsets[:-1])
        return by_vector[self.original.point_of]

    def single(self) -> Integers:
        """The synthetic record linked to each original record where there is exactly one, else -1."""
        lone = np.flatnonzero(self.sizes() == 1)
        found = np.full(len(self.vector_of), -1, np.int64)
        if not len(lone):
            return found
        if self._tree is None or self._groups is None:
            points = np.array([self.vectors(int(self.vector_of[record]))[0] for record in lone])
        else:
            points = self._tree.members(self._groups, self.vector_of[lone])[1]
        found[lone] = self.synthetic.records[self.synthetic.offsets[points]]
        return found

    def vectors(self, vector: int) -> Integers:
        """The distinct synthetic vectors nearest to one distinct original vector."""
        if self._tree is not None and self._groups is not None:
            return self._tree.members(self._groups, np.array([vector]))[1]
        apart = np.abs(self.synthetic.points - self.original.points[vector]).min(axis=1)
        return np.flatnonzero(apart == self.by_vector[vector])

    def _members(self) -> tuple[Integers, Integers]:
        if self._tree is not None and self._groups is not None:
            if int(self._groups.ties.sum()) > MOST_MEMBERS:
                raise UnsupportedError(
                    f"{int(self._groups.ties.sum()):,} ties are too many to hold at once; ask for one record with "
                    "of(record), or for all sizes with sizes()."
                )
            return self._tree.members(self._groups)
        found: list[Integers] = []
        total = 0
        for vector in range(len(self.by_vector)):
            found.append(self.vectors(vector))
            total += len(found[-1])
            if total > MOST_MEMBERS:
                raise UnsupportedError("the ties are too many to hold at once; ask for one record with of(record).")
        offsets = np.concatenate([[0], np.cumsum([len(group) for group in found])]).astype(np.int64)
        return offsets, np.concatenate(found)

    def _records(self, vectors: Integers) -> Integers:
        where = self.synthetic.offsets
        return np.concatenate([self.synthetic.records[where[v] : where[v + 1]] for v in vectors])

    def __repr__(self) -> str:
        return f"Links({len(self.vector_of)} original records, {len(self.by_vector)} distinct rank vectors)"


@overload
def link(
    original_ranks: ArrayLike,
    synthetic_ranks: NDArray[np.generic],
    criterion: str = ...,
    *,
    weights: ArrayLike | None = ...,
) -> Links: ...
@overload
def link(
    original_ranks: ArrayLike,
    synthetic_ranks: Sequence[NDArray[np.generic]],
    criterion: str = ...,
    *,
    weights: ArrayLike | None = ...,
) -> tuple[Links, ...]: ...
def link(
    original_ranks: ArrayLike,
    synthetic_ranks: NDArray[np.generic] | Sequence[NDArray[np.generic]],
    criterion: str = "sum",
    *,
    weights: ArrayLike | None = None,
) -> Links | tuple[Links, ...]:
    """Multiple rank-based record linkage (Ruiz, Muralidhar and Domingo-Ferrer, section 3.2), exactly.

    Rows are records, columns the ranks of attributes (see ``ranks.mid_ranks``). For each original record the synthetic
    records that minimise the ``criterion`` of the absolute rank differences: their "sum", "maximum", "minimum" or
    "weighted sum" (which needs ``weights``). Several synthetic matrices, in a list or an array of three dimensions,
    give a tuple of links.

    >>> found = link(np.array([[1, 2], [2, 1]]), np.array([[1, 1], [2, 2], [2, 1]]))
    >>> [group.tolist() for group in found.indices], found.distances.tolist()
    ([[0, 1], [2]], [1.0, 0.0])
    """
    if isinstance(synthetic_ranks, list | tuple):
        if not synthetic_ranks:
            raise InputError("synthetic_ranks is empty; give a matrix of ranks, or a list of some.")
        several = {np.ndim(one) for one in synthetic_ranks} == {2}
    else:
        several = np.ndim(synthetic_ranks) == 3
    if criterion not in CRITERIA:
        raise unknown_name("criterion", str(criterion), CRITERIA)
    original = as_matrix(original_ranks, "original_ranks")
    scale = _weights(weights, criterion, original.shape[1])
    if several:
        return tuple(_link(original, as_matrix(one, "synthetic_ranks"), criterion, scale) for one in synthetic_ranks)
    return _link(original, as_matrix(synthetic_ranks, "synthetic_ranks"), criterion, scale)


def _weights(weights: ArrayLike | None, criterion: str, width: int) -> Floats | None:
    if (weights is None) == (criterion == "weighted sum"):
        raise InputError('weights go with the criterion "weighted sum", which needs them.')
    if weights is None:
        return None
    scale = np.asarray(weights, np.float64)
    if scale.shape != (width,) or not np.all(np.isfinite(scale)) or np.any(scale < 0) or not scale.any():
        raise InputError(f"weights must be {width} numbers, none negative and not all 0.")
    return scale


def _link(original: Floats, synthetic: Floats, criterion: str, weights: Floats | None) -> Links:
    if original.shape[1] != synthetic.shape[1]:
        raise InputError(
            f"the original ranks have {original.shape[1]} attributes and the synthetic ones {synthetic.shape[1]}."
        )
    if criterion == "minimum":
        people = distinct_rows(original)
        return Links(
            original=people, synthetic=distinct_rows(synthetic), by_vector=_least_in_any(people.points, synthetic)
        )
    tree = Neighbours(synthetic, weights=weights, criterion="maximum" if criterion == "maximum" else "sum")
    groups = tree.nearest(original)
    return Links(
        original=groups.queries, synthetic=tree.records, by_vector=groups.distances, _groups=groups, _tree=tree
    )


def _least_in_any(points: Floats, synthetic: Floats) -> Floats:
    """The least difference in any one attribute: the nearest value of each column, by bisection."""
    best = np.full(len(points), np.inf)
    for j in range(points.shape[1]):
        values = np.unique(synthetic[:, j])
        place = np.searchsorted(values, points[:, j])
        for side in (np.maximum(place - 1, 0), np.minimum(place, len(values) - 1)):
            best = np.minimum(best, np.abs(points[:, j] - values[side]))
    return best
