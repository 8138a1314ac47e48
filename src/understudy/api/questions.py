"""The verb that asks a release a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from understudy.core.schema import Level

if TYPE_CHECKING:
    from understudy.inference.answer import Answer, Generator
    from understudy.release.kind import AnyRelease

__all__ = ["infer"]


def infer(
    release: AnyRelease,
    question: str,
    *,
    family: str | None = None,
    event: Level | None = None,
    where: str | None = None,
    by: str | Sequence[str] | None = None,
    level: float = 0.95,
    draws: int | None = None,
    prior: float | None = None,
    synthesis: str | None = None,
    records: int | None = None,
    rule: str | None = None,
    rng: Generator | None = None,
) -> Answer:
    """Say what may be concluded from a release alone: an estimate with an interval that covers, or a refusal that says
    why.

    A release of ours says which law its noise has, and the exact posterior under that law is used. Draws of the
    posterior are random and protect nobody.

    Parameters
    ----------
    release
        A release of tables; one of another kind is refused.
    question
        For example ``proportion(sex == 'F')``, ``mean(age, where=region == 'North')``, ``crosstab(sex, smokes)``, or a
        formula such as ``smokes ~ age + sex``.
    family
        The kind of regression: linear, logit, probit, poisson, multinomial or ordered; by the outcome if left out.
    event
        The level that a logistic regression is about.
    where
        A subgroup, such as ``age >= 45``; for any question.
    by
        One or more attributes: the quantity in each of their groups, in one answer.
    level
        The level of the intervals.
    draws
        How many draws of the posterior.
    prior
        Prior strength in records of each group that the question tells apart; by default 1/2 for few groups, and for
        many several values that share the posterior by their evidence.
    synthesis
        How somebody else's tables were made: ``simple``, ``posterior`` or ``partial``.
    records
        The number of records behind somebody else's tables.
    rule
        The combining rule, by name. One that is wrong for the release is refused.
    rng
        Makes the draws repeatable.

    Returns
    -------
    Answer
        One or more estimates, with how they were made and what to beware of.

    Raises
    ------
    InputError
        If the question cannot be read.
    UnsupportedError
        If the release does not allow the conclusion; the message says why.

    Examples
    --------
    >>> import warnings, understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(500), small_schema())
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(people, budget=us.PureDP(epsilon=1), method="histogram")
    >>> answer = us.infer(release, "proportion(sex == 'F')").estimates[0]
    >>> 0 < answer.low < answer.value < answer.high < 1
    True
    """
    from understudy.inference.ask import ask

    return ask(
        release,
        question,
        family=family,
        event=event,
        where=where,
        by=by,
        level=level,
        draws=draws,
        prior=prior,
        synthesis=synthesis,
        records=records,
        rule=rule,
        rng=rng,
    )
