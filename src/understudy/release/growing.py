"""The next version of a release: with one more noisy table, which somebody paid for after the release was made.

Everything here is post-processing of what left the gate. The new table stands beside the old ones with its own law, so
``infer`` uses all of them together. Rows are drawn again from a model of all tables where the release has a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.engines.reading.decode import decode
from understudy.errors import InputError, UnderstudyError
from understudy.privacy.promise.amplification import is_of_population
from understudy.privacy.promise.plan import Plan
from understudy.release.checks import sum_of_budgets
from understudy.release.statement import Addition
from understudy.release.table_release import Release
from understudy.synth.shared.found_columns import after_finding
from understudy.synth.shared.method import configure

ROWS_KEPT = "The rows are those of the version before: this method does not draw them from all noisy tables."
ROWS_AGAIN = "The rows were drawn again from a model of all noisy tables, those that joined later too."


def require_growing(release: Release) -> Plan:
    """The plan of a release that something can join; refused without noisy tables, or where guarantees do not add."""
    plan = release.provenance.plan
    if plan is None or not release.measurements:
        raise InputError(
            "this release states no noisy tables of its own, so nothing can join it. Serve a release by histogram, "
            "ipf, independent, one_look, mst or aim."
        )
    sum_of_budgets([plan.budget])
    return plan


def add_measurement(
    release: Release,
    measurement: Measurement,
    *,
    plan: Plan,
    ledger: Mapping[str, Any],
    stream: Stream | None = None,
) -> Release:
    """The release with one more measurement. With a ``stream`` its rows are drawn again, where there is a model."""
    first = require_growing(release).budget
    provenance = release.provenance
    added = (*provenance.added, Addition(plan=plan, ledger=ledger))
    notes = tuple(note for note in provenance.notes if not is_of_population(note))  # is not true of what joins
    grown = replace(
        release,
        measurements=(*release.measurements, measurement),
        statement=replace(
            release.statement,
            guarantee=sum_of_budgets([first, *(one.plan.budget for one in added)]),
        ),
        provenance=replace(provenance, added=added, events=(*provenance.events, *plan.events), notes=notes),
    )
    return grown if stream is None else _rows_again(grown, stream)


def _rows_again(release: Release, stream: Stream) -> Release:
    """The same release with rows from a model of all its tables; with its old rows where there is none."""
    provenance = release.provenance
    notes = tuple(note for note in provenance.notes if note not in (ROWS_KEPT, ROWS_AGAIN))
    plan = provenance.plan
    if plan is None or release.fitted is None:
        return replace(release, provenance=replace(provenance, notes=(*notes, ROWS_KEPT)))
    try:
        method: Any = configure(plan.method, plan.options)
        rest = after_finding(plan, release.schema)
        made = method.redraw(rest, release.schema, release.measurements, provenance.records, stream)
    except UnderstudyError:  # a model of all tables may be too large; the tables themselves are in the release
        return replace(release, provenance=replace(provenance, notes=(*notes, ROWS_KEPT)))
    return replace(
        release,
        tables=tuple(decode(table, stream, "decode", copy) for copy, table in enumerate(made.tables, start=1)),
        fitted=made.fitted,
        provenance=replace(provenance, notes=(*notes, ROWS_AGAIN)),
    )
