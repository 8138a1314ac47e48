"""Families: one row for each household, tables over its slots chosen privately, one joint fit, whole households drawn.

The row is that of the wide schema (``core.linked_schema``), so every table counts a household once: it moves by one
household however many members that has. Which tables are measured is chosen by ``aim`` (or ``mst``, or all pairs that
are named, by ``ipf``) among those of household and slots, of two slots, and within a slot. The junction tree of these
is the model of a household with its slots. Members beyond the slots are drawn from the same model (``families_of``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import ClassVar

import numpy as np

from understudy.core.arrays import Integers
from understudy.core.household_roles import CHILD, MEMBER, OTHER, PARTNER, REFERENCE
from understudy.core.linked_schema import CHILDREN, COMPOSITION, SIZE, LinkedSchema
from understudy.core.measurement import Measurement
from understudy.core.mechanism import Stream
from understudy.core.phases import tell
from understudy.errors import InputError, UnsupportedError, unknown_name
from understudy.households.shared.balancing import draw_families
from understudy.households.shared.differences import smooth_pairs, smoothed
from understudy.households.shared.family_method import (
    HOUSEHOLD,
    PERSON,
    FamilySynthesis,
    check_fixed_size,
    family_synthesizers,
    is_person,
)
from understudy.models.fit import structural_groups
from understudy.models.junction_tree import tree_cells
from understudy.models.posterior import posterior_models
from understudy.models.published_model import Fitted
from understudy.privacy.gate.gate import Gate
from understudy.privacy.gate.measurement_steps import measure_step, query_of
from understudy.privacy.mechanisms.noise import DiscreteGaussian
from understudy.privacy.promise.calibrate import noise_for
from understudy.privacy.promise.definition import Unit
from understudy.privacy.promise.plan import Option, Plan, Step
from understudy.privacy.promise.sensitivity import linked_sensitivity, members_per_unit
from understudy.synth.methods.ipf import Ipf
from understudy.synth.shared.margin_methods import (
    check_copies,
    check_rows,
    fitted_model,
    known_margins,
    margin_label,
    public_records,
    rows_law,
    shares_by_cells,
    synthesis_from,
    total_of,
)
from understudy.synth.shared.method import Request, Synthesis, Synthesizer, check_request, configure, planned, renamed
from understudy.synth.shared.strata import Strata, read_strata, synthesis_in_strata

BASES = {"public": "ipf", "aim": "aim", "mst": "mst", "independent": "independent"}  # the methods of tables behind them
MODEL_CELLS = 1_000_000
KNOWN_CELLS, PAIRED_CELLS = 2_000_000, 200_000  # of what is known of households: in one table, and in tables of two
MEMBERS_SHARE = Fraction(3, 10)  # of the budget, for tables of single members where they are measured
PAIRS_SHARE = Fraction(3, 10)  # of the budget, for the table of pairs of members who are alike
MOST_CELLS = 100_000  # of one of these tables


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
    members: bool = True
    """Whether tables of single members are measured beside those of households, where they are expected to be more
    accurate: under the unit of a person. For ``choose = public``."""
    strata: str = ""
    """Attributes of households in whose cells everything is measured and modelled apart, such as ``region``. For
    ``choose = public``."""
    draws: str = "fit"
    """``fit``: all copies come from the fitted model. ``posterior``: each copy comes from a draw of the model's
    posterior, so copies differ by the uncertainty of the noise. For ``choose = public``."""

    def __post_init__(self) -> None:
        if self.choose not in BASES:
            raise unknown_name("choose", self.choose, BASES)
        if not self.pairs and self.choose not in ("aim", "mst"):
            raise InputError(f"pairs = false goes with choose = aim or mst; with {self.choose} nothing is added.")
        if self.choose == "independent" and self.model_cells != MODEL_CELLS:
            raise InputError("model_cells limits a model of tables, and choose = independent has none; leave it out.")
        if self.choose != "public":
            for name, given in (("strata", bool(self.strata)), ("draws", self.draws != "fit")):
                if given:
                    raise InputError(f"{name} goes with choose = public; leave it out, or choose.")
            if not self.members:
                raise InputError("members = false goes with choose = public; nothing else measures single members.")
        check_rows(self.draws, None)
        if self.draws == "posterior" and self.strata:
            raise InputError("draws = posterior is for one model of all households; leave strata out.")

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
        check_copies(self.draws, request.copies)
        options: dict[str, Option] = {"choose": self.choose, "model_cells": self.model_cells, "pairs": self.pairs}
        if self.choose == "public":
            options = {"choose": self.choose, "model_cells": self.model_cells}
            options |= {"members": False} if not self.members else {}
            options |= {"strata": self.strata} if self.strata else {}
            options |= {"draws": self.draws} if self.draws != "fit" else {}
            for name in self._strata(schema).names:
                if name not in schema.households.names:
                    raise InputError(f"strata ({name}) must be attributes of households.")
        of_members = self._member_tables(schema, request.unit)
        record = PERSON if is_person(schema, request.unit) else HOUSEHOLD
        of_homes = self._tables(schema)
        if of_members and schema.roles is None:  # what slots would say of one member of each, these say of all
            slots = {slot.column(name) for slot in schema.slots for name in schema.members.names}
            of_homes = [one for one in of_homes if not {COMPOSITION, *slots} & set(one)]
        if not of_members:
            made = self._base(schema).plan(schema.wide, request)
            return replace(
                renamed(made, self.name, options), schema_fingerprint=schema.fingerprint, record=record
            )  # fmt: skip
        check_request(Ipf, schema.wide, request)
        steps = linked_steps(schema, of_homes, of_members, request)
        made = planned(schema.wide, request, method=self.name, steps=steps, options=options)
        return replace(made, schema_fingerprint=schema.fingerprint, record=record)

    def run(self, plan: Plan, schema: LinkedSchema, gate: Gate, stream: Stream) -> FamilySynthesis:
        if self.choose == "public":
            made, models = self._run(plan, schema, gate, stream)
        else:
            made = self._base(schema).run(plan, schema.wide, gate, stream)
            if made.fitted is None:
                raise UnsupportedError("this method keeps no model, and households are drawn from one.")
            models = [made.fitted] * plan.copies
        rows = [table.rows for table in made.tables]
        tables = []
        for copy, (fitted, count) in enumerate(zip(models, rows, strict=True), start=1):
            tell("drawing households", copy - 1, plan.copies)
            tables.append(
                draw_families(
                    schema, fitted, stream, "families", copy,
                    measured=made.measurements, rows=count, fixed=plan.unit.fixed,
                )
            )  # fmt: skip
        return FamilySynthesis(
            tables=tuple(tables),
            measurements=made.measurements,
            fitted=made.fitted,
            rows_drawn=made.rows_drawn,
            copies_share_measurements=made.copies_share_measurements,
            notes=made.notes,
            warnings=made.warnings,
        )

    def _run(self, plan: Plan, schema: LinkedSchema, gate: Gate, stream: Stream) -> tuple[Synthesis, list[Fitted]]:
        """Everything measured, one joint fit of the tables of households, and the model of each copy."""
        wide, strata = schema.wide, self._strata(schema)
        measured = gate.measure([query_of(step) for step in plan.steps])
        known = known_margins(wide, gate, plan.unit) if strata.names else known_of_households(schema, gate, plan.unit)
        of_homes = [one for one in measured if schema.is_of_households(one.margin)]
        total = total_of(wide, public_records(plan, gate), of_homes)
        of_homes += _of_a_member(schema, measured, self._tables(schema), total)
        if self.draws != "posterior":  # whose draws need the noise as it was
            of_homes = smoothed(schema, of_homes)
        of_homes += _of_pairs(schema, measured, gate, total)
        law, all_of_it = rows_law(self.draws, None), tuple(measured)
        if strata.names:
            made = synthesis_in_strata(
                plan, strata, of_homes, total=total, rows_by=law, stream=stream, known=known
            )  # fmt: skip
        else:
            made, report = synthesis_from(
                plan, wide, of_homes, total=total, rows_by=law, stream=stream, known=known
            )  # fmt: skip
        if made.fitted is None:
            raise UnsupportedError("this method keeps no model, and households are drawn from one.")
        if self.draws != "posterior":
            return replace(made, measurements=all_of_it), [made.fitted] * plan.copies
        models, how = posterior_models(
            wide, of_homes, total=max(total, 1.0), public_total=plan.unit.public_total, copies=plan.copies,
            stream=stream, known=known, prior=report.prior, fitted=made.fitted.parts[0].model,
        )  # fmt: skip
        drawn = replace(made, measurements=all_of_it, notes=(*made.notes, how), fitted=None)
        return drawn, [fitted_model(one, law) for one in models]

    def _strata(self, schema: LinkedSchema) -> Strata:
        return read_strata(schema.wide, self.strata)

    def _member_tables(self, schema: LinkedSchema, unit: Unit) -> list[tuple[str, ...]]:
        """The tables of single members, where they are expected to be more accurate than those of slots."""
        if self.choose != "public" or not self.members or not unit.public_total:
            return []
        firsts = sum(not slot.second for slot in schema.slots)
        rows = members_per_unit(schema, unit)
        return member_tables(schema, pairs=rows == 1) if rows == 1 or rows < firsts else []

    def _tables(self, schema: LinkedSchema) -> list[tuple[str, ...]]:
        strata = self._strata(schema)
        return strata.joined_all(public_tables(schema, self.model_cells, strata=strata.names))

    def _base(self, schema: LinkedSchema) -> Synthesizer:
        if self.choose == "independent":
            return configure("independent", {})
        if self.choose == "public":
            margins = ", ".join("+".join(one) for one in self._tables(schema))
            return configure("ipf", {"margins": margins, "strata": self.strata, "draws": self.draws})
        options: dict[str, str | int] = {"model_cells": self.model_cells}
        ties = tying_tables(schema) if self.pairs else []
        ties += [(name, weight) for weight in schema.households.weights for name in _beside_weights(schema)]
        if ties:
            options["must"] = "\n".join(f"crosstab({first}, {second})" for first, second in ties)
        return configure(self.choose, options)


def known_of_households(schema: LinkedSchema, gate: Gate, unit: Unit) -> dict[tuple[str, ...], Integers]:
    """What is fixed: all of it in one table; of more cells than one model holds, tables of two, the smallest first."""
    wide = schema.wide
    fixed = wide.margin(unit.fixed)
    if wide.cells(fixed) <= KNOWN_CELLS:
        return known_margins(wide, gate, unit)
    sizes = dict(zip(wide.names, wide.shape(), strict=True))
    kept: list[tuple[str, ...]] = []
    for pair in sorted(combinations(fixed, 2), key=wide.cells):
        if tree_cells(sizes, [*kept, pair]) <= PAIRED_CELLS:
            kept.append(pair)
    alone = [(name,) for name in fixed if not any(name in pair for pair in kept)]
    return {margin: gate.public(margin) for margin in (*kept, *alone)}


def _beside_weights(schema: LinkedSchema) -> list[str]:
    """What is measured with a weight in any case where other tables are chosen privately."""
    own = [name for name in schema.households.names if name not in schema.households.weights]
    return [*own, SIZE, *([CHILDREN] if schema.numbers_of(CHILD) else [])]


def _of_a_member(
    schema: LinkedSchema, measured: Sequence[Measurement], tables: Sequence[tuple[str, ...]], total: float
) -> list[Measurement]:
    """Without roles: tables of all members, as what they say of one member of each household.

    The model of a household is fitted to them. Members of large households count more in them, which the choice of
    further members and the weights of whole households then put right.
    """
    if schema.roles is not None:
        return []
    slot, held = schema.slots[0], set(tables)
    of_members = [one for one in measured if schema.is_of_members(one.margin)]
    people = float(np.mean([one.values.sum() for one in of_members])) if of_members else 0.0
    times = min(total / max(people, 1.0), 1.0)
    found = []
    for one in of_members:
        if SIZE in one.margin:  # in which a member of a large household stands for less of it
            continue
        named = [name if name in schema.households.names else slot.column(name) for name in one.margin]
        margin = schema.wide.margin(named)
        if margin in held and schema.always_filled(slot):
            turned = one.values.transpose([named.index(name) for name in margin])
            noise = DiscreteGaussian(scale=Fraction(max(times * math.sqrt(one.mechanism.variance), 1.0)))
            values = np.rint(turned * times).astype(np.int64)
            found.append(Measurement(margin=margin, values=values, mechanism=noise, label=f"one of {one.label}"))
    return found


def _of_pairs(schema: LinkedSchema, measured: Sequence[Measurement], gate: Gate, total: float) -> list[Measurement]:
    """The table of pairs of members, as what it says of the two in the row of a household.

    Pairs are measured where sizes are known, so it is known how many members have nobody beside them.
    """
    pairs = next((one for one in measured if schema.is_of_pairs(one.margin)), None)
    if pairs is None:
        return []
    sizes = gate.public((SIZE,)).astype(np.float64)
    none = schema.none_code(schema.anchor)
    empty, alone = (sizes[:1].sum() if schema.at_least == 0 else 0.0), sizes[1 - schema.at_least]
    both, variance = smooth_pairs(schema, pairs)
    times = max(total - alone - empty, 0.0) / max(float(both.sum()), 1.0)
    beside = both.sum(axis=1)  # without a table by size, whoever is alone is like the others
    for one in measured:
        if schema.is_of_members(one.margin) and one.margin == schema.persons.margin((SIZE, schema.anchor)):
            beside = np.maximum(one.values[1 - schema.at_least], 0).astype(np.float64)
    table = np.insert(both * times, none, beside * (alone / max(float(beside.sum()), 1.0)), axis=1)
    first, second = schema.slots
    if not schema.always_filled(first):
        table = np.insert(table, none, 0.0, axis=0)
        table[none, none] = empty
    named = [first.column(schema.anchor), second.column(schema.anchor)]
    margin = schema.wide.margin(named)
    turned = table.transpose([named.index(name) for name in margin])
    noise = DiscreteGaussian(scale=Fraction(max(times * math.sqrt(variance), 1.0)))
    values = np.rint(turned).astype(np.int64)
    return [Measurement(margin=margin, values=values, mechanism=noise, label=f"two of {pairs.label}")]


def linked_steps(
    schema: LinkedSchema, of_homes: Sequence[tuple[str, ...]], of_members: Sequence[tuple[str, ...]], request: Request
) -> tuple[Step, ...]:
    """Steps that measure tables of households, of members and of pairs, in one budget: each has its share of it."""
    unit, power = request.unit, Fraction(1, 3) if request.budget.name == "pure" else Fraction(1, 2)
    queries, shares, sensitivities, cells = [], [], [], []
    alone = [one for one in of_members if not schema.is_of_pairs(one)]
    pairs = [one for one in of_members if schema.is_of_pairs(one)]
    share = MEMBERS_SHARE if of_homes else 1 - PAIRS_SHARE
    for part, tables in ((1 - MEMBERS_SHARE, of_homes), (share, alone), (PAIRS_SHARE, pairs)):
        moved = [one for one in tables if linked_sensitivity(schema, one, unit).l1]
        if not moved:
            continue
        queries += moved
        counted = schema.counted_in(moved[0])
        shares += [part * share for share in shares_by_cells(counted, moved, power)]
        sensitivities += [linked_sensitivity(schema, one, unit) for one in moved]
        cells += [int(counted.allowed(one).sum()) for one in moved]
    noises = noise_for(request.budget, sensitivities, shares=[one / sum(shares) for one in shares], cells=cells)
    return tuple(
        measure_step(label=margin_label(margin), margin=margin, noise=noise, sensitivity=sensitivity, cells=count)
        for margin, noise, sensitivity, count in zip(queries, noises, sensitivities, cells, strict=True)
    )


def member_tables(schema: LinkedSchema, *, pairs: bool) -> list[tuple[str, ...]]:
    """All pairs of attributes of single members, and each with the weight of households; without roles also each of
    them with each of the household's own and with its size, and the table of ``pairs`` of members."""
    persons, own = schema.persons, schema.households.names
    above = (*own, SIZE) if schema.roles is None else schema.households.weights
    mine = [name for name in persons.names if name not in (*own, SIZE)]
    found: list[tuple[str, ...]] = [*combinations(mine, 2)] or [(name,) for name in mine]
    found += [(one, name) for one in above for name in mine]
    found = [persons.margin(one) for one in found if persons.cells(one) <= MOST_CELLS]
    if pairs and schema.pairs is not None and schema.pairs.cells() <= MOST_CELLS:
        found.append(schema.pairs.names)
    return found


def public_tables(schema: LinkedSchema, most_cells: int, *, strata: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """The tables that public facts call for, the most important first, as far as one model holds them.

    Composition; what ties members together; household and reference person; the attributes within each slot.
    ``strata`` are in every table, and not named here.
    """
    slots = {slot.name: slot for slot in schema.slots}
    anchor, own, members = schema.anchor, schema.households.names, schema.members.names
    # Where all are alike, the composition is the size.
    wanted: list[tuple[str, ...]] = [(COMPOSITION,) if schema.roles else (SIZE,), *tying_tables(schema)]
    main = slots.get(REFERENCE) or slots[MEMBER]
    wanted += [(SIZE, main.column(anchor)), *weighted_tables(schema, SIZE)]
    if CHILD in slots:
        wanted += [(CHILDREN, slots[CHILD].column(anchor)), *weighted_tables(schema, CHILDREN)]
    wanted += [(slot.column(name), weight) for weight in schema.households.weights for slot in slots.values()
               if not slot.second for name in members]  # fmt: skip
    wanted += [(slot.column(anchor), slot.column(name)) for slot in slots.values() if not slot.second
               for name in members[1:]]  # fmt: skip
    for slot in (main, slots.get(PARTNER)):
        wanted += [] if slot is None else [tuple(map(slot.column, pair)) for pair in combinations(members[1:], 2)]
    for other in (PARTNER, CHILD):
        if other in slots:
            wanted += [(main.column(name), slots[other].column(name)) for name in members[1:]]
    for one in schema.derived:
        if one.edges:
            wanted += [(one.name, name) for name in own] + [(one.name, main.column(one.of))]
    if OTHER in slots:
        wanted.append((main.column(anchor), slots[OTHER].column(anchor)))
    wanted += [*combinations(own, 2), *((name, main.column(anchor)) for name in own)]
    wide = schema.wide
    sizes = {name: size for name, size in zip(wide.names, wide.shape(), strict=True) if name not in strata}
    inside = [tuple(name for name in group if name not in strata) for group in structural_groups(wide)]
    kept: list[tuple[str, ...]] = []
    for margin in dict.fromkeys(wide.margin(name for name in one if name not in strata) for one in wanted):
        if margin and tree_cells(sizes, [*inside, *kept, margin]) <= most_cells:
            kept.append(margin)
    covered = {name for margin in kept for name in margin}
    return kept + [(name,) for name in sizes if name not in covered]


def weighted_tables(schema: LinkedSchema, number: str) -> list[tuple[str, ...]]:
    """What households are with how many members or children they have; with the weight too, if there is one.

    A question about the members of weighted households needs all three: how many there are, the weight, and what is
    asked. Without a weight these are tables of two.
    """
    weights = schema.households.weights
    derived = [one.name for one in schema.derived if one.edges]
    asked = [name for name in (*schema.households.names, *derived) if name not in weights]
    if not weights:
        return [(name, number) for name in asked]
    first: list[tuple[str, ...]] = [(name, number, weights[0]) for name in asked]
    return (first or [(number, weights[0])]) + [(number, weight) for weight in weights[1:]]


def tying_tables(schema: LinkedSchema) -> list[tuple[str, str]]:
    """The tables that tie members together: the first attribute of partners, of parent and child, of siblings."""
    slots = {slot.name: slot.column(schema.anchor) for slot in schema.slots}
    pairs = (
        ("reference", "partner"), ("reference", "child"), ("partner", "child"), ("child", "sibling"),
        ("member", "fellow"),
    )  # fmt: skip
    return [(slots[one], slots[other]) for one, other in pairs if one in slots and other in slots]
