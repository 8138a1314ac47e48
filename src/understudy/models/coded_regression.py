"""Regressions on coded tables: the design matrix of a formula, and its fit from blocks of rows.

A wide design is never in memory as a whole.

Columns that add nothing to the ones before them (a level nobody has) are found from the cross products and left out;
their coefficients cannot be estimated and are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats
from understudy.core.formula import Factor, Formula
from understudy.core.schema import Schema
from understudy.core.table import CodedTable
from understudy.errors import InputError

Blocks = Callable[[], Iterator[tuple[Floats, Floats, Floats]]]  # design, outcome, weights
DEPENDENT = 1e-9  # share of a column's sum of squares that must be left after the columns before it
ITERATIONS = 60
TOLERANCE = 1e-10
CERTAIN = 1e-7  # fitted probabilities this near to 0 or 1 mean separation: the likelihood has no maximum


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """Coefficients with their covariance. ``freedom`` is None for a normal approximation."""

    coefficients: Floats
    covariance: Floats
    used: NDArray[np.bool_]
    rows: int
    freedom: float | None
    converged: bool = True
    separated: bool = False

    @property
    def errors(self) -> Floats:
        return np.sqrt(np.maximum(np.diag(self.covariance), 0))


def independent_columns(gram: Floats) -> NDArray[np.bool_]:
    """Which columns are not linear combinations of those before them, from X'X: a Cholesky factor that skips.

    >>> independent_columns(np.array([[2.0, 2.0], [2.0, 2.0]])).tolist()
    [True, False]
    """
    size = len(gram)
    left = gram.astype(np.float64, copy=True)
    diagonal = np.diag(gram).copy()
    used = np.zeros(size, bool)
    for column in range(size):
        pivot = left[column, column]
        if diagonal[column] <= 0 or pivot <= DEPENDENT * diagonal[column]:
            continue
        used[column] = True
        direction = left[column] / pivot
        left -= np.outer(left[column], direction)
    return used


def fit_linear(blocks: Blocks) -> Fit:
    """Ordinary least squares with the usual covariance s^2 (X'X)^-1."""
    gram, moment, rows = _moments(blocks)
    used = independent_columns(gram)
    coefficients = np.full(len(gram), np.nan)
    inverse = _inverse(gram[np.ix_(used, used)])
    coefficients[used] = inverse @ moment[used]
    beta = np.where(used, coefficients, 0)
    residual = sum(float(np.sum(weight * (y - x @ beta) ** 2)) for x, y, weight in blocks())
    freedom = rows - int(used.sum())
    if freedom <= 0:
        raise InputError(f"a regression with {int(used.sum())} coefficients needs more than {rows} complete rows.")
    covariance = _spread(inverse * (residual / freedom), used)
    return Fit(coefficients=coefficients, covariance=covariance, used=used, rows=rows, freedom=float(freedom))


def fit_logit(blocks: Blocks) -> Fit:
    """Maximum likelihood by Newton's method with halved steps; says so if the outcome is separated."""
    gram, _, rows = _moments(blocks)
    used = independent_columns(gram)
    beta = np.zeros(len(gram))
    information, score, deviance, _ = _logit_pass(blocks, beta)
    converged = False
    certain = False
    for _ in range(ITERATIONS):
        step = np.zeros_like(beta)
        step[used] = _inverse(information[np.ix_(used, used)]) @ score[used]
        for _halving in range(20):
            new = _logit_pass(blocks, beta + step)
            if new[2] <= deviance + TOLERANCE * (abs(deviance) + 1):
                break
            step /= 2
        change = deviance - new[2]
        beta = beta + step
        information, score, deviance, certain = new
        if change <= TOLERANCE * (abs(deviance) + 1):
            converged = True
            break
    coefficients = np.where(used, beta, np.nan)
    covariance = _spread(_inverse(information[np.ix_(used, used)]), used)
    return Fit(
        coefficients=coefficients,
        covariance=covariance,
        used=used,
        rows=rows,
        freedom=None,
        converged=converged,
        separated=certain,
    )


def probabilities(x: Floats, fit: Fit) -> Floats:
    """Fitted probabilities of a logistic regression."""
    return _inverse_logit(x @ np.where(fit.used, fit.coefficients, 0))


def _moments(blocks: Blocks) -> tuple[Floats, Floats, int]:
    gram: Floats | None = None
    moment = np.zeros(0)
    rows = 0.0
    for x, y, weight in blocks():
        if gram is None:
            gram, moment = np.zeros((x.shape[1], x.shape[1])), np.zeros(x.shape[1])
        weighted = x * weight[:, None]
        gram += weighted.T @ x
        moment += weighted.T @ y
        rows += float(weight.sum())
    if gram is None or rows == 0:
        raise InputError("no row has a value for every attribute of the model.")
    return gram, moment, round(rows)


def _logit_pass(blocks: Blocks, beta: Floats) -> tuple[Floats, Floats, float, bool]:
    size = len(beta)
    information, score = np.zeros((size, size)), np.zeros(size)
    deviance, certain = 0.0, False
    for x, y, weight in blocks():
        linear = x @ beta
        p = _inverse_logit(linear)
        deviance += 2 * float(np.sum(weight * (np.logaddexp(0, linear) - y * linear)))
        score += x.T @ (weight * (y - p))
        information += (x * (weight * p * (1 - p))[:, None]).T @ x
        certain = certain or bool(np.any((p < CERTAIN) | (p > 1 - CERTAIN)))
    return information, score, deviance, certain


def _inverse_logit(linear: Floats) -> Floats:
    small = np.exp(-np.abs(linear))  # never overflows
    result: Floats = np.where(linear >= 0, 1, small) / (1 + small)
    return result


def _inverse(gram: Floats) -> Floats:
    """The (pseudo-)inverse of X'X with columns brought to one scale first: an income beside a share loses no digits."""
    scale = np.sqrt(np.diag(gram))
    scale = np.where(scale > 0, scale, 1.0)
    inverse: Floats = np.linalg.pinv(gram / np.outer(scale, scale), rcond=1e-13, hermitian=True)
    inverse /= np.outer(scale, scale)
    return inverse


def _spread(inner: Floats, used: NDArray[np.bool_]) -> Floats:
    whole = np.full((len(used), len(used)), np.nan)
    whole[np.ix_(used, used)] = inner
    return whole


# The design matrix of a regression: which columns a formula gives for the attributes of a schema, and their values.
#
# An attribute with levels (or, by ``C``, with bins) becomes one indicator column for each level except the reference.
# The reference is the first level in the schema that occurs in every table to be compared, so a coefficient has the
# same meaning in all of them. Rows are left out if an attribute of the model is missing or has a special code where a
# number is needed, as an analyst would do. Their number is stated.


BLOCK_VALUES = 2**22  # values of one block of the design: 32 MB
MOST_COLUMNS = 2000
LARGEST = 2**62  # cells that a 64-bit number can name
INTERCEPT = "(intercept)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """A table as codes, with the numbers behind the bins of the attributes a formula uses as numbers."""

    codes: CodedTable
    values: Mapping[str, Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    label: str
    parts: tuple[tuple[Factor, int | None], ...]  # a factor as a number, or whether it has a code


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Columns that mean the same in every table they are used on."""

    schema: Schema
    formula: Formula
    family: str
    event: int | None
    columns: tuple[_Column, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        return (INTERCEPT, *(column.label for column in self.columns))

    def complete(self, rows: Rows) -> NDArray[np.bool_]:
        """Rows with a value for every attribute of the model."""
        keep = np.ones(rows.codes.rows, bool)
        factors = [factor for term in self.formula.terms for factor in term]
        if self.event is None:
            factors.append(self.formula.outcome)
        for factor in factors:
            attribute = self.schema[factor.name]
            if is_category(self.schema, factor):
                if attribute.missing_code is not None:
                    keep &= np.asarray(rows.codes.columns[factor.name]) != attribute.missing_code
            else:
                keep &= np.isfinite(_transformed(factor, rows))
        if self.event is not None:
            missing = self.schema[self.formula.outcome.name].missing_code
            if missing is not None:
                keep &= np.asarray(rows.codes.columns[self.formula.outcome.name]) != missing
        return keep

    def blocks(self, rows: Rows) -> Blocks:
        """The design, the outcome and the weights, block by block.

        If the model uses codes only, equal rows become one row with their number as its weight. The fit is the same,
        and a million rows of a few categories cost no more than their combinations.
        """
        chosen = np.flatnonzero(self.complete(rows))
        weights = np.ones(len(chosen))
        if not rows.values and self.schema.cells(self.formula.names) <= LARGEST and len(chosen):
            shape = self.schema.shape(self.formula.names)
            codes = [np.asarray(rows.codes.columns[name])[chosen].astype(np.int64) for name in self.formula.names]
            _, first, counts = np.unique(np.ravel_multi_index(codes, shape), return_index=True, return_counts=True)
            chosen, weights = chosen[first], counts.astype(np.float64)
        size = max(1, BLOCK_VALUES // (len(self.columns) + 1))
        numbers = {
            factor: _transformed(factor, rows)
            for column in self.columns
            for factor, code in column.parts
            if code is None
        }

        def made() -> Iterator[tuple[Floats, Floats, Floats]]:
            for start in range(0, len(chosen), size):
                part = chosen[start : start + size]
                x = np.ones((len(part), len(self.columns) + 1))
                for place, column in enumerate(self.columns, start=1):
                    for factor, code in column.parts:
                        if code is None:
                            x[:, place] *= numbers[factor][part]
                        else:
                            x[:, place] *= np.asarray(rows.codes.columns[factor.name])[part] == code
                yield x, self._outcome(rows, part), weights[start : start + size]

        return made

    def fit(self, rows: Rows) -> Fit:
        return (fit_linear if self.family == "linear" else fit_logit)(self.blocks(rows))

    def _outcome(self, rows: Rows, part: NDArray[np.int64]) -> Floats:
        if self.event is None:
            numbers: Floats = _transformed(self.formula.outcome, rows)[part]
            return numbers
        codes = np.asarray(rows.codes.columns[self.formula.outcome.name])[part]
        return np.where(codes == self.event, 1.0, 0.0)


def is_category(schema: Schema, factor: Factor) -> bool:
    return bool(schema[factor.name].levels) or factor.function == "C"


def numbers_needed(schema: Schema, formula: Formula) -> tuple[str, ...]:
    """The attributes whose values, not codes, the formula needs."""
    factors = [formula.outcome, *(factor for term in formula.terms for factor in term)]
    return tuple(dict.fromkeys(factor.name for factor in factors if not is_category(schema, factor)))


def make_design(schema: Schema, formula: Formula, tables: Sequence[CodedTable]) -> Design:
    """The columns of a formula for tables that are to be compared."""
    check_functions(schema, formula)
    family, event = _family(schema, formula)
    columns: list[_Column] = []
    for term in formula.terms:
        options: list[list[tuple[str, Factor, int | None]]] = []
        for factor in term:
            if is_category(schema, factor):
                codes = _codes(schema, factor, tables)
                names = schema[factor.name].code_names
                options.append([(f"{factor.name}[{names[code]}]", factor, code) for code in codes])
            else:
                options.append([(str(factor), factor, None)])
        for parts in product(*options):
            label = ":".join(text for text, _, _ in parts)
            columns.append(_Column(label=label, parts=tuple((factor, code) for _, factor, code in parts)))
            if len(columns) > MOST_COLUMNS:
                raise InputError(
                    f"model '{formula.text}' has more than {MOST_COLUMNS:,} coefficients; leave terms out."
                )
    return Design(schema=schema, formula=formula, family=family, event=event, columns=tuple(columns))


def check_functions(schema: Schema, formula: Formula) -> None:
    """Functions of numbers need numbers. Some terms of the grammar are for answers from a release alone."""
    if not formula.intercept:
        raise InputError(f"model '{formula.text}': tables are compared by models with an intercept; leave out - 1.")
    for factor in (formula.outcome, *(factor for term in formula.terms for factor in term)):
        if factor.function in ("I", "bs") or factor.detail:
            raise InputError(
                f"model '{formula.text}': {factor} is for infer; tables are compared by models with names of "
                "attributes, C(), log(), sqrt() and square()."
            )
        if factor.function in ("log", "sqrt", "square") and schema[factor.name].kind != "numeric":
            raise InputError(f"model '{formula.text}': {factor} needs a numeric attribute with edges.")
    _family(schema, formula)


def _family(schema: Schema, formula: Formula) -> tuple[str, int | None]:
    attribute = schema[formula.outcome.name]
    if formula.level is not None:
        names = attribute.code_names
        if formula.level not in names:
            raise InputError(
                f"model '{formula.text}': '{formula.level}' is not a level of '{attribute.name}' "
                f"({', '.join(names[:12])}{', ...' if len(names) > 12 else ''})."
            )
        if attribute.missing and names.index(formula.level) == attribute.missing_code:
            raise InputError(f"model '{formula.text}': a missing value cannot be the outcome.")
        return "logit", names.index(formula.level)
    if not is_category(schema, formula.outcome):
        return "linear", None
    if attribute.bins == 2 and not attribute.special:
        return "logit", 1
    raise InputError(
        f"model '{formula.text}': '{attribute.name}' has {attribute.bins} levels; say which one is the event, as in "
        f"{attribute.name} == '{attribute.code_names[0]}' ~ ..."
    )


def _codes(schema: Schema, factor: Factor, tables: Sequence[CodedTable]) -> list[int]:
    """Codes with a column of their own: all but the reference (and the missing one, whose rows are left out)."""
    attribute = schema[factor.name]
    named = attribute.bins + len(attribute.special)
    found = [np.bincount(table.columns[factor.name], minlength=attribute.size)[:named] > 0 for table in tables]
    everywhere = np.flatnonzero(np.logical_and.reduce(found))
    reference = int(everywhere[0]) if len(everywhere) else 0
    anywhere = np.logical_or.reduce(found)
    return [code for code in range(named) if code != reference and anywhere[code]]


def _transformed(factor: Factor, rows: Rows) -> Floats:
    values = rows.values[factor.name]
    with np.errstate(divide="ignore", invalid="ignore"):
        if factor.function == "log":
            return np.log(values)
        if factor.function == "sqrt":
            return np.sqrt(values)
    return values**2 if factor.function == "square" else values
