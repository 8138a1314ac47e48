"""Settings of the method ``commute`` as they are written on a command line, read into values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.nested_areas import PLACE, AreaStep
from understudy.core.exact_numbers import read_exact
from understudy.errors import InputError
from understudy.privacy.mechanisms.place_bands import squared_edges

RETAIN_ONE = 2**32


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinking:
    """Algorithm 2: the probability with which an empty place stays in the domain, by distance. Multiples of 2^-32."""

    miles: tuple[float, ...]  # upper ends of the bands; beyond the last lies elsewhere
    keeps: tuple[int, ...]

    @property
    def least(self) -> Fraction:
        return Fraction(min(self.keeps), RETAIN_ONE)

    @property
    def edges(self) -> NDArray[np.float64]:
        """Squared ends of all bands; what is beyond the last is not in the domain."""
        return squared_edges(self.miles)

    @property
    def thresholds(self) -> NDArray[np.uint64]:
        return np.array([*self.keeps, 0], dtype=np.uint64)


def read_shrinking(text: str) -> Shrinking | None:
    """Read "10:1,50:0.2,200:0.0378": within 10 miles every place stays, up to 50 one in five, and so on.

    Probabilities are rounded up to multiples of 2^-32: a larger one loses less.

    >>> read_shrinking("10:1,50:0.5").keeps
    (4294967296, 2147483648)
    """
    if not text:
        return None
    miles, keeps = [], []
    for part in text.split(","):
        end, colon, probability = part.partition(":")
        if not colon:
            raise InputError(
                f"shrink ({text!r}) must be MILES:PROBABILITY pairs, for example '10:1,50:0.2,200:0.0378'."
            )
        keep = read_exact(probability.strip(), "a probability of shrink")
        if not 0 < keep <= 1:
            raise InputError(
                f"a probability of shrink ({probability.strip()}) must be above 0 and at most 1: a place that is never "
                "retained when empty would reveal the worker who lives there."
            )
        miles.append(positive(end.strip(), "a distance of shrink"))
        keeps.append(-(-keep.numerator * RETAIN_ONE // keep.denominator))
    if any(b <= a for a, b in pairwise(miles)):
        raise InputError(f"the distances of shrink ({text!r}) must increase.")
    return Shrinking(miles=tuple(miles), keeps=tuple(keeps))


AREAS = "areas:"


def read_area_steps(text: str) -> tuple[AreaStep, ...]:
    """Read "areas:place:2,tract:10,county": within 2 miles single places, up to 10 miles tracts, beyond it counties.

    >>> [(step.level, step.miles) for step in read_area_steps("areas:place:2,tract:10,county")]
    [('county', 10.0), ('tract', 2.0), ('place', 0.0)]
    """
    levels, miles = [], []
    parts = [part.strip() for part in text.removeprefix(AREAS).split(",")]
    for number, part in enumerate(parts):
        level, colon, distance = part.rpartition(":")
        last = number == len(parts) - 1
        if last == bool(colon) or not (level or last) or not part:
            raise InputError(
                f"coarsen ({text!r}) must be LEVEL:MILES pairs from fine to coarse and a last LEVEL without a "
                "distance, for example 'areas:place:2,tract:10,county:50,state'."
            )
        levels.append(part if last else level)
        if not last:
            miles.append(positive(distance, "a distance of coarsen"))
    if len(levels) < 2:
        raise InputError(f"coarsen ({text!r}) names one level; say area:{levels[0]} for the areas of one level alone.")
    if any(b <= a for a, b in pairwise(miles)):
        raise InputError(f"the distances of coarsen ({text!r}) must increase.")
    if len(set(levels)) < len(levels) or PLACE in levels[1:]:
        raise InputError(f"coarsen ({text!r}) must name each level once, and 'place' only as the first and finest.")
    return tuple(
        AreaStep(level=level, miles=mile) for level, mile in zip(levels[::-1], [*miles[::-1], 0.0], strict=True)
    )


def positive(text: str, name: str) -> float:
    number = read_exact(text, name)
    if number <= 0:
        raise InputError(f"{name} ({text}) must be positive.")
    return float(number)


def share(text: str, name: str) -> Fraction:
    number = read_exact(text, name)
    if not 0 <= number < 1:
        raise InputError(f"{name} ({text}) must be at least 0 and below 1.")
    return number
