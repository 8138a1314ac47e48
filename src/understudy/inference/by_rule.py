"""Answers by a combining rule: ordinary multiple synthetic data, and copies drawn from the noise-aware posterior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.core.result import Estimate
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.inference.answer import Answer
from understudy.inference.combining import RUBIN, check_rule, combine, coverage_of_rule
from understudy.inference.estimands import FIRST, Estimand
from understudy.inference.evidence import nothing_known, public_records, whole_prior
from understudy.inference.labels import MODEL, REFUSED
from understudy.inference.noise_aware import (
    estimated_records,
    group_matrix,
    has_posterior_draws,
    local_model,
    raw_shares,
    rests_on_model,
)
from understudy.inference.validity import NOT_SHOWN, OF_ITS_KIND, unproved, validity_of
from understudy.inference.without_prior import unshrunk
from understudy.release.table_release import Release

FEW_ROWS = 30
FEW_OF_A_KIND = (
    20  # rows with a value, and rows without it: with so many a share is nearly normal (theory/combining-rules.md)
)
SEVERAL_ROWS = "a unit may have several rows; they are treated as independent, so intervals may be too short"
MOVED = 0.5  # standard errors between copies and noisy values; with few copies a part of that is chance
BLOCK = 2**22  # numbers held at once for derivatives
RULE_OF = {"simple": "T_s", "posterior": "T_s_posterior", "partial": "T_p"}
OF_POSTERIOR_DRAWS = ("T_f", "T_f*")
ENOUGH_COPIES, ENOUGH_ROWS = 25, 5  # with these T_f* covers about what it says (theory/noise-aware.md)
LEAST_COPIES = 4  # copies, each with at least as many rows as records: T_f* then covers at least what it says
FITTING = {
    "simple": ("T_s",),
    "posterior": ("T_s_posterior", "T_f", "T_f*"),
    "partial": ("T_p",),
    "noise_aware": OF_POSTERIOR_DRAWS,
}


def by_rule(
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
    validity = validity_of(release, outside=outside)
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
    if validity.status == REFUSED:
        raise UnsupportedError(f"this question is refused for method '{release.provenance.method}': {validity.note}.")
    chosen = rule or RULE_OF[str(synthesis)]
    if len(set(release.rows)) > 1:
        raise UnsupportedError(
            f"the synthetic tables have between {min(release.rows):,} and {max(release.rows):,} rows; the combining "
            "rules are for tables of one size."
        )
    rows = release.rows[0]
    public = records is not None
    records = _records(release, estimand, records, synthesis=synthesis, outside=outside)
    kappa = rows / records
    check_rule(chosen, release.copies, kappa)
    fits = FITTING[str(synthesis)]
    if chosen not in fits:
        share = _simulated(chosen, str(synthesis), records=records, rows=rows, copies=release.copies, level=level)
        raise UnsupportedError(
            f"rule {chosen} is not for synthesis '{synthesis}'; {' or '.join(fits)} is. Its {100 * level:g}% interval "
            f"for a share of one half would cover {share:.0%} here (simulated)."
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
        groups = estimand.inside_groups(counts)
        if (inside < 1).any() or (groups is not None and (groups < 1).any()):
            raise UnsupportedError("the people this question is about are in none of the rows of a synthetic table.")
    for part, member in zip(estimand.parts, estimand.members, strict=True):
        if part.model is not None:
            part.model.check((counts.mean(axis=0) @ member)[2:])
    allowed = release.schema.allowed(estimand.margin).reshape(-1)
    possible = np.bincount(estimand.labels, weights=allowed, minlength=estimand.groups) > 0
    few = min(float(inside.min()) for inside in estimand.inside(counts)) < FEW_ROWS
    if few:
        warnings.append(
            f"combining rules are for large samples, and this rests on fewer than {FEW_ROWS} rows of a table"
        )
    elif _rare(estimand, counts, possible):
        few = True
        warnings.append(
            f"combining rules take shares as normal, and in some table fewer than {FEW_OF_A_KIND} rows have the value "
            "asked for, or do not have it: 95 percent intervals covered 72 to 90 percent where 2 to 10 were expected"
        )
    values, variances = delta_method(estimand, counts, possible, records)
    combined = combine(values, variances, rule=chosen, kappa=kappa)
    if estimand.of_counts and chosen.startswith("T_s"):
        # A count is of the records themselves, not of the population they are a sample of.
        combined = replace(combined, variance=combined.variance - kappa * combined.within)
    if estimand.of_counts and chosen == "T_p":
        # For the same reason. What is left is the difference between copies, with its own degrees of freedom.
        left, freedom = combined.variance - combined.within, np.full_like(combined.freedom, release.copies - 1)
        combined = replace(combined, variance=left, freedom=freedom)
    low, high = np.clip(combined.interval(level), *estimand.bounds)
    value = combined.value
    if estimand.whole:
        value, low, high = np.floor(value), np.floor(low), np.floor(high)
    method = f"combining rule {chosen} over {release.copies} table(s)"
    excluded = float(estimand.excluded(counts).mean()) / kappa
    status = MODEL if few else validity.status
    if validity.note:
        warnings.append(validity.note)
    if estimand.binned or estimand.assumed or estimand.question.kind == "association":
        status = MODEL
        warnings.extend(estimand.losses or (OF_ITS_KIND["association"][1],))
    if estimand.weighting is not None:
        status = MODEL
        warnings.append("a combining rule does not know the sampling design; it takes weighted rows as independent")
    if unproved(estimand.question, plain=False):
        status = MODEL
        warnings.append(NOT_SHOWN)
    if release.statement.unit.rows_per_unit > 1:
        status = MODEL
        warnings.append(SEVERAL_ROWS)
    if synthesis == "noise_aware" and rests_on_model(release, estimand):
        status = MODEL
        warnings.append("the measured tables do not determine this quantity; the copies rest on their model here")
    elif synthesis == "noise_aware" and _moved_by_prior(release, estimand, combined.value, level):
        status = MODEL
        warnings.append("the noisy values alone say something else; the copies follow the prior of their model here")
    if synthesis == "noise_aware" and (release.copies < ENOUGH_COPIES or kappa < ENOUGH_ROWS):
        status = MODEL
        short = release.copies < LEAST_COPIES or kappa < 1
        how = "may cover less than it says here, down to 77" if short else "covers more than it says here (95 to 99"
        warnings.append(
            f"{chosen} {how} percent{'' if short else ')'}; it is close with at least {ENOUGH_COPIES} copies of "
            f"{ENOUGH_ROWS} times as many rows as records"
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
        records=records if public else None,
        method=method,
        labels=(status,) * len(estimand.names),
        warnings=(*warnings, *estimand.losses),
        excluded=excluded,
        axes=estimand.parts[0].axes if len(estimand.parts) == 1 else (),
    )


def _rare(estimand: Estimand, counts: Floats, possible: NDArray[np.bool_]) -> bool:
    """Whether a share rests on few rows with the value, or on few without it, in some table."""
    if estimand.question.atoms[0].kind not in ("proportion", "count", "crosstab"):
        return False
    for member in estimand.members:
        can_occur = (possible @ member)[FIRST:] > 0
        if ((counts @ member)[:, FIRST:][:, can_occur] < FEW_OF_A_KIND).any():
            return True
    return False


def _records(release: Release, estimand: Estimand, records: int | None, *, synthesis: str | None, outside: bool) -> int:
    """The number of records behind the tables: stated, or, for posterior copies, estimated from the noisy tables."""
    if outside:
        if isinstance(records, bool) or not isinstance(records, int | np.integer) or records < 1:
            raise InputError("say how many records the synthetic tables were made from (records=, a whole number).")
        return int(records)
    if records == 0:
        raise InputError("this release was made from no records; nothing can be inferred from it.")
    if records is not None:
        return records
    if synthesis != "noise_aware":
        raise UnsupportedError(
            "the number of records behind this release is not public, and tables drawn without noise do not tell it; "
            "the combining rules need it. A release with unit replace can be used."
        )
    if estimand.of_counts:
        raise UnsupportedError(
            "the number of records behind this release is not public, and its copies have as many rows as were asked "
            "for, so they cannot be counted. Leave rule out: the noisy tables tell numbers of people."
        )
    return max(1, round(estimated_records(release)))


def _moved_by_prior(release: Release, estimand: Estimand, value: Floats, level: float) -> bool:
    """Whether the copies differ from the noisy values alone, or the noisy values do not determine the quantity."""
    local = local_model(release, estimand.margin, estimand)
    raw = raw_shares(local, group_matrix(local, estimand))
    alone = None if raw is None else unshrunk(raw, estimand.evaluate, level, np.random.default_rng(0))
    if alone is None or estimand.of_counts:
        return not estimand.of_counts
    return not bool((alone.determined & (np.abs(value - alone.value) <= MOVED * alone.spread)).all())


def delta_method(
    estimand: Estimand, counts: Floats, possible: NDArray[np.bool_], records: int
) -> tuple[Floats, Floats]:
    """Values and sampling variances of each table: numerical derivatives by the shares, multinomial covariance.

    For the variances half a row is added to every group that can occur. A group without rows has no variance of its
    own, and an interval of width 0 would be wrong.
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
    """The variance of the influence of one record on the quantity, for each row of shares."""
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


def why_not(release: Release, rule: str, rng: np.random.Generator) -> str:
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
        alpha = whole_prior(law, release.schema) / 2
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
