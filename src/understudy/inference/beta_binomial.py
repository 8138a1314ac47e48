"""A share from M synthetic copies of one binary attribute (Charest 2010, section 4.4): a finite mixture, not a chain.

Given the latent count x the share is Beta(g1 + x, g2 + (n - x)); x has weight
w(x) = BetaBin(x; n, g1, g2) prod_i BetaBin(x_i; rows, a1 + x, a2 + (n - x)). Both are computed for every x at once, and
for a whole batch of releases by one matrix product: the paper's Markov chain is not needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.core.arrays import Floats
from understudy.errors import InputError

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

        How often each latent count comes is drawn at once, and the draws are put into random order: the same law as
        one by one, in half the time.
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
