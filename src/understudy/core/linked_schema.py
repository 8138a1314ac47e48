"""The public description of two linked tables: households and their members.

A household is described by one row of a *wide* schema: its own attributes, its size and composition, and one slot for
each role. A household with several children has one of them in the slot, chosen at random, and a second one in the slot
of the sibling. So every table over the wide schema counts each household once, whatever the number of its members. The
wide schema is an ordinary :class:`~understudy.core.schema.Schema`, and everything that is known of one holds for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from understudy.core.household_roles import (
    CHILD,
    LARGEST_HOUSEHOLD,
    MEMBER,
    OTHER,
    PARTNER,
    ROLES,
    HouseholdDerived,
    Roles,
)
from understudy.core.linked_rules import Gap, check_gaps, zeros_across
from understudy.core.linked_survey import check_surveys, weight_of_members, without_requirement
from understudy.core.schema import Attribute, Schema
from understudy.core.slot_columns import NONE, names_of, slot_attribute, zero_of
from understudy.core.structural_zeros import Condition, Impossible
from understudy.errors import SchemaError, unknown_name

SECOND = {CHILD: "sibling", MEMBER: "fellow"}  # the slot of a second member of the same role
SIZE, COMPOSITION, CHILDREN, ROLE = "size", "composition", "children", "role"
PAIR = ("one", "other")  # with these begin the columns of a pair of members who are alike
MOST_COMPOSITIONS = 5000
Composition = tuple[int, ...]  # how many members have each role


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place for one member in the row of a household: a role, or the second member of a role."""

    name: str
    """The name of the slot, with which its columns begin."""
    role: str
    """The role of the member in it."""
    second: bool = False
    """Whether it is for a second member of the role."""

    def column(self, attribute: str) -> str:
        """The column of an attribute of the member in the slot.

        Parameters
        ----------
        attribute
            The attribute.

        Returns
        -------
        str
            For example ``partner_age``.
        """
        return f"{self.name}_{attribute}"


@dataclass(frozen=True, kw_only=True)
class LinkedSchema:
    """The public description of households and their members.

    Raises
    ------
    SchemaError
        If a name is taken twice, or a rule speaks of a role or attribute that is not there.
    """

    households: Schema
    """The attributes that households have themselves, and what is impossible among them."""
    members: Schema
    """The attributes of members, and what is impossible within one member. The first attribute ties members together:
    it is the one that siblings share a table of. Age is a good one."""
    household_table: str
    """The name of the table of households."""
    member_table: str
    """The name of the table of members."""
    household_id: str
    """The column that identifies a household in both tables."""
    member_id: str = ""
    """The column that identifies a member, and gives the order within a household. Without it the rows keep theirs."""
    at_most: int
    """The most members of a household. Public."""
    at_least: int = 1
    """The fewest members of a household: 1, or 0 where all members are alike and there may be none, such as patients
    without a visit."""
    beyond: Literal["error", "sample"] = "error"
    """What happens to a household with more members: ``error``, or ``sample``: members are left out at random."""
    roles: Roles | None = None
    """How members get their roles; without it all members are alike."""
    across: tuple[Impossible, ...] = ()
    """What is impossible across members: names are ``child_age``, ``reference_sex``, or those of the household."""
    orders: tuple[tuple[str, str], ...] = ()
    """Pairs such as ``("child_age", "reference_age")``: the bin of the first lies below that of the second."""
    gaps: tuple[Gap, ...] = ()
    """What every member of one role has less than every member of another, such as 15 years of age."""
    derived: tuple[HouseholdDerived, ...] = ()
    """Columns of households that are computed from their members."""
    kinds: tuple[Composition, ...] = field(init=False, repr=False, compare=False)
    """All compositions: how many members have each role."""

    def __post_init__(self) -> None:
        at_most = self.at_most
        if isinstance(at_most, bool) or not isinstance(at_most, int) or not 1 <= at_most <= LARGEST_HOUSEHOLD:
            raise SchemaError(f"at_most ({at_most!r}) must be a whole number from 1 to {LARGEST_HOUSEHOLD}.")
        if self.at_least not in (0, 1) or isinstance(self.at_least, bool):
            raise SchemaError(f"at_least ({self.at_least!r}) must be 0 or 1.")
        if not self.at_least and self.roles is not None:
            raise SchemaError("[roles] need a reference person, so every household has a member; leave at_least out.")
        if self.beyond not in ("error", "sample"):
            raise unknown_name("beyond", str(self.beyond), ("error", "sample"), error=SchemaError)
        if not (self.household_table and self.member_table):
            raise SchemaError("both tables need a name.")
        if self.household_table == self.member_table:
            raise SchemaError(f"both tables are called '{self.member_table}'; give each a name of its own.")
        check_surveys(self.households, self.members)
        self._check_names()
        if self.roles is not None:
            self._check_roles(self.roles)
        object.__setattr__(self, "kinds", tuple(self._compositions()))
        if len(self.kinds) > MOST_COMPOSITIONS:
            raise SchemaError(
                f"households of up to {at_most} members have {len(self.kinds):,} compositions, above "
                f"{MOST_COMPOSITIONS:,}; give most = {{ child = 6, other = 4 }} under [roles]."
            )
        for one in self.derived:
            if self.members[one.of].kind != "numeric" or (one.age and self.members[one.age].kind != "numeric"):
                raise SchemaError(f"derived '{one.name}' needs numeric attributes of members, with edges.")
        check_gaps(self)
        _ = self.wide  # raises where a rule cannot be carried out

    def _check_names(self) -> None:
        derived = [one.name for one in self.derived]
        made = (SIZE, COMPOSITION, *((CHILDREN,) if self.roles is not None else ()))
        for name in (self.household_id, *self.households.names, *derived):
            if name in made:
                raise SchemaError(
                    f"'{name}' is a column that households always get, counted from their members; leave it out here. "
                    "A column of that name in a file is passed by; what means something else needs another name."
                )
        taken = [self.household_id, *self.households.names, *derived]
        for name in taken:
            if taken.count(name) > 1:
                raise SchemaError(f"households have two columns called '{name}'; give each a name of its own.")
        # Without an id of their own members are numbered. If households were identified by the same name, the unit of
        # a household would be taken for that of a person, who moves fewer rows of the tables of members.
        members = [self.household_id, ROLE, self.person_id, *self.members.names]
        for name in members:
            if members.count(name) > 1:
                number = "" if self.member_id else f" (a release numbers members in a column '{MEMBER}')"
                raise SchemaError(f"members have two columns called '{name}'{number}; give each a name of its own.")
        if both := sorted(set(self.members.names) & set(self.households.names)):
            raise SchemaError(f"'{both[0]}' is an attribute of both tables; give each a name of its own.")

    def _check_roles(self, roles: Roles) -> None:
        if roles.column and roles.column in self.members.names:
            raise SchemaError(
                f"[roles]: '{roles.column}' is an attribute too. The release has the column '{ROLE}' instead; leave "
                "the attribute out."
            )
        if roles.age and self.members[roles.age].kind != "numeric":
            raise SchemaError(f"[roles]: '{roles.age}' must have edges: the rule compares ages in years.")
        if roles.sex:
            _ = self.members[roles.sex]

    def _compositions(self) -> Iterator[Composition]:
        if self.roles is None:
            yield from ((count,) for count in range(self.at_least, self.at_most + 1))
            return
        most = [min(self.roles.limit(role), self.at_most - 1) for role in (PARTNER, CHILD, OTHER)]
        for partner in range(most[0] + 1):
            for child in range(most[1] + 1):
                for other in range(most[2] + 1):
                    if 1 + partner + child + other <= self.at_most:
                        yield (1, partner, child, other)

    @property
    def role_names(self) -> tuple[str, ...]:
        """The roles, in the order in which a composition counts them."""
        return (MEMBER,) if self.roles is None else ROLES

    @property
    def anchor(self) -> str:
        """The attribute of members that ties them together: the first."""
        return self.members.names[0]

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The slots of a household's row: one for each role that can occur, and a second for exchangeable members."""
        most = [max(one[place] for one in self.kinds) for place in range(len(self.role_names))]
        slots = []
        for role, count in zip(self.role_names, most, strict=True):
            if count:
                slots.append(Slot(name=role, role=role))
            if count > 1 and role in SECOND:
                slots.append(Slot(name=SECOND[role], role=role, second=True))
        return tuple(slots)

    def attributes_of(self, slot: Slot) -> tuple[str, ...]:
        """The attributes of a slot: all, or only the anchor for a second member.

        Parameters
        ----------
        slot
            The slot.

        Returns
        -------
        tuple[str, ...]
            Names of attributes of members.
        """
        return (self.anchor,) if slot.second else self.members.names

    def counted(self, slot: Slot) -> NDArray[np.bool_]:
        """For each composition whether the slot is filled.

        Parameters
        ----------
        slot
            The slot.

        Returns
        -------
        NDArray[np.bool_]
            One entry for each composition.
        """
        place = self.role_names.index(slot.role)
        return np.array([one[place] > int(slot.second) for one in self.kinds])

    def always_filled(self, slot: Slot) -> bool:
        """Whether every household fills the slot.

        Parameters
        ----------
        slot
            The slot.

        Returns
        -------
        bool
            True for the reference person.
        """
        return bool(self.counted(slot).all())

    @property
    def size_range(self) -> range:
        """The numbers of members that a household can have."""
        return range(self.at_least, self.at_most + 1)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of members of each composition."""
        return np.array([sum(one) for one in self.kinds], dtype=np.int64)

    def composition_name(self, kind: Composition) -> str:
        """A composition in words.

        Parameters
        ----------
        kind
            How many members have each role.

        Returns
        -------
        str
            For example ``couple, 2 children``.
        """
        if self.roles is None:
            return f"{kind[0]} member{'s' * (kind[0] != 1)}"
        _, partner, child, other = kind
        words = ["couple" if partner else "single"]
        words += [f"{child} child{'ren' * (child != 1)}"] if child else []
        words += [f"{other} other{'s' * (other != 1)}"] if other else []
        return ", ".join(words)

    @cached_property
    def wide(self) -> Schema:
        """One row for each household. Structural zeros keep empty slots empty, and hold every rule across members.

        Raises
        ------
        SchemaError
            If two columns would have the same name, or a rule cannot be carried out.
        """
        attributes = [
            *without_requirement(self.households),  # which tables have the weight is for the method to say
            Attribute(name=SIZE, levels=tuple(self.size_range), ordered=True),
            Attribute(name=COMPOSITION, levels=tuple(self.composition_name(kind) for kind in self.kinds)),
        ]
        if self.numbers_of(CHILD):
            levels = tuple(range(max(self.numbers_of(CHILD)) + 1))
            attributes.append(Attribute(name=CHILDREN, levels=levels, ordered=True))
        for slot in self.slots:
            for name in self.attributes_of(slot):
                attributes.append(slot_attribute(self.members[name], slot.column(name), self.always_filled(slot)))
        attributes += [self.counted_derived(one) for one in self.derived if one.edges]
        named = {one.name: one for one in attributes}
        if len(named) < len(attributes):
            twice = next(one.name for one in attributes if named[one.name] is not one)
            raise SchemaError(f"'{twice}' would be the name of two columns; rename an attribute of households.")
        zeros = [*self.households.zeros, *self._zeros_of_size(), *self._zeros_of_slots(named)]
        zeros += [rule for slot in self.slots for rule in self._zeros_within(slot)]
        zeros += zeros_across(self, named)
        return Schema(
            attributes=tuple(attributes),
            impossible=tuple(zeros),
            weight=self.households.weight,
            design=self.households.design,
        )

    @cached_property
    def persons(self) -> Schema:
        """Single members, each with the attributes of its household: what tables of members are counted over.

        The role is among them where it comes from a column. A rule on age looks at the whole household, so one member
        could change the role of another. Without roles the size of the household is among them. Attributes whose name
        is also a column of the row of a household are left out.
        """
        own = without_requirement(self.households)
        rows = set(self.wide.names)
        mine = [one for one in without_requirement(self.members) if one.name not in rows]
        if self.roles is None:
            mine.insert(0, self.wide[SIZE])
        elif self.roles.column and ROLE not in rows:
            mine.insert(0, Attribute(name=ROLE, levels=self.role_names))
        named = {one.name for one in (*own, *mine)}
        zeros = [rule for rule in (*self.households.zeros, *self.members.zeros) if set(rule.attributes) <= named]
        weight = weight_of_members(self.households, self.members)
        return Schema(attributes=(*own, *mine), impossible=tuple(zeros), weight=weight)

    @cached_property
    def pairs(self) -> Schema | None:
        """Pairs of members who are all alike, each member in at most one of them; None where there are roles.

        What ties members together, of both.
        """
        if self.roles is not None or self.at_most == 1:
            return None
        both = tuple(slot_attribute(self.members[self.anchor], f"{name}_{self.anchor}", True) for name in PAIR)
        taken = {*self.wide.names, *self.persons.names}
        return None if taken & {one.name for one in both} else Schema(attributes=both)

    def counted_in(self, margin: Sequence[str]) -> Schema:
        """The table that a margin is counted in: of households, of single members, or of pairs of them.

        Parameters
        ----------
        margin
            Names of attributes.

        Returns
        -------
        Schema
            ``wide``, ``persons`` or ``pairs``.
        """
        if self.pairs is not None and self.is_of_pairs(margin):
            return self.pairs
        return self.persons if self.is_of_members(margin) else self.wide

    def is_of_pairs(self, margin: Sequence[str]) -> bool:
        """Whether a table counts pairs of members.

        Parameters
        ----------
        margin
            Names of attributes.

        Returns
        -------
        bool
            True if it has an attribute of a pair.
        """
        return self.pairs is not None and bool(set(margin) & set(self.pairs.names))

    def is_of_households(self, margin: Sequence[str]) -> bool:
        """Whether a table counts households.

        Parameters
        ----------
        margin
            Names of attributes.

        Returns
        -------
        bool
            True if it counts neither members nor pairs of them.
        """
        return not self.is_of_members(margin) and not self.is_of_pairs(margin)

    @property
    def person_id(self) -> str:
        """The column that identifies a member within its household, in a release."""
        return self.member_id or MEMBER

    def is_of_members(self, margin: Sequence[str]) -> bool:
        """Whether a table counts single members, and not households.

        Parameters
        ----------
        margin
            Names of attributes.

        Returns
        -------
        bool
            True if it has an attribute that only members have.
        """
        others = {*self.households.names, SIZE}
        return any(name in self.persons.names and name not in others for name in margin)

    def numbers_of(self, role: str) -> tuple[int, ...]:
        """How many members of a role each composition has; nothing where no household has any.

        Parameters
        ----------
        role
            The role.

        Returns
        -------
        tuple[int, ...]
            One number for each composition.
        """
        if role not in self.role_names:
            return ()
        place = self.role_names.index(role)
        return tuple(one[place] for one in self.kinds) if any(one[place] for one in self.kinds) else ()

    def none_code(self, attribute: str) -> int:
        """The code of an empty slot.

        Parameters
        ----------
        attribute
            The attribute of members.

        Returns
        -------
        int
            The code in the wide schema.
        """
        one = self.members[attribute]
        return one.bins + len(one.special)

    def counted_derived(self, one: HouseholdDerived) -> Attribute:
        """A derived column that is counted in bins.

        Parameters
        ----------
        one
            The derived column.

        Returns
        -------
        Attribute
            The column of the row of a household. It can be missing where no member has a number.
        """
        of = self.members[one.of]
        nobody = one.function in ("mean", "max", "min") and (of.missing or bool(of.special) or not self.at_least)
        return Attribute(name=one.name, edges=one.edges, outside="clip", missing=nobody)

    def _zeros_of_size(self) -> Iterator[Impossible]:
        names = [self.composition_name(kind) for kind in self.kinds]
        counted = [(SIZE, self.sizes.tolist(), self.size_range)]
        if children := self.numbers_of(CHILD):
            counted.append((CHILDREN, list(children), range(max(children) + 1)))
        for column, counts, numbers in counted:
            for number in numbers:
                others = tuple(name for name, count in zip(names, counts, strict=True) if count != number)
                if others:
                    yield zero_of(column, (str(number),), COMPOSITION, others)

    def _zeros_of_slots(self, named: Mapping[str, Attribute]) -> Iterator[Impossible]:
        """A slot is empty exactly where the composition says so: told by its anchor, which the others follow."""
        names = np.array([self.composition_name(kind) for kind in self.kinds])
        for slot in self.slots:
            if self.always_filled(slot):
                continue
            filled, anchor = self.counted(slot), slot.column(self.anchor)
            values = tuple(name for name in named[anchor].code_names if name != NONE)
            yield zero_of(COMPOSITION, tuple(map(str, names[filled])), anchor, (NONE,))
            yield zero_of(COMPOSITION, tuple(map(str, names[~filled])), anchor, values)
            for other in self.attributes_of(slot)[1:]:
                column = slot.column(other)
                filled_values = tuple(name for name in named[column].code_names if name != NONE)
                yield zero_of(anchor, values, column, (NONE,))
                yield zero_of(anchor, (NONE,), column, filled_values)

    def _zeros_within(self, slot: Slot) -> Iterator[Impossible]:
        for rule in self.members.zeros:
            if set(rule.attributes) <= set(self.attributes_of(slot)):
                codes = rule.codes(self.members)
                yield Impossible(
                    conditions=tuple(
                        (slot.column(name), Condition(levels=names_of(self.members[name], codes[name])))
                        for name in rule.attributes
                    )
                )

    @property
    def without_rules(self) -> LinkedSchema:
        """The same tables, with nothing said about what is impossible across members."""
        return replace(self, across=(), orders=(), gaps=())

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical form: equal exactly when two schemas mean the same."""
        text = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def canonical(self) -> dict[str, object]:
        """Plain values from which the fingerprint is made.

        Returns
        -------
        dict[str, object]
            The schema as plain lists, texts and numbers.
        """
        return {
            "households": self.households.canonical(),
            "members": self.members.canonical(),
            "tables": [self.household_table, self.member_table, self.household_id, self.member_id],
            "at_most": self.at_most,
            "beyond": self.beyond,
            **({} if self.at_least else {"at_least": 0}),
            "roles": None if self.roles is None else self.roles.canonical(),
            "across": [rule.canonical() for rule in self.across],
            "orders": [list(pair) for pair in self.orders],
            **({"gaps": [[*one.columns, one.by] for one in self.gaps]} if self.gaps else {}),
            "derived": [
                [one.name, one.function, one.of, one.age, *([list(one.edges)] if one.edges else [])]
                for one in self.derived
            ],
        }
