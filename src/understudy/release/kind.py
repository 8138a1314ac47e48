"""What a kind of release is: tables of people, commutes, and whatever comes next.

A run, a release folder, ``verify`` and a report are the same for every kind. What differs is said by one class for each
kind: its public domain, its gate, its files, its checks and its measures. A kind is looked up by its name, or by what a
caller holds; nothing below ``understudy.kinds`` knows which kinds there are.
See docs/decisions/0019-kinds-of-release.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import pyarrow as pa

from understudy.core.arrays import Progress
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.registry import Registry
from understudy.core.result import Evaluation, EvaluationRequest, ShownTable
from understudy.errors import InputError
from understudy.privacy.gate.charge_first import ChargingGate
from understudy.privacy.gate.journal import Journal
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.plan import Option, Plan
from understudy.privacy.randomness.fingerprint import DataKey
from understudy.release.statement import Provenance, Statement
from understudy.synth.shared.method import Request

if TYPE_CHECKING:
    from understudy.release.table_release import Release

DEFAULT = "tables"  # the kind of a manifest or run folder that names none


class Domain(Protocol):
    """What is public about the values of a table: a schema, or places."""

    @property
    def fingerprint(self) -> str: ...


class AnyRelease(Protocol):
    """What a release of every kind has. All of it is public."""

    @property
    def statement(self) -> Statement:
        """What is promised, and to whom."""
        ...

    @property
    def provenance(self) -> Provenance:
        """How the tables were made."""
        ...

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """The noisy counts behind the tables."""
        ...

    @property
    def copies(self) -> int:
        """How many synthetic tables there are."""
        ...

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of each table."""
        ...

    def frame(self, copy: int = 1) -> pa.Table:
        """Give one synthetic table.

        Parameters
        ----------
        copy
            The number of the copy, from 1.

        Returns
        -------
        pa.Table
            An Arrow table.
        """
        ...

    def write(self, path: str | Path, *, overwrite: bool = False, csv: bool = False) -> Path:
        """Write the release folder. It is there whole or not at all.

        Parameters
        ----------
        path
            The new folder.
        overwrite
            Replace an earlier release.
        csv
            Write CSV files too.

        Returns
        -------
        Path
            Where the folder is.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTables:
    """Table files that are in a folder: the rows of each copy, and the hashes of those files that are known already."""

    rows: tuple[int, ...]
    hashes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What a method of any kind is given to carry out a plan."""

    plan: Plan
    stream: Stream
    journal: Journal | None  # whose folder may hold drawn tables until they are released
    out: Path | None
    statement: Callable[..., Statement]  # what will be promised; takes further warnings
    provenance: Callable[..., Provenance]  # how it was made, from what the method hands back and its draws


DomainT = TypeVar("DomainT", bound=Domain)
SourceT = TypeVar("SourceT")
GateT = TypeVar("GateT", bound=ChargingGate)
ReleaseT = TypeVar("ReleaseT", bound=AnyRelease)
Check = tuple[str, Callable[[ReleaseT], str]]  # its name, and what says what was found or raises
Shape = Callable[[tuple[str, ...], str, int], tuple[int, ...]]  # of a measurement, from its margin, cells and length


class Kind(Protocol[DomainT, SourceT, GateT, ReleaseT]):
    """One kind of release. It has no state: everything is in what it is given."""

    name: ClassVar[str]
    record: ClassVar[str]  # what a record of the data is called, of which a unit has one or several
    uses: ClassVar[str]  # what such a release is for, told if a verb works on tables only
    other_domain: ClassVar[str]  # for a plan that was made for another domain than that of the data
    domain_file: ClassVar[str]  # in a release folder
    resumed_with: ClassVar[str]  # further options that ``understudy resume`` needs
    shown: ClassVar[tuple[ShownTable, ...]]  # the tables of its evaluation that a screen shows, in this order
    draws_in_blocks: ClassVar[bool]  # whether more rows can be written as they are drawn, in memory that does not grow
    asked_in_reports: ClassVar[bool]  # whether a report compares it with the confidential data and asks it questions

    # Its values, recognised without touching any data.

    def is_domain(self, value: object) -> bool: ...

    def is_source(self, value: object) -> bool: ...

    def is_release(self, value: object) -> bool: ...

    def domain_of(self, value: SourceT | ReleaseT) -> DomainT:
        """The public domain of a source or of a release."""
        ...

    # Before a run.

    def methods(self) -> Registry[Any]:
        """The methods that make releases of this kind."""
        ...

    def read_domain(self, file: Any) -> DomainT:
        """The public domain in a file."""
        ...

    def open(self, data: Any, domain: DomainT, **reading: Any) -> SourceT:
        """Confidential data, opened against their public domain."""
        ...

    def make_plan(
        self, domain: DomainT, method: str | None, asked: Mapping[str, Any], options: Options, *, i_know: bool
    ) -> Plan:
        """A plan for budget, unit, copies, rows and records (``asked``), by a method or the default one."""
        ...

    def plans_by_records(self, method: str | None, unit: Unit) -> bool:
        """Whether a plan uses how many records a source holds (``total``), and the unit makes that number public."""
        ...

    def plan_again(self, domain: DomainT, plan: Plan, request: Request) -> Plan:
        """What the method of a plan plans for the same request."""
        ...

    def advice(self, domain: DomainT, plan: Plan) -> tuple[str, ...]:
        """What a steward should know before signing a plan, from public facts only."""
        ...

    # During a run.

    def header(self, domain: DomainT) -> dict[str, str]:
        """What a run folder notes about the domain."""
        ...

    def domain_again(self, folder: Path, header: Mapping[str, Any], given: Any) -> DomainT:
        """The domain of a run that is resumed: from its folder, or ``given`` again where that does not hold it."""
        ...

    def bounded(self, source: SourceT, plan: Plan, key: DataKey) -> SourceT:
        """A source with at most as many rows of a unit as the plan protects."""
        ...

    def gate(
        self,
        source: SourceT | None,
        domain: DomainT,
        *,
        plan: Plan,
        stream: Stream,
        journal: Journal | None,
        progress: Progress | None,
    ) -> GateT:
        """The only way to touch the data."""
        ...

    def check(self, plan: Plan, domain: DomainT, gate: GateT, *, i_know: bool) -> None:
        """Refuses, before the charge, what the data or the machine forbid; without ``i_know`` also what is unwise."""
        ...

    def make(self, domain: DomainT, gate: GateT, work: Workshop) -> ReleaseT:
        """The release of a plan that was charged."""
        ...

    def keep(self, release: ReleaseT, out: Path | None) -> ReleaseT:
        """A release that no longer needs the run folder: its tables are in ``out``, or stay where it says."""
        ...

    def sample_again(self, release: ReleaseT, *, rows: int, copies: int, stream: Stream) -> ReleaseT:
        """More rows from what it measured, at no further cost; or the reason why there are none."""
        ...

    # Its folder.

    def about(self, release: ReleaseT) -> dict[str, str]:
        """What the manifest says about the domain, by its fingerprint."""
        ...

    def write_beside(self, release: ReleaseT, folder: Path) -> None:
        """Writes the public files beside the tables: the domain, and a model if there is one."""
        ...

    def write_tables(self, release: ReleaseT, folder: Path, *, csv: bool) -> WrittenTables: ...

    def readme(self, release: ReleaseT, rows: Sequence[int]) -> str: ...

    def read(self, path: Path, manifest: Mapping[str, Any]) -> ReleaseT:
        """The release in a folder whose files were checked against its manifest."""
        ...

    # What is said about it.

    def checks(self) -> tuple[Check[ReleaseT], ...]:
        """What ``verify`` checks beside the files."""
        ...

    def summary(self, release: ReleaseT) -> Summary:
        """The public facts that a report shows."""
        ...

    def evaluate(self, release: ReleaseT, confidential: Any, asked: EvaluationRequest) -> Evaluation:
        """How useful and how risky it is, against the confidential data."""
        ...

    def ask(self, release: ReleaseT, question: str, *, level: float, before: ReleaseT | None) -> Any:
        """The answer to a question in the kind's own words; nothing where the questions are those of tables."""
        ...

    def what_to_ask(self, release: ReleaseT) -> tuple[str, ...]:
        """Lines that tell what ``ask`` answers; none where the questions are those of tables."""
        ...

    def export(self, opened: Any, asked: Mapping[str, Any]) -> Path:
        """Writes a release (``release.export.Opened``) for other programs; ``asked`` has ``to`` and its options."""
        ...

    def compared(self, results: Sequence[tuple[str, ReleaseT, Evaluation]]) -> dict[str, pa.Table]:
        """Tables that compare several evaluated releases of the same data by epsilon; none if there are no such."""
        ...


Options = Mapping[str, Option]
AnyKind = Kind[Any, Any, Any, Any]

kinds: Registry[type[AnyKind]] = Registry("kind of release", "understudy.kinds")


def every_kind() -> Iterator[AnyKind]:
    """All kinds, tables first."""
    for name in sorted(kinds, key=lambda one: (one != DEFAULT, one)):
        yield kinds[name]()


def kind_of_domain(value: object) -> AnyKind | None:
    """The kind whose public domain this is."""
    return next((kind for kind in every_kind() if kind.is_domain(value)), None)


def kind_of_source(value: object) -> AnyKind:
    """The kind of confidential data. It is a table if no other kind recognises it."""
    return next((kind for kind in every_kind() if kind.is_source(value)), None) or kinds[DEFAULT]()


def kind_of_release(value: object) -> AnyKind | None:
    return next((kind for kind in every_kind() if kind.is_release(value)), None)


def kind_stated(stated: Mapping[str, Any], where: Path) -> AnyKind:
    """The kind that a manifest or the header of a run folder names."""
    name = stated.get("kind", DEFAULT)
    if not isinstance(name, str) or name not in kinds:
        raise InputError(f"{where} is of a kind that this program does not know; it was changed, or made by another.")
    return kinds[name]()


# The public facts of a release that a report shows, whatever its kind: promise, making, size and public domain.


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The public facts of a release that a report shows. ``tables`` is None where questions cannot be asked of it."""

    statement: Statement
    provenance: Provenance
    title: str
    copies: int
    rows: int
    size: tuple[str, str]  # a number and what it counts, beside the rows
    domain: tuple[Mapping[str, Any], ...]  # a record per attribute: attribute, label, kind, values, missing
    cells: int
    structural_zeros: int
    measured: tuple[Mapping[str, Any], ...]  # a record per noisy table: table, cells, noise, noise_sd
    mechanisms: tuple[str, ...]
    tables: Release | None


def mechanisms_of(release: AnyRelease) -> tuple[str, ...]:
    """The names of all mechanisms that measured or drew for a release."""
    used = {one.mechanism.name for one in release.measurements}
    used |= {str(one["mechanism"]) for draw in release.provenance.draws for one in draw.get("mechanisms", ())}
    return tuple(sorted(used))
