"""The verbs that ask a release: what can be asked, a question, two models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from understudy.core.schema import Level
from understudy.errors import InputError

if TYPE_CHECKING:
    from understudy.inference.answer import Answer, Generator
    from understudy.inference.askable import Askables
    from understudy.inference.model_check import ModelComparison
    from understudy.release.kind import AnyRelease

__all__ = ["compare_models", "infer", "print_answers", "questions"]


@overload
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
    weighted: bool | str | None = None,
    before: AnyRelease | None = None,
) -> Answer: ...
@overload
def infer(
    release: AnyRelease,
    question: list[str] | tuple[str, ...],
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
    weighted: bool | str | None = None,
    before: AnyRelease | None = None,
    refused: dict[str, str] | None = None,
) -> tuple[Answer, ...]: ...
def infer(
    release: AnyRelease,
    question: str | list[str] | tuple[str, ...],
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
    weighted: bool | str | None = None,
    before: AnyRelease | None = None,
    refused: dict[str, str] | None = None,
) -> Answer | tuple[Answer, ...]:
    """Say what may be concluded from a release alone: an estimate with an interval that covers, or a refusal that says
    why.

    A release of ours says which law its noise has, and the exact posterior under that law is used. Draws of the
    posterior are random and protect nobody.

    Parameters
    ----------
    release
        A release of tables or of commutes.
    question
        Of commutes: ``count(home in tract 44007000100, work in city 'Northport')``, ``share(home in outside | work in
        county 44007)``, ``mean_distance(work in zip 02803)`` in miles, or ``inflow_outflow(city 'Northport')``. Of
        tables: for example ``proportion(sex == 'F')``, ``mean(age, where=region == 'North')``, ``crosstab(sex,
        smokes)``, or a formula such as ``smokes ~ age + sex``. A list of questions gets as many answers;
        those about the same attributes share their draws.
    family
        The kind of regression: linear, logit, probit, poisson, multinomial or ordered. By default the outcome decides.
    event
        The level that a logistic regression is about.
    where
        A subgroup, such as ``age >= 45``; for any question.
    by
        One or more attributes: one answer gives the quantity in each of their groups.
    level
        The level of the intervals, such as 0.95.
    draws
        How many draws are made from the posterior.
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
    weighted
        Whether the answer is about the population that the weighted rows stand for; by default it is, where the schema
        declares a weight. ``False``: about the sample. The column of a weight: by that weight.
    before
        For commutes: an earlier release of the same places, such as that of another year. The answer is then the change
        since, with its interval.
    refused
        For a list of questions: a dictionary that takes those which the release does not answer, or which name what it
        does not have, each with the reason, while the others are answered. Without it the first of them ends the call.

    Returns
    -------
    Answer | tuple[Answer, ...]
        One or more estimates, with how they were made and what to beware of; several for a list of questions.

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
    >>> people = us.open_source(make_people(5000), small_schema())
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(people, budget=us.PureDP(epsilon=1), method="histogram")
    >>> answer = us.infer(release, "proportion(sex == 'F')").estimates[0]
    >>> 0 <= answer.low < answer.value < answer.high <= 1
    True
    """
    from understudy.inference.ask import ask
    from understudy.release.kind import kind_of_release

    kind = kind_of_release(release)
    in_list = isinstance(question, list | tuple)
    if refused is not None and not in_list:
        raise InputError("refused takes what a list of questions leaves over; this is one question.")
    shared: dict[object, object] = {}

    def answered(one: str) -> Answer:
        own: Answer | None = None if kind is None else kind.ask(release, one, level=level, before=before)
        if own is not None:
            idle = {"family": family, "event": event, "where": where, "by": by, "draws": draws, "prior": prior,
                    "synthesis": synthesis, "records": records, "rule": rule, "weighted": weighted}  # fmt: skip
            if given := [name for name, value in idle.items() if value is not None]:
                raise InputError(f"{', '.join(given)}: for releases of tables; leave out for a release of commutes.")
            return own
        is_model = not in_list or "~" in str(one)  # in a list, family and event are for its formulas
        if (family is not None or event is not None) and in_list and not any("~" in str(other) for other in question):
            raise InputError("family and event go with a formula such as 'smokes ~ age + sex'.")
        return ask(
            release,
            one,
            family=family if is_model else None,
            event=event if is_model else None,
            where=where,
            by=by,
            level=level,
            draws=draws,
            prior=prior,
            synthesis=synthesis,
            records=records,
            rule=rule,
            rng=rng,
            shared=shared if in_list else None,
            weighted=weighted,
        )

    if not isinstance(question, list | tuple):
        return answered(question)
    answers = []
    for one in question:
        try:
            answers.append(answered(one))
        except InputError as reason:  # cannot be answered, or names what is not there
            if refused is None or (one is question[-1] and not answers and {*refused.values()} == {str(reason)}):
                raise  # the last of questions that all fail alike: something else is wrong
            refused[str(one)] = str(reason)
    return tuple(answers)


def questions(release: AnyRelease, *names: str) -> Askables:
    """Say what a release can be asked: its tables, with the best label of an answer and how wide one will be.

    For commutes: the kinds of questions, and how areas are named.

    Parameters
    ----------
    release
        A release of tables.
    *names
        Only tables that have all of these attributes.

    Returns
    -------
    Askables
        Prints as a table; can be looped over; ``to_frame()`` and ``to_json()``.

    Raises
    ------
    InputError
        If an attribute is unknown.
    UnsupportedError
        If nothing can be asked; the message says why.

    Examples
    --------
    >>> import warnings, understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(2000), small_schema())
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(people, budget=us.PureDP(epsilon=1), method="ipf")
    >>> [(one.question, one.label) for one in us.questions(release, "sex", "smokes")]
    [('crosstab(sex, smokes)', 'valid')]
    """
    from understudy.inference.askable import Askables, askable
    from understudy.release.kind import kind_of_release

    kind = kind_of_release(release)
    if kind is not None and (told := kind.what_to_ask(release)):
        if names:
            raise InputError(f"names of attributes are for releases of tables; {kind.uses}.")
        return Askables(tables=(), unasked=(), triples=0, notes=told)
    return askable(release, *names)


def compare_models(
    release: AnyRelease,
    smaller: str,
    larger: str,
    *,
    family: str | None = None,
    event: Level | None = None,
    where: str | None = None,
    rng: Generator | None = None,
) -> ModelComparison:
    """Test whether the terms that only the larger of two models has are 0. The test accounts for the noise.

    Parameters
    ----------
    release
        A release of tables.
    smaller, larger
        Formulas with the same outcome; the larger one has every term of the smaller one.
    family
        The kind of regression: linear, logit, probit, poisson, multinomial or ordered. By default the outcome decides.
    event
        The level that a logistic regression is about.
    where
        A subgroup, such as ``age >= 45``.
    rng
        Makes the draws repeatable.

    Returns
    -------
    ModelComparison
        A joint Wald test of the terms that only the larger model has.

    Raises
    ------
    InputError
        If the models are not nested.
    UnsupportedError
        If the release does not determine the terms.

    Examples
    --------
    >>> import warnings, understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(3000), small_schema())
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(people, budget=us.PureDP(epsilon=5), method="histogram")
    >>> compared = us.compare_models(release, "smokes ~ sex", "smokes ~ sex + education", event="yes")
    >>> compared.added, compared.test.freedom
    (('education',), 3)
    """
    from understudy.inference.model_check import compare_models as compared

    return compared(release, smaller, larger, family=family, event=event, where=where, rng=rng)


def print_answers(answers: Sequence[Answer], form: str = "text") -> str:
    """Print answers as tables, with the notes that they share once.

    Parameters
    ----------
    answers
        What ``infer`` returned.
    form
        ``text``, ``latex``, ``html`` or ``csv`` (tidy: one line for each estimate).

    Returns
    -------
    str
        The tables.

    Raises
    ------
    InputError
        If the format is unknown.

    Examples
    --------
    >>> import warnings, understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(500), small_schema())
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(people, budget=us.PureDP(epsilon=1), method="histogram")
    >>> answers = us.infer(release, ["crosstab(sex)", "proportion(sex == 'F')"])
    >>> us.print_answers(answers, "csv").splitlines()[0]
    'question,name,sex,estimate,standard_error,low,high,level,information,label'
    """
    from understudy.inference.printing import printed

    return printed(list(answers), form)
