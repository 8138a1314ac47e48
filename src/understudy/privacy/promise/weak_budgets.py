"""Budgets that protect next to nobody, which are refused unless somebody says that they know it.

An epsilon of 20 lets an attacker's odds grow 485-million-fold. A delta is a probability that no promise holds at all:
above one in n, a mechanism may publish somebody's record outright and keep its word. The bounds here are customary and
prove nothing; they catch a slipped decimal point (docs/threat-model.md).
"""

from __future__ import annotations

from fractions import Fraction

from understudy.errors import BudgetError
from understudy.privacy.promise.definition import ZCDP, ApproxDP, Definition, ProbabilisticDP, PureDP

LARGEST_EPSILON = Fraction(20)
LARGEST_RHO = Fraction(5)  # about epsilon 20 at delta 1e-6
LARGEST_DELTA = Fraction(1, 1000)
EXPECTED_RECORDS = 1  # how many records may be published outright, on average, before delta is too large
KNOWING = "If that is meant, say --i-know (i_know=True in Python). Nothing was charged."


def require_sane(budget: Definition) -> None:
    """Refuses a budget that protects next to nobody, whatever the data.

    >>> require_sane(PureDP(epsilon=100))     # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    understudy.errors.BudgetError: epsilon (100) is above 20: ...
    """
    if isinstance(budget, PureDP | ApproxDP | ProbabilisticDP) and budget.epsilon > LARGEST_EPSILON:
        raise BudgetError(
            f"epsilon ({float(budget.epsilon):g}) is above {float(LARGEST_EPSILON):g}: an attacker's odds about one "
            f"person may grow more than a hundred-million-fold. {KNOWING}"
        )
    if isinstance(budget, ZCDP) and budget.rho > LARGEST_RHO:
        raise BudgetError(
            f"rho ({float(budget.rho):g}) is above {float(LARGEST_RHO):g}, which is about epsilon 20 at delta 1e-6: "
            f"it protects next to nobody. {KNOWING}"
        )
    if isinstance(budget, ApproxDP | ProbabilisticDP) and budget.delta > LARGEST_DELTA:
        raise BudgetError(
            f"delta ({float(budget.delta):g}) is above {float(LARGEST_DELTA):g}: with that probability nothing is "
            f"promised to anybody. Usual is far below 1 divided by the number of people. {KNOWING}"
        )


def require_sane_for(budget: Definition, records: int) -> None:
    """Refuses a delta above one in n, where the number of records is public."""
    if isinstance(budget, ApproxDP | ProbabilisticDP) and budget.delta * records > EXPECTED_RECORDS:
        raise BudgetError(
            f"delta ({float(budget.delta):g}) is above 1 divided by the {records:,} records: publishing one record at "
            f"random would keep this promise. {KNOWING}"
        )
