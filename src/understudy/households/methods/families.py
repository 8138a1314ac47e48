"""Families: one row for each household, tables over its slots chosen privately, one joint fit, whole households drawn.

The row is that of the wide schema (``core.linked_schema``), so every table counts a household once: it moves by one
household however many members that has. Which tables are measured is chosen by ``aim`` (or ``mst``, or all pairs that
are named, by ``ipf``) among those of household and slots, of two slots, and within a slot. The junction tree of these
is the model of a household with its slots. Members beyond the slots are drawn from the same model (``families_of``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from understudy.core.linked_schema import LinkedSchema
from understudy.core.mechanism import Stream
from understudy.core.phases import tell
from understudy.errors import UnsupportedError, unknown_name
from understudy.households.shared.families import families_of
from understudy.households.shared.family_method import FamilySynthesis, check_fixed_size, family_synthesizers
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.plan import Plan
from understudy.synth.shared.method import Request, Synthesizer, configure, renamed

CHOOSING = ("aim", "mst", "independent")
MODEL_CELLS = 1_000_000


@family_synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """Whole households from privately chosen tables over the slots of a household.

    Raises
    ------
    UnknownNameError
        If tables are to be chosen in an unknown way.
    """

    name: ClassVar[str] = "families"
    summary: ClassVar[str] = "whole households from tables over the roles of their members; for linked tables"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp")
    inference: ClassVar[str] = "selection not modelled"

    choose: str = "aim"
    """How tables are chosen: ``aim`` (round by round), ``mst`` (a tree of pairs) or ``independent`` (none)."""
    model_cells: int = MODEL_CELLS
    """The most cells of the model of a household."""
    pairs: bool = True
    """Whether the tables that tie members together (partners, parent and child, siblings, by the first attribute) are
    measured in any case."""

    def __post_init__(self) -> None:
        if self.choose not in CHOOSING:
            raise unknown_name("choose", self.choose, CHOOSING)

    def plan(self, schema: LinkedSchema, request: Request) -> Plan:
        check_fixed_size(schema, request.unit)
        made = self._base(schema).plan(schema.wide, request)
        options = {"choose": self.choose, "model_cells": self.model_cells, "pairs": self.pairs}
        return replace(renamed(made, self.name, options), schema_fingerprint=schema.fingerprint)

    def run(self, plan: Plan, schema: LinkedSchema, gate: Gate, stream: Stream) -> FamilySynthesis:
        made = self._base(schema).run(plan, schema.wide, gate, stream)
        if made.fitted is None:
            raise UnsupportedError("this method keeps no model, and households are drawn from one.")
        model = made.fitted.parts[0].model
        tables = []
        for copy, rows in enumerate(made.tables, start=1):
            tell("drawing members", copy - 1, len(made.tables))
            tables.append(families_of(schema, model, rows, stream, "families", copy))
        return FamilySynthesis(
            tables=tuple(tables),
            measurements=made.measurements,
            fitted=made.fitted,
            rows_drawn=made.rows_drawn,
            copies_share_measurements=made.copies_share_measurements,
            notes=made.notes,
            warnings=made.warnings,
        )

    def _base(self, schema: LinkedSchema) -> Synthesizer:
        if self.choose == "independent":
            return configure("independent", {})
        options: dict[str, str | int] = {"model_cells": self.model_cells}
        if self.pairs and (ties := tying_tables(schema)):
            options["must"] = "\n".join(f"crosstab({first}, {second})" for first, second in ties)
        return configure(self.choose, options)


def tying_tables(schema: LinkedSchema) -> list[tuple[str, str]]:
    """The tables that tie members together: the first attribute of partners, of parent and child, of siblings."""
    slots = {slot.name: slot.column(schema.anchor) for slot in schema.slots}
    pairs = (("reference", "partner"), ("reference", "child"), ("child", "sibling"), ("member", "fellow"))
    return [(slots[one], slots[other]) for one, other in pairs if one in slots and other in slots]
