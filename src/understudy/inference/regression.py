"""Regressions on the shares of a table: many fits at once, one for each draw of the shares.

A coefficient is a function of the population: the maximiser of the expected log-likelihood over its cells. So the
posterior draws of the shares give its posterior, whether or not the model is true (as for a sandwich variance, and
unlike a model-based one). Newton's method runs on all draws together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from understudy.core.arrays import Floats, Integers
from understudy.core.bins import bins_of, level_numbers
from understudy.core.formula import Factor, Formula
from understudy.core.questions import OF_EVENTS, Atom
from understudy.core.schema import Schema
from understudy.errors import ConvergenceError, InputError, UnsupportedError, unknown_name

ITERATIONS = 60
LONGEST_STEP = 4.0  # in the linear predictor
TOLERANCE = 1e-9
ARRIVED = 1e-8  # a shorter step ends a fit with several outcome levels
MOST_SCORED = 25  # steps of such a fit; a draw that needs more is nearly separated, and far out in any case
CERTAIN = 14.0  # a linear predictor this far out means that the likelihood has no maximum
TINIEST = 1e-9  # a share of events below it is as good as none; noise can make one negative
PROBITS = 1.8  # logits in a probit, about
MOST_COLUMNS = 200
BLOCK = 2**23  # numbers held at once for many-level outcomes
INTERCEPT = "(intercept)"
OF_MEANS = ("linear", "logit", "probit", "poisson")  # families whose predictor is a function of the mean outcome


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Model:
    """Design, outcome and family over the cells of a table."""

    family: str
    names: tuple[str, ...]
    design: Floats  # (cells, columns)
    outcome: Floats | Integers  # a number, or the code of the level, of each cell
    columns: tuple[str, ...]
    levels: tuple[str, ...] = ()

    def fit(self, weights: Floats) -> Floats:
        """Coefficients for each row of weights of the cells."""
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.maximum(total, np.finfo(float).tiny)
        if self.family == "linear":
            return _least_squares(self.design, np.asarray(self.outcome, np.float64), weights)
        if self.family in ("logit", "probit", "poisson"):
            return self._events(np.asarray(self.outcome, np.float64), weights)
        return _levels(self, weights)

    def _events(self, outcome: Floats, weights: Floats) -> Floats:
        """Coefficients for an outcome that happens or not, or is counted: people with equal regressors together."""
        patterns, place = np.unique(self.design, axis=0, return_inverse=True)
        order = np.argsort(place.reshape(-1), kind="stable")
        first = np.searchsorted(place.reshape(-1)[order], np.arange(len(patterns)))
        people, events = (np.add.reduceat(one[:, order], first, axis=1) for one in (weights, weights * outcome))
        if self.saturated() is None:
            return _newton(patterns, people, events, self.family)
        most = np.inf if self.family == "poisson" else 1 - TINIEST
        share = np.clip(events / np.maximum(people, np.finfo(float).tiny), TINIEST, most)
        # Fewer than no people, or more events than people, as noise can say, have no log odds.
        none = (people <= 0) if self.family == "poisson" else (events > people)
        share = np.where((events < 0) | none, np.nan, share)
        loads = np.linalg.inv(patterns)
        loads[np.abs(loads) < TINIEST] = 0.0
        values = self.link(share)
        found = np.nan_to_num(values) @ loads.T
        return np.where(np.isnan(values).astype(np.float64) @ (loads != 0).T.astype(np.float64) > 0, np.nan, found)

    def saturated(self) -> tuple[Floats, Integers] | None:
        """Of a model with one coefficient for each kind of people: the regressors of each kind, and the kind of every
        cell. None for models of several levels, and for those with fewer coefficients."""
        patterns, place = np.unique(self.design, axis=0, return_inverse=True)
        square = len(patterns) == self.design.shape[1] and np.linalg.matrix_rank(patterns) == len(patterns)
        return (patterns, place.reshape(-1)) if self.family in OF_MEANS and square else None

    def link(self, share: Floats) -> Floats:
        """The linear predictor of a share of events, or of a mean."""
        if self.family == "linear":
            return share
        if self.family == "poisson":
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(share))
        if self.family == "probit":
            from scipy.special import ndtri

            return np.asarray(ndtri(share))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(share) - np.log1p(-share))

    def reach(self, weights: Floats, least: Floats, most: Floats) -> tuple[Floats, Floats]:
        """The least and the most that each coefficient of a linear regression can be, for each row of weights, if the
        outcome of a cell lies anywhere from ``least`` to ``most``: coefficients are linear in the outcome."""
        total = np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        patterns, place = np.unique(self.design, axis=0, return_inverse=True)
        member = np.eye(len(patterns))[place.reshape(-1)]
        middle = _least_squares(self.design, (least + most) / 2, weights / total)
        half = np.empty_like(middle)
        size = patterns.shape[1]
        scale = np.maximum(np.abs(patterns).max(axis=0), np.finfo(float).tiny)
        scaled = patterns / scale
        block = max(1, BLOCK // (len(patterns) * size))
        for start in range(0, len(weights), block):
            rows = weights[start : start + block] / total[start : start + block]
            gram = ((rows @ member) @ _outer(scaled)).reshape(-1, size, size)
            slopes = np.linalg.solve(
                _solvable(gram), scaled.T
            )  # of each coefficient, by the outcome of one person of each pattern
            spread = (rows * (most - least) / 2) @ member
            half[start : start + block] = np.einsum("sp,skp->sk", spread, np.abs(slopes)) / scale
        return middle - half, middle + half

    @property
    def work(self) -> float:
        """About how many multiplications one step of one fit takes."""
        size = len(self.names)
        return float(len(self.design) * size**2 + size**3)

    def check(self, counts: Floats) -> None:
        """Refuse what expected counts of the cells cannot identify: levels nobody has, and separated outcomes."""
        counts = np.where(counts < 0.5, 0.0, counts)
        support = (np.abs(self.design) * counts[:, None]).sum(axis=0)
        for name, size in zip(self.columns, support, strict=True):
            if size <= 0:
                raise UnsupportedError(
                    f"'{name}' applies to no one, as far as this release can tell; its coefficient is not identified. "
                    "Merge the level with another, or leave the term out."
                )
        gram = (self.design * counts[:, None]).T @ self.design
        scale = np.sqrt(np.maximum(np.diag(gram), np.finfo(float).tiny))
        if np.linalg.matrix_rank(gram / np.outer(scale, scale), tol=1e-9) < len(gram):
            raise UnsupportedError(
                "the terms of this model cannot be told apart on the people it is about (one is a combination of the "
                "others); leave one out."
            )
        if self.family == "linear":
            return
        if self.levels:
            sizes = np.bincount(np.asarray(self.outcome, np.int64), weights=counts, minlength=len(self.levels))
            for name, size in zip(self.levels, sizes, strict=True):
                if size <= 0:
                    raise UnsupportedError(f"the outcome is never '{name}', as far as this release can tell.")
        try:
            # The size of the linear predictor says whether a maximum exists; if not, Newton's method diverges.
            fitted = self.fit(counts[None, :])
        except ConvergenceError:
            fitted = np.full((1, len(self.names)), np.inf)
        if not np.isfinite(fitted).all() or self._reaches(fitted[0], counts) > CERTAIN:
            raise UnsupportedError(
                "a predictor decides the outcome for some group (separation), so the coefficients have no finite "
                "estimate. Leave the term out, or merge its levels."
            )

    def certain(self) -> Floats:
        """How large each coefficient must be to make an outcome as good as certain; infinite if it is a number."""
        if self.family in ("linear", "poisson"):
            return np.full(len(self.names), np.inf)
        of_columns = CERTAIN / np.maximum(np.abs(self.design).max(axis=0), np.finfo(float).tiny)
        others = len(self.names) - len(of_columns)
        if self.family == "multinomial":
            return np.tile(of_columns, max(len(self.levels) - 1, 1))
        return np.append(of_columns, np.full(others, CERTAIN))  # cut points of an ordered outcome

    def residuals(self, coefficients: Floats) -> Floats:
        """Outcome minus its fitted mean in each cell, for each row of coefficients: (S, cells, 1), or one for each
        level but the first of an outcome with several."""
        if self.levels:
            chance = _chances(self.family, self.design, coefficients, len(self.levels))
            seen = np.eye(len(self.levels))[np.asarray(self.outcome, np.int64)]
            return np.asarray((seen - chance)[:, :, 1:])
        mean = _means(coefficients @ self.design.T, self.family)[0]
        return np.asarray((np.asarray(self.outcome, np.float64) - mean)[:, :, None])

    def log_likelihood(self, coefficients: Floats, weights: Floats) -> Floats:
        """The mean log-likelihood of a person for each row of coefficients and of weights of the cells."""
        weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        outcome = np.asarray(self.outcome, np.float64)
        tiny = np.finfo(float).tiny
        if self.levels:
            chance = _chances(self.family, self.design, coefficients, len(self.levels))
            seen = np.asarray(self.outcome, np.int64)
            each = np.log(np.maximum(chance[:, np.arange(len(seen)), seen], tiny))
            return np.asarray((weights * each).sum(axis=1))
        mean = _means(coefficients @ self.design.T, self.family)[0]
        if self.family == "linear":
            variance = np.maximum((weights * (outcome - mean) ** 2).sum(axis=1), tiny)
            return np.asarray(-0.5 * (1 + np.log(2 * np.pi * variance)))
        if self.family == "poisson":  # without log y!, which is the same in every model of the outcome
            return np.asarray((weights * (outcome * np.log(np.maximum(mean, tiny)) - mean)).sum(axis=1))
        each = outcome * np.log(np.maximum(mean, tiny)) + (1 - outcome) * np.log(np.maximum(1 - mean, tiny))
        return np.asarray((weights * each).sum(axis=1))

    def _reaches(self, coefficients: Floats, counts: Floats) -> float:
        used = counts > 0
        if self.family == "poisson":
            return 0.0
        if self.family in ("logit", "probit"):
            logits = PROBITS if self.family == "probit" else 1.0
            return float(np.abs(self.design[used] @ coefficients).max()) * logits
        return float(np.abs(coefficients).max())


def make_model(atom: Atom, schema: Schema, codes: Mapping[str, Integers]) -> Model:
    """The columns of a formula over the cells with the given codes."""
    assert atom.formula is not None  # noqa: S101 - regressions have one
    cells = len(next(iter(codes.values())))
    constant = atom.formula.intercept and atom.kind != "ordered"
    columns: list[tuple[str, Floats]] = [(INTERCEPT, np.ones(cells))] if constant else []
    # Without an intercept the first attribute with categories has a column for each of them.
    full = not atom.formula.intercept
    for term in atom.formula.terms:
        categories = any(is_category(schema, factor) for factor in term)
        parts = [_factor(factor, schema, codes, full=full) for factor in term]
        full = full and not categories
        for combination in product(*parts):
            value = np.ones(cells)
            for _, one in combination:
                value = value * one
            columns.append((":".join(label for label, _ in combination), value))
    if len(columns) > MOST_COLUMNS:
        raise UnsupportedError(f"the model has {len(columns):,} coefficients; at most {MOST_COLUMNS} are fitted.")
    if cells == 0:
        raise UnsupportedError("no cell of the table is left for this model; the subgroup cannot occur.")
    labels = tuple(label for label, _ in columns)
    design = np.stack([value for _, value in columns], axis=1)
    name = atom.formula.outcome.name
    attribute = schema[name]
    if atom.kind in ("linear", "poisson"):
        outcome: Floats | Integers = _in_bins(atom.formula.outcome, schema)[codes[name], 0]
        if atom.kind == "poisson" and (np.asarray(outcome) < 0).any():
            raise UnsupportedError(
                f"family 'poisson' needs an outcome of at least 0, and {atom.formula.outcome} is not."
            )
        return Model(family=atom.kind, names=labels, design=design, outcome=outcome, columns=labels)
    if atom.kind in OF_EVENTS:
        event = (codes[name] == atom.event).astype(np.float64)
        return Model(family=atom.kind, names=labels, design=design, outcome=event, columns=labels)
    known = tuple(text for code, text in enumerate(attribute.code_names) if code != attribute.missing_code)
    if not attribute.levels and atom.formula.outcome.function != "C":  # codes that are no numbers were left out
        known = known[: attribute.bins]
    if len(known) < 2:
        raise InputError(f"'{name}' has one level only; an outcome needs at least two.")
    if atom.kind == "multinomial":
        names = tuple(f"{level}: {label}" for level in known[1:] for label in labels)
    else:
        cuts = tuple(f"{low} | {high}" for low, high in pairwise(known))
        names = (*labels, *cuts)
    return Model(family=atom.kind, names=names, design=design, outcome=codes[name], columns=labels, levels=known)


def is_category(schema: Schema, factor: Factor) -> bool:
    """Whether a factor stands for levels (or bins as levels). Levels that are numbers are numbers in ``I()``, ``log()``
    and other functions, and levels without."""
    attribute = schema[factor.name]
    return factor.function == "C" or (
        bool(attribute.levels) and (factor.function == "" or level_numbers(attribute) is None)
    )


def _factor(factor: Factor, schema: Schema, codes: Mapping[str, Integers], *, full: bool) -> list[tuple[str, Floats]]:
    """The columns of a factor over cells; ``full``: also one for the reference level."""
    attribute = schema[factor.name]
    if not is_category(schema, factor):
        means = _in_bins(factor, schema)
        return [(label, means[codes[factor.name], place]) for place, label in enumerate(factor.columns)]
    if factor.function not in ("", "C"):
        raise InputError(
            f"{factor} needs a numeric attribute, and '{factor.name}' has levels. Levels are numbers if the schema "
            "lists whole numbers in increasing order, or such texts with ordered = true."
        )
    names = attribute.code_names
    known = [code for code in range(attribute.size) if code != attribute.missing_code]
    reference = known[0]
    if factor.detail:
        listed = [names[code] for code in known]
        if factor.detail not in listed:
            raise unknown_name(f"{factor}: level", factor.detail, listed, error=InputError)
        reference = known[listed.index(factor.detail)]
    return [
        (f"{factor.name}[{names[code]}]", (codes[factor.name] == code).astype(np.float64))
        for code in known
        if full or code != reference
    ]


def _in_bins(factor: Factor, schema: Schema) -> Floats:
    """The mean of the columns of a factor in every bin, under the public density: (bins, columns)."""
    bins = bins_of(schema[factor.name])
    return bins.means(lambda points: factor.of(points, bins.bounds))


def varies_in_bins(formula: Formula, schema: Schema) -> set[str]:
    """The attributes with a numeric factor that varies inside a bin, so that the place inside the bin is assumed."""
    found = set()
    for factor in {formula.outcome, *(factor for term in formula.terms for factor in term)}:
        if is_category(schema, factor) or bins_of(schema[factor.name]).of_one_value:
            continue
        bins = bins_of(schema[factor.name])
        ends = [factor.of(bins.nodes(number)[0], bins.bounds) for number in range(len(bins.low))]
        if any((one.max(axis=0) > one.min(axis=0)).any() for one in ends):
            found.add(factor.name)
    return found


def _means(eta: Floats, family: str) -> tuple[Floats, Floats]:
    """The mean of an outcome given its linear predictor, and its derivative by the linear predictor."""
    if family == "linear":
        return eta, np.ones_like(eta)
    eta = np.clip(eta, -40, 40)
    if family == "poisson":
        mean = np.exp(eta)
        return mean, mean
    if family == "probit":
        from scipy.special import ndtr

        return np.asarray(ndtr(eta)), np.asarray(np.exp(-(eta**2) / 2) / np.sqrt(2 * np.pi))
    mean = 1 / (1 + np.exp(-eta))
    return mean, mean * (1 - mean)


def _outer(design: Floats) -> Floats:
    return np.asarray((design[:, :, None] * design[:, None, :]).reshape(len(design), -1))


def _least_squares(design: Floats, outcome: Floats, weights: Floats) -> Floats:
    size = design.shape[1]
    scale = np.maximum(np.abs(design).max(axis=0), np.finfo(float).tiny)
    design = design / scale
    gram = (weights @ _outer(design)).reshape(-1, size, size)
    moment = (weights * outcome) @ design
    return np.asarray(_solve(gram, moment) / scale)


def _newton(patterns: Floats, people: Floats, events: Floats, family: str) -> Floats:
    """Scoring on kinds of people; draws that have arrived are left alone."""
    size = patterns.shape[1]
    scale = np.maximum(np.abs(patterns).max(axis=0), np.finfo(float).tiny)
    x = patterns / scale
    outer = _outer(x)
    beta = np.zeros((len(people), size))
    if family == "poisson":  # start at the mean, where the weights are sensible
        mean = np.maximum(events.sum(axis=1), np.finfo(float).tiny)
        beta = _least_squares(x, np.ones(len(x)), people) * np.log(mean)[:, None]
    left = np.arange(len(people))
    for _ in range(ITERATIONS):
        mu, slope = _means(beta[left] @ x.T, family)
        # The slope over the variance of the outcome: 1 for the canonical links.
        tilt = slope / np.maximum(mu * (1 - mu), 1e-12) if family == "probit" else 1.0
        score = ((events[left] - people[left] * mu) * tilt) @ x
        step = _solve(((people[left] * slope * tilt) @ outer).reshape(-1, size, size), score)
        reach = np.abs(step @ x.T).max(axis=1, keepdims=True)
        beta[left] += step * np.minimum(1, LONGEST_STEP / np.maximum(reach, 1e-300))
        left = left[~(reach[:, 0] < TOLERANCE)]
        if not len(left):
            break
    return np.asarray(beta / scale)


def _levels(model: Model, weights: Floats) -> Floats:
    """Fisher scoring for outcomes with several levels, in blocks of draws."""
    codes = np.asarray(model.outcome, np.int64)
    patterns, place = np.unique(model.design, axis=0, return_inverse=True)
    cells, levels = len(patterns), len(model.levels)
    flat = place.reshape(-1) * levels + codes
    spread = np.zeros((weights.shape[1], cells * levels))
    spread[np.arange(len(flat)), flat] = 1
    table = (weights @ spread).reshape(-1, cells, levels)
    size = len(model.names)
    block = max(1, BLOCK // (cells * levels * size))
    scale = np.maximum(np.abs(patterns).max(axis=0), np.finfo(float).tiny)
    x = patterns / scale
    results = []
    for begin in range(0, len(table), block):
        some = table[begin : begin + block]
        # Not from the fit of the mean: where that is nearly separated, one huge step would hold back all the others.
        results.append(_score_levels(x, some, model.family, _first(x, some, model.family)))
    fitted = np.concatenate(results)
    if model.family == "multinomial":
        return np.asarray(fitted / np.tile(scale, levels - 1))
    fitted[:, : len(scale)] /= scale
    return fitted


def _first(x: Floats, table: Floats, family: str) -> Floats:
    """Where scoring begins: no slopes."""
    draws, _, levels = table.shape
    if family == "multinomial":
        return np.zeros((draws, (levels - 1) * x.shape[1]))
    share = table.sum(axis=1)
    share = np.maximum(share / share.sum(axis=1, keepdims=True), 1e-12)
    cumulative = np.clip(np.cumsum(share, axis=1)[:, :-1], 1e-9, 1 - 1e-9)
    return np.concatenate([np.zeros((draws, x.shape[1])), np.log(cumulative / (1 - cumulative))], axis=1)


def _score_levels(x: Floats, table: Floats, family: str, start: Floats) -> Floats:
    """Fisher scoring from a first guess; draws that have arrived are left alone."""
    columns, beta = x.shape[1], start.copy()
    scored = _multinomial_score if family == "multinomial" else _ordered_score
    left = np.arange(len(table))
    for _ in range(MOST_SCORED):
        now = beta[left]
        score, information = scored(x, table[left], now)
        step = _solve(information, score)
        reach = np.abs(step).max(axis=1, keepdims=True)
        step *= np.minimum(1, LONGEST_STEP / np.maximum(reach, 1e-300))
        if family == "ordered":  # thresholds stay in order
            for _halving in range(30):
                cuts = (now + step)[:, columns:]
                wrong = (np.diff(cuts, axis=1) <= 0).any(axis=1)
                if not wrong.any():
                    break
                step[wrong] /= 2
        beta[left] = now + step
        left = left[~(reach[:, 0] < ARRIVED)]
        if not len(left):
            break
    return np.asarray(beta)


def _chances(family: str, x: Floats, beta: Floats, levels: int) -> Floats:
    """The chance of every level for each pattern: (draws, patterns, levels)."""
    if family != "multinomial":
        return _cumulative(x, beta, levels)[0]
    eta = np.zeros((len(beta), len(x), levels))
    eta[:, :, 1:] = np.swapaxes((beta.reshape(-1, x.shape[1]) @ x.T).reshape(len(beta), levels - 1, -1), 1, 2)
    weight = np.exp(eta - eta.max(axis=2, keepdims=True))
    return np.asarray(weight / weight.sum(axis=2, keepdims=True))


def _multinomial_score(x: Floats, table: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """The score and the expected information of a softmax: blocks of levels, each a weighted sum over patterns."""
    draws, cells, levels = table.shape
    columns = x.shape[1]
    chance = np.swapaxes(_chances("multinomial", x, beta, levels)[:, :, 1:], 1, 2)
    sizes = table.sum(axis=2)[:, None, :]
    score = (np.swapaxes(table[:, :, 1:], 1, 2) - sizes * chance) @ x
    loads = -(sizes * chance)[:, :, None, :] * chance[:, None, :, :]
    place = np.arange(levels - 1)
    loads[:, place, place] += sizes * chance
    blocks = (loads.reshape(-1, cells) @ _outer(x)).reshape(draws, levels - 1, levels - 1, columns, columns)
    size = (levels - 1) * columns
    return score.reshape(draws, size), np.swapaxes(blocks, 2, 3).reshape(draws, size, size)


def _ordered_score(x: Floats, table: Floats, beta: Floats) -> tuple[Floats, Floats]:
    draws, _, levels = table.shape
    chance, change = _cumulative(x, beta, levels)
    chance = np.maximum(chance, 1e-15)
    flat = change.reshape(draws, -1, beta.shape[1])
    score = np.einsum("sc,scq->sq", (table / chance).reshape(draws, -1), flat)
    weighted = flat * (table.sum(axis=2)[:, :, None] / chance).reshape(draws, -1)[:, :, None]
    return score, np.asarray(np.swapaxes(weighted, 1, 2) @ flat)


def _cumulative(x: Floats, beta: Floats, levels: int) -> tuple[Floats, Floats]:
    draws, columns = len(beta), x.shape[1]
    eta = beta[:, None, columns:] - (beta[:, :columns] @ x.T)[:, :, None]
    below = 1 / (1 + np.exp(-np.clip(eta, -40, 40)))
    ends = (draws, len(x), 1)
    whole = np.concatenate([np.zeros(ends), below, np.ones(ends)], axis=2)
    slope = np.concatenate([np.zeros(ends), below * (1 - below), np.zeros(ends)], axis=2)
    chance = np.diff(whole, axis=2)
    of_slope = -np.diff(slope, axis=2)[..., None] * x[None, :, None, :]
    cuts = np.zeros((draws, len(x), levels, levels - 1))
    for cut in range(levels - 1):
        cuts[:, :, cut, cut] = slope[:, :, cut + 1]
        cuts[:, :, cut + 1, cut] = -slope[:, :, cut + 1]
    return chance, np.concatenate([of_slope, cuts], axis=3)


def _solvable(matrices: Floats) -> Floats:
    """Matrices with the least ridge that makes nearly singular ones solvable."""
    size = matrices.shape[-1]
    ridge = 1e-12 * np.einsum("sii->s", matrices)[:, None, None] / size + 1e-300
    return np.asarray(matrices + ridge * np.eye(size))


def _solve(matrices: Floats, vectors: Floats) -> Floats:
    """Batched solutions."""
    return np.asarray(np.linalg.solve(_solvable(matrices), vectors[..., None])[..., 0])
