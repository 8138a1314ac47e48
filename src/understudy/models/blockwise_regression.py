"""Least squares and logistic regression from blocks of rows, so that a wide design is never in memory as a whole.

Columns that add nothing to the ones before them (a level nobody has) are found from the cross products and left out;
their coefficients cannot be estimated and are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.errors import InputError

Blocks = Callable[[], Iterator[tuple[Floats, Floats, Floats]]]  # design, outcome, weights
DEPENDENT = 1e-9  # share of a column's sum of squares that must be left after the columns before it
ITERATIONS = 60
TOLERANCE = 1e-10
CERTAIN = 1e-7  # fitted probabilities this near to 0 or 1 mean separation: the likelihood has no maximum


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """Coefficients with their covariance. ``freedom`` is None for a normal approximation."""

    coefficients: Floats
    covariance: Floats
    used: NDArray[np.bool_]
    rows: int
    freedom: float | None
    converged: bool = True
    separated: bool = False

    @property
    def errors(self) -> Floats:
        return np.sqrt(np.maximum(np.diag(self.covariance), 0))


def independent_columns(gram: Floats) -> NDArray[np.bool_]:
    """Which columns are not linear combinations of those before them, from X'X: a Cholesky factor that skips.

    >>> independent_columns(np.array([[2.0, 2.0], [2.0, 2.0]])).tolist()
    [True, False]
    """
    size = len(gram)
    left = gram.astype(np.float64, copy=True)
    diagonal = np.diag(gram).copy()
    used = np.zeros(size, bool)
    for column in range(size):
        pivot = left[column, column]
        if diagonal[column] <= 0 or pivot <= DEPENDENT * diagonal[column]:
            continue
        used[column] = True
        direction = left[column] / pivot
        left -= np.outer(left[column], direction)
    return used


def fit_linear(blocks: Blocks) -> Fit:
    """Ordinary least squares with the usual covariance s^2 (X'X)^-1."""
    gram, moment, rows = _moments(blocks)
    used = independent_columns(gram)
    coefficients = np.full(len(gram), np.nan)
    inverse = _inverse(gram[np.ix_(used, used)])
    coefficients[used] = inverse @ moment[used]
    beta = np.where(used, coefficients, 0)
    residual = sum(float(np.sum(weight * (y - x @ beta) ** 2)) for x, y, weight in blocks())
    freedom = rows - int(used.sum())
    if freedom <= 0:
        raise InputError(f"a regression with {int(used.sum())} coefficients needs more than {rows} complete rows.")
    covariance = _spread(inverse * (residual / freedom), used)
    return Fit(coefficients=coefficients, covariance=covariance, used=used, rows=rows, freedom=float(freedom))


def fit_logit(blocks: Blocks) -> Fit:
    """Maximum likelihood by Newton's method with halved steps; says so if the outcome is separated."""
    gram, _, rows = _moments(blocks)
    used = independent_columns(gram)
    beta = np.zeros(len(gram))
    information, score, deviance, _ = _logit_pass(blocks, beta)
    converged = False
    certain = False
    for _ in range(ITERATIONS):
        step = np.zeros_like(beta)
        step[used] = _inverse(information[np.ix_(used, used)]) @ score[used]
        for _halving in range(20):
            new = _logit_pass(blocks, beta + step)
            if new[2] <= deviance + TOLERANCE * (abs(deviance) + 1):
                break
            step /= 2
        change = deviance - new[2]
        beta = beta + step
        information, score, deviance, certain = new
        if change <= TOLERANCE * (abs(deviance) + 1):
            converged = True
            break
    coefficients = np.where(used, beta, np.nan)
    covariance = _spread(_inverse(information[np.ix_(used, used)]), used)
    return Fit(
        coefficients=coefficients,
        covariance=covariance,
        used=used,
        rows=rows,
        freedom=None,
        converged=converged,
        separated=certain,
    )


def probabilities(x: Floats, fit: Fit) -> Floats:
    """Fitted probabilities of a logistic regression."""
    return _inverse_logit(x @ np.where(fit.used, fit.coefficients, 0))


def _moments(blocks: Blocks) -> tuple[Floats, Floats, int]:
    gram: Floats | None = None
    moment = np.zeros(0)
    rows = 0.0
    for x, y, weight in blocks():
        if gram is None:
            gram, moment = np.zeros((x.shape[1], x.shape[1])), np.zeros(x.shape[1])
        weighted = x * weight[:, None]
        gram += weighted.T @ x
        moment += weighted.T @ y
        rows += float(weight.sum())
    if gram is None or rows == 0:
        raise InputError("no row has a value for every attribute of the model.")
    return gram, moment, round(rows)


def _logit_pass(blocks: Blocks, beta: Floats) -> tuple[Floats, Floats, float, bool]:
    size = len(beta)
    information, score = np.zeros((size, size)), np.zeros(size)
    deviance, certain = 0.0, False
    for x, y, weight in blocks():
        linear = x @ beta
        p = _inverse_logit(linear)
        deviance += 2 * float(np.sum(weight * (np.logaddexp(0, linear) - y * linear)))
        score += x.T @ (weight * (y - p))
        information += (x * (weight * p * (1 - p))[:, None]).T @ x
        certain = certain or bool(np.any((p < CERTAIN) | (p > 1 - CERTAIN)))
    return information, score, deviance, certain


def _inverse_logit(linear: Floats) -> Floats:
    small = np.exp(-np.abs(linear))  # never overflows
    result: Floats = np.where(linear >= 0, 1, small) / (1 + small)
    return result


def _inverse(gram: Floats) -> Floats:
    """The (pseudo-)inverse of X'X with columns brought to one scale first: an income beside a share loses no digits."""
    scale = np.sqrt(np.diag(gram))
    scale = np.where(scale > 0, scale, 1.0)
    inverse: Floats = np.linalg.pinv(gram / np.outer(scale, scale), rcond=1e-13, hermitian=True)
    inverse /= np.outer(scale, scale)
    return inverse


def _spread(inner: Floats, used: NDArray[np.bool_]) -> Floats:
    whole = np.full((len(used), len(used)), np.nan)
    whole[np.ix_(used, used)] = inner
    return whole
