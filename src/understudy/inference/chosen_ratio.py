"""A ratio whose question was chosen after others had seen part of its error: every ratio that is not rejected.

A ratio a / b is no normal number. Where noise makes b too large the ratio is too small, and so is its standard error,
which goes with 1 / b: both errors are on the same side, and a choice finds them. But for the true ratio r the number
a - r b is about normal around 0, whatever b is (Fieller). So r is left out only if a - r b is farther from 0 than its
own error reaches, with the allowance for the choice of the question. What was seen of that error is found for each r.
If b itself does not stand out, the interval has no upper end. See docs/theory/validation.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from understudy.core.arrays import Floats
from understudy.inference.estimands import Estimand
from understudy.inference.evidence import Drawn
from understudy.inference.joined_tables import Joined, half_width, sampling_variance, slopes_of
from understudy.inference.judge import BOUNDLESS
from understudy.inference.without_prior import PAIRS, Raw

TRIED, FARTHEST = 401, 1e4  # ratios that are tried, up to so many times the nearest one and down to one of so many
SIMULATED = 4 * PAIRS  # of the errors of both sides
PARTS = 41  # values of the part of an error that nobody could see, at which half an interval is computed


def chosen_ratio(
    later: Joined,
    estimand: Estimand,
    raw: Raw | None,
    drawn: Drawn,
    *,
    records: float,
    factor: float,
    level: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """The least and the largest ratio that tables which joined do not reject. ``factor``: how many times as much people
    vary as independent rows."""
    shares = drawn.shares.mean(axis=0)
    slopes = slopes_of(estimand.sides, shares)
    plain = factor == 1
    if raw is None or estimand.of_counts:
        values = estimand.sides(drawn.counts.astype(np.float64) if estimand.of_counts else drawn.shares)
        sides, errors = values.mean(axis=0), values - values.mean(axis=0)
    else:
        away = raw.deviations(SIMULATED, rng)
        sides = estimand.sides(raw.shares[None, :])[0]
        errors = (estimand.sides(raw.shares + away) - estimand.sides(raw.shares - away)) / 2
    errors = np.clip(np.nan_to_num(errors, nan=BOUNDLESS), -BOUNDLESS, BOUNDLESS)  # of a group that may be empty
    spread = errors.T @ errors / len(errors)

    def variances(weights: Floats) -> tuple[Floats, Floats]:
        """Of sums of both sides: the whole variance, and that which nobody could see."""
        whole = np.einsum("sr,st,tr->r", weights, spread, weights)
        people = np.zeros(len(whole))
        if not estimand.of_counts:
            people = np.nan_to_num(sampling_variance(estimand, slopes @ weights, shares, records))
            whole = whole + (factor - 1) * people
        if later.beside:
            return whole, whole * later.unseen(estimand, shares, records, plain=plain, slopes=slopes @ weights)
        shown = factor * people * later.seen(estimand, shares, records, slopes=slopes @ weights)
        return whole, np.maximum(whole - shown, 0.0)

    return ratios_not_rejected(sides, variances, level)


def ratios_not_rejected(
    sides: Floats, variances: Callable[[Floats], tuple[Floats, Floats]], level: float
) -> tuple[float, float]:
    """The least and the largest r, 0 or more, for which the first of ``sides`` less r times the second may be 0.

    ``variances``: of sums with some weights (2, sums), the variance of the error and the part that nobody could see.

    >>> exact = lambda weights: (1e-6 * (weights**2).sum(axis=0), 1e-6 * (weights**2).sum(axis=0))
    >>> np.round(ratios_not_rejected(np.array([0.2, 0.4]), exact, 0.95), 4).tolist()
    [0.4945, 0.5055]
    """
    # Noise can make fewer than no people. Moved to 0, |a - r b| becomes smaller for every r, so none is left out more.
    a, b = np.maximum(np.where(np.isfinite(sides), sides, 0.0), 0.0).tolist()
    whole, _ = variances(np.eye(2))
    size = np.sqrt(np.maximum(np.nan_to_num(whole), np.finfo(float).tiny))
    near = float(max(a, size[0]) / max(b, size[1]))
    tried = near * np.geomspace(1 / FARTHEST, FARTHEST, TRIED)
    ratios = np.unique(np.concatenate([[0.0], tried, [a / b] if b > 0 else []]))
    weights = np.column_stack([np.stack([np.ones_like(ratios), -ratios]), [0.0, -1.0]])  # the last: beyond every ratio
    whole, own = variances(weights)
    parts, halves = _halves(level)
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(whole > 0, np.clip(own / whole, 0.0, 1.0), 0.0)
        beyond = np.abs(weights.T @ [a, b]) - np.sqrt(whole) * np.interp(part, parts, halves)
    kept = np.flatnonzero(~(beyond > 0))
    first, last = int(kept[0]), int(kept[-1])

    def between(inner: int, outer: int) -> float:
        """Where between two tried ratios the error just reaches."""
        return float(np.interp(0.0, [beyond[inner], beyond[outer]], [ratios[inner], ratios[outer]]))

    return (
        0.0 if first == 0 else between(first, first - 1),
        np.inf if last >= len(ratios) - 1 else between(last, last + 1),
    )


@lru_cache
def _halves(level: float) -> tuple[Floats, Floats]:
    """Parts of a variance that nobody could see, and half an interval in standard errors for each."""
    parts = np.linspace(0, 1, PARTS)
    return parts, half_width(np.sqrt(parts), np.sqrt(1 - parts), level)
