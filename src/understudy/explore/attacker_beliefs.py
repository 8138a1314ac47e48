"""What an attacker who has all records but one can learn about the last record: in odds and in words.

Under epsilon-differential privacy no output is more than e^epsilon times as likely under one value of the record as
under another (or, under ``add_remove``, with the person as without). By Bayes' rule prior odds are multiplied by at
most that ratio, whatever else the attacker knows. See docs/tutorials/advice.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from understudy.auditing.composed_loss import LossDistribution, compose_losses
from understudy.auditing.exact_audit import audit
from understudy.auditing.noise_losses import Shift, noise_losses
from understudy.core.walsh import CONTRASTS
from understudy.errors import UnderstudyError
from understudy.explore.rehearsal import prior_of
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial
from understudy.privacy.mechanisms.noise import DiscreteGaussian, Geometric
from understudy.privacy.promise.definition import Unit, read_unit
from understudy.release.table_release import Release

PRIORS = (0.01, 0.1, 0.5)
LARGEST_EXPONENT = 700.0
MOST_RECORDS = 1_000  # up to which the exact odds of a Dirichlet draw are computed
MOST_TABLES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacker:
    """The most an attacker can learn about one record at an epsilon.

    ``odds`` is the largest factor on the odds between two possible records under ``replace``, and between the person
    being in the data or not under ``add_remove``; ``value_odds`` that between two values (under ``add_remove`` one
    value is taken away and another added). ``guess_bound`` is the largest probability of a right guess between two
    equally likely possibilities, and ``guess_exact`` what the mechanism of this plan really allows, where it can be
    computed.
    """

    epsilon: float
    delta: float
    unit: str
    odds: float
    value_odds: float
    guess_bound: float
    guess_exact: float | None = None
    rows_per_unit: int = 1
    fixed: tuple[str, ...] = ()

    def belief(self, prior: float) -> float:
        """The largest belief that a prior belief can become (Bayes).

        >>> round(attacker_at(1.0).belief(0.01), 4)
        0.0267
        """
        return belief_after(prior, self.odds)

    def to_json(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": self.unit,
            "odds": _finite(self.odds),
            "value_odds": _finite(self.value_odds),
            "beliefs": {f"{prior:g}": self.belief(prior) for prior in PRIORS},
            "guess_bound": self.guess_bound,
            "guess_exact": self.guess_exact,
        }

    @property
    def words(self) -> str:
        """The odds as a person would say them."""
        one = self.rows_per_unit == 1
        has = "every record but one" if one else f"every record but the up to {self.rows_per_unit} of one unit"
        last = "about the last one" if one else "about those"
        what = last if self.unit == "replace" else f"whether the last {'person' if one else 'unit'} is in the data"
        known = f", knows {', '.join(self.fixed)} of everybody" if self.fixed else ""
        low, middle = self.belief(0.01), self.belief(0.1)
        text = (
            f"At epsilon {self.epsilon:g}, somebody who has {has}{known} and asks {what}: odds of 1 to 1 "
            f"become at most {_odds(self.odds)} to 1; a suspicion of 1 in 100 becomes at most {_in_hundred(low)}, one "
            f"of 10 in 100 at most {_in_hundred(middle)}. Of two equally likely possibilities they pick the right one "
            f"at most {_in_hundred(self.guess_bound)} times"
        )
        if self.guess_exact is not None and self.guess_exact < self.guess_bound - 5e-4:
            text += f" ({_in_hundred(self.guess_exact)} with the noise of this plan, computed exactly)"
        text += "; without the release, 50 in 100."
        if self.unit == "add_remove":
            text += f" Between two values of a person known to be in the data: at most {_odds(self.value_odds)} to 1."
        if self.delta:
            text += (
                f" With delta = {self.delta:g} larger odds are possible but rare: the probability of more than twice "
                f"these odds is at most {2 * self.delta:g}."
            )
        return text


def attacker_at(epsilon: float, *, delta: float = 0.0, unit: Unit | str = "replace") -> Attacker:
    """The bounds that a guarantee alone gives, whatever the mechanism.

    Epsilon is for a unit: all its rows, and every attribute that is not fixed.

    The best guess between two equally likely possibilities is right with probability (1 + TV) / 2, and under
    (epsilon, delta)-differential privacy TV <= (e^epsilon - 1 + 2 delta) / (e^epsilon + 1) (Kairouz, Oh and Viswanath
    2015, Theorem 2.1 and its region).
    """
    who = read_unit(unit)
    odds = _exp(epsilon)
    right = 1.0 if math.isinf(odds) else min(1.0, (odds + delta) / (1 + odds))
    return Attacker(
        epsilon=epsilon,
        delta=delta,
        unit=who.kind,
        odds=odds,
        value_odds=odds if who.kind == "replace" else _exp(2 * epsilon),
        guess_bound=right,
        rows_per_unit=who.rows_per_unit,
        fixed=who.fixed,
    )


def belief_after(prior: float, odds: float) -> float:
    """Prior belief with its odds multiplied."""
    return 1.0 if math.isinf(odds) else prior * odds / (1 - prior + prior * odds)


def exact_guess(release: Release, unit: Unit, records: int | None) -> float | None:
    """How often the best guess is right, by the exact law of what a rehearsed release measured or drew.

    None if the law is not simple: several rows per unit, fixed attributes, adaptive choices, large draws, several
    draws. Also None if rows follow from tables that the release does not hold (``refine``).
    """
    plan = release.provenance.plan
    if unit.rows_per_unit > 1 or unit.fixed or plan is None or plan.adaptive or plan.options.get("refine"):
        return None
    try:
        advantage = _from_noise(release, unit) if release.measurements else _from_draws(release, unit, records)
    except UnderstudyError:
        return None
    return None if advantage is None else (1 + min(max(advantage, 0.0), 1.0)) / 2


def _from_noise(release: Release, unit: Unit) -> float | None:
    """One record may differ in every attribute, so that it moves every measured table."""
    parts: list[tuple[LossDistribution, int]] = []
    for one in release.measurements:
        if not isinstance(one.mechanism, Geometric | DiscreteGaussian) or one.cells == CONTRASTS:
            return None
        moved = 2 if unit.kind == "replace" and one.cells == "all" and one.margin else 1
        parts.append((noise_losses(one.mechanism, Shift(moved=moved)), 1))
    if not parts or len(parts) > MOST_TABLES:
        return None
    return parts[0][0].delta(0.0) if len(parts) == 1 else compose_losses(parts).bounds(0.0).high


def _from_draws(release: Release, unit: Unit, records: int | None) -> float | None:
    prior = prior_of(release)
    if prior is None or records is None or max(records, prior[1]) > MOST_RECORDS or release.copies > 1:
        return None
    cells = int(release.schema.allowed().sum())
    law = DirichletMultinomial(prior=prior[0], cells=cells, rows=prior[1])
    return audit(law, records=records, unit=unit.kind).delta(0.0)


def _exp(value: float) -> float:
    return math.exp(value) if value < LARGEST_EXPONENT else math.inf


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else "infinite"


def _odds(value: float) -> str:
    return "any number" if math.isinf(value) else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _in_hundred(probability: float) -> str:
    percent = 100 * probability
    return f"{percent:.1f} in 100" if percent < 99.95 else "nearly 100 in 100"
