"""From noisy margins to a model, in one call. The regularisation is chosen from the noisy values alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.errors import InputError, UnsupportedError
from understudy.models.junction_tree import JunctionTree, Margin, axes_outside, cells_with, tree_cells
from understudy.models.levels import expected_levels
from understudy.models.model import Model
from understudy.models.regularised_fit import Problem, Solution
from understudy.models.smooth_bins import moved_to_curve
from understudy.models.trends import trends
from understudy.privacy.mechanisms.noise import Geometric
from understudy.privacy.randomness.draws import unit_interval

Known = Mapping[Margin, NDArray[np.int64]]
MAX_CELLS = 20_000_000  # of all cliques together
FACTORS = (1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)  # of the prior strengths, descending
FIRST_FACTORS = (10.0, 3.0)  # the search begins here, and continues on the better side
TRIAL_CELLS, MOST_TRIALS = 1_500, 8  # the bootstrap is repeated for small tables: cells to score, most repetitions
TRIAL_ITERATIONS = 40  # of one trial fit; it starts from the one with the prior strength before
SPLIT = 0.5  # how much noise the coupled bootstrap adds to the part it fits
LEAST_VARIANCE = 1e-3  # noise that is almost surely 0 must not make an infinite precision
ACCEPTED = 0.5  # the error of a table (see Solution), in noise standard deviations, that a fit may end with
# Movement of expected counts in four sweeps, in noise standard deviations, at which sweeps have settled. With more
# sweeps the rows got no better (docs/theory/margins.md).
SETTLED, TRIAL_SETTLED = 0.05, 0.1
# Cells times quasi-Newton steps of one attempt, and the steps it has at least and at most. A model of a million cells
# with hardly any noise would else be fitted for many minutes; a stronger prior ends sooner and is tried instead.
MOST_WORK = 1.5e8
FEWEST_STEPS, MOST_STEPS = 60, 500
LEAST_RECORDS = 1.0  # a prior strength of less than a record is no prior: smaller factors are not tried
WORSE = 4.0  # times the distance from the noisy tables: a stronger prior that makes it so much larger is no help
STRONGER, MOST_STRONGER = 3.0, 12  # if the fit does not converge: the factor on the prior strengths, and how often
ROUNDS = 20  # of proportional fitting, where several tables are public
EXACT_VARIANCE = 0.25  # of a public count: rounding, nothing else
LEAST_SHARE = 1e-6  # of a level in the one-way margins: never quite impossible, unless the schema says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a fit went. ``residual``: the largest remaining error of a table, the root of the mean square over its cells,
    in noise standard deviations. ``settled``: whether more sweeps would not move what cells hold.

    ``priors``: the prior strength of each table, in records that agree with independence. ``factor``: the multiple of
    them that the bootstrap chose; None if the prior strength was given. ``stronger``: by how much they were multiplied
    after that, because the fit did not converge without it.
    """

    priors: tuple[float, ...]
    factor: float | None
    iterations: int
    residual: float
    cells: int
    stronger: float = 1.0
    settled: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What a release says beside the numbers, if the prior is stronger than the noisy tables call for."""
        if self.stronger <= 1:
            return ()
        return (
            f"The fit did not converge with the prior strength that was chosen from the noisy tables. It was repeated "
            f"with {self.stronger:g} times that strength. The synthetic data show weak associations weaker than they "
            "were measured.",
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What every user of the model must be told. Nearly always there is nothing."""
        if self.settled or self.residual <= ACCEPTED:
            return ()
        return (
            f"The fit was stopped with an error of {self.residual:.2g} noise standard deviations in a table: the model "
            "agrees with the noisy tables less closely than the noise would allow",
        )

    @property
    def prior(self) -> float:
        """The median prior strength of the tables, in records."""
        return float(f"{np.median(self.priors):.3g}") if self.priors else 0.0


def structural_groups(schema: Schema) -> list[Margin]:
    """The attributes of structural zeros, each group once. A model keeps zeros exact by holding them in one clique."""
    return list(dict.fromkeys(schema.margin(rule.attributes) for rule in schema.zeros if len(rule.attributes) > 1))


def build_tree(schema: Schema, margins: Sequence[Margin], limit: int = MAX_CELLS) -> JunctionTree:
    """The junction tree for some margins and all structural zeros."""
    sizes = dict(zip(schema.names, schema.shape(), strict=True))
    zeros = structural_groups(schema)
    if zeros and tree_cells(sizes, zeros) > limit:
        worst = max(zeros, key=schema.cells)
        raise UnsupportedError(
            f"the structural zero over {' x '.join(worst)} needs tables with more than {limit:,} cells; use rules "
            "with fewer or smaller attributes."
        )
    return JunctionTree.build(sizes, [*margins, *zeros], limit)


def one_way_shares(schema: Schema, noisy: Noisy, total: float) -> dict[str, Floats]:
    """Log shares of each attribute's levels: the sums of all noisy tables, averaged by precision, and what
    they let expect (``expected_levels``)."""
    shares: dict[str, Floats] = {}
    for attribute in schema.attributes:
        allowed = schema.allowed((attribute.name,))
        summed, weight = np.zeros(attribute.size), 0.0
        for margin, table, variance in zip(noisy.margins, noisy.tables, noisy.variances, strict=True):
            if attribute.name in margin:
                precision = 1.0 / (variance * table.size / attribute.size)
                summed += precision * table.sum(axis=axes_outside(margin, (attribute.name,)))
                weight += precision
        if weight == 0:
            share = allowed / allowed.sum()
        else:
            share = expected_levels(summed / weight, 1.0 / weight, max(total, 1.0), allowed)
            share = np.where(allowed, np.maximum(share / share.sum(), LEAST_SHARE), 0.0)
        with np.errstate(divide="ignore"):
            shares[attribute.name] = np.log(share / share.sum())
    return shares


def _moved_to_curves(schema: Schema, noisy: Noisy, total: float) -> Noisy:
    """The tables, with the counts of found bins moved towards a smooth curve as far as noise hides them.

    Only of attributes that no table has together with others: moving all cells of a bin alike would change how it goes
    together with the rest.
    """
    joint = {name for margin in noisy.margins if len(margin) > 1 for name in margin}
    alone = {one.name: one for one in schema.attributes if one.found and one.name not in joint}
    tables = [
        table + moved_to_curve(alone[margin[0]], table, variance, total) if margin[0] in alone else table
        for margin, table, variance in zip(noisy.margins, noisy.tables, noisy.variances, strict=True)
    ]
    return replace(noisy, tables=tuple(tables))


def _zero_masks(schema: Schema) -> list[tuple[Margin, Floats]]:
    masks = []
    for margin in structural_groups(schema):
        masks.append((margin, np.where(schema.allowed(margin), 0.0, -np.inf)))
    return masks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Noisy:
    """Measurements laid out for the solver."""

    margins: tuple[Margin, ...]
    tables: tuple[Floats, ...]
    variances: tuple[float, ...]

    @property
    def values(self) -> Floats:
        return np.concatenate([table.ravel() for table in self.tables])

    @property
    def noise(self) -> Floats:
        pairs = zip(self.tables, self.variances, strict=True)
        return np.concatenate([np.full(table.size, variance) for table, variance in pairs])

    def spread(self, by_table: Sequence[float]) -> Floats:
        """One number per table as one per cell."""
        return np.concatenate([np.full(t.size, value) for t, value in zip(self.tables, by_table, strict=True)])


def layout(tables: Iterable[tuple[Margin, NDArray[Any], float]]) -> Noisy:
    """Tables with their noise variance. Tables of the same margin are averaged by precision; totals are left out."""
    gathered: dict[Margin, tuple[Floats, float]] = {}
    for margin, values, variance in tables:
        if margin:
            precision = 1.0 / max(variance, LEAST_VARIANCE)
            table, weight = gathered.get(margin, (np.zeros(values.shape), 0.0))
            gathered[margin] = (table + precision * values, weight + precision)
    return Noisy(
        margins=tuple(gathered),
        tables=tuple(table / weight for table, weight in gathered.values()),
        variances=tuple(1.0 / weight for _, weight in gathered.values()),
    )


def tables_of(measurements: Sequence[Measurement], known: Known) -> list[tuple[Margin, NDArray[Any], float]]:
    """Measured tables with the variance of their noise, and public tables with almost none.

    Noise whose mean depends on the count is corrected first, so that sums of cells are right on average.
    """
    measured = [
        (one.margin, getattr(one.mechanism, "unbiased", np.asarray)(one.values), one.mechanism.variance)
        for one in measurements
    ]
    return measured + [(margin, values, EXACT_VARIANCE) for margin, values in known.items()]


def fit(
    schema: Schema, measurements: Sequence[Measurement], *, total: float, prior: float | None = None,
    stream: Stream | None = None, known: Known | None = None, limit: int = MAX_CELLS, tolerance: float = 0.05,
    settled: float = SETTLED,
) -> tuple[Model, Report]:  # fmt: skip
    """The model nearest to independence that the noisy margins allow.

    ``prior`` is the prior strength of independence, in records, for all tables. By default each table has a prior
    strength of its own, estimated from its noisy values, times a factor that the coupled bootstrap chooses; this needs
    a ``stream``. ``total`` must be noisy or public. ``known`` are exact margins that are public under the unit: the
    model has them exactly, or nearly if there are several. There is always a model. The fit ends when no table is off
    by more than ``tolerance`` noise standard deviations, or when sweeps move it by less than ``settled``. If neither is
    reached, the prior is made stronger, which makes the fit easier, and the report says so. If a stronger prior takes
    the model far from the noisy tables, the nearest solution is kept, and the report says how far it is from an end.
    """
    if total <= 0:
        raise InputError(f"total ({total}) must be positive.")
    noisy = layout(tables_of(measurements, known or {}))
    tree = build_tree(schema, noisy.margins, limit)
    factor = None
    if prior is None:
        if stream is None:
            raise InputError("choosing the prior strength needs a stream of random words.")
        factor = choose_factor(schema, tree, noisy, measurements=measurements, total=total, stream=stream)
        priors = tuple(factor * one for one in table_priors(schema, noisy, total))
    else:
        priors = (prior,) * len(noisy.margins)
    noisy = _moved_to_curves(schema, noisy, total)
    problem = problem_for(schema, tree, noisy, total)
    iterations, stronger, nearest = 0, 1.0, float("inf")
    steps = min(max(int(MOST_WORK / tree.cells), FEWEST_STEPS), MOST_STEPS)
    for attempt in range(MOST_STRONGER + 1):
        found = problem.solve(
            noisy.values, noisy.noise, total, STRONGER**attempt * noisy.spread(priors), tolerance=tolerance,
            settled=settled, max_iterations=steps,
        )  # fmt: skip
        iterations += found.iterations
        ended = found.settled or found.residual <= max(ACCEPTED, tolerance)
        distance = 0.0 if ended and not attempt else _distance(found, tree, noisy, total)
        # A prior that is far stronger can do more harm than steps that are missing: then the nearest solution is kept.
        if distance < nearest or (ended and distance <= WORSE * nearest):
            solved, stronger = found, STRONGER**attempt
        if ended or distance > WORSE * nearest:
            break
        nearest = min(nearest, distance)
    priors = tuple(stronger * one for one in priors)
    model = Model(tree=tree, beliefs=tuple(solved.beliefs), total=total)
    # A public table may have few records in millions of cells, and the fit ends when cells are right on average.
    public = list((known or {}).items())
    for margin, counts in public * (ROUNDS if len(public) > 1 else 1):
        model = model.with_counts(margin, counts)
    return model, Report(
        priors=priors, factor=factor, iterations=iterations, residual=solved.residual, cells=tree.cells,
        stronger=stronger, settled=solved.settled,
    )  # fmt: skip


def _distance(solved: Solution, tree: JunctionTree, noisy: Noisy, total: float) -> float:
    """How far a solution is from the noisy tables: squares of differences, in variances of noise, at least one."""
    model = Model(tree=tree, beliefs=tuple(solved.beliefs), total=total)
    found = sum(
        float(((model.project(margin) - table) ** 2).sum()) / max(variance, EXACT_VARIANCE)
        for margin, table, variance in zip(noisy.margins, noisy.tables, noisy.variances, strict=True)
    )
    return max(found, 1.0)


def problem_for(schema: Schema, tree: JunctionTree, noisy: Noisy, total: float) -> Problem:
    base = one_way_shares(schema, noisy, total)
    return Problem(tree, noisy.margins, base, _zero_masks(schema), trends(schema, noisy.margins, base))


def table_priors(schema: Schema, noisy: Noisy, total: float) -> tuple[float, ...]:
    """The prior strength of each table, from the noisy values (``prior_strengths``)."""
    tables = list(zip(noisy.margins, noisy.tables, noisy.variances, strict=True))
    return prior_strengths(tables, shares=one_way_shares(schema, noisy, total), total=total)


def choose_factor(
    schema: Schema,
    tree: JunctionTree,
    noisy: Noisy,
    *,
    measurements: Sequence[Measurement],
    total: float,
    stream: Stream,
) -> float:
    """The multiple of the tables' prior strengths that predicts best, by the coupled bootstrap.

    (Oliveira, Lei and Tibshirani 2021.) Let w be drawn from the law of the noise. Then y* = y + sqrt(a) w and
    y' = y - w / sqrt(a) are uncorrelated (independent for Gaussian noise), so a fit to y* can be scored against y'
    without knowing the truth. The grid, a and w do not depend on the data: this is post-processing. The search starts
    in the middle of the grid, goes to the better side, and ends when the score rises. With few cells the result would
    depend on a single w; then several are averaged. Where only one-way margins were measured there is nothing to
    choose: they are independence.
    """
    if all(len(margin) < 2 for margin in tree.cliques):
        return 1.0
    usual = float(np.median(table_priors(schema, noisy, total)))
    cells = sum(table.size for table in noisy.tables)
    trials = [
        _Trial(schema, tree, noisy, measurements=measurements, total=total, stream=stream, number=number)
        for number in range(min(MOST_TRIALS, 1 + TRIAL_CELLS // max(cells, 1)))
    ]

    def score(factor: float) -> float:
        return sum(trial.score(factor) for trial in trials)

    strong, weak = FIRST_FACTORS
    scores = {strong: score(strong), weak: score(weak)}
    best = min(scores, key=scores.__getitem__)
    place = FACTORS.index(best)
    onward = FACTORS[place - 1 :: -1] if best == strong else FACTORS[place + 1 :]
    for factor in onward:
        if factor * usual < LEAST_RECORDS:
            break
        found = score(factor)
        if found >= scores[best]:
            break
        best, scores[factor] = factor, found
    return best


class _Trial:
    """One split of the noisy values: the model is fitted to one part and scored against the other."""

    def __init__(
        self, schema: Schema, tree: JunctionTree, noisy: Noisy, *, measurements: Sequence[Measurement], total: float,
        stream: Stream, number: int,
    ) -> None:  # fmt: skip
        drawn = layout(
            [
                (one.margin, _like_noise(one, stream, number, place), one.mechanism.variance)
                for place, one in enumerate(measurements)
            ]
        )
        extra = dict(zip(drawn.margins, drawn.tables, strict=True))  # public margins have no noise to split
        added = [
            extra.get(margin, np.zeros(table.shape)) for margin, table in zip(noisy.margins, noisy.tables, strict=True)
        ]
        starred = Noisy(
            margins=noisy.margins,
            tables=tuple(table + np.sqrt(SPLIT) * w for table, w in zip(noisy.tables, added, strict=True)),
            variances=tuple(variance * (1 + SPLIT) for variance in noisy.variances),
        )
        self._problem = problem_for(schema, tree, starred, total)
        self._values, self._noise, self._total = starred.values, noisy.noise, total
        self._held_out = noisy.values - np.concatenate([w.ravel() for w in added]) / np.sqrt(SPLIT)
        self._priors = noisy.spread(table_priors(schema, starred, total))
        self._start: Floats | None = None

    def score(self, factor: float) -> float:
        solved = self._problem.solve(
            self._values, self._noise, self._total, factor * self._priors,
            start=self._start, tolerance=TRIAL_SETTLED, max_iterations=TRIAL_ITERATIONS, settled=TRIAL_SETTLED,
            patient=False,
        )  # fmt: skip
        self._start = solved.vector
        errors = self._total * self._problem.expected(solved.beliefs) - self._held_out
        return float((errors**2 / self._noise).sum())


def _like_noise(measurement: Measurement, stream: Stream, *number: int) -> Floats:
    """Continuous noise with the law and the variance of a measurement's noise; a resumed run draws the same.

    It protects nothing: it only splits values that are public already.
    """
    from scipy.special import ndtri

    share = unit_interval(stream, measurement.values.size, "bootstrap", *number) + 2.0**-54
    spread = np.sqrt(measurement.mechanism.variance)
    if isinstance(measurement.mechanism, Geometric):
        drawn = -np.sign(share - 0.5) * np.log1p(-2 * np.abs(share - 0.5)) * (spread / np.sqrt(2))
    else:
        drawn = ndtri(share) * spread
    return np.asarray(drawn).reshape(measurement.values.shape)


# How far each table is from independence, by its noisy values and the known law of their noise.

RECORDS = np.geomspace(1.0, 100_000.0, 41)
ENOUGH = 10.0  # degrees of freedom at which a table's own estimate counts as much as the common one
USUAL = 100.0  # if no table has information about association


def prior_strengths(
    tables: Sequence[tuple[Margin, Floats, float]], *, shares: Mapping[str, Floats], total: float
) -> tuple[float, ...]:
    """The prior strength of each noisy table, in records that agree with independence (empirical Bayes).

    Each table is given with its noise variance v. Let q be the share of a cell under independence. A prior of r records
    lets the expected count differ from N q with variance N^2 q / r, to first order, and the noise adds v. So the
    departures e = y - N q are approximately normal with variance v + N^2 q / r. The estimate of r maximises their
    likelihood on a fixed grid, corrected for the degrees of freedom of the one-way margins. A table whose departures
    look like noise gets a large r; a table with a strong association gets a small one.

    The estimate from a table with few cells is mostly noise. So log r is shrunk towards the estimate from all tables
    together. One-way tables have no departures and get the common estimate. ``shares`` are logarithms. Only noisy
    values are used: this is post-processing.
    """
    found = [_log_likelihood(*table, shares=shares, total=total) for table in tables]
    said = [one for one in found if one is not None]
    common = float(RECORDS[np.argmax(sum(likelihood for likelihood, _ in said))]) if said else USUAL
    records = []
    for one in found:
        own, weight = common, 0.0
        if one is not None:
            likelihood, freedom = one
            own, weight = float(RECORDS[np.argmax(likelihood)]), freedom / (freedom + ENOUGH)
        records.append(float(own**weight * common ** (1 - weight)))
    return tuple(records)


def _log_likelihood(
    margin: Margin, table: Floats, variance: float, *, shares: Mapping[str, Floats], total: float
) -> tuple[Floats, float] | None:
    """The log likelihood of every prior strength on the grid, and the table's degrees of freedom."""
    freedom = float(prod(size - 1 for size in table.shape))
    if len(margin) < 2 or freedom <= 0:
        return None
    share = np.ones(())
    for name in margin:
        share = np.multiply.outer(share, np.exp(shares[name]))
    kept = share > 0
    left = freedom / table.size
    squares = (table[kept] - total * share[kept]) ** 2 / left
    spread = variance + total**2 * share[kept][None, :] / RECORDS[:, None]
    return -0.5 * left * (np.log(spread) + squares[None, :] / spread).sum(axis=1), freedom


# A model that is updated after every measurement, only as accurately as the choice of the next one needs.


ROUGHLY = 0.2  # noise standard deviations: what is left of a table then adds a twenty-fifth to its noise
MOST_ITERATIONS = 100  # of one refit: nearly always far fewer, as it starts from where it was


class Tracker:
    """The current model of an adaptive method; ``prior`` is the prior strength, in records, while choosing."""

    def __init__(
        self, schema: Schema, measured: Sequence[Measurement], *, known: Known, total: float, prior: float
    ) -> None:
        self._schema = schema
        self._measured = list(measured)
        self._known = known
        self._total = total
        self._prior = prior
        self._sizes = dict(zip(schema.names, schema.shape(), strict=True))
        self._margins: tuple[Margin, ...] = ()
        self._effects: dict[Margin, Floats] = {}
        self._cells: dict[Margin, float] = {}
        self._refit()

    @property
    def model(self) -> Model:
        return self._model

    def add(self, measurement: Measurement) -> None:
        known = measurement.margin in self._margins
        self._measured.append(measurement)
        if not known:
            self._cells = {}
        self._refit()

    def cells_with(self, margins: Sequence[Margin]) -> Floats:
        """Cells of the model if one of these margins were added, for each of them."""
        unknown = [margin for margin in margins if margin not in self._cells]
        apart = []
        for margin in unknown:
            if self._model.tree.host(margin) is None:
                apart.append(margin)
            else:  # its attributes share a clique already
                self._cells[margin] = float(self._model.tree.cells)
        self._cells.update(zip(apart, cells_with(self._sizes, self._groups(), apart), strict=True))
        return np.array([self._cells[margin] for margin in margins])

    def _groups(self) -> list[Margin]:
        return [*self._margins, *structural_groups(self._schema)]

    def _refit(self) -> None:
        noisy = layout(tables_of(self._measured, self._known))
        tree = build_tree(self._schema, noisy.margins)
        problem = problem_for(self._schema, tree, noisy, self._total)
        solved = problem.solve(
            noisy.values, noisy.noise, self._total, self._prior, start=problem.vector(self._effects),
            tolerance=ROUGHLY, max_iterations=MOST_ITERATIONS, settled=ROUGHLY,
        )  # fmt: skip
        self._margins, self._effects = noisy.margins, problem.effects(solved.vector)
        self._model = Model(tree=tree, beliefs=tuple(solved.beliefs), total=self._total)
