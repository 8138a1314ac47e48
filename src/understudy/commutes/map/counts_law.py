"""What a commuting release says about the law of its counts, from public facts alone.

Methods that draw from an urn publish, by the public number of jobs of a workplace, how many zones of homes it tells
apart, the prior of each and how many rows are drawn; geometric noise publishes its scale. With them the page
computes the range beside a count (docs/tutorials/map.md). Flows between areas have ranges for whole areas only. Other
releases get none, and the page says why.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from understudy.commutes.map.page_arrays import MapLaw, NearErrors, PairNoise, SharedError
from understudy.commutes.methods.commute import SPREAD
from understudy.commutes.methods.commute_tree import PAIRS
from understudy.commutes.models.area_pairs import choose_area_pairs
from understudy.commutes.models.decay import BAND_EDGES, BANDS
from understudy.commutes.models.gravity import GravityTree
from understudy.commutes.models.regions import belief
from understudy.commutes.shared.distances_and_homes import (
    DISTANCES_LABEL,
    HOMES_LABEL,
    choose_level,
    classes_by_distance,
    groups_of,
    home_areas,
)
from understudy.commutes.shared.priors import noisy_cells
from understudy.core.arrays import Floats, Integers
from understudy.core.places import DESTINATION
from understudy.privacy.mechanisms.cell_estimates import CONCENTRATIONS
from understudy.privacy.mechanisms.cell_estimates import noise_law as cell_noise
from understudy.privacy.mechanisms.commute_prior import SizedPrior
from understudy.privacy.mechanisms.flow_mixture import ANSWERS, BALANCED, MixedCells
from understudy.privacy.mechanisms.noise import Geometric
from understudy.privacy.mechanisms.ring_division import GRADE, is_graded
from understudy.privacy.mechanisms.sparse_geometric import SparseGeometric
from understudy.privacy.promise.event import NoNoise
from understudy.release.statement import Provenance, Statement

if TYPE_CHECKING:
    from understudy.commutes.commute_release import CommuteRelease

URNS = ("commute_urn", "commute_accept_reject")
NOISY_SIZES = "the numbers of jobs at workplaces are noisy themselves, and it is not public which workplaces exist"
NO_LAW = "the method places jobs by a fit to noisy counts of areas, and nothing public says how far that fit is off"


def whole_areas_only(level: str) -> str:
    """Why a count inside an area has no range."""
    return (
        f"the method knows homes and workplaces by {level} and no finer; whole areas have ranges: select one, and "
        f"count by {level} or a larger area"
    )


def stated_law(
    provenance: Provenance, statement: Statement, copy: int, sizes: Integers, inside: float = 1.0
) -> tuple[MapLaw | None, str]:
    """The law of workplaces with ``sizes`` jobs, of which the part ``inside`` is held by people whose homes are not
    outside; or nothing, and why."""
    if DESTINATION not in statement.unit.fixed:
        return None, NOISY_SIZES
    drawn = provenance.draws[copy - 1].get("mechanisms", ()) if 1 <= copy <= len(provenance.draws) else ()
    options = {} if provenance.plan is None else provenance.plan.options
    for mechanism in drawn:
        if mechanism.get("mechanism") in URNS:
            priors = SizedPrior.from_json(mechanism)
            cells, weights, shifts = priors.of(sizes)
            prior: Floats = cells * (weights.astype(np.float64) * 2.0 ** (-shifts.astype(np.float64)))
            times = priors.times_of(sizes)
            blended = mechanism["mechanism"] == "commute_urn" and options.get("coarsen", "rings") == "rings"
            blended = blended and options.get("blend", "auto") == "auto"
            believed = belief(sizes, prior, SPREAD, times) if blended else np.ones(len(sizes))
            return urn_law(sizes, prior, cells, times=times, believed=believed), ""
        if mechanism.get("mechanism") == MixedCells.name:
            return mixed_law(sizes, MixedCells.from_json(mechanism, NoNoise()), inside), ""
        if mechanism.get("mechanism") == "commute_geometric" and options.get("coarsen", "rings") == "rings":
            scale = Fraction(mechanism["scale"])
            cells = noisy_cells(sizes, 2 * statement.unit.rows_per_unit, scale)
            return noise_law(sizes, cells, float(scale)), ""
    return None, NO_LAW


def pair_noise(release: CommuteRelease, copy: int = 1) -> PairNoise | None:
    """The error of pairs of areas, where all of them were measured one by one and the jobs at places are public.

    The variance of the noise stands for the squared error of a pair. Counts are made from noisy counts and a model, and
    the whole numbers of a home area need not add up to its noisy total. So the variance is as large as home areas with
    all workplaces need, by ``error_at_most``.
    """
    plan = release.provenance.plan
    found = next((one for one in release.measurements if one.label == PAIRS), None)
    if plan is None or found is None or DESTINATION not in release.statement.unit.fixed:
        return None
    levels = list(release.places.areas)
    finest = str(plan.options.get("finest", levels[-1]))  # once there was no choice
    pairs = choose_area_pairs(release.places, float(str(plan.options["near"])), finest)
    if isinstance(found.mechanism, SparseGeometric) or pairs.near.start or len(pairs) != len(found.values):
        return None
    area, count, variance = pairs.finest.area_of_place, len(pairs.finest), found.mechanism.variance
    origins, destinations, jobs = release.coded(copy)
    works = np.bincount(area[destinations], jobs, count) > 0  # which areas have jobs is public
    own = works[pairs.destination]
    noisy = np.bincount(pairs.origin[own], found.values[own], count).astype(np.float64)
    shown = np.bincount(area[origins], jobs, count).astype(np.float64)
    most = error_at_most(shown, noisy, np.full(count, variance * works.sum()))
    return PairNoise(level=levels.index(pairs.finest.name), variance=most / max(int(works.sum()), 1))


def off_alike(release: CommuteRelease, copy: int, *, outside: bool = False) -> SharedError | None:
    """How large the error of the model may be that all workplaces share, from the noisy jobs by home area.

    Homes outside are whole states, with errors of another size, so they are told apart (``outside``).

    It is twice the square root of ``error_at_most``: jobs of an area, and the share of those that follow the model.
    Nothing is charged: the noisy counts were measured and are part of the release.
    """
    origins, destinations, jobs = (np.asarray(column, dtype=np.int64) for column in release.coded(copy))
    origins, destinations, jobs = (column[origins >= 0] for column in (origins, destinations, jobs))
    sizes = np.bincount(destinations, jobs, len(release.places)).astype(np.int64)
    law, _ = stated_law(release.provenance, release.statement, copy, sizes, part_inside(release, origins, jobs))
    measured = measured_homes(release, float(sizes.sum()))
    if law is None or measured is None:
        return None
    areas, noisy, noise = measured
    number, variance = len(noisy), np.full(len(noisy), noise.variance)
    for level in list(release.places.areas)[-1:]:  # parts of the areas that people ask for are put together
        whole, count = groups_of(release.places, level)
        of_part = np.zeros(number, dtype=np.int64)
        of_part[areas] = whole
        if count < number and np.array_equal(of_part[areas], whole):
            noisy = np.asarray(np.bincount(of_part, noisy, count), dtype=np.float64)
            variance = np.asarray(np.bincount(of_part, variance, count), dtype=np.float64)
            areas, number = whole, count
    keys, which = np.unique(destinations * number + areas[origins], return_inverse=True)
    shown, at, area = np.bincount(which, jobs), keys // number, keys % number
    zones = law.cells[at] if not outside or law.outside is None else law.outside[at]
    zone = np.minimum(shown, np.maximum(sizes[at] / zones, 1))  # a zone with somebody in it has a job
    modelled = np.bincount(area, law.model[at] * shown + (1 - law.model[at]) * zone, number)
    own = np.zeros(number, dtype=bool)
    own[areas[~release.places.inside if outside else release.places.inside]] = True
    if not own.any():
        return None
    counted = np.bincount(area, shown, number).astype(np.float64)
    most = error_at_most(counted[own], noisy[own], variance[own])
    return SharedError(
        share=float(2 * np.sqrt(most / max(float(np.mean(modelled[own] ** 2)), 1e-9))), jobs=2 * most**0.5
    )


def part_inside(release: CommuteRelease, origins: Integers, jobs: Integers) -> float:
    """The part of the synthetic jobs whose homes are not outside."""
    if release.places.outside is None:
        return 1.0
    away = (origins >= 0) & release.places.outside[origins]
    return float(np.clip(1 - jobs[away].sum() / max(int(jobs.sum()), 1), 0.01, 0.99))


def near_errors(release: CommuteRelease, copy: int) -> NearErrors | None:
    """How many jobs of each group of workplaces and band of distance the release has too few or too many of.

    Homes at the workplace's door are few, and no zone is as small as they are near, so the model decides about them.
    The noisy jobs by distance, which the release holds, say how far it is off.
    """
    found = next((one for one in release.measurements if one.label == DISTANCES_LABEL), None)
    plan = release.provenance.plan
    if plan is None or found is None or not isinstance(found.mechanism, Geometric):
        return None
    origins, destinations, jobs = (np.asarray(part, dtype=np.int64) for part in release.coded(copy))
    total = int(jobs.sum()) if release.statement.unit.public_total else None
    asked = str(plan.options.get("decay_level", "auto"))
    level = choose_level(release.places, asked, float(found.mechanism.scale), total)
    groups, number = groups_of(release.places, level)
    classes = classes_by_distance(release.places)
    if len(found.values) != number * classes:
        return None
    known = (origins >= 0) & release.places.inside[origins]
    band = np.searchsorted(BAND_EDGES, release.places.miles(origins[known], destinations[known]), side="right")
    shown = np.bincount(groups[destinations[known]] * BANDS + band, jobs[known], number * BANDS)
    return NearErrors(
        miles=BAND_EDGES, group=groups, variance=found.mechanism.variance,
        apart=found.values.reshape(number, classes)[:, :BANDS].astype(np.float64) - shown.reshape(number, BANDS),
    )  # fmt: skip


def measured_homes(release: CommuteRelease, jobs: float) -> tuple[Integers, Floats, Geometric] | None:
    """The home area of each place, the noisy workers who live in each area, and the noise; nothing if they were not
    measured. ``jobs``: the number of jobs, from which the areas were made."""
    found = next((one for one in release.measurements if one.label == HOMES_LABEL), None)
    if found is None or not isinstance(found.mechanism, Geometric):
        return None
    noise = found.mechanism
    areas, number = home_areas(GravityTree(release.places), float(noise.scale), jobs)
    return (areas, found.values.astype(np.float64), noise) if number == len(found.values) else None


def error_at_most(shown: Floats, noisy: Floats, variance: Floats) -> float:
    """An upper bound on the mean squared error of counts z made from noisy counts y = x + noise of variance v.

    By Stein's identity (exact for normal noise) it is the mean of (z - y)^2 - v + 2v times the slope of z in y.
    The slope lies between 0 and 1.
    """
    return float(np.mean((shown - noisy) ** 2 + variance))


def urn_law(
    sizes: Integers, prior: Floats, cells: Integers, *, times: Integers | int = 1, believed: Floats | float = 1.0
) -> MapLaw:
    """Dirichlet-multinomial draws of ``times`` rows for each of n jobs from an urn with a prior of total size A.

    A count of m rows in a group of zones is beta-binomial: variance m p (1 - p) (N + m) / (N + 1) with N = n + A.
    Multiplied by N / m it estimates the balls of the group. Drawn rows are used only by the share to which they are
    believed. So believed n / (n + A) of the jobs describe workers, and the rest follows the model.
    """
    jobs = np.maximum(sizes, 1).astype(np.float64)
    urn, rows = jobs + prior, jobs * times
    noise = (urn / jobs) ** 2 * (urn + rows) / ((urn + 1) * times)
    return MapLaw(model=1 - believed * jobs / urn, noise=noise, cells=cells)


def mixed_law(sizes: Integers, mechanism: MixedCells, inside: float = 1.0) -> MapLaw:
    """What the law of each size leaves unsure.

    An answer is true with probability t = 1 / (1 + K a): the true count of a group is estimated with a variance of
    (1 - t^2) / t^2 for each job. Noise of variance v in each of K zones is v K / n for each of n jobs. It falls when
    counts are estimated with the model. The share that follows the model is the share of the variance of a count that
    noise hides. The nearest zones of graded rings are a third larger than the average, so there are as if fewer zones.
    With homes outside the zones of either side share the jobs of that side only, so there is more noise for each job.
    """
    laws, cells = mechanism.laws.of(sizes)
    beyond = mechanism.laws.outside_of(sizes)
    jobs = np.maximum(sizes, 1).astype(np.float64)
    model, noise = np.empty(len(sizes)), np.empty(len(sizes))
    spread = np.mean([1 / (concentration + 1) for concentration in CONCENTRATIONS])
    for law, rings, away in {*zip(laws.tolist(), cells.tolist(), beyond.tolist(), strict=True)}:
        own = (laws == law) & (cells == rings) & (beyond == away)
        zones = rings + away
        varies = 1 / jobs[own] + (1 - 1 / jobs[own]) * spread
        if law == ANSWERS:
            true = float(1 / (1 + zones * mechanism.prior))
            each = np.full(int(own.sum()), (1 - true**2) / true**2)
        else:
            chances = cell_noise(mechanism.scale, zones, law == BALANCED)
            variance = float((chances * (np.arange(len(chances)) - len(chances) // 2) ** 2).sum())
            each = variance * max(rings / inside, away / (1 - inside) if away else 0.0) / jobs[own]
        hidden = each / jobs[own] / (varies + each / jobs[own])
        model[own], noise[own] = hidden if mechanism.alike else 0.0, 1 + each * (1 - hidden)
    larger = (laws != ANSWERS) & is_graded(cells) & mechanism.graded
    return MapLaw(
        model=model, noise=noise, cells=np.where(larger, (cells / GRADE).astype(np.int64), cells),
        outside=beyond if beyond.any() else None,
    )  # fmt: skip


def noise_law(sizes: Integers, cells: Integers, scale: float) -> MapLaw:
    """Geometric noise on every zone, cut off at zero, and as many rows as there are jobs in proportion.

    A zone has variance 2 s^2. A group with a share p of all jobs has about p K zones: 2 s^2 K / n for each of its n p
    jobs, and the same again for real homes. The noise that is left above zero, about s/2 for each zone, is spread over
    the zones by their equal masses.
    """
    jobs = np.maximum(sizes, 1).astype(np.float64)
    added = cells * scale / 2
    return MapLaw(model=added / (jobs + added), noise=1 + 2 * scale**2 * cells / jobs, cells=cells)
