"""Rules between columns: who is asked what, what comes before what, and ratios in a range.

A rule is part of the public schema, and every synthetic row obeys it. What a rule forbids for whole levels and bins
becomes structural zeros, which every method keeps exactly. What it forbids inside bins is kept when values are drawn.
Both follow from the schema alone, so a rule says nothing about the data. Sums and differences are derived attributes.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from understudy.core.structural_zeros import Condition, Impossible
from understudy.errors import SchemaError, unknown_name

if TYPE_CHECKING:
    from understudy.core.schema import Attribute, Schema

LARGEST_PRODUCT = 2**62  # rules are checked in whole numbers of 64 bits
MOST_STEPS = 100_000  # until two numbers with a ratio in a range are found, or none is
FIRST_DAY = datetime.date(1970, 1, 1)
IF_MISSING = ("open", "not asked")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question that only some people are asked; for the others its value is missing.

    Raises
    ------
    SchemaError
        If it names no attribute or has no condition.
    """

    attributes: tuple[str, ...]
    """What is asked: names of attributes."""
    conditions: tuple[tuple[str, Condition], ...]
    """Who is asked: pairs of the name of an attribute and a ``Condition``, or a mapping. All of them must hold. If
    the value of such an attribute is a special code, nothing follows from it; nor if it is missing, by default."""
    otherwise: str | None = None
    """The level, or the label of the special code, that others have; by default their value is missing."""
    if_missing: str = "open"
    """What follows where the value of a condition is missing: nothing (``"open"``), or ``"not asked"``: who was not
    asked about a job is not asked about its wage either."""

    def __post_init__(self) -> None:
        names = (self.attributes,) if isinstance(self.attributes, str) else tuple(self.attributes)
        pairs = self.conditions.items() if isinstance(self.conditions, Mapping) else self.conditions
        object.__setattr__(self, "attributes", names)
        object.__setattr__(self, "conditions", tuple(pairs))
        if not names or not self.conditions:
            raise SchemaError("a rule with asked needs attributes, and asked_if with at least one condition.")
        if self.if_missing not in IF_MISSING:
            raise unknown_name("if_missing of a rule:", self.if_missing, IF_MISSING, error=SchemaError)

    def describe(self) -> str:
        """The rule in one line.

        Returns
        -------
        str
            For example ``births is asked if sex in (female)``.
        """
        known = " and known" if self.if_missing == "not asked" else ""
        return f"{', '.join(self.attributes)} asked only if {Impossible(conditions=self.conditions).describe()}{known}"

    def zeros(self, schema: Schema) -> list[Impossible]:
        """The structural zeros: a person who does not meet a condition has no value.

        Parameters
        ----------
        schema
            The schema that the rule belongs to.

        Returns
        -------
        list[Impossible]
            One for each condition and each attribute that is asked.

        Raises
        ------
        SchemaError
            If a value cannot be missing, or a condition cannot be read.
        """
        found = []
        for name, condition in self.conditions:
            met = set(condition.codes(schema[name]))
            values = schema[name].code_names[: schema[name].bins]  # nothing follows from a special code
            others = [text for code, text in enumerate(values) if code not in met]
            if self.if_missing == "not asked" and schema[name].missing:
                others.append(schema[name].code_names[-1])
            for asked in self.attributes:
                if asked in dict(self.conditions):
                    raise SchemaError(f"'{asked}' is asked on a condition about itself.")
                names = schema[asked].code_names
                left = names[-1] if self.otherwise is None else self.otherwise
                if self.otherwise is None and not schema[asked].missing:
                    raise SchemaError(
                        f"'{asked}' is not asked of everybody, so its value can be missing: write missing = true, or "
                        "name the level that the others have (otherwise)."
                    )
                if left not in names:
                    raise unknown_name(f"otherwise of '{asked}':", left, names, error=SchemaError)
                answers = tuple(text for text in names if text != left)
                if others and answers:
                    found.append(
                        Impossible(
                            conditions=((name, Condition(levels=tuple(others))), (asked, Condition(levels=answers)))
                        )
                    )
        return found

    def canonical(self) -> object:
        """Plain values for the schema's fingerprint.

        Returns
        -------
        object
            The rule as plain lists and texts.
        """
        told = [["if_missing", self.if_missing]] if self.if_missing != "open" else []  # older schemas keep theirs
        return [
            "asked", list(self.attributes), [[name, one.canonical()] for name, one in self.conditions], self.otherwise,
            *told,
        ]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Numbers or dates of which each is at most the next, wherever both have a value.

    Raises
    ------
    SchemaError
        If it names fewer than two attributes.
    """

    attributes: tuple[str, ...]
    """Names of attributes, the smallest first."""

    def __post_init__(self) -> None:
        if isinstance(self.attributes, str) or len(self.attributes) < 2:
            raise SchemaError('order must name at least two attributes, such as ["start", "end"].')
        object.__setattr__(self, "attributes", tuple(self.attributes))

    def describe(self) -> str:
        """The rule in one line.

        Returns
        -------
        str
            For example ``start <= end``.
        """
        return " <= ".join(self.attributes)

    def canonical(self) -> object:
        """Plain values for the schema's fingerprint.

        Returns
        -------
        object
            The rule as plain lists and texts.
        """
        return ["order", list(self.attributes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Limits for the ratio of two numbers, wherever both have a value.

    Raises
    ------
    SchemaError
        If no limit is given, or the limits leave nothing.
    """

    attributes: tuple[str, str]
    """The number, and the one it is compared with."""
    at_least: float | None = None
    """The smallest ratio, if there is one."""
    at_most: float | None = None
    """The largest ratio, if there is one."""

    def __post_init__(self) -> None:
        if isinstance(self.attributes, str) or len(self.attributes) != 2:
            raise SchemaError('ratio must name two attributes, such as ["rent", "income"].')
        object.__setattr__(self, "attributes", tuple(self.attributes))
        limits = [limit for limit in (self.at_least, self.at_most) if limit is not None]
        if not limits:
            raise SchemaError(f"{self.describe()}: give at_least, at_most or both.")
        if not all(isinstance(one, int | float) and not isinstance(one, bool) and 0 < one < 1e6 for one in limits):
            raise SchemaError(f"{self.describe()}: limits must be numbers above 0 and below 1,000,000.")
        if len(limits) == 2 and not limits[0] < limits[1]:
            raise SchemaError(f"{self.describe()}: at_least must be below at_most.")

    def describe(self) -> str:
        """The rule in one line.

        Returns
        -------
        str
            For example ``rent at most 0.8 times income``.
        """
        parts = {"at least": self.at_least, "at most": self.at_most}
        said = " and ".join(f"{word} {limit:g}" for word, limit in parts.items() if limit is not None)
        return f"{self.attributes[0]} {said} times {self.attributes[1]}"

    def canonical(self) -> object:
        """Plain values for the schema's fingerprint.

        Returns
        -------
        object
            The rule as plain lists and texts.
        """
        limits = [None if one is None else repr(float(one)) for one in (self.at_least, self.at_most)]
        return ["ratio", list(self.attributes), *limits]


Rule = Asked | Order | Ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """``small * down`` is at most ``large * up`` in whole numbers of the last digits, wherever both have a value."""

    small: str
    large: str
    up: int
    down: int
    rule: str  # which rule says so
    implied: bool = False  # it follows from others


def steps_of(attribute: Attribute) -> int:
    """The number of digits after the point of an attribute's values; 0 for dates and whole numbers."""
    if attribute.kind == "date" or attribute.integer:
        return 0
    digits = attribute.digits if attribute.bounds else attribute.decimals
    if digits is None:
        raise SchemaError(f"'{attribute.name}' is in a rule, so it needs integer = true, or decimals.")
    return digits


def whole(value: float | datetime.date, digits: int) -> int:
    """An edge in its smallest steps, a day as its number."""
    if isinstance(value, datetime.date):
        return (value - FIRST_DAY).days
    return int(Decimal(str(value)).scaleb(digits))


def limits_of(schema: Schema) -> tuple[Limit, ...]:
    """The limits between two attributes: the orders and ratios of a schema, and what follows from them.

    A chain of orders implies an order of its ends. With the implied orders added, bins that are allowed for each pair
    of attributes can all be filled together. That needs numbers with the same steps, so only orders may be chained.
    """
    direct: dict[tuple[str, str], Limit] = {}
    for rule in schema.rules:
        if isinstance(rule, Asked):
            continue
        _check_numbers(schema, rule)
        for limit in _direct(schema, rule):
            key = (limit.small, limit.large)
            if key in direct:
                raise SchemaError(f"two rules limit {limit.small} by {limit.large}; leave one out.")
            direct[key] = limit
    found = dict(direct)
    grown = True
    while grown:
        grown = False
        for first in list(found.values()):
            for second in list(found.values()):
                if first.large != second.small or first.small == second.large:
                    if first.large == second.small and first.up * second.up < first.down * second.down:
                        raise SchemaError(f"the rules {first.rule} and {second.rule} contradict each other.")
                    if first.large == second.small and first.up == first.down == second.up == second.down:
                        raise SchemaError(
                            f"the rules make '{first.small}' and '{first.large}' equal: each is at most the other. "
                            "Leave one of the columns out."
                        )
                    continue
                steps = {steps_of(schema[name]) for name in (first.small, first.large, second.large)}
                if not first.up == first.down == second.up == second.down or len(steps) > 1:
                    raise SchemaError(
                        f"the rules {first.rule} and {second.rule} form a chain through '{first.large}'. Only orders "
                        "of numbers with the same decimals, or of dates, may form a chain."
                    )
                key = (first.small, second.large)
                if key not in found:
                    found[key] = Limit(
                        small=key[0], large=key[1], up=1, down=1, rule=f"{first.rule} and {second.rule}", implied=True
                    )
                    grown = True
    for limit in found.values():
        least, most = bin_ends(schema[limit.small])[0][0], bin_ends(schema[limit.large])[-1][1]
        still_open = schema[limit.small].open or schema[limit.large].open  # other bins are checked one by one
        if still_open and least * limit.down > most * limit.up:
            raise SchemaError(
                f"the rule {limit.rule} can never hold: every possible '{limit.small}' is too large for every possible "
                f"'{limit.large}'. Correct the rule, or the bounds."
            )
    return tuple(found.values())


def _direct(schema: Schema, rule: Order | Ratio) -> Iterable[Limit]:
    if isinstance(rule, Order):
        for small, large in zip(rule.attributes, rule.attributes[1:], strict=False):
            yield _limit(schema, small, large, Fraction(1), rule)
        return
    one, other = rule.attributes
    if rule.at_most is not None:
        yield _limit(schema, one, other, Fraction(str(rule.at_most)), rule)
    if rule.at_least is not None:
        yield _limit(schema, other, one, 1 / Fraction(str(rule.at_least)), rule)


def _limit(schema: Schema, small: str, large: str, times: Fraction, rule: Order | Ratio) -> Limit:
    factor = times * Fraction(10) ** (steps_of(schema[small]) - steps_of(schema[large]))
    for name, part in ((small, factor.denominator), (large, factor.numerator)):
        digits = steps_of(schema[name])
        ends = (schema[name].edges[0], schema[name].edges[-1])
        if max(abs(whole(end, digits)) for end in ends) * part >= LARGEST_PRODUCT:
            raise SchemaError(f"{rule.describe()}: numbers of '{name}' are too large to be compared exactly.")
    return Limit(small=small, large=large, up=factor.numerator, down=factor.denominator, rule=rule.describe())


def _check_numbers(schema: Schema, rule: Order | Ratio) -> None:
    where = f"rule {rule.describe()}"
    if len(set(rule.attributes)) != len(rule.attributes):
        raise SchemaError(f"{where}: it names an attribute twice.")
    for name in rule.attributes:
        if name in schema.ignore:
            raise SchemaError(
                f"{where}: column '{name}' is ignored; describe it as an attribute, or leave the rule out."
            )
        if name in (one.name for one in schema.derived):
            raise SchemaError(f"{where}: '{name}' is derived; write the rule about the attributes it is made from.")
        attribute = schema[name]
        if attribute.kind == "levels":
            raise SchemaError(f"{where}: '{name}' has levels; orders and ratios are of numbers or dates.")
        steps_of(attribute)
        low, high = attribute.edges[0], attribute.edges[-1]
        inside = [code for code, _ in attribute.special if not isinstance(code, str) and low <= code <= high]  # type: ignore[operator]
        if inside:
            raise SchemaError(f"{where}: special code {inside[0]} of '{name}' lies among its numbers; move the edges.")
        if isinstance(rule, Ratio) and (attribute.kind == "date" or low < 0):  # type: ignore[operator]
            raise SchemaError(f"{where}: ratios are of numbers that cannot be negative, and '{name}' can.")
    if len({schema[name].kind for name in rule.attributes}) > 1:
        raise SchemaError(f"{where}: numbers and dates cannot be compared.")


def bin_ends(attribute: Attribute) -> list[tuple[int, int]]:
    """The first and last value of each bin, in its smallest steps."""
    digits = steps_of(attribute)
    edges = [whole(edge, digits) for edge in attribute.edges]
    last = [edge - 1 for edge in edges[1:-1]] + [edges[-1]]
    return list(zip(edges[:-1], last, strict=True))


def lowest_pair(
    one: tuple[int, int], other: tuple[int, int], limits: Sequence[Limit], names: tuple[str, str]
) -> tuple[int, int] | None:
    """The lowest values of two bins that obey the limits between them, or None if there are none.

    If two pairs of values obey limits of this kind, so does the pair of the smaller ones. So raising each value as far
    as the other demands ends at the lowest pair there is.
    """
    values = {names[0]: one[0], names[1]: other[0]}
    most = {names[0]: one[1], names[1]: other[1]}
    for _ in range(MOST_STEPS):
        raised = False
        for limit in limits:
            needed = -(-values[limit.small] * limit.down // limit.up)
            if needed > values[limit.large]:
                values[limit.large] = needed
                raised = True
        if any(values[name] > most[name] for name in names):
            return None
        if not raised:
            return values[names[0]], values[names[1]]
    raise SchemaError(f"{limits[0].rule}: its limits are too close to each other.")


def zeros_of(schema: Schema) -> tuple[Impossible, ...]:
    """Every structural zero: those that are written down, and those that follow from rules."""
    found = list(schema.impossible)
    for rule in schema.rules:
        if isinstance(rule, Asked):
            for name in (*rule.attributes, *(name for name, _ in rule.conditions)):
                if name in schema.ignore:
                    raise SchemaError(f"rule {rule.describe()}: column '{name}' is ignored.")
            found += rule.zeros(schema)
    limits = limits_of(schema)
    pairs = dict.fromkeys(tuple(sorted((limit.small, limit.large), key=schema.names.index)) for limit in limits)
    for one, other in pairs:
        if not (schema[one].open or schema[other].open):  # bins are not known yet; each value is still checked
            between = [limit for limit in limits if {limit.small, limit.large} == {one, other}]
            found += _pair_zeros(schema, (one, other), between)
    return tuple(found)


def _pair_zeros(schema: Schema, names: tuple[str, str], limits: Sequence[Limit]) -> list[Impossible]:
    one, other = schema[names[0]], schema[names[1]]
    together: dict[tuple[str, ...], list[str]] = {}
    for code, ends in enumerate(bin_ends(one)):
        never = tuple(
            other.code_names[place]
            for place, others in enumerate(bin_ends(other))
            if lowest_pair(ends, others, limits, names) is None
        )
        if never:
            together.setdefault(never, []).append(one.code_names[code])
    if sum(len(never) * len(bins) for never, bins in together.items()) == one.bins * other.bins:
        raise SchemaError(f"{limits[0].rule}: no values of '{one.name}' and '{other.name}' keep this rule.")
    return [
        Impossible(conditions=((one.name, Condition(levels=tuple(bins))), (other.name, Condition(levels=never))))
        for never, bins in together.items()
    ]


def linked_limits(limits: Sequence[Limit]) -> list[list[Limit]]:
    """Groups of limits that share attributes, directly or through others."""
    groups: list[tuple[set[str], list[Limit]]] = []
    for one in limits:
        names, together = {one.small, one.large}, [one]
        rest = []
        for known, members in groups:
            if known & names:
                names, together = names | known, members + together
            else:
                rest.append((known, members))
        groups = [*rest, (names, together)]
    return [members for _, members in groups]
