"""Charest (2010), How can we analyze differentially-private synthetic datasets?

One binary attribute, 100 people, 100 synthetic rows in each of M copies, beta-binomial synthesis with the smallest
prior that keeps epsilon / M for each copy. The printed numbers are means over 1,000 simulation runs. Bias and variance
of the mean share are computed exactly here; what depends on the variance rule is simulated with a fixed seed and 100
times as many runs. The tolerance of each item is four standard errors of the paper's own 1,000 runs.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, partial

import numpy as np

from papers.harness import Computations, Compute, papers, pictures
from papers.pictures import copies_and_coverage
from understudy.core.arrays import Floats
from understudy.figures.drawing import Drawing
from understudy.inference.combining import coverage_of_rule
from understudy.inference.exact import beta_binomial
from understudy.privacy.mechanisms.dirichlet_draw import prior_for
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial
from understudy.privacy.promise.definition import Unit

PEOPLE = ROWS = 100
TABLE_1 = ((2, "0.25"), (2, "0.50"), (250, "0.25"))
COPIES = (1, 2, 5, 10)
RUNS = 100_000
FIGURE_EPSILONS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)


@papers.add
def charest() -> Computations:
    """Every printed number of the paper with its computation."""
    computations: dict[tuple[str, str], Compute] = {}
    for epsilon, share in TABLE_1:
        for copies in COPIES:
            cell = f"eps={epsilon} p={share} M={copies}"
            computations["Table 1", cell] = partial(bias_in_points, Fraction(epsilon), float(share), copies)
            if copies == 1:
                continue
            asked = (Fraction(epsilon), float(share), copies)
            computations["Table 2 variance", cell] = partial(variance_of_mean, *asked)
            computations["Table 2 bias", cell] = partial(bias_of_variance, *asked, between_only=True)
            if (epsilon, share) == (2, "0.25"):
                computations["Table 2 stated rule", cell] = partial(bias_of_variance, *asked, between_only=False)
    computations["Figure 1", "eps=3 p=0.25 M=2"] = partial(coverage_in_percent, 3.0, 0.25, 2)
    computations["Figure 1", "eps=3 p=0.50 M=10"] = partial(coverage_in_percent, 3.0, 0.5, 10)
    computations["Figure 2", "sd falls from M=1 to M=10 (1: yes)"] = _sd_falls
    return computations


def _law(epsilon: Fraction, copies: int) -> tuple[float, Floats, Floats]:
    """The prior of one copy, the possible shares, and their law given each count of people."""
    prior = prior_for(epsilon / copies, ROWS, Unit())
    law = DirichletMultinomial(prior=prior, cells=2, rows=ROWS)
    outputs = law.outputs()
    people = np.arange(PEOPLE + 1)
    counts = np.stack([people, PEOPLE - people], axis=1)
    return float(prior), outputs[:, 0] / ROWS, np.exp(law.log_pmf(outputs[None, :, :], counts[:, None, :]))


def bias_in_points(epsilon: Fraction, share: float, copies: int) -> float:
    """100 (E[mean synthetic share] - p), over the data and the draw, from the mechanism's own law.

    Every copy has the same expectation, so the mean over copies has it too.
    """
    from scipy.stats import binom

    _, shares, law = _law(epsilon, copies)
    weights = binom.pmf(np.arange(PEOPLE + 1), PEOPLE, share)
    return 100 * (float(weights @ (law @ shares)) - share)


def variance_of_mean(epsilon: Fraction, share: float, copies: int) -> float:
    """10^4 Var(mean of the copies' shares): between data sets, plus within one divided by the number of copies."""
    from scipy.stats import binom

    _, shares, law = _law(epsilon, copies)
    weights = binom.pmf(np.arange(PEOPLE + 1), PEOPLE, share)
    mean = law @ shares
    within = law @ shares**2 - mean**2
    between = weights @ mean**2 - (weights @ mean) ** 2
    return 1e4 * float(between + weights @ within / copies)


@cache
def _released(epsilon: float, share: float, copies: int, runs: int = RUNS) -> Floats:
    """Synthetic counts of many releases, (M, runs); a fixed seed, as these protect nobody."""
    rng = np.random.default_rng(2010)
    alpha = ROWS / np.expm1(epsilon / copies)
    people = rng.binomial(PEOPLE, share, runs)
    return rng.binomial(ROWS, rng.beta(alpha + people, alpha + (PEOPLE - people), (copies, runs))).astype(np.float64)


def bias_of_variance(epsilon: Fraction, share: float, copies: int, *, between_only: bool) -> float:
    """100 (E[T*] / Var - 1), with T = b - v as the printed column has it, or the stated T = (1 + 1/M) b - v."""
    q = _released(float(epsilon), share, copies) / ROWS
    within = (q * (1 - q) / ROWS).mean(axis=0)
    between = q.var(axis=0, ddof=1)
    rule = (1.0 if between_only else 1 + 1 / copies) * between - within
    estimate = np.where(rule < 0, within, rule)  # n_syn = n
    return 100 * (float(estimate.mean()) * 1e4 / variance_of_mean(epsilon, share, copies) - 1)


def coverage_in_percent(epsilon: float, share: float, copies: int) -> float:
    """Coverage of the 95 percent interval of T* with the stated degrees of freedom."""
    alpha = ROWS / float(np.expm1(epsilon / copies))
    return 100 * coverage_of_rule(
        "T_f*",
        share=share,
        records=PEOPLE,
        rows=ROWS,
        copies=copies,
        alpha=(alpha, alpha),
        runs=RUNS,
        rng=np.random.default_rng(2010),
    )


def figure_1() -> list[dict[str, float]]:
    """The points of Figure 1: coverage by epsilon, share and number of copies."""
    return [
        {
            "epsilon": epsilon,
            "share": share,
            "copies": copies,
            "coverage": coverage_in_percent(epsilon, share, copies),
        }
        for share in (0.25, 0.5)
        for copies in COPIES[1:]
        for epsilon in FIGURE_EPSILONS
    ]


def figure_2(share: float = 0.25, epsilon: float = 2.0, runs: int = 2000) -> list[dict[str, float]]:
    """What Figure 2 shows for one data set, on average over many: mean and sd of the posterior of p."""
    rows = [_real_data(share)]
    for copies in COPIES:
        released = _released(epsilon, share, copies)[:, :runs].T.astype(np.int64)
        each = ROWS / float(np.expm1(epsilon / copies))
        posterior = beta_binomial(released, rows=ROWS, records=PEOPLE, alpha=(each, each))
        rows.append({"copies": copies, "mean": float(np.mean(posterior.mean)), "sd": float(np.mean(posterior.sd))})
    return rows


def _real_data(share: float) -> dict[str, float]:
    """The posterior of the confidential data themselves, on average over them; ``copies`` is 0 for it."""
    from scipy.stats import binom

    people = np.arange(PEOPLE + 1)
    weights = binom.pmf(people, PEOPLE, share)
    a, b = 1.0 + people, 1.0 + (PEOPLE - people)
    mean = a / (a + b)
    sd = np.sqrt(mean * (1 - mean) / (a + b + 1))
    return {"copies": 0, "mean": float(weights @ mean), "sd": float(weights @ sd)}


def _sd_falls() -> float:
    points = {row["copies"]: row["sd"] for row in figure_2()}
    return float(points[10] < points[1])


def both_figures(full: bool) -> Drawing:  # noqa: ARG001 - nothing here takes long
    """Figures 1 and 2; the paper draws the second for one data set, this is the average over many."""
    return copies_and_coverage(figure_1(), figure_2())


pictures["charest"] = both_figures
