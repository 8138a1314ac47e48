"""The mechanism that a configured ``commute`` draws with: its prior from public sizes, and what that prior rests on."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.core.exact import float_down, read_exact, show_up
from understudy.core.places import DESTINATION, Places
from understudy.errors import BudgetError
from understudy.models.nested_areas import NestedAreas
from understudy.models.regions import AreaRegions, rings_and_sectors
from understudy.privacy.exact.dirichlet_breach import breach_quick_bound
from understudy.privacy.gate.flow_gate import Regions
from understudy.privacy.mechanisms.commute_prior import PriorRule, SizedPrior, size_step
from understudy.privacy.mechanisms.dirichlet_draw import round_prior
from understudy.privacy.mechanisms.flow_draws import CellUrn, FlowMechanism, ShrunkUrn
from understudy.privacy.mechanisms.place_bands import PlaceBands
from understudy.privacy.mechanisms.shrinking import published_epsilon, shrunk_delta, shrunk_prior, surely_retained
from understudy.privacy.promise.calibrate_dirichlet import theorem_prior
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.event import ApproxLoss, Event, GeometricNoise, NoNoise, PureLoss
from understudy.privacy.promise.plan import Plan
from understudy.synth.commutes.mechanisms import AcceptingUrn, NoisyCells, gamma_for
from understudy.synth.commutes.settings import Shrinking

if TYPE_CHECKING:
    from understudy.synth.commutes.commute import Commute

Integers = NDArray[np.int64]
MOST_COUNTED = 200_000  # destinations around which places are counted
Built = tuple[FlowMechanism, Integers, tuple[str, ...]]


def build_mechanism(
    method: Commute, plan: Plan, places: Places, rows: Integers, *, event: Event, regions: Regions
) -> Built:
    """The mechanism, the number of cells of each destination, and notes about what it rests on."""
    if isinstance(event, GeometricNoise):
        cells = noisy_cells(rows, event.l1, event.scale)
        if isinstance(regions, AreaRegions):
            cells = np.full_like(cells, regions.cells)
        return NoisyCells(scale=event.scale, event=event), cells, ()
    loss: PureLoss | ApproxLoss
    if isinstance(event, PureLoss | ApproxLoss):
        loss = one_job(event, plan.unit)
    else:
        loss = ApproxLoss(
            epsilon=read_exact(method.published_epsilon, "published_epsilon"),
            delta=read_exact(method.published_delta, "published_delta"),
            source="Theorem 4.4 of the paper",
        )
    shrinking = method.shrinking
    if shrinking is not None and isinstance(loss, ApproxLoss):
        return _shrunk(method, shrinking, places, rows, event=event, loss=loss)
    shares = {}
    if method.prior_share != "auto":
        shares = {"share": read_exact(method.prior_share, "prior_share")}
    rule = PriorRule(
        loss=loss,
        rule=method.rule,
        extra_cells=int(method.cut is not None),
        public_sizes=DESTINATION in plan.unit.fixed,
        usable=_rings_times_sectors,
        **shares,
    )
    if isinstance(regions, NestedAreas):
        cells = np.zeros_like(rows)
        cells[rows > 0] = regions.cells_of(np.flatnonzero(rows))
        priors = rule.table(rows, cells=_fewest(rows, cells))
    else:
        given = regions.cells if isinstance(regions, AreaRegions) else len(places) if method.coarsen == "none" else None
        priors = rule.table(rows, cells=given)
        cells, _, _ = priors.of(rows)
    urn = CellUrn(priors=priors, event=event)
    if method.rule == "accept_reject" and isinstance(loss, ApproxLoss):
        return AcceptingUrn(urn=urn, gamma=gamma_for(loss.epsilon, loss.delta)), cells, ()
    if not rule.public_sizes and isinstance(loss, ApproxLoss):
        note = "The sizes of destinations are private; their draws hold for any (docs/theory/commute.md, Theorem 6)."
        return urn, cells, (note,)
    return urn, cells, _definition_6(loss, priors, rows, cells + rule.extra_cells)


def _fewest(rows: Integers, cells: Integers) -> dict[int, int]:
    """The fewest cells of a destination for each step of sizes, by its least size: a prior that suffices there suffices
    with more cells (docs/theory/commute.md, Theorem 2)."""
    sizes, which = np.unique(rows[rows > 0], return_inverse=True)
    least = np.full(len(sizes), np.iinfo(np.int64).max)
    np.minimum.at(least, which, cells[rows > 0])
    fewest: dict[int, int] = {}
    for size, count in zip(sizes.tolist(), least.tolist(), strict=True):
        step = size_step(size)[0]
        fewest[step] = min(count, fewest.get(step, count))
    return fewest


def noisy_cells(rows: Integers, moved: Fraction | int, scale: Fraction) -> Integers:
    """Cells that get geometric noise: few enough that a cell has several times as many jobs as noise."""
    return np.clip(np.rint(rows * float(moved / scale) / 8), 2, 64).astype(np.int64)


def one_job(loss: PureLoss | ApproxLoss, unit: Unit) -> PureLoss | ApproxLoss:
    """What one destination may cost for one job. A unit of b jobs is b steps; a job whose destination is not fixed
    leaves one destination and enters another."""
    touched = unit.rows_per_unit
    if DESTINATION not in unit.fixed and unit.kind == "replace":
        touched *= 2
        if isinstance(loss, ApproxLoss) and unit.rows_per_unit == 1:  # delta is lost where it enters only: Theorem 6
            return ApproxLoss(epsilon=loss.epsilon / 2, delta=loss.delta, source=loss.source)
    if touched == 1:
        return loss
    return PureLoss(epsilon=loss.epsilon / touched, source=loss.source)


def _rings_times_sectors(cells: int) -> int:
    rings, sectors = rings_and_sectors(np.array([cells]))
    return int(rings[0] * sectors[0])


def _shrunk(
    method: Commute, shrinking: Shrinking, places: Places, rows: Integers, *, event: Event, loss: ApproxLoss
) -> Built:
    """Algorithm 2, its prior by the sound bound, or by the published rule and then checked against that bound."""
    bands = PlaceBands(points=places.points(), edges=shrinking.edges)
    inside = least_domain(shrinking, bands, np.flatnonzero(rows))
    others = surely_retained(inside, float_down(loss.delta))
    entries, largest, worst = {}, 0.0, 0.0
    for least, most in sorted({size_step(int(size)) for size in np.unique(rows) if size > 0}):
        if method.rule == "theorem":
            chosen = loss.epsilon if isinstance(event, NoNoise) else _published_part(loss.epsilon, shrinking)
            prior = theorem_prior(float_down(chosen), float_down(loss.delta), len(places), most)
        else:
            prior = shrunk_prior(
                loss.epsilon, loss.delta, least_keep=shrinking.least, records=least, rows=most, others=others
            )
        rounded = round_prior(Fraction(prior))
        largest = max(largest, float(rounded))
        entries[least] = (len(places), rounded.numerator, rounded.denominator.bit_length() - 1)
        bound = shrunk_delta(
            float(rounded), epsilon=float_down(loss.epsilon), least_keep=float_down(shrinking.least),
            records=least, rows=most, others=others,
        )  # fmt: skip
        worst = max(worst, bound + 0.01 * float_down(loss.delta) * (others > 0))
    if not isinstance(event, NoNoise) and worst > loss.delta:
        raise BudgetError(
            f"by the published rule the prior is set for delta = {show_up(loss.delta)}, but only delta = {worst:.2g} "
            "is proved for the shrunk domain at this epsilon. Use rule=exact, a larger f, or a larger epsilon."
        )
    mechanism = ShrunkUrn(
        priors=SizedPrior(entries=entries),
        event=event,
        bands=bands,
        keeps=shrinking.thresholds,
        elsewhere=True,
    )
    notes = [f"Domain shrinking: proved delta at the stated epsilon at most {worst:.3g} (docs/theory/commute.md)."]
    if method.rule == "theorem":
        part = float(loss.epsilon) if isinstance(event, NoNoise) else float(_published_part(loss.epsilon, shrinking))
        claim = published_epsilon(part, float(shrinking.least), largest)
        notes.append(
            f"The published rule (Theorems 4.4 and 5.2) claims epsilon' = {claim:.3f} with delta = "
            f"{show_up(loss.delta)}; its delta is false for small probabilities."
        )
    return mechanism, np.full(len(places), len(places), dtype=np.int64), tuple(notes)


def _published_part(total: Fraction, shrinking: Shrinking) -> Fraction:
    """What is left for the draw after Theorem 5.2's ln(1/f) + ln 2."""
    left = float_down(total) + math.log(float(shrinking.least)) - math.log(2)
    if left <= math.log(3):
        raise BudgetError(
            f"after shrinking an epsilon of {left:.3g} is left for the draw, and Theorem 4.4 needs more than ln 3."
        )
    return Fraction(left)


def least_domain(shrinking: Shrinking, bands: PlaceBands, destinations: Integers) -> float:
    """The least expected number of retained places over destinations but for two places in question, all of them
    counted exactly; 0 if there are too many destinations."""
    if not 0 < len(destinations) <= MOST_COUNTED:
        return 0.0
    expected = bands.sizes(destinations) @ (shrinking.thresholds / 2.0**32)
    return max(float(expected.min()) - 2.0, 0.0)


def _definition_6(loss: PureLoss | ApproxLoss, priors: SizedPrior, rows: Integers, cells: Integers) -> tuple[str, ...]:
    """What Definition 6 of the paper says of the same draw: its breach probabilities add over destinations."""
    if isinstance(loss, PureLoss):
        return ("Every destination is pure; nothing adds over destinations (docs/theory/commute.md, Theorem 1).",)
    total, largest = 0.0, 0.0
    kinds, counts = np.unique((rows[rows > 0] << 32) | cells[rows > 0], return_counts=True)
    sizes, domains = kinds >> 32, kinds & 0xFFFFFFFF
    _, weights, shifts = priors.of(sizes)
    drawn = sizes * priors.times_of(sizes)
    for size, domain, prior, made, count in zip(
        sizes.tolist(), domains.tolist(), (weights / 2.0**shifts).tolist(), drawn.tolist(), counts.tolist(), strict=True
    ):
        bound = breach_quick_bound(prior, domain, size, made, float(loss.epsilon))
        total, largest = min(1.0, total + bound * count), max(largest, bound)
    return (
        f"Approximate differential privacy holds with the maximum over destinations: epsilon {show_up(loss.epsilon)}, "
        f"delta {show_up(loss.delta)} for each copy.",
        f"Breach probability of the raw draw at the same epsilon in the sense of Definition 6 (upper bound): at most "
        f"{largest:.3g} for one destination, and {total:.3g} for all together, because there it adds.",
    )
