"""How far synthetic counts of jobs may be from the counts behind them: the formulas of the map, for any group of jobs.

The map has them in ``map/templates/uncertainty.js``, which says why they are what they are; a test computes both on the
same release. Everything here is read from the release alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from understudy.commutes.answers.noise_reach import noise_reach
from understudy.commutes.commute_release import CommuteRelease
from understudy.commutes.map.counts_law import (
    measured_homes,
    near_errors,
    off_alike,
    pair_noise,
    part_inside,
    stated_law,
    whole_areas_only,
)
from understudy.commutes.map.page_arrays import MapLaw, PairNoise, SharedError
from understudy.core.arrays import Floats, Integers
from understudy.core.mechanism import Mechanism
from understudy.core.places import DESTINATION
from understudy.errors import UnsupportedError
from understudy.privacy.mechanisms.noise import Geometric

MODEL_OFF_BY = 0.25  # the model's own error at each workplace, as a share of the jobs that follow it
MODEL_OFF_ALIKE = SharedError(share=0.2, jobs=0.0)  # the error that all share, where nothing was measured
MOST_KEPT = 2_000_000  # pairs
ERRORS = 2.0  # standard errors to either side, for 95 percent

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counted:
    """Synthetic jobs of some groups: the count, the variance of its error, and the error that all workplaces share.

    ``measured``: the noise of a count that was measured itself, and of how many cells it is the sum.
    """

    value: Floats
    variance: Floats
    shared: Floats
    measured: tuple[Mechanism, int] | None = None

    def reach(self, errors: float = ERRORS) -> Floats:
        """How far to either side a range reaches, for so many standard errors (two are 95 percent)."""
        if self.measured is not None:
            return np.full(len(self.value), noise_reach(*self.measured, level_of(errors)))
        found: Floats = errors * np.sqrt(self.variance) + self.shared
        return found


def errors_for(level: float) -> float:
    """Standard errors to either side: two for 95 percent, as on the map, and in proportion for other levels."""
    return ERRORS * NormalDist().inv_cdf((1 + level) / 2) / NormalDist().inv_cdf(0.975)


def level_of(errors: float) -> float:
    """The level that so many standard errors stand for.

    >>> round(level_of(2.0), 6), round(level_of(errors_for(0.8)), 6)
    (0.95, 0.8)
    """
    return 2 * NormalDist().cdf(errors / ERRORS * NormalDist().inv_cdf(0.975)) - 1


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
        inside = part_inside(self.release, self.pairs[0], self.pairs[2])
        law, why = stated_law(self.release.provenance, self.release.statement, self.copy, self.sizes, inside)
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
        away = np.zeros(groups, dtype=bool)  # groups with homes outside
        away[group[kept & (origins >= 0) & ~self.release.places.inside[origins]]] = True
        zones = law.cells[at] if law.outside is None else np.where(away[of], law.outside[at], law.cells[at])
        modelled = law.model[at] * shown + (1 - law.model[at]) * np.minimum(shown, np.maximum(drawn / zones, 1))
        variance = law.noise[at] * drawn * p * (1 - p) + (MODEL_OFF_BY * modelled) ** 2
        followed = _sums(of, modelled, groups)
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
        if works is not None and self.public_sizes and not self.sizes[~works].any():
            works = None  # all of them work there, which is public
        origins, destinations, jobs = self.pairs
        kept = _in(homes, origins) & _in(works, destinations)
        if homes is None and self.public_sizes:
            return Counted(value=np.array([float(jobs[kept].sum())]), variance=np.zeros(1), shared=np.zeros(1))
        if works is None and homes is not None and (known := self.residents(homes)) is not None:
            return known
        if self.law[0] is None:
            everywhere = np.ones(len(self.release.places), dtype=bool)
            return self.counted_areas(everywhere if homes is None else homes, everywhere if works is None else works)
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
    def _homes(self) -> tuple[Integers, Floats, Geometric] | None:
        return measured_homes(self.release, float(self.sizes.sum()))

    def residents(self, homes: Mask) -> Counted | None:
        """Workers who live in some places, wherever they work, if these are whole areas whose workers were measured:
        the noisy count itself, whose law is known, and nothing of the model."""
        if self._homes is None:
            return None
        areas, noisy, noise = self._homes
        if _whole(areas, homes, np.ones(len(areas), dtype=bool)) is None:
            return None
        inside = np.unique(areas[homes])
        value = max(float(noisy[inside].sum()), 0.0)
        variance = np.array([len(inside) * noise.variance])
        return Counted(value=np.array([value]), variance=variance, shared=np.zeros(1), measured=(noise, len(inside)))

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
        followed = law.model[at] + (1 - law.model[at]) / np.maximum(law.cells[at], 1)
        variance = law.noise[at] * n * spread + (MODEL_OFF_BY * followed * n) ** 2 * spread
        off = law.off or MODEL_OFF_ALIKE
        shared = off.share * float((followed * n).sum()) * everywhere**0.5
        reach = (errors * float(variance.sum()) ** 0.5 + shared) / float(n.sum())
        return overall, reach, float(n.sum())


def ranges_of(release: CommuteRelease, copy: int = 1) -> CountRanges:
    """The counts of a copy. Those of the last two releases of ordinary size are kept: somebody who asks one question
    asks others, and the laws of a release take longer to work out than any answer."""
    small = pq.read_metadata(release.files[copy - 1]).num_rows <= MOST_KEPT
    return _kept(release, copy) if small else CountRanges(release=release, copy=copy)


@lru_cache(maxsize=2)
def _kept(release: CommuteRelease, copy: int) -> CountRanges:
    return CountRanges(release=release, copy=copy)


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
