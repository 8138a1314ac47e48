"""Weighted questions: what the population is like that a weighted sample stands for.

A weighted sum over people is a sum over the bins of the weight: each bin counts by its score, about the mean weight in
it. So a weighted quantity is the unweighted one at weighted shares of the groups, and a question about some attributes
becomes one about these and the weight. Noise, sampling and labels then follow as for any other question; the sampling
of (answer, weight) pairs gives the with-replacement variance of the design-based estimator. Clusters and finite
populations multiply the sampling variance (``factor``). See docs/theory/survey-weights.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.bins import Bins, bins_of
from understudy.core.questions import NUMBERS, OF_COUNTS, Atom
from understudy.core.schema import Schema, level_text
from understudy.core.survey_design import declared_size
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.inference.estimands import FIRST, Estimand, Evaluate, Part, functional, repeated
from understudy.inference.evidence import public_records
from understudy.inference.inside_cells import STRONGEST, Grid, Inside, inside_cells, roughness, trend_of
from understudy.inference.noise_aware import estimated_records, noisy_table
from understudy.release.table_release import Release

LEAST_FILLED = 3  # bins with rows in them, from which on tables show whether answers follow a line
LEAST_SHARE = 0.1  # of an equal share of the rows: an empty bin has no slope of its own
LEAST_NUMBER = 1e-9  # of people in a row that has none: a score of 0 would divide by 0
LEAST_SCORE = 0.25  # of the mean weight of a bin: the correction for trends inside bins makes no score smaller
# Kinds of questions whose weighted intervals were shown to cover, about one attribute (docs/benchmarks/surveys.md).
SHOWN = ("proportion", "count")
NOT_SHOWN = (
    "how often weighted intervals hold the truth has been shown for shares and numbers of people by one attribute, and "
    "not for this question"
)
NO_EFFECT = (
    "the sample was drawn in clusters, and the schema declares no design effect for all attributes of this question "
    "([design] design_effects): rows are taken as independent, so the interval may be too short"
)
STRATA = "what differs between sampling strata, by the synthetic rows, is not counted as sampling variance"
NO_STRATA = "sampling strata are not used here: the interval is somewhat longer than that of the stratified design"
MOST_OFF = 1.25  # by which factor weights may add up to more or less than the schema says: noise hardly does that
OFF = (
    "by noisy counts the weights add up to about {found:,.0f}, and by the schema to {declared:,.0f}: look at sums_to "
    "of [weight] and at the population of [design]"
)
ESTIMATED_SIZE = (
    "the size of the population is not declared ([design] population, or totals of the weight), so it is estimated by "
    "the sum of the weights"
)
ABOUT_ONE = 1.05  # mean weights from the inverse of this to this: nobody stands for themselves alone by design
SCALED = (
    "by noisy counts the weights add up to about the number of rows: if they were scaled to it, say sums_to = "
    '"sample" in [weight]. The guarantee then takes the weights of the others as fixed, and a number of people needs '
    "the population of [design]"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighting:
    """The scores of the bins of a weight, and what the design says."""

    column: str
    scores: Floats  # one on average over the people of the sample
    plain: Floats  # the same without the trend inside bins: mean weights
    mean: float  # the mean weight
    spread: float  # the mean squared score: how much more a weighted share varies than an unweighted one
    within: float  # by which factor weights inside bins make the sampling variance larger
    square: Floats  # the mean squared weight of each bin, with a mean weight of one
    records: float
    population: float | None  # as declared
    sums_to_sample: bool
    about: str = "the population"  # whom the answer is about
    shown: bool = True  # whether intervals were shown to cover: not where some rows have nobody the question is about
    plainly: tuple[Floats, ...] = ()  # of a weighted question: its members with nothing assumed to go on inside cells
    strongly: tuple[Floats, ...] = ()  # the same with a number and the weight going together as strongly as they can
    rough: float = 0.0  # how far what is assumed inside cells may be wrong, as a share of what it changes
    ends: tuple[Floats, Floats] | None = None
    """With public bins: the lowest and highest mean weight of each, by that which is assumed."""
    bin: Integers | None = None  # of a weighted question with public bins: the bin of the weight of each group
    squares: Floats | None = None  # its first members, with the squared weight instead of the weight
    number: str = ""  # the number whose law with the weight inside cells is used, if there is one
    again: Callable[[Floats | None, Floats | None], tuple[Floats, ...]] | None = None
    """Its members by other counts on the fine grids of the number and of the weight, if there is such a grid."""

    def factor(self, schema: Schema, names: tuple[str, ...], rows: int) -> tuple[float, str | None]:
        """By how much clusters and a finite population multiply the sampling variance of independent rows.

        Returns the factor, and what is not known, if anything. ``rows``: the most rows of a unit.
        """
        design = schema.design
        effect = 1.0 if design is None else design.effect(tuple(name for name in names if name != self.column))
        untold = None
        if effect is None:
            effect, untold = float(rows), NO_EFFECT if rows == 1 else None
        elif rows > 1 and (design is None or not design.clusters):
            effect = float(rows)
        fraction = 0.0 if not self.population else min(self.records / self.population, 1.0)
        return effect * (1 - fraction), untold


def chosen_weights(release: Release, weighted: bool | str | None) -> tuple[str, ...]:
    """The weights that a question uses: a column, or the kind of people that a row stands for and then the main weight
    of the rows, if they have one. None: it is about the rows."""
    schema = release.schema
    main = () if schema.weight is None else (schema.weight.column,)
    if isinstance(weighted, str) and weighted in release.numbers:
        return (weighted, *main)
    if weighted is None:
        return main
    if isinstance(weighted, str):
        if weighted not in schema.weights:
            known = (*schema.weights, *release.numbers)
            raise unknown_name("weight", weighted, known or ("none: the schema declares no [weight]",))
        return (weighted,)
    if not isinstance(weighted, bool):
        raise InputError(f"weighted ({weighted!r}) must be true, false or the column of a weight.")
    if weighted and not main:
        kinds = " or ".join(f'weighted = "{one}" (--weight {one})' for one in release.numbers)
        more = f" A question about all of a kind says {kinds}." if kinds else ""
        raise InputError(f"the schema declares no [weight], so nothing can be weighted.{more}")
    return main if weighted else ()


def of_population(estimand: Estimand, release: Release, columns: Sequence[str]) -> Estimand:
    """The same question about the people that the rows stand for, by each of these weights in turn."""
    by: Weighting | None = None
    for place, column in enumerate(columns, 1):
        found = weighting_of(release, column)
        by = found if by is None else _times(release, by, found)
        estimand = weighted(estimand, release, by, last=place == len(columns))
    return estimand


def _times(release: Release, numbers: Weighting, weights: Weighting) -> Weighting:
    """The weight of a row times the number of people in it. A question is weighted by the numbers already, so these are
    scores of the weight alone, with which both together have a mean of one."""
    margin = release.schema.margin((numbers.column, weights.column))
    joint = np.maximum(_counts(release, margin)[0], 0.0).reshape(release.schema.shape(margin))
    joint = (joint if margin[0] == numbers.column else joint.T) / max(float(joint.sum()), 1.0)
    both = float(numbers.scores @ joint @ weights.scores)
    mean = numbers.mean * weights.mean * float(numbers.scores @ joint @ weights.plain)
    spread = float(numbers.scores**2 @ joint @ weights.scores**2) / both**2
    return replace(
        weights,
        scores=weights.scores / both,
        plain=weights.plain / both,
        square=weights.square / both**2,
        mean=mean,
        spread=spread * weights.within,
        population=None,
        about=f"{numbers.about}, in the population",
    )


def weighting_of(release: Release, column: str) -> Weighting:
    """Scores from public facts and noisy counts alone."""
    if column in release.numbers:
        return _by_numbers(release, column)
    schema = release.schema
    bins, shares, records = bins_of(schema[column]), _shares(release, column), _records(release)
    scores, mean, second = scores_of(bins, shares)
    plain = bins.means()
    own = float(shares @ scores**2)
    weight = next(one for one in (schema.weight, *(schema.weight.other if schema.weight else ())) if one is not None
                  and one.column == column)  # fmt: skip
    return Weighting(
        column=column,
        scores=scores,
        plain=plain / float(shares @ plain),
        mean=mean,
        spread=max(second / mean**2, own),
        within=max(second / mean**2 / own, 1.0),
        square=bins.means(np.square) / mean**2,
        records=records,
        population=declared_size(schema, weight),
        sums_to_sample=weight.sums_to == "sample",
        shown=not release.linked,
        ends=None if schema[column].found else (bins.low / plain, bins.high / plain),
    )


def _by_numbers(release: Release, kind: str) -> Weighting:
    """Every row counts as often as it has people of a kind: scores are public whole numbers, so nothing is assumed."""
    column, numbers = release.numbers[kind]
    shares = _shares(release, column)
    counts = np.maximum(np.array(numbers, np.float64), LEAST_NUMBER)
    mean = float(shares @ counts)
    scores = counts / mean
    return Weighting(
        column=column,
        scores=scores,
        plain=scores,
        mean=mean,
        spread=float(shares @ scores**2),
        within=1.0,
        square=scores**2,
        records=_records(release),
        population=None,
        sums_to_sample=False,
        about=f"every {kind}, and not about every household",
        shown=min(numbers) > 0,
    )


def scores_of(bins: Bins, shares: Floats) -> tuple[Floats, float, float]:
    """The score of every bin with mean one, the mean weight and the mean squared weight.

    With the mean weight of each bin as its score, an answer that goes with the weight inside bins would be missed.
    Inside a bin an answer is taken as linear in the logarithm of the weight, with the slope between the bins beside it.
    What that adds is linear in the shares of the answer too, so it is part of the scores. An answer that is linear in
    the logarithm of the weight over all bins is exact.
    """
    size = len(shares)
    mean, log_mean, product, square = (np.empty(size) for _ in range(4))
    for number in range(size):
        points, inside = bins.nodes(number)
        points = np.maximum(points, bins.low[0])
        logs = np.log(points)
        mean[number], log_mean[number] = inside @ points, inside @ logs
        product[number], square[number] = inside @ (points * logs), inside @ points**2
    share = np.maximum(shares, LEAST_SHARE / size)
    missed = shares * (product - mean * log_mean)
    moved, filled = np.zeros(size), filled_bins(shares)
    for number in range(size):
        before = int(filled[filled < number][-1]) if (filled < number).any() else number
        after = int(filled[filled > number][0]) if (filled > number).any() else number
        if after > before:
            slope = missed[number] / (log_mean[after] - log_mean[before])
            moved[after] += slope / share[after]
            moved[before] -= slope / share[before]
    with np.errstate(divide="ignore"):
        least = np.where(moved < 0, (LEAST_SCORE - 1) * mean / np.minimum(moved, -1e-300), np.inf).min()
    scores = mean + min(1.0, float(least)) * moved
    average = float(shares @ scores)
    return scores / average, float(shares @ mean), float(shares @ square)


def filled_bins(shares: Floats) -> Integers:
    """The bins with enough rows to have a slope to them: where many rows have one weight, bins beside it are empty."""
    return np.flatnonzero(shares >= LEAST_SHARE / len(shares))


def _scores_again(release: Release, column: str, counts: Floats) -> tuple[Floats, float]:
    """The scores of a weight and its mean by other counts of the cells of its grid."""
    bins = bins_of(release.schema[column])
    bins = replace(bins, shares=Grid.of(bins, counted=counts).share)
    return scores_of(bins, _shares(release, column))[:2]


def _shares(release: Release, column: str) -> Floats:
    """The share of every bin of the weight: from all noisy tables that hold it, or from the synthetic tables."""
    found = np.maximum(_counts(release, (column,))[0], 0.0)
    if found.sum() <= 0:
        raise UnsupportedError("noise hides the weights of this release, so nothing weighted can be said from it.")
    return np.asarray(found / found.sum(), np.float64)


def _counts(release: Release, margin: tuple[str, ...]) -> tuple[Floats, float]:
    """Counts of the cells of a margin, and the variance of their noise: the mean of all noisy tables that hold it by
    their precision, or else the counts of the synthetic tables."""
    schema = release.schema
    counts, precision = np.zeros((2, schema.cells(margin)))
    for one in release.measurements:
        if set(margin) <= set(one.margin) and one.cells == "all":
            table = noisy_table(schema, one, margin, None)
            counts[table.cells] += table.values / table.variances
            precision[table.cells] += 1 / table.variances
    possible = schema.allowed(margin).reshape(-1)
    if precision[possible].all():
        found = np.divide(counts, precision, out=np.zeros(len(counts)), where=precision > 0)
        return found, float(1 / precision[possible].mean())
    drawn = [release.coded(copy).counts(margin).reshape(-1) for copy in range(1, release.copies + 1)]
    return np.asarray(np.mean(drawn, axis=0), np.float64), 0.0


def _records(release: Release) -> float:
    known = public_records(release)
    if known is not None:
        return float(known)
    measured = any(one.cells == "all" for one in release.measurements)
    return estimated_records(release) if measured else float(release.rows[0])


def weighted(estimand: Estimand, release: Release, weighting: Weighting, *, last: bool = True) -> Estimand:
    """The same question about the population that the weighted sample stands for.

    ``last``: no other weight follows, so numbers of people are those of the population.
    """
    for atom in estimand.question.atoms:
        if atom.signs:
            raise UnsupportedError(
                f"'{atom.text}': of a total of several numbers nothing weighted can be said; ask about "
                f"{', '.join(atom.names)} one by one, or about the rows (unweighted)."
            )
    schema, column = release.schema, weighting.column
    margin = schema.margin({*estimand.margin, column})
    grid = np.indices(schema.shape(margin)).reshape(len(margin), -1)
    codes = dict(zip(margin, grid, strict=True))
    own = np.ravel_multi_index([codes[name] for name in estimand.margin], schema.shape(estimand.margin))
    pairs = np.stack([estimand.labels[own], codes[column]], axis=1)
    distinct, labels = np.unique(pairs, axis=0, return_inverse=True)
    labels = labels.reshape(-1).astype(np.int64)
    number = _number_of(estimand, schema, weighting)
    made = _Made(
        estimand=estimand,
        schema=schema,
        weighting=weighting,
        number=number,
        of_part=distinct[:, 0],
        bin=distinct[:, 1],
        labels=labels,
        codes=(codes[number] if number else np.zeros(len(labels), np.int64), codes[column]),
    )
    law, plain = _law(release, weighting, number), _law(release, weighting, number, correlation=0.0)
    strong = None if law is None else _law(release, weighting, number, correlation=_strongest(law))
    fine = schema[column].found or any(made.is_fine(atom) for atom in estimand.question.atoms)

    def again(of_number: Floats | None, of_weight: Floats | None) -> tuple[Floats, ...]:
        scores, times = weighting.scores, 1.0
        if of_weight is not None:  # what the weights add up to changes too, where that is the size of the population
            scores, mean = _scores_again(release, column, of_weight)
            times = mean / weighting.mean
        members = made.members(_law(release, weighting, number, counted=(of_number, of_weight)), scores)
        return tuple(member * times for member in members)

    return replace(
        estimand,
        margin=margin,
        labels=labels,
        groups=len(distinct),
        parts=tuple(
            _of_population(_in_found_bins(made.part(part, atom), atom.names, schema), weighting if last else None)
            for part, atom in zip(estimand.parts, estimand.question.atoms, strict=True)
        ),
        members=made.members(law, weighting.scores),
        weighting=replace(
            weighting,
            number=number,
            plainly=made.members(plain, weighting.plain),
            strongly=made.members(strong, weighting.scores) if strong is not None else (),
            rough=_rough(estimand, release, weighting, number, law),
            squares=made.squares(law),
            bin=made.bin if weighting.ends is not None else None,
            again=again if fine else None,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Made:
    """What is known of a weighted question before anything is said about the inside of cells."""

    estimand: Estimand  # the same question without weights
    schema: Schema
    weighting: Weighting
    number: str
    of_part: Integers  # for each group of the weighted question, the group of the unweighted one
    bin: Integers  # and the bin of the weight
    labels: Integers  # for each cell of the margin, the group of the weighted question
    codes: tuple[Integers, Integers]  # for each cell of the margin, the bin of the number and that of the weight

    def is_fine(self, atom: Atom) -> bool:
        """Whether a quantity is computed at the points of the grid on which the bins of its number were found."""
        return bool(self.number) and atom.kind in NUMBERS and bins_of(self.schema[self.number]).cells is not None

    def part(self, part: Part, atom: Atom) -> Part:
        if not self.is_fine(atom):
            return part
        bins = bins_of(self.schema[self.number])
        assert bins.cells is not None  # noqa: S101 - a quantity is fine where they are
        cells = replace(bins, low=bins.cells[:-1], high=bins.cells[1:], cells=None, shares=None)
        evaluate, size = functional(atom, cells)[0], len(cells.low)
        many = max(part.cells, 1)
        return replace(
            part,
            count=FIRST + size * many,
            evaluate=repeated(evaluate, size) if part.cells else evaluate,
            ends=None if part.ends is None else (cells.low, cells.last),
        )

    def members(self, law: Inside | None, scores: Floats) -> tuple[Floats, ...]:
        return self._spread(law, "weight", "at", scores)

    def squares(self, law: Inside | None) -> Floats:
        before = self.estimand.weighting  # by numbers of people, whose squares count too
        if before is None or before.squares is None:
            return self._spread(law, "square", "square_at", self.weighting.square)[0]
        squared = replace(self, estimand=replace(self.estimand, members=(before.squares, *self.estimand.members[1:])))
        return squared._spread(law, "square", "square_at", self.weighting.square)[0]

    def _spread(self, law: Inside | None, whole: str, at: str, scores: Floats) -> tuple[Floats, ...]:
        value = self._of_groups(law, whole, scores)[:, None]
        found = []
        for member, atom in zip(self.estimand.members, self.estimand.question.atoms, strict=True):
            own = member[self.of_part]
            if law is None or not self.is_fine(atom):
                found.append(own * value)
                continue
            fine, bins = law.fine(at), law.weight.shape[0]
            size = fine.shape[2]
            many = (own.shape[1] - FIRST) // bins
            wide = np.zeros((len(own), FIRST + many * size))
            wide[:, :FIRST] = own[:, :FIRST] * value
            place = own.argmax(axis=1) - FIRST
            inside = np.flatnonzero(place >= 0)
            cell, number = np.divmod(place[inside], bins)
            columns = FIRST + cell[:, None] * size + np.arange(size)
            wide[inside[:, None], columns] = fine[number, self.bin[inside]]
            found.append(wide)
        return tuple(found)

    def _of_groups(self, law: Inside | None, whole: str, scores: Floats) -> Floats:
        """One value for each group: by the bin of its weight, or the mean over the cells of a number and the weight."""
        if law is None:
            return np.asarray(scores[self.bin])
        code, column = self.codes
        known = code < law.weight.shape[0]  # a missing value or a special code has no place among the numbers
        place = np.minimum(code, law.weight.shape[0] - 1)
        values = np.where(known, getattr(law, whole)[place, column], scores[column])
        mass = np.where(known, law.table[place, column], law.table.min())
        groups = len(self.bin)
        return np.asarray(
            np.bincount(self.labels, mass * values, minlength=groups) / np.bincount(self.labels, mass, minlength=groups)
        )


def _number_of(estimand: Estimand, schema: Schema, weighting: Weighting) -> str:
    """The number whose law with the weight is used: the one a question is about, or the only one in its conditions."""
    if weighting.column not in schema.weights:
        return ""
    asked = {name for atom in estimand.question.atoms if atom.kind in NUMBERS for name in atom.names}
    names = asked or {name for name in estimand.margin if schema[name].kind != "levels"}
    names -= {weighting.column}
    if len(names) != 1 or not all(schema[name].kind != "levels" and schema[name].bins > 1 for name in names):
        return ""
    return names.pop()


def _law(
    release: Release,
    weighting: Weighting,
    number: str,
    *,
    correlation: float | None = None,
    counted: tuple[Floats | None, Floats | None] = (None, None),
) -> Inside | None:
    """The law of a number and the weight inside cells. ``counted``: other counts of the cells of both grids."""
    if not number:
        return None
    names = number, weighting.column
    grids = [Grid.of(bins_of(release.schema[name]), counted=own) for name, own in zip(names, counted, strict=True)]
    return inside_cells(grids[0], grids[1], _together(release, *names), correlation=correlation)


def _strongest(law: Inside) -> float:
    return STRONGEST if law.correlation > 0 else -STRONGEST


def _rough(estimand: Estimand, release: Release, weighting: Weighting, number: str, law: Inside | None) -> float:
    """By how much the tables of a question's attributes with the weight deviate from what is assumed inside cells."""
    schema, column = release.schema, weighting.column
    if column not in schema.weights:
        return 0.0
    if len(filled_bins(_shares(release, column))) < LEAST_FILLED:
        return 1.0  # a line fits any two bins, so the tables show nothing of what is assumed
    bins = bins_of(schema[column])
    logs = np.array([inside @ np.log(points) for points, inside in map(bins.nodes, range(len(bins.low)))])
    effect = 1.0 if schema.design is None else schema.design.effect(estimand.margin) or 1.0
    found = 0.0
    for name in estimand.margin:
        if name == column:
            continue
        margin = schema.margin((name, column))
        counts, variance = _counts(release, margin)
        table = counts.reshape(schema.shape(margin))
        table = table if margin[0] == name else table.T
        if name == number and law is not None:
            table = table[: schema[name].bins]
        law_of = law.copula if name == number and law is not None else trend_of(table, logs)
        found = max(found, roughness(table, law_of, variance, effect))
    return found


def _together(release: Release, number: str, column: str) -> Floats:
    """Counts of the cells of a number and the weight."""
    schema = release.schema
    margin = schema.margin((number, column))
    bins = schema[number].bins, schema[column].bins
    found = _counts(release, margin)[0].reshape(schema.shape(margin))
    found = found if margin[0] == number else found.T
    kept = found[: bins[0], : bins[1]]
    return kept if kept.sum() > 0 else np.ones(bins)


def by_public_totals(estimand: Estimand, schema: Schema, column: str) -> Floats | None:
    """The quantities of a question, given before it is weighted, if the schema declares them: it is about one attribute
    whose totals in the population are public."""
    if schema.weight is None or column != schema.weight.column or len(estimand.margin) != 1:
        return None
    told = {one.attribute: one.totals for one in schema.weight.totals}
    if schema.design is not None and schema.design.populations:
        told.setdefault(schema.design.sampling_strata, schema.design.populations)
    (name,) = estimand.margin
    if name not in told or schema[name].kind != "levels" or any(part.model is not None for part in estimand.parts):
        return None
    totals = dict(told[name])
    people = np.array([totals[level_text(level)] for level in schema[name].levels])
    groups = np.asarray(np.bincount(estimand.labels, weights=people, minlength=estimand.groups), np.float64)[None, :]
    return np.asarray(estimand.evaluate(groups if estimand.of_counts else groups / people.sum())[0])


def _in_found_bins(part: Part, names: tuple[str, ...], schema: Schema) -> Part:
    """Numbers whose bins were found: how they lie inside bins was counted with noise, and that density is used.

    An interval for every place inside the bins would be several times as long as one of the survey itself.
    """
    if part.lowest is None or not all(schema[name].found for name in names):
        return part
    losses = tuple(f"'{name}' is known by bins; inside them its density is that of noisy counts" for name in names)
    return replace(part, lowest=None, highest=None, assumed=names, losses=losses)


def _of_population(part: Part, weighting: Weighting | None) -> Part:
    """A number of people, or a sum over people, is of the population: its size times a share."""
    if weighting is None or not part.of_counts:
        return part
    if weighting.population is None and weighting.sums_to_sample:
        raise UnsupportedError(
            "the weights add up to the number of rows, and the schema declares no population ([design] population), so "
            "a number of people is not known. Ask for a share, or with weighted=false for the number of records."
        )
    people = weighting.population

    def scaled(function: Evaluate) -> Evaluate:
        def evaluate(values: Floats) -> Floats:
            if people is None:
                return np.asarray(weighting.records * weighting.mean * function(values))
            return np.asarray(people * function(values / values.sum(axis=1, keepdims=True)))

        return evaluate

    return replace(
        part,
        of_counts=False,
        evaluate=scaled(part.evaluate),
        lowest=None if part.lowest is None else scaled(part.lowest),
        highest=None if part.highest is None else scaled(part.highest),
    )


def remarks(estimand: Estimand, schema: Schema) -> tuple[list[str], str | None]:
    """What to beware of in a weighted answer, and why it is no better than model-based, if it is not."""
    weighting = estimand.weighting
    assert weighting is not None  # noqa: S101 - the caller looked
    said = [f"weighted by {weighting.column}: the answer is about {weighting.about}"]
    if schema.design is not None and schema.design.sampling_strata:
        said.append(STRATA if len(estimand.parts) == 1 and not estimand.jumps else NO_STRATA)
    declared = weighting.records if weighting.sums_to_sample else weighting.population
    found = weighting.records * weighting.mean
    if declared is not None and not 1 / MOST_OFF <= found / declared <= MOST_OFF:
        said.append(OFF.format(found=found, declared=declared))
    if declared is None and 1 / ABOUT_ONE <= weighting.mean <= ABOUT_ONE:
        said.append(SCALED)
    kinds = {estimand.question.kind, *(atom.kind for atom in estimand.question.atoms)}
    if kinds & set(OF_COUNTS) and weighting.population is None:
        return said, ESTIMATED_SIZE
    shown = weighting.shown and kinds <= set(SHOWN) and len({*estimand.margin} - {weighting.column}) == 1
    return said, None if shown else NOT_SHOWN
