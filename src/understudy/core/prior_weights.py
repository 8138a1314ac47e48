"""A public prior that is not the same for every cell: one number for each level, or a public table.

A text names attributes and their numbers, in the order of the schema's levels (a missing value, where it is possible,
comes last): ``"sex = 2 1; age*job = 3 1 4 1 5 9"``. The weight of a cell is the product of its numbers; attributes that
are not named have weight 1. The prior of a cell is its weight times the prior of the draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.domain import Domain
from understudy.core.exact_numbers import read_exact
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError

LARGEST_WEIGHTED = 2**22  # cells over the attributes that weights or structural zeros name
LARGEST_TOTAL = 2**53  # of all weights together: exact in 64-bit whole numbers, and in the float that bounds use


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorWeights:
    """Positive numbers of a public prior, by attribute or by table of attributes.

    Raises
    ------
    InputError
        If the text is not of the form above, a number is not positive, or an attribute is named twice.
    """

    text: str
    """The weights as they were written."""

    def __post_init__(self) -> None:
        self._read()

    def _read(self) -> tuple[tuple[tuple[str, ...], tuple[Fraction, ...]], ...]:
        parts = []
        for part in filter(None, (part.strip() for part in self.text.split(";"))):
            names, equals, numbers = part.rpartition("=")
            if not equals or not numbers.split():
                raise InputError(
                    f"weights ({part!r}) must be an attribute, =, and one number for each of its levels: 'sex = 2 1'. "
                    "Several attributes are joined by * and separated by ;."
                )
            margin = tuple(name.strip() for name in names.split("*"))
            values = tuple(read_exact(number, "weight") for number in numbers.split())
            if min(values) <= 0:
                raise InputError("every weight must be positive: a cell without prior stays empty, which reveals it.")
            parts.append((margin, values))
        named = [name for margin, _ in parts for name in margin]
        if not parts or len(set(named)) != len(named):
            raise InputError("weights must name at least one attribute, and each attribute once.")
        return tuple(parts)

    def check(self, schema: Schema) -> None:
        """Refuse names and numbers that are not those of a schema.

        Parameters
        ----------
        schema
            The public schema.

        Raises
        ------
        InputError
            If a part does not have one number for each of its cells.
        UnsupportedError
            If an attribute has no levels before its bins are found.
        """
        for margin, values in self._read():
            for name in margin:
                if schema[name].open or schema[name].found:
                    raise UnsupportedError(
                        f"weights name '{name}', whose levels are not known before they are found; give edges or "
                        "levels, or leave it out of the weights."
                    )
            cells = math.prod(schema[name].size for name in margin)
            if len(values) != cells:
                raise InputError(
                    f"weights of {' x '.join(margin)} have {len(values)} numbers and must have {cells}, one for each "
                    "of its cells in the order of the schema, missing values last."
                )

    def over(self, domain: Domain) -> WeightedCells:
        """The weights of the cells of a domain, as whole numbers without a common divisor.

        Parameters
        ----------
        domain
            The cells; codes that are given are those of one stratum.

        Returns
        -------
        WeightedCells
            The weights over the attributes that matter, and what bounds need of them.

        Raises
        ------
        UnsupportedError
            If the attributes have too many cells, or the numbers too many digits.
        """
        schema = domain.schema
        self.check(schema)
        parts = self._read()
        ruled = {name for rule in schema.zeros for name in rule.codes(schema)}
        named = {name for margin, _ in parts for name in margin}
        touched = tuple(name for name in domain.margin if name in ruled | named)
        shape = schema.shape(touched)
        if math.prod(shape) > LARGEST_WEIGHTED:
            raise UnsupportedError(
                f"the attributes of weights and structural zeros have {math.prod(shape):,} cells together; at most "
                f"{LARGEST_WEIGHTED:,} can be weighted. Name fewer attributes."
            )
        weights = np.ones(shape, dtype=object)
        given, scaled = dict(domain.given), 1
        for margin, values in parts:
            scale = math.lcm(*(value.denominator for value in values))
            scaled *= scale
            table = np.array([int(value * scale) for value in values], dtype=object)
            table = table.reshape([schema[name].size for name in margin])
            table = table[tuple(given.get(name, slice(None)) for name in margin)]
            left = [name for name in margin if name not in given]
            order = sorted(range(len(left)), key=lambda place: touched.index(left[place]))
            table = np.asarray(table, dtype=object).transpose(order)
            weights = weights * table.reshape([schema[name].size if name in left else 1 for name in touched])
        whole = weights.ravel()
        codes = Domain(schema=schema, margin=touched, given=domain.given)
        possible = codes.is_possible(np.arange(len(whole)))
        divisor = math.gcd(*whole[possible].tolist()) or 1
        rest = domain.size // codes.size
        total = sum(whole[possible].tolist()) // divisor * rest
        if total > LARGEST_TOTAL:
            raise UnsupportedError(
                f"the weights of all cells add up to {total:.3g} whole parts, more than can be drawn exactly; use "
                "numbers with fewer digits."
            )
        flat = np.where(possible, whole // divisor, 0).astype(np.int64)
        return WeightedCells(domain=domain, touched=touched, weights=flat, rest=rest, part=Fraction(divisor, scaled))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedCells:
    """Whole weights over the attributes that weights or structural zeros name; ``rest`` cells share each of them.

    ``part`` is what one of them stands for in the numbers as they were written.
    """

    domain: Domain
    touched: tuple[str, ...]
    weights: Integers  # one for each cell over the touched attributes; 0 where a structural zero forbids it
    rest: int
    part: Fraction

    @property
    def total(self) -> int:
        """The sum of the weights of all possible cells."""
        return int(self.weights.sum()) * self.rest

    @property
    def smallest_two(self) -> tuple[int, int]:
        """The smallest and the second smallest weight of a possible cell; the same twice where two cells have it."""
        found = np.sort(self.weights[self.weights > 0])
        if len(found) == 0:
            return 0, 0
        return int(found[0]), int(found[0] if self.rest > 1 or len(found) == 1 else found[1])

    def cells_of(self, numbers: Integers) -> Integers:
        """The cell of each number from 0 to ``total`` - 1, so that a uniform number falls into a cell by its weight."""
        inner, other = np.divmod(numbers, self.rest)
        place = np.searchsorted(np.cumsum(self.weights), inner, side="right")
        schema, margin = self.domain.schema, self.domain.margin
        rest = tuple(name for name in margin if name not in self.touched)
        codes = dict(zip(self.touched, np.unravel_index(place, schema.shape(self.touched)), strict=True))
        codes |= dict(zip(rest, np.unravel_index(other, schema.shape(rest)), strict=True)) if rest else {}
        return np.ravel_multi_index([codes[name] for name in margin], schema.shape(margin)).astype(np.int64)

    def of_margin(self, names: tuple[str, ...]) -> Integers:
        """The sum of the weights behind each cell of some attributes, in the order of the schema; flat.

        Attributes that the domain has given are not among its cells and are left out.
        """
        schema = self.domain.schema
        inside = tuple(name for name in names if name in self.domain.margin)
        table = self.weights.reshape(schema.shape(self.touched)) if self.touched else self.weights.reshape(())
        kept = tuple(name for name in self.touched if name in inside)
        table = table.sum(axis=tuple(place for place, name in enumerate(self.touched) if name not in kept))
        others = [name for name in inside if name not in self.touched]
        times = self.rest // math.prod(schema[name].size for name in others)
        spread = table.reshape([schema[name].size if name in kept else 1 for name in inside]) * times
        return np.asarray(np.broadcast_to(spread, schema.shape(inside)).reshape(-1), dtype=np.int64)
