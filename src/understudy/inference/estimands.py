"""From a question to the few groups of people it is about, and the quantity as a function of their shares.

Cells that play the same part in a question are one group: a share needs three (who has it, who has not, who is left
out), whatever the size of the table. Grouping first keeps the posterior exact, small, and free of assumptions about
cells nobody asked about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.bins import Bins, bins_of
from understudy.core.questions import NUMBERS, POVERTY, Atom, Question
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError
from understudy.inference.inside_bins import TINY, Function, gini_of, middles_and_reach, root_of, turned, variance_of
from understudy.inference.regression import Model, make_model, varies_in_bins

if TYPE_CHECKING:
    from understudy.inference.weighting import Weighting

Evaluate = Callable[[Floats], Floats]  # shares or counts of the groups of an atom (S, groups): values (S, outputs)
Axes = tuple[tuple[str, tuple[str, ...]], ...]
LARGEST_GRID = 4_000_000
LARGEST_TABLE = 5000
RISING = ("", "log", "sqrt")  # functions of an outcome that rise, so that they are largest at the end of a bin
IN_BINS = (
    "is known by {bins} bins; the interval holds every place inside them, and the estimate takes the public density"
)
OUTSIDE, EXCLUDED, FIRST = 0, 1, 2  # groups every atom has: not in the subgroup; missing; then its own


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
    never_negative: bool = False
    cells: int = 0  # groups of ``by``; 0: everybody together
    axes: Axes = ()  # the attributes of a table with their levels
    base: Integers | None = None  # for each share of a table, among whom it is a share; None: among everybody
    ends: tuple[Floats, Floats] | None = None  # of a mean, also one that a regression is made of: for each group of
    # cells the least and the largest value of the number; one set for all groups of ``by``


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimand:
    """A question over merged groups: ``labels`` gives the group of every cell of the margin."""

    question: Question
    margin: tuple[str, ...]
    labels: Integers
    groups: int
    names: tuple[str, ...]
    parts: tuple[Part, ...]
    members: tuple[Floats, ...]  # of each part: (groups, its own groups), zero or one; of a weighted question scores
    weighting: Weighting | None = None  # of a question about the population that a weighted sample stands for

    @property
    def variability(self) -> float:
        """How many times as much a share varies as one of equally weighted people."""
        return 1.0 if self.weighting is None else self.weighting.spread

    @property
    def of_counts(self) -> bool:
        return self.parts[0].of_counts

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the most the quantity can be: a share lies in 0 to 1 whatever a normal approximation says."""
        kind, word = self.question.atoms[0].kind, self.question.kind
        if word == "ratio":
            return 0.0, np.inf
        if kind == "mean":
            ends = [(float(one.ends[0].min()), float(one.ends[1].max())) for one in self.parts if one.ends is not None]
            (low, high), *other = ends
            return (low - other[0][1], high - other[0][0]) if other else (low, high)
        share = kind in ("crosstab", "proportion", "gini", POVERTY)
        if word == "difference":
            return (-1.0, 1.0) if share else (-2.0, 2.0) if kind == "correlation" else (-np.inf, np.inf)
        if share:
            return 0.0, 1.0
        if kind == "correlation":
            return -1.0, 1.0
        return (0.0 if self.parts[0].never_negative else -np.inf), np.inf

    @property
    def everything(self) -> tuple[Floats, Floats]:
        """The ends of an interval that says nothing, for each quantity; infinite where there are none."""
        model, count = self.parts[0].model, len(self.names)
        if model is not None:
            return -model.certain(), model.certain()
        low, high = self.bounds
        return np.full(count, low), np.full(count, high)

    @property
    def whole(self) -> bool:
        return all(part.whole for part in self.parts) and self.question.kind != "ratio"

    @property
    def jumps(self) -> bool:
        """Whether the quantity jumps from bin to bin, as a quantile does."""
        return any(atom.kind == "quantile" for atom in self.question.atoms)

    @property
    def losses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(loss for part in self.parts for loss in part.losses))

    def evaluate(self, values: Floats) -> Floats:
        """The quantity for each row of shares (or counts) of the merged groups."""
        return self._joined([part.evaluate(values @ one) for part, one in zip(self.parts, self.members, strict=True)])

    def sides(self, values: Floats) -> Floats:
        """The two quantities of a difference or a ratio, a column each."""
        return np.hstack([part.evaluate(values @ one) for part, one in zip(self.parts, self.members, strict=True)])

    def _joined(self, results: list[Floats]) -> Floats:
        if len(results) == 1:
            return results[0]
        if self.question.kind == "ratio":
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.asarray(results[0] / results[1])
        return np.asarray(results[0] - results[1])

    @property
    def binned(self) -> bool:
        """Whether the place of a number inside its bin makes a difference that the interval can cover."""
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
        return self._joined(results)

    def inside(self, values: Floats) -> list[Floats]:
        """For each part, how much of the rows is in its subgroup without a missing value."""
        return [(values @ member)[:, FIRST:].sum(axis=1) for member in self.members]

    def inside_groups(self, values: Floats) -> Floats | None:
        """How much of the rows is in each group of ``by``, one column for each; None for other questions."""
        part, member = self.parts[0], self.members[0]
        if part.base is not None:
            return np.asarray((values @ member)[:, FIRST:] @ np.eye(int(part.base.max()) + 1)[part.base][:, part.base])
        if not part.cells:
            return None
        return np.asarray((values @ member)[:, FIRST:].reshape(len(values), part.cells, -1).sum(axis=2))

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
    names = parts[0].names if len(parts) == 1 else (question.kind,)
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
    makers = {"proportion": _share, "count": _share, "correlation": _correlation, **dict.fromkeys(NUMBERS, _number)}
    part = (_total if atom.signs else makers.get(atom.kind, _table))(atom, schema, codes)
    if atom.by:
        part = _in_groups(part, atom, schema, codes)
    return replace(part, groups=_marked(part.groups, keep, missing))


def _marked(groups: Integers, keep: NDArray[np.bool_], missing: NDArray[np.bool_]) -> Integers:
    """Leave out a row with a missing value, even where this hides whether the row is in the subgroup."""
    return np.where(missing, EXCLUDED, np.where(keep, groups, OUTSIDE))


def _share(atom: Atom, schema: Schema, codes: dict[str, Integers]) -> Part:
    del schema
    assert atom.condition is not None  # noqa: S101 - the grammar gives every share its condition
    holds = atom.condition.truth(codes)
    if not holds.any():
        raise InputError(f"'{atom.text}': no value that the schema allows meets the condition.")
    groups = np.where(holds, FIRST + 1, FIRST)
    if atom.kind == "count":
        return Part(
            groups=groups,
            count=4,
            names=("count",),
            evaluate=lambda v: v[:, FIRST + 1 :],
            of_counts=True,
            never_negative=True,
        )

    def share(values: Floats) -> Floats:
        inside = values[:, FIRST:]
        return np.asarray(inside[:, 1:] / np.maximum(inside.sum(axis=1, keepdims=True), TINY))

    return Part(groups=groups, count=4, names=("proportion",), evaluate=share)


def _number(atom: Atom, schema: Schema, codes: dict[str, Integers]) -> Part:
    (name,) = atom.names
    attribute = schema[name]
    bins = bins_of(attribute)
    groups = np.where(codes[name] < attribute.bins, FIRST + codes[name], EXCLUDED)
    value, lowest, highest = functional(atom, bins)
    losses = (f"'{name}' is a date, counted in days since 1970-01-01",) if attribute.kind == "date" else ()
    spread_out = bool((bins.last > bins.low).any())
    # The range of a poverty rate would be that of whole bins around its line: it is stated with the density instead.
    assumed = (name,) if atom.kind == POVERTY and spread_out else ()
    if assumed:
        losses = (f"'{name}' is known by {attribute.bins} bins, with the density inside them", *losses)
    elif spread_out:
        losses = (
            f"'{name}' {IN_BINS.format(bins=attribute.bins)}",
            *losses,
        )
    return Part(
        groups=groups,
        count=FIRST + attribute.bins,
        names=(f"quantile {atom.at:g}" if atom.kind == "quantile" else atom.kind,),
        evaluate=value,
        lowest=lowest if spread_out and not assumed else None,
        highest=highest if spread_out and not assumed else None,
        assumed=assumed,
        of_counts=atom.kind == "sum",
        whole=atom.kind == "quantile" and bins.whole,
        losses=losses,
        ends=(bins.low, bins.last) if atom.kind == "mean" else None,
        never_negative=atom.kind in ("std", "variance") or (atom.kind == "sum" and bool(bins.low[0] >= 0)),
    )


def functional(atom: Atom, bins: Bins) -> tuple[Evaluate, Evaluate, Evaluate]:
    """The value of a quantity of a number, and the least and the most it can be inside bins."""

    def quantile(values: Floats) -> Floats:
        return bins.quantiles(np.maximum(values[:, FIRST:], 0), atom.at)[:, None]

    def end_of(ends: Floats) -> Evaluate:
        return lambda values: ends[bins.places(np.maximum(values[:, FIRST:], 0), atom.at)][:, None]

    def poverty(values: Floats) -> Floats:
        """The share below a share of the median, which is itself estimated."""
        inside = np.maximum(values[:, FIRST:], 0)
        return bins.share_below(inside, atom.at * bins.quantiles(inside, 0.5))[:, None]

    if atom.kind == POVERTY:
        return poverty, poverty, poverty
    if atom.kind == "quantile":
        return quantile, end_of(bins.low), end_of(bins.last)
    if atom.kind in ("mean", "sum"):
        made = _mean_of if atom.kind == "mean" else _summed
        return made(bins.means()), made(bins.low), made(bins.last)
    found = gini_of(bins) if atom.kind == "gini" else variance_of(bins)
    found = root_of(found) if atom.kind == "std" else found

    def column(function: Function) -> Evaluate:
        return lambda values: function(values[:, FIRST:])[:, None]

    return column(found.value), column(found.lowest), column(found.highest)


def _summed(points: Floats) -> Evaluate:
    return lambda values: np.asarray((values[:, FIRST:] @ points)[:, None])


def _mean_of(points: Floats) -> Evaluate:
    def mean(values: Floats) -> Floats:
        inside = values[:, FIRST:]
        return np.asarray((inside @ points / np.maximum(inside.sum(axis=1), TINY))[:, None])

    return mean


def _total(atom: Atom, schema: Schema, codes: dict[str, Integers]) -> Part:
    """The mean or the sum of a derived sum or difference, over the cells of the table of its parts. Rows in which a
    part is missing, or has a code that is no number, have no total."""
    bins = [bins_of(schema[name]) for name in atom.names]
    sizes = tuple(len(one.low) for one in bins)
    usable = np.logical_and.reduce([codes[name] < size for name, size in zip(atom.names, sizes, strict=True)])
    inside = [np.minimum(codes[name], size - 1) for name, size in zip(atom.names, sizes, strict=True)]

    def added(of_more: list[Floats], of_less: list[Floats]) -> Floats:
        ends = [more if sign > 0 else -less for more, less, sign in zip(of_more, of_less, atom.signs, strict=True)]
        return np.asarray(sum(np.meshgrid(*ends, indexing="ij"))).ravel()

    low, last, means = [one.low for one in bins], [one.last for one in bins], [one.means() for one in bins]
    made = _mean_of if atom.kind == "mean" else _summed
    least, most = added(low, last), added(last, low)
    wide = [name for name, one in zip(atom.names, bins, strict=True) if (one.last > one.low).any()]
    return Part(
        groups=np.where(usable, FIRST + np.ravel_multi_index(inside, sizes), EXCLUDED),
        count=FIRST + int(np.prod(sizes)),
        names=(atom.kind,),
        evaluate=made(added(means, means)),
        lowest=made(least) if wide else None,
        highest=made(most) if wide else None,
        of_counts=atom.kind == "sum",
        ends=(least, most) if atom.kind == "mean" else None,
        losses=tuple(f"'{name}' {IN_BINS.format(bins=schema[name].bins)}" for name in wide),
        never_negative=atom.kind == "sum" and bool(least[0] >= 0),
    )


def _correlation(atom: Atom, schema: Schema, codes: dict[str, Integers]) -> Part:
    """Pearson's correlation; its estimate takes both numbers as independent inside bins, with public densities."""
    bins = [bins_of(schema[name]) for name in atom.names]
    sizes = [len(one.low) for one in bins]
    for name, one in zip(atom.names, bins, strict=True):
        if one.bounds[0] == one.bounds[1]:
            raise InputError(f"'{atom.text}': '{name}' has only one value, so nothing can be associated with it.")
    usable = np.logical_and.reduce([codes[name] < size for name, size in zip(atom.names, sizes, strict=True)])
    flat = np.minimum(codes[atom.names[0]], sizes[0] - 1) * sizes[1] + np.minimum(codes[atom.names[1]], sizes[1] - 1)
    x, y = np.meshgrid(bins[0].means(), bins[1].means(), indexing="ij")
    xx, yy = np.meshgrid(bins[0].means(np.square), bins[1].means(np.square), indexing="ij")
    moments = np.stack([one.ravel() for one in (x, y, xx, yy, x * y)], axis=1)

    def moments_of(values: Floats, of: Floats) -> list[Floats]:
        inside = values[:, FIRST:]
        total = inside.sum(axis=1, keepdims=True)
        return list((inside @ of / np.where(np.abs(total) > TINY, total, TINY)).T)

    def correlation(values: Floats) -> Floats:
        mx, my, sx, sy, both = moments_of(values, moments)
        spread = np.sqrt(np.maximum(sx - mx**2, TINY) * np.maximum(sy - my**2, TINY))
        return np.asarray(((both - mx * my) / spread)[:, None])

    def end(sign: float) -> Evaluate:
        return lambda values: turned(moments_of(values, ends), sign)

    wide = tuple(one.name for one in bins if not one.of_one_value)
    ends = middles_and_reach(bins)
    return Part(
        groups=np.where(usable, FIRST + flat, EXCLUDED),
        count=FIRST + sizes[0] * sizes[1],
        names=("correlation",),
        evaluate=correlation,
        lowest=end(1.0) if wide else None,
        highest=end(-1.0) if wide else None,
        losses=tuple(
            f"'{name}' is known by its bins; the interval holds every place inside them, and the estimate takes the "
            "public density"
            for name in wide
        ),
    )


def _in_groups(part: Part, atom: Atom, schema: Schema, codes: dict[str, Integers]) -> Part:
    """The same quantity in every group of some attributes: its groups of cells are repeated for each."""
    cell, names = _cells(atom.by, schema, codes)
    own = part.count - FIRST
    groups = np.where(part.groups >= FIRST, part.groups + own * cell, part.groups)

    return replace(
        part,
        groups=groups,
        count=FIRST + own * len(names),
        names=names,
        cells=len(names),
        axes=_axes(atom.by, schema),
        evaluate=repeated(part.evaluate, own),
        lowest=None if part.lowest is None else repeated(part.lowest, own),
        highest=None if part.highest is None else repeated(part.highest, own),
    )


def repeated(function: Evaluate, own: int) -> Evaluate:
    """A quantity of ``own`` groups, in each of several sets of so many groups that stand beside each other."""

    def evaluate(values: Floats) -> Floats:
        inside = values[:, FIRST:].reshape(-1, own)
        found = function(np.column_stack([np.zeros((len(inside), FIRST)), inside]))
        return np.asarray(found.reshape(len(values), -1))

    return evaluate


def _axes(names: tuple[str, ...], schema: Schema) -> Axes:
    return tuple(
        (name, tuple(schema[name].code_names[: schema[name].size - int(schema[name].missing)])) for name in names
    )


def _cells(wanted: tuple[str, ...], schema: Schema, codes: dict[str, Integers]) -> tuple[Integers, tuple[str, ...]]:
    """The cell of a table of some attributes, without missing values, and what the cells are called."""
    sizes = [schema[name].size - int(schema[name].missing) for name in wanted]
    total = int(np.prod(sizes))
    if total > LARGEST_TABLE:
        raise UnsupportedError(f"a table of {total:,} cells was asked for; at most {LARGEST_TABLE:,} are shown.")
    flat = np.zeros(len(codes[wanted[0]]), np.int64)
    for name, size in zip(wanted, sizes, strict=True):
        flat = flat * size + np.minimum(codes[name], size - 1)
    labels = [schema[name].code_names for name in wanted]
    names = tuple(
        ", ".join(f"{name}={label[code]}" for name, label, code in zip(wanted, labels, place, strict=True))
        for place in np.ndindex(*sizes)
    )
    return flat, names


def _table(atom: Atom, schema: Schema, codes: dict[str, Integers]) -> Part:
    """A cross-tabulation: missing values have no cell of their own, as everywhere."""
    flat, names = _cells(atom.names, schema, codes)
    total = len(names)

    def shares(values: Floats) -> Floats:
        inside = values[:, FIRST:]
        return np.asarray(inside / np.maximum(inside.sum(axis=1, keepdims=True), TINY))

    if atom.kind == "crosstab":
        axes = _axes(atom.names, schema)
        if not atom.percent:
            return Part(groups=FIRST + flat, count=FIRST + total, names=names, evaluate=shares, axes=axes)
        shape = tuple(len(levels) for _, levels in axes)
        among = np.arange(total).reshape(shape)
        within = among.max(axis=-1 if atom.percent == "row" else 0, keepdims=True)
        base = np.unique(np.broadcast_to(within, shape).reshape(-1), return_inverse=True)[1].reshape(-1)

        def percentages(values: Floats) -> Floats:
            inside = values[:, FIRST:]
            whole = inside @ np.eye(int(base.max()) + 1)[base]
            return np.asarray(inside / np.maximum(whole, TINY)[:, base])

        return Part(groups=FIRST + flat, count=FIRST + total, names=names, evaluate=percentages, axes=axes, base=base)
    sizes = [schema[name].size - int(schema[name].missing) for name in atom.names]
    rows, columns = sizes
    if min(sizes) < 2:
        raise InputError(
            f"'{atom.text}': '{atom.names[int(rows > 1)]}' has only one value, so nothing can be associated with it."
        )

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
    numeric |= {atom.formula.outcome.name} if atom.kind in ("linear", "poisson") else set()
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
    varying = varies_in_bins(atom.formula, schema)
    losses = tuple(
        f"'{name}' enters by the mean of each of its {schema[name].bins} bins under the public density"
        + (", in days since 1970-01-01" if schema[name].kind == "date" else "")
        for name in sorted(numeric & varying)
    )
    lowest: Evaluate | None = None
    highest: Evaluate | None = None
    least = most = np.asarray(model.outcome, np.float64)
    outcome = atom.formula.outcome
    if atom.kind == "linear" and numeric & varying == {outcome.name} and outcome.function in RISING:
        bins, own = bins_of(schema[outcome.name]), distinct[:, names.index(outcome.name)]
        least, most = (outcome.of(ends[own], bins.bounds).reshape(-1) for ends in (bins.low, bins.last))

        def end(place: int) -> Evaluate:
            return lambda values: model.reach(values[:, FIRST:], least, most)[place]

        lowest, highest = end(0), end(1)
    return Part(
        groups=_marked(groups, keep, missing),
        count=FIRST + len(distinct),
        names=model.names,
        evaluate=lambda values: model.fit(values[:, FIRST:]),
        lowest=lowest,
        highest=highest,
        losses=losses,
        assumed=() if lowest is not None else tuple(sorted(numeric & varying)),
        ends=(least, most),
        model=model,
    )
