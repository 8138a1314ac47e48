"""Families: one row for each household, tables over its slots chosen privately, one joint fit, whole households drawn.

The row is that of the wide schema (``core.linked_schema``), so every table counts a household once: it moves by one
household however many members that has. Which tables are measured is chosen by ``aim`` (or ``mst``, or all pairs that
are named, by ``ipf``) among those of household and slots, of two slots, and within a slot. The junction tree of these
is the model of a household with its slots. Members beyond the slots are drawn from the same model (``families_of``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

from understudy.core.household_roles import CHILD, MEMBER, OTHER, PARTNER, REFERENCE
from understudy.core.linked_schema import CHILDREN, COMPOSITION, SIZE, LinkedSchema
from understudy.core.mechanism import Stream
from understudy.core.phases import tell
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.households.shared.families import families_of
from understudy.households.shared.family_method import FamilySynthesis, check_fixed_size, family_synthesizers
from understudy.models.fit import structural_groups
from understudy.models.junction_tree import tree_cells
from understudy.privacy.gate.gate import Gate
from understudy.privacy.promise.plan import Option, Plan
from understudy.synth.shared.method import Request, Synthesizer, configure, renamed

BASES = {"public": "ipf", "aim": "aim", "mst": "mst", "independent": "independent"}  # the methods of tables behind them
MODEL_CELLS = 1_000_000


@family_synthesizers.add
@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """Whole households from privately chosen tables over the slots of a household.

    Raises
    ------
    UnknownNameError
        If tables are to be chosen in an unknown way.
    InputError
        If options do not go together.
    """

    name: ClassVar[str] = "families"
    summary: ClassVar[str] = "whole households from tables over the roles of their members; for linked tables"
    guarantees: ClassVar[tuple[str, ...]] = ("pure", "approx", "zcdp")
    inference: ClassVar[str] = "selection not modelled"

    choose: str = "public"
    """How tables are chosen: ``public`` (by the roles and attributes of the schema, so that ``infer`` need not model a
    choice), ``aim`` (privately, round by round), ``mst`` (privately, a tree of pairs) or ``independent`` (none)."""
    model_cells: int = MODEL_CELLS
    """The most cells of the model of a household."""
    pairs: bool = True
    """Whether the tables that tie members together (partners, parent and child, siblings, by the first attribute) are
    measured in any case."""

    def __post_init__(self) -> None:
        if self.choose not in BASES:
            raise unknown_name("choose", self.choose, BASES)
        if not self.pairs and self.choose not in ("aim", "mst"):
            raise InputError(f"pairs = false goes with choose = aim or mst; with {self.choose} nothing is added.")
        if self.choose == "independent" and self.model_cells != MODEL_CELLS:
            raise InputError("model_cells limits a model of tables, and choose = independent has none; leave it out.")

    @property
    def base(self) -> str:
        """The method of tables that measures the rows of households."""
        return BASES[self.choose]

    def plan(self, schema: LinkedSchema, request: Request) -> Plan:
        if request.budget.name not in self.guarantees:
            raise UnsupportedError(
                f"method '{self.name}' offers {', '.join(self.guarantees)}, not {request.budget.title}."
            )
        check_fixed_size(schema, request.unit)
        made = self._base(schema).plan(schema.wide, request)
        options: dict[str, Option] = {"choose": self.choose, "model_cells": self.model_cells, "pairs": self.pairs}
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
        if self.choose == "public":
            margins = public_tables(schema, self.model_cells)
            return configure("ipf", {"margins": ", ".join("+".join(one) for one in margins)})
        options: dict[str, str | int] = {"model_cells": self.model_cells}
        if self.pairs and (ties := tying_tables(schema)):
            options["must"] = "\n".join(f"crosstab({first}, {second})" for first, second in ties)
        return configure(self.choose, options)


def public_tables(schema: LinkedSchema, most_cells: int) -> list[tuple[str, ...]]:
    """The tables that public facts call for, the most important first, as far as one model holds them.

    Composition; what ties members together; household and reference person; the attributes within each slot.
    """
    slots = {slot.name: slot for slot in schema.slots}
    anchor, own, members = schema.anchor, schema.households.names, schema.members.names
    wanted: list[tuple[str, ...]] = [(COMPOSITION,), *tying_tables(schema)]
    main = slots.get(REFERENCE) or slots[MEMBER]
    wanted += [(SIZE, main.column(anchor)), *((name, SIZE) for name in own)]
    if CHILD in slots:
        wanted += [(CHILDREN, slots[CHILD].column(anchor)), *((name, CHILDREN) for name in own)]
    wanted += [(slot.column(anchor), slot.column(name)) for slot in slots.values() if not slot.second
               for name in members[1:]]  # fmt: skip
    for slot in (main, slots.get(PARTNER)):
        wanted += [] if slot is None else [tuple(map(slot.column, pair)) for pair in combinations(members[1:], 2)]
    for other in (PARTNER, CHILD):
        if other in slots:
            wanted += [(main.column(name), slots[other].column(name)) for name in members[1:]]
    if OTHER in slots:
        wanted.append((main.column(anchor), slots[OTHER].column(anchor)))
    wanted += [*combinations(own, 2), *((name, main.column(anchor)) for name in own)]
    wide = schema.wide
    sizes = dict(zip(wide.names, wide.shape(), strict=True))
    kept: list[tuple[str, ...]] = []
    for margin in dict.fromkeys(wide.margin(one) for one in wanted):
        if tree_cells(sizes, [*structural_groups(wide), *kept, margin]) <= most_cells:
            kept.append(margin)
    covered = {name for margin in kept for name in margin}
    return kept + [(name,) for name in wide.names if name not in covered]


def tying_tables(schema: LinkedSchema) -> list[tuple[str, str]]:
    """The tables that tie members together: the first attribute of partners, of parent and child, of siblings."""
    slots = {slot.name: slot.column(schema.anchor) for slot in schema.slots}
    pairs = (
        ("reference", "partner"), ("reference", "child"), ("partner", "child"), ("child", "sibling"),
        ("member", "fellow"),
    )  # fmt: skip
    return [(slots[one], slots[other]) for one, other in pairs if one in slots and other in slots]
