"""A public guess about the population, and artificial people drawn from it.

Advice before a release must not use the data. It uses a guess instead: usual shapes of distributions, shares of single
attributes from a published table, or the rows of a public look-alike (last year's public file, a teaching file).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.bins import ends_of
from understudy.core.counts import Source
from understudy.core.schema import Attribute, Schema, level_text
from understudy.core.table import CodedTable
from understudy.engines.opening import open_source
from understudy.errors import InputError, UnsupportedError, unknown_name

DRAWN = "shares that nobody gave are drawn anew for each rehearsal"
LEAST_AMOUNT = 1000.0  # the last edge of amounts, such as incomes; ages and hours are below
TOP = 2.576  # standard deviations from the median of an amount to the last edge
OTHER = 0.05  # share of a special code, and of missing values
SPREADS = (0.5, 1.5)  # standard deviations of the logarithm of amounts that are drawn
TOPS = (1.5, 4.0)  # and how many of them the last edge is above the median
SHAPES = (1.0, 4.0)  # of the beta law of other numbers and of dates over their range
LEAST_SHARE = 1e-9
LARGEST_RULED = 2**24  # cells of the attributes of the structural zeros
MOST_TRIES = 200
IMAGINED = 20  # populations that are tried until enough of their combinations are possible
LEAST_POSSIBLE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Population:
    """A public guess: independent attributes with ``shares`` (usual ones where none are given), or a ``look_alike``."""

    schema: Schema
    shares: Mapping[str, Floats] = field(default_factory=dict)
    look_alike: CodedTable | None = None

    def __post_init__(self) -> None:
        if self.look_alike is not None and self.shares:
            raise InputError("a public look-alike has shares of its own; give either it or guesses, not both.")
        if self.look_alike is not None and not self.look_alike.rows:
            raise InputError("the public look-alike has no rows.")
        for name, share in self.shares.items():
            size = self.schema[name].size
            if len(share) != size or not np.isfinite(share).all() or (share < 0).any() or share.sum() <= 0:
                raise InputError(
                    f"the guess for '{name}' must be {size} shares of at least 0, one for each of "
                    f"{', '.join(self.schema[name].code_names[:8])}{', ...' if size > 8 else ''}."
                )

    @property
    def told(self) -> str:
        """What the advice rests on, for people to read."""
        if self.look_alike is not None:
            return f"rows drawn from a public look-alike of {self.look_alike.rows:,} rows"
        known = ", ".join(self.schema.margin(self.shares))
        given = f"shares of {known} as guessed" if known else "amounts skewed"
        return f"independent attributes, {given}" + ("" if self.knows(self.schema.names) else f"; {DRAWN}")

    def knows(self, names: Iterable[str]) -> bool:
        """Whether somebody said how people are spread over all of these attributes."""
        return self.look_alike is not None or set(names) <= set(self.shares)

    def imagined(self, rng: np.random.Generator) -> Population:
        """One population that may be behind the guess: shares that nobody gave are drawn.

        How wide an interval will be depends on how many people are in each group, and nobody said so. One guess would
        hide that, so every rehearsal has shares of its own, and the widths have a range.
        """
        if self.knows(self.schema.names):
            return self
        for _ in range(IMAGINED):
            drawn = {
                name: self.shares[name] if name in self.shares else drawn_shares(self.schema[name], rng)
                for name in self.schema.names
            }
            one = Population(schema=self.schema, shares=drawn)
            if one._possible_share() >= LEAST_POSSIBLE:
                return one
        return self

    def one_way(self, name: str) -> Floats:
        share = self.shares[name] if name in self.shares else usual_shares(self.schema[name])
        return np.asarray(share / share.sum())

    def cell_shares(self, margin: Sequence[str]) -> Floats:
        """The share of every cell of a margin, structural zeros respected."""
        if self.look_alike is not None:
            return np.asarray(self.look_alike.counts(tuple(margin)).reshape(-1) / self.look_alike.rows)
        wide = self.schema.margin({*margin, *self._ruled})
        if self.schema.cells(wide) > LARGEST_RULED:
            raise UnsupportedError(
                f"the question and the structural zeros together have {self.schema.cells(wide):,} cells; advice "
                f"takes at most {LARGEST_RULED:,}."
            )
        table = np.ones(1)
        for name in wide:
            table = np.multiply.outer(table, self.one_way(name))
        table = table.reshape(self.schema.shape(wide)) * self.schema.allowed(wide)
        others = tuple(place for place, name in enumerate(wide) if name not in margin)
        summed = table.sum(axis=others).reshape(-1)
        if not summed.sum() > 0:
            raise InputError("the guessed shares leave no possible combination of values.")
        return np.asarray(summed / summed.sum())

    def draw(self, records: int, rng: np.random.Generator) -> CodedTable:
        """A table of people who do not exist: rows of the look-alike with replacement, or independent attributes."""
        if self.look_alike is not None:
            rows = rng.integers(0, self.look_alike.rows, records)
            columns = {name: column[rows] for name, column in self.look_alike.columns.items()}
            return CodedTable(schema=self.schema, columns=columns)
        parts: list[dict[str, Integers]] = []
        missing = records
        for _ in range(MOST_TRIES):
            drawn = {
                name: rng.choice(self.schema[name].size, size=missing, p=self.one_way(name))
                for name in self.schema.names
            }
            keep = self._possible(drawn)
            parts.append({name: column[keep] for name, column in drawn.items()})
            missing -= int(keep.sum())
            if missing <= 0:
                break
        else:
            raise UnsupportedError(
                "under this guess the structural zeros exclude nearly everybody; give a public look-alike."
            )
        columns = {name: np.concatenate([part[name] for part in parts]) for name in self.schema.names}
        return CodedTable(schema=self.schema, columns=columns)

    def _possible_share(self) -> float:
        """The share of possible combinations among independent attributes."""
        ruled = self._ruled
        if not ruled or self.schema.cells(ruled) > LARGEST_RULED:
            return 1.0
        table = np.ones(1)
        for name in ruled:
            table = np.multiply.outer(table, self.one_way(name))
        return float((table.reshape(self.schema.shape(ruled)) * self.schema.allowed(ruled)).sum())

    @property
    def _ruled(self) -> tuple[str, ...]:
        return self.schema.margin({name for rule in self.schema.zeros for name in rule.attributes})

    def _possible(self, columns: Mapping[str, Integers]) -> NDArray[np.bool_]:
        ruled = self._ruled
        rows = len(next(iter(columns.values())))
        if not ruled:
            return np.ones(rows, bool)
        if self.schema.cells(ruled) > LARGEST_RULED:
            raise UnsupportedError(
                "the attributes of the structural zeros have too many cells; give a public look-alike."
            )
        return np.asarray(self.schema.allowed(ruled)[tuple(columns[name] for name in ruled)])


def usual_shares(attribute: Attribute) -> Floats:
    """Shares that data of this kind might have, where nothing is known about them.

    Of three and more levels the k-th has a share proportional to 1/k, so that most are rare. Amounts (from 0 or above
    to a thousand and more) are log-normal with a standard deviation of 1 and half a percent above the last edge. Other
    numbers and dates are uniform over their range. Special codes and missing values have 5 percent each.

    >>> from understudy.core.schema import Attribute
    >>> usual_shares(Attribute(name="income", edges=(0, 10_000, 50_000, 100_000, 200_000))).round(2).tolist()
    [0.34, 0.55, 0.09, 0.02]
    """
    size = attribute.bins
    if attribute.levels:
        shares = np.ones(size) if size <= 2 or attribute.ordered else 1 / np.arange(1, size + 1)
    else:
        edges = ends_of(attribute)
        shares = _log_normal(edges) if _is_amount(attribute, edges) else np.diff(edges)
    shares = shares / shares.sum()
    others = attribute.size - size
    return (
        np.concatenate([shares * (1 - OTHER * others), np.full(others, OTHER)])
        if OTHER * others < 1
        else np.ones(attribute.size)
    )


def drawn_shares(attribute: Attribute, rng: np.random.Generator) -> Floats:
    """Shares of one of the many populations that data of this kind may come from.

    Levels have any shares, all equally likely (a flat Dirichlet law). Amounts are log-normal with a drawn spread and a
    drawn top. Other numbers and dates have a beta law of a drawn shape over their range. Special codes and missing
    values have about 5 percent each.

    >>> from understudy.core.schema import Attribute
    >>> rng = np.random.default_rng(1)
    >>> drawn_shares(Attribute(name="income", edges=(0, 10_000, 50_000, 100_000, 200_000)), rng).round(2).tolist()
    [0.82, 0.17, 0.01, 0.0]
    """
    size = attribute.bins
    if attribute.levels:
        shares = rng.dirichlet(np.ones(size))
    else:
        edges = ends_of(attribute)
        if _is_amount(attribute, edges):
            shares = _log_normal(edges, spread=rng.uniform(*SPREADS), top=rng.uniform(*TOPS))
        else:
            from scipy.stats import beta

            places = (edges - edges[0]) / (edges[-1] - edges[0])
            shares = np.maximum(np.diff(beta.cdf(places, rng.uniform(*SHAPES), rng.uniform(*SHAPES))), LEAST_SHARE)
    others = rng.gamma(2.0, OTHER / 2, attribute.size - size)
    return np.asarray(np.concatenate([shares / shares.sum(), others]) / (1 + others.sum()))


def _is_amount(attribute: Attribute, edges: Floats) -> bool:
    return bool(attribute.kind == "numeric" and edges[0] >= 0 and edges[-1] >= LEAST_AMOUNT)


def _log_normal(edges: Floats, *, spread: float = 1.0, top: float = TOP) -> Floats:
    """The bins' shares of a log-normal law whose median is ``top`` standard deviations below the last edge."""
    from scipy.special import ndtr

    with np.errstate(divide="ignore"):
        places = (np.log(edges) - np.log(edges[-1])) / spread + top
    return np.asarray(np.maximum(np.diff(ndtr(places)), LEAST_SHARE))


def read_population(
    schema: Schema, *, guess: Mapping[str, Any] | None = None, look_alike: CodedTable | None = None
) -> Population:
    """A guess as a user gives it: for each attribute one number per level, or numbers by level.

    >>> from understudy.core.schema import Attribute
    >>> schema = Schema(attributes=(Attribute(name="smokes", levels=("no", "yes")),))
    >>> read_population(schema, guess={"smokes": {"yes": 1, "no": 3}}).cell_shares(["smokes"]).tolist()
    [0.75, 0.25]
    """
    shares: dict[str, Floats] = {}
    for name, given in (guess or {}).items():
        attribute = schema[name]
        if isinstance(given, Mapping):
            values = np.zeros(attribute.size)
            for level, share in given.items():
                text = level_text(level)
                if text not in attribute.code_names:
                    raise unknown_name(f"guess: level of '{name}'", text, attribute.code_names)
                values[attribute.code_names.index(text)] = _number(name, share)
            shares[name] = values
        else:
            listed = [given] if isinstance(given, str | int | float) else list(given)
            shares[name] = np.array([_number(name, share) for share in listed])
            if attribute.missing and len(listed) == attribute.size - 1:  # nobody is guessed to be missing
                shares[name] = np.append(shares[name], 0.0)
    return Population(schema=schema, shares=shares, look_alike=look_alike)


def _number(name: str, share: Any) -> float:
    try:
        return float(share)
    except (TypeError, ValueError):
        raise InputError(f"the guess for '{name}' must hold numbers, and {share!r} is none.") from None


def coded(data: Any, schema: Schema) -> CodedTable:
    """The rows of a source, or of anything that can be opened as one, as codes of the schema."""
    source: Any = data if isinstance(data, Source) else open_source(data, schema)
    if source.schema.fingerprint != schema.fingerprint:
        raise InputError("the data were opened with another schema than the one given.")
    table: CodedTable = source.confidential_codes()
    return table
