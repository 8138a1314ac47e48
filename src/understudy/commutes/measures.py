"""How useful synthetic commutes are: distances, flows and jobs against the confidential table.

The first measure is the commuting paper's (Machanavajjhala et al. 2008, section VI): the average commute distance of
every destination, true and synthetic, all commutes and short ones apart, by the size of the destination.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.commutes.commute_release import CommuteRelease
from understudy.core.arrays import Floats
from understudy.core.flows import FlowSource
from understudy.core.places import Places
from understudy.core.result import Finding, Section, Severity
from understudy.errors import InputError
from understudy.evaluation.shared.results import Collected, frame

SIZES = ((1, 4), (5, 19), (20, 99), (100, None))  # workers at a destination
DISTANCES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200)  # miles
LONG_QUANTILE = 0.99
MOST_LISTED = 200_000  # destinations of the frame behind the figure
PAPER = "Machanavajjhala et al. (2008), section VI, figures 1 to 4"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class JobPairs:
    """Jobs by codes of places; an origin of -1 is ``elsewhere`` and has no distance."""

    origins: NDArray[np.integer]
    destinations: NDArray[np.integer]
    jobs: NDArray[np.integer]


def evaluate_commutes(release: CommuteRelease, source: FlowSource) -> Section:
    """A release of commutes against the confidential table it was made from."""
    if release.places.fingerprint != source.places.fingerprint:
        raise InputError("the confidential commutes are between other places than those of the release.")
    pairs = [release.coded(copy) for copy in range(1, release.copies + 1)]
    return compare_commutes(
        release.places, _pairs(*source.flows().confidential_pairs()), [_pairs(*columns) for columns in pairs]
    )


def _pairs(origins: NDArray[Any], destinations: NDArray[Any], jobs: NDArray[Any]) -> JobPairs:
    return JobPairs(origins=origins, destinations=destinations, jobs=jobs)


def compare_commutes(places: Places, true: JobPairs, copies: Sequence[JobPairs]) -> Section:
    """All measures of a commuting release. Internal: it is computed from confidential data."""
    named = [("the confidential table", true)]
    named += [(f"synthetic table {number}", copy) for number, copy in enumerate(copies, start=1)]
    for name, pairs in named:
        if not pairs.jobs[np.asarray(pairs.origins) >= 0].sum():
            raise InputError(f"{name} has no jobs whose origin is a place; there is nothing to compare.")
    found = Collected()
    truth = _Measured(places, true)
    measured = [_Measured(places, copy) for copy in copies]
    _average_distances(truth, measured, found)
    _distance_classes(truth, measured, found)
    _flows(truth, measured, found)
    _long_commutes(truth, measured, found)
    _jobs_in_areas(truth, measured, found)
    return found.section()


class _Measured:
    """One table with its distances, which several measures use."""

    def __init__(self, places: Places, pairs: JobPairs) -> None:
        self.places = places
        known = (np.asarray(pairs.origins) >= 0) & places.inside[pairs.origins]  # an origin of -1 is not known anyway
        self.origins = np.asarray(pairs.origins)[known]
        self.destinations = np.asarray(pairs.destinations)[known]
        self.jobs = np.asarray(pairs.jobs)[known].astype(np.float64)
        self.elsewhere = float(np.asarray(pairs.jobs)[~known].sum())
        self.all_destinations = np.bincount(pairs.destinations, pairs.jobs, len(places))
        self.miles = places.miles(self.origins, self.destinations)

    def average(self, most: float | None = None) -> tuple[Floats, Floats]:
        """Average distance and jobs of every destination; of commutes below ``most`` miles only, if given."""
        kept = slice(None) if most is None else self.miles < most
        jobs = _sums(self.destinations[kept], self.jobs[kept], len(self.places))
        sums = _sums(self.destinations[kept], (self.jobs * self.miles)[kept], len(self.places))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(jobs > 0, sums / jobs, np.nan), jobs

    def quantile(self, share: float) -> float:
        order = np.argsort(self.miles)
        reached = np.cumsum(self.jobs[order])
        return float(self.miles[order[np.searchsorted(reached, share * reached[-1])]])


def _average_distances(truth: _Measured, copies: Sequence[_Measured], found: Collected) -> None:
    """By size of the destination: mean absolute error and bias of its average commute, in miles, beside the error of
    giving every destination the overall average."""
    short = truth.quantile(0.5)
    rows: list[dict[str, Any]] = []
    for name, most in (("all", None), ("short", short)):
        average, jobs = truth.average(most)
        overall = float(np.nansum(average * jobs) / max(jobs.sum(), 1))
        results = [copy.average(most)[0] for copy in copies]
        for low, high in (*SIZES, (1, None)):
            own = (truth.all_destinations >= low) & (jobs > 0)
            if high is not None:
                own &= truth.all_destinations <= high
            errors = [one[own] - average[own] for one in results]
            both = [error[np.isfinite(error)] for error in errors]
            rows.append(
                {
                    "commutes": name,
                    "workers": f"{low}-{high}" if high else ("all" if low == 1 else f"{low}+"),
                    "destinations": int(own.sum()),
                    "lost": float(np.mean([np.isnan(error).mean() if len(error) else 0.0 for error in errors])),
                    "mean_absolute_error": _mean([np.abs(error).mean() for error in both if len(error)]),
                    "bias": _mean([error.mean() for error in both if len(error)]),
                    "at_overall_average": float(np.abs(average[own] - overall).mean()) if own.any() else None,
                    "true_average": float(average[own].mean()) if own.any() else None,
                }
            )
        if name == "all":
            found.frames["destinations"] = _destinations(truth, copies[0], short)
    found.frames["commute_distance"] = frame(rows)
    whole = next(row for row in rows if row["commutes"] == "all" and row["workers"] == "all")
    error, guess = whole["mean_absolute_error"], whole["at_overall_average"]
    found.findings.append(
        Finding(
            code="commutes.distance",
            title="mean absolute error, in miles, of the average commute of a destination; with the overall average "
            f"for everyone it would be {guess:.2f}",
            value=error,
            severity=_severity(error, guess),
            reference=PAPER,
        )
    )


def _destinations(truth: _Measured, copy: _Measured, short: float) -> Any:
    """True and synthetic average of each destination, of all its commutes and of its short ones: what figures draw."""
    own = np.flatnonzero(truth.all_destinations > 0)[:MOST_LISTED]
    columns = [table.average(most)[0][own] for most in (None, short) for table in (truth, copy)]
    return frame(
        [
            {"destination": text, "workers": int(workers), "true": a, "synthetic": b, "true_short": c,
             "synthetic_short": d}
            for text, workers, a, b, c, d in zip(
                truth.places.id_texts(own), truth.all_destinations[own], *columns, strict=True
            )
        ]
    )  # fmt: skip


def _distance_classes(truth: _Measured, copies: Sequence[_Measured], found: Collected) -> None:
    edges = (0, *DISTANCES)
    true = _by_distance(truth)
    synthetic = np.mean([_by_distance(copy) for copy in copies], axis=0)
    rows = [
        {"from": float(low), "to": float(high) if high else None, "true": float(a), "synthetic": float(b)}
        for low, high, a, b in zip(edges, (*DISTANCES, None), true, synthetic, strict=True)
    ]
    rows.append({
        "from": None, "to": None, "true": truth.elsewhere, "synthetic": _mean([copy.elsewhere for copy in copies]),
    })  # fmt: skip
    found.frames["distance_classes"] = frame(rows)
    apart = float(np.abs(true / true.sum() - synthetic / max(synthetic.sum(), 1)).sum() / 2)
    found.findings.append(
        Finding(
            code="commutes.distance_distribution",
            title="share of jobs in another class of commute distance than they should be",
            value=apart,
            severity=_severity(apart, 0.2),
        )
    )


def _by_distance(table: _Measured) -> Floats:
    return _sums(np.searchsorted(DISTANCES, table.miles, side="right"), table.jobs, len(DISTANCES) + 1)


def _sums(groups: NDArray[np.integer], values: Floats, count: int) -> Floats:
    return np.asarray(np.bincount(groups, values, count), dtype=np.float64)


def _flows(truth: _Measured, copies: Sequence[_Measured], found: Collected) -> None:
    """Jobs between areas, level by level: the share that would have to move for the two tables to agree."""
    rows: list[dict[str, Any]] = []
    for level in (*truth.places.areas, None):
        misplaced, invented = zip(*(_misplaced(truth, copy, level) for copy in copies), strict=True)
        rows.append(
            {"between": level or "places", "misplaced": _mean(misplaced), "in_pairs_without_jobs": _mean(invented)}
        )
    found.frames["flows"] = frame(rows)
    finest = rows[-2] if len(rows) > 1 else rows[-1]
    found.findings.append(
        Finding(
            code="commutes.flows",
            title=f"share of jobs in the wrong pair of areas (level '{finest['between']}')",
            value=finest["misplaced"],
            severity=_severity(finest["misplaced"], 0.3),
        )
    )


def _misplaced(truth: _Measured, copy: _Measured, level: str | None) -> tuple[float, float]:
    if level is None:
        codes, count = np.arange(len(truth.places)), len(truth.places)
    else:
        names, codes = np.unique(truth.places.areas[level], return_inverse=True)
        count = len(names)
    keys = [codes[one.origins].astype(np.int64) * count + codes[one.destinations] for one in (truth, copy)]
    _, place = np.unique(np.concatenate(keys), return_inverse=True)
    here = np.bincount(place[: len(keys[0])], truth.jobs, int(place.max()) + 1)
    there = np.bincount(place[len(keys[0]) :], copy.jobs, int(place.max()) + 1)
    here, there = here / here.sum(), there / max(there.sum(), 1)
    return float(np.abs(here - there).sum() / 2), float(there[here == 0].sum())


def _long_commutes(truth: _Measured, copies: Sequence[_Measured], found: Collected) -> None:
    """Commutes beyond the true 99th percentile: a method that spreads its prior over the map invents them."""
    limit = truth.quantile(LONG_QUANTILE)
    true = float(truth.jobs[truth.miles > limit].sum() / truth.jobs.sum())
    synthetic = _mean([copy.jobs[copy.miles > limit].sum() / max(copy.jobs.sum(), 1) for copy in copies])
    found.frames["long_commutes"] = frame([{"beyond_miles": limit, "true_share": true, "synthetic_share": synthetic}])
    excess = (synthetic or 0.0) - true
    found.findings.append(
        Finding(
            code="commutes.invented_long",
            title=f"share of commutes beyond {limit:.1f} miles in excess of the true {true:.3f}",
            value=excess,
            severity=_severity(abs(excess), 0.03),
            reference=PAPER,
        )
    )


def _jobs_in_areas(truth: _Measured, copies: Sequence[_Measured], found: Collected) -> None:
    """How many people work and how many workers live in each area: mean absolute error, and its share of the jobs."""
    rows = []
    for level, ids in truth.places.areas.items():
        _, codes = np.unique(ids, return_inverse=True)
        for side in ("destinations", "origins"):
            true = np.bincount(codes[getattr(truth, side)], truth.jobs, int(codes.max()) + 1)
            errors = [
                np.abs(np.bincount(codes[getattr(copy, side)], copy.jobs, len(true)) - true).sum() for copy in copies
            ]
            rows.append(
                {"level": level, "people": "working" if side == "destinations" else "living", "areas": len(true),
                 "mean_absolute_error": float(np.mean(errors) / len(true)),
                 "share_of_jobs": float(np.mean(errors) / true.sum())}
            )  # fmt: skip
    if rows:
        found.frames["jobs_in_areas"] = frame(rows)
    else:
        found.omit("commutes", "jobs in areas", "the places have no areas")


def _mean(values: Sequence[Any]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _severity(value: float | None, much: float) -> Severity:
    """Good below a quarter of ``much``, a problem above ``much``."""
    if value is None:
        return "info"
    return "good" if value < much / 4 else "problem" if value > much else "warning"
