"""The cells of a margin without listing them: how many are possible, and whether a given one is.

A dense mask is fine for a thousand cells. A domain of ten million or ten billion cells must not need more memory. So
possible cells are counted over the attributes that structural zeros name, and single cells are checked rule by rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.schema import Schema
from understudy.errors import UnsupportedError

LARGEST_DOMAIN = 2**62
LARGEST_RULED = 2**26  # cells over the attributes that rules name


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """All cells of a margin, numbered with the last attribute fastest.

    ``given`` fixes the codes of other attributes: the cells are then those of one stratum.
    """

    schema: Schema
    margin: tuple[str, ...]
    given: tuple[tuple[str, int], ...] = ()

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
    def _rules(self) -> tuple[dict[str, tuple[int, ...]], ...]:
        """What each structural zero still says once the given codes are known."""
        fixed = dict(self.given)
        rules = []
        for rule in self.schema.zeros:
            codes = rule.codes(self.schema)
            if not set(codes) <= {*self.margin, *fixed}:
                continue
            if all(fixed[name] in chosen for name, chosen in codes.items() if name in fixed):
                rules.append({name: chosen for name, chosen in codes.items() if name not in fixed})
        return tuple(rules)

    @property
    def possible(self) -> int:
        """How many cells no structural zero rules out."""
        rules = self._rules
        ruled = self.schema.margin({name for rule in rules for name in rule})
        if self.schema.cells(ruled) > LARGEST_RULED:
            raise UnsupportedError(
                f"the attributes of the structural zeros have {self.schema.cells(ruled):,} cells together; at most "
                f"{LARGEST_RULED:,} can be counted. Use fewer or smaller rules."
            )
        mask = np.ones(self.schema.shape(ruled), dtype=bool)
        for rule in rules:
            chosen = [np.array(rule.get(name, range(self.schema[name].size)), dtype=np.intp) for name in ruled]
            mask[np.ix_(*chosen)] = False
        return int(mask.sum()) * (self.size // self.schema.cells(ruled))

    def is_possible(self, cells: Integers) -> NDArray[np.bool_]:
        """Whether each of the given cells is free of structural zeros."""
        possible = np.ones(len(cells), dtype=bool)
        rules = self._rules
        if not rules:
            return possible
        codes = dict(zip(self.margin, np.unravel_index(cells, self.schema.shape(self.margin)), strict=True))
        for rule in rules:
            inside = np.ones(len(cells), dtype=bool)
            for name, chosen in rule.items():
                inside &= np.isin(codes[name], chosen)
            possible &= ~inside
        return possible
