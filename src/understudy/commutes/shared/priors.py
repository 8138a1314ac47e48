"""The mechanism that a configured ``commute`` draws with: its prior from public sizes, and what that prior rests on."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from understudy.commutes.models.outside import UNKNOWN_PART, OutsideHomes
from understudy.commutes.models.regions import RingCells, RingRegions
from understudy.commutes.shared.laws import MOST_OUTSIDE, Budget, choose_laws
from understudy.commutes.shared.settings import Shrinking
from understudy.core.arrays import Integers
from understudy.core.exact_numbers import float_down, read_exact, show_up
from understudy.core.places import DESTINATION, Places
from understudy.errors import BudgetError, UnsupportedError
from understudy.privacy.exact.breach_bounds import breach_bounds
from understudy.privacy.gate.flow_gate import Division
from understudy.privacy.mechanisms.breach_prior import BreachRule
from understudy.privacy.mechanisms.cell_estimates import OutsideShares
from understudy.privacy.mechanisms.commute_prior import FEWEST_CELLS, PriorRule, SizedPrior, accepting_level, size_step
from understudy.privacy.mechanisms.draw_facts import FlowFacts
from understudy.privacy.mechanisms.flow_draws import CellUrn, FlowMechanism, ShrunkUrn, breach_laws, drawn_laws
from understudy.privacy.mechanisms.flow_mixture import ANSWERS, LAWS, MixedCells
from understudy.privacy.mechanisms.flow_variants import AcceptingUrn, NoisyCells, gamma_for
from understudy.privacy.mechanisms.place_bands import PlaceBands
from understudy.privacy.mechanisms.preconditions import REPLACE, breach_of_all, loss_of_one_job
from understudy.privacy.mechanisms.ring_division import is_graded, usable_cells
from understudy.privacy.mechanisms.shrinking import published_epsilon, shrunk_prior, surely_retained
from understudy.privacy.promise.calibrate_dirichlet import (
    LARGEST_EXPONENT,
    require_theorem_4_4,
    round_prior,
    theorem_prior,
)
from understudy.privacy.promise.definition import ProbabilisticDP
from understudy.privacy.promise.event import (
    ApproxLoss,
    Event,
    GeometricNoise,
    NoNoise,
    PureLoss,
    promises_definition_6,
)
from understudy.privacy.promise.plan import Plan
from understudy.synth.shared.method import Request

if TYPE_CHECKING:
    from understudy.commutes.methods.commute import Commute

SURELY = 0.999  # a breach probability above this is not stated more precisely
BREACH_NOTE = (
    "Breach probabilities add over destinations and copies; delta is that of all together. Priors are larger, and "
    "cells fewer, than under approx with the same delta (docs/theory/probabilistic-dp.md has a table)."
)
NO_BREACH_NOTE = (
    "Every destination is drawn by a pure law, which is never breached at its epsilon: Definition 6 holds with delta 0."
)
# A larger epsilon gets the prior of this one: it protects more, and fits into the words that the urn draws with.
LARGEST_CALIBRATED = Fraction(16)
LAW_NAMES = ("an answer for each job", "noise that adds up to 0", "noise on every cell")  # in the order of LAWS
AnyDivision = TypeVar("AnyDivision", bound=Division)


def build_mechanism(
    method: Commute, plan: Plan, places: Places, rows: Integers, *, event: Event, regions: AnyDivision
) -> tuple[FlowMechanism, AnyDivision, tuple[str, ...]]:
    """The mechanism, the division that it draws over, and notes about what it rests on.

    Priors and cells are chosen here. The cost of the draw is not: the gate asks the division for its number of cells,
    and the mechanism for the cost of a draw over so many cells.
    """
    if method.law == "auto" and isinstance(event, PureLoss):
        return _mixture(method, plan, places, rows, event=event, regions=regions)
    if isinstance(event, GeometricNoise):
        if isinstance(regions, RingRegions | RingCells):
            regions = replace(regions, cells=noisy_cells(rows, event.l1, event.scale), beyond=_one_outside(places))
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
    asked = loss
    loss = replace(loss, epsilon=min(loss.epsilon, LARGEST_CALIBRATED))
    shrinking = method.shrinking
    if shrinking is not None and isinstance(loss, ApproxLoss):
        return _shrunk(method, shrinking, places, rows, event=event, loss=loss, regions=regions)
    shares = {}
    if method.prior_share != "auto":
        shares = {"share": read_exact(method.prior_share, "prior_share")}
    rule = PriorRule(
        loss=loss,
        rule=method.rule,
        extra_cells=int(method.cut is not None) + int(method.coarsen == "rings" and places.outside is not None),
        public_sizes=DESTINATION in plan.unit.fixed,
        usable=partial(_usable, len(places)),
        **shares,
    )
    if isinstance(loss, ApproxLoss) and promises_definition_6(loss):
        return _probabilistic(rule, loss, places, rows, event=event, regions=regions)
    if isinstance(regions, RingRegions | RingCells):
        priors = rule.table(rows)
        regions = replace(regions, cells=priors.of(rows)[0], beyond=_one_outside(places))
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
    return urn, regions, _definition_6(asked, priors, rows, regions)


def _mixture(
    method: Commute, plan: Plan, places: Places, rows: Integers, *, event: PureLoss, regions: AnyDivision
) -> tuple[FlowMechanism, AnyDivision, tuple[str, ...]]:
    """The law of each destination by its size, which is public, or noisy and charged."""
    unit, public = plan.unit, DESTINATION in plan.unit.fixed
    away = regions.away if isinstance(regions, RingRegions | RingCells) else None
    budget = Budget.of(
        min(event.epsilon, LARGEST_CALIBRATED),
        jobs=unit.rows_per_unit,
        moved=unit.rows_per_unit * (2 if public or unit.kind == "replace" else 1),
        places=int(places.inside.sum()),
        answers=public,
        **_expected_outside(places, away, rows),
    )
    laws = choose_laws(rows, budget)
    if isinstance(regions, RingRegions | RingCells):
        law, cells = laws.of(rows)
        beyond = None if places.outside is None else laws.outside_of(rows)
        regions = replace(regions, cells=cells, graded=(law != ANSWERS) & is_graded(cells), beyond=beyond)
    alike = method.cut is None and method.blend == "auto"
    mechanism = MixedCells(
        laws=laws, prior=budget.prior, scale=budget.scale, claim=event, alike=alike,
        outside=None if away is None else OutsideShares.of(away.part, away.shares),
    )  # fmt: skip
    used = np.bincount(laws.of(rows[rows > 0])[0], minlength=len(LAWS))
    told = [f"{count:,} by {LAW_NAMES[law]}" for law, count in enumerate(used.tolist()) if count]
    note = (
        f"Destinations are drawn by the law that their size asks for: {', '.join(told)}. Each law is pure at epsilon "
        f"{show_up(event.epsilon)}, and a job is in one destination (docs/theory/commute.md, Theorem 7)."
    )
    return mechanism, regions, (note,)


def _expected_outside(places: Places, away: OutsideHomes | None, rows: Integers) -> dict[str, Any]:
    """What a budget is told of homes outside: the part of all jobs, in whole percent, and what single homes have of it.
    Before anything was measured the part is not known."""
    if places.outside is None:
        return {}
    if away is None:
        return {"outside": UNKNOWN_PART}
    part = float((away.part * rows).sum() / max(int(rows.sum()), 1))
    return {"outside": min(max(round(part, 2), 0.01), 0.99), "homes": tuple(away.shares[:MOST_OUTSIDE].tolist())}


def _one_outside(places: Places) -> Integers | None:
    """One cell for all homes outside, if there are any."""
    return None if places.outside is None else np.ones(len(places), dtype=np.int64)


def check_rule(method: Commute, event: Event, request: Request) -> None:
    """Refuses, before anything is charged, a loss that the rule has no prior for, whatever the sizes."""
    if not isinstance(event, ApproxLoss) or method.shrinking is not None:
        return
    epsilon = float_down(loss_of_one_job(event, request.unit).epsilon)
    if method.rule == "theorem":
        require_theorem_4_4(epsilon)
    if method.rule == "accept_reject":
        accepting_level(epsilon, float_down(event.delta))


def definition_6_notes(method: Commute, request: Request) -> list[str]:
    """What a plan says about Definition 6, if it is asked for; refuses what it is not proved for."""
    if not isinstance(request.budget, ProbabilisticDP):
        return []
    unit = request.unit
    if unit.kind != "replace" or unit.rows_per_unit != 1 or DESTINATION not in unit.fixed:
        raise UnsupportedError(
            "probabilistic differential privacy (Definition 6) is proved for one job that is replaced and a fixed "
            "destination: sizes of destinations must be public. Use unit replace with fixed=destination and one job "
            "per unit, or the guarantee approx or pure."
        )
    if method.rule != "exact" or method.mechanism == "geometric" or method.shrinking is not None:
        raise UnsupportedError(
            "probabilistic differential privacy (Definition 6) of all destinations together is proved for rule=exact "
            "and mechanism=auto or urn without shrink. Leave those options out, or use the guarantee approx."
        )
    return [NO_BREACH_NOTE if method.law == "auto" else BREACH_NOTE]


def _facts(rows: Integers, regions: Division) -> FlowFacts:
    """The public facts of a draw from fixed destinations over a division."""
    drawing = np.flatnonzero(rows)
    return FlowFacts(
        unit=REPLACE, destinations=drawing, rows=rows[drawing], records=rows[drawing], cells=regions.cells_of(drawing)
    )


def _probabilistic(
    rule: PriorRule, loss: ApproxLoss, places: Places, rows: Integers, *, event: Event, regions: AnyDivision
) -> tuple[FlowMechanism, AnyDivision, tuple[str, ...]]:
    """Priors for which the breach probabilities of all destinations add up to delta."""
    drawing = np.flatnonzero(rows)
    measured = BreachRule(loss=loss, share=rule.share, extra_cells=rule.extra_cells, usable=rule.usable)
    if isinstance(regions, RingRegions | RingCells):
        priors = measured.table(rows)
        regions = replace(regions, cells=priors.of(rows)[0], beyond=_one_outside(places))
    else:
        cells = np.zeros_like(rows)
        cells[drawing] = regions.cells_of(drawing)
        priors = measured.table(rows, cells)
    total = breach_of_all(breach_laws(priors, _facts(rows, regions)), loss.epsilon, float_down(loss.delta))
    note = (
        f"Breach probabilities of the raw draw at epsilon {show_up(loss.epsilon)} add up to at most {total:.3g} over "
        f"{len(drawing):,} destinations, for the worst table with these public sizes; {show_up(loss.delta)} is charged "
        "for each copy (docs/theory/probabilistic-dp.md, Theorem 9)."
    )
    return CellUrn(priors=priors, claim=event), regions, (note,)


def _fewest(rows: Integers, cells: Integers) -> dict[int, int]:
    """The fewest cells of a destination for each step of sizes, by the least size of the step. A prior that is enough
    for the fewest cells is enough for more cells (docs/theory/commute.md, Theorem 2)."""
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


def _usable(places: int, cells: int) -> int:
    """The largest possible number of ring cells up to ``cells``. It is useless to have more cells than places."""
    return int(usable_cells(np.array([min(cells, max(places, FEWEST_CELLS))]))[0])


def _shrunk(
    method: Commute,
    shrinking: Shrinking,
    places: Places,
    rows: Integers,
    *,
    event: Event,
    loss: ApproxLoss,
    regions: AnyDivision,
) -> tuple[FlowMechanism, AnyDivision, tuple[str, ...]]:
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
    laws = list(drawn_laws(mechanism.priors, _facts(rows, regions)))
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


def _definition_6(
    loss: PureLoss | ApproxLoss, priors: SizedPrior, rows: Integers, regions: Division
) -> tuple[str, ...]:
    """What Definition 6 of the paper says of the same draw: its breach probabilities add over destinations."""
    if isinstance(loss, PureLoss):
        return ("Every destination is pure; nothing adds over destinations (docs/theory/commute.md, Theorem 1).",)
    total, largest, surest = 0.0, 0.0, 0.0
    none = 0.0  # log of an upper bound on the probability of no breach
    level = min(float_down(loss.epsilon), LARGEST_EXPONENT)
    for law in breach_laws(priors, _facts(rows, regions)):
        found = breach_bounds(float_down(law.prior), law.cells, law.records, law.rows, level)
        total, largest = min(1.0, total + found * law.times), max(largest, float(found))
        none, surest = none + law.times * math.log1p(-min(found.low, 1 - 1e-16)), max(surest, found.low)
    return (
        f"Approximate differential privacy holds with the maximum over destinations: epsilon {show_up(loss.epsilon)}, "
        f"delta {show_up(loss.delta)} for each copy.",
        "Breach probability of the raw draw at the same epsilon in the sense of Definition 6, for the worst table of "
        f"these public sizes: {_between(surest, largest)} for one destination, and "
        f"{_between(-math.expm1(none), total)} for all together, because there probabilities add.",
    )


def _between(low: float, high: float) -> str:
    """Both sides of a probability, the lower one rounded down.

    >>> _between(0.99712, 1.0), _between(0.99999, 1.0), _between(1e-4, 3e-4)
    ('between 0.997 and 1', 'above 0.999', 'between 0.0001 and 0.0003')
    """
    if low > SURELY:
        return f"above {SURELY}"
    return f"between {float(f'{low:.3g}') if float(f'{low:.3g}') <= low else low * 0.999:.3g} and {high:.3g}"
