"""What is computed of a household from its members: sums, means, extremes, and equivalised amounts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.bins import bins_of
from understudy.core.household_roles import HouseholdDerived
from understudy.core.linked_schema import LinkedSchema
from understudy.core.schema import Attribute
from understudy.core.table import Codes

CHILD_AGE = 14  # the modified OECD scale counts younger members less
FIRST, ADULT, YOUNG = 1.0, 0.5, 0.3


def needed_numbers(schema: LinkedSchema) -> tuple[str, ...]:
    """The attributes of members whose numbers are needed for derived columns that are counted in bins."""
    return tuple(dict.fromkeys(name for one in schema.derived if one.edges for name in (one.of, one.age) if name))


def kept_numbers(schema: LinkedSchema) -> tuple[str, ...]:
    """The attributes of members whose numbers are kept beside their codes: for derived columns, and for gaps."""
    return tuple(dict.fromkeys((*needed_numbers(schema), *(gap.attribute for gap in schema.gaps))))


def middles(attribute: Attribute, codes: Codes) -> Floats:
    """A number for each member in the middle of its bin; NaN for special codes and missing values."""
    values = np.append(bins_of(attribute).means(), np.full(attribute.size - attribute.bins, np.nan))
    return np.asarray(values[codes.astype(np.int64)])


def derived_values(one: HouseholdDerived, numbers: Mapping[str, Floats], owner: Integers, count: int) -> Floats:
    """The derived number of each household, from the numbers of its members; NaN where there is none."""
    values = numbers[one.of]
    known = ~np.isnan(values)
    total = np.bincount(owner[known], weights=values[known], minlength=count)
    if one.function == "sum":
        return np.asarray(np.round(total, 2))
    if one.function == "equivalised":
        young = np.bincount(owner[numbers[one.age] < CHILD_AGE], minlength=count)
        others = np.bincount(owner, minlength=count) - young
        scale = np.where(others > 0, FIRST + ADULT * (others - 1) + YOUNG * young, FIRST + YOUNG * (young - 1))
        return np.asarray(np.round(np.where(others + young > 0, total / scale, 0.0), 2))
    if one.function == "mean":
        there = np.bincount(owner[known], minlength=count)
        return np.asarray(np.round(np.divide(total, there, out=np.full(count, np.nan), where=there > 0), 2))
    largest = one.function == "max"
    found = np.full(count, -np.inf if largest else np.inf)
    (np.maximum if largest else np.minimum).at(found, owner[known], values[known])
    return np.where(np.isfinite(found), found, np.nan)


def derived_codes(attribute: Attribute, values: Floats) -> Integers:
    """The bins of derived numbers. Values outside are in the first and the last; what is no number is missing."""
    edges = np.array([float(edge) for edge in attribute.edges])  # type: ignore[arg-type]
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, attribute.bins - 1)
    return np.where(np.isnan(values), attribute.size - 1, place).astype(np.int64)
