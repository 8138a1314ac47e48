"""The sampling variance of a weighted answer: weights inside bins, strata, clusters and a finite population.

To first order a quantity is a mean of influences: what one more person would change in it. Rows are taken as
independent draws of (answer, weight) pairs, which is the with-replacement variance of a design; what strata, clusters
and a finite population change is a factor. See docs/theory/survey-weights.md.
"""

from __future__ import annotations

import numpy as np

from understudy.core.arrays import Floats
from understudy.inference.estimands import LARGEST_GRID, Estimand
from understudy.inference.evidence import widened
from understudy.inference.noise_aware import influence
from understudy.release.table_release import Release

MOST_BETWEEN = 0.9  # of a sampling variance that may lie between strata


def sampling_error(estimand: Estimand, shares: Floats, simulated: Floats) -> Floats:
    """The standard error of independent draws of (answer, weight) pairs, by linearisation: that of a design with
    replacement. A quantile jumps from bin to bin and has the ``simulated`` one."""
    weighting = estimand.weighting
    assert weighting is not None  # noqa: S101 - the caller looked
    if estimand.jumps:
        return simulated
    with np.errstate(all="ignore"):
        slopes = influence(estimand.evaluate, shares)
        centred = slopes - shares @ slopes
        found = np.sqrt(shares @ centred**2 / max(weighting.records, 1.0))
    return np.where(np.isfinite(found) & np.isfinite(simulated), found, simulated)


def design_factor(estimand: Estimand, release: Release, shares: Floats, rows: int) -> tuple[Floats, str | None]:
    """By how much the sampling variance of the design differs from ``sampling_error``'s square; what is not known.

    Weights and numbers vary inside cells, which makes it larger. What differs between sampling strata does not vary
    from sample to sample, which makes it smaller. Then clusters and a finite population (``Weighting.factor``).
    """
    weighting = estimand.weighting
    assert weighting is not None  # noqa: S101 - the caller looked
    outside, untold = weighting.factor(release.schema, estimand.margin, rows)
    usual = np.full(len(estimand.names), weighting.within)
    if estimand.jumps or len(estimand.parts) > 1 or weighting.squares is None:
        return usual * outside, untold
    with np.errstate(all="ignore"):
        slopes = influence(estimand.evaluate, shares)
        slopes = slopes - shares @ slopes
        alike = shares @ slopes**2
        whole = np.maximum(_second_moment(estimand, shares), alike)
        between = _between_strata(estimand, release, slopes, whole)
        factor = np.where(alike > 0, (whole - between) / alike, usual)
    return np.where(np.isfinite(factor), factor, usual) * outside, untold


def _second_moment(estimand: Estimand, shares: Floats) -> Floats:
    """The mean squared influence of a person: the weight times the slope of the quantity where the person is."""
    weighting = estimand.weighting
    assert weighting is not None and weighting.squares is not None  # noqa: S101, PT018 - the caller looked
    part, at = estimand.parts[0], shares @ estimand.members[0]
    step = 1e-4 * float(at.sum())
    eye = np.eye(len(at))
    slopes = (part.evaluate(at + step * eye) - part.evaluate(at - step * eye)) / (2 * step)
    if part.model is not None or not np.isfinite(slopes).all():
        return np.zeros(len(estimand.names))
    # A quantity of shares does not change if all of them are multiplied: the mean of weight times slope is 0.
    slopes = slopes - (at @ slopes) / at.sum()
    return np.asarray((shares @ weighting.squares) @ slopes**2)


def _between_strata(estimand: Estimand, release: Release, slopes: Floats, whole: Floats) -> Floats:
    """The part of the mean squared influence that lies between sampling strata, by the synthetic rows."""
    schema, design = release.schema, release.schema.design
    if design is None or not design.sampling_strata:
        return np.zeros(len(whole))
    margin = schema.margin({*estimand.margin, design.sampling_strata})
    if schema.cells(margin) > LARGEST_GRID:
        return np.zeros(len(whole))
    shape = schema.shape(margin)
    counts = sum(release.coded(copy).counts(margin).astype(np.float64) for copy in range(1, release.copies + 1))
    axis = margin.index(design.sampling_strata)
    stratum = np.indices(shape)[axis].reshape(-1)
    groups = np.zeros((shape[axis], estimand.groups))
    np.add.at(groups, (stratum, widened(estimand, schema, margin)), np.asarray(counts).reshape(-1))
    size = groups.sum(axis=1)
    kept = size > 0
    means = groups[kept] @ slopes / size[kept][:, None]
    share = size[kept] / size.sum()
    between = share @ (means - share @ means) ** 2
    # Rows were drawn: strata that are alike differ by chance, by so much of the variance.
    chance = max(int(kept.sum()) - 1, 0) / max(estimand.weighting.records if estimand.weighting else 1.0, 1.0) * whole
    return np.asarray(np.clip(between - chance, 0.0, MOST_BETWEEN * whole))
