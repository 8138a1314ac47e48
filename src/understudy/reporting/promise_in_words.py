"""What a release promises, in words that a person who is not an expert can check: who, how much, and what not.

Law: under epsilon-differential privacy, no output is more than e^epsilon times as likely under one value of the
protected unit as under another. So by Bayes' rule prior odds are multiplied by at most e^epsilon, whatever else the
attacker knows (Dwork et al. 2006; Kasiviswanathan and Smith 2014). With delta the same holds, except with a probability
of about delta. Zero-concentrated privacy is converted to epsilon at a stated delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from understudy.core.exact_numbers import show_up
from understudy.privacy.exact.choices_profile import composed_delta
from understudy.privacy.exact.gaussian_profile import gaussian_delta, gaussian_mu_squared
from understudy.privacy.promise.accountant import Loss, cdp_delta, cdp_epsilon, cdp_rho, compose
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, NonPrivate, ProbabilisticDP, PureDP
from understudy.privacy.promise.plan import Plan
from understudy.release.kind import Summary
from understudy.release.statement import NOT_TRACKED, of_the_raw_draw

READ_AT = Fraction(1, 10**6)  # the delta at which a promise without an epsilon is converted to one
PRIORS = (0.001, 0.01, 0.1, 0.25, 0.5)
LARGE, VERY_LARGE = 4.0, 10.0  # from these epsilons on, the reader is told that the promise is weak
POINTS = 60
LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """How far the odds between two possibilities can change for somebody who knows everything else.

    ``epsilon`` is None if nothing is promised.
    """

    epsilon: float | None
    delta: float

    @property
    def factor(self) -> float:
        if self.epsilon is None or self.epsilon > LARGEST_EXPONENT:
            return math.inf
        return math.exp(self.epsilon)

    def belief(self, prior: float) -> float:
        """The largest belief that a prior belief can become.

        >>> round(Odds(epsilon=1.0, delta=0.0).belief(0.01), 4)
        0.0267
        """
        if math.isinf(self.factor):
            return 1.0
        return prior * self.factor / (1 - prior + prior * self.factor)


def odds_of(guarantee: Definition) -> Odds:
    if isinstance(guarantee, PureDP):
        return Odds(epsilon=float(guarantee.epsilon), delta=0.0)
    if isinstance(guarantee, ApproxDP | ProbabilisticDP):
        return Odds(epsilon=float(guarantee.epsilon), delta=float(guarantee.delta))
    if isinstance(guarantee, ZCDP):
        return Odds(epsilon=float(cdp_epsilon(guarantee.rho, READ_AT)), delta=float(READ_AT))
    return Odds(epsilon=None, delta=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The one-screen label: three questions and their answers, and a headline of two words."""

    headline: str
    tone: str  # "good", "warning" or "problem"
    protected: str
    learned: tuple[str, ...]
    not_protected: tuple[str, ...]


def label_of(subject: Summary) -> Label:
    guarantee = subject.statement.guarantee
    odds = odds_of(guarantee)
    return Label(
        headline=_headline(odds),
        tone="problem" if odds.epsilon is None else "warning" if odds.epsilon > LARGE else "good",
        protected=_protected(subject),
        learned=_learned(odds, whole=subject.statement.unit.kind == "add_remove"),
        not_protected=_not_protected(subject),
    )


def _headline(odds: Odds) -> str:
    if odds.epsilon is None:
        return "No guarantee"
    if odds.epsilon > VERY_LARGE:
        return "Formal guarantee, very weak"
    return "Formal guarantee, weak" if odds.epsilon > LARGE else "Formal guarantee"


def short_factor(value: float) -> str:
    if math.isinf(value):
        return "any factor"
    if value >= 1e4:
        return f"{value:.1e}"
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def _protected(subject: Summary) -> str:
    if isinstance(subject.statement.guarantee, NonPrivate):
        return "Nobody. These tables have no formal guarantee. Treat them like the confidential data."
    unit = subject.statement.unit
    record = subject.statement.record
    rows = f"one {record}" if unit.rows_per_unit == 1 else f"up to {unit.rows_per_unit} {record}s"
    who = f"Everybody in the data, one at a time: one person, with {rows}"
    if unit.kind == "replace":
        return f"{who}. All values of that person are protected. The number of {record}s in the table is public."
    return f"{who}. All values of that person are protected, and also whether the person is in the data at all."


def _learned(odds: Odds, *, whole: bool) -> tuple[str, ...]:
    """``whole``: presence is protected, and a value that changes is one person removed and another added."""
    if odds.epsilon is None:
        return ("No limit is promised: somebody who knows all rows but one may learn that row.",)
    small, middle, even = odds.belief(0.01), odds.belief(0.1), odds.belief(0.5)
    what = "whether the last person is in the data" if whole else "the last row"
    lines = [
        "Imagine somebody who knows every row but one, the method, the law of the noise and every earlier release. "
        f"After seeing these files, odds of 1 to 1 about {what} are at most {short_factor(odds.factor)} to 1.",
        f"A suspicion of 1 in 100 becomes at most {_percent(small)}; one of 10 in 100 at most {_percent(middle)}. "
        f"Between two equally likely possibilities they pick the right one at most {_percent(even)} times.",
    ]
    if whole:
        twice = Odds(epsilon=2 * odds.epsilon, delta=odds.delta).factor
        lines.append(
            "For somebody who is known to be in the data, the odds between two values change by a factor of at "
            f"most {short_factor(twice)}."
        )
    if odds.delta > 0:
        lines.append(f"With a probability of at most {_chance(odds.delta)} (delta), more can be learned.")
    return tuple(lines)


def _chance(delta: float) -> str:
    return f"1 in {1 / delta:,.0f}" if delta < 0.5 else f"{delta:g}"


def thousandths_up(share: float) -> int:
    """People of 1,000, rounded up: a limit must not be stated lower than it is.

    >>> thousandths_up(Odds(epsilon=1.0, delta=0.0).belief(0.5))
    732
    """
    return min(1000, math.ceil(1000 * share))


def _percent(share: float) -> str:
    return f"{thousandths_up(share) / 10:.1f} in 100" if share < 0.999 else "100 in 100"


def _not_protected(subject: Summary) -> tuple[str, ...]:
    unit, lines = subject.statement.unit, []
    if subject.statement.protects_nobody:
        return ("Everything: any value of any person in the data.",)
    if unit.fixed:
        lines.append(f"Taken as known for everybody: {', '.join(unit.fixed)}.")
    if unit.public_total and subject.provenance.records is not None:
        lines.append(f"The number of people, {subject.provenance.records:,}, is public.")
    lines.append(
        "Facts about groups. For example, that smoking is dangerous can be learned with or without the data of "
        "any one person."
    )
    lines.append("What the schema says (possible values, bins, impossible combinations): it was public beforehand.")
    if not unit.enforced:
        record = subject.statement.record
        rows = f"one {record}" if unit.rows_per_unit == 1 else f"{unit.rows_per_unit} {record}s"
        lines.append(f"Anybody with more than {rows} in the data: the limit was assumed, not enforced.")
    return tuple(lines)


def limits_of(subject: Summary) -> list[tuple[str, str]]:
    """Warnings and limits, worst first, as (severity, text)."""
    statement, found = subject.statement, []
    found += [("problem", f"{text[:1].upper()}{text[1:]}.".replace("..", ".")) for text in statement.warnings]
    odds = odds_of(statement.guarantee)
    if odds.epsilon is None and not statement.warnings:
        found.append(("problem", "There is no privacy guarantee."))
    if odds.epsilon is not None and odds.epsilon > LARGE:
        found.append(
            (
                "warning",
                f"At epsilon {odds.epsilon:.3g} the promise is weak: odds may change by a factor of "
                f"{short_factor(odds.factor)}.",
            )
        )
    if statement.ledger is None and odds.epsilon is not None:
        found.append(
            ("warning", f"The privacy account is {NOT_TRACKED}: another release of the same data adds to this one.")
        )
    if not statement.unit.enforced and odds.epsilon is not None:
        found.append(("info", "The limit of rows per person was assumed, not enforced."))
    if subject.copies > 1 and subject.provenance.copies_share_measurements:
        found.append(
            (
                "info",
                "All copies were made from the same noisy counts. The differences between copies do not show "
                "the noise.",
            )
        )
    if not isinstance(statement.guarantee, NonPrivate):
        found.append(
            (
                "info",
                "Standard errors computed as if synthetic rows were people are too small. Use the intervals of infer.",
            )
        )
    return found


def exact_lines(subject: Summary) -> list[tuple[str, str]]:
    """The promise as an expert reads it."""
    statement, provenance = subject.statement, subject.provenance
    loss = compose(provenance.events, statement.unit, by=provenance.by) if provenance.events else None
    ledger = statement.ledger
    count = len(provenance.events)
    composed = f"{count} recorded event{'s' * (count != 1)}: {loss_text(loss)}" if loss else "no event is recorded"
    account = NOT_TRACKED if ledger is None else f"{ledger['account']}, run {ledger['run']}"
    if provenance.plan is None:  # tables that somebody else made: their unit, noise and method are not known
        return [("Guarantee", str(statement.guarantee)), ("Composed from", composed), ("Privacy account", account)]
    if statement.protects_nobody:
        said = statement.protected
        return [("Guarantee", str(statement.guarantee)), ("Unit", said), ("Composed from", composed),
                ("Privacy account", account)]  # fmt: skip
    drawn = of_the_raw_draw(statement.guarantee)
    return [
        ("Guarantee", str(statement.guarantee)),
        *([("What it says", drawn)] if drawn else []),
        ("Neighbours", "one unit's rows replaced" if statement.unit.kind == "replace" else "one unit added or removed"),
        ("Unit", statement.unit.describe()),
        ("Composed from", composed),
        ("Privacy account", account),
        ("The attacker may know", "every other row, the schema, the plan, the law of the noise, all earlier releases"),
        ("Post-processing", "the fit, the rows and the values inside bins are computed from noisy answers only, "
                            "at no privacy cost"),
    ]  # fmt: skip


def loss_text(loss: Loss) -> str:
    """What a release spent, rounded up."""
    if loss.unbounded:
        return "without bound"
    parts = []
    if loss.epsilon is not None and loss.epsilon > 0:
        parts.append(f"epsilon {show_up(loss.epsilon)}{' in all' if loss.rho else ''}")
    if loss.by == "composed" and loss.noise_mu_squared is not None and loss.epsilon is None:
        noise = f"mu^2 {show_up(loss.noise_mu_squared)} of Gaussian noise"
        parts.append(f"{noise} and {loss.choices} choices of range {show_up(loss.widest)}, composed by their losses")
    elif loss.mu_squared and loss.epsilon is None and loss.by in ("gaussian", "least"):
        parts.append(f"mu^2 {show_up(loss.mu_squared)}, converted by the profile of Gaussian noise")
    elif loss.rho and parts:
        parts.append(f"which is also within rho {show_up(loss.rho)} (zero-concentrated)")
    elif loss.rho:
        parts.append(f"rho {show_up(loss.rho)}")
    if loss.approx_epsilon or loss.approx_delta:
        parts.append(f"(epsilon {show_up(loss.approx_epsilon)}, delta {show_up(loss.approx_delta)})")
    return ", ".join(parts) or "nothing"


def profile_of(subject: Summary) -> list[dict[str, float]]:
    """For every epsilon, the smallest delta that the recorded events prove. Empty if nothing is promised.

    A pure promise of epsilon proves (e^epsilon - e^x) / (1 + e^epsilon) at x (randomised response attains it: Kairouz,
    Oh and Viswanath 2015). Rho is converted as in Canonne, Kamath and Steinke 2020. Gaussian noise that was fixed in
    advance is converted by its exact profile. An adaptive run is shown with its whole budget, however little it spent.
    """
    events = subject.provenance.events
    if not events or isinstance(subject.statement.guarantee, NonPrivate):
        return []
    loss = compose(events, subject.statement.unit, by=subject.provenance.by)
    if subject.provenance.plan is not None and subject.provenance.plan.adaptive:
        loss = _kept(loss, subject.provenance.plan)
    top = odds_of(subject.statement.guarantee).epsilon or 1.0
    return [{"epsilon": x, "delta": _delta(loss, x)} for x in _grid(1.6 * top)]


def _kept(spent: Loss, plan: Plan) -> Loss:
    """The most that a run of this plan could have spent. How much it did spend depended on its noisy answers, so
    a statement about that would be no guarantee (docs/theory/accounting.md, budgets as filters)."""
    budget = plan.budget
    if isinstance(budget, PureDP):
        return Loss(epsilon=budget.epsilon)
    if isinstance(budget, ZCDP):
        return Loss(epsilon=None, rho=budget.rho)
    if not isinstance(budget, ApproxDP | ProbabilisticDP):
        return spent
    if spent.epsilon is not None and spent.epsilon <= budget.epsilon:  # methods decide beforehand to add up epsilons
        return Loss(epsilon=budget.epsilon)
    if spent.by == "gaussian" and spent.mu_squared is not None:
        most = max(spent.mu_squared, gaussian_mu_squared(budget.epsilon, budget.delta))
        return Loss(epsilon=None, mu_squared=most, by=spent.by)
    if spent.by == "composed" and spent.noise_mu_squared is not None:
        planned = compose(plan.events, plan.unit, by=spent.by)
        mu2 = max(spent.noise_mu_squared, planned.noise_mu_squared or Fraction(0))
        choices, widest = max(spent.choices, planned.choices), max(spent.widest, planned.widest)
        return Loss(epsilon=None, noise_mu_squared=mu2, choices=choices, widest=widest, by=spent.by)
    return Loss(epsilon=None, rho=max(spent.rho or Fraction(0), cdp_rho(budget.epsilon, budget.delta)))


def _grid(top: float) -> Sequence[float]:
    return [float(f"{top * step / POINTS:.6g}") for step in range(POINTS + 1)]


def _delta(loss: Loss, x: float) -> float:
    """The smallest delta that the pure part, rho or mu^2 proves, plus the part that is known as (epsilon, delta)."""
    left = x - float(loss.approx_epsilon)
    if left < 0:
        return 1.0
    known = [1.0]
    if loss.epsilon is not None:
        pure = min(float(loss.epsilon), LARGEST_EXPONENT)
        known.append(max(0.0, (math.exp(pure) - math.exp(left)) / (1 + math.exp(pure))) if left < pure else 0.0)
    if loss.rho and loss.by in ("concentrated", "least"):
        known.append(float(cdp_delta(loss.rho, Fraction(left))))
    if loss.by == "composed" and loss.noise_mu_squared is not None:
        known.append(float(composed_delta(loss.noise_mu_squared, loss.widest, loss.choices, Fraction(left))))
    if loss.mu_squared and loss.by in ("gaussian", "least"):
        known.append(float(gaussian_delta(loss.mu_squared, Fraction(left))))
    return min(1.0, min(known) + float(loss.approx_delta))


def beliefs_of(subject: Summary) -> list[dict[str, float]]:
    """Beliefs before and, at most, after seeing the release."""
    odds = odds_of(subject.statement.guarantee)
    return [{"before": prior, "after_at_most": odds.belief(prior)} for prior in PRIORS]
