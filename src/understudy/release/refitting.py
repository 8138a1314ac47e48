"""Making a release again from other rows: inside the building, charged to nobody, and never written.

The plan is made anew for the number of rows, and run with repeatable randomness. What comes out states "no guarantee",
so that it cannot pass for a release even if it were kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import pyarrow as pa

from understudy.core.schema import Schema
from understudy.engines.opening import open_source
from understudy.errors import InputError, UnknownNameError, UnsupportedError
from understudy.privacy.promise.definition import PureDP, Unit
from understudy.privacy.randomness.streams import SeededStream
from understudy.release.run import Destination, start_run
from understudy.release.table_release import Release
from understudy.synth.shared.found_columns import plan_finding
from understudy.synth.shared.method import Request, configure


def refitting(release: Release) -> dict[str, Any]:
    """How a release can be made again: ``refit``, a function of rows and of a number for its draws; or ``no_refit``."""
    plan = release.provenance.plan
    if plan is None:
        return {"no_refit": "there is no holdout, and the release was not made here, so it cannot be made again"}
    if plan.unit.unit_id is not None or plan.unit.rows_per_unit > 1:
        return {"no_refit": "there is no holdout, and persons have several rows, which random halves would separate"}
    try:
        configure(plan.method, plan.options)
    except (InputError, UnsupportedError, UnknownNameError) as problem:
        return {"no_refit": f"there is no holdout, and its method cannot be run again here ({problem})"}

    def refit(rows: pa.Table, number: int) -> Release:
        request = Request(
            budget=plan.budget,
            unit=plan.unit,
            copies=plan.copies,
            rows=None if plan.rows is None else max(plan.rows // 2, 1),
            records=None if plan.records is None else rows.num_rows,
        )
        declared = release.schema.declared
        again = plan_finding(configure(plan.method, plan.options).plan, declared, request)
        source = open_source(rows, declared)
        made: Release = start_run(source, again, Destination(), stream=SeededStream(number))
        return made

    return {"refit": refit}


def synthesizing(
    rows: pa.Table, schema: Schema, method: str, options: Mapping[str, str]
) -> Callable[[str, float], Release]:
    """A function that synthesizes rows by a method at some epsilon, for comparison: as many rows, and the unit replace.

    It is first checked that the method can do that; if not, nothing is computed.
    """

    def planned(name: str, epsilon: float) -> Any:
        budget = PureDP(epsilon=Fraction(epsilon).limit_denominator(10**6))
        request = Request(budget=budget, unit=Unit(kind="replace"), records=rows.num_rows)
        return plan_finding(configure(name, options).plan, schema, request)

    try:
        planned(method, 1.0)
    except (InputError, UnsupportedError) as problem:
        raise UnsupportedError(f"'{method}' cannot be put beside this release; leave it out. {problem}") from None

    def synthesize(name: str, epsilon: float) -> Release:
        source = open_source(rows, schema)
        made: Release = start_run(source, planned(name, epsilon), Destination(), stream=SeededStream(0))
        return made

    return synthesize
