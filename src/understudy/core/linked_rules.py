"""What is impossible across the members of a household, as structural zeros of its row.

Rules of the schema file, orders, and what a rule on age means for whole bins. A rule that speaks of a role holds for
the second member of that role too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from understudy.core.household_roles import CHILD, OTHER, PARTNER, REFERENCE, Roles
from understudy.core.schema import Attribute
from understudy.core.slot_columns import Range, ranges_of, zero_of, zeros_of_bins
from understudy.core.structural_zeros import Condition, Impossible
from understudy.errors import SchemaError, unknown_name

if TYPE_CHECKING:
    from understudy.core.linked_schema import LinkedSchema, Slot


def zeros_across(schema: LinkedSchema, named: Mapping[str, Attribute]) -> Iterator[Impossible]:
    """The structural zeros of all rules across members; ``named`` are the columns of the row of a household."""
    for rule in schema.across:
        for name in rule.attributes:
            _told(name, named)
        for seconds in _with_seconds(schema, rule.attributes, named):
            yield Impossible(conditions=tuple((seconds[name], one) for name, one in rule.conditions))
    for below, above in schema.orders:
        for name in (below, above):
            if _told(name, named).kind != "numeric":
                raise SchemaError(f"order: '{name}' must have edges.")
        for seconds in _with_seconds(schema, (below, above), named):
            yield from zeros_of_bins(named, seconds[below], seconds[above], lambda a, b: a[0] >= b[0])
    if schema.roles is not None and schema.roles.age:
        yield from _zeros_of_rule(schema, schema.roles, named)


def _zeros_of_rule(schema: LinkedSchema, roles: Roles, named: Mapping[str, Attribute]) -> Iterator[Impossible]:
    """What the rule on age makes impossible for whole bins, whatever the exact ages inside them."""
    within, younger = roles.partner_within, roles.child_younger

    def too_old(mine: Range, reference: Range) -> bool:
        return reference[1] - mine[0] < younger

    def too_far(mine: Range, reference: Range) -> bool:
        return mine[0] - reference[1] > within or reference[0] - mine[1] > within

    def too_young(mine: Range, reference: Range) -> bool:
        return reference[0] - mine[1] >= younger

    wrong = {CHILD: too_old, PARTNER: too_far, OTHER: too_young}
    for slot in schema.slots:
        column = slot.column(roles.age)
        if column in named and slot.role in wrong:
            yield from zeros_of_bins(named, column, f"{REFERENCE}_{roles.age}", wrong[slot.role])
        if column in named and slot.role == PARTNER:
            yield from _zeros_of_partner(roles, named, slot)


def _zeros_of_partner(roles: Roles, named: Mapping[str, Attribute], slot: Slot) -> Iterator[Impossible]:
    if roles.partner_sex == "other":
        mine, theirs = slot.column(roles.sex), f"{REFERENCE}_{roles.sex}"
        for name in named[theirs].code_names:
            yield zero_of(mine, (name,), theirs, (name,))
    ages = named[slot.column(roles.age)]
    early = tuple(name for name, (_, high) in zip(ages.code_names, ranges_of(ages), strict=False) if high < roles.adult)
    if early:
        yield Impossible(conditions=((ages.name, Condition(levels=early)),))


def _told(name: str, named: Mapping[str, Attribute]) -> Attribute:
    if name not in named:
        raise unknown_name("impossible across members: column", name, sorted(named), error=SchemaError)
    return named[name]


def _with_seconds(
    schema: LinkedSchema, names: Sequence[str], named: Mapping[str, Attribute]
) -> Iterator[dict[str, str]]:
    """The names of a rule, and again with the second slot of a role, which the rule holds for too."""
    yield {name: name for name in names}
    for role, second in ((slot.role, slot.name) for slot in schema.slots if slot.second):
        swapped = {
            name: name.replace(f"{role}_", f"{second}_", 1) if name.startswith(f"{role}_") else name for name in names
        }
        if any(old != new for old, new in swapped.items()) and set(swapped.values()) <= set(named):
            yield swapped
