"""Parts of what an attribute is: its canonical form, and the digits of its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from understudy.core.bounds import canonical_bounds
from understudy.errors import SchemaError

if TYPE_CHECKING:
    from understudy.core.schema import Attribute


def canonical_attribute(a: Attribute) -> dict[str, object]:
    """Plain values from which a fingerprint is made."""
    from understudy.core.schema import level_text

    return {
        "name": a.name,
        "levels": list(a.levels),
        "edges": [level_text(e) for e in a.edges],
        "kind": a.kind,
        "integer": a.integer,
        "outside": a.outside,
        "missing": a.missing,
        "special": [[level_text(c), t] for c, t in a.special],
        "ordered": a.ordered,
        "label": a.label,
        "level_labels": list(a.level_labels),
        "density": a.density,
        **({} if a.decimals is None else {"decimals": a.decimals}),
        **({"tree": list(a.tree)} if a.tree else {}),
        **({"distances": [list(row) for row in a.distances]} if a.distances else {}),
        **({"always_measure": True} if a.always_measure else {}),
        **(canonical_bounds(a) if a.bounds else {}),
    }


def check_decimals(attribute: Attribute, decimals: int, given: Sequence[int | float]) -> None:
    """Refuses edges and special codes with more digits than are declared, or than a double holds."""
    where = f"attribute '{attribute.name}'"
    if not given or (attribute.integer and decimals):
        raise SchemaError(f"{where}: decimals go with numbers that are not whole.")
    scaled = [Decimal(str(value)).scaleb(decimals) for value in given]
    if any(value != value.to_integral_value() for value in scaled):
        raise SchemaError(f"{where}: an edge or special code has more than the {decimals} decimals that are declared.")
    if any(abs(value) > 2**53 for value in scaled):
        raise SchemaError(f"{where}: a double does not hold numbers so large with {decimals} decimals; declare fewer.")
