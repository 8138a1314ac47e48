"""More rows from a release that was measured: post-processing of what is public, so it costs no privacy."""

from __future__ import annotations

from dataclasses import replace

from understudy.core.mechanism import Stream
from understudy.engines.decode import decode
from understudy.errors import InputError, UnsupportedError
from understudy.release.value import Release
from understudy.synth.base import Request, configure


def sample_again(release: Release, *, rows: int, copies: int, stream: Stream) -> Release:
    """A release with the same promise and measurements, and new tables of any size drawn from them.

    Refused where the rows were drawn from the data themselves (``dirichlet``): there the posterior is the data, and
    another draw is another charge.
    """
    plan = release.provenance.plan
    if plan is None:
        raise InputError("this release was not made by understudy; nothing says how to draw from it.")
    request = Request(budget=plan.budget, unit=plan.unit, copies=copies, rows=rows)
    synthesizer = configure(plan.method, plan.options)
    if not hasattr(synthesizer, "again") or not release.measurements:
        raise UnsupportedError(
            f"rows of method '{plan.method}' are drawn from the data themselves, so another draw is another charge: "
            "make another release with synthesize."
        )
    if plan.unit.fixed and plan.method != "histogram":
        raise UnsupportedError(
            "the exact counts of fixed attributes were used and are not part of the release; make another release."
        )
    wanted = replace(plan, rows=request.rows, copies=request.copies)
    made = synthesizer.again(wanted, release.schema, release.measurements, release.provenance.records, stream)
    return replace(
        release,
        tables=tuple(decode(table, stream, "decode", copy) for copy, table in enumerate(made.tables, start=1)),
        provenance=replace(release.provenance, notes=(*plan.notes, *made.notes, "Drawn again from its measurements.")),
    )
