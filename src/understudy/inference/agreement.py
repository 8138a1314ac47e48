"""Do the noisy tables of a release agree with each other, as far as their noise allows?

Two tables that share attributes count the same people. Summed over all other attributes, they differ by noise alone.
Where the number of records is public, each table sums to it up to noise. A difference that noise can hardly explain
means that a file was changed, that tables of different data were put together, or that a mechanism is misstated. Every
probability here is an upper bound by Chernoff's inequality, from the moment generating function of the noise. The
bounds are added up over all comparisons: an honest release is flagged with probability at most ``FALSE_ALARM``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.measurement import Measurement
from understudy.core.schema import Schema
from understudy.inference.evidence import public_records
from understudy.release.table_release import Release

FALSE_ALARM = 1e-6
TILTS = np.geomspace(1e-3, 0.999, 60)  # as shares of the largest tilt at which the bound exists
MOST_TABLES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Two tables (or a table and the number of records) whose difference noise does not explain."""

    first: str
    second: str
    cell: str
    difference: int
    probability: float  # an upper bound, over all comparisons

    def __str__(self) -> str:
        return (
            f"{self.first} and {self.second} differ by {self.difference:+,} at {self.cell}, which their noise does "
            f"with probability at most {self.probability:.1g}"
        )


_SEEN: list[tuple[object, tuple[Disagreement, ...]]] = []  # the last few releases; hundreds of tables take seconds
MOST_SEEN = 4


def disagreements(release: Release) -> tuple[Disagreement, ...]:
    """Every pair of tables that disagrees beyond noise; empty for an honest release."""
    for measurements, found in _SEEN:
        if measurements is release.measurements:
            return found
    result = _disagreements(release)
    _SEEN.append((release.measurements, result))
    del _SEEN[:-MOST_SEEN]
    return result


def _disagreements(release: Release) -> tuple[Disagreement, ...]:
    schema = release.schema
    # Noise whose law depends on the count (not additive) has no generating function that is known without the count.
    additive = [one for one in release.measurements if getattr(one.mechanism, "additive", True)]
    tables = [one for one in additive if one.cells == "all"][:MOST_TABLES]
    records = public_records(release)
    found: list[tuple[str, str, tuple[str, ...], Floats, Floats]] = []
    for first, second in combinations(tables, 2):
        shared = tuple(name for name in first.margin if name in second.margin)
        if shared or records is None:
            a, one = _summed(schema, first, shared)
            b, two = _summed(schema, second, shared)
            bound = _log_bound(np.abs(a - b), [(first.mechanism, one), (second.mechanism, two)])
            found.append((_name(first), _name(second), shared, a - b, bound))
    if records is not None:
        for table in tables:
            total, count = _summed(schema, table, ())
            bound = _log_bound(np.abs(total - records), [(table.mechanism, count)])
            found.append((_name(table), "the number of records", (), total - records, bound))
    comparisons = sum(len(entry[3]) for entry in found)
    result = []
    for first_name, second_name, shared, difference, bound in found:
        worst = int(np.argmin(bound))
        chance = float(np.exp(min(0.0, bound[worst] + np.log(max(comparisons, 1)))))
        if chance < FALSE_ALARM:
            result.append(
                Disagreement(
                    first=first_name,
                    second=second_name,
                    cell=_cell(schema, shared, worst),
                    difference=int(difference[worst]),
                    probability=chance,
                )
            )
    return tuple(sorted(result, key=lambda one: one.probability))


def _name(measurement: Measurement) -> str:
    return " x ".join(measurement.margin) or "the noisy total"


def _cell(schema: Schema, margin: tuple[str, ...], place: int) -> str:
    if not margin:
        return "the total"
    codes = np.unravel_index(place, schema.shape(margin))
    return ", ".join(f"{name}={schema[name].code_names[int(c)]}" for name, c in zip(margin, codes, strict=True))


def _summed(schema: Schema, measurement: Measurement, kept: tuple[str, ...]) -> tuple[Floats, Floats]:
    """A table summed to some attributes, and the number of noise terms in each sum."""
    others = tuple(place for place, name in enumerate(measurement.margin) if name not in kept)
    allowed = schema.allowed(measurement.margin) if measurement.margin else np.ones((), bool)
    values = np.where(allowed, measurement.values, 0).sum(axis=others)
    return np.atleast_1d(values).reshape(-1).astype(np.float64), np.atleast_1d(allowed.sum(axis=others)).reshape(-1)


def _log_bound(distance: Floats, noises: Sequence[tuple[Any, Floats]]) -> Floats:
    """log of an upper bound of P(|sum of the noises| >= distance), for each cell."""
    geometric = [float(mechanism.scale) for mechanism, _ in noises if mechanism.name == "geometric"]
    gaussian = sum(float(mechanism.variance) * counts for mechanism, counts in noises)
    # If tails are no heavier than Gaussian, the best tilt is the distance divided by the variance.
    reach = 1 / max(geometric) if geometric else 2 * distance / np.maximum(gaussian, 1e-300)
    tilts = np.multiply.outer(np.broadcast_to(reach, distance.shape), TILTS)
    log = -tilts * distance[:, None]
    for mechanism, counts in noises:
        if not mechanism.variance:
            continue
        if mechanism.name == "geometric":
            rate = 1 / float(mechanism.scale)
            gained = 2 * np.log(-np.expm1(-rate)) - np.log(-np.expm1(tilts - rate)) - np.log(-np.expm1(-tilts - rate))
        else:  # the discrete Gaussian is sub-Gaussian with its scale (Canonne, Kamath and Steinke, Corollary 17)
            gained = tilts**2 * float(mechanism.scale) ** 2 / 2
        log = log + counts[:, None] * gained
    return np.asarray(np.minimum(0.0, np.log(2) + log.min(axis=1)))
