"""Advice before a release, from public facts alone: what an epsilon gives the analyst, and what it gives an attacker.

No argument takes confidential data, and nothing here can be charged. Widths come from ``interval_widths`` and odds from
``attacker_beliefs``. Classical measures come from ``release_scores`` and, on a public look-alike, from attacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from understudy.core.arrays import Progress
from understudy.core.exact_numbers import Number, read_exact
from understudy.core.questions import parse_question
from understudy.core.schema import Level, Schema
from understudy.core.table import CodedSource, CodedTable
from understudy.errors import InputError, UnsupportedError
from understudy.explore.advice_result import Advice, Classical, Reach, Row
from understudy.explore.attacker_beliefs import attacker_at, exact_guess
from understudy.explore.interval_widths import Asking, Rehearsals, Width
from understudy.explore.population import Population, coded, read_population
from understudy.explore.rehearsal import (
    Setup,
    check_level,
    check_whole,
    listed_names,
    rehearse,
    seeds,
    unit_of_rehearsal,
)
from understudy.explore.release_scores import cell_uncertainty, risk_scores
from understudy.inference.estimands import make_estimand
from understudy.inference.evidence import check_prior
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.plan import Option

EPSILONS: tuple[Number, ...] = ("0.1", "0.5", "1", "2", "5", "10")
COPIES = (1, 2, 5, 10)
TARGET = 1.5  # times the width of the real data's interval
REPEATS = 20
LOOK_ALIKE_REPEATS = 3
MOST_EPSILONS = 100


def advise(
    schema: Schema,
    question: str,
    *,
    records: int,
    epsilons: Sequence[Number] = EPSILONS,
    delta: Number | None = None,
    method: str = "auto",
    unit: Unit | str = "replace",
    copies: Sequence[int] = COPIES,
    rows: int | None = None,
    guess: Mapping[str, Any] | None = None,
    on: Any = None,
    keys: Sequence[str] = (),
    targets: Sequence[str] = (),
    family: str | None = None,
    event: Level | None = None,
    where: str | None = None,
    level: float = 0.95,
    target: float = TARGET,
    repeats: int = REPEATS,
    prior: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Option,
) -> Advice:
    """Say what an epsilon gives an analyst and an attacker, before a release and from public facts only.

    Parameters
    ----------
    schema
        The public schema.
    question
        One that analysts will ask, as ``infer`` takes it. It may say how exact the answer shall be ("mean(income)
        within 3%"); the advice then says which epsilon that takes.
    records
        The number of records, or a guess of it.
    epsilons
        The budgets to compare.
    delta
        The delta that goes with each epsilon; without it the budgets are pure.
    method
        How the release will be made.
    unit
        Who is protected. ``fixed`` attributes and several rows per unit are rehearsed as independent rows; there is no
        ``unit_id``, since there are no data.
    copies
        The numbers of copies to compare, for methods whose copies split the budget.
    rows
        Rows of each synthetic table; by default as many as records.
    guess
        What is believed about the people: shares of the levels of attributes, which are then independent. Where nothing
        is said, data of the declared kind: amounts are skewed, and of many levels most are rare.
    on
        A public look-alike instead of a guess: anything ``open_source`` opens, and never the confidential data.
    keys
        Attributes that an intruder knows; with ``on`` only.
    targets
        Attributes that an intruder wants to know; with ``on`` only.
    family
        The kind of regression: linear, logit, poisson, multinomial or ordered; chosen by the outcome if left out.
    event
        The level that a logistic regression is about.
    where
        A subgroup, such as ``age >= 45``.
    level
        The level of the intervals.
    target
        How many times as wide as the real data's an interval may be. The advice says which epsilon that takes.
    repeats
        Rehearsed releases for each epsilon, where widths cannot be computed.
    prior
        Prior strength of the analyst's posterior, as in ``infer``.
    seed
        Makes rehearsals repeatable.
    progress
        Called while it works, with what is done and what there is to do.
    **options
        Options of the method.

    Returns
    -------
    Advice
        A table, a curve and words. It may be shown to anybody.

    Raises
    ------
    InputError
        If an argument is not what it should be.

    Examples
    --------
    >>> import understudy as us
    >>> schema = us.Schema(attributes=(us.Attribute(name="smokes", levels=("no", "yes")),))
    >>> advice = us.advise(schema, "proportion(smokes == 'yes')", records=100, method="dirichlet", epsilons=("1", "2"),
    ...                    copies=(1,), guess={"smokes": (0.75, 0.25)})
    >>> [round(row.best.ratio, 2) for row in advice.rows]
    [2.81, 2.06]
    """
    if not isinstance(schema, Schema):
        raise InputError("advise needs a schema; read one with understudy.read_schema.")
    if on is None and (keys or targets):
        raise InputError("keys and targets are for attacks on a public look-alike; give one (on), or leave them out.")
    if guess is not None and not isinstance(guess, Mapping):
        raise InputError("guess must name attributes and their shares, such as {'sex': (0.5, 0.5)}.")
    look_alike = None if on is None else coded(on, schema)
    levels = _read_epsilons(epsilons)
    listed = [copies] if isinstance(copies, int) else list(copies)
    numbers = tuple(sorted({check_whole(number, "copies", 1, 1000) for number in listed}))
    if not numbers:
        raise InputError("say for which numbers of copies (copies), for example 1, 2, 5.")
    check_whole(records, "records", 1, 100_000_000)
    check_whole(repeats, "repeats", 2, 100_000)
    check_whole(seed, "seed", 0, 2**63)
    check_level(level)
    check_prior(prior)
    if isinstance(target, bool) or not isinstance(target, int | float) or not 1 < target < 1000:
        raise InputError(f"target ({target}) must be above 1: how many times as wide as the real data's interval.")
    keys, targets = listed_names(keys), listed_names(targets)
    who = unit_of_rehearsal(unit, schema)
    setup = Setup(
        schema=schema,
        method=method,
        delta=None if delta is None else read_exact(delta, "delta"),
        unit=who,
        records=records,
        rows=rows,
        options=options,
    )
    question, within = read_accuracy(question)
    estimand = make_estimand(parse_question(question, schema, family=family, event=event, where=where), schema)
    population = read_population(schema, guess=guess, look_alike=look_alike)
    rehearsals = Rehearsals(
        population=population,
        setup=setup,
        estimand=estimand,
        question=question,
        asking=Asking(family=family, event=event, where=where),
        records=records,
        level=level,
        repeats=repeats,
        seed=seed,
        prior=prior,
    )
    first = setup.plan(levels[0])
    splits = setup.splits(first)
    numbers = numbers if splits else (1,)
    steps = len(levels) * (len(numbers) + 1) + HALVINGS
    done = _counter(progress, steps)
    found: dict[tuple[Fraction, int], tuple[Width, ...]] = {}
    for epsilon in levels:
        for number in numbers:
            found[epsilon, number] = rehearsals.widths(epsilon, number)
            done()
    table = []
    for epsilon in levels:
        best = _best({number: found[epsilon, number] for number in numbers})
        widths = {number: found[epsilon, number] for number in numbers}
        table.append(_row(setup, population, epsilon, widths=widths, best=best, seed=seed))
        done()
    reach = tuple(
        find_epsilon(
            rehearsals, {epsilon: found[epsilon, number] for epsilon in levels}, number, target, done, within=within
        )
        for number in dict.fromkeys((numbers[0], *(row.best_copies for row in table)))
    )
    classical = (
        ()
        if look_alike is None
        else tuple(_on_look_alike(setup, look_alike, row, keys=keys, targets=targets, seed=seed) for row in table)
    )
    return Advice(
        question=question,
        method=", ".join(dict.fromkeys(setup.plan(epsilon).method for epsilon in levels)),  # auto's may differ
        records=records,
        unit=who.kind,
        rows_per_unit=who.rows_per_unit,
        fixed=who.fixed,
        delta=None if delta is None else float(read_exact(delta, "delta")),
        level=level,
        target=target,
        population=population.told,
        splits=splits,
        names=tuple(width.name for width in found[levels[0], numbers[0]]),
        rows=tuple(table),
        reach=reach,
        classical=classical,
        within=within,
    )


def read_accuracy(question: str) -> tuple[str, float | None]:
    """A question, and how exact its answer shall be if it says so.

    >>> read_accuracy("mean(income) within 3%"), read_accuracy("mean(income)")
    (('mean(income)', 0.03), ('mean(income)', None))
    """
    if not isinstance(question, str):
        raise InputError('the question must be a text such as "mean(income)".')
    found = re.fullmatch(r"(.*?)\s+within\s+([0-9]*\.?[0-9]+)\s*%\s*", question)
    if found is None:
        return question, None
    within = float(found[2]) / 100
    if not 0 < within <= 10:
        raise InputError(f"within {found[2]}% must be above 0% and at most 1000%.")
    return found[1], within


def _read_epsilons(epsilons: Sequence[Number]) -> tuple[Fraction, ...]:
    listed = [epsilons] if isinstance(epsilons, str | int | float | Fraction) else list(epsilons)
    if not 1 <= len(listed) <= MOST_EPSILONS:
        raise InputError(f"say at which epsilons, between 1 and {MOST_EPSILONS} of them, for example 0.5, 1, 2.")
    exact = sorted({read_exact(epsilon, "epsilon") for epsilon in listed})
    for epsilon in exact:
        if not SMALLEST <= epsilon <= LARGEST * 4:
            raise InputError(
                f"epsilon ({float(epsilon):g}) must be between {float(SMALLEST):g} and {int(LARGEST * 4)}."
            )
    return tuple(exact)


def _best(by_copies: Mapping[int, tuple[Width, ...]]) -> int:
    """The number of copies with the narrowest intervals; fewer where two differ by less than their errors."""

    def size(number: int) -> tuple[float, float]:
        widths = by_copies[number]
        return (
            float(np.mean([one.width for one in widths])),
            float(np.sqrt(np.mean([one.error**2 for one in widths]))),
        )

    best = min(by_copies)
    for number in sorted(by_copies):
        width, error = size(number)
        before, other = size(best)
        if width < before - 2 * float(np.hypot(error, other)):
            best = number
    return best


def _row(
    setup: Setup,
    population: Population,
    epsilon: Fraction,
    *,
    widths: Mapping[int, tuple[Width, ...]],
    best: int,
    seed: int,
) -> Row:
    records = setup.records or 0
    people = population.draw(records, np.random.default_rng(seed))
    release = rehearse(CodedSource(people), setup.plan(epsilon, best), seeds(seed, 0, 1))
    bound = attacker_at(float(epsilon), delta=float(setup.delta or 0), unit=setup.unit)
    return Row(
        epsilon=float(epsilon),
        widths=dict(widths),
        best_copies=best,
        attacker=replace(bound, guess_exact=exact_guess(release, setup.unit, records)),
        cell_uncertainty=cell_uncertainty(release, records),
    )


def _on_look_alike(
    setup: Setup, on: CodedTable, row: Row, *, keys: Sequence[str], targets: Sequence[str], seed: int
) -> Classical:
    """Replicated uniques and DiSCO of rehearsed releases of the look-alike itself, which is public."""
    here = replace(setup, records=on.rows if setup.unit.public_total else None, rows=setup.rows or on.rows)
    plan = here.plan(Fraction(str(row.epsilon)), row.best_copies)
    scores = [
        risk_scores(rehearse(CodedSource(on), plan, seeds(seed, 7, repeat)), on, keys=keys, targets=targets)
        for repeat in range(LOOK_ALIKE_REPEATS)
    ]
    mean = {name: float(np.mean([one[name] for one in scores])) for name in scores[0]}
    return Classical(epsilon=row.epsilon, people=on.rows, releases=len(scores), scores=mean)


def _counter(progress: Progress | None, steps: int) -> Callable[[], None]:
    count = 0

    def done() -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress(min(count, steps), steps)

    return done


# The smallest epsilon that keeps intervals within so many times the real data's width.

SMALLEST, LARGEST = Fraction(1, 1000), Fraction(64)
HALVINGS = 5
CLOSE = 1.02  # two epsilons that differ by less are one answer

Widths = tuple[Width, ...]


def find_epsilon(
    rehearsals: Rehearsals,
    known: Mapping[Fraction, Widths],
    copies: int,
    target: float,
    done: Callable[[], None],
    *,
    within: float | None = None,
) -> Reach:
    """By doubling, halving and bisection on the logarithm of epsilon, from the widths that are known already.

    The same people and seeds are used at every epsilon, so the curve is smooth enough. Its Monte Carlo error is stated.
    With ``within``, half the width as a share of the value is used instead.
    """
    if within is not None:
        real = (one for widths in known.values() for one in widths if one.value)
        own = max((one.real / 2 / abs(one.value or 1.0) for one in real), default=0.0)
        if own > within:
            reason = f"the same tables without noise are right within {100 * own:.2g}% only"
            return Reach(copies=copies, epsilon=None, ratio=None, error=None, reason=reason)
    elif all(one.ratio is None for widths in known.values() for one in widths):
        return Reach(
            copies=copies,
            epsilon=None,
            ratio=None,
            error=None,
            reason=("the interval from the real data has no width here"),
        )

    found = dict(known)

    def meets(epsilon: Fraction) -> bool:
        if epsilon not in found:
            try:
                found[epsilon] = rehearsals.widths(epsilon, copies)
            except UnsupportedError:  # none of its releases can answer the question
                found[epsilon] = ()
            done()
        return _worst(found[epsilon], within) <= (target if within is None else within)

    high = next((epsilon for epsilon in sorted(found) if meets(epsilon)), None)
    low = max((epsilon for epsilon in found if high is None or epsilon < high), default=None)
    while high is None and low is not None and low < LARGEST:
        step = min(2 * low, LARGEST)
        high, low = (step, low) if meets(step) else (None, step)
    if high is None:
        top = max(epsilon for epsilon in found if found[epsilon])
        ratio = _worst(found[top], within)
        reason = (
            f"even at epsilon {float(top):g} intervals are {ratio:.2f} times as wide"
            if within is None
            else f"even at epsilon {float(top):g} answers are right within {100 * ratio:.2g}% only"
        )
        return Reach(copies=copies, epsilon=None, ratio=ratio, error=None, reason=reason)
    while low is None and high > SMALLEST:
        step = max(high / 2, SMALLEST)
        high, low = (step, None) if meets(step) else (high, step)
    for _ in range(HALVINGS):
        if low is None or float(high / low) < CLOSE:
            break
        middle = Fraction(f"{float(low * high) ** 0.5:.4g}")
        high, low = (middle, low) if meets(middle) else (high, middle)
    deciding = max(found[high], key=lambda one: one.ratio or 0.0)
    return Reach(
        copies=copies, epsilon=float(high), ratio=deciding.ratio, error=deciding.ratio_error, exact=deciding.exact
    )


def _worst(widths: Sequence[Width], within: float | None) -> float:
    sizes = [one.ratio if within is None else one.half_share for one in widths]
    return max((size for size in sizes if size is not None), default=float("inf"))
