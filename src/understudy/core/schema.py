"""The public description of a table: what values are possible, never which ones occur.

A schema is public knowledge. Levels, bounds, bin edges, structural zeros and whether a value may be missing are
written down before the data are opened; nothing in it is learned from data, so nothing in it needs protecting.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from understudy.core import survey_design
from understudy.core.bounds import (
    MOST_DECIMALS,
    default_decimals,
    grid_of,
    joined_cells,
    taken_bounds,
    with_cuts,
)
from understudy.core.canonical_form import (
    canonical_schema,
    check_edges,
    check_meaning,
    levels_apart,
    schema_html,
)
from understudy.core.clock import take_clock
from understudy.core.derived_attributes import Derived
from understudy.core.discovered_codes import DISCOVER, as_declared, joined_codes, taken_codes
from understudy.core.file_format import FileFormat
from understudy.core.identifiers import Identifier
from understudy.core.rules import Asked, Order, Ratio, Rule, zeros_of
from understudy.core.structural_zeros import Impossible, allowed_cells
from understudy.core.survey_design import Design, Weight
from understudy.errors import InputError, SchemaError, unknown_name

Level = str | int | bool
Edge = int | float | datetime.date
Special = Edge | str  # a code beside the bins: of their kind, or (beside numbers) a text such as "N"
MISSING = "<missing>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """One column of a table: its possible values, as listed ``levels`` or as bins between ``edges``.

    Codes count the levels or bins first, then the ``special`` codes in order, then the missing value. So every
    attribute has a finite number of codes, its ``size``.

    Raises
    ------
    SchemaError
        If the parts contradict each other, or a value is not of the right kind.

    Examples
    --------
    >>> Attribute(name="age", edges=(16, 28, 97), integer=True, missing=True).code_names
    ('[16,28)', '[28,97]', '<missing>')
    """

    name: str
    """The name of the column."""
    levels: tuple[Level, ...] = ()
    """The possible values, in order: all texts, all whole numbers or all booleans. Either ``levels`` or ``edges``.
    ``"discover"``: nobody knows the codes, and they are found privately, inside the budget."""
    edges: tuple[Edge, ...] = ()
    """The ends of the bins, in increasing order: numbers or dates. Bins are closed on the left; the last is closed on
    both sides. Of whole numbers and dates the last two may be equal: then the last bin is that value alone."""
    integer: bool = False
    """Whether the values between ``edges`` are whole numbers."""
    outside: Literal["error", "clip", "missing"] = "error"
    """What happens to a value outside the schema: ``error``, ``clip`` (to the nearest bin) or ``missing``."""
    missing: bool = False
    """Whether a value may be missing. Missing is then a code of its own."""
    special: tuple[tuple[Special, str], ...] = ()
    """Named codes beside numeric bins: pairs of code and label, or a mapping, such as ``{-8: "not applicable"}``.
    A code may be a text that is no number, such as ``{"N": "not applicable"}``; the column is then one of texts."""
    ordered: bool = False
    """Whether the order of the ``levels`` has a meaning."""
    label: str = ""
    """A description of the column, kept in exports."""
    level_labels: tuple[str, ...] = ()
    """A description of each level, in the same order."""
    tree: tuple[str, ...] = ()
    """Where each unordered level stands in a public tree, in the same order: paths such as ``"health/nurse"``. Attacks
    by ranks order the levels by it."""
    distances: tuple[tuple[float, ...], ...] = ()
    """How far unordered levels are from each other, by public knowledge: a list for each level. Instead of ``tree``."""
    density: Literal["uniform", "log"] = "uniform"
    """How values are spread inside a bin when a synthetic number is written: ``uniform`` or ``log``."""
    decimals: int | None = None
    """How many digits behind the point a number has, from 0 to 9. Synthetic numbers have as many; if it is left out
    they have all digits of a double (with ``bounds`` two, or more where these are close to each other). Edges and
    special codes may have no more."""
    always_measure: bool = False
    """Whether every method must measure this attribute together with each of the others."""
    bounds: tuple[Edge, ...] = ()
    """The public lowest and highest possible number or date, instead of ``edges``: bins are then found privately,
    inside the budget. Until they are found, ``edges`` are those of a fine public grid."""
    heavy_tail: bool = False
    """With ``bounds``: whether amounts have a long tail, as incomes have. The grid is then about logarithmic."""
    scale: float | None = None
    """With ``heavy_tail``: a public guess of a small amount, below which the grid is about linear."""
    clock: Literal["", "minutes", "seconds"] = ""
    """For times of day and durations, which are written as ``8:30`` or ``08:30:15``: what is counted since 0:00. Edges
    and bounds are times or such numbers. Values of a release are numbers; CSV files have them as they are written."""
    measured_in: str = ""
    """With ``bounds``: what the number is measured in, such as ``euro a year``, for people to read."""
    spikes: tuple[Edge, ...] = ()
    """With ``bounds``: public values that many may share, such as a minimum wage. Each is a bin of its own; so is 0."""
    cuts: tuple[Edge, ...] = ()
    """With ``bounds``: values at which a bin must begin. Those of structural zeros and derived attributes are added."""
    found: bool = False
    """Whether ``edges`` or ``levels`` were found privately, inside the budget of a release. Do not set it yourself."""
    inside: tuple[tuple[Edge, float], ...] = ()
    """Of bins that were ``found``: where each cell of the grid begins, and its share, from noisy counts."""
    most_codes: int = 0
    """With ``levels = "discover"``: how many codes are found at most (50 by default). All others are ``other``."""
    longest_code: int = 0
    """With ``levels = "discover"``: the most letters of a code (32 by default). Longer values are ``other``."""
    prefixes: tuple[int, ...] = ()
    """With ``levels = "discover"``: lengths of prefixes that are parents, such as ``[1, 2]``. A rare code rolls up
    to its longest prefix that was found."""
    among: tuple[str, ...] = ()
    """With ``levels = "discover"``: a public list that has every possible code, in a schema file also the path of a
    classification as CSV. It needs no delta."""
    parents: tuple[str, ...] = ()
    """With ``among``: the parent of each code, in order; an empty text for none. Rare codes roll up to parents."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or self.name.startswith("<"):
            raise SchemaError(f"an attribute's name ({self.name!r}) must be a non-empty text not beginning with '<'.")
        special = self.special.items() if isinstance(self.special, Mapping) else self.special
        discovers = isinstance(self.levels, str) and self.levels == DISCOVER
        given = {
            "special": special, "levels": self.levels, "edges": self.edges, "level_labels": self.level_labels,
            "tree": self.tree, "distances": self.distances,
            "bounds": self.bounds, "spikes": self.spikes, "cuts": self.cuts, "inside": self.inside,
            "prefixes": self.prefixes, "among": self.among, "parents": self.parents,
        }  # fmt: skip
        for part, values in given.items():
            if part == "levels" and discovers:
                continue
            if isinstance(values, str | bytes) or not isinstance(values, Iterable):
                raise SchemaError(f"attribute '{self.name}': {part} must be a list, not {type(values).__name__}.")
            object.__setattr__(self, part, tuple(values))
        take_clock(self)
        self._check_kinds()
        object.__setattr__(self, "levels", taken_codes(self))
        check_meaning(self)
        object.__setattr__(self, "edges", taken_bounds(self))
        if bool(self.levels) == bool(self.edges):
            raise SchemaError(f"attribute '{self.name}' needs one of levels, edges and bounds, and not two of them.")
        if self.outside not in ("error", "clip", "missing"):
            raise unknown_name(
                f"outside of attribute '{self.name}':",
                str(self.outside),
                ("error", "clip", "missing"),
                error=SchemaError,
            )
        if self.density not in ("uniform", "log"):
            raise unknown_name(
                f"density of attribute '{self.name}':", str(self.density), ("uniform", "log"), error=SchemaError
            )
        if self.levels:
            self._check_levels()
        else:
            check_edges(self)
        names = self.code_names
        if len(set(names)) != len(names):
            raise SchemaError(
                f"attribute '{self.name}' has two codes that read the same; levels and special labels must differ."
            )

    def _check_kinds(self) -> None:
        for part in ("integer", "missing", "ordered", "always_measure", "heavy_tail", "found"):
            if not isinstance(getattr(self, part), bool):
                raise SchemaError(f"attribute '{self.name}': {part} must be true or false.")
        if self.decimals is not None and (type(self.decimals) is not int or not 0 <= self.decimals <= MOST_DECIMALS):
            raise SchemaError(f"attribute '{self.name}': decimals must be a whole number from 0 to {MOST_DECIMALS}.")
        if not isinstance(self.label, str) or not all(isinstance(text, str) for text in self.level_labels):
            raise SchemaError(f"attribute '{self.name}': labels must be texts.")
        for pair in self.special:
            fitting = isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], Special)
            if not fitting or isinstance(pair[0], bool | datetime.datetime):
                raise SchemaError(f"attribute '{self.name}': special maps numbers, dates or texts to labels.")

    def apart(self) -> tuple[tuple[float, ...], ...]:
        """Say how far unordered levels are from each other.

        Returns
        -------
        tuple[tuple[float, ...], ...]
            A row for each level: the distances, or the steps from leaf to leaf of the tree. Empty if neither is given.

        Examples
        --------
        >>> jobs = Attribute(name="job", levels=("nurse", "doctor", "actor"), tree=("health/a", "health/b", "arts/c"))
        >>> jobs.apart()
        ((0.0, 2.0, 4.0), (2.0, 0.0, 4.0), (4.0, 4.0, 0.0))
        """
        return levels_apart(self)

    def _check_levels(self) -> None:
        kinds = {type(level) for level in self.levels}
        if not kinds <= {str, int, bool} or len(kinds) > 1:
            raise SchemaError(f"attribute '{self.name}': levels must be all strings, all integers or all booleans.")
        if int in kinds and not all(-(2**63) <= level < 2**63 for level in self.levels):  # type: ignore[operator]
            raise SchemaError(
                f"attribute '{self.name}': whole-number levels must fit 64 bits; write longer ones as texts."
            )
        if MISSING in self.levels:
            raise SchemaError(f"attribute '{self.name}': say missing = true instead of a level '{MISSING}'.")
        if (
            self.special
            or self.integer
            or self.outside == "clip"
            or self.density != "uniform"
            or self.decimals is not None
        ):
            raise SchemaError(
                f"attribute '{self.name}' has levels; special, integer, decimals, density and outside = \"clip\" go "
                "with edges."
            )
        if self.level_labels and len(self.level_labels) != len(self.levels):
            raise SchemaError(
                f"attribute '{self.name}' has {len(self.levels)} levels and {len(self.level_labels)} level_labels."
            )
        if self.outside == "missing" and not self.missing:
            raise SchemaError(f"attribute '{self.name}': outside = \"missing\" needs missing = true.")

    @property
    def open(self) -> bool:
        """Whether bins or codes are still to be found; ``edges`` are then those of the grid."""
        return bool(self.bounds or self.most_codes) and not self.found

    @property
    def digits(self) -> int:
        """With ``bounds``: how many digits after the point values are written with."""
        low, high = self.bounds
        if isinstance(low, datetime.date) or isinstance(high, datetime.date):
            return 0
        return default_decimals(low, high, self.integer) if self.decimals is None else self.decimals

    @property
    def single_values(self) -> tuple[Edge, ...]:
        """With ``bounds``: the beginnings of the cells that hold one value each, such as 0."""
        return grid_of(self)[1] if self.bounds else ()

    @property
    def declared(self) -> Attribute:
        """The attribute as it was before its bins or codes were found."""
        if self.found and self.most_codes:
            return as_declared(self)
        return replace(self, found=False, edges=(), inside=()) if self.found else self

    @property
    def kind(self) -> Literal["levels", "numeric", "date"]:
        """What the attribute consists of: ``levels``, or bins of numbers (``numeric``) or of dates (``date``)."""
        if self.levels:
            return "levels"
        return "date" if isinstance(self.edges[0], datetime.date) else "numeric"

    @property
    def bins(self) -> int:
        """How many codes are levels or bins, before special codes and missing."""
        return len(self.levels) if self.levels else len(self.edges) - 1

    @property
    def size(self) -> int:
        """The number of codes: levels or bins, special codes, and one for missing."""
        return self.bins + len(self.special) + int(self.missing)

    @property
    def text_codes(self) -> dict[str, int]:
        """The codes of special values that are texts beside numbers."""
        return {code: self.bins + place for place, (code, _) in enumerate(self.special) if isinstance(code, str)}

    @property
    def missing_code(self) -> int | None:
        """The code of a missing value; ``None`` if no value can be missing."""
        return self.size - 1 if self.missing else None

    @property
    def code_names(self) -> tuple[str, ...]:
        """What each code is called in tables and messages."""
        if self.levels:
            names = [level_text(level) for level in self.levels]
        else:
            last = self.bins - 1
            names = [
                f"[{level_text(a)},{level_text(b)}{']' if i == last else ')'}"
                for i, (a, b) in enumerate(zip(self.edges, self.edges[1:], strict=False))
            ]
        names += [text for _, text in self.special]
        return (*names, MISSING) if self.missing else tuple(names)


def as_number(text: str) -> float | None:
    """The number that a text would be read as, if any; infinite ones too."""
    try:
        return float(text)
    except ValueError:
        return None


def level_text(value: Level | Edge) -> str:
    """The text by which a public value is matched and shown: 'true', '3', '2.5', '2026-01-31'."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The public description of a table: its attributes, and which combinations of them cannot occur.

    Raises
    ------
    SchemaError
        If a name occurs twice, or a rule speaks of an attribute or level that is not there.
    """

    attributes: tuple[Attribute, ...]
    """The attributes, in the order of the columns."""
    impossible: tuple[Impossible, ...] = ()
    """Structural zeros: combinations that cannot occur."""
    ignore: tuple[str, ...] = ()
    """Columns of the data that are left out. A column that is neither an attribute nor ignored is an error."""
    derived: tuple[Derived, ...] = ()
    """Columns computed from attributes by a rule. They are part of ``frame()`` and of no margin."""
    workload: tuple[str, ...] = ()
    """What must be answerable from every release: questions such as ``crosstab(sex, age)`` or ``smokes ~ age + sex``,
    and ``predict(income)``, the outcome with every other attribute."""
    identifiers: tuple[Identifier, ...] = ()
    """Columns that say who somebody is, and free text. They are not read; the release says so, and may have fakes."""
    rules: tuple[Rule, ...] = ()
    """Rules between columns: ``Asked``, ``Order`` and ``Ratio``. Every synthetic row obeys them."""
    file: FileFormat | None = None
    """How the CSV files of the data are written, if not as usual. It is no part of the fingerprint."""
    weight: Weight | None = None
    """The survey weight, if there is one. Its column becomes a private attribute."""
    design: Design | None = None
    """How the sample was drawn, as far as that is public."""
    zeros: tuple[Impossible, ...] = field(init=False, repr=False, compare=False)
    """All structural zeros: those of ``impossible``, and those that follow from ``rules``."""
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The names of all attributes, in order."""
    _places: dict[str, int] = field(init=False, repr=False, compare=False)  # of names: asked for every pair of a plan

    def __post_init__(self) -> None:
        if not isinstance(self.attributes, Iterable):
            raise SchemaError("a schema needs a list of attributes, even if there is only one.")
        object.__setattr__(self, "attributes", tuple(self.attributes))
        if not all(isinstance(one, Attribute) for one in self.attributes):
            raise SchemaError("each attribute of a schema must be an Attribute.")
        object.__setattr__(self, "attributes", survey_design.with_weights(self.attributes, self.weight))
        object.__setattr__(self, "impossible", tuple(self.impossible))
        object.__setattr__(self, "ignore", survey_design.ignored(self.ignore, self.design))
        object.__setattr__(self, "derived", tuple(self.derived))
        if isinstance(self.workload, str) or not all(isinstance(one, str) for one in self.workload):
            raise SchemaError('workload must be a list of questions such as "crosstab(sex, age)".')
        object.__setattr__(self, "workload", tuple(self.workload))
        if not self.attributes:
            raise SchemaError("a schema needs at least one attribute.")
        names = tuple(attribute.name for attribute in self.attributes)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "_places", {name: place for place, name in enumerate(names)})
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SchemaError(f"attribute '{twice[0]}' is listed twice.")
        if both := sorted(set(names) & set(self.ignore)):
            raise SchemaError(f"column '{both[0]}' is both an attribute and ignored.")
        survey_design.check_survey(self)
        object.__setattr__(self, "rules", tuple(self.rules))
        if not all(isinstance(rule, Asked | Order | Ratio) for rule in self.rules):
            raise SchemaError("each rule of a schema must be an Asked, an Order or a Ratio.")
        object.__setattr__(self, "attributes", with_cuts(self))
        object.__setattr__(self, "zeros", zeros_of(self))
        for zero in self.zeros:
            zero.codes(self)  # raises on unknown names, levels, or bounds outside the edges
        taken = {*names, *self.ignore}
        for derived in self.derived:
            if derived.name in taken:
                raise SchemaError(f"derived attribute '{derived.name}' has the name of another or an ignored column.")
            taken.add(derived.name)
            derived.attribute(self)  # raises on a rule that cannot be carried out
        object.__setattr__(self, "identifiers", tuple(self.identifiers))
        for identifier in self.identifiers:
            if not isinstance(identifier, Identifier) or identifier.name in taken:
                raise SchemaError("each identifier of a schema is an Identifier, with a name that no other column has.")
            taken.add(identifier.name)
        if self.file is not None:
            listed = {one.name: {level_text(level) for level in one.levels} for one in self.attributes if one.levels}
            self.file.check(taken, listed)
        if self.workload:
            from understudy.core.workload import read_needs  # its questions are read with the schema at hand

            try:
                read_needs(self, self.workload)
            except InputError as problem:
                raise SchemaError(str(problem)) from None

    @property
    def weights(self) -> tuple[str, ...]:
        """The columns that are survey weights, the main one first."""
        return () if self.weight is None else tuple(one.column for one in (self.weight, *self.weight.other))

    @property
    def without_rules(self) -> Schema:
        """The same attributes, with nothing said about combinations of them."""
        return replace(self, impossible=(), rules=())

    @property
    def open(self) -> tuple[Attribute, ...]:
        """The attributes whose bins or codes are still to be found."""
        return tuple(attribute for attribute in self.attributes if attribute.open)

    def recoded(self, other: Schema) -> dict[str, NDArray[np.int64]]:
        """Say how codes of a schema with narrower bins are joined, for attributes whose bins were found.

        Parameters
        ----------
        other
            The schema as it was declared.

        Returns
        -------
        dict[str, NDArray[np.int64]]
            One code for each code of the other schema.
        """
        return {
            one.name: (joined_codes if one.most_codes else joined_cells)(other[one.name], one)
            for one in self.attributes
            if one.found and one != other[one.name] and (one.bounds or one.among)
        }

    @property
    def declared(self) -> Schema:
        """The schema as it was before anything was found."""
        found = any(attribute.found for attribute in self.attributes)
        design = self.design
        if design is not None and design.measured_effects:
            design, found = replace(design, measured_effects=()), True
        if not found:
            return self
        return replace(self, attributes=tuple(one.declared for one in self.attributes), design=design)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a synthetic table: the attributes, what is derived, calibrated weights, and then fakes."""
        derived = tuple(one.name for one in self.derived)
        return (*self.names, *derived, *survey_design.calibrated_column(self.weight), *(one.name for one in self.faked))

    @property
    def faked(self) -> tuple[Identifier, ...]:
        """The identifiers that fakes stand for."""
        return tuple(one for one in self.identifiers if one.fake)

    def __getitem__(self, name: str) -> Attribute:
        place = self._places.get(name)
        if place is None:
            raise unknown_name("attribute", name, self.names)
        return self.attributes[place]

    def margin(self, names: Iterable[str] | None = None) -> tuple[str, ...]:
        """Put names of attributes into the order of the schema.

        Parameters
        ----------
        names
            Names of attributes, each once; all attributes by default.

        Returns
        -------
        tuple[str, ...]
            The names in the order of the schema.

        Raises
        ------
        SchemaError
            If a name is given twice.
        UnknownNameError
            If a name is no attribute.
        """
        if names is None:
            return self.names
        wanted = [self[name].name for name in names]
        if len(set(wanted)) != len(wanted):
            raise SchemaError(f"a margin names an attribute twice: {', '.join(wanted)}.")
        return tuple(sorted(wanted, key=self._places.__getitem__))

    def shape(self, margin: Sequence[str] | None = None) -> tuple[int, ...]:
        """The number of codes of each attribute of a margin.

        Parameters
        ----------
        margin
            Names of attributes, each once; all attributes by default.

        Returns
        -------
        tuple[int, ...]
            One number for each attribute, in the order asked for.
        """
        return tuple(self[name].size for name in (self.names if margin is None else margin))

    def cells(self, margin: Sequence[str] | None = None) -> int:
        """The number of cells of a cross-tabulation, exact however large it is.

        Parameters
        ----------
        margin
            Names of attributes, each once; all attributes by default.

        Returns
        -------
        int
            The product of the shape.
        """
        return reduce(lambda a, b: a * b, self.shape(margin), 1)

    def allowed(self, margin: Sequence[str] | None = None) -> NDArray[np.bool_]:
        """Which cells of a margin are possible: those that no structural zero rules out.

        Parameters
        ----------
        margin
            Names of attributes, each once; all attributes by default.

        Returns
        -------
        NDArray[np.bool_]
            A mask with one axis for each attribute.

        Raises
        ------
        SchemaError
            If the structural zeros rule out every cell.
        """
        return allowed_cells(self, self.names if margin is None else tuple(margin))

    def _repr_html_(self) -> str:
        return schema_html(self)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical form: equal exactly when two schemas mean the same."""
        text = json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def canonical(self) -> dict[str, object]:
        """Plain values from which the fingerprint is made; order of attributes and levels matters.

        Returns
        -------
        dict[str, object]
            The schema as plain lists, texts and numbers.
        """
        return canonical_schema(self)
