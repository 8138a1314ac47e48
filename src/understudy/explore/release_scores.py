"""One line of scores for one release: utility of its tables, risk by equal keys, and how often a released cell differs.

The measures are those of ``utility`` and ``risk``, but only the few that are quick enough for a sweep over many
releases. Each has its null value, if there is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.table import CodedTable
from understudy.evaluation.attacks.attribution import Claims
from understudy.evaluation.attacks.uniqueness import uniqueness
from understudy.evaluation.inputs.counted_tables import count_together
from understudy.evaluation.inputs.records import Records, null_copies
from understudy.evaluation.shared.neighbours import cell_numbers
from understudy.evaluation.shared.table_measures import k_marginal_score, measure_table
from understudy.explore.rehearsal import prior_of
from understudy.privacy.exact.dirichlet_profile import log_rising
from understudy.release.table_release import Release


def utility_scores(release: Release, original: CodedTable, ways: Sequence[int] = (1, 2, 3)) -> dict[str, float]:
    """Mean S_pMSE (1 is a correct model) and NIST's k-marginal score over all tables of so many attributes."""
    copies = [release.coded(copy) for copy in range(1, release.copies + 1)]
    found: dict[str, float] = {}
    for way in ways:
        margins = list(combinations(original.schema.names, way))
        if not margins:
            continue
        s_pmse, tvd = [], []
        for _, own, others in count_together(original, copies, margins):
            measured = [measure_table(own, other) for other in others]
            s_pmse.append(float(np.mean([one["s_pmse"] for one in measured])))
            tvd.append([one["tvd"] for one in measured])
        found[f"s_pmse_{way}"] = float(np.mean(s_pmse))
        found[f"k_marginal_{way}"] = float(np.mean([k_marginal_score(column) for column in np.array(tvd).T]))
    return found


def risk_scores(
    release: Release, original: CodedTable, *, keys: Sequence[str] = (), targets: Sequence[str] = (), seed: int = 0
) -> dict[str, float]:
    """Replicated uniques and DiSCO in percent of the people, averaged over copies, and the same of independent columns.

    Uniques are over the keys (all attributes without them); DiSCO is that of the target it is greatest for, of all
    attributes that are not keys.
    """
    schema = original.schema
    names = schema.names
    own = _codes(original)
    copies = tuple(
        Records(codes=codes, positions=codes.astype(np.float64))
        for codes in (_codes(release.coded(copy)) for copy in range(1, release.copies + 1))
    )
    public = [column for column, name in enumerate(names) if name in release.statement.unit.fixed]
    null = null_copies(schema, copies, seed, public)
    known = schema.margin(keys) or names
    wanted = schema.margin(targets) or tuple(name for name in names if name not in keys) or names
    mean: dict[str, list[float]] = {"UiO": [], "repU": [], "repU_null": []}
    for made, chance in zip(copies, null, strict=True):
        real, shuffled = (_unique(own, table.codes, known, original) for table in (made, chance))
        mean["UiO"].append(real["UiO"])
        mean["repU"].append(real["repU"])
        mean["repU_null"].append(shuffled["repU"])
    told = {}
    for target in wanted:
        given = tuple(name for name in known if name != target)
        if given:
            told[target] = [
                float(np.mean([_disclosed(own, table.codes, given, target, original) for table in tables]))
                for tables in (copies, null)
            ]
    worst = max(told.values(), default=[0.0, 0.0])
    return {
        **{name: float(np.mean(values)) for name, values in mean.items()},
        "DiSCO": worst[0],
        "DiSCO_null": worst[1],
    }


def _codes(table: CodedTable) -> Integers:
    return np.column_stack([column.astype(np.int64) for column in table.columns.values()])


def _unique(own: Integers, made: Integers, keys: tuple[str, ...], table: CodedTable) -> dict[str, float]:
    columns = [table.schema.names.index(name) for name in keys]
    (people, others), cells = cell_numbers([own, made], columns, table.schema.shape())
    return uniqueness(np.bincount(people, minlength=cells), people, np.bincount(others, minlength=cells))


def _disclosed(own: Integers, made: Integers, keys: tuple[str, ...], target: str, table: CodedTable) -> float:
    names, shape = table.schema.names, table.schema.shape()
    (people, others), _ = cell_numbers([own, made], [names.index(name) for name in keys], shape)
    column = names.index(target)
    claims = Claims(people, own[:, column], others, made[:, column], shape[column])
    return 100 * float(claims.correct.mean())


# Classical measures of disclosure risk that go with a plan: how often a released cell differs from the true one.
#
# Statistical disclosure limitation asks whether true values are released; differential privacy asks what an output
# can reveal. Abowd and Vilhuber (2008, section 3) take the first from the rows of the transition matrix. Charest
# (2010, section 5.4) asks for both, side by side. ``cell_uncertainty`` is the smallest P(released count != true
# count) over all tables and cells.


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
