"""The columns of a slot in the row of a household, and structural zeros of two columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from understudy.core.schema import Attribute
from understudy.core.structural_zeros import Condition, Impossible
from understudy.errors import SchemaError

NONE = "none"  # what a slot holds that nobody fills
Range = tuple[float, float]


def slot_attribute(attribute: Attribute, name: str, always: bool) -> Attribute:
    """An attribute of a member in a slot, with a code for an empty slot unless the slot is always filled."""
    if NONE in attribute.code_names:
        raise SchemaError(f"attribute '{attribute.name}' has the value '{NONE}', which stands for nobody; rename it.")
    if attribute.kind == "numeric" and not any(isinstance(code, str) for code, _ in attribute.special):
        return Attribute(
            name=name,
            missing=attribute.missing,
            label=attribute.label,
            edges=attribute.edges,
            integer=attribute.integer,
            special=attribute.special if always else (*attribute.special, (NONE, NONE)),
            decimals=attribute.decimals,
        )
    names = attribute.code_names[: attribute.bins + len(attribute.special)]
    return Attribute(
        name=name,
        missing=attribute.missing,
        label=attribute.label,
        levels=names if always else (*names, NONE),
        ordered=attribute.ordered or (attribute.kind != "levels" and not attribute.special),
    )


def names_of(attribute: Attribute, codes: Sequence[int]) -> tuple[str, ...]:
    return tuple(attribute.code_names[code] for code in codes)


def zero_of(first: str, codes: tuple[str, ...], second: str, others: tuple[str, ...]) -> Impossible:
    return Impossible(conditions=((first, Condition(levels=codes)), (second, Condition(levels=others))))


def ranges_of(attribute: Attribute) -> list[Range]:
    """The lowest and highest value of each bin; of whole numbers the highest that it holds."""
    edges = [float(edge) for edge in attribute.edges]  # type: ignore[arg-type]
    last = len(edges) - 2
    step = 1.0 if attribute.integer else 0.0
    return [(low, high if place == last else high - step) for place, (low, high) in enumerate(pairwise(edges))]


def zeros_of_bins(
    named: Mapping[str, Attribute], first: str, second: str, wrong: Callable[[Range, Range], bool]
) -> Iterator[Impossible]:
    """Structural zeros of two numeric columns, bin by bin, where ``wrong`` says so of their ranges."""
    if first not in named or second not in named:
        return
    one, other = named[first], named[second]
    for place, mine in enumerate(ranges_of(one)):
        bad = [number for number, theirs in enumerate(ranges_of(other)) if wrong(mine, theirs)]
        if bad:
            yield zero_of(first, names_of(one, (place,)), second, names_of(other, bad))
