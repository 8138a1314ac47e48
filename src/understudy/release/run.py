"""One run, from a reviewed plan to a release: refuse early, charge, draw, journal, publish.

The order is the promise. Everything that can be refused is refused before the charge; the charge comes before the
first draw; every noisy value is on disk before it is used; the folder appears whole. A run that dies after the charge
is finished by ``resume`` from its run folder, without new noise for what was measured and without a new charge.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from understudy.core.counts import Source
from understudy.core.mechanism import Stream
from understudy.core.schema import Schema
from understudy.core.schema_file import parse_schema, write_schema
from understudy.engines.decode import decode
from understudy.errors import BudgetError, InputError, UnderstudyError
from understudy.privacy.accountant import compose, state
from understudy.privacy.definition import NonPrivate
from understudy.privacy.gate import Gate, Progress
from understudy.privacy.journal import Journal
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Plan, plan_from_json
from understudy.release.folder import read_release
from understudy.release.value import TEST_RANDOMNESS, Provenance, Release, Statement
from understudy.synth.base import Request, Synthesis, configure

RUN_MARK = ".partial-"
BYTES_PER_VALUE = 10  # a decoded value and its code
BYTES_PER_ROW = 48  # the cell of a row while rows are drawn and shuffled


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a release goes, and which account pays."""

    out: Path | None = None
    overwrite: bool = False
    csv: bool = False
    ledger: Path | None = None
    account: str | None = None

    def __post_init__(self) -> None:
        if (self.ledger is None) != (self.account is None):
            raise InputError("a ledger needs an account, and an account a ledger; give both or neither.")

    def to_json(self) -> dict[str, Any]:
        return {
            "out": None if self.out is None else str(self.out.absolute()), "overwrite": self.overwrite, "csv": self.csv,
            "ledger": None if self.ledger is None else str(self.ledger.absolute()), "account": self.account,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Destination:
        paths = {key: None if data[key] is None else Path(data[key]) for key in ("out", "ledger")}
        return cls(**paths, overwrite=data["overwrite"], csv=data["csv"], account=data["account"])

    def check_free(self) -> None:
        """Refuses a target that is taken, before anything is charged."""
        if self.out is not None and self.out.exists() and not self.overwrite:
            raise InputError(f"{self.out} already exists; choose another folder, or say overwrite.")
        if self.out is not None and self.out.exists() and not (self.out / "manifest.json").is_file():
            raise InputError(f"{self.out} exists and is not a release folder; it will not be overwritten.")

    def run_folder(self, run: str) -> Path | None:
        """The journal lies beside what it belongs to: the release folder, or else the ledger."""
        place = self.out if self.out is not None else self.ledger
        return None if place is None else place.with_name(f"{place.name}{RUN_MARK}{run}")


def start_run(
    source: Source, plan: Plan, destination: Destination, *, stream: Stream, progress: Progress | None = None
) -> Release:
    """Carry out a plan. Refused runs charge nothing, draw nothing and leave nothing behind."""
    schema = source.schema
    if plan.schema_fingerprint != schema.fingerprint:
        raise InputError("the plan was made for another schema than the one the data were opened with.")
    _check_plan(plan, schema)
    destination.check_free()
    ledger = open_ledger(destination, plan, stream)
    source = _bounded(source, plan, stream)
    run = secrets.token_hex(8)
    folder = destination.run_folder(run)
    journal = None
    if folder is not None:
        header = {
            "run": run, "plan": plan.to_json(), "schema": write_schema(schema),
            "destination": destination.to_json(), "secure": stream.secure,
        }  # fmt: skip
        journal = Journal.create(folder, header)
    gate = Gate(source=source, schema=schema, plan=plan, stream=stream, journal=journal, progress=progress)
    try:
        gate.look_ahead()
        _check_memory(plan, schema, gate)
        charge = reserve(ledger, destination, plan, run)
    except BaseException:
        if journal is not None:
            journal.discard()
        raise
    if journal is not None:
        journal.append("charged", {"ledger": charge})
    return _finish(plan, schema, destination, gate=gate, stream=stream, journal=journal, charge=charge)


def is_of_commutes(folder: Path) -> bool:
    """Whether a run folder belongs to a run for commutes."""
    return Journal.open(folder).header.get("kind") == "commutes"


def resume_run(
    folder: Path,
    *,
    source: Callable[[Schema], Source] | None,
    out: Path | None,
    stream: Stream,
    progress: Progress | None = None,
) -> Release:
    """Finish a run that died after its charge, from its run folder. Values already measured are never drawn again."""
    journal = Journal.open(folder)
    try:
        header = journal.header
        plan = plan_from_json(header["plan"])
        schema = parse_schema(header["schema"], str(folder))
        destination = Destination.from_json(header["destination"])
        run, secure = str(header["run"]), bool(header["secure"])
    except (KeyError, TypeError) as problem:
        raise InputError(f"{folder} is not the folder of a run ({type(problem).__name__}).") from None
    if not secure:
        raise InputError("this run used test randomness; start it again instead of resuming it.")
    finished = _finished(destination, run)
    if finished is not None:
        journal.discard()
        return finished
    if out is not None:
        destination = Destination.from_json({**destination.to_json(), "out": str(out)})
    destination.check_free()
    charged = [entry.payload["ledger"] for entry in journal.entries() if entry.kind == "charged"]
    opened = None if source is None else _bounded(source(schema), plan, stream)
    if charged:
        charge = charged[0]
    else:  # it died around the charge; the ledger knows whether it was made, and charges one run only once
        ledger = None if destination.ledger is None else Ledger.open(destination.ledger)
        charge = reserve(ledger, destination, plan, run)
        journal.append("charged", {"ledger": charge})
    gate = Gate(source=opened, schema=schema, plan=plan, stream=stream, journal=journal, progress=progress)
    return _finish(plan, schema, destination, gate=gate, stream=stream, journal=journal, charge=charge)


def _check_plan(plan: Plan, schema: Schema) -> None:
    """Refuses, before the charge, a plan that its method would not make: the gate would refuse it after the charge."""
    request = Request(budget=plan.budget, unit=plan.unit, copies=plan.copies, rows=plan.rows, records=plan.records)
    made = configure(plan.method, plan.options).plan(schema, request)
    if replace(made, notes=()).hash != replace(plan, notes=()).hash:  # notes are for people, and may say more
        raise InputError(
            f"this plan is not what method '{plan.method}' plans for its budget, unit and options: it was changed, or "
            "made by another version of this program. Make it again, and have it reviewed."
        )


def _finished(destination: Destination, run: str) -> Release | None:
    """The release of a run that died between publishing it and removing its journal."""
    if destination.out is None or not (destination.out / "manifest.json").is_file():
        return None
    release = read_release(destination.out)
    return release if (release.statement.ledger or {}).get("run") == run else None


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


def open_ledger(destination: Destination, plan: Plan, stream: Stream) -> Ledger | None:
    if destination.ledger is None or destination.account is None:
        return None
    if not stream.secure:
        raise InputError("a test stream gives no guarantee and cannot be charged to a ledger.")
    ledger = Ledger.open(destination.ledger)
    ledger.check(destination.account, unit=plan.unit, cost=plan.budget)
    return ledger


def reserve(ledger: Ledger | None, destination: Destination, plan: Plan, run: str) -> dict[str, Any] | None:
    if ledger is None or destination.account is None:
        return None
    entry = ledger.reserve(
        destination.account, run=run, plan_hash=plan.hash, unit=plan.unit, cost=plan.budget, method=plan.method
    )
    return entry.block


def _bounded(source: Source, plan: Plan, stream: Stream) -> Source:
    if plan.unit.unit_id is None:
        return source
    bounded: Source = source.bounded(plan.unit, stream)  # type: ignore[attr-defined]
    return bounded


def _finish(
    plan: Plan,
    schema: Schema,
    destination: Destination,
    *,
    gate: Gate,
    stream: Stream,
    journal: Journal | None,
    charge: dict[str, Any] | None,
) -> Release:
    try:
        synthesis = configure(plan.method, plan.options).run(plan, schema, gate, stream)
        if plan.adaptive and charge is not None and destination.ledger is not None:
            spent = state(compose(gate.events, plan.unit), plan.budget)
            Ledger.open(destination.ledger).settle(run=charge["run"], spent=spent)
        release = _release(plan, schema, gate, synthesis, stream=stream, charge=charge)
        if destination.out is not None:
            release.write(destination.out, overwrite=destination.overwrite, csv=destination.csv)
    except UnderstudyError as problem:
        if journal is None:
            raise
        kept = f"The run is kept in {journal.folder}; finish it with: understudy resume {journal.folder}"
        raise type(problem)(f"{problem}\n{kept}") from None
    if journal is not None:
        journal.discard()
    return release


def _release(
    plan: Plan, schema: Schema, gate: Gate, synthesis: Synthesis, *, stream: Stream, charge: dict[str, Any] | None
) -> Release:
    from understudy import __version__

    if not plan.adaptive and gate.events != plan.events:
        raise BudgetError("the run did not do everything its plan announced; no release was made.")
    guarantee = plan.budget if stream.secure else NonPrivate()
    warnings = (*(() if stream.secure else (TEST_RANDOMNESS,)), *synthesis.warnings)
    return Release(
        schema=schema,
        tables=tuple(decode(table, stream, "decode", copy) for copy, table in enumerate(synthesis.tables, start=1)),
        measurements=synthesis.measurements,
        # Without a guarantee the model may repeat exact counts, which are never published.
        fitted=None if isinstance(plan.budget, NonPrivate) else synthesis.fitted,
        statement=Statement(unit=plan.unit, guarantee=guarantee, ledger=charge, warnings=warnings),
        provenance=Provenance(
            method=plan.method,
            package_version=__version__,
            plan=plan,
            events=gate.events,
            draws=tuple(
                {"label": d.label, "margin": list(d.margin), "mechanisms": list(d.mechanisms)} for d in synthesis.draws
            ),
            rows_drawn=synthesis.rows_drawn,
            copies_share_measurements=synthesis.copies_share_measurements,
            notes=(*plan.notes, *synthesis.notes),
            records=gate.records if plan.unit.public_total else None,
        ),
    )
