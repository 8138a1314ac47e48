"""Charest (2010), How can we analyze differentially-private synthetic datasets?

One binary attribute, 100 people, 100 synthetic rows in each of M copies, beta-binomial synthesis with the smallest
prior that keeps epsilon / M for each copy. The printed numbers are means over 1,000 simulation runs; here the
expectation is computed exactly, and the tolerance of each item is four standard errors of such a mean.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np

from understudy.privacy.definition import Unit
from understudy.privacy.dirichlet import DirichletMultinomial
from understudy.privacy.dirichlet_draw import prior_for
from understudy.reproduce.base import Computations, Compute, papers

PEOPLE = ROWS = 100
TABLE_1 = ((2, "0.25"), (2, "0.50"), (250, "0.25"))
COPIES = (1, 2, 5, 10)


@papers.add
def charest() -> Computations:
    """Every printed number of the paper with its computation."""
    computations: dict[tuple[str, str], Compute] = {}
    for epsilon, share in TABLE_1:
        for copies in COPIES:
            cell = f"eps={epsilon} p={share} M={copies}"
            computations["Table 1", cell] = partial(bias_in_points, Fraction(epsilon), float(share), copies)
    return computations


def bias_in_points(epsilon: Fraction, share: float, copies: int) -> float:
    """100 (E[mean synthetic share] - p), over the data and the draw, from the mechanism's own law.

    Every copy has the same expectation, so the mean over copies has it too.
    """
    from scipy.stats import binom

    prior = prior_for(epsilon / copies, ROWS, Unit())
    law = DirichletMultinomial(prior=prior, cells=2, rows=ROWS)
    outputs = law.outputs()
    expected = 0.0
    for people in range(PEOPLE + 1):
        weights = np.exp(law.log_pmf(outputs, np.array([people, PEOPLE - people])))
        expected += binom.pmf(people, PEOPLE, share) * float(weights @ outputs[:, 0]) / ROWS
    return 100 * (expected - share)
