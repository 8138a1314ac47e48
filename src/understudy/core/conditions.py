"""Conditions on the attributes of a release, such as ``sex == 'F' and age < 42``, as truth over coded cells.

A release knows numbers by their bins. A bound that is no edge cuts through a bin: the condition then holds for sure in
some codes, and in the bin that is cut it may hold. A share or a number of people can be asked for with such a bound.
Elsewhere it is refused with the edges that can be asked for.
"""

from __future__ import annotations

import ast
import datetime
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Flags
from understudy.core.bins import as_number, bins_of, level_numbers
from understudy.core.clock import clock_number
from understudy.core.schema import Attribute, Schema, level_text
from understudy.errors import InputError, unknown_name

CodedColumns = Mapping[str, NDArray[np.int64]]
DEEPEST = 100  # conditions inside conditions
MIRROR = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
INSTEAD = {"<=": "<", ">": ">="}  # what begins or ends at an edge
SYMBOLS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


@dataclass(frozen=True, slots=True, kw_only=True)
class Among:
    """An attribute has one of the listed codes."""

    name: str
    codes: tuple[int, ...]
    cut: int | None = None  # the bin that a bound cuts through: some of it belongs to the codes
    part: float = 0.0  # how much of it, by the density inside it (``cuts`` says how much of it meets a condition)
    said: str = ""  # what to say where such a bound cannot be asked for

    def truth(self, codes: CodedColumns) -> Flags:
        return np.isin(codes[self.name], self.codes)

    @property
    def cuts(self) -> tuple[Among, ...]:
        return () if self.cut is None else (self,)

    def settled(self, *, most: bool) -> Among:
        """Without a cut: the codes that hold for sure, or with ``most`` all that may."""
        found = (*self.codes, self.cut) if most and self.cut is not None else self.codes
        return Among(name=self.name, codes=tuple(sorted(found)))

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def asks_missing(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An attribute is missing."""

    name: str
    code: int

    def truth(self, codes: CodedColumns) -> Flags:
        return np.asarray(codes[self.name] == self.code)

    @property
    def cuts(self) -> tuple[Among, ...]:
        return ()

    def settled(self, *, most: bool) -> Missing:  # noqa: ARG002 - nothing is open
        return self

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def asks_missing(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Conditions joined by ``and``, ``or``, or turned round by ``not``."""

    word: str
    parts: tuple[Condition, ...]

    def truth(self, codes: CodedColumns) -> Flags:
        values = [part.truth(codes) for part in self.parts]
        if self.word == "not":
            return ~values[0]
        return np.asarray((np.logical_and if self.word == "and" else np.logical_or).reduce(values))

    @property
    def cuts(self) -> tuple[Among, ...]:
        found = (one for part in self.parts for one in part.cuts)
        return tuple(replace(one, part=1 - one.part) if self.word == "not" else one for one in found)

    def settled(self, *, most: bool) -> Joined:
        """Where it holds for sure, or with ``most`` wherever it may: what ``not`` turns round is turned round here."""
        inner = not most if self.word == "not" else most
        return Joined(word=self.word, parts=tuple(part.settled(most=inner) for part in self.parts))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.names))

    @property
    def asks_missing(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.asks_missing))


Condition = Among | Missing | Joined
Mark = int | float | datetime.date  # what a number or a date is compared with


def read_condition(node: ast.expr, schema: Schema, names: Mapping[str, str], text: str, depth: int = 0) -> Condition:
    """The condition a parsed expression means; anything outside the grammar is refused."""
    if depth > DEEPEST:
        raise InputError(f"conditions are nested more than {DEEPEST} deep; write them with fewer brackets.")
    if isinstance(node, ast.BoolOp):
        word = "and" if isinstance(node.op, ast.And) else "or"
        parts = tuple(read_condition(part, schema, names, text, depth + 1) for part in node.values)
        return Joined(word=word, parts=parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return Joined(word="not", parts=(read_condition(node.operand, schema, names, text, depth + 1),))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "missing":
        if len(node.args) != 1 or node.keywords:
            raise InputError(f"'{text}': missing() takes one attribute.")
        attribute = schema[read_name(node.args[0], schema, names, text)]
        if attribute.missing_code is None:
            raise InputError(f"'{text}': '{attribute.name}' has no missing values; its schema does not allow them.")
        return Missing(name=attribute.name, code=attribute.missing_code)
    if isinstance(node, ast.Compare):
        return _comparison(node, schema, names, text)
    raise InputError(
        f"'{text}' has {ast.unparse(node)[:40]!r} where a condition was expected, such as sex == 'F', age < 42, "
        "region in ['North', 'West'] or missing(income); conditions are joined by and, or, not."
    )


def read_name(node: ast.expr, schema: Schema, names: Mapping[str, str], text: str) -> str:
    """The attribute a name means; the nearest known one is suggested."""
    if not isinstance(node, ast.Name):
        raise InputError(f"'{text}' has {ast.unparse(node)[:40]!r} where the name of an attribute was expected.")
    name = names.get(node.id, node.id)
    if node.id not in names:  # Python reads names in their compatible form: the micro sign as the Greek letter
        name = next((one for one in schema.names if unicodedata.normalize("NFKC", one) == name), name)
    if name not in schema.names:
        derived = {one.name: one.sources for one in schema.derived}
        if name in derived:
            raise InputError(
                f"'{name}' is computed from {', '.join(derived[name])} after synthesis; ask about those instead. Of "
                "derived sums and differences, mean and sum have an answer."
            )
        raise unknown_name("attribute", name, schema.names)
    return name


def _comparison(node: ast.Compare, schema: Schema, names: Mapping[str, str], text: str) -> Condition:
    operands = [node.left, *node.comparators]
    parts: list[Condition] = []
    for place, operator in enumerate(node.ops):
        left, right = operands[place], operands[place + 1]
        if isinstance(operator, ast.In | ast.NotIn):
            attribute = schema[read_name(left, schema, names, text)]
            if not isinstance(right, ast.List | ast.Tuple | ast.Set) or not right.elts:
                raise InputError(f"'{text}': write the values in brackets, as in region in ['North', 'West'].")
            among = _one_of([_equal(attribute, _constant(item, text), text) for item in right.elts])
            parts.append(among if isinstance(operator, ast.In) else Joined(word="not", parts=(among,)))
            continue
        symbol = SYMBOLS.get(type(operator))
        if symbol is None:
            raise InputError(f"'{text}': use ==, !=, <, <=, >, >= or in.")
        if isinstance(left, ast.Name) and isinstance(right, ast.Name):
            name, word = (names.get(one.id, one.id) for one in (left, right))
            if name in schema.names and word not in schema.names:
                raise InputError(f"'{text}': put levels in quotes, as in {name} {symbol} '{word}'.")
        if isinstance(left, ast.Name) == isinstance(right, ast.Name):
            raise InputError(f"'{text}': compare an attribute with a value, as in sex == 'F' (levels in quotes).")
        if not isinstance(left, ast.Name):
            left, right, symbol = right, left, MIRROR[symbol]
        attribute = schema[read_name(left, schema, names, text)]
        value = _constant(right, text)
        if symbol in ("==", "!="):
            among = _equal(attribute, value, text)
            parts.append(among if symbol == "==" else Joined(word="not", parts=(among,)))
        else:
            parts.append(_ordered(attribute, symbol, value, text))
    return parts[0] if len(parts) == 1 else Joined(word="and", parts=tuple(parts))


def _constant(node: ast.expr, text: str) -> str | int | float | bool:
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    inner = node.operand if isinstance(node, ast.UnaryOp) and negative else node
    if isinstance(node, ast.BinOp):
        raise InputError(
            f"'{text}' has {ast.unparse(node)[:40]!r} where a value was expected; a date is written in quotes, as in "
            "born < '2026-01-31', and nothing is computed."
        )
    if not isinstance(inner, ast.Constant) or not isinstance(inner.value, str | int | float | bool):
        raise InputError(f"'{text}' has {ast.unparse(node)[:40]!r} where a value was expected; put levels in quotes.")
    value = inner.value
    return -value if negative and isinstance(value, int | float) else value


def _one_of(values: Sequence[Among]) -> Condition:
    """Any of several values of one attribute."""
    codes = tuple(sorted({code for one in values for code in one.codes}))
    known = Among(name=values[0].name, codes=codes)
    cut = tuple(one for one in values if one.cut is not None)
    return Joined(word="or", parts=(known, *cut)) if cut else known


def _equal(attribute: Attribute, value: str | int | float | bool, text: str) -> Among:
    """Who has exactly one value: a level, a named code, a bin of one value, or a part of a bin."""
    wanted = level_text(value)
    if wanted in attribute.code_names:
        code = attribute.code_names.index(wanted)
        if code == attribute.missing_code:
            raise InputError(f"'{text}': ask for missing values with missing({attribute.name}).")
        return Among(name=attribute.name, codes=(code,))
    numbers = level_numbers(attribute) or ()
    if not isinstance(value, str | bool) and value in numbers:  # 22 for the level "22.0"
        return Among(name=attribute.name, codes=(numbers.index(value),))
    special = {level_text(code): attribute.bins + place for place, (code, _) in enumerate(attribute.special)}
    if wanted in special:
        return Among(name=attribute.name, codes=(special[wanted],))
    if attribute.levels or (attribute.kind != "date" and isinstance(value, str | bool) and not attribute.clock):
        known = [name for code, name in enumerate(attribute.code_names) if code != attribute.missing_code]
        raise unknown_name(f"level of '{attribute.name}':", wanted, known)
    return _one_value(attribute, _mark(attribute, value, text), text)


def _one_value(attribute: Attribute, value: Mark, text: str) -> Among:
    """A number or a date: the bin it is in, which is cut unless nobody in it can have another value."""
    edges = list(attribute.edges)
    if not edges[0] <= value <= edges[-1]:  # type: ignore[operator]
        raise InputError(
            f"'{text}': '{attribute.name}' lies between {level_text(edges[0])} and {level_text(edges[-1])}."
        )
    if attribute.integer and value != int(value):  # type: ignore[arg-type]
        return Among(name=attribute.name, codes=())
    place = min(bisect_right(edges, value) - 1, attribute.bins - 1)
    low, high, step = edges[place], edges[place + 1], _step(attribute)
    # The last bin has its upper edge in it, so that it is one value only if both edges are equal.
    if step is not None and (
        low == high
        or (place < attribute.bins - 1 and Fraction(str(as_number(high))) - Fraction(str(as_number(low))) <= step)
    ):
        return Among(name=attribute.name, codes=(place,))
    points, weights = bins_of(attribute).nodes(place)
    said = (
        f"'{text}': the release knows '{attribute.name}' by bins and cannot tell single values apart; ask for a range "
        f"between the edges {_listed(attribute)}."
    )
    part = float(weights[points == as_number(value)].sum())
    return Among(name=attribute.name, codes=(), cut=place, part=part, said=said)


def _step(attribute: Attribute) -> Fraction | None:
    """The least distance of two values; None if there is none."""
    if attribute.kind == "date" or attribute.integer:
        return Fraction(1)
    digits = attribute.digits if attribute.bounds else attribute.decimals
    return None if digits is None else Fraction(1, 10**digits)


def _mark(attribute: Attribute, value: str | int | float | bool, text: str) -> Mark:
    """The number or the date that a bound is."""
    if attribute.kind == "date":
        try:
            return datetime.date.fromisoformat(str(value))
        except ValueError:
            raise InputError(f"'{text}': write dates as '2026-01-31'.") from None
    if attribute.clock and isinstance(value, str):
        value = value if (number := clock_number(value, attribute.clock)) is None else number
    if isinstance(value, str | bool):
        raise InputError(f"'{text}': '{attribute.name}' is compared with a number.")
    return value


def _listed(attribute: Attribute) -> str:
    marks = [level_text(mark) for mark in (attribute.levels or attribute.edges)]
    return ", ".join(marks[:14]) + (", ..." if len(marks) > 14 else "")


def _ordered(attribute: Attribute, symbol: str, value: str | int | float | bool, text: str) -> Among:
    """The codes below or above a bound: an edge, an ordered level, or a number that cuts through a bin."""
    cut = None
    numbers = level_numbers(attribute)
    if numbers is not None and not isinstance(value, str | bool):
        first = sum(number < value or (number == value and symbol in ("<=", ">")) for number in numbers)
    elif attribute.levels:
        if not attribute.ordered:
            raise InputError(f"'{text}': the levels of '{attribute.name}' have no order; use == or in.")
        texts = [level_text(level) for level in attribute.levels]
        if level_text(value) not in texts:
            raise unknown_name(f"level of '{attribute.name}':", level_text(value), texts)
        place = texts.index(level_text(value))
        first = place if symbol in ("<", ">=") else place + 1
    else:
        first, cut, below = _edge(attribute, symbol, value, text)
    upwards = symbol in (">", ">=")
    if cut is None:
        return Among(name=attribute.name, codes=tuple(range(first, attribute.bins) if upwards else range(first)))
    said = (
        f"'{text}': {symbol} {value} cuts through a bin of '{attribute.name}', and the release does not know where in "
        f"its bin a value lies. Bounds can be {_listed(attribute)}. The nearest are "
        f"{level_text(attribute.edges[cut])} and {level_text(attribute.edges[cut + 1])}."
    )
    if symbol in INSTEAD and value in attribute.edges and not attribute.integer:
        said = (
            f"'{text}': the release knows '{attribute.name}' by bins and cannot tell who has exactly {value}; write "
            f"{INSTEAD[symbol]} {value}."
        )
    codes = tuple(range(cut + 1, attribute.bins) if upwards else range(cut))
    return Among(name=attribute.name, codes=codes, cut=cut, part=1 - below if upwards else below, said=said)


def _edge(
    attribute: Attribute, symbol: str, value: str | int | float | bool, text: str
) -> tuple[int, int | None, float]:
    """The number of bins below the bound; or the bin that it cuts through, and the share of it below, by density."""
    bound = _mark(attribute, value, text)
    step: object = datetime.timedelta(days=1) if attribute.kind == "date" else 1
    edges = list(attribute.edges)
    if symbol in ("<=", ">"):  # up to and including the bound
        if bound == edges[-1]:
            return attribute.bins, None, 0.0
        if attribute.kind != "date" and not attribute.integer:
            digits = attribute.digits if attribute.bounds else attribute.decimals
            if digits is None and bound in edges:
                # Many may have exactly this value, such as an income of 0, and the bin that begins there holds them.
                place = edges.index(bound)
                return place, place, 0.0
            if digits is not None:  # the next number there can be
                bound = float(Decimal(str(value)) + Decimal(1).scaleb(-digits))
        else:
            bound = bound + step  # type: ignore[operator]
    if bound in edges[:-1]:
        return edges.index(bound), None, 0.0
    if bound <= edges[0]:  # type: ignore[operator]
        return 0, None, 0.0
    if bound > edges[-1]:  # type: ignore[operator]
        return attribute.bins, None, 0.0
    cut = sum(edge < bound for edge in edges[:-1]) - 1  # type: ignore[operator]
    points, weights = bins_of(attribute).nodes(cut)
    return cut, cut, float(weights[points < as_number(bound)].sum())
