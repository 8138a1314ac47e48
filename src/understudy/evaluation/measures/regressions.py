"""What analysts do: the same regression on original and synthetic rows, coefficient by coefficient.

Interval overlap is Karr's J = (o/(U_o - L_o) + o/(U_s - L_s)) / 2 with o = min(U) - max(L): 1 for equal intervals,
below 0 for intervals that do not touch. The standardised difference is (synthetic - original) / the original's standard
error. With several copies each is computed for every copy and averaged: what an analyst with one copy meets on average.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.core.formula import Formula, parse_formula
from understudy.core.result import Finding, Section
from understudy.engines.reading.values import values_of
from understudy.errors import ConvergenceError, InputError
from understudy.evaluation.inputs.comparison import Comparison
from understudy.evaluation.shared.measure import measures
from understudy.evaluation.shared.results import Collected, frame
from understudy.models.coded_regression import INTERCEPT, Design, Fit, Rows, make_design, numbers_needed

LEVEL = 0.95
KARR = "Karr et al. (2006), interval overlap"


def interval_overlap(original: tuple[float, float], synthetic: tuple[float, float]) -> float:
    """Karr's J of two intervals.

    >>> interval_overlap((0, 4), (1, 3)), interval_overlap((0, 1), (2, 3))
    (0.75, -1.0)
    """
    (low, high), (lower, higher) = original, synthetic
    if not (low < high and lower < higher):
        raise InputError("an interval must have its lower end below its upper end.")
    overlap = min(high, higher) - max(low, lower)
    return 0.5 * (overlap / (high - low) + overlap / (higher - lower))


@measures.add
def regressions(comparison: Comparison) -> Section:
    """Regressions by formula: coefficients side by side, interval overlap, agreement in sign and significance."""
    found = Collected()
    if not comparison.models:
        found.omit("regressions", "all of it", "no model was named; give one such as 'income ~ age + sex'")
        return found.section()
    rows: list[dict[str, Any]] = []
    models: list[dict[str, Any]] = []
    original_rows = comparison.original_rows
    for text in comparison.models:
        formula = parse_formula(text, comparison.names)
        design = make_design(comparison.schema, formula, (comparison.original, *comparison.copies))
        needed = numbers_needed(comparison.schema, formula)
        tables = [_rows(comparison, comparison.original, original_rows, needed)]
        tables += [
            _rows(comparison, copy, comparison.release.frame(number), needed)
            for number, copy in enumerate(comparison.copies, start=1)
        ]
        fits = [_fit(design, table, place, found) for place, table in enumerate(tables)]
        original, copies = fits[0], [fit for fit in fits[1:] if fit is not None]
        if original is None or not copies:
            continue
        covered = _covered(comparison, formula, design.family)
        of_model = _compare(design, original, copies, covered, found)
        rows += of_model
        models.append(_summary(design, tables=tables, original=original, copies=copies, rows=of_model, covered=covered))
        found.findings += _findings(models[-1])
    found.frames["regressions"] = frame(rows)
    found.frames["regression_models"] = frame(models)
    return found.section()


def _rows(comparison: Comparison, codes: Any, raw: Any, needed: tuple[str, ...]) -> Rows:
    return Rows(
        codes=codes,
        values={name: values_of(raw[name], codes.columns[name], comparison.schema[name]) for name in needed},
    )


def _fit(design: Design, table: Rows, place: int, found: Collected) -> Fit | None:
    """The fit, or nothing and a stated omission: one table that has too few rows must not hide the others."""
    where = "the original" if place == 0 else f"synthetic table {place}"
    try:
        fit = design.fit(table)
    except (InputError, ConvergenceError, np.linalg.LinAlgError) as problem:
        reason = "its equations cannot be solved" if isinstance(problem, np.linalg.LinAlgError) else str(problem)
        found.omit("regressions", f"'{design.formula.text}' on {where}", reason)
        return None
    if not fit.converged or fit.separated:
        reason = "a predictor decides the outcome (separation), so some coefficients have no finite estimate"
        found.omit("regressions", f"coefficients of '{design.formula.text}' on {where}", reason)
    return fit


def _interval(fit: Fit, place: int) -> tuple[float, float]:
    from scipy.special import ndtri, stdtrit

    at = (1 + LEVEL) / 2
    factor = float(ndtri(at)) if fit.freedom is None else float(stdtrit(fit.freedom, at))
    centre, half = float(fit.coefficients[place]), factor * float(fit.errors[place])
    return centre - half, centre + half


def _compare(
    design: Design, original: Fit, copies: list[Fit], covered: bool | None, found: Collected
) -> list[dict[str, Any]]:
    rows = []
    for place, name in enumerate(design.labels):
        fits = [fit for fit in copies if fit.used[place]]
        if not original.used[place] or not fits:
            side = "the original" if not original.used[place] else "every synthetic table"
            found.omit("regressions", f"{name} in '{design.formula.text}'", f"it cannot be estimated on {side}")
            continue
        value, error = float(original.coefficients[place]), float(original.errors[place])
        low, high = _interval(original, place)
        values = np.array([fit.coefficients[place] for fit in fits])
        intervals = [_interval(fit, place) for fit in fits]
        overlaps = [
            interval_overlap((low, high), one) if low < high and one[0] < one[1] else np.nan for one in intervals
        ]
        signs = [np.sign(one) == np.sign(value) for one in values]
        clear = low > 0 or high < 0
        significant = [(one[0] > 0 or one[1] < 0) == clear for one in intervals]
        rows.append(
            {
                "model": design.formula.text,
                "term": name,
                "original": value,
                "original_se": error,
                "original_low": low,
                "original_high": high,
                "synthetic": float(values.mean()),
                "synthetic_se": float(np.sqrt(np.mean([fit.errors[place] ** 2 for fit in fits]))),
                "synthetic_low": float(np.mean([one[0] for one in intervals])),
                "synthetic_high": float(np.mean([one[1] for one in intervals])),
                "sd_between_copies": float(values.std(ddof=1)) if len(values) > 1 else None,
                "overlap": float(np.mean(overlaps)),
                "standardised_difference": float(values.mean() - value) / error if error > 0 else None,
                "same_sign_percent": 100 * float(np.mean(signs)),
                "same_significance_percent": 100 * float(np.mean(significant)),
                "covered": covered,
            }
        )
    return rows


def _covered(comparison: Comparison, formula: Formula, family: str) -> bool | None:
    """Are the sufficient statistics within the model's margins: outcome by every term; for least squares also X'X."""
    terms = [{factor.name for factor in term} for term in formula.terms]
    margins = [term | {formula.outcome.name} for term in terms]
    if family == "linear":
        margins += [first | second for first in terms for second in terms]
    return comparison.covered(*margins)


def _summary(
    design: Design,
    *,
    tables: list[Rows],
    original: Fit,
    copies: list[Fit],
    rows: list[dict[str, Any]],
    covered: bool | None,
) -> dict[str, Any]:
    slopes = [row for row in rows if row["term"] != INTERCEPT] or rows
    known = [row["overlap"] for row in slopes if np.isfinite(row["overlap"])]
    distances = [abs(row["standardised_difference"]) for row in slopes if row["standardised_difference"] is not None]
    return {
        "model": design.formula.text,
        "family": design.family,
        "coefficients": len(rows),
        "not_estimable": len(design.labels) - len(rows),
        "original_rows_used": original.rows,
        "original_rows_left_out": tables[0].codes.rows - original.rows,
        "synthetic_rows_used": float(np.mean([fit.rows for fit in copies])),
        "copies": len(copies),
        "mean_overlap": float(np.mean(known)) if known else None,
        "mean_absolute_standardised_difference": float(np.mean(distances)) if distances else None,
        "same_sign_percent": float(np.mean([row["same_sign_percent"] for row in slopes])) if slopes else None,
        "same_significance_percent": float(np.mean([row["same_significance_percent"] for row in slopes]))
        if slopes
        else None,
        "covered": covered,
    }


def _findings(model: dict[str, Any]) -> list[Finding]:
    overlap = model["mean_overlap"]
    marked = " (not covered by the generative model: may be biased)" if model["covered"] is False else ""
    return [
        Finding(
            code="utility.overlap",
            title=f"mean interval overlap of '{model['model']}'{marked}",
            value=overlap,
            severity="warning" if overlap is None or overlap < 0.5 else "good",
            reference=KARR,
        )
    ]
