"""What a commuting release says about the law of its counts, from public facts alone.

Methods that draw from an urn publish, by the public number of jobs of a workplace, how many zones of homes it tells
apart, the prior of each and how many rows are drawn; geometric noise publishes its scale. With them the page computes
the range beside a count (docs/tutorials/map.md). Other releases get no ranges, and the page says why.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from understudy.commutes.map.packing import MapLaw
from understudy.commutes.methods.commute import SPREAD
from understudy.commutes.models.regions import belief
from understudy.commutes.shared.priors import noisy_cells
from understudy.core.arrays import Floats, Integers
from understudy.core.places import DESTINATION
from understudy.privacy.mechanisms.commute_prior import SizedPrior
from understudy.release.statement import Provenance, Statement

URNS = ("commute_urn", "commute_accept_reject")
NOISY_SIZES = "the numbers of jobs at workplaces are noisy themselves, and it is not public which workplaces exist"
NO_LAW = "the method places jobs by a fit to noisy counts of areas, and nothing public says how far that fit is off"


def stated_law(provenance: Provenance, statement: Statement, copy: int, sizes: Integers) -> tuple[MapLaw | None, str]:
    """The law of workplaces with ``sizes`` jobs; or nothing, and why."""
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
        if mechanism.get("mechanism") == "commute_geometric" and options.get("coarsen", "rings") == "rings":
            scale = Fraction(mechanism["scale"])
            cells = noisy_cells(sizes, 2 * statement.unit.rows_per_unit, scale)
            return noise_law(sizes, cells, float(scale)), ""
    return None, NO_LAW


def urn_law(
    sizes: Integers, prior: Floats, cells: Integers, *, times: Integers | int = 1, believed: Floats | float = 1.0
) -> MapLaw:
    """Dirichlet-multinomial draws of ``times`` rows for each of n jobs from an urn with a prior of total size A.

    A count of m rows in a group of zones is beta-binomial: variance m p (1 - p) (N + m) / (N + 1) with N = n + A.
    Multiplied by N / m it estimates the balls of the group. Placed are the drawn rows as far as they are believed, so
    believed n / (n + A) of the jobs tell of workers, and the rest follows the model.
    """
    jobs = np.maximum(sizes, 1).astype(np.float64)
    urn, rows = jobs + prior, jobs * times
    noise = (urn / jobs) ** 2 * (urn + rows) / ((urn + 1) * times)
    return MapLaw(model=1 - believed * jobs / urn, noise=noise, cells=cells)


def noise_law(sizes: Integers, cells: Integers, scale: float) -> MapLaw:
    """Geometric noise on every zone, cut off at zero, and as many rows as there are jobs in proportion.

    A zone has variance 2 s^2, so a group of p of all jobs, about p K zones, has 2 s^2 K / n for each of its n p jobs,
    and once more for real homes. What noise adds above zero, about s/2 for each zone, follows the zones' equal masses.
    """
    jobs = np.maximum(sizes, 1).astype(np.float64)
    added = cells * scale / 2
    return MapLaw(model=added / (jobs + added), noise=1 + 2 * scale**2 * cells / jobs, cells=cells)
