"""``infer``: from a release and a question to an answer that says how it was found, or a refusal that says why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from understudy.core.result import Estimate
from understudy.core.schema import Level
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.inference.agreement import disagreements
from understudy.inference.answer import Answer
from understudy.inference.combining import RUBIN, RULES, check_rule, combine, coverage_of_rule
from understudy.inference.estimands import Estimand, make_estimand
from understudy.inference.evidence import Drawn, Evidence, check_prior, is_plain, nothing_known, public_records
from understudy.inference.noise_aware import (
    MODELLED,
    NoiseAware,
    evidence_for,
    has_posterior_draws,
    rests_on_model,
)
from understudy.inference.questions import FAMILIES, parse_question
from understudy.inference.validity import validity_of
from understudy.release.value import Release

Floats = NDArray[np.float64]
DRAWS = 4000
DRAWS_OF_REGRESSION = 1500
LITTLE = 0.01  # of the information in the records
FEW_ROWS = 30
BLOCK = 2**22  # numbers held at once for derivatives
EMPTY = 0.025  # a subgroup that may be empty with more than this probability has no answer
RULE_OF = {"simple": "T_s", "posterior": "T_s_posterior", "partial": "T_p"}
OF_POSTERIOR_DRAWS = ("T_f", "T_f*")
ENOUGH_COPIES, ENOUGH_ROWS = 25, 5  # of posterior draws for T_f* to be close to what it says (theory/noise-aware.md)
FITTING = {
    "simple": ("T_s",),
    "posterior": ("T_s_posterior", "T_f", "T_f*"),
    "partial": ("T_p",),
    "noise_aware": OF_POSTERIOR_DRAWS,
}


def ask(
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
    rng: np.random.Generator | None = None,
) -> Answer:
    """Answer a question; see ``understudy.infer``."""
    if not isinstance(release, Release):
        raise InputError("infer needs a release; read one with understudy.read_release, or wrap a table.")
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InputError(f"level ({level!r}) must be between 0 and 1.")
    if draws is not None and (isinstance(draws, bool) or not isinstance(draws, int) or not 100 <= draws <= 1_000_000):
        raise InputError(f"draws ({draws!r}) must be a whole number between 100 and 1,000,000.")
    check_prior(prior)
    if rule is not None and rule not in (*RULES, RUBIN):
        raise unknown_name("combining rule", rule, (*RULES, RUBIN))
    parsed = parse_question(question, release.schema, family=family, event=event, where=where)
    estimand = make_estimand(parsed, release.schema)
    rng = np.random.default_rng() if rng is None else rng
    outside = not release.provenance.draws and not release.measurements
    if outside:
        return _by_rule(release, estimand, level=level, synthesis=synthesis, records=records, rule=rule, outside=True)
    if synthesis is not None or records is not None:
        raise InputError("this release states how it was made; leave out synthesis and records.")
    if is_plain(release):
        known = public_records(release)
        return _by_rule(release, estimand, level=level, synthesis="simple", records=known, rule=rule, outside=False)
    if rule in OF_POSTERIOR_DRAWS and has_posterior_draws(release):
        known = public_records(release) or release.rows[0]
        return _by_rule(
            release, estimand, level=level, synthesis="noise_aware", records=known, rule=rule, outside=False
        )
    if rule is not None:
        raise UnsupportedError(_why_not(release, rule, rng))
    evidence = evidence_for(release, estimand, prior=prior)
    size = draws or (DRAWS_OF_REGRESSION if parsed.kind in FAMILIES else DRAWS)
    drawn = evidence.draws(size, rng)
    _check_subgroups(estimand, drawn)
    return _from_draws(release, estimand, evidence, drawn, level)


def _check_subgroups(estimand: Estimand, drawn: Drawn) -> None:
    """A subgroup that may be empty, a level nobody has, a separated outcome: refused, never answered by the prior."""
    for inside in estimand.inside(drawn.counts.astype(np.float64)):
        empty = float(np.mean(inside < 1))
        if empty > EMPTY and estimand.question.kind != "count":
            raise UnsupportedError(
                f"the people this question is about may not exist in the data: their number is 0 with probability "
                f"{empty:.2f}, given this release. Ask about a larger group."
            )
    for part, member in zip(estimand.parts, estimand.members, strict=True):
        if part.model is not None:
            part.model.check((drawn.counts.mean(axis=0) @ member)[2:])


def _from_draws(
    release: Release, estimand: Estimand, evidence: Evidence | NoiseAware, drawn: Drawn, level: float
) -> Answer:
    if estimand.of_counts:
        values = estimand.evaluate(drawn.counts.astype(np.float64))
        information: tuple[float | None, ...] = (None,) * values.shape[1]
    else:
        values = estimand.evaluate(drawn.shares)
        other = estimand.evaluate(drawn.again)
        information = _information(values, other, evidence, drawn)
    if isinstance(evidence, NoiseAware):
        values = np.clip(evidence.shaped(values), *estimand.bounds)
    robust = estimand.question.kind in (*FAMILIES, "association", "quantile")
    centre = np.median(values, axis=0) if robust else values.mean(axis=0)
    # The k-th of n draws has k / (n + 1) of the posterior below it on average; k / n covers up to 0.2 percent less.
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0, method="weibull")
    spread = values.std(axis=0, ddof=1)
    if estimand.whole:
        centre, low, high = np.floor(centre), np.floor(low), np.floor(high)
    if not np.isfinite(values).all():
        raise UnsupportedError(
            "the release does not determine this quantity: some of its posterior has no finite value."
        )
    validity = validity_of(release, estimand.question.kind)
    if validity.status == "refused":
        raise UnsupportedError(f"this question is refused for method '{release.provenance.method}': {validity.note}.")
    estimates = tuple(
        Estimate(value=float(c), low=float(lo), high=float(hi), level=level, method=evidence.method)
        for c, lo, hi in zip(centre, low, high, strict=True)
    )
    counted = float(drawn.counts.sum(axis=1).mean())
    share = float(estimand.excluded(drawn.counts.astype(np.float64)).mean())
    warnings = [*evidence.warnings, *estimand.losses]
    status = validity.status
    if validity.of_an_answer:
        warnings.append(validity.of_an_answer)
    if isinstance(evidence, NoiseAware) and evidence.modelled > MODELLED:
        status = "approximate"
        warnings.append(
            f"the measured tables do not determine this quantity: {evidence.modelled:.2g} of it, by squared influence, "
            "rests on the assumption that there are no interactions beyond those measured"
        )
    for one in disagreements(release)[:1]:
        status = "approximate"
        warnings.append(f"THE MEASURED TABLES DISAGREE BEYOND THEIR NOISE, so the release may have been altered: {one}")
    if release.statement.unit.rows_per_unit > 1:
        warnings.append("a unit may have several rows; they are treated as independent, so intervals may be too short")
    if any(worth is not None and worth < LITTLE * counted for worth in information):
        status = "approximate"  # an interval that is the prior's holds the truth always or never
        warnings.append("the noise of this release leaves little to say here; the answer is close to its prior")
    if share >= 0.5:
        warnings.append(f"about {share:,.0f} of {counted:,.0f} records with a missing value are left out")
    return Answer(
        question=estimand.question.text,
        kind=estimand.question.kind,
        names=estimand.names,
        estimates=estimates,
        standard_errors=tuple(float(one) for one in spread),
        information=information,
        records=evidence.records,
        method=evidence.method,
        validity=status,
        warnings=tuple(warnings),
        excluded=share,
        draws=values,
    )


def _information(
    values: Floats, other: Floats, evidence: Evidence | NoiseAware, drawn: Drawn
) -> tuple[float | None, ...]:
    """The variance that would remain had the table itself been published, over the variance there is: E[Var(q | x)]
    is half the mean squared difference of two draws that share their counts."""
    records = evidence.records or float(drawn.counts.sum(axis=1).mean())
    variance = values.var(axis=0, ddof=1)
    with_table = ((values - other) ** 2).mean(axis=0) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.clip(with_table / variance, 0, 1)
    return tuple(float(one * records) if np.isfinite(one) else None for one in kept)


def _by_rule(
    release: Release,
    estimand: Estimand,
    *,
    level: float,
    synthesis: str | None,
    records: int | None,
    rule: str | None,
    outside: bool,
) -> Answer:
    """Ordinary multiple synthetic data: a combining rule, chosen by how they were made."""
    warnings: list[str] = []
    if outside:
        if rule == RUBIN:
            check_rule(rule, release.copies, None)
        if synthesis is None:
            raise UnsupportedError(nothing_known(release))
        if synthesis not in RULE_OF:
            raise unknown_name("synthesis", synthesis, RULE_OF)
        warnings.append(
            "nothing in this release says how it was made; the interval holds only if it was made as you said, and it "
            "is not noise-aware: do not use it for differentially private data"
        )
    chosen = rule or RULE_OF[str(synthesis)]
    rows = release.rows[0]
    if records is None or isinstance(records, bool) or records < 1:
        raise InputError("say how many records the synthetic tables were made from (records=).")
    kappa = rows / records
    check_rule(chosen, release.copies, kappa)
    fits = FITTING[str(synthesis)]
    if chosen not in fits:
        share = _simulated(chosen, str(synthesis), records=records, rows=rows, copies=release.copies, level=level)
        raise UnsupportedError(
            f"rule {chosen} is not for synthesis '{synthesis}'; {' or '.join(fits)} is. Its {level:.0%} interval for a "
            f"share of one half would cover {share:.0%} here (simulated)."
        )
    counts: Floats = np.stack(
        [
            np.bincount(
                estimand.labels,
                weights=release.coded(copy).counts(estimand.margin).reshape(-1),
                minlength=estimand.groups,
            )
            for copy in range(1, release.copies + 1)
        ]
    )
    for inside in estimand.inside(counts):
        if (inside < 1).any():
            raise UnsupportedError("the people this question is about are in none of the rows of a synthetic table.")
    for part, member in zip(estimand.parts, estimand.members, strict=True):
        if part.model is not None:
            part.model.check((counts.mean(axis=0) @ member)[2:])
    if min(float(inside.min()) for inside in estimand.inside(counts)) < FEW_ROWS:
        warnings.append(
            f"combining rules are for large samples, and this rests on fewer than {FEW_ROWS} rows of a table"
        )
    allowed = release.schema.allowed(estimand.margin).reshape(-1)
    possible = np.bincount(estimand.labels, weights=allowed, minlength=estimand.groups) > 0
    values, variances = delta_method(estimand, counts, possible, records)
    combined = combine(values, variances, rule=chosen, kappa=kappa)
    if estimand.of_counts and chosen.startswith("T_s"):
        # A count is of the records themselves, not of the population they are a sample of.
        combined = replace(combined, variance=combined.variance - kappa * combined.within)
    low, high = np.clip(combined.interval(level), *estimand.bounds)
    value = combined.value
    if estimand.whole:
        value, low, high = np.floor(value), np.floor(low), np.floor(high)
    method = f"combining rule {chosen} over {release.copies} table(s)"
    excluded = float(estimand.excluded(counts).mean()) / kappa
    validity = validity_of(release, estimand.question.kind)
    status = validity.status
    if validity.of_an_answer:
        warnings.append(validity.of_an_answer)
    if synthesis == "noise_aware" and rests_on_model(release, estimand):
        status = "approximate"
        warnings.append("the measured tables do not determine this quantity; the copies rest on their model here")
    if synthesis == "noise_aware" and (release.copies < ENOUGH_COPIES or kappa < ENOUGH_ROWS):
        status = "approximate"
        warnings.append(
            f"{chosen} covers more than it says here (95 to 99 percent); from {ENOUGH_COPIES} copies of "
            f"{ENOUGH_ROWS} times as many rows as records on it is close"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.clip(variances.mean(axis=0) * kappa / combined.variance, 0, 1) * records
    if estimand.of_counts:
        kept = np.full_like(kept, np.nan)
    return Answer(
        question=estimand.question.text,
        kind=estimand.question.kind,
        names=estimand.names,
        estimates=tuple(
            Estimate(value=float(v), low=float(lo), high=float(hi), level=level, method=method)
            for v, lo, hi in zip(value, low, high, strict=True)
        ),
        standard_errors=tuple(float(one) for one in np.sqrt(combined.variance)),
        information=tuple(float(one) if np.isfinite(one) else None for one in kept),
        records=records,
        method=method,
        validity=status,
        warnings=(*warnings, *estimand.losses),
        excluded=excluded,
    )


def delta_method(
    estimand: Estimand, counts: Floats, possible: NDArray[np.bool_], records: int
) -> tuple[Floats, Floats]:
    """Values and sampling variances of each table: numerical derivatives by the shares, multinomial covariance.

    Variances are taken half a row away from the table, in every group that can occur: a group that no row is in has
    no variance of its own, and an interval of no width would be wrong.
    """
    rows = counts.sum(axis=1, keepdims=True)
    nearby = counts + 0.5 * possible
    shares = nearby / nearby.sum(axis=1, keepdims=True)
    scale = float(records) if estimand.of_counts else 1.0
    at_once = max(1, BLOCK // shares.shape[1] ** 2)  # tables
    spread = [
        _influence_variance(estimand, shares[start : start + at_once], scale)
        for start in range(0, len(shares), at_once)
    ]
    variances = np.concatenate(spread) / rows
    return estimand.evaluate(counts / rows * scale), variances


def _influence_variance(estimand: Estimand, shares: Floats, scale: float) -> Floats:
    """The variance of the quantity's derivative towards a record, for each row of shares."""
    eye = 1e-5 * np.eye(shares.shape[1])
    upper, lower = shares[:, None, :] + eye, np.maximum(shares[:, None, :] - eye, 0)
    found = estimand.evaluate(np.concatenate([upper, lower]).reshape(-1, shares.shape[1]) * scale)
    above, below = found.reshape(2, *shares.shape, -1)
    slopes = (above - below) / (upper - lower).max(axis=2)[:, :, None]
    mean = np.einsum("mg,mgk->mk", shares, slopes)
    return np.asarray(np.einsum("mg,mgk->mk", shares, (slopes - mean[:, None, :]) ** 2))


def _simulated(rule: str, synthesis: str, *, records: int, rows: int, copies: int, level: float) -> float:
    return coverage_of_rule(
        rule,
        posterior=synthesis != "simple",
        share=0.5,
        records=records,
        rows=rows,
        copies=copies,
        level=level,
        rng=np.random.default_rng(0),
    )


def _why_not(release: Release, rule: str, rng: np.random.Generator) -> str:
    """Why no combining rule is right for a private release, with the coverage it would have had."""
    if rule == RUBIN:
        check_rule(rule, release.copies, None)
    provenance = release.provenance
    if has_posterior_draws(release):
        return (
            f"rule {rule} leaves out the noise between these copies, which were drawn from the noise-aware posterior; "
            f"{' or '.join(reversed(OF_POSTERIOR_DRAWS))} reads it. Or leave rule out: all noisy tables are then used."
        )
    rows = release.rows[0]
    records = public_records(release) or rows
    share = 0.25
    if provenance.draws:
        law = provenance.draws[0]["mechanisms"][0]
        from understudy.core.exact import from_text

        alpha = float(from_text(law["prior"], "prior")) * release.schema.cells() / 2
        kind, settings = "Dirichlet draws pulled towards the prior", {"alpha": (alpha, alpha)}
    else:
        noise = max(release.measurements, key=lambda one: one.values.size)
        spread = float(noise.mechanism.variance) * noise.values.size / 2
        kind, settings = "tables that share one set of noisy counts", {"noise_sd": spread**0.5}
    if release.copies < 2 and rule in ("T_f", "T_f*", "T_p"):
        covered = f"it cannot even be computed from {release.copies} table"
    else:
        check_rule(rule, release.copies, rows / records)
        simulated = coverage_of_rule(
            rule,
            share=share,
            records=records,
            rows=rows,
            copies=release.copies,
            rng=rng,
            **settings,  # type: ignore[arg-type]
        )
        covered = f"its 95% interval for a share of {share} over half the cells would cover {simulated:.0%} (simulated)"
    return (
        f"rule {rule} is for synthetic data without added noise, and this release holds {kind}: {covered}. Leave rule "
        "out: the exact posterior uses what the release says about its noise."
    )
