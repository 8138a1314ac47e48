"""The urns of commuting patterns as loops that numba compiles: whole numbers only, one destination after the other.

Each destination reads words from its own substream. A loop that runs out of words says so, and the caller runs that
destination again with more words of the same substream: the outcome does not depend on how many were given at first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

DONE, MORE_WORDS, MORE_MEMORY = 0, 1, 2


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba found no folder to keep machine code in
        return numba.njit(nogil=True)(function)


@compiled
def _record(prefix: NDArray[Any], begin: int, end: int, number: int) -> int:
    """The pair that holds a record, by the summed jobs of the pairs."""
    low, high = begin, end
    while high - low > 1:
        middle = (low + high) // 2
        if prefix[middle] - prefix[begin] <= number:
            low = middle
        else:
            high = middle
    return low


@compiled
def urns(  # noqa: PLR0917  (numba passes arguments by position)
    starts: NDArray[Any],
    cells: NDArray[Any],
    prefix: NDArray[Any],
    domains: NDArray[Any],
    weights: NDArray[Any],
    shifts: NDArray[Any],
    rows: NDArray[Any],
    row_starts: NDArray[Any],
    words: NDArray[np.uint64],
    word_starts: NDArray[Any],
    word_counts: NDArray[Any],
    drawn: NDArray[Any],
    states: NDArray[Any],
) -> None:
    """Dirichlet-multinomial draws over ``domains[d]`` cells with prior weights[d] / 2^shifts[d] in each.

    ``cells`` is the cell of each pair, ``prefix`` the summed jobs before it. One whole number per row decides: below
    domain * weight a ball of the prior, below that plus records << shift one of a record, else one of an earlier row.
    """
    for d in range(len(rows)):
        if states[d] == DONE:
            continue
        states[d] = MORE_WORDS
        weight, shift = np.uint64(weights[d]), np.uint64(shifts[d])
        begin, end = starts[d], starts[d + 1]
        of_prior = np.uint64(domains[d]) * weight
        first = of_prior + (np.uint64(prefix[end] - prefix[begin]) << shift)
        at, last = word_starts[d], word_starts[d] + word_counts[d]
        base = row_starts[d]
        row = 0
        while row < rows[d] and at < last:
            bound = first + (np.uint64(row) << shift)
            word = words[at]
            at += 1
            if word > ~bound and word > ~((np.uint64(0) - bound) % bound):
                continue  # of the incomplete last run of ``bound`` words
            ball = word % bound
            if ball < of_prior:
                drawn[base + row] = ball // weight
            elif ball < first:
                number = np.int64((ball - of_prior) >> shift)
                drawn[base + row] = cells[_record(prefix, begin, end, number)]
            else:
                drawn[base + row] = drawn[base + np.int64((ball - first) >> shift)]
            row += 1
        if row == rows[d]:
            states[d] = DONE
            drawn[base : base + row].sort()


@compiled
def _band(squared: float, edges: NDArray[Any]) -> int:
    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) // 2
        if squared < edges[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def shrunk_urns(  # noqa: PLR0917
    starts: NDArray[Any],
    cells: NDArray[Any],
    prefix: NDArray[Any],
    destinations: NDArray[Any],
    points: NDArray[Any],
    edges: NDArray[Any],
    keeps: NDArray[np.uint64],
    extra: int,
    weights: NDArray[Any],
    shifts: NDArray[Any],
    rows: NDArray[Any],
    row_starts: NDArray[Any],
    words: NDArray[np.uint64],
    word_starts: NDArray[Any],
    word_counts: NDArray[Any],
    known: NDArray[Any],
    owners: NDArray[Any],
    kept: NDArray[Any],
    drawn: NDArray[Any],
    states: NDArray[Any],
) -> None:
    """Algorithm 2 and then Algorithm 1 of Machanavajjhala et al. 2008, without ever making the retained domain.

    The urn holds the balls of *every* place. A ball of the prior whose place has no record and is not in the retained
    domain is put back and another drawn, so the next row is drawn from the retained domain alone. Whether a place is
    retained is decided when it is first met, with probability keeps[band] / 2^32, and remembered. ``extra`` cells after
    the places (elsewhere) are always in the domain; places in a band with keep 0 are not in it at all.
    """
    places = len(points)
    mask = len(known) - 1
    for d in range(len(rows)):
        if states[d] == DONE:
            continue
        states[d] = MORE_WORDS
        weight, shift = np.uint64(weights[d]), np.uint64(shifts[d])
        begin, end = starts[d], starts[d + 1]
        of_prior = np.uint64(places + extra) * weight
        first = of_prior + (np.uint64(prefix[end] - prefix[begin]) << shift)
        at, last = word_starts[d], word_starts[d] + word_counts[d]
        base, row, met = row_starts[d], 0, 0
        x, y, z = points[destinations[d], 0], points[destinations[d], 1], points[destinations[d], 2]
        while row < rows[d] and at + 1 < last:
            bound = first + (np.uint64(row) << shift)
            word = words[at]
            at += 1
            if word > ~bound and word > ~((np.uint64(0) - bound) % bound):
                continue
            ball = word % bound
            if ball >= of_prior:
                if ball < first:
                    number = np.int64((ball - of_prior) >> shift)
                    drawn[base + row] = cells[_record(prefix, begin, end, number)]
                else:
                    drawn[base + row] = drawn[base + np.int64((ball - first) >> shift)]
                row += 1
                continue
            cell = np.int64(ball // weight)
            if cell < places:
                dx, dy, dz = points[cell, 0] - x, points[cell, 1] - y, points[cell, 2] - z
                keep = keeps[_band(dx * dx + dy * dy + dz * dz, edges)]
                if keep == np.uint64(0):
                    continue
                if keep < np.uint64(4294967296):
                    slot = (cell * 2654435761) & mask
                    while owners[slot] == d + 1 and known[slot] != cell:
                        slot = (slot + 1) & mask
                    if owners[slot] != d + 1:
                        if met > mask // 2:
                            states[d] = MORE_MEMORY
                            break
                        owners[slot], known[slot] = d + 1, cell
                        met += 1
                        retained = False
                        for pair in range(begin, end):
                            if cells[pair] == cell:
                                retained = True
                                break
                        if not retained:
                            retained = (words[at] >> np.uint64(32)) < keep
                            at += 1
                        kept[slot] = retained
                    if not kept[slot]:
                        continue
            drawn[base + row] = cell
            row += 1
        if row == rows[d]:
            states[d] = DONE
            drawn[base : base + row].sort()
        elif states[d] == MORE_MEMORY:
            return
