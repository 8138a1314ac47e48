"""The noise in the scores of a weight: counts on fine grids are noisy, and so is what is known of weights inside bins.

See docs/theory/survey-weights.md.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.measurement import CLASSES
from understudy.core.schema import Attribute
from understudy.inference.estimands import Estimand
from understudy.models.found_bins import cell_counts
from understudy.release.table_release import Release

AGAIN = 8  # draws of the noise of fine counts
STUDENT = 2.365 / 1.960  # 97.5 percent of Student's law with AGAIN - 1 degrees of freedom, beside that of a normal law
NO_NOISE = 0.01  # variance of noise on whole numbers that is almost surely 0, however often it is drawn


def noise_inside(estimand: Estimand, release: Release, shares: Floats) -> Floats:
    """The standard error that the noise of counts on fine grids gives a quantity, by drawing that noise again.

    Few draws know it roughly, so it is as much larger as Student's law is wider than a normal one.
    The generator is seeded: the same release and question give the same interval, and nothing here is confidential.
    """
    weighting = estimand.weighting
    if weighting is None or weighting.again is None:
        return np.zeros(len(estimand.names))
    declared = release.schema.declared
    looks = [
        (declared[name], _fine_looks(release, name)) if name else None for name in (weighting.number, weighting.column)
    ]
    values = []
    with np.errstate(all="ignore"):
        for place in range(AGAIN):
            counted = (
                _counted_again(*one, 2 * place + k, weight=k == 1) if one else None for k, one in enumerate(looks)
            )
            members = weighting.again(*counted)
            values.append(replace(estimand, members=members).evaluate(shares[None, :])[0])
    found = STUDENT * np.std(values, axis=0, ddof=1)
    return np.where(np.isfinite(found), found, 0.0)


def _fine_looks(release: Release, name: str) -> tuple[tuple[bytes, float], ...]:
    """The noisy counts on the grid of an attribute, level by level, with their variances; none if edges are public or
    the counts have no noise to speak of."""
    if not release.schema[name].found:
        return ()
    looks = (one for one in release.finding if one.margin == (name,) and one.cells == CLASSES)
    found = tuple((one.values.astype(np.int64).tobytes(), float(one.mechanism.variance)) for one in looks)
    return () if all(variance < NO_NOISE for _, variance in found) else found


@lru_cache(maxsize=32)  # several questions are about the same number and the same weight
def _counted_again(
    attribute: Attribute, looks: tuple[tuple[bytes, float], ...], seed: int, *, weight: bool
) -> Floats | None:
    """The counts of the cells of a grid, with noise of the same variance added once more."""
    if not looks:
        return None
    rng = np.random.default_rng([seed, len(looks)])
    noisy = []
    for values, variance in looks:
        counts = np.frombuffer(values, np.int64)
        noisy.append(counts + np.rint(rng.normal(0, np.sqrt(variance), len(counts))).astype(np.int64))
    return cell_counts(attribute, noisy, [variance for _, variance in looks], weight=weight)
