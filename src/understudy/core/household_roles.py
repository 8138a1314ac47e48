"""Who is who in a household: the roles of members, how they get them, and what is computed from members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from understudy.errors import SchemaError, unknown_name

REFERENCE, PARTNER, CHILD, OTHER, MEMBER = "reference", "partner", "child", "other", "member"
ROLES = (REFERENCE, PARTNER, CHILD, OTHER)
LARGEST_HOUSEHOLD = 1000
FUNCTIONS = ("sum", "mean", "max", "min", "equivalised")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """How members get their roles: from a column, or by a public rule on age, sex and order.

    By the rule the reference person is the first member of at least ``adult`` years, or the oldest if there is none.
    The partner is the first other adult within ``partner_within`` years of that age (and of another sex, with
    ``partner_sex = "other"``). A child is at least ``child_younger`` years younger than the reference person. Everybody
    else is ``other``.

    Raises
    ------
    SchemaError
        If neither a column nor an age is named, or both are, or a number is out of range.
    """

    column: str = ""
    """The column of the relationship, instead of a rule."""
    reference: tuple[str, ...] = ()
    """Its values for the reference person."""
    partner: tuple[str, ...] = ()
    """Its values for a partner."""
    child: tuple[str, ...] = ()
    """Its values for a child. Every other value means ``other``."""
    age: str = ""
    """For a rule: the attribute with the age in years."""
    sex: str = ""
    """For a rule with ``partner_sex``: the attribute with the sex."""
    adult: int = 18
    """For a rule: the age from which a member can be a reference person or a partner."""
    partner_within: int = 15
    """For a rule: the most years between partners."""
    partner_sex: Literal["any", "other"] = "any"
    """For a rule: whether partners are of different sex."""
    child_younger: int = 15
    """For a rule: the fewest years between a child and the reference person."""
    most: tuple[tuple[str, int], ...] = ()
    """The most members of a role in one household, such as ``{ child = 6 }``; otherwise ``at_most`` limits them."""

    def __post_init__(self) -> None:
        if bool(self.column) == bool(self.age):
            raise SchemaError('[roles] needs either column = "relationship" or age = "age", and not both.')
        if self.column and not self.reference:
            raise SchemaError('[roles] with a column needs the values of a reference person: reference = ["1"].')
        if self.age and (self.reference or self.partner or self.child):
            raise SchemaError("[roles]: reference, partner and child list values of a column; a rule on age has none.")
        given = [*self.reference, *self.partner, *self.child]
        if len(set(given)) != len(given):
            raise SchemaError("[roles]: a value of the column is listed under two roles.")
        for name in ("adult", "partner_within", "child_younger"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 200:
                raise SchemaError(f"[roles]: {name} ({value!r}) must be a whole number of years from 0 to 200.")
        if self.child_younger < 1:
            raise SchemaError("[roles]: child_younger must be at least 1 year.")
        if self.partner_sex not in ("any", "other"):
            raise unknown_name("[roles]: partner_sex", str(self.partner_sex), ("any", "other"), error=SchemaError)
        if (self.partner_sex == "other") != bool(self.sex):
            raise SchemaError('[roles]: partner_sex = "other" and sex = "..." go together.')
        pairs = self.most.items() if isinstance(self.most, Mapping) else self.most
        object.__setattr__(self, "most", tuple((str(role), most) for role, most in pairs))
        for role, most in self.most:
            if role not in (PARTNER, CHILD, OTHER):
                raise unknown_name("[roles]: most of role", role, (PARTNER, CHILD, OTHER), error=SchemaError)
            if isinstance(most, bool) or not isinstance(most, int) or not 0 <= most < LARGEST_HOUSEHOLD:
                raise SchemaError(f"[roles]: most of {role} ({most!r}) must be a whole number.")

    def limit(self, role: str) -> int:
        """The most members of a role.

        Parameters
        ----------
        role
            The role.

        Returns
        -------
        int
            One for the reference person and for the partner (or none); otherwise what ``most`` says.
        """
        if role == REFERENCE:
            return 1
        told = dict(self.most).get(role, LARGEST_HOUSEHOLD)
        return min(told, 1) if role == PARTNER else told

    def canonical(self) -> object:
        """Plain values for the fingerprint.

        Returns
        -------
        object
            The fields as plain lists, texts and numbers.
        """
        lists = [list(self.reference), list(self.partner), list(self.child), [list(pair) for pair in self.most]]
        numbers = [self.adult, self.partner_within, self.child_younger]
        return [self.column, self.age, self.sex, self.partner_sex, *lists, *numbers]


@dataclass(frozen=True, slots=True, kw_only=True)
class HouseholdDerived:
    """A column of households that is computed from their members, and never measured.

    Raises
    ------
    SchemaError
        If the function is unknown, or ``equivalised`` has no age.
    """

    name: str
    """The name of the column."""
    function: str
    """``sum``, ``mean``, ``max``, ``min`` or ``equivalised``: the sum divided by the modified OECD scale (1 for the
    first adult, 0.5 for every other person from 14 years on, 0.3 for every younger one)."""
    of: str
    """The numeric attribute of members. Members without a number count as 0 in sums, and not at all otherwise."""
    age: str = ""
    """For ``equivalised``: the attribute with the age."""
    edges: tuple[float, ...] = ()
    """Bins in which it is also counted, as one more column of the row of a household, so that ``infer`` takes questions
    about it. What lies outside is in the first or the last."""

    def __post_init__(self) -> None:
        if self.edges:
            numbers = all(isinstance(edge, int | float) and not isinstance(edge, bool) for edge in self.edges)
            if not numbers or len(self.edges) < 2 or any(a >= b for a, b in pairwise(self.edges)):
                raise SchemaError(f"derived '{self.name}': edges must be two or more rising numbers.")
            object.__setattr__(self, "edges", tuple(self.edges))
        if self.function not in FUNCTIONS:
            raise unknown_name(f"derived '{self.name}': function", self.function, FUNCTIONS, error=SchemaError)
        if (self.function == "equivalised") != bool(self.age):
            raise SchemaError(f"derived '{self.name}': equivalised and age = \"...\" go together.")
