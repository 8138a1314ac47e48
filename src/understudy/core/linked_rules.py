"""What is impossible across the members of a household, as structural zeros of its row.

Rules of the schema file, orders, gaps, and what a rule on age means for whole bins. A rule that speaks of a role holds
for the second member of that role too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from understudy.core.household_roles import CHILD, OTHER, PARTNER, REFERENCE, ROLES, Roles
from understudy.core.schema import Attribute
from understudy.core.slot_columns import Range, ranges_of, zero_of, zeros_of_bins
from understudy.core.structural_zeros import Condition, Impossible
from understudy.errors import SchemaError, unknown_name

if TYPE_CHECKING:
    from understudy.core.linked_schema import LinkedSchema, Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Every member of one role has at least so much less than every member of another, such as years of age.

    It holds for the numbers themselves, not for their bins alone.

    Raises
    ------
    SchemaError
        If ``by`` is no whole number from 0, or both roles are the same.
    """

    attribute: str
    """The attribute of members, in whole numbers."""
    below: str
    """The role with less, such as ``child``."""
    above: str
    """The role with more, such as ``partner``."""
    by: int
    """The least difference."""

    def __post_init__(self) -> None:
        for role in (self.below, self.above):
            if role not in ROLES:
                raise unknown_name("order with by: role", role, ROLES, error=SchemaError)
        if self.below == self.above:
            raise SchemaError(f"order with by: two members who are both '{self.below}' have no order.")
        if isinstance(self.by, bool) or not isinstance(self.by, int) or self.by < 0:
            raise SchemaError(f"order with by: {self.by!r} must be a whole number from 0.")

    @property
    def columns(self) -> tuple[str, str]:
        """The two columns of the row of a household."""
        return f"{self.below}_{self.attribute}", f"{self.above}_{self.attribute}"

    def describe(self) -> str:
        """The rule in words.

        Returns
        -------
        str
            For example ``child_age is at least 15 below partner_age``.
        """
        below, above = self.columns
        return f"{below} is at least {self.by} below {above}"


def check_gaps(schema: LinkedSchema) -> None:
    """Refuses gaps that could not be kept exactly whenever each pair of bins allows them."""
    for gap in schema.gaps:
        one = schema.members[gap.attribute]
        if one.kind != "numeric" or not one.integer or any(isinstance(code, str) for code, _ in one.special):
            raise SchemaError(
                f"order with by: '{gap.attribute}' must have edges and integer = true, and no text as a special value."
            )
        if schema.roles is None:
            raise SchemaError("order with by needs [roles].")
        if schema.roles.age:
            raise SchemaError(
                "order with by needs roles from a column: under a rule on age, child_younger and partner_within say it."
            )
        if any(gap.attribute == other.attribute and gap.above == other.below for other in schema.gaps):
            raise SchemaError(f"order with by: '{gap.above}' is above in one rule and below in another; not offered.")
        if all(max(schema.numbers_of(role), default=0) > 1 for role in (gap.below, gap.above)):
            raise SchemaError(
                f"order with by: households can have several of both '{gap.below}' and '{gap.above}'; limit one of "
                "them to 1, such as most = { other = 1 } under [roles]."
            )


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
    for gap in schema.gaps:
        for name in gap.columns:
            _told(name, named)
        for seconds in _with_seconds(schema, gap.columns, named):
            below, above = (seconds[name] for name in gap.columns)
            yield from zeros_of_bins(named, below, above, lambda a, b, by=gap.by: a[0] > b[1] - by)  # type: ignore[misc]
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
