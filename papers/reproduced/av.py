"""Abowd and Vilhuber (2008), How protective are synthetic data?

Figures 1 to 4 are transition matrices and log odds of two mechanisms on a table of five rows in two cells.
"""

from __future__ import annotations

import math
from functools import cache, partial

from papers.harness import Computations, Compute, listed_items, papers, pictures
from papers.pictures import printed_matrices
from understudy.auditing.audit_only_laws import RoundedLaplace
from understudy.auditing.exact_audit import Audit, audit
from understudy.figures.drawing import Drawing
from understudy.privacy.mechanisms.dirichlet_law import DirichletMultinomial, PosteriorMeanMultinomial

PRIOR, ROWS, RECORDS, EPSILON = (0.5, 0.5), 5, 5, 2.0


@cache
def synthesizer() -> Audit:
    """What Figures 1 and 2 show: the multinomial at the posterior mean, not the posterior predictive of eq. (1)."""
    return audit(PosteriorMeanMultinomial(prior=PRIOR, rows=ROWS), records=RECORDS)


@cache
def predictive() -> Audit:
    """What eq. (1) defines."""
    return audit(DirichletMultinomial(prior=PRIOR, rows=ROWS), records=RECORDS)


@cache
def sanitizer() -> Audit:
    """What Figures 3 and 4 show: the first count plus Laplace noise of scale 1/epsilon, rounded and cut to 0..5."""
    return audit(RoundedLaplace(scale=1 / EPSILON), records=RECORDS)


def _probability(which: str, row: int, column: int) -> float:
    exact = synthesizer() if which == "synthesizer" else sanitizer()
    return float(exact.matrix[row, column])


def _log_odds(which: str, row: int, column: int) -> float:
    exact = synthesizer() if which == "synthesizer" else sanitizer()
    return float(exact.log_odds[row, column])


def _breach(convention: str, *, exact: Audit | None = None) -> float:
    result = synthesizer() if exact is None else exact
    if convention == "definition_6":
        return float(result.breach_probability(EPSILON))
    if convention == "abowd_vilhuber":
        return float(result.breach_probability(EPSILON, "abowd_vilhuber"))
    return float(result.breach_probability(EPSILON, "prior_averaged", prior="multinomial"))


def _bad_cells() -> float:
    return float((synthesizer().log_odds > EPSILON).sum())


def _cited_epsilon() -> float:
    return 4.6 + math.log(1 / 0.0378) + math.log(2)


@papers.add
def av() -> Computations:
    computations: dict[tuple[str, str], Compute] = {}
    for figure, which in (("Fig. 1", "synthesizer"), ("Fig. 3", "sanitizer")):
        for row in range(RECORDS + 1):
            for column in range(ROWS + 1):
                cell = f"n1={row} m1={column}"
                computations[figure, cell] = partial(_probability, which, row, column)
    for figure, which in (("Fig. 2", "synthesizer"), ("Fig. 4", "sanitizer")):
        for row in range(RECORDS):
            for column in range(ROWS + 1):
                cell = f"n1={row} or {row + 1} m1={column}"
                computations[figure, cell] = partial(_log_odds, which, row, column)
    computations["Section 4.1", "cells above 2"] = _bad_cells
    for convention in ("abowd_vilhuber", "definition_6", "prior_averaged"):
        computations["Section 4.1", f"delta at epsilon 2, {convention}"] = partial(_breach, convention)
    computations["Section 4.1", "delta at epsilon 2, definition_6 of eq. (1)"] = lambda: _breach(
        "definition_6", exact=predictive()
    )
    computations["Section 4.1", "largest log odds of eq. (1)"] = lambda: predictive().epsilon
    computations["Section 5", "epsilon of Machanavajjhala et al."] = _cited_epsilon
    return computations


def all_figures(full: bool) -> Drawing:  # noqa: ARG001 - nothing here takes long
    """Figures 1 to 4, printed beside computed."""
    import pyarrow as pa

    computations = av()
    rows = []
    for entry in listed_items():
        if entry["paper"] == "av" and entry["item"].startswith("Fig."):
            row, _, column = entry["cell"].rpartition(" ")
            rows.append({
                "figure": entry["item"], "row": row, "column": column, "published": float(entry["published"]),
                "computed": float(computations[entry["item"], entry["cell"]]()),  # type: ignore[arg-type]
            })  # fmt: skip
    return printed_matrices(pa.Table.from_pylist(sorted(rows, key=lambda one: one["figure"])))


pictures["av"] = all_figures
