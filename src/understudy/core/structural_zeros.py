"""Structural zeros: combinations that cannot occur, known in advance and public.

A rule is a set of conditions joined by *and*; a cell that meets them all is impossible. Such cells get no noise and
no synthetic rows, and a confidential row that falls into one is a violation that is reported, never dropped.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.errors import SchemaError, unknown_name

if TYPE_CHECKING:
    from understudy.core.schema import Attribute, Edge, Level, Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Which values of one attribute a rule names: listed ones, those below a bound, or those from a bound upwards.

    A bound must be an edge of a bin, so that no bin is half possible. With ``ordered`` levels it is a level.

    Raises
    ------
    SchemaError
        If the condition is empty.
    """

    levels: tuple[Level, ...] = ()
    """Listed values. ``<missing>`` and special labels may be among them."""
    below: Level | Edge | None = None
    """Values less than this."""
    above: Level | Edge | None = None
    """This value and all larger ones."""

    def __post_init__(self) -> None:
        if not self.levels and self.below is None and self.above is None:
            raise SchemaError("an impossible combination has an empty condition; list values, or give below or above.")

    def codes(self, attribute: Attribute) -> tuple[int, ...]:
        """Find the codes of an attribute that meet the condition.

        Parameters
        ----------
        attribute
            The attribute.

        Returns
        -------
        tuple[int, ...]
            The codes, in increasing order.

        Raises
        ------
        SchemaError
            If a level or a bound is not one of the attribute's.
        """
        from understudy.core.schema import level_text

        names = attribute.code_names
        places = {name: place for place, name in reversed(list(enumerate(names)))} if self.levels else {}
        chosen: set[int] = set()
        for level in self.levels:
            text = level_text(level)
            if text not in places:
                codes = {level_text(code): attribute.bins + i for i, (code, _) in enumerate(attribute.special)}
                if text not in codes:
                    raise unknown_name(
                        f"impossible combination: level of '{attribute.name}'", text, names, error=SchemaError
                    )
                chosen.add(codes[text])
            else:
                chosen.add(places[text])
        if self.below is not None:
            chosen |= set(range(self._bound(attribute, self.below, "below")))
        if self.above is not None:
            chosen |= set(range(self._bound(attribute, self.above, "above"), attribute.bins))
        return tuple(sorted(chosen))

    def _bound(self, attribute: Attribute, value: Level | Edge, word: str) -> int:
        from understudy.core.schema import level_text

        if attribute.levels and not attribute.ordered:
            raise SchemaError(
                f"impossible combination: '{word}' on '{attribute.name}' needs edges, or levels with ordered = true."
            )
        marks = attribute.levels or attribute.edges
        texts = [level_text(mark) for mark in marks]
        if level_text(value) not in texts:
            kind = "level" if attribute.levels else "bin edge"
            raise SchemaError(
                f"impossible combination: {word} = {level_text(value)} is not a {kind} of '{attribute.name}' "
                f"({', '.join(texts[:12])}{', ...' if len(texts) > 12 else ''})."
            )
        return texts.index(level_text(value))

    def canonical(self) -> object:
        """Plain values for the schema's fingerprint.

        Returns
        -------
        object
            The condition as plain texts.
        """
        from understudy.core.schema import level_text

        def text(value: Level | Edge | None) -> str | None:
            return None if value is None else level_text(value)

        return {"levels": [text(level) for level in self.levels], "below": text(self.below), "above": text(self.above)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible:
    """One structural zero: a combination that cannot occur. All its conditions hold at once.

    Raises
    ------
    SchemaError
        If there is no condition, or one is not a pair of a name and a ``Condition``.
    """

    conditions: tuple[tuple[str, Condition], ...]
    """Pairs of the name of an attribute and a ``Condition``, or a mapping."""

    def __post_init__(self) -> None:
        given = self.conditions.items() if isinstance(self.conditions, Mapping) else self.conditions
        if not isinstance(given, Iterable):
            raise SchemaError("the conditions of an impossible combination must be pairs of a name and a Condition.")
        pairs = tuple(given)
        if not pairs:
            raise SchemaError("an impossible combination needs at least one attribute.")
        for pair in pairs:
            if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], Condition):
                raise SchemaError(
                    "the conditions of an impossible combination must be pairs of a name and a Condition."
                )
        object.__setattr__(self, "conditions", pairs)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes in the rule."""
        return tuple(name for name, _ in self.conditions)

    def codes(self, schema: Schema) -> dict[str, tuple[int, ...]]:
        """Find the codes that meet each condition.

        Parameters
        ----------
        schema
            The schema that the rule belongs to.

        Returns
        -------
        dict[str, tuple[int, ...]]
            For each attribute of the rule its codes.

        Raises
        ------
        SchemaError
            If a level or a bound is not one of the attribute's.
        """
        return {name: condition.codes(schema[name]) for name, condition in self.conditions}

    def describe(self) -> str:
        """The rule in one line.

        Returns
        -------
        str
            For example ``age below 15 and smokes in (yes)``.
        """
        parts = []
        for name, condition in self.conditions:
            if condition.levels:
                parts.append(f"{name} in ({', '.join(_plain(v) for v in condition.levels)})")
            if condition.below is not None:
                parts.append(f"{name} below {_plain(condition.below)}")
            if condition.above is not None:
                parts.append(f"{name} from {_plain(condition.above)}")
        return " and ".join(parts)

    def canonical(self) -> object:
        """Plain values for the schema's fingerprint.

        Returns
        -------
        object
            The rule as plain lists and texts.
        """
        return [[name, condition.canonical()] for name, condition in self.conditions]


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def allowed_cells(schema: Schema, margin: tuple[str, ...]) -> NDArray[np.bool_]:
    """Dense mask over a margin; a rule counts only when the margin has all its attributes."""
    mask = np.ones(schema.shape(margin), dtype=bool)
    for rule in schema.zeros:
        if not set(rule.attributes) <= set(margin):
            continue
        codes = rule.codes(schema)
        selector = np.ix_(
            *(np.array(codes[name]) if name in codes else np.arange(schema[name].size) for name in margin)
        )
        mask[selector] = False
    if not mask.any():
        raise SchemaError(f"the structural zeros rule out every cell of {' x '.join(margin)}.")
    return mask
