"""One run for commutes, from a reviewed plan to a release: the same order and the same promises as for tables.

Drawn tables go straight into files of the run folder (see privacy.flow_gate), and from there into the release.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from understudy.core.arrays import Progress
from understudy.core.flows import FlowSource
from understudy.core.mechanism import Stream
from understudy.core.places import DESTINATION, Places
from understudy.engines.reading.commutes import open_commutes
from understudy.engines.reading.places_file import read_places
from understudy.errors import InputError
from understudy.privacy.gate.flow_gate import FlowGate
from understudy.privacy.promise.plan import Plan
from understudy.privacy.randomness.fingerprint import DataKey
from understudy.privacy.randomness.streams import SecureStream
from understudy.release.commute_sink import ParquetSink
from understudy.release.commutes import CommuteRelease, write_commutes
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
from understudy.synth.commutes.base import FlowSynthesis, FlowSynthesizer, flow_synthesizers
from understudy.synth.shared.method import configure_from


def configure_flows(plan: Plan) -> FlowSynthesizer:
    made: FlowSynthesizer = configure_from(flow_synthesizers, plan.method, plan.options)
    return made


def start_commute_run(
    source: FlowSource,
    plan: Plan,
    destination: Destination,
    *,
    stream: Stream,
    progress: Progress | None = None,
    reviewed: bool = True,
) -> CommuteRelease:
    """Carry out a plan. Refused runs charge nothing, draw nothing and leave nothing behind.

    A ``reviewed`` plan comes from elsewhere, so it must be the one that its method would make.
    """
    places = source.places
    if plan.schema_fingerprint != places.fingerprint:
        raise InputError("the plan was made for other places than the ones the commutes were opened with.")
    if reviewed:  # a plan that was made for this very run needs no second making
        require_same(configure_flows(plan).plan(places, request_of(plan)), plan)
    destination.check_free()
    ledger = open_ledger(destination, plan, stream)
    run = begin(plan, destination, stream, DataKey.beside(stream), kind=COMMUTES, places=places.fingerprint)
    gate = FlowGate(source=source, places=places, plan=plan, stream=stream, journal=run.journal, progress=progress)

    def check() -> None:
        gate.look_ahead()
        if DESTINATION in plan.unit.fixed:  # what public sizes make impossible is refused before the charge
            check_sizes = getattr(configure_flows(plan), "check_sizes", None)
            if check_sizes is not None:
                check_sizes(plan, places, gate.sizes())

    charge = run.charge_after(check, source, ledger)
    return _finish(run, places, gate=gate, stream=stream, charge=charge)


def resume_commute_run(
    folder: Path,
    *,
    places: Places | None,
    source: Callable[[Places], FlowSource] | None,
    out: Path | None,
    stream: Stream,
    progress: Progress | None = None,
) -> CommuteRelease:
    """Finish a run that died after its charge. Its public places are given again; data only if not all was drawn."""
    run, journal, header, finished = find(folder, out)
    if finished is not None:
        release: CommuteRelease = finished
        return release
    if places is None:
        raise InputError("this run is of commutes: give its public places again (--places FILE).")
    if places.fingerprint != str(header.get("places")):
        raise InputError("these are not the places the run was started with.")
    require_domain(run, places.fingerprint)
    run.destination.check_free()
    opened = None if source is None else source(places)
    if opened is not None:
        require_same_data(run, journal, opened)
    charge = charge_of(run, journal)
    gate = FlowGate(source=opened, places=places, plan=run.plan, stream=stream, journal=journal, progress=progress)
    return _finish(run, places, gate=gate, stream=stream, charge=charge)


def resume_commutes(
    run: Path,
    *,
    source: Any,
    places: Any,
    out: str | Path | None,
    progress: Progress | None = None,
    **reading: Any,
) -> CommuteRelease:
    """The same from what a user has: files or frames of places and commutes."""
    given = {name: value for name, value in reading.items() if value}
    return resume_commute_run(
        run,
        places=None if places is None else read_places(places),
        source=None if source is None else lambda known: open_commutes(source, places=known, **given),
        out=None if out is None else Path(out),
        stream=SecureStream(),
        progress=progress,
    )


def _finish(run: Run, places: Places, *, gate: FlowGate, stream: Stream, charge: Charge) -> CommuteRelease:
    plan, destination, journal = run.plan, run.destination, run.journal
    keeper = TemporaryDirectory(prefix="understudy-") if destination.out is None or journal is None else None
    folder = journal.folder if journal is not None else Path(keeper.name if keeper else ".")
    sink = ParquetSink(folder, places)
    with run.kept_if_it_fails(" --places FILE"):
        synthesis = configure_flows(plan).run(plan, places, gate, stream, sink)
        release = _release(plan, places, gate, synthesis, sink, stream=stream, charge=charge)
        if destination.out is not None:
            write_commutes(release, destination.out, overwrite=destination.overwrite, csv=destination.csv, link=True)
    if destination.out is not None:
        written: Any = replace(
            release,
            files=tuple(destination.out / f"synthetic_{copy}.parquet" for copy in range(1, plan.copies + 1)),
        )
    else:
        assert keeper is not None  # noqa: S101 - made above
        files = []
        for copy in range(1, plan.copies + 1):
            target = Path(keeper.name) / f"drawn_{copy}.parquet"
            if sink.path(copy) != target:
                shutil.move(sink.path(copy), target)
            files.append(target)
        written = replace(release, files=tuple(files), keeper=keeper)
    if journal is not None:
        journal.discard()
    result: CommuteRelease = written
    return result


def _release(
    plan: Plan,
    places: Places,
    gate: FlowGate,
    synthesis: FlowSynthesis,
    sink: ParquetSink,
    *,
    stream: Stream,
    charge: Charge,
) -> CommuteRelease:
    return CommuteRelease(
        places=places,
        files=tuple(sink.path(copy) for copy in range(1, plan.copies + 1)),
        measurements=synthesis.measurements,
        statement=state_promise(plan, stream, charge),
        provenance=record_run(plan, gate, synthesis, synthesis.draws),
    )
