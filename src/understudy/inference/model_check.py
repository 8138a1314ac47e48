"""Does a release support an analyst's model? What it can say about it, and whether the model fits, noise included.

**Support**: which of the model's terms the measured tables determine (``noise_aware.beyond_tables``).
**Fit**: at the coefficients that fit best, the mean residual in every cell of the outcome's measured tables is zero if
the model is right. The posterior (noise and sampling) gives these means and their covariance; their squared length in
standard deviations is chi-square distributed with as many degrees of freedom as they have dimensions.
**Agreement**: tables that differ by more than their noise (``agreement``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from understudy.core.arrays import Floats
from understudy.core.formula import Factor
from understudy.core.questions import parse_question
from understudy.core.schema import Level
from understudy.errors import InputError, UnsupportedError
from understudy.inference.agreement import Disagreement, disagreements
from understudy.inference.answer import Answer, WaldTest
from understudy.inference.ask import ask
from understudy.inference.estimands import FIRST, Estimand, make_estimand
from understudy.inference.evidence import gather, is_partial, is_plain, public_records
from understudy.inference.noise_aware import MODELLED, beyond_tables, group_matrix, local_model
from understudy.inference.regression import is_category
from understudy.release.kind import AnyRelease
from understudy.release.table_release import Release, asked_table

DRAWS = 2000
NEGLIGIBLE = 1e-6  # relative to a residual, or to the largest eigenvalue: smaller is zero by construction
LARGEST = 500
FEW = 20  # people per cell of a whole table; from here on a model is tested on all its cells


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCheck:
    """What a release says about a model."""

    model: str
    """The formula."""
    family: str
    """The kind of regression."""
    supported: bool
    """Whether the release measured what the coefficients rest on."""
    modelled: float
    """The share of the coefficients, by squared influence, that rests on assumptions."""
    statistic: float
    """The statistic of the goodness of fit."""
    freedom: int
    """Its degrees of freedom."""
    p_value: float | None
    """Its p-value; ``None`` where nothing can be tested."""
    worst: tuple[tuple[str, float], ...]
    """Cells with the largest residuals, in standard deviations."""
    disagreements: tuple[Disagreement, ...]
    """Noisy tables that contradict each other."""

    def summary(self) -> str:
        """The result in words.

        Returns
        -------
        str
            Several lines.
        """
        lines = [f"Model: {self.model} ({self.family})"]
        lines.append(
            "Support: the measured tables determine its coefficients."
            if self.supported
            else f"Support: {self.modelled:.2g} of its coefficients, by squared influence, rests on the assumption "
            "that there are no interactions beyond those measured."
        )
        if self.p_value is None:
            lines.append("Fit: every table it could be held against is fitted by construction; nothing to test.")
        else:
            lines.append(
                f"Fit: chi-square {self.statistic:.1f} on {self.freedom} degrees of freedom, p = {self.p_value:.3g} "
                "(noise and sampling accounted for)."
            )
            lines += [f"  {name}: {away:+.1f} standard deviations" for name, away in self.worst]
        lines += [f"WARNING: {one}; the release may have been altered." for one in self.disagreements[:5]]
        return "\n".join(lines)


def check_model(
    release: AnyRelease,
    model: str,
    *,
    family: str | None = None,
    event: Level | None = None,
    where: str | None = None,
    rng: np.random.Generator | None = None,
) -> ModelCheck:
    """Check whether a release supports a regression and whether it fits, before its coefficients are believed.

    Parameters
    ----------
    release
        A release that states its noise: noisy tables, or Dirichlet draws.
    model
        A formula as for ``infer``, such as ``smokes ~ age + sex``.
    family
        The kind of regression: linear, logit, probit, poisson, multinomial or ordered; by the outcome if left out.
    event
        The level that a logistic regression is about.
    where
        A subgroup, such as ``age >= 45``.
    rng
        Makes the posterior draws repeatable.

    Returns
    -------
    ModelCheck
        What the release says about the model.

    Raises
    ------
    InputError
        If ``model`` is no formula, or ``release`` no release.
    UnsupportedError
        If the release states no noise, or nothing that the model can be compared with.

    Examples
    --------
    >>> import warnings
    >>> import understudy as us
    >>> from understudy.demo.people import make_people, small_schema
    >>> people = us.open_source(make_people(2000), small_schema())
    >>> with warnings.catch_warnings(action="ignore"):     # no ledger: not tracked across runs
    ...     release = us.synthesize(people, budget=us.PureDP(epsilon=5), method="histogram")
    >>> check = us.check_model(release, "smokes ~ sex")
    >>> check.family, check.supported
    ('logit', True)
    """
    release = asked_table(release)
    if not isinstance(release, Release):
        raise InputError("check_model needs a release; read one with understudy.read_release.")
    if is_plain(release) or is_partial(release) or not (release.measurements or release.provenance.draws):
        raise UnsupportedError("this release states no noise, so there is nothing to hold a model against.")
    question = parse_question(model, release.schema, family=family, event=event, where=where)
    estimand = make_estimand(question, release.schema)
    if estimand.parts[0].model is None:
        raise InputError(f"'{model}' is no model; give a formula such as 'smokes ~ age + sex'.")
    rng = np.random.default_rng() if rng is None else rng
    shares, margins, modelled = _evidence(release, estimand, rng)
    names, residuals, scale = _residuals(release, margins, estimand, shares)
    statistic, freedom, away = _length(residuals, scale)
    p_value = None
    if freedom:
        from scipy.stats import chi2

        p_value = float(chi2.sf(statistic, freedom))
    order = np.argsort(-np.abs(away))[: 3 if freedom else 0]
    return ModelCheck(
        model=question.text,
        family=question.kind,
        supported=modelled <= MODELLED,
        modelled=modelled,
        statistic=statistic,
        freedom=freedom,
        p_value=p_value,
        worst=tuple((names[place], float(away[place])) for place in order),
        disagreements=disagreements(release),
    )


def _evidence(
    release: Release, estimand: Estimand, rng: np.random.Generator
) -> tuple[Floats, Sequence[tuple[str, ...]], float]:
    """Draws of the shares, the tables that a model is tested on, and how much of it rests on assumptions.

    Where the whole table was drawn or measured, a model is tested on the table of all its attributes if the cells have
    enough people, and else on the tables of the outcome with every two regressors.
    """
    whole = [one for one in release.measurements if set(estimand.margin) <= set(one.margin)]
    if release.provenance.draws or (whole and len({one.margin for one in release.measurements if one.margin}) == 1):
        shares = gather(release, estimand).draws(DRAWS, rng).shares
        outcome = estimand.question.atoms[0].formula.outcome.name  # type: ignore[union-attr]
        others = [name for name in estimand.margin if name != outcome]
        records = public_records(release) or 0
        if release.schema.cells(estimand.margin) * FEW <= records or len(others) < 2:
            return shares, [estimand.margin], 0.0
        return shares, [release.schema.margin((outcome, *pair)) for pair in combinations(others, 2)], 0.0
    local = local_model(release, estimand.margin)
    sample = local.posterior.draw(rng, DRAWS / 2)
    if not sample.accurate:
        raise UnsupportedError(
            f"the tables of {', '.join(estimand.margin)} are too noisy for this test (only {sample.effective:.0f} "
            "effective draws); use fewer attributes."
        )
    member = group_matrix(local, estimand)
    shares = local.posterior.shares(sample.resample(DRAWS, rng)) @ member
    return shares, local.margins, float(beyond_tables(local, estimand, member, shares).max())


def _residuals(
    release: Release, margins: Sequence[tuple[str, ...]], estimand: Estimand, shares: Floats
) -> tuple[list[str], Floats, float]:
    """Mean residuals (S, cells) at the best fitting coefficients of each draw, over the outcome's measured tables; and
    the mean size of a residual."""
    part = estimand.parts[0]
    assert part.model is not None  # noqa: S101 - the caller looked
    formula = estimand.question.atoms[0].formula
    assert formula is not None  # noqa: S101 - a model has one
    outcome = formula.outcome.name
    weights = (shares @ estimand.members[0])[:, FIRST:]
    weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    part.model.check(weights.mean(axis=0) * 1e6)
    left = part.model.residuals(part.model.fit(weights)) * weights[:, :, None]
    first = np.array([int(np.flatnonzero(part.groups == FIRST + place)[0]) for place in range(weights.shape[1])])
    codes = dict(zip(estimand.margin, np.unravel_index(first, release.schema.shape(estimand.margin)), strict=True))
    names: list[str] = []
    columns: list[Floats] = []
    for margin in margins:
        others = tuple(name for name in margin if name != outcome and name in formula.names)
        if outcome not in margin or not others:
            continue
        shape = release.schema.shape(others)
        flat = np.ravel_multi_index([codes[name] for name in others], shape)
        for cell in np.unique(flat):
            at = np.unravel_index(cell, shape)
            label = ", ".join(
                f"{name}={release.schema[name].code_names[int(c)]}" for name, c in zip(others, at, strict=True)
            )
            summed = left[:, flat == cell, :].sum(axis=1)
            columns.extend(summed.T)
            names.extend([label] * summed.shape[1])
    if len(columns) > LARGEST:
        raise UnsupportedError(f"the model is held against {len(columns):,} cells; at most {LARGEST} are tested.")
    size = float(np.abs(left).sum(axis=(1, 2)).mean())
    return names, np.stack(columns, axis=1) if columns else np.zeros((len(shares), 0)), size


def _length(residuals: Floats, scale: float) -> tuple[float, int, Floats]:
    """Squared length of the mean in standard deviations, its dimensions, and each part on its own scale."""
    spread = residuals.std(axis=0)
    kept = spread > NEGLIGIBLE * scale
    away = np.zeros(residuals.shape[1])
    if not kept.any():
        return 0.0, 0, away
    scaled = residuals[:, kept] / spread[kept]
    away[kept] = scaled.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(scaled.T).reshape(int(kept.sum()), -1))
    real = values > NEGLIGIBLE * values.max()
    along = scaled.mean(axis=0) @ vectors[:, real]
    return float((along**2 / values[real]).sum()), int(real.sum()), away


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelComparison:
    """Whether a larger model says more than a smaller one."""

    smaller: str
    """The smaller formula."""
    larger: str
    """The larger formula."""
    added: tuple[str, ...]
    """The terms that only the larger model has."""
    test: WaldTest
    """The test that all of them are 0."""
    answer: Answer
    """The larger model."""

    def summary(self) -> str:
        """The comparison in words.

        Returns
        -------
        str
            Several lines.
        """
        return "\n".join(
            [
                f"{self.smaller}  against  {self.larger}",
                f"Added: {', '.join(self.added)}: {self.test.summary()}.",
                *(f"{text[:1].upper()}{text[1:]}." for text in self.answer.warnings),
            ]
        )


def compare_models(
    release: AnyRelease,
    smaller: str,
    larger: str,
    *,
    family: str | None,
    event: Level | None,
    where: str | None,
    rng: np.random.Generator | None,
) -> ModelComparison:
    """The joint test of the terms that only the larger model has; see ``understudy.compare_models``."""
    release = asked_table(release)
    if not isinstance(release, Release):
        raise InputError("compare_models needs a release; read one with understudy.read_release.")
    asked = [
        parse_question(one, release.schema, family=family, event=event, where=where).atoms[0]
        for one in (smaller, larger)
    ]
    first, second = (one.formula for one in asked)
    if first is None or second is None:
        raise InputError("compare_models takes two formulas, such as 'smokes ~ age' and 'smokes ~ age + sex'.")
    if (first.outcome, first.level, asked[0].kind) != (second.outcome, second.level, asked[1].kind):
        raise InputError("the two models must have the same outcome and family.")
    added = [term for term in second.terms if term not in first.terms]
    if not added or set(first.terms) - set(second.terms) or first.intercept != second.intercept:
        raise InputError(
            "the larger model must have every term of the smaller one and more; compare each of two others with one "
            "that has the terms of both."
        )
    answer = ask(release, larger, family=family, event=event, where=where, rng=rng)
    names = [":".join(_column_start(factor, release) for factor in term) for term in added]
    wanted = [name for name in answer.names if any(_of_term(name, start) for start in names)]
    return ModelComparison(
        smaller=smaller.strip(),
        larger=larger.strip(),
        added=tuple(":".join(map(str, term)) for term in added),
        test=answer.wald(*wanted),
        answer=answer,
    )


def _column_start(factor: Factor, release: Release) -> str:
    return factor.name if is_category(release.schema, factor) else str(factor)


def _of_term(name: str, start: str) -> bool:
    """Whether a coefficient belongs to a term: the same factors, each with a level or a number of its own or none."""
    parts, starts = name.rpartition(": ")[2].split(":"), start.split(":")
    return len(parts) == len(starts) and all(
        part == one or part.startswith(f"{one}[") for part, one in zip(parts, starts, strict=True)
    )
