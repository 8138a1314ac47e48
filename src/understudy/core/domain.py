"""The cells of a margin without listing them: how many are possible, and whether a given one is.

A dense mask is fine for a thousand cells. A domain of ten million, or ten billion, must cost no more: possible cells
are counted over the attributes that structural zeros speak of, and single cells are checked rule by rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.schema import Schema
from understudy.core.structural import Impossible
from understudy.errors import UnsupportedError

Integers = NDArray[np.int64]
LARGEST_DOMAIN = 2**62
LARGEST_RULED = 2**26  # cells over the attributes that rules speak of


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """All cells of a margin, numbered with the last attribute fastest."""

    schema: Schema
    margin: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.size > LARGEST_DOMAIN:
            raise UnsupportedError(
                f"the cross-tabulation of {len(self.margin)} attributes has {self.size:.3g} cells, more than 64-bit "
                "numbers can tell apart. Drop attributes ([[ignore]]), or use wider bins."
            )

    @property
    def size(self) -> int:
        return self.schema.cells(self.margin)

    @property
    def _rules(self) -> tuple[Impossible, ...]:
        return tuple(rule for rule in self.schema.impossible if set(rule.attributes) <= set(self.margin))

    @property
    def possible(self) -> int:
        """How many cells no structural zero rules out."""
        ruled = self.schema.margin({name for rule in self._rules for name in rule.attributes})
        if not ruled:
            return self.size
        if self.schema.cells(ruled) > LARGEST_RULED:
            raise UnsupportedError(
                f"the structural zeros speak of attributes with {self.schema.cells(ruled):,} cells together; at most "
                f"{LARGEST_RULED:,} can be counted. Use fewer or smaller rules."
            )
        return int(self.schema.allowed(ruled).sum()) * (self.size // self.schema.cells(ruled))

    def is_possible(self, cells: Integers) -> NDArray[np.bool_]:
        """Whether each of the given cells is free of structural zeros."""
        possible = np.ones(len(cells), dtype=bool)
        if not self._rules:
            return possible
        codes = dict(zip(self.margin, np.unravel_index(cells, self.schema.shape(self.margin)), strict=True))
        for rule in self._rules:
            inside = [np.isin(codes[name], chosen) for name, chosen in rule.codes(self.schema).items()]
            possible &= ~np.logical_and.reduce(inside)
        return possible
