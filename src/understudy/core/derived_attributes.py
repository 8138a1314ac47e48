"""Derived attributes: classes computed from others by a rule, recomputed after synthesis and never measured.

A derived value adds nothing to its sources. Measuring it would waste budget, and drawing it could contradict the
sources. The set of functions is small and listed, and a rule is part of the public schema:

``recode``  each level of one attribute becomes a level of a coarser or renamed one; bins join to wider bins.
``cross``   the first case whose conditions all hold gives the level, else the default.
``sum``     numbers added up, exactly.
``difference``  the first number less the others, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from understudy.core.structural_zeros import Condition
from understudy.errors import InputError, SchemaError, unknown_name

if TYPE_CHECKING:
    from understudy.core.schema import Attribute, Edge, Schema

NewLevel = str | int
FUNCTIONS = ("recode", "cross", "sum", "difference")
NUMBERS = ("sum", "difference")  # functions whose column is a number
# Which settings belong to which function; the others must be left out.
SETTINGS = {
    "recode": ("edges", "levels", "mapping", "default"),
    "cross": ("cases", "default"),
    "sum": (),
    "difference": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line of a ``cross``: if every condition holds, the level is ``value``."""

    when: tuple[tuple[str, Condition], ...]
    """The conditions, as pairs of the name of an attribute and a ``Condition``; all must hold."""
    value: NewLevel
    """The level that the derived column then has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A column computed from the attributes ``sources``.

    ``recode`` of an attribute with levels uses ``mapping`` (level to new level) and may have a ``default``. With edges
    it uses ``edges``, some of the source's own with its first and last, and ``levels``, one for each bin between them;
    ``mapping`` then names special labels and ``<missing>``. Special and missing values that no ``mapping`` names are
    missing. ``cross`` needs ``cases`` and a ``default``. ``sum`` and ``difference`` are missing where a source is
    missing or special.

    Raises
    ------
    SchemaError
        If the settings are not those of the function, or contradict each other.

    Examples
    --------
    >>> from understudy.core.schema import Attribute, Schema
    >>> adult = Derived(name="adult", function="recode", sources=("age",), edges=(0, 18, 99), levels=("no", "yes"))
    >>> schema = Schema(attributes=(Attribute(name="age", edges=(0, 6, 18, 99), integer=True),), derived=(adult,))
    >>> adult.codes(schema, {"age": np.array([0, 1, 2])})
    array([0, 0, 1])
    """

    name: str
    """The name of the new column."""
    function: Literal["recode", "cross", "sum", "difference"]
    """``recode`` (levels or bins become other levels), ``cross`` (the first case that holds gives the level), ``sum``
    (numbers are added up) or ``difference`` (the first less the others)."""
    sources: tuple[str, ...]
    """The attributes that the column is computed from."""
    label: str = ""
    """A description of the column, kept in exports."""
    edges: tuple[Edge, ...] = ()
    """For ``recode`` of bins: the edges of the wider bins."""
    levels: tuple[NewLevel, ...] = ()
    """For ``recode`` of bins: the name of each wider bin."""
    mapping: tuple[tuple[str, NewLevel], ...] = ()
    """For ``recode``: pairs of old and new level, or a dictionary."""
    cases: tuple[Case, ...] = ()
    """For ``cross``: the cases, in the order in which they are tried."""
    default: NewLevel | None = None
    """The level where nothing else applies (``recode`` of levels, ``cross``)."""

    def __post_init__(self) -> None:
        mapping = tuple(self.mapping.items()) if isinstance(self.mapping, Mapping) else tuple(self.mapping)
        object.__setattr__(self, "mapping", mapping)
        for key in ("sources", "edges", "levels", "cases"):
            if isinstance(getattr(self, key), str):
                raise SchemaError(f"{self._where}: {'from' if key == 'sources' else key} must be a list, not a text.")
            object.__setattr__(self, key, tuple(getattr(self, key)))
        if self.function not in FUNCTIONS:
            raise unknown_name(f"{self._where}: function", str(self.function), FUNCTIONS, error=SchemaError)
        for key in ("edges", "levels", "mapping", "cases", "default"):
            if getattr(self, key) not in ((), None) and key not in SETTINGS[self.function]:
                raise SchemaError(f"{self._where}: '{_written(key)}' does not go with the function {self.function}.")
        if not self.sources or len(set(self.sources)) != len(self.sources):
            raise SchemaError(f"{self._where}: from must name attributes, each once.")
        if self.function == "recode" and len(self.sources) != 1:
            raise SchemaError(f"{self._where}: recode is from one attribute; cross combines several.")
        if self.function == "cross" and (not self.cases or self.default is None):
            raise SchemaError(f"{self._where}: cross needs cases and a default.")
        kinds = {type(level) for level in self._given_levels}
        if not kinds <= {str, int} or len(kinds) > 1:
            raise SchemaError(f"{self._where}: the new levels must be all texts or all whole numbers.")

    @property
    def _where(self) -> str:
        return f"derived attribute '{self.name}'"

    @property
    def _given_levels(self) -> tuple[NewLevel, ...]:
        """The new levels in the order in which they are written, repetitions included."""
        default = () if self.default is None else (self.default,)
        return (
            *self.levels,
            *(level for _, level in self.mapping),
            *(case.value for case in self.cases),
            *default,
        )

    def attribute(self, schema: Schema) -> Attribute:
        """What values the derived column can have, as an attribute.

        Parameters
        ----------
        schema
            The schema that the rule belongs to.

        Returns
        -------
        Attribute
            The derived column as if it were an attribute.

        Raises
        ------
        SchemaError
            If the schema cannot carry out the rule.
        """
        from understudy.core.schema import Attribute

        for name in self.sources:
            if name in (other.name for other in schema.derived):
                raise SchemaError(f"{self._where}: '{name}' is derived itself; name the attributes it is made from.")
            if name not in schema.names:
                raise unknown_name(f"{self._where}: attribute", name, schema.names, error=SchemaError)
        if self.function in NUMBERS:
            low, high, missing = self._range(schema)
            digits = self.digits(schema)
            edges = (low, high) if not digits else (low / 10**digits, high / 10**digits)
            return Attribute(
                name=self.name,
                label=self.label,
                edges=edges,
                integer=not digits,
                decimals=digits or None,
                missing=missing,
                clock=schema[self.sources[0]].clock if low >= 0 else "",
            )
        missing = False
        if self.function == "recode":
            missing = None in self._recoded(schema[self.sources[0]])
        else:
            self._case_codes(schema)
        return Attribute(
            name=self.name,
            label=self.label,
            levels=self._new_levels,
            missing=missing,
            ordered=bool(self.edges) and self._given_levels == self._new_levels == self.levels,
        )

    @property
    def _new_levels(self) -> tuple[NewLevel, ...]:
        return tuple(dict.fromkeys(self._given_levels))

    def codes(self, schema: Schema, columns: Mapping[str, NDArray[np.integer]]) -> NDArray[np.int64]:
        """Compute the derived column (``recode`` and ``cross``) for rows of codes.

        Parameters
        ----------
        schema
            The schema that the rule belongs to.
        columns
            The codes of the sources, one array for each.

        Returns
        -------
        NDArray[np.int64]
            The codes of the derived column, as :meth:`attribute` numbers them.

        Raises
        ------
        InputError
            If the rule is a ``sum`` or a ``difference``: a number has no codes.
        """
        place = {level: code for code, level in enumerate(self._new_levels)}
        if self.function == "recode":
            lookup = [len(place) if level is None else place[level] for level in self._recoded(schema[self.sources[0]])]
            result: NDArray[np.int64] = np.array(lookup, np.int64)[columns[self.sources[0]]]
            return result
        if self.function != "cross":
            raise InputError(f"{self._where} is a number and has no codes of its own.")
        assert self.default is not None  # noqa: S101  (a cross has one)
        result = np.full(len(columns[self.sources[0]]), place[self.default], np.int64)
        for case, chosen in reversed(list(zip(self.cases, self._case_codes(schema), strict=True))):
            holds = np.logical_and.reduce([np.isin(columns[name], codes) for name, codes in chosen.items()])
            result[holds] = place[case.value]  # the first case is written last, so it wins
        return result

    def _recoded(self, source: Attribute) -> list[NewLevel | None]:
        """The new level of each code of the source; None is missing."""
        texts = {name: code for code, name in enumerate(source.code_names)}
        new: list[NewLevel | None] = [None] * source.size
        if source.levels:
            if self.edges or self.levels:
                raise SchemaError(f"{self._where}: '{source.name}' has levels; recode it with a map, without edges.")
            new[: source.bins] = [self.default] * source.bins
        else:
            if self.default is not None:
                raise SchemaError(
                    f"{self._where}: '{source.name}' has edges, and every bin a level; leave out default."
                )
            new[: source.bins] = self._joined_bins(source)
        for text, level in self.mapping:
            if text not in texts or (not source.levels and texts[text] < source.bins):
                known = source.code_names if source.levels else source.code_names[source.bins :]
                raise unknown_name(f"{self._where}: level of '{source.name}'", text, known, error=SchemaError)
            new[texts[text]] = level
        for code in range(source.bins):
            if new[code] is None:
                raise SchemaError(
                    f"{self._where}: level '{source.code_names[code]}' of '{source.name}' has no new level; "
                    "add it to the map, or give a default."
                )
        return new

    def _joined_bins(self, source: Attribute) -> list[NewLevel]:
        if len(self.edges) < 2 or len(self.levels) != len(self.edges) - 1:
            raise SchemaError(
                f"{self._where}: '{source.name}' has edges; recode it with edges and one level for each bin "
                f"between them ({len(self.edges)} edges and {len(self.levels)} levels are given)."
            )
        places = [source.edges.index(edge) if edge in source.edges else -1 for edge in self.edges]
        if self.edges[-1] == source.edges[-1]:  # the last edge of some sources is there twice
            places[-1] = source.bins
        if places[0] != 0 or places[-1] != source.bins or any(b <= a for a, b in pairwise(places)):
            raise SchemaError(
                f"{self._where}: its edges must be some of the edges of '{source.name}', in order, with the first and "
                "the last of them, so that no bin is cut."
            )
        joined: list[NewLevel] = []
        for level, start, stop in zip(self.levels, places, places[1:], strict=False):
            joined += [level] * (stop - start)
        return joined

    def _case_codes(self, schema: Schema) -> list[dict[str, tuple[int, ...]]]:
        """For each case, which codes of which attribute meet it."""
        found = []
        for number, case in enumerate(self.cases, start=1):
            if not case.when or not {name for name, _ in case.when} <= set(self.sources):
                raise SchemaError(f"{self._where}: case {number} must have conditions on the attributes named in from.")
            try:
                found.append({name: condition.codes(schema[name]) for name, condition in case.when})
            except SchemaError as problem:
                text = str(problem).removeprefix("impossible combination: ")
                raise SchemaError(f"{self._where}: case {number}: {text}") from None
        return found

    @property
    def signs(self) -> tuple[int, ...]:
        """For each source, whether a number is added (1) or taken away (-1)."""
        first, rest = self.sources[:1], self.sources[1:]
        return (*(1 for _ in first), *(-1 if self.function == "difference" else 1 for _ in rest))

    def digits(self, schema: Schema) -> int:
        """Say how many digits behind the point a ``sum`` or ``difference`` has: as many as its sources.

        Parameters
        ----------
        schema
            The schema that the rule belongs to.

        Returns
        -------
        int
            The number of digits.

        Raises
        ------
        SchemaError
            If a source is no number, or its digits are not known.
        """
        found = 0
        for name in self.sources:
            source = schema[name]
            digits = 0 if source.integer else source.digits if source.bounds else source.decimals
            if source.kind != "numeric" or digits is None:
                raise SchemaError(
                    f"{self._where}: {self.function} is of numbers with integer = true or with decimals; '{name}' is "
                    "not one."
                )
            if source.clock != schema[self.sources[0]].clock:
                raise SchemaError(f"{self._where}: '{name}' has another clock; all must count minutes, or seconds.")
            found = max(found, digits)
        return found

    def _range(self, schema: Schema) -> tuple[int, int, bool]:
        """The least and largest value in units of the last digit, and whether it can be missing."""
        digits = self.digits(schema)
        low = high = 0
        missing = False
        for name, sign in zip(self.sources, self.signs, strict=True):
            source = schema[name]
            ends = [sign * int(Decimal(str(end)).scaleb(digits)) for end in (source.edges[0], source.edges[-1])]
            low, high = low + min(ends), high + max(ends)
            missing |= source.missing or bool(source.special)
        if max(abs(low), abs(high)) > 2**53:
            raise SchemaError(f"{self._where}: its numbers are too large to be computed exactly.")
        return low, high, missing

    def describe(self) -> str:
        """The rule in one line.

        Returns
        -------
        str
            For example ``recode of age``.
        """
        return f"{self.function} of {', '.join(self.sources)}"

    def canonical(self) -> object:
        """Plain values for the schema's fingerprint.

        Returns
        -------
        object
            The rule as plain lists, texts and numbers.
        """
        from understudy.core.schema import level_text

        return {
            "name": self.name,
            "function": self.function,
            "from": list(self.sources),
            "label": self.label,
            "edges": [level_text(edge) for edge in self.edges],
            "levels": list(self.levels),
            "map": [list(pair) for pair in self.mapping],
            "cases": [
                [[[name, condition.canonical()] for name, condition in case.when], case.value] for case in self.cases
            ],
            "default": self.default,
        }


def _written(key: str) -> str:
    """How a setting is called in a schema file."""
    return "map" if key == "mapping" else key
