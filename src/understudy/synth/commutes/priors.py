"""The mechanism that a configured ``commute`` draws with: its prior from public sizes, and what that prior rests on."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.core.exact import float_down, read_exact, show_up
from understudy.core.places import DESTINATION, Places
from understudy.errors import BudgetError
from understudy.models.regions import RingRegions, usable_cells
from understudy.privacy.exact.breach_bounds import breach_bounds
from understudy.privacy.gate.flow_gate import Regions
from understudy.privacy.mechanisms.commute_prior import PriorRule, SizedPrior, size_step
from understudy.privacy.mechanisms.facts import FlowFacts
from understudy.privacy.mechanisms.flow_draws import CellUrn, FlowMechanism, ShrunkUrn, drawn_laws
from understudy.privacy.mechanisms.flow_variants import AcceptingUrn, NoisyCells, gamma_for
from understudy.privacy.mechanisms.place_bands import PlaceBands
from understudy.privacy.mechanisms.preconditions import REPLACE, loss_of_one_job
from understudy.privacy.mechanisms.shrinking import published_epsilon, shrunk_prior, surely_retained
from understudy.privacy.promise.calibrate_dirichlet import round_prior, theorem_prior
from understudy.privacy.promise.event import ApproxLoss, Event, GeometricNoise, NoNoise, PureLoss
from understudy.privacy.promise.plan import Plan
from understudy.synth.commutes.settings import Shrinking

if TYPE_CHECKING:
    from understudy.synth.commutes.commute import Commute

Integers = NDArray[np.int64]
Built = tuple[FlowMechanism, Regions, tuple[str, ...]]


def build_mechanism(
    method: Commute, plan: Plan, places: Places, rows: Integers, *, event: Event, regions: Regions
) -> Built:
    """The mechanism, the division that it draws over, and notes about what it rests on.

    Here priors and cells are chosen. What the draw then costs is not taken from here: the gate asks the division how
    many cells it has, and the mechanism what a draw over so many costs.
    """
    if isinstance(event, GeometricNoise):
        if isinstance(regions, RingRegions):
            regions = replace(regions, cells=noisy_cells(rows, event.l1, event.scale))
        return NoisyCells(scale=event.scale), regions, ()
    loss: PureLoss | ApproxLoss
    if isinstance(event, PureLoss | ApproxLoss):
        loss = loss_of_one_job(event, plan.unit)
    else:
        loss = ApproxLoss(
            epsilon=read_exact(method.published_epsilon, "published_epsilon"),
            delta=read_exact(method.published_delta, "published_delta"),
            source="Theorem 4.4 of the paper",
        )
    shrinking = method.shrinking
    if shrinking is not None and isinstance(loss, ApproxLoss):
        return _shrunk(method, shrinking, places, rows, event=event, loss=loss, regions=regions)
    shares = {}
    if method.prior_share != "auto":
        shares = {"share": read_exact(method.prior_share, "prior_share")}
    rule = PriorRule(
        loss=loss,
        rule=method.rule,
        extra_cells=int(method.cut is not None),
        public_sizes=DESTINATION in plan.unit.fixed,
        usable=_usable,
        **shares,
    )
    if isinstance(regions, RingRegions):
        priors = rule.table(rows)
        regions = replace(regions, cells=priors.of(rows)[0])
    else:
        cells = np.zeros_like(rows)
        cells[rows > 0] = regions.cells_of(np.flatnonzero(rows)) - rule.extra_cells
        priors = rule.table(rows, cells=_fewest(rows, cells))
    urn = CellUrn(priors=priors, claim=event)
    if method.rule == "accept_reject" and isinstance(loss, ApproxLoss):
        return AcceptingUrn(urn=urn, gamma=gamma_for(loss.epsilon, loss.delta)), regions, ()
    if not rule.public_sizes and isinstance(loss, ApproxLoss):
        note = "The sizes of destinations are private; their draws hold for any (docs/theory/commute.md, Theorem 6)."
        return urn, regions, (note,)
    return urn, regions, _definition_6(loss, priors, rows, regions)


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


def _usable(cells: int) -> int:
    return int(usable_cells(np.array([cells]))[0])


def _shrunk(
    method: Commute,
    shrinking: Shrinking,
    places: Places,
    rows: Integers,
    *,
    event: Event,
    loss: ApproxLoss,
    regions: Regions,
) -> Built:
    """Algorithm 2, its prior by the sound bound, or by the published rule and then checked against that bound."""
    destinations = np.flatnonzero(rows)
    empty = ShrunkUrn(
        priors=SizedPrior(entries={}),
        claim=event,
        bands=PlaceBands(points=places.points(), edges=shrinking.edges),
        keeps=shrinking.thresholds,
        elsewhere=True,
    )
    others = surely_retained(empty.fewest_retained(destinations), float_down(loss.delta))
    entries = {}
    for least, most in sorted({size_step(int(size)) for size in np.unique(rows) if size > 0}):
        if method.rule == "theorem":
            chosen = loss.epsilon if isinstance(event, NoNoise) else _published_part(loss.epsilon, shrinking)
            prior = theorem_prior(float_down(chosen), float_down(loss.delta), len(places), most)
        else:
            prior = shrunk_prior(
                loss.epsilon, loss.delta, least_keep=shrinking.least, records=least, rows=most, others=others
            )
        rounded = round_prior(Fraction(prior))
        entries[least] = (len(places), rounded.numerator, rounded.denominator.bit_length() - 1)
    mechanism = replace(empty, priors=SizedPrior(entries=entries))
    facts = FlowFacts(
        unit=REPLACE, destinations=destinations, rows=rows[destinations], records=rows[destinations],
        cells=regions.cells_of(destinations),
    )  # fmt: skip
    laws = list(drawn_laws(mechanism.priors, facts))
    worst = max((mechanism.delta_bound(loss, law, destinations) for law in laws), default=0.0)
    if not isinstance(event, NoNoise) and worst > loss.delta:
        raise BudgetError(
            f"by the published rule the prior is set for delta = {show_up(loss.delta)}, but only delta = {worst:.2g} "
            "is proved for the shrunk domain at this epsilon. Use rule=exact, a larger f, or a larger epsilon."
        )
    notes = [f"Domain shrinking: proved delta at the stated epsilon at most {worst:.3g} (docs/theory/commute.md)."]
    if method.rule == "theorem":
        part = float(loss.epsilon) if isinstance(event, NoNoise) else float(_published_part(loss.epsilon, shrinking))
        largest = max((float(law.prior) for law in laws), default=0.0)
        claim = published_epsilon(part, float(shrinking.least), largest)
        notes.append(
            f"The published rule (Theorems 4.4 and 5.2) claims epsilon' = {claim:.3f} with delta = "
            f"{show_up(loss.delta)}; its delta is false for small probabilities."
        )
    return mechanism, regions, tuple(notes)


def _published_part(total: Fraction, shrinking: Shrinking) -> Fraction:
    """What is left for the draw after Theorem 5.2's ln(1/f) + ln 2."""
    left = float_down(total) + math.log(float(shrinking.least)) - math.log(2)
    if left <= math.log(3):
        raise BudgetError(
            f"after shrinking an epsilon of {left:.3g} is left for the draw, and Theorem 4.4 needs more than ln 3."
        )
    return Fraction(left)


def _definition_6(loss: PureLoss | ApproxLoss, priors: SizedPrior, rows: Integers, regions: Regions) -> tuple[str, ...]:
    """What Definition 6 of the paper says of the same draw: its breach probabilities add over destinations."""
    if isinstance(loss, PureLoss):
        return ("Every destination is pure; nothing adds over destinations (docs/theory/commute.md, Theorem 1).",)
    total, largest, none, surest = 0.0, 0.0, 0.0, 0.0  # none: the log of the most that the chance of no breach can be
    drawing = np.flatnonzero(rows)
    kinds, counts = np.unique((rows[drawing] << 32) | regions.cells_of(drawing), return_counts=True)
    sizes, domains = kinds >> 32, kinds & 0xFFFFFFFF
    _, weights, shifts = priors.of(sizes)
    drawn = sizes * priors.times_of(sizes)
    for size, domain, prior, made, count in zip(
        sizes.tolist(), domains.tolist(), (weights / 2.0**shifts).tolist(), drawn.tolist(), counts.tolist(), strict=True
    ):
        found = breach_bounds(prior, domain, size, made, float(loss.epsilon))
        total, largest = min(1.0, total + found * count), max(largest, float(found))
        none, surest = none + count * math.log1p(-min(found.low, 1 - 1e-16)), max(surest, found.low)
    return (
        f"Approximate differential privacy holds with the maximum over destinations: epsilon {show_up(loss.epsilon)}, "
        f"delta {show_up(loss.delta)} for each copy.",
        f"Breach probability of the raw draw at the same epsilon in the sense of Definition 6, for the worst table of "
        f"these public sizes: between {surest:.3g} and {largest:.3g} for one destination, and between "
        f"{-math.expm1(none):.3g} and {total:.3g} for all together, because there it adds.",
    )
