"""Counts of found bins, given noisy ones and that the density of amounts is smooth. Post-processing of noisy values.

A table follows its noisy counts. In an empty tail that does harm: bins there are wide, a noisy count below nothing
becomes nothing, one above stays, and two rows of a hundred thousand move a mean by more than everybody else. But a
tail does not end and begin again at random. So a curve is fitted to the noisy bins (``found_bins``), and each bin moves
towards it as far as its noise calls for: with a curve of c rows and noise of variance v, the bin keeps c^2 / (c^2 + v)
of how far it is from the curve. Bins that stand clear of the noise stay. See docs/theory/found-columns.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.bounds import joined_cells
from understudy.core.schema import Attribute
from understudy.models.found_bins import curve_through_bins

CLEAR = 6.0  # standard deviations: some bin must stand out so far, or there is no curve to speak of
ROUNDS = 3  # of adding up to the total; a few rows that would be negative stay at none
KNOWN = 30.0  # standard deviations: where every bin does, there is nothing to move


def moved_to_curve(attribute: Attribute, noisy: Floats, variance: float, total: float) -> Floats:
    """By how much each code of a found attribute moves from its noisy count; together they then hold ``total``.

    Nothing moves where bins were not found, and of dates, whose days have no tails.
    """
    stays = np.zeros(len(noisy))
    if not (attribute.found and attribute.bounds) or attribute.kind == "date":
        return stays
    bins, spread = noisy[: attribute.bins], variance**0.5
    if bins.max() < CLEAR * spread or bins.min() > KNOWN * spread:
        return stays
    grid = replace(attribute, edges=(), found=False, inside=())
    curve, alone = curve_through_bins(grid, joined_cells(grid, attribute)[: grid.bins], bins, variance)
    kept = np.where(alone, 1.0, curve**2 / (curve**2 + variance))
    found = noisy.astype(np.float64)
    found[: attribute.bins] = np.maximum(curve + kept * (bins - curve), 0.0)
    # What all codes together have beyond the total is noise; those that keep most of theirs have most of it.
    weights = np.concatenate([kept * (found[: attribute.bins] > 0), np.ones(attribute.size - attribute.bins)])
    for _ in range(ROUNDS):
        found += (total - found.sum()) * weights / weights.sum()
        found = np.maximum(found, 0.0)
    return found - noisy
