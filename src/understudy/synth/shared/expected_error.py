"""How wrong two-way tables would be on average under a plan: public facts and one assumption, never the data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from understudy.core.schema import Schema
from understudy.privacy.promise.plan import Step

ASSOCIATION = 200.0  # prior records for independence that survey tables needed (S5, S7); see docs/theory/margins.md


def expected_error(schema: Schema, steps: Sequence[Step], size: int) -> float:
    """Expected squared error over the cells of all two-way tables of ``size`` records, after the regularised fit.

    Every cell of a table of c cells is taken to depart from independence with variance size^2 / (c r), r the usual
    number of prior records. Noise of variance v leaves the part v / (tau^2 + v) of that unknown; a table that is not
    measured leaves all of it. To that comes the error of the one-way margins, each averaged over all noisy tables that
    have it.
    """
    variances = {step.margin: (step.standard_deviation or 0.0) ** 2 for step in steps if step.margin}
    one_way: dict[str, float] = {}
    for name in schema.names:
        precision = sum(
            schema[name].size / (variance * schema.cells(margin))
            for margin, variance in variances.items()
            if name in margin and variance > 0
        )
        one_way[name] = 1 / precision if precision > 0 else float(size) ** 2
    error = 0.0
    for first, second in combinations(schema.names, 2):
        pair, left, right = (first, second), schema[first].size, schema[second].size
        departure = float(size) ** 2 / (schema.cells(pair) * ASSOCIATION)
        known = variances.get(pair)
        unknown = departure if known is None else departure * known / (departure + known)
        error += left * right * unknown + one_way[first] * left / right + one_way[second] * right / left
    return error
