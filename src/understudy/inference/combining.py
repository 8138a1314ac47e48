"""Rules that combine estimates from several synthetic tables; each is right for one way of making them.

With m tables, estimates q_i and variances v_i; q the mean, v the mean variance, b the variance between, k = rows of a
synthetic table / records:

- ``T_f`` fully synthetic, from posterior-predictive draws: (1 + 1/m) b - v (Raghunathan, Reiter and Rubin 2003); it can
  be negative. ``T_f*`` is max(0, T_f) + k v where it is (Reiter 2002).
- ``T_p`` partially synthetic: b/m + v (Reiter 2003).
- ``T_s`` large samples, no posterior draw of the parameters: v (k + 1/m); with such a draw (``T_s_posterior``)
  v (k + (1 + k)/m) (Raab, Nowok and Dibben 2016). They use no between-table variance, so one table is enough.
- Rubin's rule for missing data, (1 + 1/m) b + v, is for data that are partly real and is always refused.

No rule repairs differentially private tables: the noise is the same in all tables, or pulls all of them the same way.
See docs/theory/combining-rules.md for measured coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from understudy.core.arrays import Floats
from understudy.errors import InputError, UnsupportedError, unknown_name

RULES = ("T_f", "T_f*", "T_p", "T_s", "T_s_posterior")
RUBIN = "rubin"
NEEDS_TWO = ("T_f", "T_f*", "T_p")
NEEDS_KAPPA = ("T_f*", "T_s", "T_s_posterior")
WHY_NOT_RUBIN = (
    "Rubin's rule (1 + 1/m) b + v is for missing data, where each table holds the observed half of the truth and its "
    "own sampling variance. A synthetic table holds none of it: 95 percent intervals by this rule covered 75 to 100 "
    "percent, depending on the numbers of tables and rows (measured in docs/theory/combining-rules.md)"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Combined:
    """One estimate from several tables. ``freedom`` is infinite for a normal reference."""

    rule: str
    value: Floats
    variance: Floats
    freedom: Floats
    between: Floats
    within: Floats

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Value minus and plus the quantile of t times the standard error."""
        from scipy.special import ndtri, stdtrit

        if not 0 < level < 1:
            raise InputError(f"level ({level}) must be between 0 and 1.")
        at = (1 + level) / 2
        finite = np.isfinite(self.freedom)
        factor = np.where(finite, stdtrit(np.where(finite, self.freedom, 1.0), at), ndtri(at))
        half = factor * np.sqrt(self.variance)
        return self.value - half, self.value + half


def combine(
    estimates: ArrayLike, variances: ArrayLike, *, rule: str, kappa: float | None = None, freedom: str = "plug_in"
) -> Combined:
    """Combine estimates (m, or m by quantities) and their variances by a named rule.

    ``freedom``: "plug_in" uses the published degrees of freedom, which over-cover where T_f is near 0; "normal" none.

    >>> both = combine([0.5, 0.6], [0.01, 0.01], rule="T_p")
    >>> round(float(both.variance), 4), round(float(both.freedom), 1)
    (0.0125, 25.0)
    """
    q, v = np.asarray(estimates, np.float64), np.asarray(variances, np.float64)
    check_rule(rule, len(q) if q.ndim else 0, kappa)
    if q.ndim == 0 or q.shape != v.shape or not np.isfinite(q).all() or not np.isfinite(v).all() or (v < 0).any():
        raise InputError("estimates and variances must be finite, of one shape, a row for each table.")
    if freedom not in ("plug_in", "normal"):
        raise unknown_name("freedom", freedom, ("plug_in", "normal"))
    m = len(q)
    value, within = q.mean(axis=0), v.mean(axis=0)
    between = q.var(axis=0, ddof=1) if m > 1 else np.zeros_like(within)
    variance, degrees = _variance(rule, m, between, within, kappa)
    if freedom == "normal":
        degrees = np.full_like(np.asarray(degrees), np.inf)
    return Combined(
        rule=rule,
        value=np.asarray(value),
        variance=np.asarray(variance),
        freedom=np.asarray(degrees),
        between=np.asarray(between),
        within=np.asarray(within),
    )


def check_rule(rule: str, tables: int, kappa: float | None) -> None:
    """Refuse a rule that cannot be applied."""
    if rule == RUBIN:
        raise UnsupportedError(f"{WHY_NOT_RUBIN}.")
    if rule not in RULES:
        raise unknown_name("combining rule", rule, (*RULES, RUBIN))
    if tables < 1 or (rule in NEEDS_TWO and tables < 2):
        raise InputError(f"rule {rule} needs at least two synthetic tables; there is {tables}. T_s works with one.")
    if rule in NEEDS_KAPPA and (kappa is None or not kappa > 0):
        raise InputError(f"rule {rule} needs kappa, the rows of a synthetic table divided by the records (positive).")


def _variance(rule: str, m: int, b: Any, v: Any, kappa: float | None) -> tuple[Any, Any]:
    infinite = np.full_like(np.asarray(v, np.float64), np.inf)
    k = kappa or 0.0
    if rule == "T_s":
        return v * (k + 1 / m), infinite
    if rule == "T_s_posterior":
        return v * (k + (1 + k) / m), infinite
    with np.errstate(divide="ignore", invalid="ignore"):
        if rule == "T_p":
            freedom = (m - 1) * (1 + np.where(b > 0, v * m / b, np.inf)) ** 2
            return b / m + v, freedom
        raw = (1 + 1 / m) * b - v
        ratio = (1 + 1 / m) * b / v
        freedom = np.where(raw > 0, np.maximum((m - 1) * (1 - 1 / ratio) ** 2, 1e-3), np.inf)
    if rule == "T_f*":
        return np.where(raw > 0, raw, k * v), freedom
    if np.any(raw <= 0):
        raise UnsupportedError(
            "T_f is not positive here: the tables differ by less than their own sampling variance, and the rule says "
            "nothing. Use T_f*, or T_s_posterior, which needs no difference between tables."
        )
    return raw, freedom


@dataclass(frozen=True, slots=True, kw_only=True)
class WaldTest:
    """A test that several quantities at once have given values."""

    statistic: float
    numerator: int
    denominator: float
    p_value: float


def wald_test(
    estimates: ArrayLike, covariances: ArrayLike, null: ArrayLike, *, rule: str, kappa: float | None = None
) -> WaldTest:
    """Multivariate test by the rule (Reiter 2005 for T_f and T_p; a chi-square for T_s).

    ``estimates`` is (m, d), ``covariances`` (m, d, d). The between-table covariance of few tables is singular, so the
    published tests use its trace relative to the within-table one.
    """
    from scipy.stats import chi2, f

    q, u = np.asarray(estimates, np.float64), np.asarray(covariances, np.float64)
    if q.ndim != 2 or u.shape != (len(q), q.shape[1], q.shape[1]):
        raise InputError("a test needs estimates of shape (m, d) and covariances of shape (m, d, d).")
    check_rule(rule, len(q), kappa)
    m, d = q.shape
    away = q.mean(axis=0) - np.asarray(null, np.float64)
    within = u.mean(axis=0)
    distance = float(away @ np.linalg.solve(within, away))
    if rule in ("T_s", "T_s_posterior"):
        scale, _ = _variance(rule, m, 0.0, np.float64(1.0), kappa)
        statistic = distance / float(scale)
        return WaldTest(statistic=statistic, numerator=d, denominator=math.inf, p_value=float(chi2.sf(statistic, d)))
    between = np.cov(q.T, ddof=1).reshape(d, d)
    trace = float(np.trace(np.linalg.solve(within, between)))
    t = d * (m - 1)
    if rule == "T_p":
        r, sign = trace / (m * d), 1.0
    else:
        r, sign = (1 + 1 / m) * trace / d, -1.0
        if r <= 1:
            raise UnsupportedError(
                "the tables differ by less than their own sampling variance; this test has no result."
            )
    scale = abs(r + sign)
    if r == 0:
        freedom = math.inf
    elif d == 1:
        freedom = t * (1 + sign / r) ** 2
    elif t > 4:
        freedom = 4 + (t - 4) * (1 + sign * (1 - 2 / t) / r) ** 2
    else:
        freedom = t * (1 + 1 / d) * (1 + sign / r) ** 2 / 2
    statistic = distance / (d * scale)
    p_value = float(f.sf(statistic, d, freedom) if math.isfinite(freedom) else chi2.sf(d * statistic, d))
    return WaldTest(statistic=statistic, numerator=d, denominator=float(freedom), p_value=p_value)


def coverage_of_rule(
    rule: str,
    *,
    share: float,
    records: int,
    rows: int,
    copies: int,
    alpha: tuple[float, float] | None = None,
    noise_sd: float | None = None,
    posterior: bool = True,
    level: float = 0.95,
    runs: int = 4000,
    rng: np.random.Generator,
) -> float:
    """How often a rule's interval for a share would hold the truth, by simulating releases like this one.

    With ``alpha`` each copy is a Dirichlet draw; with ``noise_sd`` all copies share one noisy count (rounded normal
    noise of that size); with neither each copy is drawn without protection, from a posterior draw of the share or,
    with ``posterior`` false, from the share itself.
    """
    x = rng.binomial(records, share, runs)
    if noise_sd is not None:
        noisy = np.clip(x + np.rint(rng.normal(0, noise_sd, runs)), 0, records)
        p = np.repeat((noisy / records)[None, :], copies, axis=0)
    elif alpha is None and not posterior:
        p = np.repeat((x / records)[None, :], copies, axis=0)
    else:
        a = (0.5, 0.5) if alpha is None else alpha
        p = rng.beta(a[0] + x, a[1] + (records - x), (copies, runs))
    q = rng.binomial(rows, p) / rows
    v = np.maximum(q * (1 - q), 0.25 / rows) / rows
    m, kappa = copies, rows / records
    b = q.var(axis=0, ddof=1) if m > 1 else np.zeros(runs)
    within = v.mean(axis=0)
    if rule == RUBIN:
        variance, freedom = (1 + 1 / m) * b + within, np.full(runs, np.inf)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            variance, freedom = _variance("T_f*" if rule == "T_f" else rule, m, b, within, kappa)
    combined = Combined(rule=rule, value=q.mean(axis=0), variance=variance, freedom=freedom, between=b, within=within)
    low, high = combined.interval(level)
    return float(np.mean((low <= share) & (share <= high)))
