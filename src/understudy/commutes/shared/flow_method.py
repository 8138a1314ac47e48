"""What a method for commuting tables is: it plans from public places and runs through the gate for flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from understudy.commutes.shared.segments import check_fixed
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.places import DESTINATION, Places
from understudy.core.registry import Registry
from understudy.errors import InputError, UnsupportedError
from understudy.privacy.gate.flow_gate import FlowGate, Sink
from understudy.privacy.promise.definition import Definition, Unit, read_unit
from understudy.privacy.promise.plan import Option, Plan
from understudy.synth.shared.method import Request, configure_from

UNIT_NOTE = "The unit is a job: a worker with two jobs is two units, unless rows_per_unit says otherwise."


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSynthesis:
    """What a method hands back beside the tables in the sink."""

    measurements: tuple[Measurement, ...] = ()
    draws: tuple[Mapping[str, Any], ...] = ()
    rows_drawn: str = ""
    copies_share_measurements: bool = False
    notes: tuple[str, ...] = ()


class FlowSynthesizer(Protocol):
    """One method. Options are the fields of its frozen configuration, checked when it is made.

    A method may also have ``check_sizes(plan, places, sizes)``, which refuses before the charge what the public sizes
    of fixed destinations make impossible.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    guarantees: ClassVar[tuple[str, ...]]

    def plan(self, places: Places, request: Request) -> Plan:
        """Everything the run will do, from public facts only."""
        ...

    def run(self, plan: Plan, places: Places, gate: FlowGate, stream: Stream, sink: Sink) -> FlowSynthesis:
        """Make the tables, touching data through the gate only, exactly as planned."""
        ...


flow_synthesizers: Registry[type[FlowSynthesizer]] = Registry(
    "method for commutes",
    "understudy.commutes.methods",
)


def check_flow_request(kind: type[FlowSynthesizer], request: Request, segments: str = "") -> None:
    """Refusals shared by all methods for commutes; ``segments``: the partitions that were asked for."""
    if request.budget.name not in kind.guarantees:
        raise UnsupportedError(
            f"method '{kind.name}' does not offer the guarantee '{request.budget.name}'; it offers "
            f"{', '.join(kind.guarantees)}."
        )
    unknown = set(request.unit.fixed) - {DESTINATION, *check_fixed(segments, request.unit)}
    if unknown:
        raise InputError(
            f"of commutes only '{DESTINATION}' can be fixed, and partitions that segments names, not "
            f"{', '.join(sorted(unknown))}."
        )
    if request.unit.unit_id is not None:
        raise InputError("commutes have no column that identifies a unit; state rows_per_unit without unit_id.")
    if request.rows is not None:
        raise InputError("the number of synthetic jobs follows from the destinations; leave rows out.")


def plan_commutes(
    places: Places,
    *,
    budget: Definition,
    method: str,
    unit: Unit | str,
    copies: int,
    rows: int | None,
    records: int | None,
    options: Mapping[str, Option],
) -> Plan:
    """A plan for commutes. "replace" fixes the destination, as the published method does; a Unit is taken as it is."""
    if not isinstance(budget, Definition):
        raise InputError("budget must be PureDP, ApproxDP, ProbabilisticDP, ZCDP or NonPrivate.")
    who = Unit(kind="replace", fixed=(DESTINATION,)) if unit == "replace" else read_unit(unit)
    request = Request(budget=budget, unit=who, copies=copies, rows=rows, records=records)
    made: Plan = configure_from(flow_synthesizers, method, options).plan(places, request)
    return made
