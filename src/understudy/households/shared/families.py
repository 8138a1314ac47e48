"""From rows of households to whole households: the members beyond the slots are drawn from the same model.

The first child, the first other member and both partners stand in the row. A second child has the anchor (the age) of
the sibling's slot, and its other attributes from the distribution of the child's slot with that anchor. Further
children are drawn in the same way, each given the first. Further others are drawn like the first, given everybody in
the slots. So any two children of a family have the tables of child and sibling, and none is impossible: structural
zeros are zeros of the model. Where all members are alike, those beyond two come from latent types (``alike``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Integers
from understudy.core.linked_schema import COMPOSITION, LinkedSchema, Slot
from understudy.core.mechanism import Stream
from understudy.core.table import CodedTable
from understudy.households.linked_table import LinkedTable, member_codes, slot_codes
from understudy.households.shared.alike import IN_THE_ROW, Choice, are_independent, further_members
from understudy.models.conditional_draws import draw_anew
from understudy.models.model import Model
from understudy.models.published_model import Fitted

PLAIN = Choice()
Columns = Mapping[str, NDArray[np.integer]]


def families_of(
    schema: LinkedSchema, fitted: Fitted, rows: CodedTable, stream: Stream, *purpose: str | int,
    choice: Choice = PLAIN,
) -> LinkedTable:  # fmt: skip
    """Whole households from rows of the wide schema. Members stand in the order of their roles.

    In strata the households of each are made by its own model. ``choice`` is for members who are alike.
    """
    pieces, places = [], []
    for model, some, here, where in parts_of(fitted, rows, *purpose):
        pieces.append(_whole(schema, model, some, choice, stream, *where))
        places.append(here)
    return _together(schema, pieces, places) if fitted.strata else pieces[0]


def parts_of(
    fitted: Fitted, rows: CodedTable, *purpose: str | int
) -> Iterator[tuple[Model, CodedTable, Integers, tuple[str | int, ...]]]:
    """The models of all strata, with the rows in each, their places, and the purpose of draws there."""
    if not fitted.strata:
        yield fitted.parts[0].model, rows, np.arange(rows.rows), purpose
        return
    for number, part in enumerate(fitted.parts):
        inside = [rows.columns[name] == code for name, code in zip(fitted.strata, part.codes, strict=True)]
        here = np.flatnonzero(np.logical_and.reduce(inside))
        if len(here):
            some = CodedTable(schema=rows.schema, columns={name: codes[here] for name, codes in rows.columns.items()})
            yield part.model, some, here, (*purpose, "stratum", number)


def _together(schema: LinkedSchema, pieces: Sequence[LinkedTable], places: Sequence[Integers]) -> LinkedTable:
    """The households of all strata in the order of their rows."""
    back = np.argsort(np.concatenate(places), kind="stable")
    owner = np.concatenate([place[one.owner] for one, place in zip(pieces, places, strict=True)])
    order = np.argsort(owner, kind="stable")

    def joined(table: str, take: Integers) -> CodedTable:
        tables = [getattr(one, table) for one in pieces]
        columns = {name: np.concatenate([one.columns[name] for one in tables])[take] for name in tables[0].columns}
        return CodedTable(schema=tables[0].schema, columns=columns)

    return LinkedTable(
        schema=schema,
        households=joined("households", back),
        members=joined("members", order),
        owner=owner[order],
        role=np.concatenate([one.role for one in pieces])[order],
    )


def _whole(
    schema: LinkedSchema, model: Model, rows: CodedTable, choice: Choice, stream: Stream, *purpose: str | int
) -> LinkedTable:
    columns = {name: np.asarray(codes) for name, codes in rows.columns.items()}
    counts = np.array(schema.kinds)[columns[COMPOSITION].astype(np.int64)]
    owners: list[Integers] = []
    roles: list[Integers] = []
    found: list[Mapping[str, Integers]] = []
    firsts = {slot.role: slot for slot in schema.slots if not slot.second}
    seconds = {slot.role: slot for slot in schema.slots if slot.second}
    independent = are_independent(schema)
    for place, role in enumerate(schema.role_names):
        if role not in firsts:
            continue
        slot, second = firsts[role], seconds.get(role)
        most = int(counts[:, place].max(initial=0))
        for number in range(min(most, IN_THE_ROW) if independent else most):
            here = np.flatnonzero(counts[:, place] > number)
            given: Columns = {name: codes[here] for name, codes in columns.items()}
            if number:
                given = _another(schema, model, given, (slot, second), stream, *purpose, role, number)
            owners.append(here)
            roles.append(np.full(len(here), place))
            always = schema.always_filled(slot)
            found.append(
                {name: member_codes(schema, name, given[slot.column(name)], always) for name in schema.members.names}
            )
    if independent and not choice.row_only:
        further = further_members(schema, model, columns, choice, stream, *purpose, "further")
        owners.append(further.owner)
        roles.append(np.zeros(len(further.owner), dtype=np.int64))
        found.append(further.codes)
    owner, role_of = np.concatenate(owners), np.concatenate(roles)
    # Children were drawn one after the other; in a random order none of them is the first.
    order = np.lexsort((stream.words(len(owner), *purpose, "order"), role_of, owner))
    members = {}
    for name in schema.members.names:
        codes = np.concatenate([one[name] for one in found])[order]
        members[name] = codes.astype(np.min_scalar_type(max(schema.members[name].size - 1, 0)))
    own = {name: columns[name] for name in schema.households.names}
    return LinkedTable(
        schema=schema,
        households=CodedTable(schema=schema.households, columns=own),
        members=CodedTable(schema=schema.members, columns=members),
        owner=owner[order].astype(np.int64),
        role=role_of[order].astype(np.int8),
    )


def _another(
    schema: LinkedSchema, model: Model, given: Columns, slots: tuple[Slot, Slot | None], stream: Stream,
    *purpose: str | int,
) -> dict[str, Integers]:  # fmt: skip
    """The columns of some households with another member of a role in its slot; ``purpose`` ends with its number."""
    slot, second = slots
    mine = [slot.column(name) for name in schema.members.names]
    changed: dict[str, NDArray[np.integer]] = dict(given)
    there = np.ones(len(given[mine[0]]), dtype=bool)
    if second is not None:
        anchor, beside = slot.column(schema.anchor), second.column(schema.anchor)
        if purpose[-1] != 1:  # the first sibling stands in the row
            drawn, there = draw_anew(model, given, [beside], stream, *purpose, "anchor")
            changed[beside] = np.where(there, drawn[beside], given[beside])
        # The new member takes the slot, and the first one is its sibling: tables of the two are symmetric.
        always = schema.always_filled(slot)
        changed[anchor], changed[beside] = (
            _in_other_slot(schema, changed[beside], False, always), _in_other_slot(schema, given[anchor], always, False)
        )  # fmt: skip
        mine = [name for name in mine if name != anchor]
    if mine:
        drawn, possible = draw_anew(model, changed, mine, stream, *purpose, "rest")
        there = there & possible
        changed |= drawn
    # Where the model has no such household, the new member is like the first, which is possible.
    return {name: np.where(there, codes, given[name]).astype(np.int64) for name, codes in changed.items()}


def _in_other_slot(schema: LinkedSchema, codes: NDArray[np.integer], always: bool, other: bool) -> Integers:
    """The anchor of members in one slot as codes of another. A slot that is always filled has no code for nobody."""
    held = member_codes(schema, schema.anchor, codes, always)
    return slot_codes(schema, schema.anchor, held, np.arange(len(held)), other)
