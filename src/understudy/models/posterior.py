"""The posterior of a log-linear model given noisy tables: Laplace's approximation, corrected by importance weights.

The records are a sample from a population with cell shares p_theta (``models/effects.py``). Tables count them, and
noise of a known law is added. Let F be the sum of the records' contrasts, m = E F = n mu(theta), S = Cov F =
n Sigma(theta), and z the least-squares measurement of F with noise covariance V. Then

    log p(theta | tables) = -1/2 theta' P theta - 1/2 log|S + V| - 1/2 (z - m)' (S + V)^-1 (z - m) + constant.

A sum over many records is approximately normal. So is z, a weighted sum of many noise terms with their exact variance.
The effect of the noise's shape on the tails of a quantity is added at the end (``inference/noise_aware.py``).

Draws come from a t distribution at the mode. Their importance weights are target over proposal, and a few rounds move
the proposal to the weighted moments. The effective sample size decides whether the result is accurate
(``LEAST_EFFECTIVE``); if not, the draws are not used (``inference/noise_aware.py``). If n is not public, it is a
parameter. Its prior makes every value of F (not of F/n) equally likely a priori for all n. See
docs/theory/noise-aware.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.phases import tell
from understudy.core.schema import Schema
from understudy.errors import ConvergenceError, InputError
from understudy.models.effects import Effects, NoisyTable, Reduced, effects_of, make_effects, reduce_tables
from understudy.models.fit import EXACT_VARIANCE, LEAST_VARIANCE, Known, build_tree, fit
from understudy.models.junction_tree import JunctionTree, Margin
from understudy.models.model import Model
from understudy.privacy.randomness.draws import unit_interval

DEGREES = 8  # of freedom of the proposal: tails heavier than any posterior here
ITERATIONS = 80
LONGEST_STEP = 2.0  # of a Newton step, on the log scale of a cell
ROUNDS = 12
PER_ROUND = 1000
ENOUGH = 1500  # effective draws after which no further round is made
LEAST_EFFECTIVE = 400  # fewer effective draws: the approximation is not accurate
BLOCK = 2**23  # numbers held at once
HIDDEN = 3.0  # an estimated number of records is compatible with zero within so many noise standard deviations
LARGEST_WORK = 2.0e10  # multiplications for covariances that depend on theta; above it they are those at the mode
TINY = 1e-12


class Source(Protocol):
    """Where normal and uniform numbers come from: a numpy generator, or the stream of a run."""

    def standard_normal(self, size: tuple[int, ...]) -> Floats: ...

    def random(self, size: int) -> Floats: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """Weighted draws of the parameters (the log of n last, where n is not public)."""

    parameters: Floats
    weights: Floats
    effective: float

    @property
    def accurate(self) -> bool:
        return self.effective >= LEAST_EFFECTIVE

    def resample(self, size: int, source: Source) -> Floats:
        """Draws of equal weight, by systematic resampling in random order."""
        points = (np.arange(size) + source.random(1)[0]) / size
        places = np.searchsorted(np.cumsum(self.weights) / self.weights.sum(), points, side="right")
        return np.asarray(self.parameters[np.minimum(places, len(self.weights) - 1)][np.argsort(source.random(size))])


class Posterior:
    """The target density and its approximation. ``records`` is None where the number of people is not public."""

    def __init__(self, effects: Effects, reduced: Reduced, records: int | None) -> None:
        if records is not None and records < 1:
            raise InputError("this release was made from no records; nothing can be inferred from it.")
        self.effects = effects
        self.reduced = reduced
        self.records = records
        self._width = effects.parameters
        self._products: Floats | None = None  # of two columns, each pair once
        if len(effects.possible) * self._width**2 <= BLOCK:
            first, second = np.triu_indices(self._width)
            self._products = effects.columns[:, first] * effects.columns[:, second]
            self._places = np.zeros((self._width, self._width), np.int64)
            self._places[first, second] = self._places[second, first] = np.arange(len(first))
        self._frozen: Floats | None = None
        self._mode: tuple[Floats, Floats] | None = None
        self._response = np.zeros((0, 0))

    @property
    def dimension(self) -> int:
        return self._width + (self.records is None)

    def totals(self, parameters: Floats) -> Floats:
        """The number of records in each draw."""
        if self.records is not None:
            return np.full(len(parameters), float(self.records))
        return np.exp(np.minimum(parameters[:, -1], 60.0))

    def shares(self, parameters: Floats) -> Floats:
        """Shares of the possible cells, one row for each draw."""
        log = parameters[:, : self._width] @ self.effects.columns.T
        log -= log.max(axis=1, keepdims=True)
        weights = np.exp(log)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def _covariance(self, shares: Floats, means: Floats) -> Floats:
        """Cov of the contrasts of one record, for each draw."""
        if self._products is not None:
            second = np.take(shares @ self._products, self._places, axis=1)
        else:
            columns = self.effects.columns
            second = np.stack([(columns * share[:, None]).T @ columns for share in shares])
        return np.asarray(second - means[:, :, None] * means[:, None, :])

    def _expected(self, totals: Floats, means: Floats) -> Floats:
        scaled = totals[:, None] * means
        return scaled if self.records is not None else np.concatenate([totals[:, None], scaled], axis=1)

    def _sampling(self, totals: Floats, covariance: Floats) -> Floats:
        """Covariance of what is measured, by sampling and noise. Given n, n itself does not vary."""
        total = self.reduced.noise + np.zeros((len(totals), 1, 1))
        first = 0 if self.records is not None else 1
        total[:, first:, first:] += totals[:, None, None] * covariance
        return total

    def expected(self, parameters: Floats) -> Floats:
        """What is measured (F, or n and F), on average over samples of people, for each draw."""
        return self._expected(self.totals(parameters), self.shares(parameters) @ self.effects.columns)

    def measured_covariance(self, parameters: Floats) -> Floats:
        """Its covariance, sampling and noise together, for each draw."""
        shares = self.shares(parameters)
        return self._sampling(self.totals(parameters), self._covariance(shares, shares @ self.effects.columns))

    def lifted(self, across: Floats) -> Floats:
        """Covariances with F as covariances with what is measured. Given n, the covariances with n are 0."""
        return across if self.records is not None else np.insert(across, 0, 0.0, axis=-1)

    def log_density(self, parameters: Floats) -> Floats:
        """Up to a constant, one number for each row."""
        block = max(1, BLOCK // max(1, len(self.effects.possible) + 2 * self.dimension**2))
        return np.concatenate(
            [self._log_density(parameters[start : start + block]) for start in range(0, len(parameters), block)]
        )

    def _log_density(self, parameters: Floats) -> Floats:
        theta = parameters[:, : self._width]
        shares, totals = self.shares(parameters), self.totals(parameters)
        means = shares @ self.effects.columns
        left = self.reduced.estimate - self._expected(totals, means)
        if self._frozen is None:
            factor = np.asarray(np.linalg.cholesky(self._sampling(totals, self._covariance(shares, means))), np.float64)
            scaled = _forward(factor, left)
            log = -np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        else:
            scaled, log = left @ self._frozen, np.zeros(len(left))
        log = log - 0.5 * (scaled**2).sum(axis=1)
        log = log - 0.5 * np.einsum("si,ij,sj->s", theta, self.effects.precision, theta)
        if self.records is None:  # else a larger n would spread the same prior over more tables, and be less likely
            log = log + self._width * parameters[:, -1]
        return np.asarray(log)

    def mode(self) -> tuple[Floats, Floats]:
        """Where Fisher scoring ends, and the inverse of the information there."""
        if self._mode is None:
            self._mode = self._scored()
        return self._mode

    def response(self) -> Floats:
        """How the mode moves with what is measured, to first order: (parameters, n and F or F)."""
        self.mode()
        return self._response

    def _scored(self) -> tuple[Floats, Floats]:
        point = np.zeros(self.dimension)
        if self.records is None:
            point[-1] = math.log(self._first_total())
        precision = np.zeros((self.dimension, self.dimension))
        precision[: self._width, : self._width] = self.effects.precision
        first = 0 if self.records is not None else 1
        slowed = 1.0
        before = math.inf
        for done in range(ITERATIONS):
            tell("finding the mode of the posterior", done)
            row = point[None, :]
            shares, totals = self.shares(row), self.totals(row)
            means = shares @ self.effects.columns
            covariance = self._covariance(shares, means)
            total = self._sampling(totals, covariance)[0]
            slope = np.zeros((self.dimension, self.dimension))  # of what is expected, by the parameters
            slope[first:, : self._width] = totals[0] * covariance[0]
            if first:
                slope[:, -1] = self._expected(totals, means)[0]
            weighted = np.linalg.solve(total, slope)
            information = slope.T @ weighted + precision
            score = weighted.T @ (self.reduced.estimate - self._expected(totals, means)[0]) - precision @ point
            if first:
                score[-1] += self._width
            step = np.linalg.solve(information, score)
            decrement = float(score @ step)
            moved = float(np.abs(self.effects.columns @ step[: self._width]).max(initial=0.0))
            moved = max(moved, abs(float(step[-1]))) if first else moved
            # Scoring without the derivative of the covariance can swing around its end; shorter steps settle it.
            slowed = max(0.1, slowed * 0.7) if decrement > 0.9 * before else min(1.0, slowed * 1.2)
            before = decrement
            point = point + step * slowed * min(1.0, LONGEST_STEP / max(moved, TINY))
            if not np.isfinite(point).all():
                raise ConvergenceError("the mode of the posterior was not found: the search diverged.")
            if decrement < 1e-4:
                break
        spread = np.linalg.inv(information)
        self._response = np.asarray(spread @ weighted.T, np.float64)
        work = PER_ROUND * ROUNDS * (len(self.effects.possible) * self._width**2 / 2 + self.dimension**3)
        if work > LARGEST_WORK:
            self._frozen = np.linalg.inv(np.linalg.cholesky(total)).T
        return point, (spread + spread.T) / 2

    def _first_total(self) -> float:
        """Where the search for n begins: at its estimate or, where noise hides it, the mode of n^d N(estimate; n, V).

        Near 1 the expected information about log n, n^2/V, is so small that the search would not return from there.
        """
        found, variance = float(self.reduced.estimate[0]), float(self.reduced.noise[0, 0])
        if found > HIDDEN * math.sqrt(variance):
            return max(found, 1.0)
        return max((found + math.sqrt(found**2 + 4 * self.dimension * variance)) / 2, 1.0)

    def draw(self, source: Source, enough: float = ENOUGH) -> Sample:
        """Weighted draws: rounds of a thousand, until ``enough`` are effective or the last round is done.

        Every draw is weighted by the mixture of all proposals so far (adaptive multiple importance sampling, Cornuet et
        al. 2012). So the draws of every round are used, and a proposal that is too narrow does no lasting harm.
        """
        if not self.dimension:
            size = math.ceil(enough)
            return Sample(parameters=np.zeros((size, 0)), weights=np.full(size, 1 / size), effective=size)
        centre, spread = self.mode()
        proposals: list[_Proposal] = []
        parameters = np.zeros((0, self.dimension))
        target, mixture = np.zeros(0), np.zeros(0)
        sample = Sample(parameters=parameters, weights=target, effective=0.0)
        for done in range(ROUNDS):
            tell("drawing from the posterior", done, ROUNDS)
            proposal = _Proposal.at(centre, spread)
            drawn = proposal.draw(PER_ROUND, source)
            mixture = np.logaddexp(mixture, proposal.log_density(parameters)) if proposals else mixture
            proposals.append(proposal)
            of_new = np.logaddexp.reduce([one.log_density(drawn) for one in proposals], axis=0)
            parameters = np.concatenate([parameters, drawn])
            target = np.concatenate([target, self.log_density(drawn)])
            mixture = np.concatenate([mixture, of_new])
            sample = _weighted(parameters, target - mixture)
            if sample.effective >= enough:
                break
            centre, spread = self._moved(centre, spread, sample)
        return sample

    def _moved(self, centre: Floats, spread: Floats, drawn: Sample) -> tuple[Floats, Floats]:
        """The moments of the draws, with weights flattened until enough draws count, shrunk if too few do."""
        wanted = min(max(5.0 * self.dimension, 100.0), 0.5 * PER_ROUND)
        weights = _flattened(drawn.weights, wanted)
        trust = wanted / (wanted + self.dimension)
        mean = weights @ drawn.parameters
        away = drawn.parameters - mean
        found = (weights[:, None] * away).T @ away
        return centre + trust * (mean - centre), trust * found + (1 - trust) * spread


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Proposal:
    """A multivariate t distribution."""

    centre: Floats
    factor: Floats
    inverse: Floats

    @classmethod
    def at(cls, centre: Floats, spread: Floats) -> _Proposal:
        factor = np.asarray(np.linalg.cholesky(spread), np.float64)
        return cls(centre=centre, factor=factor, inverse=np.asarray(np.linalg.inv(factor), np.float64))

    def draw(self, size: int, source: Source) -> Floats:
        normal = source.standard_normal((size, len(self.centre)))
        mixing = (source.standard_normal((size, DEGREES)) ** 2).mean(axis=1)
        return np.asarray(self.centre + (normal / np.sqrt(mixing)[:, None]) @ self.factor.T)

    def log_density(self, parameters: Floats) -> Floats:
        """Up to a constant that is the same for all proposals of one dimension."""
        away = (parameters - self.centre) @ self.inverse.T
        kernel = -0.5 * (DEGREES + len(self.centre)) * np.log1p((away**2).sum(axis=1) / DEGREES)
        return np.asarray(kernel - np.log(np.diag(self.factor)).sum())


def _weighted(parameters: Floats, log: Floats) -> Sample:
    log = np.where(np.isfinite(log), log, -np.inf)
    if not np.isfinite(log).any():
        raise ConvergenceError("the posterior could not be evaluated at any draw.")
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    return Sample(parameters=parameters, weights=weights, effective=float(1 / (weights**2).sum()))


def _forward(factors: Floats, vectors: Floats) -> Floats:
    """Solutions of many lower triangular systems at once."""
    found = np.empty_like(vectors)
    for place in range(vectors.shape[1]):
        known = np.einsum("si,si->s", factors[:, place, :place], found[:, :place])
        found[:, place] = (vectors[:, place] - known) / factors[:, place, place]
    return found


def _flattened(weights: Floats, wanted: float) -> Floats:
    """The highest power of the weights with the wanted number of effective draws."""
    with np.errstate(divide="ignore"):
        log = np.log(weights / weights.max())
    low, high = 0.0, 1.0
    flat = weights
    for step in range(12):
        power = 1.0 if step == 0 else (low + high) / 2
        flat = np.exp(np.maximum(power * log, -700.0))
        flat = flat / flat.sum()
        if 1 / (flat**2).sum() >= wanted:
            if step == 0:
                break
            low = power
        else:
            high = power
    return np.asarray(flat)


# Whole models drawn from the noise-aware posterior, one for each synthetic copy.
#
# Copies from one fitted model share its errors, so the variance between them says nothing about the noise. A copy
# from a model of its own, drawn from the posterior given all noisy tables, varies by noise and by sampling. Then the
# rules for fully synthetic data (``T_f*``) hold. This is post-processing of public values: any number of draws costs
# no privacy. All randomness comes from the stream of the run.
#
# Small models (``DENSE_CELLS``, ``DENSE_EFFECTS``) are drawn from the posterior itself by importance weights. If
# the weights are uneven, random-walk Metropolis steps follow. For larger models each copy is fitted to a replicate of
# the measurements: the noisy values, plus the sampling error of as many records from the fitted model, plus new noise
# of the same law. To first order this is the same, apart from the prior strength in the fit.


DENSE_CELLS = 20_000
DENSE_EFFECTS = 120
STEPS_PER_PARAMETER = 15
JUMP = 2.38  # over the square root of the dimension: the best step of a random walk (Gelman, Roberts and Gilks 1996)


class StreamSource:
    """Normal and uniform numbers from the substream of a run. No privacy rests on them."""

    def __init__(self, stream: Stream, *purpose: str | int) -> None:
        self._stream = stream
        self._purpose = purpose

    def random(self, size: int) -> Floats:
        return unit_interval(self._stream, size, *self._purpose)

    def standard_normal(self, size: tuple[int, ...]) -> Floats:
        from scipy.special import ndtri

        drawn = ndtri(self.random(int(np.prod(size))) + 2.0**-54)
        return np.asarray(drawn).reshape(size)


def posterior_models(
    schema: Schema, measured: Sequence[Measurement], *, total: float, public_total: bool, copies: int,
    stream: Stream, known: Known, prior: float, fitted: Model,
) -> tuple[list[Model], str]:  # fmt: skip
    """One model for each copy, and how they were drawn."""
    margins = [margin for margin in dict.fromkeys([*(one.margin for one in measured), *known]) if margin]
    sizes = dict(zip(schema.names, schema.shape(), strict=True))
    effects = effects_of(margins)
    count = sum(int(np.prod([sizes[name] - 1 for name in effect])) for effect in effects)
    if schema.cells() <= DENSE_CELLS and count <= DENSE_EFFECTS:
        design = make_effects(schema, schema.names, margins)
        tables = [table_of(schema, one) for one in measured if one.margin or not public_total]
        tables += [_known_table(margin, values) for margin, values in known.items() if margin]
        records = round(total) if public_total else None
        posterior = Posterior(design, reduce_tables(design, tables, records), records)
        drawn = drawn_from(posterior, copies, StreamSource(stream, "posterior"))
        tree = build_tree(schema, margins)
        shares = posterior.shares(drawn)
        models = [_model(tree, design, share, total) for share in shares]
        return models, "Each copy has a model of its own, drawn from the noise-aware posterior of its parameters."
    models = [
        _replicate(schema, measured, copy=copy, stream=stream, known=known, prior=prior, fitted=fitted)
        for copy in range(1, copies + 1)
    ]
    return models, (
        "Each copy has a model of its own, fitted to its own replicate of the measurements (sampling and noise): the "
        "model is too large for draws from the posterior itself."
    )


def table_of(schema: Schema, measurement: Measurement) -> NoisyTable:
    """A measurement as it is, with its noise."""
    variance = max(float(measurement.mechanism.variance), LEAST_VARIANCE)
    cells = np.flatnonzero(schema.allowed(measurement.margin).reshape(-1)) if measurement.margin else np.zeros(1, int)
    if measurement.cells == "first":
        cells = cells[:1]
    values = measurement.values.reshape(-1)
    values = values if len(values) == len(cells) else values[cells]
    return NoisyTable(
        margin=measurement.margin,
        cells=cells,
        values=values.astype(np.float64),
        variances=np.full(len(cells), variance),
        excess=np.zeros(len(cells)),
    )


def _known_table(margin: Margin, values: NDArray[np.int64]) -> NoisyTable:
    flat = values.reshape(-1).astype(np.float64)
    cells = np.flatnonzero(flat)
    return NoisyTable(
        margin=margin,
        cells=cells,
        values=flat[cells],
        variances=np.full(len(cells), EXACT_VARIANCE),
        excess=np.zeros(len(cells)),
    )


def drawn_from(posterior: Posterior, copies: int, source: StreamSource) -> Floats:
    """Parameters of each copy: importance draws. If the weights are uneven, a random walk follows; the posterior is its
    stationary distribution."""
    sample = posterior.draw(source, max(LEAST_EFFECTIVE, 20 * copies))
    points = sample.resample(copies, source)
    if sample.effective >= max(LEAST_EFFECTIVE, 20 * copies) or not posterior.dimension:
        return points
    centre = sample.weights @ sample.parameters
    away = sample.parameters - centre
    spread = (sample.weights[:, None] * away).T @ away
    _, curvature = posterior.mode()
    factor = np.linalg.cholesky(spread + 0.05 * curvature) * (JUMP / np.sqrt(posterior.dimension))
    log = posterior.log_density(points)
    for _ in range(STEPS_PER_PARAMETER * posterior.dimension):
        moved = points + source.standard_normal(points.shape) @ factor.T
        found = posterior.log_density(moved)
        taken = np.log(source.random(copies) + 2.0**-54) < found - log
        points[taken], log[taken] = moved[taken], found[taken]
    return points


def _model(tree: JunctionTree, effects: Effects, share: Floats, total: float) -> Model:
    full = np.zeros(effects.shape)
    full.reshape(-1)[effects.possible] = share
    beliefs = []
    for clique in tree.cliques:
        others = tuple(place for place, name in enumerate(effects.margin) if name not in clique)
        beliefs.append(full.sum(axis=others))
    return Model(tree=tree, beliefs=tuple(beliefs), total=total)


def _replicate(
    schema: Schema, measured: Sequence[Measurement], *, copy: int, stream: Stream, known: Known, prior: float,
    fitted: Model,
) -> Model:  # fmt: skip
    """The model fitted to the noisy values after sampling error and noise were added once more."""
    rows = max(1, round(fitted.total))
    sample = fitted.draw(schema, rows, "multinomial", stream, "replicate", copy)
    moved = []
    for number, one in enumerate(measured):
        if not one.margin or one.cells == "first":
            moved.append(one)
            continue
        source = StreamSource(stream, "replicate noise", copy, number)
        noise = source.standard_normal(one.values.shape) * np.sqrt(one.mechanism.variance)
        sampling = sample.counts(one.margin) - fitted.project(one.margin)
        allowed = schema.allowed(one.margin)
        values = np.where(allowed, np.rint(one.values + sampling + noise), 0).astype(np.int64)
        moved.append(replace(one, values=values))
    model, _ = fit(schema, moved, total=fitted.total, prior=prior, stream=stream, known=known)
    return model
