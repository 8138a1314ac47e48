"""Weighted questions: what the population is like that a weighted sample stands for.

A weighted sum over people is a sum over the bins of the weight: each bin counts by its score, about the mean weight in
it. So a weighted quantity is the unweighted one at weighted shares of the groups, and a question about some attributes
becomes one about these and the weight. Noise, sampling and labels then follow as for any other question; the sampling
of (answer, weight) pairs gives the with-replacement variance of the design-based estimator. Clusters and finite
populations multiply the sampling variance (``factor``). See docs/theory/survey-weights.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.bins import Bins, bins_of
from understudy.core.questions import OF_COUNTS
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.inference.estimands import Estimand, Evaluate, Part
from understudy.inference.evidence import public_records
from understudy.inference.noise_aware import estimated_records, influence, noisy_table
from understudy.release.table_release import Release

MOST_MOVED = 0.5  # standard errors by which the trend inside bins may change a quantity that is called valid
GOES_WITH = (
    "the answer goes strongly with the weight: what is assumed about weights inside their bins changes it by more than "
    "half a standard error"
)
LEAST_SHARE = 0.1  # of an equal share of the rows: an empty bin has no slope of its own
LEAST_NUMBER = 1e-9  # of people in a row that has none: a score of 0 would divide by 0
LEAST_SCORE = 0.25  # of the mean weight of a bin: the correction for trends inside bins makes no score smaller
# Kinds of questions whose weighted intervals were shown to cover, about one attribute (docs/benchmarks.md).
SHOWN = ("proportion", "count")
NOT_SHOWN = (
    "how often weighted intervals hold the truth has been shown for shares and numbers of people by one attribute, and "
    "not for this question"
)
NO_EFFECT = (
    "the sample was drawn in clusters, and the schema declares no design effect for all attributes of this question "
    "([design] design_effects): rows are taken as independent, so the interval may be too short"
)
NO_STRATA = "sampling strata are not used: intervals are somewhat longer than those of the stratified design"
ESTIMATED_SIZE = (
    "the size of the population is not declared ([design] population, or totals of the weight), so it is estimated by "
    "the sum of the weights, with mean weights of bins from noisy counts"
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
    records: float
    population: float | None  # as declared
    sums_to_sample: bool
    about: str = "the population"  # whom the answer is about
    shown: bool = True  # whether intervals were shown to cover: not where some rows have nobody the question is about
    bin_of_group: Integers | None = None  # for each group of a weighted question, the bin of its weight

    def factor(self, schema: Schema, names: tuple[str, ...], rows: int) -> tuple[float, str | None]:
        """By how much the sampling variance differs from that of independent draws of (answer, weight) pairs.

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
        return self.within * effect * (1 - fraction), untold


def chosen_weight(release: Release, weighted: bool | str | None) -> str | None:
    """The weight that a question uses, by its column or by the kind of people a row stands for; ``None``: it is about
    the rows."""
    schema = release.schema
    if isinstance(weighted, str) and weighted in release.numbers:
        return weighted
    if weighted is None:
        return schema.weight.column if schema.weight is not None else None
    if isinstance(weighted, str):
        if weighted not in schema.weights:
            known = (*schema.weights, *release.numbers)
            raise unknown_name("weight", weighted, known or ("none: the schema declares no [weight]",))
        return weighted
    if not isinstance(weighted, bool):
        raise InputError(f"weighted ({weighted!r}) must be true, false or the column of a weight.")
    if weighted and schema.weight is None:
        raise InputError("the schema declares no [weight], so nothing can be weighted.")
    return schema.weight.column if weighted and schema.weight is not None else None


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
    population = None if schema.design is None else schema.design.size
    if weight.totals:
        population = weight.totals[0].sum
    return Weighting(
        column=column,
        scores=scores,
        plain=plain / float(shares @ plain),
        mean=mean,
        spread=max(second / mean**2, own),
        within=max(second / mean**2 / own, 1.0),
        records=records,
        population=population,
        sums_to_sample=weight.sums_to == "sample",
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
    moved = np.zeros(size)
    for number in range(size):
        before, after = max(number - 1, 0), min(number + 1, size - 1)
        if after > before:
            slope = missed[number] / (log_mean[after] - log_mean[before])
            moved[after] += slope / share[after]
            moved[before] -= slope / share[before]
    with np.errstate(divide="ignore"):
        least = np.where(moved < 0, (LEAST_SCORE - 1) * mean / np.minimum(moved, -1e-300), np.inf).min()
    scores = mean + min(1.0, float(least)) * moved
    average = float(shares @ scores)
    return scores / average, float(shares @ mean), float(shares @ square)


def _shares(release: Release, column: str) -> Floats:
    """The share of every bin of the weight: from all noisy tables that hold it, or from the synthetic tables."""
    schema, size = release.schema, release.schema[column].bins
    counts, precision = np.zeros(size), np.zeros(size)
    for one in release.measurements:
        if column in one.margin and one.cells == "all":
            table = noisy_table(schema, one, (column,), None)
            counts[table.cells] += table.values / table.variances
            precision[table.cells] += 1 / table.variances
    if precision.all():
        found = np.maximum(counts / precision, 0.0)
    else:
        found = np.mean([release.coded(copy).counts((column,)) for copy in range(1, release.copies + 1)], axis=0)
    if found.sum() <= 0:
        raise UnsupportedError("noise hides the weights of this release, so nothing weighted can be said from it.")
    return np.asarray(found / found.sum(), np.float64)


def _records(release: Release) -> float:
    known = public_records(release)
    if known is not None:
        return float(known)
    measured = any(one.cells == "all" for one in release.measurements)
    return estimated_records(release) if measured else float(release.rows[0])


def weighted(estimand: Estimand, schema: Schema, weighting: Weighting) -> Estimand:
    """The same question about the population that the weighted sample stands for."""
    column = weighting.column
    margin = schema.margin({*estimand.margin, column})
    grid = np.indices(schema.shape(margin)).reshape(len(margin), -1)
    codes = dict(zip(margin, grid, strict=True))
    own = np.ravel_multi_index([codes[name] for name in estimand.margin], schema.shape(estimand.margin))
    pairs = np.stack([estimand.labels[own], codes[column]], axis=1)
    distinct, labels = np.unique(pairs, axis=0, return_inverse=True)
    scores = weighting.scores[distinct[:, 1]][:, None]
    return replace(
        estimand,
        margin=margin,
        labels=labels.reshape(-1).astype(np.int64),
        groups=len(distinct),
        parts=tuple(
            _of_population(_in_found_bins(part, atom.names, schema), weighting)
            for part, atom in zip(estimand.parts, estimand.question.atoms, strict=True)
        ),
        members=tuple(member[distinct[:, 0]] * scores for member in estimand.members),
        weighting=replace(weighting, bin_of_group=distinct[:, 1]),
    )


def goes_with_weights(estimand: Estimand, shares: Floats, errors: Floats) -> Flags:
    """Which quantities depend on what is assumed inside the bins of the weight: those that the trend inside bins
    changes by much, beside their standard errors."""
    weighting = estimand.weighting
    assert weighting is not None and weighting.bin_of_group is not None  # noqa: S101, PT018 - the caller looked
    times = (weighting.plain / weighting.scores)[weighting.bin_of_group][:, None]
    without = replace(estimand, members=tuple(member * times for member in estimand.members))
    with np.errstate(all="ignore"):
        moved = np.abs(estimand.evaluate(shares[None, :]) - without.evaluate(shares[None, :]))[0]
    return np.asarray(~(moved <= MOST_MOVED * errors))


def _in_found_bins(part: Part, names: tuple[str, ...], schema: Schema) -> Part:
    """Numbers whose bins were found: how they lie inside bins was counted with noise, and that density is used.

    An interval for every place inside the bins would be several times as long as one of the survey itself.
    """
    if part.lowest is None or not all(schema[name].found for name in names):
        return part
    losses = tuple(f"'{name}' is known by bins; inside them its density is that of noisy counts" for name in names)
    return replace(part, lowest=None, highest=None, assumed=names, losses=losses)


def _of_population(part: Part, weighting: Weighting) -> Part:
    """A number of people, or a sum over people, is of the population: its size times a share."""
    if not part.of_counts:
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


def sampling_error(estimand: Estimand, shares: Floats, simulated: Floats) -> Floats:
    """The standard error of independent draws of (answer, weight) pairs, by linearisation: that of a design with
    replacement. A quantile jumps from bin to bin and has the ``simulated`` one."""
    weighting = estimand.weighting
    assert weighting is not None  # noqa: S101 - the caller looked
    if estimand.jumps:
        return simulated
    with np.errstate(all="ignore"):
        slopes = influence(estimand, shares)
        centred = slopes - shares @ slopes
        found = np.sqrt(shares @ centred**2 / max(weighting.records, 1.0))
    return np.where(np.isfinite(found) & np.isfinite(simulated), found, simulated)


def remarks(estimand: Estimand, schema: Schema) -> tuple[list[str], str | None]:
    """What to beware of in a weighted answer, and why it is no better than model-based, if it is not."""
    weighting = estimand.weighting
    assert weighting is not None  # noqa: S101 - the caller looked
    said = [f"weighted by {weighting.column}: the answer is about {weighting.about}"]
    if schema.design is not None and schema.design.sampling_strata:
        said.append(NO_STRATA)
    kinds = {estimand.question.kind, *(atom.kind for atom in estimand.question.atoms)}
    if kinds & set(OF_COUNTS) and weighting.population is None:
        return said, ESTIMATED_SIZE
    shown = weighting.shown and kinds <= set(SHOWN) and len({*estimand.margin} - {weighting.column}) == 1
    return said, None if shown else NOT_SHOWN
