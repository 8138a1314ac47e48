"""``infer``: from a release and a question to an answer that says how it was found, or a refusal that says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.measurement import Measurement
from understudy.core.phases import tell
from understudy.core.questions import FAMILIES, Question, parse_question
from understudy.core.result import Estimate
from understudy.core.schema import Level
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.inference.answer import Answer
from understudy.inference.between_edges import between_edges
from understudy.inference.by_rule import OF_POSTERIOR_DRAWS, by_rule, delta_method, why_not
from understudy.inference.chosen_ratio import chosen_ratio
from understudy.inference.chosen_tables import (
    Choice,
    fixed_beforehand,
    measured_after_choosing,
    noise_beside_sampling,
    without_selection,
)
from understudy.inference.combining import RUBIN, RULES
from understudy.inference.estimands import Estimand, make_estimand
from understudy.inference.evidence import (
    Drawn,
    Evidence,
    check_prior,
    is_partial,
    is_plain,
    public_records,
    without_coefficients,
)
from understudy.inference.inside_weights import (
    GOES_WITH,
    MOST_MOVED,
    MOST_ROUGH,
    PUBLIC_BINS,
    ROUGH,
    anywhere_in_bins,
    goes_with_weights,
)
from understudy.inference.joined_tables import (
    ANY_QUESTION,
    APART,
    CONFIRMED,
    NEWEST,
    TOGETHER,
    USES,
    Joined,
    as_first_made,
    tables_that_joined,
    ways_to_confirm,
)
from understudy.inference.judge import MOST_ROOM, Judged, spread_of_records
from understudy.inference.labels import MODEL, NOT_DETERMINED, RANGE, REFUSED, SELECTION, VALID
from understudy.inference.noise_aware import NoiseAware, evidence_for, has_posterior_draws, of_kinds
from understudy.inference.noisy_scores import noise_inside
from understudy.inference.sampling_design import design_factor, sampling_error
from understudy.inference.validity import Validity, unproved, validity_of
from understudy.inference.weighting import by_public_totals, chosen_weights, of_population, remarks
from understudy.inference.without_prior import from_posterior
from understudy.release.kind import AnyRelease
from understudy.release.table_release import Release, asked_table

__all__ = ["ask", "delta_method"]

DRAWS = 4000
DRAWS_OF_REGRESSION, LEAST_DRAWS = 1500, 500
MOST_NUMBERS = 3e9  # of conditional laws, up to which drawing takes seconds
MOST_DRAWN = 800_000  # groups times draws, up to which drawing takes seconds
WORK, MOST_WORK = 3e8, 2e7  # multiplications of one step of all fits, and of one fit, up to which it takes seconds
MORE_STEPS = 3  # times as many steps in a fit of an outcome of several levels
STAGES = 4  # steps of an answer, for progress reports
LITTLE = 0.01  # as a share of the information in the records
ROBUST = (*FAMILIES, "association", "ratio")  # kinds whose draws have far outliers
PUBLIC = "public totals of the schema"
EMPTY = 0.025  # a subgroup that may be empty with more than this probability has no answer


def ask(
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
    rng: np.random.Generator | None = None,
    shared: dict[object, object] | None = None,
    weighted: bool | str | None = None,
    use: str = APART,
) -> Answer:
    """Answer a question; see ``understudy.infer``.

    ``use`` says what to do with tables that joined the release later. ``apart``: they are used where that gives a
    narrower interval than the release as it was made. ``confirmed``: the newest one is used, with earlier ones where
    that helps. ``newest``: the newest one alone. ``together``: all tables, whoever chose the question.
    """
    release = asked_table(release, question, family=family, event=event, where=where, by=by)
    if not isinstance(release, Release):
        raise InputError("infer needs a release; read one with understudy.read_release, or wrap a table.")
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InputError(f"level ({level!r}) must be between 0 and 1.")
    if draws is not None and (isinstance(draws, bool) or not isinstance(draws, int) or not 100 <= draws <= 1_000_000):
        raise InputError(f"draws ({draws!r}) must be a whole number between 100 and 1,000,000.")
    check_prior(prior)
    if use not in USES:
        raise unknown_name("use of joined tables", use, USES)
    release = without_coefficients(release)
    if rule is not None and rule not in (*RULES, RUBIN):
        raise unknown_name("combining rule", rule, (*RULES, RUBIN))
    parsed = parse_question(question, release.schema, family=family, event=event, where=where, by=by)
    rng = np.random.default_rng() if rng is None else rng
    how: dict[str, Any] = {
        "level": level, "draws": draws, "prior": prior, "synthesis": synthesis, "records": records, "rule": rule,
        "rng": rng, "shared": shared, "weights": chosen_weights(release, weighted), "use": use,
    }  # fmt: skip
    if parsed.cuts:
        most, least = _answered(release, parsed.settled(most=True), **how), None
        # The larger question was answered, so nobody surely meets the condition. A difference or a ratio has no such
        # least value.
        with suppress(*(() if parsed.operator else (InputError,))):
            least = _answered(release, parsed.settled(most=False), **how)
        return between_edges(parsed, least, most)
    return _answered(release, parsed, **how)


def _answered(
    release: Release,
    parsed: Question,
    *,
    level: float,
    draws: int | None,
    prior: float | None,
    synthesis: str | None,
    records: int | None,
    rule: str | None,
    rng: np.random.Generator,
    shared: dict[object, object] | None,
    weights: tuple[str, ...],
    use: str,
) -> Answer:
    """The answer to a question whose bounds are all edges; ``weights``: the weights that it uses, if any."""
    estimand = make_estimand(parsed, release.schema)
    if len(weights) == 1:
        declared = by_public_totals(estimand, release.schema, weights[0])
        if declared is not None:
            return _public(estimand, declared, level)
    estimand = of_population(estimand, release, weights)
    outside = not release.provenance.draws and not release.measurements
    if outside:
        _check_nothing_drawn(prior, draws)
        return by_rule(release, estimand, level=level, synthesis=synthesis, records=records, rule=rule, outside=True)
    if synthesis is not None or records is not None:
        raise InputError("this release states how it was made; leave out synthesis and records.")
    if is_plain(release) or is_partial(release):
        _check_nothing_drawn(prior, draws)
        known, made = public_records(release), "simple" if is_plain(release) else "partial"
        if made == "partial" and set(release.rows) != {known}:
            raise UnsupportedError(
                "rule T_p is for partially synthetic tables with one row for each record; this release is a sample of "
                "such tables, or its number of records is not public. Synthesize without rows, under unit replace."
            )
        return by_rule(release, estimand, level=level, synthesis=made, records=known, rule=rule, outside=False)
    if rule in OF_POSTERIOR_DRAWS and has_posterior_draws(release):
        _check_nothing_drawn(prior, draws)
        known = public_records(release)
        return by_rule(release, estimand, level=level, synthesis="noise_aware", records=known, rule=rule, outside=False)
    if rule is not None:
        raise UnsupportedError(why_not(release, rule, rng))
    allowed = validity_of(release)
    if allowed.status == REFUSED:
        raise UnsupportedError(f"this question is refused for method '{release.provenance.method}': {allowed.note}.")
    size = draws or _size(estimand)

    def answered(
        tables: Release, status: Validity, choice: Choice | None = None, later: Joined | None = None
    ) -> Answer:
        tell("reading the noisy tables", 0, STAGES)
        evidence = evidence_for(tables, estimand, prior=prior, shared=shared)
        tell("drawing from the posterior", 1, STAGES)
        drawn = evidence.draws(size if draws else _fewer(size, evidence), rng)
        _check_subgroups(estimand, drawn, bounded=_bounded(estimand, evidence, prior))
        return _from_draws(
            release,
            estimand,
            evidence,
            drawn,
            level=level,
            allowed=status,
            rng=rng,
            stated_prior=prior is not None,
            choice=choice,
            later=later,
        )

    def of_the_release(tables: Release) -> Answer:
        # An answer that can be no better than model-based is not computed a second time for the sake of its label.
        if allowed.status == SELECTION and not unproved(parsed) and not estimand.assumed:
            found = _whatever_was_chosen(tables, estimand, level, answered)
            if found is not None:
                return found
        return answered(tables, allowed)

    if not release.provenance.added:
        return of_the_release(release)
    return _grown(release, estimand, level, use, answered=answered, of_the_release=of_the_release)


def _public(estimand: Estimand, values: Floats, level: float) -> Answer:
    """The answer that the schema itself declares: exact, and the same for every release."""
    return Answer(
        question=estimand.question.text,
        kind=estimand.question.kind,
        names=estimand.names,
        estimates=tuple(
            Estimate(value=float(one), low=float(one), high=float(one), level=level, method=PUBLIC) for one in values
        ),
        standard_errors=(0.0,) * len(estimand.names),
        information=(None,) * len(estimand.names),
        records=None,
        method=PUBLIC,
        labels=(VALID,) * len(estimand.names),
        warnings=("the schema declares these numbers of the population, so nothing is estimated",),
        excluded=0.0,
        axes=estimand.parts[0].axes if len(estimand.parts) == 1 else (),
        draws=values[None, :],
        parts=(),
    )


def _grown(
    release: Release,
    estimand: Estimand,
    level: float,
    use: str,
    *,
    answered: Callable[..., Answer],
    of_the_release: Callable[[Release], Answer],
) -> Answer:
    """The answer of a release that tables have joined. Those who asked for them had seen the others.

    The release as it was first made answers, or a table that joined, by itself or with tables fixed beforehand:
    whichever is expected to give the narrower interval, by public facts. If neither says anything, all tables do, and
    the label says on what condition.
    """
    joined = tables_that_joined(release, estimand.margin)
    if use in (CONFIRMED, NEWEST):
        joined = joined[:1]
    records = float(public_records(release) or release.rows[0] or 1)

    def noise(tables: Sequence[Measurement]) -> float:
        return noise_beside_sampling(replace(release, measurements=tuple(tables)), estimand, records)

    first = as_first_made(release)
    fixed = () if use == NEWEST else _not_chosen(first, estimand)
    ways: list[tuple[float, Joined | None]] = []
    others: list[Joined] = []
    for one in joined:
        best, *other = ways_to_confirm(one, fixed, estimand, level, noise)
        ways.append(best)
        others += [way for _, way in other]
    if use == APART or not joined:
        z = NormalDist().inv_cdf((1 + level) / 2)
        ways.append((z * sqrt(release.statement.unit.rows_per_unit + noise(first.measurements)), None))
    for way in [] if use == TOGETHER else [*(way for _, way in sorted(ways, key=lambda way: way[0])), *others]:
        with suppress(UnsupportedError):  # the other tables may tell more
            found = of_the_release(first) if way is None else answered(way.tables, Validity(status=VALID), later=way)
            if {VALID, RANGE} & set(found.labels) or (way is None and not joined):
                return found
    return answered(release, Validity(status=SELECTION, note=ANY_QUESTION))


def _not_chosen(first: Release, estimand: Estimand) -> tuple[Measurement, ...]:
    """The tables of a release that were fixed before anybody looked at the data; none for a weighted question, and none
    if its bins or codes were found in the data."""
    plan = first.provenance.plan
    if plan is None or estimand.weighting is not None or first.schema.declared is not first.schema:
        return ()
    if plan.adaptive:
        return fixed_beforehand(first)
    return first.measurements if validity_of(first).status == VALID else ()


def _whatever_was_chosen(
    release: Release, estimand: Estimand, level: float, answered: Callable[..., Answer]
) -> Answer | None:
    """An answer that covers whatever tables a method chose; None if there is none. The second best way is tried only
    if the best one says nothing."""
    for tables, choice in ways_around_choice(release, estimand, level):
        with suppress(UnsupportedError):  # the other tables may tell more
            answer = answered(tables, Validity(status=VALID), choice)
            # A weighted answer may be no better than model-based for what is assumed inside bins of the weight, which
            # noisier tables only hide: they would look better because their interval is long.
            assumed = estimand.weighting is not None and choice is None and MODEL in answer.labels
            if assumed or {VALID, RANGE} & set(answer.labels):
                return answer
    return None


def ways_around_choice(release: Release, estimand: Estimand, level: float) -> list[tuple[Release, Choice | None]]:
    """The tables from which an answer covers whatever a method chose, the best first.

    They were fixed beforehand, or measured after the choice. The latter give longer intervals, to allow for the bias of
    the choice. The order is by expected widths, which are public facts. An interval that is taken because it
    turned out narrower would cover less often than stated.
    """
    records, rows = float(public_records(release) or release.rows[0] or 1), release.statement.unit.rows_per_unit
    z = NormalDist().inv_cdf((1 + level) / 2)

    def width(tables: Release, choice: Choice | None) -> float:
        half = z * sqrt(rows + noise_beside_sampling(tables, estimand, records))
        if choice is None or estimand.of_counts:  # a choice does not bias numbers of records
            return half
        noise = noise_beside_sampling(tables, estimand, records)
        room = choice.expected_room(estimand, records, noise=noise, rows=rows, level=level)
        return half + room if room <= MOST_ROOM * half else inf

    ways = ((without_selection, None), (measured_after_choosing, Choice(release=release)))
    found = [(tables, choice) for made, choice in ways if (tables := made(release, estimand)) is not None]
    return found if len(found) < 2 else sorted(found, key=lambda one: width(*one))


def _size(estimand: Estimand) -> int:
    """The number of draws that is worth the time. A regression that would take minutes is refused at once."""
    models = [part.model for part in estimand.parts if part.model is not None]
    work = max((model.work for model in models), default=0.0)
    few = max(LEAST_DRAWS, MOST_DRAWN // estimand.groups)
    if not work:
        return min(DRAWS, few)
    if max(model.work * (MORE_STEPS if model.levels else 1) for model in models) > MOST_WORK:
        size = max(len(part.names) for part in estimand.parts)
        raise UnsupportedError(
            f"this regression has {size:,} coefficients over so many cells that it would take minutes. Leave terms "
            "out, or merge levels."
        )
    return min(int(np.clip(WORK / work, LEAST_DRAWS, DRAWS_OF_REGRESSION)), few)


def _fewer(size: int, evidence: Evidence | NoiseAware) -> int:
    """The number of draws, or fewer where each takes long: many groups of which noise or a prior leaves much open."""
    if isinstance(evidence, NoiseAware):
        return size
    return min(size, max(LEAST_DRAWS, int(MOST_NUMBERS // max(evidence.work, 1))))


def _check_nothing_drawn(prior: float | None, draws: int | None) -> None:
    if prior is not None:
        raise InputError("a combining rule has no prior; leave it out.")
    if draws is not None:
        raise InputError("a combining rule draws nothing; leave draws out.")


def _bounded(estimand: Estimand, evidence: Evidence | NoiseAware, prior: float | None) -> bool:
    """Whether every coefficient of a regression has bounds by the noisy values alone."""
    return prior is None and evidence.raw is not None and of_kinds(estimand) is not None


def _check_subgroups(estimand: Estimand, drawn: Drawn, *, bounded: bool) -> None:
    """Refuse a subgroup that may be empty, a level nobody has, a separated outcome: the prior must not answer them.

    ``bounded``: each coefficient has bounds without a prior, so that those of other levels have an answer.
    """
    for inside in estimand.inside(drawn.counts.astype(np.float64)):
        empty = float(np.mean(inside < 1))
        if empty > EMPTY and estimand.question.kind != "count":
            raise UnsupportedError(
                f"the people this question is about may not exist in the data: their number is 0 with probability "
                f"{empty:.2f}, given this release. Ask about a larger group."
            )
    for part, member in zip(estimand.parts, estimand.members, strict=True):
        if part.model is not None and not bounded:
            part.model.check((drawn.counts.mean(axis=0) @ member)[2:])


def _from_draws(
    release: Release,
    estimand: Estimand,
    evidence: Evidence | NoiseAware,
    drawn: Drawn,
    *,
    level: float,
    allowed: Validity,
    rng: np.random.Generator,
    stated_prior: bool,
    choice: Choice | None = None,
    later: Joined | None = None,
) -> Answer:
    tell("evaluating the draws", 2, STAGES)
    values = estimand.evaluate(drawn.counts.astype(np.float64) if estimand.of_counts else drawn.shares)
    if not np.isfinite(values).all():
        raise UnsupportedError(
            "the release does not determine this quantity: some of its posterior has no finite value."
        )
    values = _shaped(estimand, evidence, values)
    found = from_posterior(values, level, robust=estimand.jumps or estimand.question.kind in ROBUST)
    warnings = [*evidence.warnings, *estimand.losses, *([allowed.note] if allowed.note else [])]
    judged = Judged.begin(estimand.names, found, warnings)
    tell("comparing the answer with the noisy values", 3, STAGES)
    if not stated_prior and (not estimand.of_counts or estimand.question.kind == "sum"):
        judged.hold_against_noisy_values(estimand, evidence, drawn, level, rng)
    if isinstance(evidence, NoiseAware):
        judged.hold_against_tables(estimand, evidence, drawn, level, rng)
    if not estimand.of_counts:
        judged.association(estimand, evidence.raw, level, rng)
        judged.nobody_and_everybody(estimand, drawn, level)
    if not estimand.of_counts or estimand.binned:
        judged.open_bins(estimand, evidence.raw, drawn, level, rng)
    judged.empty_groups(estimand, drawn, EMPTY)
    counted = float(drawn.counts.sum(axis=1).mean())
    rows = release.statement.unit.rows_per_unit
    # The records themselves may be known exactly; the population is known no better than from the records.
    behind = float(evidence.records or counted)
    sampling = None if estimand.of_counts else spread_of_records(estimand, drawn, behind, rng)
    factor = np.full(len(estimand.names), float(rows))  # of the sampling variance, beside that of independent rows
    if sampling is not None:
        judged.keep_width(sampling, level, estimand.bounds)
    if estimand.weighting is not None and sampling is not None:
        centre = drawn.shares.mean(axis=0)
        sampling = sampling_error(estimand, centre, sampling)
        factor = _apply_design(judged, estimand, release, drawn, sampling)
    elif rows > 1 and sampling is not None:
        judged.several_rows(sampling, rows, estimand.bounds)
    people = np.zeros(len(estimand.names)) if sampling is None else sampling * np.sqrt(factor)
    if choice is not None and not estimand.of_counts:  # a choice does not bias numbers of records
        room = choice.room(
            estimand, drawn.shares.mean(axis=0), records=behind, sampling=people, spread=judged.spread, rows=rows,
            level=level,
        )  # fmt: skip
        judged.make_room(room, estimand.bounds)
    parts: tuple[tuple[float, float], ...] = ()
    if later is not None:
        shares = drawn.shares.mean(axis=0)
        if later.beside:
            unseen = later.unseen(estimand, shares, behind, plain=bool((factor == 1).all()))
            seen = judged.spread * np.sqrt(1 - unseen)
        else:
            seen = people * np.sqrt(later.seen(estimand, shares, behind))
        ends = None
        if estimand.question.kind == "ratio":
            ends = chosen_ratio(
                later, estimand, evidence.raw, drawn, records=behind, factor=float(factor[0]), level=level, rng=rng
            )
        # What a weight or the place inside bins adds is in the interval so far, and is not simulated again.
        added = estimand.binned or estimand.weighting is not None
        parts = judged.allow_for_question(
            seen, level, estimand.bounds, together=bool(later.beside), ends=ends, beside=added
        )
    judged.lower_all(release, estimand.question, allowed.status, plain=estimand.weighting is None)
    information = _worth(estimand, evidence, drawn, judged, sampling)
    if estimand.of_counts:  # a number of people is known as well as their share is
        worths = _information(estimand.evaluate(drawn.shares), estimand.evaluate(drawn.again), evidence, drawn)
    else:
        worths = information
    little = [worth is not None and worth < LITTLE * counted for worth in worths]
    judged.lower(
        np.array(little) & ~judged.alone & ~judged.earned,
        MODEL,  # an interval that comes from the prior covers always or never
        "the noise of this release leaves little to say here; the answer is close to its prior",
    )
    judged.whole_range(estimand)
    # A range is wide because tables or bins leave much open, and no sample would have an interval like it.
    information = tuple(None if label == RANGE else one for one, label in zip(information, judged.labels, strict=True))
    share = float(estimand.excluded(drawn.counts.astype(np.float64)).mean())
    if share >= 0.5:
        judged.warnings.append(f"about {share:,.0f} of {counted:,.0f} records with a missing value are left out")
    centre, low, high = judged.centre, judged.low, judged.high
    if estimand.whole:
        centre, low, high = np.floor(centre), np.floor(low), np.floor(high)
    if isinstance(evidence, NoiseAware) and estimand.of_counts and estimand.question.kind != "ratio":
        low, high = np.rint(low), np.rint(high)  # a moved tail ends beside its whole number and would leave it out
    return Answer(
        question=estimand.question.text,
        kind=estimand.question.kind,
        names=estimand.names,
        estimates=tuple(
            Estimate(value=float(c), low=float(lo), high=float(hi), level=level, method=evidence.method)
            for c, lo, hi in zip(centre, low, high, strict=True)
        ),
        standard_errors=tuple(float(one) for one in judged.spread),
        information=information,
        records=evidence.records,
        method=evidence.method,
        labels=tuple(judged.labels),
        warnings=tuple(dict.fromkeys(judged.warnings)),
        excluded=share,
        axes=estimand.parts[0].axes if len(estimand.parts) == 1 else (),
        draws=values,
        parts=parts,
    )


def _apply_design(judged: Judged, estimand: Estimand, release: Release, drawn: Drawn, sampling: Floats) -> Floats:
    """Weights inside bins, strata, clusters and a finite population, in the interval; what is not known, in the label.

    Returns by how much they multiply the sampling variance.
    """
    shares = drawn.shares.mean(axis=0)
    factor, untold = design_factor(estimand, release, shares, release.statement.unit.rows_per_unit)
    if (factor < 1).any() and estimand.question.kind not in FAMILIES:
        # What is taken off is at most what the draws have of it: the noise of the release stays.
        held = np.sqrt(((estimand.evaluate(drawn.shares) - estimand.evaluate(drawn.again)) ** 2).mean(axis=0) / 2)
        sampling = np.where(factor < 1, np.fmin(sampling, held), sampling)
    judged.multiply_sampling(sampling, factor, estimand.bounds)
    judged.multiply_sampling(noise_inside(estimand, release, shares), 2.0, estimand.bounds)
    said, lowered = remarks(estimand, release.schema)
    judged.warnings += said
    for why in (untold, lowered):
        if why is not None:
            judged.lower(np.ones(len(judged.names), bool), MODEL, why)
    moved, below, above = goes_with_weights(estimand, shares)
    judged.lower(~(moved <= MOST_MOVED * judged.spread), MODEL, GOES_WITH)
    if estimand.weighting is not None and estimand.weighting.rough > MOST_ROUGH:
        judged.lower(np.ones(len(judged.names), bool), MODEL, ROUGH)
    rough = estimand.weighting is not None and estimand.weighting.rough > 0
    judged.reach(below, above, estimand.bounds, ROUGH if rough else GOES_WITH)
    judged.reach(*anywhere_in_bins(estimand, shares), estimand.bounds, PUBLIC_BINS)
    return factor


def _shaped(estimand: Estimand, evidence: Evidence | NoiseAware, values: Floats) -> Floats:
    """Draws with the tails that the noise gives them, within the possible values of the quantity."""
    if not isinstance(evidence, NoiseAware):
        return values
    nobody = estimand.of_counts and len(estimand.parts) == 1
    # A drawn number of 0 people has no tail to be moved; a lower end just above 0 would leave out 0 itself.
    kept = (values == 0) if nobody else np.zeros(values.shape, bool)
    return np.where(kept, 0.0, np.clip(evidence.shaped(values), *estimand.bounds))


def _worth(
    estimand: Estimand, evidence: Evidence | NoiseAware, drawn: Drawn, judged: Judged, sampling: Floats | None
) -> tuple[float | None, ...]:
    """The size of a sample with the same information as each estimate. A number of people has no such size.

    For a regression, the variance of the records themselves is simulated. The reason: if there are
    many cells, two draws of the shares given the same records differ by their prior and not by sampling.
    """
    if sampling is None:
        return (None,) * len(estimand.names)
    # For an answer that comes from its prior, or that is not bounded, no such size can be stated.
    untold = judged.by_prior | np.array([label == NOT_DETERMINED for label in judged.labels])
    if estimand.question.kind not in FAMILIES:
        values, other = estimand.evaluate(drawn.shares), estimand.evaluate(drawn.again)
        worth = _information(values, other, evidence, drawn, least=judged.spread)
        return tuple(None if flag else one for one, flag in zip(worth, untold, strict=True))
    records = evidence.records or float(drawn.counts.sum(axis=1).mean())
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.clip((sampling / judged.spread) ** 2, 0, 1)
    return tuple(
        float(one * records) if np.isfinite(one) and not flag else None for one, flag in zip(kept, untold, strict=True)
    )


def _information(
    values: Floats, other: Floats, evidence: Evidence | NoiseAware, drawn: Drawn, least: Floats | float = 0.0
) -> tuple[float | None, ...]:
    """The variance that would remain if the table itself had been published, divided by the variance there is.
    E[Var(q | x)] is half the mean squared difference of two draws with the same counts. ``least``: the standard error
    of the answer, which may be larger than that of the draws."""
    records = evidence.records or float(drawn.counts.sum(axis=1).mean())
    variance = np.maximum(values.var(axis=0, ddof=1), np.square(least))
    with_table = ((values - other) ** 2).mean(axis=0) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.clip(with_table / variance, 0, 1)
    return tuple(float(one * records) if np.isfinite(one) else None for one in kept)
