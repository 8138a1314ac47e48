"""One run, from a reviewed plan to a release: refuse early, charge, draw, journal, publish.

The order is the promise. Everything that can be refused is refused before the charge; the charge comes before the
first draw; every noisy value is on disk before it is used; the folder appears whole. A run that dies after the charge
is finished by ``resume`` from its run folder, without new noise for what was measured and without a new charge.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

from understudy.core.arrays import Progress
from understudy.core.counts import Source
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.core.schema_file import parse_schema, write_schema
from understudy.engines.reading.decode import decode
from understudy.errors import InputError, RowsLeftOutWarning
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.journal import Journal
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.promise.accountant import compose, state
from understudy.privacy.promise.definition import NonPrivate
from understudy.privacy.promise.plan import Plan
from understudy.privacy.promise.sanity import require_sane_for
from understudy.privacy.randomness.fingerprint import DataKey
from understudy.release.lifecycle import (
    Charge,
    Destination,
    Run,
    begin,
    charge_of,
    find,
    open_ledger,
    record_run,
    request_of,
    require_domain,
    require_same,
    require_same_data,
    state_promise,
)
from understudy.release.manifest import COMMUTES
from understudy.release.value import Release
from understudy.synth.shared.method import Synthesis, configure

BYTES_PER_VALUE = 10  # a decoded value and its code
BYTES_PER_ROW = 48  # the cell of a row while rows are drawn and shuffled


def start_run(
    source: Source,
    plan: Plan,
    destination: Destination,
    *,
    stream: Stream,
    progress: Progress | None = None,
    reviewed: bool = True,
    i_know: bool = False,
) -> Release:
    """Carry out a plan. Refused runs charge nothing, draw nothing and leave nothing behind.

    A ``reviewed`` plan comes from elsewhere, so it must be the one that its method would make. A delta above one in n
    is refused unless ``i_know``.
    """
    schema = source.schema
    if plan.schema_fingerprint != schema.fingerprint:
        raise InputError("the plan was made for another schema than the one the data were opened with.")
    if reviewed:  # a plan that was made for this very run needs no second making
        require_same(configure(plan.method, plan.options).plan(schema, request_of(plan)), plan)
    destination.check_free()
    ledger = open_ledger(destination, plan, stream)
    data_key = DataKey.beside(stream)
    source = _bounded(source, plan, data_key)
    run = begin(plan, destination, stream, data_key, schema=write_schema(schema))
    gate = Gate(source=source, schema=schema, plan=plan, stream=stream, journal=run.journal, progress=progress)

    def check() -> None:
        gate.look_ahead()
        if plan.unit.public_total:
            if gate.records == 0:
                raise InputError("the data have no rows (a line of column names alone?); there is nothing to release.")
            if not i_know:
                require_sane_for(plan.budget, gate.records)
        _check_memory(plan, schema, gate)

    charge = run.charge_after(check, source, ledger)
    return _finish(run, schema, gate=gate, stream=stream, charge=charge)


def is_of_commutes(folder: Path) -> bool:
    """Whether a run folder belongs to a run for commutes."""
    return Journal.open(folder).header.get("kind") == COMMUTES


def resume_run(
    folder: Path,
    *,
    source: Callable[[Schema], Source] | None,
    out: Path | None,
    stream: Stream,
    progress: Progress | None = None,
) -> Release:
    """Finish a run that died after its charge, from its run folder. Values already measured are never drawn again."""
    run, journal, header, finished = find(folder, out)
    if finished is not None:
        release: Release = finished
        return release
    if "schema" not in header:
        raise InputError(f"{folder} is not the folder of a run (it names no schema).")
    schema = parse_schema(header["schema"], str(folder))
    require_domain(run, schema.fingerprint)
    run.destination.check_free()
    opened = None if source is None else _bounded(source(schema), run.plan, run.data_key)
    if opened is not None:
        require_same_data(run, journal, opened)
    charge = charge_of(run, journal)
    gate = Gate(source=opened, schema=schema, plan=run.plan, stream=stream, journal=journal, progress=progress)
    return _finish(run, schema, gate=gate, stream=stream, charge=charge)


def available_memory() -> int:
    """Bytes a new table may take: what Linux calls available (file caches give way), else all there is."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _check_memory(plan: Plan, schema: Schema, gate: Gate) -> None:
    """Refuses, before the charge, a release that could not be held in memory."""
    rows = plan.rows if plan.rows is not None else gate.records if plan.unit.public_total else 0
    needed = rows * (plan.copies * len(schema.names) * BYTES_PER_VALUE + BYTES_PER_ROW)
    available = available_memory()
    if needed > available:
        raise InputError(
            f"{plan.copies} table(s) of {rows:,} rows need about {needed / 2**30:.1f} GB of memory, and "
            f"{available / 2**30:.1f} GB are available. Ask for fewer rows or copies. Nothing was charged."
        )


def _bounded(source: Source, plan: Plan, data_key: DataKey) -> Source:
    """At most b rows of each unit; chosen by the key of the run's data, so that a resumed run keeps the same."""
    if plan.unit.unit_id is None:
        return source
    bounded: Source = source.bounded(plan.unit, data_key.bounding())  # type: ignore[attr-defined]
    if left_out := getattr(bounded, "rows_left_out", 0):
        warnings.warn(
            f"internal: {left_out:,} row(s) were left out, because their unit has more than {plan.unit.rows_per_unit}. "
            "The number is confidential; the release does not hold it.",
            RowsLeftOutWarning,
            stacklevel=2,
        )
    return bounded


def _finish(run: Run, schema: Schema, *, gate: Gate, stream: Stream, charge: Charge) -> Release:
    plan, destination = run.plan, run.destination
    with run.kept_if_it_fails():
        synthesis = configure(plan.method, plan.options).run(plan, schema, gate, stream)
        if plan.adaptive and charge is not None and destination.ledger is not None:
            spent = state(compose(gate.events, plan.unit, by=plan.by), plan.budget)
            Ledger.open(destination.ledger).settle(run=charge["run"], spent=spent)
        release = _release(plan, schema, gate, synthesis, stream=stream, charge=charge)
        if destination.out is not None:
            release.write(destination.out, overwrite=destination.overwrite, csv=destination.csv)
    if run.journal is not None:
        run.journal.discard()
    return release


def _release(
    plan: Plan, schema: Schema, gate: Gate, synthesis: Synthesis, *, stream: Stream, charge: Charge
) -> Release:
    draws = tuple(draw.to_json() for draw in synthesis.draws)
    return Release(
        schema=schema,
        provenance=record_run(plan, gate, synthesis, draws),
        statement=state_promise(plan, stream, charge, synthesis.warnings),
        tables=tuple(decode(table, stream, "decode", copy) for copy, table in enumerate(synthesis.tables, start=1)),
        measurements=synthesis.measurements,
        # Without a guarantee the model may repeat exact counts, which are never published.
        fitted=None if isinstance(plan.budget, NonPrivate) else synthesis.fitted,
    )
