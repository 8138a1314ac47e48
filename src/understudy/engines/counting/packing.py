"""Rows of codes as few 64-bit words: what is sorted and moved when rows have to be grouped by the unit they belong to.

The order of the words is the order of the rows by their codes. It depends on what a row says and not on where it
stands, so that whatever is chosen by it is the same for any order of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.schema import Schema
from understudy.core.table import Codes
from understudy.engines.counting.kernel import flat_cells
from understudy.privacy.randomness.fingerprint import RowSum

WORD = 2**63
HASHED_ROWS = 2**14  # rows whose words are made and hashed while they are in a processor's cache


def word_groups(schema: Schema, first: tuple[str, ...] = ()) -> tuple[tuple[str, ...], ...]:
    """The attributes in schema order, those of ``first`` before all others, as many to a word as it can number.

    >>> from understudy.core.schema import Attribute
    >>> big = tuple(Attribute(name=name, levels=tuple(range(2**16))) for name in "abcde")
    >>> word_groups(Schema(attributes=big))
    (('a', 'b', 'c'), ('d', 'e'))
    """
    groups: list[list[str]] = [[]]
    cells = 1
    for name in sorted(schema.names, key=lambda name: name not in first):
        size = schema[name].size
        if groups[-1] and cells * size > WORD:
            groups.append([])
            cells = 1
        groups[-1].append(name)
        cells *= size
    return tuple(tuple(group) for group in groups)


def pack(codes: Mapping[str, Codes], schema: Schema, first: tuple[str, ...] = ()) -> list[Integers]:
    """The words of each row, most significant first."""
    return [flat_cells([codes[name] for name in group], schema.shape(group)) for group in word_groups(schema, first)]


def hash_rows(sums: RowSum, codes: Mapping[str, Codes], schema: Schema, more: Sequence[Integers] = ()) -> None:
    """Adds rows to a fingerprint of the data, by the words of their codes and ``more`` words of each row."""
    for start in range(0, len(codes[schema.names[0]]), HASHED_ROWS):
        piece = {name: codes[name][start : start + HASHED_ROWS] for name in schema.names}
        sums.add([*pack(piece, schema), *(word[start : start + HASHED_ROWS] for word in more)])


def unpack(words: Sequence[Integers], schema: Schema, first: tuple[str, ...] = ()) -> dict[str, Codes]:
    """The codes that :func:`pack` made words of, in the smallest type that holds them."""
    codes: dict[str, Codes] = {}
    for group, word in zip(word_groups(schema, first), words, strict=True):
        left = word
        for name in reversed(group):
            size = schema[name].size
            kind = np.min_scalar_type(size - 1)
            if name == group[0]:
                codes[name] = left.astype(kind)
            else:
                left, code = np.divmod(left, size)
                codes[name] = code.astype(kind)
    return codes
