"""A binary tree of sums of independent whole numbers, and joint draws of the numbers given their sum.

A node holds the law of the sum of the cells below it. Given the sum t at a node, the sum l of its left half has
probability proportional to L(l) R(t - l): it is drawn by rejection (l from the narrower of the two laws, accepted with
probability R(t - l) / max R), which is exact, needs no law for every t, and accepts about seven times in ten.
Nodes that are sums of the same columns are the same object, so a thousand equal cells cost ten convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.errors import InternalError

NEGLIGIBLE = 1e-18  # of the mode of a node; what the transform leaves there is rounding noise anyway
DIRECT = 4_000_000  # products up to which a convolution is done directly, without any cancellation
PATIENCE = 40  # rounds of rejection before the remaining draws are made from the conditional law itself


@dataclass(slots=True, kw_only=True, eq=False)
class _Node:
    start: int
    law: Floats
    left: _Node | None = None
    right: _Node | None = None
    cells: int = 1
    cumulative: Floats = field(init=False)
    mode: float = field(init=False)
    spread: float = field(init=False)

    def __post_init__(self) -> None:
        self.cumulative = np.cumsum(self.law)
        self.mode = float(self.law.max())
        x = np.arange(len(self.law))
        mean = float(self.law @ x) / float(self.cumulative[-1])
        self.spread = float(self.law @ (x - mean) ** 2)


class SumTree:
    """The tree over cells given by ``classes``, numbers into ``laws`` (start and probabilities of each column)."""

    def __init__(self, laws: Sequence[tuple[int, Floats]], classes: Integers) -> None:
        self._order = np.argsort(classes, kind="stable")
        leaves = [_Node(start=start, law=np.asarray(law)) for start, law in laws]
        made: dict[tuple[int, int], _Node] = {}
        level = [leaves[index] for index in classes[self._order]]
        while len(level) > 1:
            paired = []
            for left, right in zip(level[0::2], level[1::2], strict=False):
                key = (id(left), id(right))
                if key not in made:
                    made[key] = _join(left, right)
                paired.append(made[key])
            if len(level) % 2:
                paired.append(level[-1])
            level = paired
        self._root = level[0]
        self._made = made  # keeps the nodes alive, so that no identity is used twice

    @property
    def root(self) -> tuple[int, Floats]:
        """The law of the sum of all cells."""
        return self._root.start, self._root.law

    def draws(self, totals: Integers, rng: np.random.Generator) -> Integers:
        """One table for each total, one per row, in the order of the cells."""
        result = np.empty((len(self._order), len(totals)), np.int64)
        pending = [(self._root, np.asarray(totals, np.int64), 0)]
        while pending:
            node, sums, place = pending.pop()
            if node.left is None or node.right is None:
                result[place] = sums
                continue
            narrow, wide = (node.left, node.right) if node.left.spread <= node.right.spread else (node.right, node.left)
            drawn = _split(sums, narrow, wide, rng)
            left = drawn if narrow is node.left else sums - drawn
            pending.append((node.left, left, place))
            pending.append((node.right, sums - left, place + node.left.cells))
        table = np.empty_like(result)
        table[self._order] = result
        return np.ascontiguousarray(table.T)


def _join(left: _Node, right: _Node) -> _Node:
    if len(left.law) * len(right.law) <= DIRECT:
        law = np.convolve(left.law, right.law)
    else:
        from scipy.signal import fftconvolve

        law = np.maximum(fftconvolve(left.law, right.law), 0)
    kept = np.flatnonzero(law > NEGLIGIBLE * law.max())
    first, last = int(kept[0]), int(kept[-1])
    return _Node(
        start=left.start + right.start + first,
        law=law[first : last + 1],
        left=left,
        right=right,
        cells=left.cells + right.cells,
    )


def _split(sums: Integers, narrow: _Node, wide: _Node, rng: np.random.Generator) -> Integers:
    """The part of each sum that belongs to the narrow node."""
    result = np.empty_like(sums)
    waiting = np.arange(len(sums))
    for _ in range(PATIENCE):
        height = rng.random(len(waiting)) * narrow.cumulative[-1]
        part = np.minimum(np.searchsorted(narrow.cumulative, height, side="right"), len(narrow.law) - 1)
        part = part + narrow.start
        rest = sums[waiting] - part - wide.start
        inside = (rest >= 0) & (rest < len(wide.law))
        chance = np.where(inside, wide.law[np.where(inside, rest, 0)], 0.0)
        accepted = rng.random(len(waiting)) * wide.mode < chance
        result[waiting[accepted]] = part[accepted]
        waiting = waiting[~accepted]
        if not len(waiting):
            return result
    for index in waiting:
        parts = np.arange(len(narrow.law))
        rest = sums[index] - (parts + narrow.start) - wide.start
        inside = (rest >= 0) & (rest < len(wide.law))
        cumulative = np.cumsum(np.where(inside, narrow.law * wide.law[np.where(inside, rest, 0)], 0.0))
        if cumulative[-1] <= 0:
            raise InternalError("a sum was drawn that its parts cannot have.")
        place = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
        result[index] = narrow.start + min(int(place), len(parts) - 1)
    return result
