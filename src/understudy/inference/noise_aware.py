"""Answers from all noisy tables of a release together, with their noise and the sampling of people accounted for.

A question is about few attributes. Every measured table is first summed to the attributes it shares with them, which is
exact whatever the truth; the posterior of a log-linear model over those attributes (``models/posterior.py``) then uses
all tables at once. The estimand is the population's, as everywhere in ``infer``; numbers of people are the records'.

Where the quantity is a function of measured tables the answer does not depend on the model: a share or a difference
inside one table, or a logistic regression on two attributes all of whose pairs were measured. That is checked (the
gradient of the quantity must lie in the span of what was measured), and where it fails the answer says that it rests on
the model's assumption and is approximate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import prod

import numpy as np

from understudy.core.arrays import Flags, Floats, Integers
from understudy.core.exact_numbers import read_exact
from understudy.core.measurement import Measurement
from understudy.core.schema import Schema
from understudy.errors import UnsupportedError
from understudy.inference.estimands import FIRST, Estimand
from understudy.inference.evidence import (
    Drawn,
    Evidence,
    gather,
    listed,
    merged_note,
    nearest_question,
    public_records,
)
from understudy.inference.without_prior import Quantity, Raw, sampled
from understudy.models.effects import (
    MOST_EFFECTS,
    Effects,
    NoisyTable,
    Reduced,
    make_effects,
    names_in,
    reduce_tables,
)
from understudy.models.junction_tree import Margin
from understudy.models.posterior import LEAST_EFFECTIVE, Posterior, Sample
from understudy.release.table_release import Release

MODELLED = 1e-6  # an answer is model-based if more of its squared gradient is outside the span of the tables
DRAWN = 1500  # draws of a model, at least
MOST_BOUNDED = 150  # shares whose bounds are found, two linear programs each
MOST_EXCESS = 3.0  # kurtosis of a single two-sided geometric noise
MOST_WEIGHTED = 45  # parameters; importance weights in more dimensions are seldom even enough, and cost seconds
AT_ONCE = 2_000_000  # numbers of matrices that are held at once
MOST_NUMBERS = 40_000_000  # cells of the model times draws, and cells times groups: 320 MB each
LEAST_VARIANCE = 1e-3  # noise that is almost surely 0 must not make an infinite precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Local:
    """A model over the attributes of a question, with every measured table summed to them."""

    margin: Margin
    margins: tuple[Margin, ...]  # what was measured of it
    effects: Effects
    reduced: Reduced
    posterior: Posterior
    tables: tuple[NoisyTable, ...]
    example: Integers  # for each cell of the model a possible cell of the attributes that it stands for


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Merged:
    """Levels that a question does not tell apart are one: ``classes`` gives the class of every level."""

    margin: Margin
    classes: tuple[Integers, ...]
    allowed: Flags  # over classes: whether any cell of the schema in them is possible
    example: Integers

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(one.max()) + 1 for one in self.classes)

    def table(self, table: NoisyTable, schema: Schema) -> NoisyTable:
        """A noisy table added up over the levels of each class."""
        if not table.margin or not len(table.cells):
            return table
        own = [self.classes[self.margin.index(name)] for name in table.margin]
        codes = np.unravel_index(table.cells, schema.shape(table.margin))
        sizes = [int(one.max()) + 1 for one in own]
        flat = np.ravel_multi_index([one[code] for one, code in zip(own, codes, strict=True)], sizes)
        cells, place = np.unique(flat, return_inverse=True)

        def added(numbers: Floats) -> Floats:
            return np.asarray(np.bincount(place, weights=numbers, minlength=len(cells)), np.float64)

        variances = added(table.variances)
        return NoisyTable(
            margin=table.margin,
            cells=cells,
            values=added(table.values),
            variances=variances,
            excess=added(table.variances**2 * table.excess) / variances**2,
        )


def merged_levels(schema: Schema, estimand: Estimand) -> Merged:
    """Merge the levels of each attribute that a question does not tell apart."""
    margin, shape = estimand.margin, schema.shape(estimand.margin)
    labels = estimand.labels.reshape(shape)
    classes = []
    for axis in range(len(margin)):
        flat = np.moveaxis(labels, axis, 0).reshape(shape[axis], -1)
        _, first, inverse = np.unique(flat, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(np.argsort(first))  # classes in the order of their first level
        classes.append(order[inverse.reshape(-1)].astype(np.int64))
    sizes = tuple(int(one.max()) + 1 for one in classes)
    grid = np.meshgrid(*classes, indexing="ij")
    flat = np.ravel_multi_index([one.reshape(-1) for one in grid], sizes)
    possible = np.flatnonzero(schema.allowed(margin).reshape(-1))
    allowed = np.zeros(prod(sizes), bool)
    allowed[flat[possible]] = True
    example = np.zeros(prod(sizes), np.int64)
    example[flat[possible[::-1]]] = possible[::-1]
    return Merged(margin=margin, classes=tuple(classes), allowed=allowed.reshape(sizes), example=example)


def local_model(
    release: Release, wanted: Margin, estimand: Estimand | None = None, *, most: int = MOST_EFFECTS
) -> Local:
    """The model over some attributes, each pair of which some table holds.

    With a question, levels that it does not tell apart are merged first, which is exact whatever the truth. Pairs that
    no table holds are then accepted where bounds on shares are found (``judge``).
    """
    schema = release.schema
    measured = [one.margin for one in release.measurements if one.margin]
    missing = sorted(set(wanted) - names_in(measured))
    if missing:
        raise UnsupportedError(f"this release measured nothing about {', '.join(missing)}.")
    if estimand is None or not has_range(estimand):
        check_joined(measured, wanted, merged_note(release, wanted))
    records = public_records(release)
    if records is None and release.statement.unit.public_total:
        raise UnsupportedError("the release does not state how many records it was made from.")
    tables = [noisy_table(schema, one, wanted, records) for one in release.measurements]
    margins = tuple(dict.fromkeys(table.margin for table in tables if table.margin))
    if estimand is None:
        effects, example = make_effects(schema, wanted, margins, most), np.arange(schema.cells(wanted))
    else:
        merged = merged_levels(schema, estimand)
        tables = [merged.table(table, schema) for table in tables]
        effects, example = make_effects(schema, wanted, margins, most, merged.allowed), merged.example
    usable = tuple(table for table in tables if len(table.cells))
    reduced = reduce_tables(effects, usable, records)
    posterior = Posterior(effects, reduced, records)
    return Local(
        margin=wanted,
        margins=margins,
        effects=effects,
        reduced=reduced,
        posterior=posterior,
        tables=usable,
        example=example,
    )


OF_SUMS = ("proportion", "crosstab", "mean")  # quantities that are a sum over people, divided by how many they are


def is_quotient(estimand: Estimand) -> bool:
    """Whether a quantity is a share or a mean, of everybody or of a subgroup, or a difference or a ratio of two."""
    return all(atom.kind in OF_SUMS for atom in estimand.question.atoms)


def is_count(estimand: Estimand) -> bool:
    """Whether a quantity is a number of people, or such numbers by groups."""
    return estimand.question.kind == "count" and estimand.weighting is None


def of_kinds(estimand: Estimand) -> tuple[Floats, Integers] | None:
    """Of a regression with one coefficient for each kind of people: the regressors of each kind, and the kind of every
    cell. Its coefficients are sums of log odds (probits, logarithms) of shares or means. None for other questions, and
    where a regressor is known by wide bins."""
    part = estimand.parts[0]
    if part.model is None or len(estimand.parts) > 1 or estimand.weighting is not None or part.assumed:
        return None
    return part.model.saturated()


def has_range(estimand: Estimand) -> bool:
    """Whether bounds can be found for what tables do not determine: shares, means, numbers of people, and effects made
    of them. A table of two attributes may be large: if no table holds both, its bounds need no linear program."""
    if is_quotient(estimand) or is_count(estimand):
        return len(estimand.names) <= MOST_BOUNDED or is_plain_table(estimand)
    kinds = of_kinds(estimand)
    return kinds is not None and len(kinds[0]) <= MOST_BOUNDED


def is_plain_table(estimand: Estimand) -> bool:
    """Whether a quantity is a table of two attributes, as shares of everybody, none of whom is left out."""
    part = estimand.parts[0]
    plain = estimand.question.kind == "crosstab" and part.base is None and len(part.axes) == len(estimand.margin) == 2
    return plain and estimand.weighting is None and bool((part.groups >= FIRST).all())


def check_joined(margins: Sequence[Margin], wanted: Margin, note: str = "") -> None:
    """Refuse a question about two attributes that no table holds together.

    A model would answer it with great confidence, by its assumption that the two are independent given the rest.
    """
    for pair in combinations(wanted, 2):
        if not any(set(pair) <= set(margin) for margin in margins):
            near = [one for one in margins if len(one) > 1 and set(pair) & set(one)]
            raise UnsupportedError(
                f"this release measured no table with both {pair[0]} and {pair[1]} in it, so how they go together is "
                f"an assumption of its model and not evidence. Tables with one of them: {listed(near)}. "
                f"{nearest_question(margins, wanted)} Or ask for a release that measures these together.{note}"
            )


def noisy_table(schema: Schema, measurement: Measurement, wanted: Margin, records: int | None) -> NoisyTable:
    """A measured table summed to the attributes it shares with a question; a public total adds no information."""
    kept = tuple(name for name in measurement.margin if name in wanted)
    variance = max(float(measurement.mechanism.variance), LEAST_VARIANCE)
    geometric = getattr(measurement.mechanism, "name", "") == "geometric"
    if measurement.cells == "first":
        first = int(np.flatnonzero(schema.allowed(measurement.margin).reshape(-1))[0])
        values, counts = np.array([float(measurement.values)]), np.ones(1)
        cells = np.array([first]) if kept == measurement.margin else np.zeros(0, np.int64)
    elif not kept and records is not None:
        cells, values, counts = np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    else:
        allowed = schema.allowed(measurement.margin) if measurement.margin else np.ones((), bool)
        others = tuple(place for place, name in enumerate(measurement.margin) if name not in kept)
        merged = allowed.sum(axis=others).reshape(-1)
        cells = np.flatnonzero(merged)
        counts = merged[cells].astype(np.float64)
        values = np.where(allowed, measurement.values, 0).sum(axis=others).reshape(-1)[cells].astype(np.float64)
    values, counts = values[: len(cells)], counts[: len(cells)]
    excess = (3.0 if geometric else 0.0) / np.maximum(counts, 1)
    return NoisyTable(margin=kept, cells=cells, values=values, variances=variance * counts, excess=excess)


@dataclass(slots=True, kw_only=True, eq=False)
class NoiseAware:
    """Everything a release says about a question, through its model; used by ``infer`` like any other evidence.

    ``exact`` is the posterior from the best table that holds the whole question. It is used where importance weights
    are too uneven. Where no table holds the question, the normal approximation at the mode is used instead. It is
    compared with the noisy values alone, like every answer (``settle``).
    """

    estimand: Estimand
    local: Local
    records: int | None
    warnings: tuple[str, ...] = ()
    exact: Callable[[], Evidence] | None = None
    shared: dict[object, object] = field(default_factory=dict)  # draws of models that several questions share
    modelled: Floats = field(init=False, default_factory=lambda: np.zeros(1))  # for each output
    raw: Raw | None = field(init=False, default=None)  # the same without any prior
    method: str = field(init=False, default="")
    effective: float = field(init=False, default=0.0)
    rough: bool = field(init=False, default=False)  # drawn from the normal approximation at the mode
    _parameters: Floats | None = field(init=False, default=None)  # of the draws, where noise entered by its variance

    def draws(self, size: int, rng: np.random.Generator) -> Drawn:
        posterior = self.local.posterior
        size = min(size, max(DRAWN // 3, MOST_NUMBERS // len(self.local.effects.possible)))
        kept = self.shared.get((id(self.local), size))
        if isinstance(kept, Sample):
            sample = kept
        elif posterior.dimension <= MOST_WEIGHTED:
            sample = posterior.draw(rng, max(size / 2, LEAST_EFFECTIVE))
        else:  # weights in so many dimensions are never even: the normal approximation is as good, and fast
            sample = normal_draws(posterior, size, rng)
        how = "Laplace approximation with importance weights"
        if not sample.accurate and self.exact is not None:
            evidence = self.exact()
            self.method, self.warnings, self.raw = evidence.method, evidence.warnings, evidence.raw
            return evidence.draws(size, rng)
        if not sample.accurate:
            sample, how = normal_draws(posterior, size, rng), "Laplace approximation"
            self.rough = True
        self.effective = sample.effective
        self.method = f"noise-aware posterior of {len(self.local.tables)} noisy tables ({how})"
        if kept is None and not self.rough:
            weights = np.full(size, 1 / size)
            kept = replace(sample, parameters=sample.resample(size, rng), weights=weights)
            self.shared[id(self.local), size] = kept
        parameters = kept.parameters if isinstance(kept, Sample) else sample.resample(size, rng)
        self._parameters = parameters
        member = group_matrix(self.local, self.estimand)
        cells = posterior.shares(parameters)
        shares = cells @ member
        self.raw = raw_shares(self.local, member)
        totals = posterior.totals(parameters)
        self.modelled = beyond_tables(self.local, self.estimand, member, shares)
        # Two draws of shares given one table of n records differ with variance 2/n: a draw of half as many records.
        again = rng.standard_gamma(np.maximum(shares * totals[:, None] / 2, 1e-9))
        again /= np.maximum(again.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        counts = self._counts(parameters, cells, member, rng) if self.estimand.of_counts else shares * totals[:, None]
        return Drawn(counts=np.rint(counts).astype(np.int64), shares=shares, again=again)

    def shaped(self, values: Floats) -> Floats:
        """Values of a quantity, one row for each draw, with the tails that the noise gives them.

        The posterior uses only the variance of the noise. A quantity that depends on few two-sided geometric noises has
        heavier tails than a normal one. Each value moves by the first term of the Cornish-Fisher expansion for the
        excess kurtosis k of the noise in it, z + k (z^3 - 3 z) / 24. To first order this leaves the variance as it is.
        """
        if self._parameters is None:
            return values
        centre, spread = values.mean(axis=0), values.std(axis=0)
        moved = self._parameters - self._parameters.mean(axis=0)
        slopes = np.linalg.lstsq(moved, values - centre, rcond=None)[0]
        weights = slopes.T @ self.local.posterior.response() @ self.local.reduced.weights
        reduced = self.local.reduced
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = (weights**4 @ (reduced.variances**2 * reduced.excess)) / spread**4
            z = np.where(spread > 0, (values - centre) / spread, 0.0)
        excess = np.clip(np.nan_to_num(excess), 0.0, MOST_EXCESS)
        return np.asarray(centre + spread * (z + excess * (z**3 - 3 * z) / 24))

    def _counts(self, parameters: Floats, cells: Floats, member: Floats, rng: np.random.Generator) -> Floats:
        """Numbers of records given the population and the tables: normal, given what was measured of them."""
        posterior, columns = self.local.posterior, self.local.effects.columns
        result = np.empty((len(parameters), member.shape[1]))
        numbers = member.shape[1] * (posterior.dimension + member.shape[1]) + posterior.dimension**2
        block = max(1, AT_ONCE // (numbers + len(columns)))
        for start in range(0, len(parameters), block):
            rows, share = parameters[start : start + block], cells[start : start + block]
            total = posterior.totals(rows)[:, None, None]
            mean, means = share @ member, share @ columns
            together = np.einsum("sc,cg,cf->sgf", share, member, columns, optimize=True)
            across = posterior.lifted(total * (together - mean[:, :, None] * means[:, None, :]))
            own = total * (mean[:, :, None] * (np.eye(member.shape[1]) - mean[:, None, :]))
            gain = np.linalg.solve(posterior.measured_covariance(rows), across.swapaxes(1, 2))
            left = self.local.reduced.estimate - posterior.expected(rows)
            spread = own - across @ gain
            values, vectors = np.linalg.eigh((spread + spread.swapaxes(1, 2)) / 2)
            noise = np.sqrt(np.maximum(values, 0)) * rng.standard_normal(values.shape)
            moved = np.einsum("sf,sfg->sg", left, gain) + np.einsum("sgk,sk->sg", vectors, noise)
            result[start : start + block] = np.maximum(total[:, :, 0] * mean + moved, 0)
        return result


def has_posterior_draws(release: Release) -> bool:
    """Whether every copy was drawn from a draw of its own of the noise-aware posterior.

    Copies with a random effect for each cell (``loglinear``) were: but the posterior of the cells and that of the model
    are not one, and the rule covered less than it says (docs/theory/loglinear.md).
    """
    plan = release.provenance.plan
    if plan is None or plan.options.get("draws") != "posterior":
        return False
    return read_exact(str(plan.options.get("cells_share", "0")), "cells_share") == 0


def estimated_records(release: Release) -> float:
    """The number of records where it is not public: the precision-weighted mean of the totals of all noisy tables."""
    totals = [noisy_table(release.schema, one, (), None) for one in release.measurements if one.cells == "all"]
    values, variances = (np.concatenate([getattr(one, part) for one in totals]) for part in ("values", "variances"))
    return float((values / variances).sum() / (1 / variances).sum())


def held_by_a_table(release: Release, estimand: Estimand) -> bool:
    """Whether one measured table holds every attribute of a question."""
    return any(set(estimand.margin) <= set(one.margin) for one in release.measurements)


def rests_on_model(release: Release, estimand: Estimand) -> bool:
    """Whether the measured tables leave a quantity to the model's assumptions, at the mode of the posterior."""
    if held_by_a_table(release, estimand):
        return False
    try:
        local = local_model(release, estimand.margin, estimand)
    except UnsupportedError:
        return True
    member = group_matrix(local, estimand)
    mode, _ = local.posterior.mode()
    beyond = beyond_tables(local, estimand, member, local.posterior.shares(mode[None, :]) @ member)
    return bool(beyond.max() > MODELLED)


def evidence_for(
    release: Release,
    estimand: Estimand,
    *,
    prior: float | None = None,
    shared: dict[object, object] | None = None,
) -> Evidence | NoiseAware:
    """All tables together where a release measured several; one exact posterior where it did not.

    A stated ``prior`` is the prior count of a group, which only the exact posterior knows. Questions that tell apart
    the same levels of the same attributes have one model and one set of draws, kept in ``shared``.
    """
    tables = [one.margin for one in release.measurements if one.margin]
    holding = held_by_a_table(release, estimand)
    if prior is not None or release.provenance.draws or len(tables) < 2:
        return gather(release, estimand, prior=prior)
    try:
        check_size(release.schema, estimand)
        local = _shared_model(release, estimand, shared)
    except UnsupportedError:
        if not holding:
            raise
        return gather(release, estimand, prior=prior)
    return NoiseAware(
        estimand=estimand,
        local=local,
        records=public_records(release),
        exact=(lambda: gather(release, estimand)) if holding else None,
        shared={} if shared is None else shared,
    )


def _shared_model(release: Release, estimand: Estimand, shared: dict[object, object] | None) -> Local:
    """The model of a question, or that of an earlier one with the same levels of the same attributes."""
    if shared is None:
        return local_model(release, estimand.margin, estimand)
    classes = tuple(one.tobytes() for one in merged_levels(release.schema, estimand).classes)
    key = (estimand.margin, classes, has_range(estimand), tuple(map(id, release.measurements)))
    found = shared.get(key)
    if not isinstance(found, Local):
        found = shared[key] = local_model(release, estimand.margin, estimand)
    return found


def check_size(schema: Schema, estimand: Estimand) -> None:
    """Refuse a question whose model would take minutes or gigabytes, before anything is computed."""
    cells = prod(merged_levels(schema, estimand).shape)
    if cells * max(estimand.groups, DRAWN) > MOST_NUMBERS:
        raise UnsupportedError(
            f"the model over {', '.join(estimand.margin)} has {cells:,} cells in {estimand.groups:,} groups, too many "
            "to be drawn in seconds. Ask about fewer attributes, or about groups of their levels."
        )


def group_matrix(local: Local, estimand: Estimand) -> Floats:
    """Zero or one for each possible cell of the model and each group of the question."""
    return np.eye(estimand.groups)[estimand.labels[local.example[local.effects.possible]]]


def normal_draws(posterior: Posterior, size: int, rng: np.random.Generator) -> Sample:
    """Draws from the normal approximation at the mode; never called accurate, since they have no importance weights."""
    centre, spread = posterior.mode()
    drawn = centre + rng.standard_normal((size, len(centre))) @ np.linalg.cholesky(spread).T
    return Sample(parameters=np.asarray(drawn), weights=np.full(size, 1 / size), effective=0.0)


def raw_shares(local: Local, member: Floats) -> Raw | None:
    """Shares of the groups of a question that agree exactly with the noisy tables; how noise and sampling move them.

    The mode of the posterior is moved by the smallest signed change that gives every sum of contrasts its least-squares
    measurement. For a quantity that the tables determine, how the change is spread over cells makes no difference.
    """
    posterior, reduced = local.posterior, local.reduced
    columns = local.effects.columns
    mode, _ = posterior.mode()
    at_mode = posterior.shares(mode[None, :])[0]
    unknown = posterior.records is None
    total = float(reduced.estimate[0]) if unknown else float(posterior.records or 0)
    if total <= 0 or not columns.shape[1]:
        return None
    centred = columns - columns.mean(axis=0)
    spread = np.linalg.solve(centred.T @ centred, centred.T).T  # a change of cells for a change of the contrasts' sums
    change = reduced.estimate[int(unknown) :] / total - at_mode @ columns
    shares = (at_mode + spread @ change) @ member
    weights = reduced.weights
    times = np.where(reduced.excess > 0, MOST_EXCESS / np.maximum(reduced.excess, 1e-9), 0.0)
    of_groups = spread.T @ member  # (contrasts, groups)
    held = np.maximum(at_mode, 0)

    def deviations(size: int, rng: np.random.Generator) -> Floats:
        noise = _noises(reduced.variances, times, size, rng) @ weights.T
        if unknown:  # a share is a sum over the number of people, and both are measured
            noise = noise[:, 1:] - noise[:, :1] * (reduced.estimate[1:] / total)
        people = sampled(held, total, size, rng) @ columns
        return np.asarray((noise / total + people) @ of_groups)

    return Raw(shares=np.asarray(shares), deviations=deviations, people=total)


def _noises(variances: Floats, times: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Noises of given variances; ``times`` two-sided geometric ones in each, as a difference of gamma variates."""
    shape = (size, len(variances))
    normal = rng.standard_normal(shape)
    heavy = times > 0
    if heavy.any():
        many = times[heavy]
        two = (size, len(many))
        normal[:, heavy] = (rng.standard_gamma(many, two) - rng.standard_gamma(many, two)) / np.sqrt(2 * many)
    return np.asarray(normal * np.sqrt(variances))


def influence(quantity: Quantity, shares: Floats) -> Floats:
    """By how much one more person in each group changes each quantity: (groups, outputs)."""
    step, eye = 1e-4, np.eye(len(shares))
    upper = quantity(shares * (1 - step) + step * eye)
    lower = quantity(np.maximum(shares * (1 + step) - step * eye, 0))
    return np.asarray((upper - lower) / (2 * step))


def beyond_tables(local: Local, estimand: Estimand, member: Floats, shares: Floats) -> Floats:
    """For each output the part of its gradient that no measured table determines, between 0 and 1.

    Zero means that the quantity is (to first order, at the posterior mean) a function of measured tables, so that the
    answer does not rest on the model.
    """
    if any(set(estimand.margin) <= set(margin) for margin in local.margins):
        return np.zeros(len(estimand.names))
    centre = shares.mean(axis=0)
    slopes = member @ influence(estimand.evaluate, centre)
    weights = member @ centre
    weights = np.sqrt(weights / weights.sum())
    basis = np.column_stack([np.ones(len(member)), local.effects.columns]) * weights[:, None]
    targets = slopes * weights[:, None]
    targets = targets - weights[:, None] * (weights @ targets)
    left = targets - basis @ np.linalg.lstsq(basis, targets, rcond=None)[0]
    size = (targets**2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(size > 0, (left**2).sum(axis=0) / size, 0.0))
