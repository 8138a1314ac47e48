"""Exact posteriors of what a release was made from, without Markov chains.

``beta_binomial``: a share, from M copies of a binary attribute (Charest 2010, section 4.4). ``dirichlet_multinomial``:
a table, from M Dirichlet draws of it. ``noisy_table``: a table, from noisy counts of its cells. The theory is in
docs/theory/exact-posterior.md. Randomness for draws is an explicit generator: it protects nobody, it only computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.core.arrays import Floats, Integers
from understudy.errors import InputError, UnsupportedError
from understudy.inference.latent_table import NATS, Column, LatentTable, newton_tilt, power
from understudy.privacy.exact.dirichlet_profile import log_rising

WIDEST = 20_000_000  # how far noise on an unknown number of people may reach
MOST_RECORDS = 10**15  # a damaged file may say more; whole numbers are then no longer exact in floating point


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TablePosterior:
    """The posterior of a table of counts x and of the shares p it was sampled from: p given x is Dirichlet(prior + x).

    ``method`` says whether numbers are exact or, beyond a stated size, from a saddlepoint approximation.
    """

    latent: LatentTable
    prior: Floats
    constant: float
    top: int
    method: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", self.latent.method)

    @property
    def log_evidence(self) -> float:
        """log of the probability of the release under the model; differences are log Bayes factors."""
        return self.latent.log_evidence + self.constant

    @property
    def cell_mean(self) -> Floats:
        """Posterior mean of the count of every cell."""
        return self.latent.cell_means()

    def cell_weights(self, cell: int) -> Floats:
        """Posterior probabilities that a cell holds 0, 1, ..., the largest number considered."""
        x, law = self.latent.cell_law(cell)
        weights = np.zeros(max(self.top, int(x[-1])) + 1)
        weights[x] = law
        return weights

    @property
    def work(self) -> int:
        """How many numbers one draw of the table takes at most."""
        return self.latent.work

    def draws(self, size: int, rng: np.random.Generator) -> Integers:
        """Independent draws of the whole table, one per row."""
        return self.latent.draws(size, rng)

    def share_draws(self, counts: Integers, rng: np.random.Generator) -> Floats:
        """For drawn tables, draws of the shares they were sampled from."""
        gammas = rng.standard_gamma(counts + self.prior)
        # A cell with a tiny prior and no count can underflow to 0. Not all cells can, because they have a total.
        return np.asarray(gammas / np.maximum(gammas.sum(axis=1, keepdims=True), np.finfo(float).tiny))


def dirichlet_multinomial(
    released: ArrayLike, *, records: int, alpha: ArrayLike, prior: ArrayLike = 0.5
) -> TablePosterior:
    """The table behind M Dirichlet draws of it: p ~ Dirichlet(prior), x ~ Multinomial(records, p), and each released
    row i is a draw of the Dirichlet-multinomial law with parameter alpha + x.

    ``released`` is (M, k). ``alpha`` is one number, one for each cell, or (M, k); ``prior`` one number or one for each
    cell. Identical columns are computed once.

    >>> posterior = dirichlet_multinomial([[1, 3]], records=2, alpha=1.0, prior=1.0)
    >>> posterior.cell_weights(0).round(4).tolist(), round(posterior.log_evidence, 4)
    ([0.4762, 0.381, 0.1429], -1.6094)
    """
    from scipy.special import gammaln

    drawn = _whole(released, "released", 2)
    copies, cells = drawn.shape
    n = _size(records, "records")
    pseudo = _positive(alpha, "alpha", (copies, cells))
    weights = _positive(prior, "prior", (cells,))
    rows = drawn.sum(axis=1)
    distinct, classes = _classes(drawn, pseudo, weights[None, :])
    m, a, g = distinct[:, :copies], distinct[:, copies : 2 * copies], distinct[:, -1]

    def factor(index: Integers, x: Integers) -> Floats:
        index = index[:, 0]
        value = log_rising(g[index, None], x) - gammaln(x + 1.0)
        for copy in range(copies):
            value = value + log_rising(a[index, copy, None] + x, m[index, copy, None])
        return np.asarray(value)

    with np.errstate(divide="ignore", invalid="ignore"):
        share = (m / np.maximum(rows, 1)) * (pseudo.sum(axis=1) + n) - a
    guesses = np.clip(np.nan_to_num(share.mean(axis=1)) if copies else np.zeros(len(m)), 0, n)
    times = np.bincount(classes, minlength=len(distinct))
    columns = find_columns(factor, guesses, n, times, n)
    constant = float(gammaln(n + 1) - log_rising(weights.sum(), n))
    constant += float((gammaln(rows + 1.0) - log_rising(pseudo.sum(axis=1) + n, rows)).sum())
    constant -= float(gammaln(drawn + 1.0).sum())
    latent = LatentTable(columns=columns, classes=classes, total=n)
    return TablePosterior(latent=latent, prior=weights, constant=constant, top=n)


def noisy_table(
    noisy: ArrayLike,
    *,
    mechanism: Any,
    records: int | None = None,
    prior: ArrayLike = 0.5,
    cells: ArrayLike = 1,
    clamped: bool = False,
    measured: ArrayLike = True,
    total: tuple[int, Any] | None = None,
    again: Sequence[tuple[Integers, Any, Integers]] = (),
) -> TablePosterior:
    """The table behind noisy counts of its cells, by the mechanism's own law.

    ``records`` is the public number of people under ``replace``; under ``add_remove`` it is not known: every number of
    people is then equally likely beforehand, and ``total`` may hold a noisy total with its mechanism. ``cells``: how
    many noisy cells were added up in each number. ``clamped``: negative noisy counts were set to 0 (single cells only).
    ``measured`` is false for cells without a noisy count: with a known total, all but one cell tell everything.
    ``again``: the same cells measured once more (counts, mechanism, cells) with noise of its own; likelihoods multiply.
    """
    from scipy.special import gammaln

    values = _whole(noisy, "noisy", 1)
    weights = _positive(prior, "prior", values.shape)
    merged = np.broadcast_to(np.asarray(cells, np.int64), values.shape)
    if (merged < 1).any() or (clamped and (merged > 1).any()):
        raise InputError("cells must be at least 1, and exactly 1 for counts that were clamped.")
    laws = {int(count): SumOfNoise(mechanism=mechanism, count=int(count)) for count in np.unique(merged)}
    widest = max(law.reach for law in laws.values())
    if records is None:
        if widest > WIDEST:
            raise UnsupportedError(
                f"the noise (scale {float(mechanism.scale):g}) is so wide that a number of people that is not public "
                "cannot be told from it."
            )
        extra = 0 if total is None else max(0, total[0])
        top = int(max(values.max(initial=0), extra, 0)) + widest + 50
    else:
        top = _size(records, "records")
    seen = np.broadcast_to(np.asarray(measured, bool), values.shape)
    if records is None and not seen.all():
        raise InputError("without a known total every cell needs a noisy count.")
    more = [part[None, :] for counts, _, sums in again for part in (counts, sums)]
    distinct, classes = _classes(values[None, :], merged[None, :], weights[None, :], seen[None, :], *more)
    later = [
        _laws_again(distinct[:, place : place + 2], one[1])
        for place, one in zip(range(4, 4 + 2 * len(again), 2), again, strict=True)
    ]
    y, count, g = distinct[:, 0].astype(np.int64), distinct[:, 1].astype(np.int64), distinct[:, 2]

    def factor(index: Integers, x: Integers) -> Floats:
        value = np.asarray(log_rising(g[index[:, 0], None], x) - gammaln(x + 1.0))
        for row, place in enumerate(index[:, 0]):
            if not distinct[place, 3]:
                continue
            law = laws[int(count[place])]
            at = x[0] if len(x) == 1 else x[row]
            value[row] += law.log_at_most(-at) if clamped and y[place] <= 0 else law.log_pmf(y[place] - at)
            for found in later:
                value[row] += found[int(place)](at)
        return value

    times = np.bincount(classes, minlength=len(distinct))
    columns = find_columns(factor, np.clip(y.astype(np.float64), 0, top), top, times, records)
    whole = float(weights.sum())
    if records is not None:
        constant = float(gammaln(records + 1) - log_rising(whole, records))
        latent = LatentTable(columns=columns, classes=classes, total=records)
        return TablePosterior(latent=latent, prior=weights, constant=constant, top=top)
    latent = LatentTable(columns=columns, classes=classes, total_log=_total_law(whole, total))
    return TablePosterior(latent=latent, prior=weights, constant=0.0, top=top)


def _laws_again(classes: Floats, mechanism: Any) -> list[Callable[[Integers], Floats]]:
    """For every class the log likelihood of its second noisy count."""
    laws = {int(count): SumOfNoise(mechanism=mechanism, count=int(count)) for count in np.unique(classes[:, 1])}

    def law_of(noisy: int, law: SumOfNoise) -> Callable[[Integers], Floats]:
        return lambda x: np.asarray(law.log_pmf(noisy - x))

    return [law_of(int(noisy), laws[int(count)]) for noisy, count in classes]


def _total_law(whole: float, total: tuple[int, Any] | None) -> Callable[[Integers], Floats]:
    """h of docs/theory/exact-posterior.md: the normaliser of the Dirichlet-multinomial prior, and the noisy total."""
    from scipy.special import gammaln

    def law(totals: Integers) -> Floats:
        value = np.asarray(gammaln(totals + 1.0) - log_rising(whole, totals))
        if total is not None:
            value = value + total[1].log_pmf(np.full_like(totals, total[0]), totals)
        return value

    return law


def log_bayes_factor(first: TablePosterior, second: TablePosterior) -> float:
    """How much more probable the release is under the first model than under the second, in nats (Charest 5.2)."""
    return first.log_evidence - second.log_evidence


def _classes(*parts: NDArray[Any]) -> tuple[Floats, Integers]:
    """Cells that are alike in every respect are one class: the distinct columns, and the class of every cell."""
    stacked = np.concatenate([np.broadcast_to(part, (part.shape[0], parts[0].shape[1])) for part in parts]).T
    distinct, inverse = np.unique(stacked.astype(np.float64), axis=0, return_inverse=True)
    return distinct, inverse.reshape(-1).astype(np.int64)


def _whole(values: ArrayLike, name: str, dimensions: int) -> Integers:
    array = np.asarray(values)
    if array.ndim != dimensions or array.dtype.kind not in "iu" or array.size == 0:
        shape = "one row per copy and one column per cell" if dimensions == 2 else "one number per cell"
        raise InputError(f"{name} must hold whole numbers, {shape}.")
    if name == "released" and (array < 0).any():
        raise InputError(f"{name} cannot hold negative counts.")
    return array.astype(np.int64)


def _size(value: int, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise InputError(f"{name} ({value!r}) must be a whole number of at least 0.")
    if value > MOST_RECORDS:
        raise InputError(f"{name} ({float(value):.3g}) is more than any table has.")
    return int(value)


def _positive(values: ArrayLike, name: str, shape: Sequence[int]) -> Floats:
    try:
        array = np.broadcast_to(np.asarray(values, np.float64), tuple(shape))
    except ValueError:
        raise InputError(f"{name} must be one positive number, or one for each of {shape[-1]:,} cells.") from None
    if not np.isfinite(array).all() or (array <= 0).any():
        raise InputError(f"{name} must be positive in every cell.")
    return np.array(array)


# Where the factor of each cell has its mass: whole numbers far from there are never evaluated.
#
# A cell of a table of 100,000 people could hold any number from 0 to 100,000, but given a release it holds one of a
# few hundred. The mass is found on a coarse grid around a first guess (steps grow with the distance, so a narrow peak
# near the guess is seen and a far one is too), with the tilt that the wanted total needs; then only that window is
# evaluated.

Factor = Callable[[Integers, Integers], Floats]  # classes (D, 1) and whole numbers (D, P) or (1, P): log factors
SMALL = 300_000  # numbers up to which every column is evaluated everywhere
GROWTH = 1.08


def find_columns(factor: Factor, guesses: Floats, top: int, times: Integers, total: int | None) -> tuple[Column, ...]:
    """The columns of all classes on 0, ..., top, cut to where they matter for the wanted total (if it is known)."""
    count = len(guesses)
    if count * (top + 1) <= SMALL:
        everywhere = factor(np.arange(count)[:, None], np.arange(top + 1)[None, :])
        return tuple(Column(start=0, log=row) for row in everywhere)
    grid = _grids(guesses, top)
    log = factor(np.arange(count)[:, None], grid)
    tilt = 0.0
    if total is not None:
        with np.errstate(divide="ignore"):
            weighted = log + np.log(_weights(grid))  # a point stands for the whole numbers around it
        lengths = np.full(count, grid.shape[1])
        tilt = newton_tilt(grid.ravel().astype(np.float64), weighted.ravel(), lengths, times, total)
    value = log + tilt * grid
    inside = value > value.max(axis=1, keepdims=True) - NATS
    first = np.argmax(inside, axis=1)
    last = grid.shape[1] - 1 - np.argmax(inside[:, ::-1], axis=1)
    rows = np.arange(count)
    low = grid[rows, np.maximum(first - 1, 0)]
    high = grid[rows, np.minimum(last + 1, grid.shape[1] - 1)]
    columns = []
    for index in range(count):
        x = np.arange(low[index], high[index] + 1)
        columns.append(Column(start=int(low[index]), log=factor(np.array([[index]]), x[None, :])[0]))
    return tuple(columns)


def _grids(guesses: Floats, top: int) -> Integers:
    """For each class the points 0 to 3, the top, and points around its guess at growing distances; sorted."""
    steps = [0]
    while steps[-1] <= top:
        steps.append(max(steps[-1] + 1, round(steps[-1] * GROWTH)))
    around = np.array(steps)
    offsets = np.concatenate([-around[::-1], around[1:]])
    near = np.clip(np.rint(guesses).astype(np.int64), 0, top)[:, None] + offsets[None, :]
    ends = np.broadcast_to(np.array([0, 1, 2, 3, top]), (len(guesses), 5))
    return np.sort(np.clip(np.concatenate([near, ends], axis=1), 0, top), axis=1)


def _weights(grid: Integers) -> Floats:
    """How many whole numbers each point of a grid stands for; no number is counted twice for repeated points."""
    gaps = np.diff(grid, axis=1).astype(np.float64)
    weights = np.zeros(grid.shape)
    weights[:, 1:] += gaps / 2
    weights[:, :-1] += gaps / 2
    return weights


# The law of the sum of several noises: what a margin of a noisy table carries.
#
# A share asked of a noisy table is a sum of noisy cells, and its error is the sum of their noises. The law of the sum
# is the power of one characteristic function. Beyond what a transform resolves (about 1e-13 of the mode) the
# logarithm is continued in a straight line: these laws are log-concave, so the line lies above the truth and never
# makes a table look less possible than it is.

RESOLVED = 1e-12
FAR = 60.0  # scales that are tabulated for a single noise
WIDE = 500.0  # scales above it are tabulated on a coarser lattice
LONGEST = 20_000_000


@dataclass(slots=True, kw_only=True, eq=False)
class SumOfNoise:
    """``count`` independent noises of a mechanism with ``scale`` and ``log_pmf``, added up."""

    mechanism: Any
    count: int = 1
    reach: int = field(init=False)
    _step: int = field(init=False)  # wide noise is tabulated at multiples of this number
    _log: Floats = field(init=False)  # at distances 0, step, 2 step, ... of the sum; empty for a single noise

    def __post_init__(self) -> None:
        if not hasattr(self.mechanism, "log_pmf") or not hasattr(self.mechanism, "scale"):
            raise InputError(
                "noise needs a mechanism with a scale and a log_pmf, such as Geometric or DiscreteGaussian."
            )
        scale = float(self.mechanism.scale)
        self._step = max(1, math.floor(scale / WIDE))
        # A sum of many reaches as far as its standard deviation says; one noise as far as its own tail.
        single = math.ceil(FAR * scale) + 2
        self.reach = single if self.count == 1 else single + math.ceil(20 * scale * math.sqrt(self.count))
        self._log = np.zeros(0) if self.count == 1 else self._tabulated()

    def _single(self, mechanism: Any, far: int) -> Floats:
        distance = np.arange(far + 1)
        return np.asarray(mechanism.log_pmf(distance, np.zeros_like(distance)))

    def _tabulated(self) -> Floats:
        from scipy.fft import next_fast_len

        # Noise much wider than a whole number is the same law on a coarser lattice, up to (step / scale)^2.
        coarse = (
            type(self.mechanism)(scale=float(self.mechanism.scale) / self._step) if self._step > 1 else self.mechanism
        )
        single = math.ceil(FAR * float(coarse.scale)) + 2
        reach = math.ceil(self.reach / self._step)
        length = next_fast_len(2 * (reach + single) + 1, real=True)
        law = np.zeros(length)
        half = np.exp(self._single(coarse, single))
        law[: len(half)] = half
        law[-(len(half) - 1) :] = half[:0:-1]
        sums = np.fft.irfft(power(np.fft.rfft(law), self.count), length)[: reach + 1]
        resolved = sums > RESOLVED * sums[0]
        last = int(np.argmin(resolved)) - 1 if not resolved.all() else len(sums) - 1
        if last >= 1:
            log = np.log(sums[: last + 1])
        else:  # hardly any noise: at distance 1, one of the noises is 1 away from 0 and the others are 0
            near = self._single(coarse, 1)
            log = np.log(sums[0]) + np.array([0.0, near[1] - near[0] + math.log(self.count)])
        return np.asarray(log - math.log(self._step))

    def log_pmf(self, error: Integers) -> Floats:
        """log P(sum of the noises = error)."""
        distance = np.abs(np.asarray(error, np.int64))
        if self.count == 1:
            return np.asarray(self.mechanism.log_pmf(distance, np.zeros_like(distance)))
        place = distance / self._step
        top = len(self._log) - 1
        inside = np.minimum(np.floor(place).astype(np.int64), top - 1)
        # Between two points, and beyond the last, a straight line.
        return np.asarray(self._log[inside] + (place - inside) * (self._log[inside + 1] - self._log[inside]))

    def log_at_most(self, error: Integers) -> Floats:
        """log P(noise <= error) for errors of at most 0: what a count clamped to 0 says. Single noises only."""
        distance = np.abs(np.asarray(error, np.int64))
        far = max(self.reach, int(distance.max(initial=0)) + 2)
        if far > LONGEST:
            raise UnsupportedError(f"clamped counts with noise of scale {float(self.mechanism.scale):g} are too wide.")
        law = self._single(self.mechanism, far)
        # Summed from the far end; beyond the table the law falls by a constant factor, so its tail is geometric.
        slope = law[-1] - law[-2]
        tail = law[-1] + slope - math.log(-math.expm1(slope))
        upper = np.logaddexp.accumulate(np.concatenate([[tail], law[::-1]]))[1:][::-1]
        return np.asarray(upper[distance])


# A share from M synthetic copies of one binary attribute (Charest 2010, section 4.4): a finite mixture, not a chain.
#
# Given the latent count x the share is Beta(g1 + x, g2 + (n - x)); x has weight w(x) = BetaBin(x; n, g1, g2) prod_i
# BetaBin(x_i; rows, a1 + x, a2 + (n - x)). Both are computed for every x at once, and for a whole batch of releases
# by one matrix product: the paper's Markov chain is not needed.

GRID = 256
REFINE = 60


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BetaBinomialPosterior:
    """The posterior of a share. Everything has a leading axis if ``released`` had one (a batch of releases)."""

    weights: Floats  # of the latent counts 0, ..., n
    prior: tuple[float, float]
    log_evidence: Floats

    @property
    def records(self) -> int:
        return int(self.weights.shape[-1]) - 1

    @property
    def _parameters(self) -> tuple[Floats, Floats]:
        x = np.arange(self.records + 1, dtype=np.float64)
        return self.prior[0] + x, self.prior[1] + (self.records - x)

    @property
    def mean(self) -> Floats:
        a, b = self._parameters
        return np.asarray(self.weights @ (a / (a + b)))

    @property
    def sd(self) -> Floats:
        a, b = self._parameters
        centre = a / (a + b)
        inside = self.weights @ (centre * (b / (a + b)) / (a + b + 1))
        between = self.weights @ centre**2 - (self.weights @ centre) ** 2
        return np.asarray(np.sqrt(inside + np.maximum(between, 0)))

    def quantile(self, q: ArrayLike) -> Floats:
        """Quantiles of the share; several ``q`` give a last axis. A bracket from a grid, then bisection and Newton."""
        from scipy.special import betainc

        wanted = np.asarray(q, np.float64)
        if not ((wanted > 0) & (wanted < 1)).all():
            raise InputError("quantiles must lie strictly between 0 and 1.")
        a, b = self._parameters
        weights = self.weights.reshape(-1, self.records + 1)
        grid = np.linspace(0, 1, GRID + 1)
        below = weights @ betainc(a[:, None], b[:, None], grid[None, :])
        flat = np.atleast_1d(wanted).ravel()
        result = np.empty((len(weights), len(flat)))
        for row, cdf in enumerate(below):
            for column, target in enumerate(flat):
                place = int(np.clip(np.searchsorted(cdf, target), 1, GRID))
                result[row, column] = _solve(weights[row], a, b, target, (grid[place - 1], grid[place]))
        return np.asarray(result.reshape(self.weights.shape[:-1] + wanted.shape))

    def draws(self, size: int, rng: np.random.Generator) -> Floats:
        """Independent draws of the share: a latent count each, then a Beta variate.

        The frequencies of all latent counts are drawn at once, and the draws are put into random order. The law is the
        same as for draws one by one, in half the time.
        """
        weights = self.weights.reshape(-1, self.records + 1)
        times = rng.multinomial(size, weights / weights.sum(axis=1, keepdims=True))
        counts = np.tile(np.arange(self.records + 1), len(weights))
        counts = np.repeat(counts, times.ravel()).reshape(len(weights), size)
        shares = rng.beta(self.prior[0] + counts, self.prior[1] + (self.records - counts))
        return np.asarray(rng.permuted(shares, axis=1).reshape((*self.weights.shape[:-1], size)))


def _solve(weights: Floats, a: Floats, b: Floats, target: float, bracket: tuple[float, float]) -> float:
    from scipy.special import betainc

    used = weights > 1e-18 * weights.max()
    weights, a, b = weights[used], a[used], b[used]
    low, high = bracket
    for _ in range(REFINE):
        middle = (low + high) / 2
        if float(weights @ betainc(a, b, middle)) < target:
            low = middle
        else:
            high = middle
        if high - low <= 1e-13 * high:
            break
    return (low + high) / 2


def beta_binomial(
    released: ArrayLike,
    *,
    rows: int,
    records: int,
    alpha: tuple[float, float],
    prior: tuple[float, float] = (1.0, 1.0),
) -> BetaBinomialPosterior:
    """The share behind synthetic counts: p ~ Beta(prior), x ~ Binomial(records, p), and each released count is a draw
    of the beta-binomial law with ``rows`` rows and parameters alpha1 + x, alpha2 + (records - x).

    ``released`` is (M,) for one release, or (B, M) for a batch.

    >>> posterior = beta_binomial([30], rows=100, records=100, alpha=(15.65, 15.65))
    >>> round(float(posterior.mean), 3), round(float(posterior.sd), 3)
    (0.251, 0.088)
    """
    from scipy.special import betaln, gammaln

    drawn = np.asarray(released)
    if drawn.dtype.kind not in "iu" or drawn.ndim not in (1, 2) or drawn.size == 0:
        raise InputError("released must hold whole numbers: one for each copy, in a batch one row for each release.")
    for name, value in (("rows", rows), ("records", records)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise InputError(f"{name} ({value!r}) must be a whole number of at least 0.")
    if (drawn < 0).any() or (drawn > rows).any():
        raise InputError(f"released counts must lie between 0 and rows ({rows}).")
    for name, pair in (("alpha", alpha), ("prior", prior)):
        if len(pair) != 2 or not all(np.isfinite(value) and value > 0 for value in pair):
            raise InputError(f"{name} ({pair}) must be two positive numbers.")
    x = np.arange(records + 1)

    def log_law(count: NDArray[Any], size: int, first: Any, second: Any) -> Floats:
        ways = gammaln(size + 1.0) - gammaln(count + 1.0) - gammaln(size - count + 1.0)
        return np.asarray(ways + betaln(first + count, second + (size - count)) - betaln(first, second))

    # Each distinct released number once; a batch is then counts of numbers times this table.
    seen, place = np.unique(drawn, return_inverse=True)
    a, b = alpha[0] + x, alpha[1] + (records - x)
    table = log_law(seen[:, None], rows, a[None, :], b[None, :])
    batch = place.reshape(-1, drawn.shape[-1])
    times = np.zeros((len(batch), len(seen)))
    np.add.at(times, (np.repeat(np.arange(len(batch)), batch.shape[1]), batch.ravel()), 1.0)
    log = times @ table + log_law(x, records, prior[0], prior[1])
    top = log.max(axis=1, keepdims=True)
    weights = np.exp(log - top)
    total = weights.sum(axis=1, keepdims=True)
    evidence = (top + np.log(total))[:, 0]
    shape = drawn.shape[:-1]
    return BetaBinomialPosterior(
        weights=(weights / total).reshape((*shape, records + 1)),
        prior=(float(prior[0]), float(prior[1])),
        log_evidence=np.asarray(evidence.reshape(shape)),
    )
