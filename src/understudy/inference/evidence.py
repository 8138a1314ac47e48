"""What a release says about the groups of a question: the likelihood that its own metadata state, and the posterior.

Three kinds of releases are understood: Dirichlet draws (the law of every copy is recorded), noisy counts of a margin
that holds every attribute of the question (the mechanism is recorded), and tables drawn without protection, which go
to the combining rules. Between-copy variance of a measured release is never read as noise: its copies share one set of
noisy counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.domain import Domain
from understudy.core.exact_numbers import from_text
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Mechanism
from understudy.core.prior_weights import PriorWeights
from understudy.core.schema import Schema
from understudy.core.walsh import CONTRASTS
from understudy.core.workload import quoted
from understudy.errors import InputError, UnsupportedError
from understudy.inference.estimands import Estimand
from understudy.inference.exact import TablePosterior, dirichlet_multinomial, noisy_table
from understudy.inference.without_prior import Raw, noise_of, sampled
from understudy.release.table_release import Release

FEW_GROUPS = 4
PRIORS = 6  # prior strengths between 1 / groups and 1, weighted by their evidence
MANY_GROUPS = 60  # from here on half as many prior strengths are used
NEGLIGIBLE = 1e-4
MOST_LISTED = 8  # tables in one message
LEAST_VARIANCE = 1e-3  # noise that is almost surely 0 must not make an infinite precision
Margin = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """Posterior draws: counts of the groups, shares, and a second draw of the shares given the same counts."""

    counts: Integers
    shares: Floats
    again: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stratum:
    """A posterior (or several with weights) of some groups, and how many records they have."""

    posteriors: tuple[TablePosterior, ...]
    weights: Floats
    groups: Integers  # which groups of the question its cells are
    records: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """Everything a release says about a question."""

    method: str
    groups: int
    records: int | None
    strata: tuple[Stratum, ...]
    warnings: tuple[str, ...] = ()
    raw: Raw | None = None  # the same without any prior, where that is known

    @property
    def work(self) -> int:
        """How many numbers one draw of all groups takes at most."""
        return sum(max(one.work for one in stratum.posteriors) for stratum in self.strata)

    def draws(self, size: int, rng: np.random.Generator) -> Drawn:
        counts = np.zeros((size, self.groups), np.int64)
        parts = []
        for stratum in self.strata:
            drawn = np.concatenate(
                [
                    _with_shares(posterior, int(share), rng)
                    for posterior, share in zip(stratum.posteriors, rng.multinomial(size, stratum.weights), strict=True)
                    if share
                ],
                axis=1,
            )[:, rng.permutation(size)]
            counts[:, stratum.groups] += drawn[0].astype(np.int64)
            parts.append(drawn)
        if len(parts) == 1:
            shares, again = np.zeros((2, size, self.groups))
            shares[:, self.strata[0].groups], again[:, self.strata[0].groups] = parts[0][1], parts[0][2]
            return Drawn(counts=counts, shares=shares, again=again)
        # The sizes of strata are public. Their shares of the sampled population are not exactly known.
        sizes = np.array([stratum.records or 0 for stratum in self.strata]) + 1 / len(self.strata)
        mixed = []
        for place in (1, 2):
            weights = rng.dirichlet(sizes, size=size)
            shares = np.zeros((size, self.groups))
            for number, (stratum, part) in enumerate(zip(self.strata, parts, strict=True)):
                shares[:, stratum.groups] += weights[:, [number]] * part[place]
            mixed.append(shares)
        return Drawn(counts=counts, shares=mixed[0], again=mixed[1])


def _with_shares(posterior: TablePosterior, size: int, rng: np.random.Generator) -> Floats:
    counts = posterior.draws(size, rng)
    return np.stack([counts, posterior.share_draws(counts, rng), posterior.share_draws(counts, rng)])


def gather(release: Release, estimand: Estimand, *, prior: float | None = None) -> Evidence:
    """The evidence of a release with recorded mechanisms. Other releases are refused; the message says what remains."""
    if release.provenance.draws:
        return _from_draws(release, estimand, prior)
    return _from_measurements(release, estimand, prior)


def without_coefficients(release: Release) -> Release:
    """The release with the noisy tables that are read here: Fourier coefficients are not.

    Raises
    ------
    UnsupportedError
        If nothing else was measured.
    """
    tables = tuple(one for one in release.measurements if one.cells != CONTRASTS)
    if len(tables) == len(release.measurements):
        return release
    if not any(one.margin for one in tables):
        raise UnsupportedError(
            "this release measured Fourier coefficients, from which no interval is computed here. Name what must be "
            "answerable when it is made (must), or use a method that measures tables."
        )
    return replace(release, measurements=tables)


def is_plain(release: Release) -> bool:
    """Whether the tables were drawn from the confidential table itself, without protection."""
    mechanisms = [one["mechanism"] for draw in release.provenance.draws for one in draw["mechanisms"]]
    return bool(mechanisms) and all(name == "plain_multinomial" for name in mechanisms)


def is_partial(release: Release) -> bool:
    """Whether the tables hold real values beside drawn ones, so that rule T_p reads them."""
    mechanisms = [one["mechanism"] for draw in release.provenance.draws for one in draw["mechanisms"]]
    return bool(mechanisms) and all(name == "partial" for name in mechanisms)


def public_records(release: Release) -> int | None:
    """The number of records behind a release, if the release makes it public."""
    provenance = release.provenance
    if not release.statement.unit.public_total or provenance.plan is None:
        return None
    if provenance.records is not None:
        return provenance.records
    if provenance.plan.records is not None:
        return provenance.plan.records
    return release.rows[0] if provenance.plan.rows is None else None


def possible_cells(schema: Schema, margin: tuple[str, ...]) -> Integers:
    """For each cell of a margin, how many cells of the full cross-tabulation it stands for and rules allow."""
    ruled = {name for rule in schema.zeros for name in rule.attributes}
    wide = schema.margin({*margin, *ruled})
    if schema.cells(wide) > 2**26:
        raise UnsupportedError("the structural zeros and this question together involve too many cells.")
    allowed = schema.allowed(wide)
    others = tuple(place for place, name in enumerate(wide) if name not in margin)
    free = schema.cells() // schema.cells(wide)
    return np.asarray(allowed.sum(axis=others).reshape(-1).astype(np.int64) * free)


def _from_draws(release: Release, estimand: Estimand, prior: float | None) -> Evidence:
    schema, draws = release.schema, release.provenance.draws
    records = public_records(release)
    if records is None and not release.statement.unit.public_total:
        raise UnsupportedError(
            "the number of records behind this release is not public (unit add_remove), and a Dirichlet draw does not "
            "tell it; the posterior of a share needs it. A release with unit replace, or by noisy counts, can be used."
        )
    if records is None:
        raise UnsupportedError("the release does not state how many records it was made from.")
    if records == 0:
        raise InputError("this release was made from no records; nothing can be inferred from it.")
    names = {one["mechanism"] for draw in draws for one in draw["mechanisms"]}
    if names != {"dirichlet_multinomial"}:
        raise UnsupportedError(f"the law of {', '.join(sorted(names))} is not known to the exact posterior.")
    fixed = schema.margin(release.statement.unit.fixed)
    stratified = len(draws[0]["mechanisms"]) > 1
    margin = schema.margin({*estimand.margin, *(fixed if stratified else ())})
    possible = possible_cells(schema, margin)
    labels = widened(estimand, schema, margin)
    tables = np.stack([release.coded(copy).counts(margin).reshape(-1) for copy in range(1, release.copies + 1)])
    method = f"exact posterior of {release.copies} Dirichlet draw(s)"
    strata_of = np.zeros(len(labels), np.int64) if not stratified else _strata(schema, margin, fixed)
    if stratified and release.provenance.plan is not None and release.provenance.plan.rows is not None:
        raise UnsupportedError(
            "the rows of this release were apportioned to strata whose sizes it does not state; it needs rows=None."
        )
    strata = []
    for number in np.unique(strata_of):
        inside = (strata_of == number) & (possible > 0)
        laws = [draw["mechanisms"][int(number) if stratified else 0] for draw in draws]
        size = int(laws[0]["rows"]) if stratified else records
        if size == 0 or not inside.any():
            continue
        groups, place = np.unique(labels[inside], return_inverse=True)
        released = np.stack([np.bincount(place, weights=row[inside], minlength=len(groups)) for row in tables])
        sizes = [prior_sizes(law, schema, margin, possible) for law in laws]
        sums = [np.bincount(place, weights=one[inside], minlength=len(groups)) for one in sizes]
        alpha: Floats = np.stack(sums).astype(np.float64)
        whole = released.astype(np.int64)

        def made(g: float, whole: Integers = whole, alpha: Floats = alpha, size: int = size) -> TablePosterior:
            return dirichlet_multinomial(whole, records=size, alpha=alpha, prior=g)

        strata.append(_stratum(made, groups, size, prior))
    raw = None
    if not stratified and len(strata) == 1 and int(released.sum()):
        raw = _raw_of_draws(whole, alpha, records, groups, estimand.groups)
    return Evidence(method=method, groups=estimand.groups, records=records, strata=tuple(strata), raw=raw)


def prior_sizes(law: Mapping[str, str], schema: Schema, margin: tuple[str, ...], possible: Integers) -> Floats:
    """The prior of each cell of a margin, in records: that of all cells of the domain behind it, equal or weighted."""
    prior = from_text(law["prior"], "prior")
    if "weights" not in law:
        return np.asarray(float(prior) * possible, dtype=np.float64)
    weighted = PriorWeights(text=law["weights"]).over(Domain(schema=schema, margin=schema.names))
    return np.asarray(float(prior * weighted.part) * weighted.of_margin(margin), dtype=np.float64)


def whole_prior(law: Mapping[str, str], schema: Schema) -> float:
    """The prior of all cells together, in records."""
    if "weights" not in law:
        return float(from_text(law["prior"], "prior")) * schema.cells()
    return float(prior_sizes(law, schema, (), np.ones(1, np.int64)).sum())


def _raw_of_draws(released: Integers, alpha: Floats, records: int, places: Integers, groups: int) -> Raw:
    """The shares of a Dirichlet draw are (a + x) / (A + n) on average. This is solved for x, as a mean over copies."""
    rows, whole = released.sum(axis=1), alpha.sum(axis=1)

    def solved(drawn: Floats) -> Floats:  # (..., copies, groups)
        share = drawn / np.maximum(rows, 1)[:, None]
        return np.asarray((share * (whole + records)[:, None] - alpha).mean(axis=-2) / records)

    found = solved(released.astype(np.float64))
    centre = np.maximum(found, 0)
    centre = centre / centre.sum()

    def deviations(size: int, rng: np.random.Generator) -> Floats:
        drawn = np.empty((size, *released.shape))
        for copy, parameter in enumerate(alpha + records * centre):
            chances = rng.dirichlet(parameter, size=size)
            drawn[:, copy] = rng.multinomial(int(rows[copy]), chances)
        away = solved(drawn) - centre + sampled(centre, records, size, rng)
        return _placed(away, places, groups)

    # The draw varies like a sample of its rows, plus like a sample of as many people as the sum of its parameters.
    times = 1 + float(((whole + records) / np.maximum(rows, 1) + 1).mean()) / len(released)
    return Raw(shares=_placed(found[None, :], places, groups)[0], deviations=deviations, people=records / times)


def _placed(values: Floats, places: Integers, groups: int) -> Floats:
    """Values of some groups among zeros for the others."""
    found = np.zeros((len(values), groups))
    found[:, places] = values
    return found


def widened(estimand: Estimand, schema: Schema, margin: tuple[str, ...]) -> Integers:
    """The group of every cell of a margin that holds the margin of the question."""
    return _spread(estimand.labels, schema, estimand.margin, margin)


def _spread(values: Integers, schema: Schema, narrow: tuple[str, ...], wide: tuple[str, ...]) -> Integers:
    """Values of the cells of a margin, repeated over the other attributes of a wider one (both in schema order)."""
    shape = [schema[name].size if name in narrow else 1 for name in wide]
    return np.broadcast_to(values.reshape(shape), schema.shape(wide)).reshape(-1)


def _strata(schema: Schema, margin: tuple[str, ...], fixed: tuple[str, ...]) -> Integers:
    return _spread(np.arange(schema.cells(fixed)), schema, fixed, margin)


def _stratum(
    made: Callable[[float], TablePosterior], groups: Integers, records: int | None, prior: float | None
) -> Stratum:
    """One posterior for a stated prior or few groups; else a mixture of several priors, weighted by their evidence."""
    if prior is not None or len(groups) <= FEW_GROUPS:
        posterior = made(0.5 if prior is None else prior)
        return Stratum(posteriors=(posterior,), weights=np.ones(1), groups=groups, records=records)
    # With many groups each prior takes seconds. Such answers are compared with the noisy values alone in any case.
    count = PRIORS if len(groups) <= MANY_GROUPS else PRIORS // 2
    posteriors = [made(g) for g in np.geomspace(1 / len(groups), 1, count)]
    log = np.array([posterior.log_evidence for posterior in posteriors])
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    kept = weights > NEGLIGIBLE
    return Stratum(
        posteriors=tuple(one for one, keep in zip(posteriors, kept, strict=True) if keep),
        weights=weights[kept] / weights[kept].sum(),
        groups=groups,
        records=records,
    )


def _from_measurements(release: Release, estimand: Estimand, prior: float | None) -> Evidence:
    schema = release.schema
    wanted = set(estimand.margin)
    usable = [one for one in release.measurements if one.margin and wanted <= set(one.margin)]
    if not release.measurements:
        raise UnsupportedError(nothing_known(release))
    unseen = sorted(wanted - {name for one in release.measurements for name in one.margin})
    if unseen:
        raise UnsupportedError(f"this release measured nothing about {', '.join(unseen)}.")
    if not usable:
        margins = [one.margin for one in release.measurements if one.margin]
        raise UnsupportedError(
            f"this release measured no table with all of {', '.join(estimand.margin)} in it, so how they go together "
            f"is an assumption of its model and not evidence. Measured: {listed(margins)}. "
            f"{nearest_question(margins, estimand.margin)}{merged_note(release, wanted)}"
        )
    if not all(getattr(one.mechanism, "additive", True) for one in usable):
        raise UnsupportedError(
            "this release was made by the exponential mechanism on counts, whose error depends on the count; no "
            "interval is computed from it. A release with the usual noise can be used."
        )
    records = public_records(release)
    if records is None and release.statement.unit.public_total:
        raise UnsupportedError("the release does not state how many records it was made from.")
    collapsed = [_collapse(schema, one, estimand) for one in usable]
    spread = [float(one.mechanism.variance) * int(c.cells.max()) for one, c in zip(usable, collapsed, strict=True)]
    best = int(np.argmin(spread))
    chosen, groups = usable[best], collapsed[best]
    entering = _measured_again(release, usable, spread, best)
    again = [
        (one, table)
        for place, (one, table) in enumerate(zip(usable, collapsed, strict=True))
        if place in entering
        and np.array_equal(table.groups, groups.groups)
        and table.measured.all()
        and groups.measured.all()
    ]
    totals = [one for one in release.measurements if not one.margin]
    total = (int(totals[0].values), totals[0].mechanism) if totals and records is None else None

    def made(g: float) -> TablePosterior:
        return noisy_table(
            groups.noisy,
            mechanism=chosen.mechanism,
            records=records,
            prior=g,
            cells=groups.cells,
            measured=groups.measured,
            total=total,
            again=[(table.noisy, one.mechanism, table.cells) for one, table in again],
        )

    warnings = []
    if len(usable) > 1 + len(again):
        warnings.append(f"{len(usable)} measured tables could answer this; the least noisy one is used")
    used = [(groups, chosen.mechanism), *((table, one.mechanism) for one, table in again)]
    return Evidence(
        method=f"exact posterior of noisy counts ({', '.join(str(mechanism) for _, mechanism in used)})",
        groups=estimand.groups,
        records=records,
        strata=(_stratum(made, groups.groups, records, prior),),
        warnings=tuple(warnings),
        raw=_raw_of_counts(used, records, estimand.groups),
    )


def _measured_again(release: Release, usable: Sequence[Measurement], spread: Sequence[float], best: int) -> set[int]:
    """The tables beside the best one that enter too: those that joined later, and the best of the release itself."""
    later = {step.label for one in release.provenance.added for step in one.plan.steps}
    first = [place for place, one in enumerate(usable) if one.label not in later]
    joined = {place for place, one in enumerate(usable) if one.label in later}
    return (joined | ({min(first, key=lambda place: spread[place])} if first and joined else set())) - {best}


def _raw_of_counts(used: Sequence[tuple[_Collapsed, Mechanism]], records: int | None, groups: int) -> Raw | None:
    """Noisy counts as shares. A group without a noisy count of its own gets the records that the others leave.

    Where the number of records is public, the noise of the sum of all counts is known. It is subtracted from the
    groups in proportion to their numbers of noise terms (least squares). So shares add up to one and stay unbiased.
    Tables of the same groups are averaged by the precision of their noise.
    """
    precision = [1.0 / max(float(law.variance) * float(found.cells.mean()), LEAST_VARIANCE) for found, law in used]
    weights = [one / sum(precision) for one in precision]
    parts = [_counts_and_noise(found, law, records) for found, law in used]
    kept = [(weight, part) for weight, part in zip(weights, parts, strict=True) if part is not None]
    if len(kept) < len(parts):
        return None
    total = sum(weight * part[2] for weight, part in kept)
    shares = np.asarray(sum(weight * part[0] / part[2] for weight, part in kept))
    places = used[0][0].groups

    def deviations(size: int, rng: np.random.Generator) -> Floats:
        noise = sum(weight * part[1](size, rng) / part[2] for weight, part in kept)
        return _placed(np.asarray(noise) + sampled(shares, total, size, rng), places, groups)

    return Raw(shares=_placed(shares[None, :], places, groups)[0], deviations=deviations, people=total)


def _counts_and_noise(
    found: _Collapsed, mechanism: Mechanism, records: int | None
) -> tuple[Floats, Callable[[int, np.random.Generator], Floats], float] | None:
    """Noisy counts that add up to the total, what draws their noise, and the total; none if nobody is counted."""
    total = float(found.noisy.sum()) if records is None else float(records)
    if total <= 0:
        return None
    counts = found.noisy.astype(np.float64)
    rest = ~found.measured
    if rest.any():
        counts[rest] = (total - counts[~rest].sum()) / rest.sum()
    part = found.cells / found.cells.sum() if records is not None and not rest.any() else np.zeros(len(counts))
    counts = counts - part * (counts.sum() - total)

    def noise_drawn(size: int, rng: np.random.Generator) -> Floats:
        noise = noise_of(mechanism, np.where(rest, 0, found.cells), size, rng)
        if rest.any():
            noise[:, rest] = -noise[:, ~rest].sum(axis=1, keepdims=True) / rest.sum()
        return np.asarray(noise - noise.sum(axis=1, keepdims=True) * part)

    return counts, noise_drawn, total


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Collapsed:
    groups: Integers
    noisy: Integers
    cells: Integers
    measured: NDArray[np.bool_]


def _collapse(schema: Schema, measurement: Measurement, estimand: Estimand) -> _Collapsed:
    """Noisy counts added up over the cells of each group, and the number of noise terms in each sum."""
    margin = measurement.margin
    allowed = schema.allowed(margin).reshape(-1)
    labels = widened(estimand, schema, margin)[allowed]
    groups, place = np.unique(labels, return_inverse=True)
    if measurement.cells == "first":
        values = np.array([int(measurement.values), 0])
        known = np.array([True, False])
        if len(groups) == 1:  # both cells are one group: nothing is left to estimate
            return _Collapsed(
                groups=groups, noisy=np.zeros(1, np.int64), cells=np.ones(1, np.int64), measured=np.zeros(1, bool)
            )
        return _Collapsed(
            groups=groups,
            noisy=values[np.argsort(place)],
            cells=np.ones(2, np.int64),
            measured=known[np.argsort(place)],
        )
    values = measurement.values.reshape(-1)[allowed]
    noisy = np.zeros(len(groups), np.int64)
    np.add.at(noisy, place, values)
    cells = np.bincount(place, minlength=len(groups)).astype(np.int64)
    return _Collapsed(groups=groups, noisy=noisy, cells=cells, measured=np.ones(len(groups), bool))


def listed(margins: Iterable[Margin]) -> str:
    """Tables by their attributes: each once, none that another one contains, and no more than fit on a screen."""
    found = list(dict.fromkeys(margins))
    widest = [one for one in found if not any(set(one) < set(other) for other in found)]
    shown = "; ".join(" x ".join(one) for one in widest[:MOST_LISTED]) or "none"
    return shown + (f" and {len(widest) - MOST_LISTED} more" if len(widest) > MOST_LISTED else "")


def nearest_question(margins: Sequence[Margin], wanted: Margin) -> str:
    """A sentence that names the nearest question with an answer, for a question about some attributes.

    It uses as many of these attributes as one table holds. If that is only one, it uses the table with the fewest
    other attributes.
    """
    best = max(margins, key=lambda one: (len(set(one) & set(wanted)), -len(one)), default=())
    together = [name for name in wanted if name in best]
    if len(together) < 2:
        with_one = [one for one in margins if len(one) > 1 and set(one) & set(wanted)]
        best = min(with_one, key=len, default=best)
        together = list(best)
    if not together:
        return "No question about them has an answer."
    return f"The nearest question with an answer: crosstab({', '.join(map(quoted, together))})."


def merged_note(release: Release, names: Collection[str]) -> str:
    """What to say of attributes whose bins were merged by the data: their tables are not in the release."""
    plan = release.provenance.plan
    text = "" if plan is None else str(plan.options.get("refine", ""))
    merged = [one for one in (part.partition(":")[0].strip() for part in text.split(",")) if one in names]
    return f" Tables with {', '.join(merged)} are of merged bins (refine) and not published." if merged else ""


def nothing_known(release: Release) -> str:
    """What to say about a release without measurements or mechanisms, and what remains for it."""
    return (
        f"this release (method '{release.provenance.method}') states neither noisy counts nor the law of its draws, so "
        "no valid interval follows from it alone. What remains: if you know how it was made, say so with synthesis="
        "'simple', 'posterior' or 'partial' and records=, and the combining rules for such data are used. They are not "
        "noise-aware: on differentially private data their 95 percent intervals covered 70 to 93 percent."
    )


def check_prior(prior: float | None) -> None:
    if prior is not None and (isinstance(prior, bool) or not isinstance(prior, int | float) or not 0 < prior < 1e6):
        raise InputError(f"prior ({prior!r}) must be a positive number: the prior count of each group.")
