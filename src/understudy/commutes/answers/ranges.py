"""How far synthetic counts of jobs may be from the counts behind them: the formulas of the map, for any group of jobs.

The map has them in ``map/templates/uncertainty.js``, which says why they are what they are; a test computes both on the
same release. Everything here is read from the release alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.commute_release import CommuteRelease
from understudy.commutes.map.counts_law import (
    measured_homes,
    near_errors,
    off_alike,
    pair_noise,
    stated_law,
    whole_areas_only,
)
from understudy.commutes.map.page_arrays import MapLaw, NearErrors, PairNoise, SharedError
from understudy.core.arrays import Floats, Integers
from understudy.core.places import DESTINATION
from understudy.errors import UnsupportedError

MODEL_OFF_BY = 0.25  # the model's own error at each workplace, as a share of the jobs that follow it
MODEL_OFF_ALIKE = SharedError(share=0.2, jobs=0.0)  # the error that all share, where nothing was measured
ERRORS = 2.0  # standard errors to either side, for 95 percent

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counted:
    """Synthetic jobs of some groups: the count, the variance of its error, and the error that all workplaces share."""

    value: Floats
    variance: Floats
    shared: Floats

    def reach(self, errors: float = ERRORS) -> Floats:
        """How far to either side a range reaches, for so many standard errors."""
        found: Floats = errors * np.sqrt(self.variance) + self.shared
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class CountRanges:
    """The synthetic jobs of one copy and what the release says about the noise behind them.

    Raises
    ------
    UnsupportedError
        If the release says nothing about its noise; the message says why.
    """

    release: CommuteRelease
    copy: int = 1

    @cached_property
    def pairs(self) -> tuple[Integers, Integers, Integers]:
        """Origin (-1 is elsewhere), destination and jobs of every pair."""
        origins, destinations, jobs = (np.asarray(part, dtype=np.int64) for part in self.release.coded(self.copy))
        return origins, destinations, jobs

    @cached_property
    def sizes(self) -> Integers:
        """Synthetic jobs at each place."""
        _, destinations, jobs = self.pairs
        return np.bincount(destinations, jobs, len(self.release.places)).astype(np.int64)

    @property
    def public_sizes(self) -> bool:
        """Whether the numbers of jobs at workplaces are public, so that they have no range."""
        return DESTINATION in self.release.statement.unit.fixed

    @cached_property
    def law(self) -> tuple[MapLaw | None, str]:
        """The law of each workplace, or nothing and why."""
        law, why = stated_law(self.release.provenance, self.release.statement, self.copy, self.sizes)
        if law is None:
            return None, why
        # A large workplace may have more cells than places, but cannot tell more homes apart.
        cells = np.minimum(law.cells, len(self.release.places))
        off, away = (off_alike(self.release, self.copy, outside=outside) for outside in (False, True))
        return replace(law, cells=cells, off=off, off_outside=away, near=near_errors(self.release, self.copy)), ""

    @cached_property
    def pair_noise(self) -> PairNoise | None:
        """The noise of pairs of areas, where that is what was measured."""
        return pair_noise(self.release, self.copy)

    @cached_property
    def miles(self) -> Floats:
        """The distance of every pair; not a number where the home is outside or elsewhere."""
        origins, destinations, _ = self.pairs
        places = self.release.places
        known = (origins >= 0) & places.inside[origins]
        return np.where(known, places.miles(origins, destinations), np.nan)

    # ---- counts

    def counted(self, kept: Mask, group: Integers, groups: int, *, part: Floats | float) -> Counted:
        """The jobs of the kept pairs by group, where the law of workplaces is known.

        ``part`` is the share of all jobs at the workplaces (or of the homes) that are looked at, for each group.
        """
        law, why = self.law
        if law is None:
            raise UnsupportedError(f"this release has no ranges for such a question: {why}.")
        origins, destinations, jobs = self.pairs
        keys, which = np.unique(destinations[kept] * groups + group[kept], return_inverse=True)
        shown = np.bincount(which, jobs[kept], len(keys)).astype(np.float64)
        at, of = keys // groups, keys % groups
        drawn = self.sizes[at].astype(np.float64)
        p = np.minimum((shown + 0.5) / (drawn + 1), 1.0)
        modelled = law.model[at] * shown + (1 - law.model[at]) * np.minimum(shown, np.maximum(drawn / law.cells[at], 1))
        variance = law.noise[at] * drawn * p * (1 - p) + (MODEL_OFF_BY * modelled) ** 2
        followed = _sums(of, modelled, groups)
        away = np.zeros(groups, dtype=bool)  # groups with homes outside
        away[group[kept & (origins >= 0) & ~self.release.places.inside[origins]]] = True
        inside, outside = law.off or MODEL_OFF_ALIKE, law.off_outside or law.off or MODEL_OFF_ALIKE
        share, most = (np.where(away, getattr(outside, name), getattr(inside, name)) for name in ("share", "jobs"))
        return Counted(
            value=_sums(of, shown, groups),
            variance=_sums(of, variance, groups),
            shared=np.where(followed > 0, np.maximum(share * followed, most * part), 0.0),
        )

    def counted_areas(self, homes: Mask, works: Mask) -> Counted:
        """The jobs between whole areas, where the noise of their pairs is known."""
        noise = self.pair_noise
        if noise is None:
            raise UnsupportedError(f"this release has no ranges: {self.law[1]}.")
        places = self.release.places
        level = list(places.areas)[noise.level]
        area = np.unique(places.areas[level], return_inverse=True)[1]
        working = self.sizes > 0
        home_areas, work_areas = _whole(area, homes, np.ones_like(working)), _whole(area, works, working)
        if home_areas is None or work_areas is None:
            raise UnsupportedError(f"this question has no range: {whole_areas_only(level)}.")
        origins, destinations, jobs = self.pairs
        kept = homes[origins] & (origins >= 0) & works[destinations]
        # Half a job is added because noise is in whole jobs.
        return Counted(
            value=np.array([float(jobs[kept].sum())]),
            variance=np.array([noise.variance * home_areas * work_areas]),
            shared=np.array([0.5 if home_areas * work_areas else 0.0]),
        )

    def counted_pairs(self, level: str, jobs: Floats) -> Counted:
        """Jobs between single areas of a level, where the noise of pairs is known; a coarser area has several."""
        noise = self.pair_noise
        places = self.release.places
        if noise is None or list(places.areas)[noise.level] != level:
            unknown = np.full(len(jobs), np.nan)
            return Counted(value=jobs, variance=unknown, shared=np.zeros(len(jobs)))
        return Counted(value=jobs, variance=np.full(len(jobs), noise.variance), shared=np.full(len(jobs), 0.5))

    def count(self, homes: Mask | None, works: Mask | None) -> Counted:
        """The jobs of people who live in some places and work in some; ``None`` stands for all."""
        origins, destinations, jobs = self.pairs
        kept = _in(homes, origins) & _in(works, destinations)
        if homes is None and self.public_sizes:
            return Counted(value=np.array([float(jobs[kept].sum())]), variance=np.zeros(1), shared=np.zeros(1))
        if self.law[0] is None:
            everywhere = np.ones(len(self.release.places), dtype=bool)
            return self.counted_areas(everywhere if homes is None else homes, everywhere if works is None else works)
        if works is None and homes is not None and (known := self.residents(homes)) is not None:
            return known
        part = float(jobs[_in(works, destinations)].sum() / max(jobs.sum(), 1))
        found = self.counted(kept, np.zeros(len(jobs), dtype=np.int64), 1, part=part)
        if not found.value[0]:
            found = self._nobody(homes, works, part)
        if homes is None:
            return found
        return replace(found, shared=np.maximum(found.shared, self.near(homes if works is None else homes & works)))

    def near(self, places: Mask) -> float:
        """By how many jobs those who live where they work may be off, in some places.

        What is missing of the homes near the workplaces of their groups, by the noisy jobs by distance of those groups,
        with two standard errors. A group that is chosen in part counts as a whole.
        """
        law = self.law[0]
        own = places & self.release.places.inside
        if law is None or law.near is None or not self.sizes[own].any():
            return 0.0
        points = self.release.places.points()[own]
        radius = float(np.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()))
        bands = int(np.searchsorted(law.near.miles, radius)) + 1
        groups = np.unique(law.near.group[own & (self.sizes > 0)])
        apart = law.near.apart[groups, :bands]
        return float(abs(apart.sum()) + ERRORS * (law.near.variance * apart.size) ** 0.5)

    @cached_property
    def _homes(self) -> tuple[Integers, Floats, float] | None:
        return measured_homes(self.release, float(self.sizes.sum()))

    def residents(self, homes: Mask) -> Counted | None:
        """Workers who live in some places, wherever they work, if these are whole areas whose workers were measured:
        the noisy count itself, whose law is known, and nothing of the model."""
        if self._homes is None:
            return None
        areas, noisy, scale = self._homes
        if _whole(areas, homes, np.ones(len(areas), dtype=bool)) is None:
            return None
        inside = np.unique(areas[homes])
        # Two standard errors of a single geometric count hold 94 of 100; three scales hold 95.
        variance = len(inside) * 2 * scale**2 * (1.13 if len(inside) == 1 else 1.0)
        value = max(float(noisy[inside].sum()), 0.0)
        return Counted(value=np.array([value]), variance=np.array([variance]), shared=np.full(1, 0.5))

    def _nobody(self, homes: Mask | None, works: Mask | None, part: float) -> Counted:
        """A count of zero: as unsure as one job is where least is known, and not certain. The model may miss a home."""
        law = self.law[0]
        assert law is not None  # noqa: S101 - asked by count, which has one
        at = np.flatnonzero((self.sizes > 0) if works is None else (self.sizes > 0) & works)
        if not len(at):
            return Counted(value=np.zeros(1), variance=np.zeros(1), shared=np.zeros(1))
        p = 0.5 / (self.sizes[at] + 1)
        variance = float((law.noise[at] * self.sizes[at] * p * (1 - p)).max())
        away = homes is not None and bool((homes & ~self.release.places.inside).any())
        off = (law.off_outside if away else None) or law.off or MODEL_OFF_ALIKE
        return Counted(value=np.zeros(1), variance=np.array([variance]), shared=np.array([off.jobs * part]))

    # ---- distances

    def mean_miles(self, homes: Mask | None, works: Mask | None, errors: float = ERRORS) -> tuple[float, float, float]:
        """The mean distance of some jobs, how far its range reaches, and the jobs it is a mean of.

        A count of a workplace has the variance noise times that of a sample, so the sum of its distances has noise
        times n times their variance. Jobs that follow the model, and positions inside a zone, may be off by a quarter
        of the spread of distances at each workplace, and by the shared error at all of them together.
        """
        law, why = self.law
        if law is None:
            reason = (
                whole_areas_only(list(self.release.places.areas)[self.pair_noise.level]) if self.pair_noise else why
            )
            raise UnsupportedError(f"mean distances of this release have no range: {reason}.")
        origins, destinations, jobs = self.pairs
        kept = _in(homes, origins) & _in(works, destinations) & np.isfinite(self.miles)
        if not jobs[kept].any():
            raise UnsupportedError("no synthetic job meets this, so there is no mean distance.")
        count = len(self.release.places)
        n = _sums(destinations[kept], jobs[kept], count)
        at = np.flatnonzero(n)
        n = n[at]
        weighted = jobs[kept] * self.miles[kept]
        total = _sums(destinations[kept], weighted, count)[at]
        squares = _sums(destinations[kept], weighted * self.miles[kept], count)[at]
        overall = float(total.sum() / n.sum())
        everywhere = float(squares.sum() / n.sum() - overall**2)
        # One or two jobs say little about their own spread: it is shrunk towards that of all jobs.
        spread = (squares - total**2 / n + everywhere) / (n + 0.0)
        # Zones hold equal parts of all homes, those outside included: of those inside they tell fewer apart.
        inside = float(jobs[np.isfinite(self.miles)].sum() / max(jobs.sum(), 1))
        followed = law.model[at] + (1 - law.model[at]) / np.maximum(law.cells[at] * inside, 1)
        variance = law.noise[at] * n * spread + (MODEL_OFF_BY * followed * n) ** 2 * spread
        off = law.off or MODEL_OFF_ALIKE
        shared = off.share * float((followed * n).sum()) * everywhere**0.5
        reach = (errors * float(variance.sum()) ** 0.5 + shared) / float(n.sum())
        if law.near is not None and not self.release.places.inside.all():
            # Rings around a workplace are mostly about homes outside, so the model decides where those inside are.
            reach = max(reach, self._distance_off(law.near, at, overall, errors) / float(n.sum()))
        return overall, reach, float(n.sum())

    def _distance_off(self, near: NearErrors, works: Integers, mean: float, errors: float) -> float:
        """By how many miles the sum of distances may be off, by noisy jobs by distance of the groups of workplaces."""
        farthest = float(np.nanmax(self.miles))
        bands = int(np.searchsorted(near.miles, farthest)) + 1
        edges = np.concatenate(([0.0], near.miles, [farthest]))[: bands + 1]
        off = np.minimum((edges[:-1] + edges[1:]) / 2, farthest) - mean
        groups = np.unique(near.group[works])
        apart = float(near.apart[groups, :bands].sum(axis=0) @ off)
        return float(abs(apart) + errors * (near.variance * len(groups) * float((off**2).sum())) ** 0.5)


def _in(places: Mask | None, codes: Integers) -> Mask:
    """Which codes are among some places; elsewhere (-1) is in none of them."""
    if places is None:
        return np.ones(len(codes), dtype=bool)
    found: Mask = places[codes] & (codes >= 0)
    return found


def _sums(groups: NDArray[Any], values: NDArray[Any], count: int) -> Floats:
    return np.asarray(np.bincount(groups, values, count), dtype=np.float64)


def _whole(area: Integers, chosen: Mask, counts: Mask) -> int | None:
    """How many areas are chosen, if each is chosen whole; places that do not count are left out."""
    inside = np.bincount(area, chosen & counts)
    of = np.bincount(area, counts, len(inside))
    return int((inside > 0).sum()) if ((inside == 0) | (inside == of)).all() else None
