"""Homes outside the area that the places describe: how many jobs of a workplace they are expected to have, and which.

A home outside is a whole state or county at a rough point, so it has no part in rings of distance: a single one could
hold more than many rings together, and rings would no longer have the shares that they are made for. Workers from
outside are in cells of their own, beside the rings of the homes inside. Nothing here touches confidential data: what is
expected comes from noisy counts that were charged. See docs/theory/commute.md, "Homes outside".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.models.decay import leaned
from understudy.core.arrays import Floats, Integers
from understudy.core.places import Places

LEAST_PART = 0.002  # a workplace is never expected to have nobody, or nobody but people, from outside
UNKNOWN_PART = 0.5  # where nothing was measured
LISTED_SCALES = 30.0  # how far from a noisy count others are thought possible, in units of the noise scale


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class OutsideHomes:
    """What a public model expects of homes outside.

    ``codes`` are the places outside, those with the most workers first, and ``shares`` what each has of all workers
    from outside. ``part`` is by place, as a workplace: the part of its jobs that is held from outside.
    """

    codes: Integers
    shares: Floats
    part: Floats

    @classmethod
    def of(cls, places: Places, workers: Floats | None, part: Floats | None) -> OutsideHomes | None:
        """From estimated workers by place, of which only those outside count, and the part by workplace; what is not
        known is taken as public residents, or as equal. Nothing if there are no homes outside."""
        if places.outside is None:
            return None
        residents = np.ones(len(places)) if places.population is None else places.population + 0.1
        codes = np.flatnonzero(places.outside)
        counted = np.asarray(residents if workers is None else workers, dtype=np.float64)[codes]
        order = np.argsort(-counted, kind="stable")
        known = np.maximum(counted[order], 1e-9)
        return cls(
            codes=codes[order],
            shares=known / known.sum(),
            part=np.full(len(places), UNKNOWN_PART) if part is None else part,
        )

    def with_part(self, part: Floats) -> OutsideHomes:
        """The same homes, where other parts of the jobs of workplaces are expected."""
        return replace(self, part=np.clip(part, LEAST_PART, 1 - LEAST_PART))

    def ranks(self, places: int) -> NDArray[np.int32]:
        """By place: the how-manieth home outside it is, by its workers; -1 for a place inside."""
        found = np.full(places, -1, dtype=np.int32)
        found[self.codes] = np.arange(len(self.codes), dtype=np.int32)
        return found

    def place(self, cells: Integers, beyond: Integers, chances: Floats) -> NDArray[np.int32]:
        """A home for each job in a cell outside: the home of the cell, or one of those that share the last of
        ``beyond`` cells, by a number from 0 to 1."""
        sums = np.concatenate(([0.0], np.cumsum(self.shares)))
        shared = cells >= beyond - 1
        begin = sums[np.minimum(beyond - 1, len(self.codes) - 1)]
        found = np.searchsorted(sums, begin + chances * (sums[-1] - begin), side="right") - 1
        number = np.where(shared, np.maximum(found, beyond - 1), cells)
        return self.codes[np.minimum(number, len(self.codes) - 1)].astype(np.int32)


def parts_from(
    counts: Floats, groups: Integers, rows: Integers, noise: float, *, every: tuple[float, float] | None = None
) -> Floats:
    """The part of each workplace's jobs that is held from outside, from noisy jobs by group of workplaces; ``every``:
    those of all together, where they were measured by themselves, and the scale of their noise."""
    totals = np.maximum(np.bincount(groups, weights=rows, minlength=len(counts)), 1.0)
    summed, off = float(counts.sum()), noise * len(counts) ** 0.5
    if every is not None:
        part = off**2 / (off**2 + every[1] ** 2)
        summed = summed * (1 - part) + every[0] * part
    whole = float(np.clip(summed / max(float(rows.sum()), 1.0), LEAST_PART, 1 - LEAST_PART))
    found = leaned(counts, whole * totals, noise) / totals if len(counts) > 1 else np.array([whole])
    return np.asarray(np.clip(found, LEAST_PART, 1 - LEAST_PART)[groups])


def likely_counts(noisy: Integers, scale: float) -> Floats:
    """The mean of each count given its noisy value, if counts of all magnitudes are equally likely beforehand.

    >>> likely_counts(np.array([1000, 5, -8]), 10.0).round().tolist()
    [1000.0, 5.0, 3.0]
    """
    reach = int(np.ceil(LISTED_SCALES * scale))
    found = np.empty(len(noisy))
    for number, value in enumerate(np.maximum(noisy, 0).tolist()):  # how far below zero noise went, says nothing
        counts = np.arange(max(value - reach, 0), value + reach + 1, dtype=np.float64)
        weight = np.exp(-np.abs(counts - value) / scale) / (counts + 1)
        found[number] = float((weight * counts).sum() / weight.sum())
    return found
