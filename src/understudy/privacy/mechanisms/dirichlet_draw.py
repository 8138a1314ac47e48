"""The Dirichlet-multinomial draw as a run makes it: an urn over a domain of any size, with the loss it was set for.

``dirichlet_law`` holds the exact law for audits and inference; here is the draw itself, its calibration by
Machanavajjhala et al. 2008, Theorem 4.1, or by the exact delta of the draw, and the rounding that keeps everything in
whole numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from understudy.core.arrays import Integers
from understudy.core.domain import Domain
from understudy.core.exact_numbers import float_down, float_up, from_text, show_up, to_text
from understudy.core.mechanism import Stream
from understudy.core.prior_weights import PriorWeights, WeightedCells
from understudy.errors import BudgetError, InputError, InternalError
from understudy.privacy.exact.dirichlet_profile import PriorShape
from understudy.privacy.mechanisms.dirichlet_law import SOURCE
from understudy.privacy.mechanisms.draw_facts import TableFacts
from understudy.privacy.mechanisms.preconditions import (
    SLACK,
    DrawLaw,
    exact_delta_holds,
    exact_is_known,
    theorem_4_1_holds,
    theorem_9_holds,
    weighted_shape,
)
from understudy.privacy.promise.calibrate_dirichlet import (
    LARGEST_EXPONENT,
    bounds_two_cells,
    calibrated_prior,
    round_prior,
    scaled_prior,
)
from understudy.privacy.promise.definition import ApproxDP, Unit
from understudy.privacy.promise.event import ApproxLoss, Event, PureLoss, promises_definition_6
from understudy.privacy.randomness.draws import polya_urn

EXACT_SOURCE = "docs/theory/dirichlet.md, Theorems 3 and 4"
MOST_EXACT = 1_000_000  # rows up to which the exact delta is computed


@dataclass(frozen=True, slots=True, kw_only=True)
class DirichletDraw:
    """``rows`` rows from the posterior predictive of a multinomial with ``prior`` for each possible cell.

    With ``weights`` a cell of weight w has w times the prior.
    """

    prior: Fraction
    rows: int
    loss: PureLoss | ApproxLoss
    weights: PriorWeights | None = None
    name: ClassVar[str] = "dirichlet_multinomial"
    covers: ClassVar[str] = "whole_domain"

    def __post_init__(self) -> None:
        if self.prior <= 0:
            raise InputError(f"prior ({float(self.prior):g}) must be positive: with 0 an empty cell stays empty.")

    def event_for(self, facts: TableFacts) -> Event:
        """The loss the draw was set for, provided that its prior and rows keep it for the cells and records of the
        draw.

        By Theorem 4.1 prior and rows settle it. Else the exact delta must, which needs the public number of records;
        or, for a loss that promises it, Definition 6 (and :func:`require_definition_6` for all strata together).
        """
        weights = self._weights_over(facts)
        prior = self.prior if weights is None else self.prior * weights.part
        smallest = prior if weights is None else prior * weights.smallest_two[0]
        holds = facts.cells < 2 or theorem_4_1_holds(self.loss.epsilon, prior=smallest, rows=self.rows, unit=facts.unit)
        if not holds and isinstance(self.loss, ApproxLoss) and exact_is_known(facts.unit) and facts.records is not None:
            if promises_definition_6(self.loss):
                holds = weights is None and theorem_9_holds(
                    self.loss, [DrawLaw(self.prior, facts.cells, facts.records, self.rows)]
                )
            else:
                holds = exact_delta_holds(
                    self.loss, prior=prior, cells=facts.cells, records=facts.records, rows=self.rows,
                    weights=weights,
                )  # fmt: skip
        if not holds:
            promised = f"epsilon = {show_up(self.loss.epsilon)}"
            if isinstance(self.loss, ApproxLoss):
                promised += f", delta = {show_up(self.loss.delta)}"
            raise BudgetError(
                f"a prior of {float(smallest):g} with {self.rows:,} rows over {facts.cells:,} cells costs more than "
                f"the {promised} it is charged with. Nothing was drawn; use a larger prior or fewer rows."
            )
        return self.loss

    def draw(
        self, cells: Integers, counts: Integers, domain: Domain, stream: Stream, *purpose: str | int
    ) -> tuple[Integers, Integers]:
        if self.weights is None:
            return polya_urn(cells, counts, domain, stream, *purpose, prior=self.prior, rows=self.rows)
        weights = self.weights.over(domain)
        prior = self.prior * weights.part
        return polya_urn(cells, counts, domain, stream, *purpose, prior=prior, rows=self.rows, weights=weights)

    def _weights_over(self, facts: TableFacts) -> WeightedCells | None:
        if self.weights is None:
            return None
        if facts.domain is None:
            raise InternalError("the cost of a weighted prior needs the domain of the draw.")
        return self.weights.over(facts.domain)

    def to_json(self) -> dict[str, str]:
        weights = {} if self.weights is None else {"weights": self.weights.text}
        return {"mechanism": self.name, "prior": to_text(self.prior), "rows": str(self.rows), **weights}

    @classmethod
    def from_json(cls, data: Mapping[str, str], loss: PureLoss | ApproxLoss) -> DirichletDraw:
        """Read back what ``to_json`` wrote, with the loss that was charged for it."""
        if data["mechanism"] != cls.name:
            raise InputError(f"a draw by '{data['mechanism']}' is not a draw by '{cls.name}'.")
        weights = PriorWeights(text=data["weights"]) if "weights" in data else None
        return cls(prior=from_text(data["prior"], "prior"), rows=int(data["rows"]), loss=loss, weights=weights)


def require_definition_6(mechanisms: Sequence[object], facts: Sequence[TableFacts]) -> None:
    """Refuses strata that promise Definition 6 and together breach more often than that: there it adds."""
    laws, losses = [], set()
    for mechanism, one in zip(mechanisms, facts, strict=True):
        if isinstance(mechanism, DirichletDraw) and promises_definition_6(mechanism.loss):
            losses.add(mechanism.loss)
            laws.append(DrawLaw(mechanism.prior, one.cells, one.records or 0, mechanism.rows))
    for loss in losses:
        assert isinstance(loss, ApproxLoss)  # noqa: S101 - promises_definition_6 says so
        if not theorem_9_holds(loss, laws):
            raise BudgetError(
                f"the breach probabilities of {len(laws):,} strata add up to more than the delta = "
                f"{show_up(loss.delta)} they are charged with. Nothing was drawn; use larger priors."
            )


def prior_for(epsilon: Fraction, rows: int, unit: Unit) -> Fraction:
    """The smallest prior for which one draw of ``rows`` rows is epsilon-differentially private.

    Theorem 4.1: the log odds between tables that differ in one row are at most ln((rows + a) / a), so
    a = rows / (e^epsilon - 1). A unit of b rows is b such steps, each with epsilon / b.
    """
    each = min(float_down(epsilon / unit.rows_per_unit), LARGEST_EXPONENT)  # a prior for a smaller one protects more
    growth = Fraction(math.expm1(each)) * (1 - SLACK)
    if growth <= 0:
        raise InputError(f"epsilon ({float(epsilon):g}) is too small for a Dirichlet draw.")
    return round_prior(max(rows, 1) / growth)


def row_unit(unit: Unit, strata: tuple[str, ...]) -> Unit:
    """The unit for which a draw's loss is stated: within strata one row, as the accountant adds up a unit's rows."""
    return replace(unit, rows_per_unit=1) if strata else unit


def pure_loss(epsilon: Fraction) -> PureLoss:
    return PureLoss(epsilon=epsilon, source=SOURCE)


def exact_loss(epsilon: Fraction, delta: Fraction) -> ApproxLoss:
    return ApproxLoss(epsilon=epsilon, delta=delta, source=EXACT_SOURCE)


def exact_prior_for(loss: ApproxLoss, rows: int, records: int, cells: int) -> Fraction:
    """The smallest prior for which one draw from a table of public size is (epsilon, delta)-differentially private.

    Nobody is protected in a table without records, and a table of one cell is known beforehand. Above ``MOST_EXACT``
    rows the pure prior is taken, which is larger.
    """
    if cells < 2:
        return Fraction(1)
    if rows > MOST_EXACT:
        return prior_for(loss.epsilon, rows, Unit(kind="replace"))
    return round_prior(_exact_prior(loss.epsilon, loss.delta, max(rows, 1), max(records, 1), cells))


def weighted_prior_for(
    loss: PureLoss | ApproxLoss, weights: WeightedCells, *, facts: TableFacts, rows: int
) -> Fraction:
    """The smallest number by which weights can be multiplied for a draw to keep its loss.

    A pure loss asks for the smallest prior alone (Theorem 4.1). For an approximate one the exact delta falls with the
    prior, cell by cell (Theorem 4 of docs/theory/dirichlet.md), so it is found by bisection; where it is not known, or
    for very many rows, the pure one is taken.
    """
    smallest = max(weights.smallest_two[0], 1)
    pure = round_prior(prior_for(loss.epsilon, rows, facts.unit) / smallest)
    records = facts.records
    if isinstance(loss, PureLoss) or not exact_is_known(facts.unit) or records is None or rows > MOST_EXACT:
        return pure / weights.part
    if facts.cells < 2:
        return Fraction(1)
    epsilon, promise = float_down(loss.epsilon), float_down(loss.delta)

    def shape(prior: float) -> PriorShape:
        made = weighted_shape(weights, prior, facts.cells, max(rows, 1))
        if bounds_two_cells(facts.cells, max(records, 1), max(rows, 1)):
            return PriorShape.bound_for_two_cells(made.smallest, made.rows)
        return made

    found = scaled_prior(shape, epsilon, promise, max(records, 1), top=float_up(pure))
    return round_prior(Fraction(found)) / weights.part


@lru_cache(maxsize=4096)
def _exact_prior(epsilon: Fraction, delta: Fraction, rows: int, records: int, cells: int) -> Fraction:
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    return calibrated_prior(budget, records=records, rows=rows, cells=cells, unit=Unit(kind="replace"))[0]
