"""Exact posteriors of what a release was made from, without Markov chains.

``beta_binomial``: a share, from M copies of a binary attribute (Charest 2010, section 4.4). ``dirichlet_multinomial``:
a table, from M Dirichlet draws of it. ``noisy_table``: a table, from noisy counts of its cells. The theory is in
docs/theory/exact-posterior.md. Randomness for draws is an explicit generator: it protects nobody, it only computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.core.arrays import Floats, Integers
from understudy.errors import InputError, UnsupportedError
from understudy.inference.latent import LatentTable
from understudy.inference.noise_law import SumOfNoise
from understudy.inference.windows import find_columns
from understudy.privacy.exact.dirichlet_profile import log_rising

WIDEST = 20_000_000  # how far noise on an unknown number of people may reach


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

    def draws(self, size: int, rng: np.random.Generator) -> Integers:
        """Independent draws of the whole table, one per row."""
        return self.latent.draws(size, rng)

    def share_draws(self, counts: Integers, rng: np.random.Generator) -> Floats:
        """For drawn tables, draws of the shares they were sampled from."""
        gammas = rng.standard_gamma(counts + self.prior)
        # A cell with a tiny prior and no count can underflow to 0; all of them at once cannot, having a total.
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
) -> TablePosterior:
    """The table behind noisy counts of its cells, by the mechanism's own law.

    ``records`` is the public number of people under ``replace``; under ``add_remove`` it is not known: every number of
    people is then equally likely beforehand, and ``total`` may hold a noisy total with its mechanism. ``cells`` says of
    how many noisy cells each number is the sum. ``clamped``: negative noisy counts were set to 0 (single cells only).
    ``measured`` is false for cells without a noisy count: with a known total, all but one cell tell everything.
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
    distinct, classes = _classes(values[None, :], merged[None, :], weights[None, :], seen[None, :])
    y, count, g = distinct[:, 0].astype(np.int64), distinct[:, 1].astype(np.int64), distinct[:, 2]

    def factor(index: Integers, x: Integers) -> Floats:
        value = np.asarray(log_rising(g[index[:, 0], None], x) - gammaln(x + 1.0))
        for row, place in enumerate(index[:, 0]):
            if not distinct[place, 3]:
                continue
            law = laws[int(count[place])]
            at = x[0] if len(x) == 1 else x[row]
            value[row] += law.log_at_most(-at) if clamped and y[place] <= 0 else law.log_pmf(y[place] - at)
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
    return int(value)


def _positive(values: ArrayLike, name: str, shape: Sequence[int]) -> Floats:
    try:
        array = np.broadcast_to(np.asarray(values, np.float64), tuple(shape))
    except ValueError:
        raise InputError(f"{name} must be one positive number, or one for each of {shape[-1]:,} cells.") from None
    if not np.isfinite(array).all() or (array <= 0).any():
        raise InputError(f"{name} must be positive in every cell.")
    return np.array(array)


# The two-cell case has a file of its own: it is done in batches. Imported last, as it uses what is above.
from understudy.inference.beta_binomial import BetaBinomialPosterior, beta_binomial  # noqa: E402

__all__ = [
    "BetaBinomialPosterior",
    "TablePosterior",
    "beta_binomial",
    "dirichlet_multinomial",
    "log_bayes_factor",
    "log_rising",
    "noisy_table",
]
