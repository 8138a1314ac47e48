"""One run, from a reviewed plan to a release of any kind: refuse early, charge, draw, journal, publish.

The order of the steps matters. Everything that can be refused is refused before the charge; the charge comes before the
first draw and is journaled; every noisy value is on disk before it is used; the folder appears whole. A run that dies
after the charge is finished by ``resume`` from its run folder, without new noise for what was measured and without a
new charge. A resumed run must be the one that the ledger knows, with the data it was started with
(docs/theory/ledger.md).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from understudy.core.arrays import Progress
from understudy.core.counts import Recognizable
from understudy.core.folders import RELEASE_MARK, check_target, release_above
from understudy.core.mechanism import Stream
from understudy.errors import BudgetError, InputError, UnderstudyError, UnsupportedError
from understudy.privacy.gate.charge_first import ChargingGate
from understudy.privacy.gate.journal import Journal
from understudy.privacy.ledger.choosing import BY_NAME
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.promise.accountant import compose, state
from understudy.privacy.promise.definition import Definition, NonPrivate, Unit
from understudy.privacy.promise.plan import Plan, plan_from_json
from understudy.privacy.randomness.fingerprint import DataKey
from understudy.privacy.randomness.sampler_health import require_healthy_samplers
from understudy.release.folder import read_release, require_replaceable
from understudy.release.kind import AnyKind, Workshop, kind_of_source, kind_stated
from understudy.release.statement import TEST_RANDOMNESS, Provenance, Statement
from understudy.synth.shared.method import Request

RUN_MARK = ".partial-"
OTHER_ROWS = (
    "these are not the data the run was started with: their rows differ (their order may differ, and how they are "
    "divided into files). Give the same data, read in the same way, or start a new run."
)
Charge = dict[str, Any] | None


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
            "ledger": self._ledger_named(), "account": self.account,
        }  # fmt: skip

    def _ledger_named(self) -> str | None:
        """A file by its whole path, and a ledger that the environment names by that name."""
        if self.ledger is None or str(self.ledger).startswith(BY_NAME):
            return None if self.ledger is None else str(self.ledger)
        return str(self.ledger.absolute())

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Destination:
        paths = {key: None if data[key] is None else Path(data[key]) for key in ("out", "ledger")}
        return cls(**paths, overwrite=data["overwrite"], csv=data["csv"], account=data["account"])

    def check_free(self) -> None:
        """Refuses a target that is taken or lies in another release, before anything is charged."""
        if self.out is None:
            return
        check_target(self.out, require_replaceable if self.overwrite else None)
        if (inside := release_above(self.out.absolute().parent)) is not None:
            raise InputError(
                f"{self.out} lies in the release folder {inside}, which holds nothing but its own files; choose "
                "another place."
            )

    def run_folder(self, run: str) -> Path | None:
        """The journal lies beside what it belongs to: the release folder, or else the ledger."""
        place = self.out if self.out is not None else self.ledger
        return None if place is None else place.with_name(f"{place.name}{RUN_MARK}{run}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """A run in progress: its name, and its journal if there is a folder for it."""

    name: str
    plan: Plan
    destination: Destination
    journal: Journal | None
    data_key: DataKey

    def charge_after(self, check: Callable[[], None], source: Any, ledger: Ledger | None) -> Charge:
        """Check what can still be refused, then charge; a refusal removes every trace of the run.

        The fingerprint of the data is noted before the charge: from then on only the same data can finish the run.
        """
        try:
            if self.journal is not None:
                if not isinstance(source, Recognizable):
                    raise UnsupportedError(
                        f"a run that can be resumed has to know its data again, and {type(source).__name__} has no "
                        "identify() and fingerprint(); open the data with open_source or open_commutes."
                    )
                source.identify(self.data_key.fingerprint_key())
            check()
            if self.journal is not None:
                self.journal.append("data", {"fingerprint": source.fingerprint()})
            charge = _reserve(ledger, self)
        except BaseException:
            if self.journal is not None:
                self.journal.discard()
            raise
        self.follow(ledger)
        if self.journal is not None:
            self.journal.append("charged", {"ledger": charge})
        return charge

    def follow(self, ledger: Ledger | None) -> None:
        """From now on the ledger follows the journal: no answer is handed out before the ledger knows of it."""
        if self.journal is not None and ledger is not None:
            self.journal.follow(lambda known, head: ledger.advance(run=self.name, known=known, head=head))

    @contextmanager
    def kept_if_it_fails(self, needs: str = "") -> Iterator[None]:
        """If a problem comes after the charge, says how to finish the run; ``needs`` are further options."""
        try:
            yield
        except UnderstudyError as problem:
            if self.journal is None:
                raise
            folder = self.journal.folder
            raise type(problem)(
                f"{problem}\nThe run is kept in {folder}; finish it with: understudy resume {folder}{needs}"
            ) from None


def start_run(
    source: Any,
    plan: Plan,
    destination: Destination,
    *,
    stream: Stream,
    progress: Progress | None = None,
    reviewed: bool = True,
    i_know: bool = False,
) -> Any:
    """Carry out a plan. Refused runs charge nothing, draw nothing and leave nothing behind.

    A ``reviewed`` plan comes from elsewhere, so it must be the one that its method would make. A delta above one in n
    is refused for tables unless ``i_know``.
    """
    kind = kind_of_source(source)
    domain = kind.domain_of(source)
    if plan.schema_fingerprint != domain.fingerprint:
        raise InputError(f"the plan was made for {kind.other_domain}.")
    if reviewed:  # a plan that was made for this very run needs no second making
        _require_same(kind.plan_again(domain, plan, _request_of(plan)), plan)
    destination.check_free()
    ledger = open_ledger(destination, unit=plan.unit, cost=plan.budget, stream=stream)
    data_key = DataKey.beside(stream)
    source = kind.bounded(source, plan, data_key)
    run = _begin(plan, destination, stream, data_key, kind.header(domain))
    gate = kind.gate(source, domain, plan=plan, stream=stream, journal=run.journal, progress=progress)
    charge = run.charge_after(lambda: kind.check(plan, domain, gate, i_know=i_know), source, ledger)
    return _finish(kind, run, domain, gate=gate, stream=stream, charge=charge)


def resume_run(
    folder: Path,
    *,
    source: Any,
    domain: Any = None,
    out: Path | None,
    stream: Stream,
    progress: Progress | None = None,
    **reading: Any,
) -> Any:
    """Finish a run that died after its charge, from its run folder. Values already measured are never drawn again.

    ``source`` are the same data again, if not everything was measured; ``domain`` is the public domain, where the run
    folder does not hold it.
    """
    run, journal, header, finished = _find(folder, out)
    if finished is not None:
        return finished
    kind = kind_stated(header, folder)
    known = kind.domain_again(folder, header, domain)
    _require_domain(run, known.fingerprint)
    run.destination.check_free()
    opened = None if source is None else kind.bounded(kind.open(source, known, **reading), run.plan, run.data_key)
    if opened is not None:
        _require_same_data(run, journal, opened)
    charge = _charge_of(run, journal)
    gate = kind.gate(opened, known, plan=run.plan, stream=stream, journal=journal, progress=progress)
    return _finish(kind, run, known, gate=gate, stream=stream, charge=charge)


def _finish(kind: AnyKind, run: Run, domain: Any, *, gate: ChargingGate, stream: Stream, charge: Charge) -> Any:
    plan, destination = run.plan, run.destination
    work = Workshop(
        plan=plan,
        stream=stream,
        journal=run.journal,
        out=destination.out,
        statement=partial(_state_promise, plan, stream, charge, kind.record),
        provenance=partial(_record_run, plan, gate),
    )
    with run.kept_if_it_fails(kind.resumed_with):
        release = kind.make(domain, gate, work)
        if plan.adaptive and charge is not None and destination.ledger is not None:
            spent = state(compose(gate.events, plan.unit, by=plan.by), plan.budget)
            Ledger.open(destination.ledger).settle(run=charge["run"], spent=spent)
        if destination.out is not None:
            release.write(destination.out, overwrite=destination.overwrite, csv=destination.csv)
    kept = kind.keep(release, destination.out)
    if run.journal is not None:
        run.journal.discard()
    return kept


def _begin(plan: Plan, destination: Destination, stream: Stream, data_key: DataKey, about: Mapping[str, str]) -> Run:
    """A new run; its folder, if it has one, says what it is about. Nothing is charged yet."""
    if stream.secure:
        require_healthy_samplers()  # before anything of the run exists
    name = secrets.token_hex(8)
    folder = destination.run_folder(name)
    journal = None
    if folder is not None:
        header = {
            "run": name, "plan": plan.to_json(), "destination": destination.to_json(), "secure": stream.secure,
            "data_key": data_key.to_text(),
        }  # fmt: skip
        journal = Journal.create(folder, {**header, **about})
    return Run(name=name, plan=plan, destination=destination, journal=journal, data_key=data_key)


def _find(folder: Path, out: Path | None) -> tuple[Run, Journal, Mapping[str, Any], Any]:
    """A run that died, its journal and header; and its release, if it died between publishing and removing the journal.

    ``out`` is another place for the release than the one it was started with.
    """
    journal = Journal.open(folder)
    try:
        header = journal.header
        plan = plan_from_json(header["plan"])
        destination = Destination.from_json(header["destination"])
        name, secure = str(header["run"]), bool(header["secure"])
        # A run of an earlier version has no key; it noted no fingerprint, and chose rows anew when it was resumed.
        key = DataKey.from_text(header["data_key"]) if "data_key" in header else DataKey.fresh()
    except (KeyError, TypeError) as problem:
        raise InputError(f"{folder} is not the folder of a run ({type(problem).__name__}).") from None
    if not secure:
        raise InputError("this run used test randomness; start it again instead of resuming it.")
    require_healthy_samplers()  # what is left of it is drawn now, and perhaps charged
    finished = _finished(destination, name)
    if finished is not None:
        journal.discard()
    elif out is not None:
        destination = replace(destination, out=out.absolute())
    run = Run(name=name, plan=plan, destination=destination, journal=journal, data_key=key)
    return run, journal, header, finished


def _require_domain(run: Run, fingerprint: str) -> None:
    """Refuses a resumed run whose public domain is not that of its plan: what a draw costs rests on it."""
    if fingerprint != run.plan.schema_fingerprint:
        raise InputError("the run folder was changed: its schema or places are not those its plan was made for.")


def _require_same_data(run: Run, journal: Journal, source: Any) -> None:
    """Refuses data, given again, that are not those the run was started with: before the charge, if it was not made."""
    noted = [entry.payload["fingerprint"] for entry in journal.entries() if entry.kind == "data"]
    if noted:  # a run of an earlier version noted public sizes only, which the gate compares
        source.identify(run.data_key.fingerprint_key())
        if source.fingerprint() != noted[0]:
            raise InputError(OTHER_ROWS)


def _charge_of(run: Run, journal: Journal) -> Charge:
    """What a run that died was charged, if the ledger still has it for this very run: plan, unit, cost and journal.

    If the run died around the charge, the ledger knows whether it was made.
    """
    charged: list[Charge] = [entry.payload["ledger"] for entry in journal.entries() if entry.kind == "charged"]
    destination, plan = run.destination, run.plan
    ledger = None if destination.ledger is None else Ledger.open(destination.ledger)
    charge = charged[0] if charged else _reserve(ledger, run)
    if (charge is None) != (ledger is None):
        raise BudgetError("the run folder was changed: whether it has a ledger is not what its journal noted.")
    if not charged:
        journal.append("charged", {"ledger": charge})
    if ledger is not None and charge is not None and destination.account is not None:
        ledger.take_up(
            destination.account, run=run.name, plan_hash=plan.hash, unit=plan.unit, cost=plan.budget, block=charge,
            checksums=journal.checksums,
        )  # fmt: skip
    run.follow(ledger)
    return charge


def _request_of(plan: Plan) -> Request:
    return Request(budget=plan.budget, unit=plan.unit, copies=plan.copies, rows=plan.rows, records=plan.records)


def _require_same(made: Plan, plan: Plan) -> None:
    """Refuses, before the charge, a plan that its method would not make: the gate would refuse it after the charge."""
    # Notes and criteria are for people, and change nothing that is done.
    if replace(made, notes=(), criteria={}).hash != replace(plan, notes=(), criteria={}).hash:
        raise InputError(
            f"this plan is not what method '{plan.method}' plans for its budget, unit and options: it was changed, or "
            "made by another version of this program. Make it again, and have it reviewed."
        )


def _state_promise(
    plan: Plan, stream: Stream, charge: Charge, record: str, warnings: tuple[str, ...] = ()
) -> Statement:
    """What a release promises, and who paid; test randomness promises nothing."""
    return Statement(
        unit=plan.unit,
        guarantee=plan.budget if stream.secure else NonPrivate(),
        ledger=charge,
        warnings=warnings if stream.secure else (TEST_RANDOMNESS, *warnings),
        record=record,
    )


def _record_run(plan: Plan, gate: ChargingGate, synthesis: Any, draws: tuple[Mapping[str, Any], ...]) -> Provenance:
    """How a release was made; refused if the gate did not see everything that the plan announced."""
    from understudy import __version__

    if not plan.adaptive and gate.events != plan.events:
        raise BudgetError("the run did not do everything its plan announced; no release was made.")
    return Provenance(
        method=plan.method,
        package_version=__version__,
        plan=plan,
        events=gate.events,
        draws=draws,
        rows_drawn=synthesis.rows_drawn,
        copies_share_measurements=synthesis.copies_share_measurements,
        notes=(*plan.notes, *synthesis.notes),
        records=gate.records if plan.unit.public_total else None,
    )


def _finished(destination: Destination, run: str) -> Any:
    if destination.out is None or not (destination.out / RELEASE_MARK).is_file():
        return None
    release: Any = read_release(destination.out)
    return release if (release.statement.ledger or {}).get("run") == run else None


def open_ledger(destination: Destination, *, unit: Unit, cost: Definition, stream: Stream) -> Ledger | None:
    """The ledger of a run that it allows. What it refuses is refused before the data are opened."""
    if destination.ledger is None or destination.account is None:
        return None
    if not stream.secure:
        raise InputError("a test stream gives no guarantee and cannot be charged to a ledger.")
    ledger = Ledger.open(destination.ledger)
    ledger.check(destination.account, unit=unit, cost=cost)
    return ledger


def _reserve(ledger: Ledger | None, run: Run) -> Charge:
    account, plan = run.destination.account, run.plan
    if ledger is None or account is None:
        return None
    entry = ledger.reserve(
        account, run=run.name, plan_hash=plan.hash, unit=plan.unit, cost=plan.budget, method=plan.method,
        journal=None if run.journal is None else run.journal.head,
    )  # fmt: skip
    return entry.block
