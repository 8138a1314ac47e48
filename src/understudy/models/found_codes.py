"""Levels from noisy counts of codes and of their parents. Post-processing: no record is seen here.

A code whose count is clear of the noise is a level. The counts of such codes are subtracted from that of their parent;
if the rest is clear of the noise, the parent is a level too, and rare codes roll up to it. If there are more than
the schema allows, the smallest roll up as well. See docs/theory/discovered-codes.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from understudy.core.discovered_codes import OTHER, parent_chain
from understudy.core.schema import Attribute

CLEAR = 3.0  # standard deviations above 0 that the rest of a parent needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Noisy counts of one level of a hierarchy: codes, or their parents."""

    counts: dict[str, int]
    """The noisy count of each."""
    variance: float
    """Of the noise on each."""
    least: float
    """The smallest noisy count that is not taken for noise."""


def find_codes(attribute: Attribute, generations: Sequence[Generation]) -> Attribute:
    """The attribute with the levels that were found, sorted by text, and then ``other``. In ``generations`` the codes
    come first, and then their parents, the nearest first."""
    first, *above = generations
    mass = {code: float(count) for code, count in first.counts.items() if count >= first.least}
    spread = dict.fromkeys(mass, first.variance)
    for generation in above:
        rest = {node: (float(count), generation.variance) for node, count in generation.counts.items()}
        for code, own in mass.items():
            for node in parent_chain(attribute, code):
                if node in rest:
                    rest[node] = (rest[node][0] - own, rest[node][1] + spread[code])
        for node, (left, variance) in sorted(rest.items()):
            clear = generation.counts[node] >= generation.least and left >= CLEAR * variance**0.5
            if clear and node not in mass:
                mass[node], spread[node] = left, variance
    while len(mass) > attribute.most_codes:
        smallest = min(mass, key=lambda code: (mass[code], code))
        own = mass.pop(smallest)
        kept = next((node for node in parent_chain(attribute, smallest) if node in mass), None)
        if kept is not None:
            mass[kept] += own
    return replace(attribute, found=True, levels=(*sorted(mass), OTHER))
