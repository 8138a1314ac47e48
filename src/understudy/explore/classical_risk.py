"""Classical measures of disclosure risk that go with a plan: how often a released cell differs from the true one.

Statistical disclosure limitation asks whether true values are released; differential privacy asks what an output can
reveal. Abowd and Vilhuber (2008, section 3) take the first from the rows of the transition matrix. Charest (2010,
section 5.4) asks for both, side by side. ``cell_uncertainty`` is the smallest P(released count != true count) over all
tables and cells.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.explore.rehearsal import prior_of
from understudy.privacy.exact.dirichlet_profile import log_rising
from understudy.release.table_release import Release


def cell_uncertainty(release: Release, records: int) -> float | None:
    """The smallest probability that a cell of the table is released with another count than its own.

    For noisy tables it is that of the measured count, before rows are made of it, in the least noisy table. For
    Dirichlet draws the released count of a cell is beta-binomial, so that the minimum is over its true count alone.
    Nothing for strata and for methods that neither measured nor drew.
    """
    if release.measurements:
        stays = max(float(np.exp(one.mechanism.log_pmf(np.zeros(1, np.int64), np.zeros(1, np.int64))[0]))
                    for one in release.measurements)  # fmt: skip
        return 1 - stays
    prior = prior_of(release)
    if prior is None:
        return None
    return dirichlet_uncertainty(prior[0], int(release.schema.allowed().sum()), records, prior[1])


def dirichlet_uncertainty(prior: float, cells: int, records: int, rows: int) -> float:
    """min over x of 1 - P(a cell with x of ``records`` gets x of ``rows``), a Dirichlet draw with ``prior`` per cell.

    >>> round(dirichlet_uncertainty(0.5, 2, 5, 5), 6)
    0.284025
    """
    if cells < 2:
        return 0.0
    count = np.arange(min(records, rows) + 1)
    other = prior * (cells - 1) + (records - count)
    log = _log_choose(rows, count) + log_rising(prior + count, count) + log_rising(other, rows - count)
    log = log - log_rising(prior * cells + records, rows)
    return float(-np.expm1(np.minimum(log, 0.0)).max())


def _log_choose(total: int, part: NDArray[np.int64]) -> Floats:
    from scipy.special import gammaln

    return np.asarray(math.lgamma(total + 1) - gammaln(part + 1.0) - gammaln(total - part + 1.0))
