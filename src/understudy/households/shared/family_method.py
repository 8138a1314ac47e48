"""What a method for households is, and how one is planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from understudy.core.linked_schema import SIZE, LinkedSchema
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.registry import Registry
from understudy.errors import InputError, unknown_name
from understudy.households.linked_table import LinkedTable
from understudy.models.published_model import Fitted
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.definition import UNIT_KINDS, Unit
from understudy.privacy.promise.plan import Plan
from understudy.synth.shared.method import Request, configure_from

HOUSEHOLD, PERSON = "household", "person"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilySynthesis:
    """What a method for households hands back."""

    tables: tuple[LinkedTable, ...]
    """The synthetic households of each copy."""
    measurements: tuple[Measurement, ...]
    """The noisy counts behind them, over the wide schema."""
    fitted: Fitted | None
    """The model behind all copies; none where each copy has its own."""
    rows_drawn: str
    """How rows were drawn, in words."""
    copies_share_measurements: bool = True
    """Whether all copies rest on one set of measurements."""
    notes: tuple[str, ...] = ()
    """Remarks for the manifest."""
    warnings: tuple[str, ...] = ()
    """What everybody who is handed the release must be told."""


class FamilySynthesizer(Protocol):
    """One method for households: a frozen dataclass. Its fields are its options."""

    name: ClassVar[str]
    """The name of the method."""
    summary: ClassVar[str]
    """One line that says what it does and for what."""
    guarantees: ClassVar[tuple[str, ...]]
    """The guarantees it can give."""
    inference: ClassVar[str]
    """What ``infer`` may call its answers at best."""

    @property
    def base(self) -> str:
        """The method of tables that measures the rows of households."""
        ...

    def plan(self, schema: LinkedSchema, request: Request) -> Plan:
        """Plan everything that the run will do, from public facts only."""
        ...

    def run(self, plan: Plan, schema: LinkedSchema, gate: Gate, stream: Stream) -> FamilySynthesis:
        """Make whole households exactly as planned."""
        ...


family_synthesizers: Registry[type[FamilySynthesizer]] = Registry("method", "understudy.households.methods")


def base_method(plan: Plan | None) -> str:
    """The method of tables that measured the rows of households, for what may be concluded from them."""
    if plan is None or plan.method not in family_synthesizers:
        return ""
    made: FamilySynthesizer = configure_from(family_synthesizers, plan.method, plan.options)
    return made.base


def unit_of(schema: LinkedSchema, unit: Unit | str) -> Unit:
    """The unit of linked tables: ``household``, ``person``, ``replace``, ``add_remove``, or a ``Unit``.

    ``person``: one member's values change, and the household stays. Its own attributes and its size are then known.
    """
    known = (*schema.households.names, SIZE)
    if isinstance(unit, str) and unit in (HOUSEHOLD, PERSON):
        if unit == PERSON:
            return Unit(kind="replace", unit_id=schema.person_id, fixed=known)
        return Unit(kind="replace", unit_id=schema.household_id)
    if isinstance(unit, str):
        if unit not in UNIT_KINDS:
            raise unknown_name("unit", unit, (*UNIT_KINDS, HOUSEHOLD, PERSON))
        kind = Unit(kind=unit)  # type: ignore[arg-type]  # which refuses what it does not know
        return Unit(kind=kind.kind, unit_id=schema.household_id)
    if is_person(schema, unit) and unit.rows_per_unit == 1 and set(unit.fixed) == set(known):
        return unit
    if unit.rows_per_unit != 1 or unit.unit_id not in (None, schema.household_id):
        raise InputError(
            f"the unit of linked tables is one household, identified by {schema.household_id}, or a person (unit = "
            '"person"): leave rows_per_unit and unit_id out.'
        )
    for name in unit.fixed:
        if name not in known:
            raise InputError(
                f"fixed ({name}) must be an attribute of households, or {SIZE}: what members are is protected."
            )
    return Unit(kind=unit.kind, unit_id=schema.household_id, fixed=unit.fixed)


def is_person(schema: LinkedSchema, unit: Unit) -> bool:
    """Whether one member is protected, and not a household with all of them."""
    return unit.unit_id == schema.person_id


def check_fixed_size(schema: LinkedSchema, unit: Unit) -> None:
    """A size is fixed only if what members say cannot change it."""
    if SIZE in unit.fixed and schema.beyond == "sample" and schema.roles is not None and schema.roles.most:
        raise InputError(
            f'with beyond = "sample" and most of a role, how many members are kept depends on their roles, so {SIZE} '
            'is not fixed. Leave most out, write beyond = "error", or protect the household.'
        )
