"""How strongly each table departs from independence, judged by its noisy values and the known law of their noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from understudy.core.arrays import Floats
from understudy.models.junction_tree import Margin

RECORDS = np.geomspace(1.0, 100_000.0, 41)
ENOUGH = 10.0  # degrees of freedom at which a table's own evidence counts as much as that of all together
USUAL = 100.0  # where no table says anything about association


def records_for_independence(
    tables: Sequence[tuple[Margin, Floats, float]], *, shares: Mapping[str, Floats], total: float
) -> tuple[float, ...]:
    """Prior records for independence of each noisy table, given with its noise variance (empirical Bayes).

    To first order a prior of r records lets a cell of independent share q depart from N q with variance N^2 q / r;
    noise adds its own. So the departures e = y - N q are about normal with variance v + N^2 q / r, and r is what makes
    them most likely, on a fixed grid; the degrees of freedom that one-way margins took are allowed for. A table whose
    departures look like noise gets many records, one with a strong association few. What a table of few cells says of
    itself is mostly noise, so its logarithm is drawn towards that of the r most likely for all tables together. One-way
    tables, whose departures from themselves say nothing, get the latter. ``shares`` are logs. Noisy values only:
    post-processing.
    """
    found = [_log_likelihood(*table, shares=shares, total=total) for table in tables]
    said = [one for one in found if one is not None]
    common = float(RECORDS[np.argmax(sum(likelihood for likelihood, _ in said))]) if said else USUAL
    records = []
    for one in found:
        own, weight = common, 0.0
        if one is not None:
            likelihood, freedom = one
            own, weight = float(RECORDS[np.argmax(likelihood)]), freedom / (freedom + ENOUGH)
        records.append(float(own**weight * common ** (1 - weight)))
    return tuple(records)


def _log_likelihood(
    margin: Margin, table: Floats, variance: float, *, shares: Mapping[str, Floats], total: float
) -> tuple[Floats, float] | None:
    """Log likelihood of every number of records, and the degrees of freedom behind it."""
    freedom = float(prod(size - 1 for size in table.shape))
    if len(margin) < 2 or freedom <= 0:
        return None
    share = np.ones(())
    for name in margin:
        share = np.multiply.outer(share, np.exp(shares[name]))
    kept = share > 0
    left = freedom / table.size
    squares = (table[kept] - total * share[kept]) ** 2 / left
    spread = variance + total**2 * share[kept][None, :] / RECORDS[:, None]
    return -0.5 * left * (np.log(spread) + squares[None, :] / spread).sum(axis=1), freedom
