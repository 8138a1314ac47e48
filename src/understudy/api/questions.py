"""The verb that asks a release a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.core.schema import Level

if TYPE_CHECKING:
    from understudy.inference.answer import Answer, Generator
    from understudy.release import Release

__all__ = ["infer"]


def infer(
    release: Release,
    question: str,
    *,
    family: str | None = None,
    event: Level | None = None,
    where: str | None = None,
    level: float = 0.95,
    draws: int | None = None,
    prior: float | None = None,
    synthesis: str | None = None,
    records: int | None = None,
    rule: str | None = None,
    rng: Generator | None = None,
) -> Answer:
    """What may be concluded from a release alone: an estimate with an interval that covers, or a refusal that says why.

    ``question`` is for example "proportion(sex == 'F')", "mean(age, where=region == 'North')", "crosstab(sex, smokes)"
    or a formula "smokes ~ age + sex" (``family``: linear, logit, poisson, multinomial, ordered; ``event``: the level a
    logistic regression is about). ``where`` is a subgroup for any question.

    A release of ours says which law its noise has, and the exact posterior under that law is used. ``prior`` is the
    prior count of each group the question tells apart (by default 1/2 for few groups; for many, several values that
    share the posterior by their evidence). Somebody else's tables need ``synthesis`` ("simple", "posterior" or
    "partial") and ``records``; a combining ``rule`` that is wrong for a release is refused. Draws of the posterior are
    random and protect nobody; ``rng`` makes them repeatable.

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
        level=level,
        draws=draws,
        prior=prior,
        synthesis=synthesis,
        records=records,
        rule=rule,
        rng=rng,
    )
