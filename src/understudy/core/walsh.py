"""Fourier (Walsh) coefficients of tables of counts: sums of counts with signs, which tables share.

Codes of an attribute are written in bits. For a mask of bits above 0, a code has the sign (-1)^(bits it shares with
the mask). A coefficient of a margin takes a mask for each of its attributes; a cell has the product of its signs. A
margin of k attributes has (2^b_1 - 1) ... (2^b_k - 1) coefficients of its own. Those of smaller margins and the total
belong to it too, and all of them together give its counts back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from understudy.core.arrays import Floats, Integers

CONTRASTS = "contrasts"


def bits_of(size: int) -> int:
    """How many bits the codes of an attribute need; none for an attribute of one level."""
    return (size - 1).bit_length()


def masks_of(size: int) -> int:
    """How many masks of an attribute are not 0."""
    return (1 << bits_of(size)) - 1


def signs(size: int) -> Integers:
    """The sign of each code (columns) for each mask from 1 on (rows).

    >>> signs(3).tolist()
    [[1, -1, 1], [1, 1, -1], [1, -1, -1]]
    """
    masks, codes = np.arange(1, masks_of(size) + 1)[:, None], np.arange(size)[None, :]
    shared = masks & codes
    odd = np.zeros(shared.shape, dtype=np.int64)
    for bit in range(bits_of(size)):
        odd ^= (shared >> bit) & 1
    return np.asarray(1 - 2 * odd, dtype=np.int64)


def contrasts(counts: Integers) -> Integers:
    """The coefficients of a table's own: one axis for each of its axes, by mask."""
    found = np.asarray(counts, dtype=np.int64)
    for axis, size in enumerate(found.shape):
        found = np.moveaxis(np.tensordot(signs(size), found, axes=(1, axis)), 0, axis)
    return np.asarray(found, dtype=np.int64)


def most_signs_that_differ(sizes: Sequence[int], free: Sequence[bool]) -> int:
    """The largest number of a margin's coefficients in which two cells have another sign.

    Two cells agree or not in each attribute; where ``free`` is false they must agree. Over all masks above 0 the signs
    of two codes multiply to 2^b - 1 in sum if the codes are equal and to -1 if they are not, so of K coefficients
    (K - the product of these) / 2 differ.
    """
    own = [masks_of(size) for size in sizes]
    whole = int(np.prod(own, dtype=object)) if own else 1
    movable = [place for place, one in enumerate(free) if one and own[place]]
    worst = 0
    for count in range(1, len(movable) + 1):
        for moved in combinations(movable, count):
            same = 1
            for place, one in enumerate(own):
                same *= -1 if place in moved else one
            worst = max(worst, (whole - same) // 2)
    return worst


def parts_of(margin: Sequence[str]) -> list[tuple[str, ...]]:
    """A margin and all smaller ones inside it, the total (no attribute) included."""
    return [part for size in range(len(margin) + 1) for part in combinations(margin, size)]


def table_of(
    margin: tuple[str, ...], sizes: Mapping[str, int], coefficients: Mapping[tuple[str, ...], Floats]
) -> Floats:
    """The table that coefficients of a margin and of everything inside it give: the inverse of ``contrasts``."""
    shape = tuple(sizes[name] for name in margin)
    found = np.zeros(shape)
    for part in parts_of(margin):
        if any(sizes[name] < 2 for name in part):
            continue
        piece = np.asarray(coefficients[part], dtype=np.float64)
        for axis, name in enumerate(part):
            piece = np.moveaxis(np.tensordot(signs(sizes[name]).T, piece, axes=(1, axis)), 0, axis)
        found = found + piece.reshape([sizes[name] if name in part else 1 for name in margin])
    return np.asarray(found / 2 ** sum(bits_of(sizes[name]) for name in margin))
