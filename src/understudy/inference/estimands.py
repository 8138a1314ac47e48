"""From a question to the few groups of people it is about, and the quantity as a function of their shares.

Cells that play the same part in a question are one group: a share needs three (who has it, who has not, who is left
out), whatever the size of the table. Grouping first keeps the posterior exact, small, and free of assumptions about
cells nobody asked about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.bins import bins_of
from understudy.core.questions import Atom, Question
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError
from understudy.inference.regression import Model, make_model

Evaluate = Callable[[Floats], Floats]  # shares or counts of the groups of an atom (S, groups): values (S, outputs)
LARGEST_GRID = 4_000_000
LARGEST_TABLE = 5000
OUTSIDE, EXCLUDED, FIRST = 0, 1, 2  # groups every atom has: not in the subgroup; missing; then its own
TINY = np.finfo(float).tiny


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One atom: the group of every cell of the margin, and its value given the shares of the groups."""

    groups: Integers
    count: int
    names: tuple[str, ...]
    evaluate: Evaluate
    lowest: Evaluate | None = None  # the same with every number at the lower end of its bin; None: no bin matters
    highest: Evaluate | None = None
    of_counts: bool = False
    whole: bool = False  # the quantity is a whole number: the whole part of what ``evaluate`` gives
    losses: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()  # attributes whose place inside their bins is assumed and not in the interval
    model: Model | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimand:
    """A question over merged groups: ``labels`` gives the group of every cell of the margin."""

    question: Question
    margin: tuple[str, ...]
    labels: Integers
    groups: int
    names: tuple[str, ...]
    parts: tuple[Part, ...]
    members: tuple[Floats, ...]  # for each part: (groups, its own groups), zero or one

    @property
    def of_counts(self) -> bool:
        return self.parts[0].of_counts

    @property
    def bounds(self) -> tuple[float, float]:
        """What the quantity can be at most: a share lies between 0 and 1 whatever a normal approximation says."""
        kind = self.parts[0].names[0]
        if self.question.atoms[0].kind == "crosstab" or kind == "proportion":
            return (0.0, 1.0) if len(self.parts) == 1 else (-1.0, 1.0)
        return (0.0, np.inf) if self.of_counts and len(self.parts) == 1 else (-np.inf, np.inf)

    @property
    def whole(self) -> bool:
        return all(part.whole for part in self.parts)

    @property
    def losses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(loss for part in self.parts for loss in part.losses))

    def evaluate(self, values: Floats) -> Floats:
        """The quantity for each row of shares (or counts) of the merged groups."""
        results = [part.evaluate(values @ member) for part, member in zip(self.parts, self.members, strict=True)]
        return results[0] if len(results) == 1 else np.asarray(results[0] - results[1])

    @property
    def binned(self) -> bool:
        """Whether where in its bin a number lies makes a difference that the interval can hold."""
        return any(part.lowest is not None for part in self.parts)

    @property
    def assumed(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.assumed))

    def lowest(self, values: Floats) -> Floats:
        """The least the quantity can be for each row of shares, wherever in their bins numbers lie."""
        return self._end(values, ("lowest", "highest"))

    def highest(self, values: Floats) -> Floats:
        return self._end(values, ("highest", "lowest"))

    def _end(self, values: Floats, which: tuple[str, str]) -> Floats:
        results = [
            (getattr(part, end) or part.evaluate)(values @ member)
            for part, member, end in zip(self.parts, self.members, which, strict=False)
        ]
        return results[0] if len(results) == 1 else np.asarray(results[0] - results[1])

    def inside(self, values: Floats) -> list[Floats]:
        """For each part how much of the rows is in its subgroup with everything known."""
        return [(values @ member)[:, FIRST:].sum(axis=1) for member in self.members]

    def excluded(self, values: Floats) -> Floats:
        """How much is left out because an attribute is missing (or has a code that is no number)."""
        return np.asarray(np.max([(values @ member)[:, EXCLUDED] for member in self.members], axis=0))


def make_estimand(question: Question, schema: Schema) -> Estimand:
    """Group the cells of the attributes a question uses."""
    margin = schema.margin(question.used)
    if schema.cells(margin) > LARGEST_GRID:
        raise UnsupportedError(
            f"the question is about a table of {schema.cells(margin):,} cells; at most {LARGEST_GRID:,} can be handled."
        )
    grid = np.indices(schema.shape(margin)).reshape(len(margin), -1)
    codes = {name: grid[place] for place, name in enumerate(margin)}
    parts = tuple(_part(atom, schema, codes) for atom in question.atoms)
    stacked = np.stack([part.groups for part in parts], axis=1)
    distinct, labels = np.unique(stacked, axis=0, return_inverse=True)
    members = tuple(np.eye(part.count)[distinct[:, place]] for place, part in enumerate(parts))
    names = parts[0].names if len(parts) == 1 else ("difference",)
    return Estimand(
        question=question,
        margin=margin,
        labels=labels.reshape(-1).astype(np.int64),
        groups=len(distinct),
        names=names,
        parts=parts,
        members=members,
    )


def _part(atom: Atom, schema: Schema, codes: dict[str, Integers]) -> Part:
    cells = len(next(iter(codes.values())))
    keep = np.ones(cells, bool) if atom.where is None else atom.where.truth(codes)
    asked = () if atom.condition is None else atom.condition.asks_missing
    asked = asked if atom.where is None else (*asked, *atom.where.asks_missing)
    missing = np.zeros(cells, bool)
    for name in atom.used:
        code = schema[name].missing_code
        if code is not None and name not in asked:
            missing |= codes[name] == code
    if atom.formula is not None:
        return _regression(atom, schema, codes, keep, missing)
    makers = {"proportion": _share, "count": _share, "mean": _number, "quantile": _number}
    part = makers.get(atom.kind, _table)(atom, schema, codes)
    return replace(part, groups=_marked(part.groups, keep, missing))


def _marked(groups: Integers, keep: NDArray[np.bool_], missing: NDArray[np.bool_]) -> Integers:
    """A row with a missing value is left out even where the subgroup cannot be told from it."""
    return np.where(missing, EXCLUDED, np.where(keep, groups, OUTSIDE))


def _share(atom: Atom, schema: Schema, codes: dict[str, Integers]) -> Part:
    del schema
    assert atom.condition is not None  # noqa: S101 - the grammar gives every share its condition
    holds = atom.condition.truth(codes)
    if not holds.any():
        raise InputError(f"'{atom.text}': no value that the schema allows meets the condition.")
    groups = np.where(holds, FIRST + 1, FIRST)
    if atom.kind == "count":
        return Part(groups=groups, count=4, names=("count",), evaluate=lambda v: v[:, FIRST + 1 :], of_counts=True)

    def share(values: Floats) -> Floats:
        inside = values[:, FIRST:]
        return np.asarray(inside[:, 1:] / np.maximum(inside.sum(axis=1, keepdims=True), TINY))

    return Part(groups=groups, count=4, names=("proportion",), evaluate=share)


def _number(atom: Atom, schema: Schema, codes: dict[str, Integers]) -> Part:
    (name,) = atom.names
    attribute = schema[name]
    bins = bins_of(attribute)
    groups = np.where(codes[name] < attribute.bins, FIRST + codes[name], EXCLUDED)

    def mean_of(points: Floats) -> Evaluate:
        def mean(values: Floats) -> Floats:
            inside = values[:, FIRST:]
            return np.asarray((inside @ points / np.maximum(inside.sum(axis=1), TINY))[:, None])

        return mean

    def quantile(values: Floats) -> Floats:
        return bins.quantiles(np.maximum(values[:, FIRST:], 0), atom.at)[:, None]

    def end_of(ends: Floats) -> Evaluate:
        return lambda values: ends[bins.places(np.maximum(values[:, FIRST:], 0), atom.at)][:, None]

    at_ends = mean_of if atom.kind == "mean" else end_of
    losses = (f"'{name}' is a date, counted in days since 1970-01-01",) if attribute.kind == "date" else ()
    spread_out = bool((bins.last > bins.low).any())
    if spread_out:
        losses = (
            f"'{name}' is known by {attribute.bins} bins; the interval holds every place inside them, and the estimate "
            "takes the public density",
            *losses,
        )
    return Part(
        groups=groups,
        count=FIRST + attribute.bins,
        names=("mean",) if atom.kind == "mean" else (f"quantile {atom.at:g}",),
        evaluate=mean_of(bins.means()) if atom.kind == "mean" else quantile,
        lowest=at_ends(bins.low) if spread_out else None,
        highest=at_ends(bins.last) if spread_out else None,
        whole=atom.kind == "quantile" and bins.whole,
        losses=losses,
    )


def _table(atom: Atom, schema: Schema, codes: dict[str, Integers]) -> Part:
    """A cross-tabulation: missing values have no cell of their own, as everywhere."""
    sizes = [schema[name].size - int(schema[name].missing) for name in atom.names]
    total = int(np.prod(sizes))
    if total > LARGEST_TABLE:
        raise UnsupportedError(f"a table of {total:,} cells was asked for; at most {LARGEST_TABLE:,} are shown.")
    flat = np.zeros(len(codes[atom.names[0]]), np.int64)
    for name, size in zip(atom.names, sizes, strict=True):
        flat = flat * size + np.minimum(codes[name], size - 1)
    labels = [schema[name].code_names for name in atom.names]
    names = tuple(
        ", ".join(f"{name}={label[code]}" for name, label, code in zip(atom.names, labels, place, strict=True))
        for place in np.ndindex(*sizes)
    )

    def shares(values: Floats) -> Floats:
        inside = values[:, FIRST:]
        return np.asarray(inside / np.maximum(inside.sum(axis=1, keepdims=True), TINY))

    if atom.kind == "crosstab":
        return Part(groups=FIRST + flat, count=FIRST + total, names=names, evaluate=shares)
    rows, columns = sizes
    if min(sizes) < 2:
        raise InputError(f"'{atom.text}': '{atom.names[int(rows > 1)]}' has one value only, which nothing goes with.")

    def association(values: Floats) -> Floats:
        table = shares(values).reshape(-1, rows, columns)
        expected = table.sum(axis=2, keepdims=True) * table.sum(axis=1, keepdims=True)
        chi = ((table - expected) ** 2 / np.maximum(expected, TINY)).sum(axis=(1, 2))
        outputs = [np.sqrt(chi / max(min(rows, columns) - 1, 1))]
        if rows == columns == 2:
            safe = np.log(np.maximum(table, TINY))
            outputs.append(safe[:, 0, 0] + safe[:, 1, 1] - safe[:, 0, 1] - safe[:, 1, 0])
        return np.stack(outputs, axis=1)

    named = ("Cramer's V", "log odds ratio") if rows == columns == 2 else ("Cramer's V",)
    return Part(groups=FIRST + flat, count=FIRST + total, names=named, evaluate=association)


def _regression(
    atom: Atom, schema: Schema, codes: dict[str, Integers], keep: NDArray[np.bool_], missing: NDArray[np.bool_]
) -> Part:
    assert atom.formula is not None  # noqa: S101 - the caller looked
    names = atom.formula.names
    stacked = np.stack([codes[name] for name in names], axis=1)
    usable = keep & ~missing
    numeric = {
        factor.name
        for factor in (atom.formula.outcome, *(factor for term in atom.formula.terms for factor in term))
        if not schema[factor.name].levels and factor.function != "C"
    }
    if atom.event is not None:
        numeric.discard(atom.formula.outcome.name)
    for name in numeric:  # a code that is no number cannot be a term
        missing = missing | (usable & (codes[name] >= schema[name].bins))
    usable = keep & ~missing
    distinct, inverse = np.unique(stacked[usable], axis=0, return_inverse=True)
    if len(distinct) > LARGEST_TABLE * 4:
        raise UnsupportedError(
            f"the regression is over a table of {len(distinct):,} cells; at most {LARGEST_TABLE * 4:,} can be handled."
        )
    groups = np.full(len(stacked), EXCLUDED, np.int64)
    groups[usable] = FIRST + inverse.reshape(-1)
    model = make_model(atom, schema, {name: distinct[:, place] for place, name in enumerate(names)})
    if atom.kind in ("multinomial", "ordered"):  # the bins of the outcome are its levels
        numeric.discard(atom.formula.outcome.name)
    losses = tuple(
        f"'{name}' enters by the mean of each of its {schema[name].bins} bins under the public density"
        + (", in days since 1970-01-01" if schema[name].kind == "date" else "")
        for name in sorted(numeric)
    )
    return Part(
        groups=_marked(groups, keep, missing),
        count=FIRST + len(distinct),
        names=model.names,
        evaluate=lambda values: model.fit(values[:, FIRST:]),
        losses=losses,
        assumed=tuple(name for name in sorted(numeric) if not bins_of(schema[name]).of_one_value),
        model=model,
    )
