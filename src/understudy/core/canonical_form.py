"""The canonical form of attributes and schemas, which fingerprints are made of; digits and distances of values."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from understudy.core.bounds import LARGEST_EDGE, canonical_bounds
from understudy.core.discovered_codes import canonical_codes
from understudy.errors import SchemaError

if TYPE_CHECKING:
    from understudy.core.schema import Attribute, Schema


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
        **({"clock": a.clock} if a.clock else {}),
        **(canonical_bounds(a) if a.bounds else {}),
        **(canonical_codes(a) if a.most_codes else {}),
    }


def check_edges(attribute: Attribute) -> None:
    """Refuses edges of numbers or dates that contradict each other or what else is said about them."""
    where = f"attribute '{attribute.name}'"
    dates = [isinstance(edge, datetime.date) for edge in attribute.edges]
    numbers = [isinstance(edge, int | float) and not isinstance(edge, bool) for edge in attribute.edges]
    if not (all(dates) or all(numbers)):
        raise SchemaError(f"{where}: edges must be all numbers or all dates.")
    if any(isinstance(edge, datetime.datetime) for edge in attribute.edges):
        raise SchemaError(f"{where}: edges must be dates without a time of day.")
    # Beyond 2^53 a double skips whole numbers, so a value could not be put into its bin exactly.
    given = [
        value
        for value in (*attribute.edges, *(code for code, _ in attribute.special))
        if not isinstance(value, datetime.date | str)
    ]
    if not all(isinstance(value, int) or math.isfinite(value) for value in given):
        raise SchemaError(f"{where}: edges must be finite; give the public lowest and highest possible value.")
    if any(abs(value) > 2**53 for value in given if isinstance(value, int) or attribute.integer):
        raise SchemaError(f"{where}: whole-number edges and special codes must lie between -2^53 and 2^53.")
    if any(abs(value) > LARGEST_EDGE for value in given):
        raise SchemaError(f"{where}: edges and special codes must lie between -{LARGEST_EDGE:g} and {LARGEST_EDGE:g}.")
    rising = attribute.edges
    if (attribute.integer or all(dates)) and len(rising) > 2 and rising[-1] == rising[-2]:
        rising = rising[:-1]  # the last bin is its upper end alone
    if len(rising) < 2 or any(b <= a for a, b in pairwise(rising)):  # type: ignore[operator]
        raise SchemaError(f"{where}: edges must be at least two values in increasing order.")
    if attribute.level_labels:
        raise SchemaError(f"{where}: level_labels go with levels.")
    if attribute.integer and (all(dates) or any(value != int(value) for value in given)):
        raise SchemaError(f"{where}: integer = true needs whole-number edges and special codes.")
    if attribute.decimals is not None:
        check_decimals(attribute, attribute.decimals, [] if all(dates) else given)
    if attribute.density == "log" and (all(dates) or attribute.edges[0] <= 0):  # type: ignore[operator]
        raise SchemaError(f'{where}: density = "log" needs positive numeric edges.')
    if attribute.outside == "missing" and not attribute.missing:
        raise SchemaError(f'{where}: outside = "missing" needs missing = true.')
    check_special(attribute)


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


def check_special(attribute: Attribute) -> None:
    """Refuses special codes that are not of the kind of the edges, listed twice, or without a label."""
    from understudy.core.schema import MISSING

    where, dates = f"attribute '{attribute.name}'", attribute.kind == "date"
    for code, text in attribute.special:
        if not isinstance(text, str) or not text or text == MISSING:
            raise SchemaError(f"{where}: a special code needs a non-empty label.")
        if isinstance(code, str):
            _check_text_code(where, code, beside_dates=dates)
        elif isinstance(code, datetime.date) != dates:
            raise SchemaError(f"{where}: special codes must be of the same kind as the edges, or texts.")
    codes = [code for code, _ in attribute.special]
    if len(set(codes)) != len(codes):
        raise SchemaError(f"{where}: a special code is listed twice.")


def _check_text_code(where: str, code: str, *, beside_dates: bool) -> None:
    """A text may stand only beside numbers, and must differ from every number and from a missing value."""
    from understudy.core.schema import MISSING, as_number

    if beside_dates:
        raise SchemaError(f"{where}: a special code beside dates must be a date.")
    if not code.strip() or code != code.strip() or code == MISSING or as_number(code) is not None:
        raise SchemaError(f"{where}: the special code {code!r} must be a text without spaces around it, and no number.")


def check_meaning(attribute: Attribute) -> None:
    """Refuses a tree or distances of levels that do not fit them."""
    where = f"attribute '{attribute.name}'"
    if not attribute.tree and not attribute.distances:
        return
    if attribute.ordered or not attribute.levels or (attribute.tree and attribute.distances):
        raise SchemaError(f"{where}: tree or distances, one of them, goes with levels that are not ordered.")
    count = len(attribute.levels)
    if attribute.tree:
        if len(attribute.tree) != count or not all(isinstance(path, str) and path for path in attribute.tree):
            raise SchemaError(f'{where}: tree must have a path such as "health/nurse" for each level, in order.')
        return
    rows = tuple(tuple(row) if isinstance(row, list | tuple) else () for row in attribute.distances)
    object.__setattr__(attribute, "distances", rows)
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) and one >= 0 for r in rows for one in r)
    square = len(rows) == count and all(len(row) == count for row in rows)
    if (
        not numbers
        or not square
        or any(
            rows[i][j] != rows[j][i] or rows[i][i] != 0 or not math.isfinite(rows[i][j])
            for i in range(count)
            for j in range(count)
        )
    ):
        raise SchemaError(
            f"{where}: distances must be {count} lists of {count} numbers, none negative, the same both ways and 0 "
            "from a level to itself."
        )


def levels_apart(attribute: Attribute) -> tuple[tuple[float, ...], ...]:
    """How far unordered levels are from each other, by their distances or their tree."""
    if attribute.distances:
        return tuple(tuple(float(one) for one in row) for row in attribute.distances)
    paths = [path.split("/") for path in attribute.tree]

    def steps(one: list[str], other: list[str]) -> float:
        shared = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
        common = min(len(one), len(other)) if shared is None else shared
        return float(len(one) + len(other) - 2 * common)

    return tuple(tuple(steps(one, other) for other in paths) for one in paths)


def canonical_schema(schema: Schema) -> dict[str, object]:
    """Plain values from which the fingerprint of a schema is made."""
    plain: dict[str, object] = {
        "version": 1,
        "attributes": [canonical_attribute(a) for a in schema.attributes],
        "impossible": [rule.canonical() for rule in schema.impossible],
        "ignore": sorted(schema.ignore),
    }
    if schema.derived:
        plain["derived"] = [derived.canonical() for derived in schema.derived]
    if schema.rules:
        plain["rules"] = [rule.canonical() for rule in schema.rules]
    if schema.workload:
        plain["workload"] = list(schema.workload)
    if schema.identifiers:
        plain["identifiers"] = [[one.name, one.fake] for one in schema.identifiers]
    if schema.weight is not None:
        plain["weight"] = schema.weight.canonical()
    if schema.design is not None:
        plain["design"] = schema.design.canonical()
    return plain


def schema_html(schema: Schema) -> str:
    """A schema as a table, for notebooks."""
    rows = "".join(
        f"<tr><td>{escape(a.name)}</td><td>{escape(a.label)}</td><td>{a.kind}</td><td>{a.size}</td>"
        f"<td>{escape(', '.join(a.code_names[:8]) + (', ...' if a.size > 8 else ''))}</td></tr>"
        for a in schema.attributes
    )
    zeros = "".join(f"<li>{escape(rule.describe())}</li>" for rule in (*schema.impossible, *schema.rules))
    return (
        f"<div><b>Schema</b>: {len(schema.attributes)} attributes, {schema.cells():,} cells"
        "<table><tr><th>name</th><th>label</th><th>kind</th><th>codes</th><th>values</th></tr>"
        f"{rows}</table>{f'Impossible:<ul>{zeros}</ul>' if zeros else ''}</div>"
    )
