"""Members who are all alike, such as the pupils of a school or the visits of a patient.

Two of them stand in the row of a household. How alike members are is known from the table of two of them. From it
latent types are found such that two members, drawn independently from the law of one type, have this table. So any two
members of a household have it, however many there are. A chain, in which everybody is drawn given the first member,
would leave the others with the square of their correlation.

Where tables of single members were measured, every further member is drawn several times, and one of these is taken,
with probability proportional to the exponential of a sum over the cells it is counted in (``Tilt``). With many members
no weight for whole households could do this: it would be a product over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from understudy.core.arrays import Floats, Integers
from understudy.core.linked_schema import COMPOSITION, SIZE, LinkedSchema
from understudy.core.mechanism import Stream
from understudy.households.linked_table import member_codes, slot_codes
from understudy.models.conditional_draws import draw_anew
from understudy.models.model import Model
from understudy.models.sample import draw_given
from understudy.privacy.randomness.draws import unit_interval

IN_THE_ROW = 2  # members that stand in the row of a household
MOST_TYPES, STEPS = 12, 300
PENALTY = 2.0
CLOSE = 1e-9  # of the share of a type, where the search for types ends
Columns = Mapping[str, NDArray[np.integer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tilt:
    """How much more often a member is taken, by the tables of single members that it is counted in."""

    margins: tuple[tuple[str, ...], ...]
    """The tables."""
    slopes: tuple[Floats, ...]
    """What is added to the log weight of a member, for each cell of each table."""

    def of(self, persons: Columns) -> Floats:
        """The log weight of each member; ``persons`` has its attributes and those of its household."""
        found = np.zeros(len(next(iter(persons.values()))))
        for margin, table in zip(self.margins, self.slopes, strict=True):
            found += table[tuple(persons[name] for name in margin)]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How further members are drawn where all are alike."""

    noise: float = 0.0
    """The standard deviation of a cell of the table of two members, as a share of all pairs."""
    tilt: Tilt | None = None
    """Which draws are taken, where tables of members were measured."""
    draws: int = 1
    """How many times each is drawn. With a tilt one of these is taken."""
    row_only: bool = False
    """Leave the further members out."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Further:
    """The members of some households beyond the two in the row: whose they are, and one draw of their attributes."""

    owner: Integers
    codes: dict[str, Integers]
    persons: dict[str, NDArray[np.integer]]

    def taken(self, other: Further, better: NDArray[np.bool_]) -> Further:
        """The same members, where ``better`` as in another draw."""
        codes = {name: np.where(better, other.codes[name], old) for name, old in self.codes.items()}
        persons = {name: np.where(better, other.persons[name], old) for name, old in self.persons.items()}
        return Further(owner=self.owner, codes=codes, persons=persons)


def are_independent(schema: LinkedSchema) -> bool:
    """Whether members can be drawn independently given a type: all are alike, and no rule looks at two of them."""
    return schema.roles is None and len(schema.slots) == IN_THE_ROW and not (schema.across or schema.orders)


def types_of(schema: LinkedSchema, model: Model, noise: float) -> tuple[Floats, Floats]:
    """The shares of the latent types, and the law of the first attribute in each.

    As many types as the table of two members (made symmetric) tells from its noise: one more has to bring the squared
    differences, each divided by the variance, down by twice what fitting noise would. ``noise`` is the standard
    deviation of a cell, as a share of all pairs. Every type is held near everybody's law as if it had as many pairs
    more as noise is worth, so a type cannot rule out what only noise rules out.
    """
    first, second = (slot.column(schema.anchor) for slot in schema.slots)
    names = [name for name in model.tree.sizes if name in (first, second)]
    table = model.project((first, second))
    table = table if names[0] == first else table.T
    size, none = schema.members[schema.anchor].size, schema.none_code(schema.anchor)
    # Somebody is always in the first slot where a household has a member at all; the second has a code for nobody.
    ours = np.arange(table.shape[0]) if table.shape[0] == size else np.delete(np.arange(size + 1), none)
    pairs = table[np.ix_(ours, np.delete(np.arange(size + 1), none))]
    return best_types(pairs + pairs.T, noise)


def best_types(pairs: Floats, noise: float) -> tuple[Floats, Floats]:
    """The same from a symmetric table of pairs."""
    pairs = np.maximum(pairs, 0.0)
    if not pairs.sum() > 0:
        return np.ones(1), np.full((1, len(pairs)), 1.0 / len(pairs))
    pairs = pairs / pairs.sum()
    margin = pairs.sum(axis=1)
    best, least = (np.ones(1), margin[None, :]), np.inf
    for count in range(1, min(MOST_TYPES, int((margin > 0).sum())) + 1):
        shares, laws = _maximised(pairs, margin, count, noise * np.sqrt(len(margin)))
        apart = laws.T @ (shares[:, None] * laws) - pairs
        # Cells off the diagonal are counted twice. A type more fits noise alone better by about one for each value.
        worth = float((apart**2).sum()) / 2 + PENALTY * noise**2 * len(margin) * count
        if worth >= least:
            break
        best, least = (shares, laws), worth
    return best


def _maximised(pairs: Floats, margin: Floats, count: int, held: float) -> tuple[Floats, Floats]:
    """So many types by expectation maximisation of sum pairs log(sum of share x law x law).

    It begins with the laws of the second member given groups of values of the first. The likelihood (with what holds
    the laws near the margin) grows with every step.
    """
    group = np.minimum((np.cumsum(margin) - margin / 2) * count, count - 1).astype(np.int64)
    members = (group == np.arange(count)[:, None]) * margin
    shares = members.sum(axis=1)
    filled = shares > 0
    laws = (members @ np.divide(pairs, margin[:, None], out=np.zeros_like(pairs), where=margin[:, None] > 0))[filled]
    shares, laws = shares[filled], laws / laws.sum(axis=1, keepdims=True)
    for _ in range(STEPS):
        mixed = laws.T @ (shares[:, None] * laws)
        ratio = np.divide(pairs, mixed, out=np.zeros_like(pairs), where=mixed > 0)
        counted = shares[:, None] * laws * (laws @ ratio)
        new = counted.sum(axis=1)
        moved = float(np.abs(new - shares).max())
        laws = (counted + held * margin) / np.maximum(new + held, np.finfo(float).tiny)[:, None]
        shares = new
        if moved < CLOSE:
            break
    return shares / shares.sum(), laws


def further_members(
    schema: LinkedSchema, model: Model, rows: Columns, choice: Choice, stream: Stream, *purpose: str | int
) -> Further:
    """The members beyond those in the row, one for each place; with a tilt, one of several draws of each."""
    draws = draws_of(schema, model, rows, choice, stream, *purpose)
    best, tilt = next(draws), choice.tilt
    if tilt is None:
        return best
    score = np.full(len(best.owner), -np.inf)
    for number, one in enumerate(chain([best], draws)):
        # The largest of log weight plus Gumbel noise is a draw in proportion to the weights.
        uniform = np.maximum(unit_interval(stream, len(one.owner), *purpose, "choice", number), np.finfo(float).tiny)
        mine = tilt.of(one.persons) - np.log(-np.log(uniform))
        best, score = best.taken(one, mine > score), np.maximum(score, mine)
    return best


def draws_of(
    schema: LinkedSchema, model: Model, rows: Columns, choice: Choice, stream: Stream, *purpose: str | int
) -> Iterator[Further]:
    """Independent draws of the further members of the same households, each of which keeps its type."""
    first, second = schema.slots
    anchor, beside = first.column(schema.anchor), second.column(schema.anchor)
    always = schema.always_filled(first)
    counts = schema.sizes[np.asarray(rows[COMPOSITION]).astype(np.int64)]
    large = np.flatnonzero(counts > IN_THE_ROW)
    owner = np.repeat(large, counts[large] - IN_THE_ROW)
    shares, laws = types_of(schema, model, choice.noise)
    pair = [
        member_codes(schema, schema.anchor, np.asarray(rows[column])[large], filled)
        for column, filled in ((anchor, always), (beside, False))
    ]
    likely = shares * laws[:, pair[0]].T * laws[:, pair[1]].T
    likely = np.where(likely.sum(axis=1, keepdims=True) > 0, likely, shares)
    states = np.arange(len(large))
    types = np.repeat(draw_given(likely, states, "multinomial", stream, *purpose, "type"), counts[large] - IN_THE_ROW)
    given = {name: np.asarray(codes)[owner] for name, codes in rows.items()}
    own = {name: given[name].astype(np.int64) for name in (*schema.households.names, SIZE)}
    rest = [first.column(name) for name in schema.members.names if name != schema.anchor]
    for number in range(choice.draws):
        mine = draw_given(laws, types, "multinomial", stream, *purpose, "anchor", number)
        codes = {schema.anchor: mine}
        if rest:
            changed: dict[str, NDArray[np.integer]] = dict(given)
            changed[anchor] = slot_codes(schema, schema.anchor, mine, np.arange(len(mine)), always)
            changed[beside] = slot_codes(
                schema, schema.anchor, member_codes(schema, schema.anchor, given[anchor], always),
                np.arange(len(mine)), False,
            )  # fmt: skip
            drawn, there = draw_anew(model, changed, rest, stream, *purpose, "rest", number)
            # Where the model has no such member, the new one is like the first, which is possible.
            codes[schema.anchor] = np.where(there, mine, member_codes(schema, schema.anchor, given[anchor], always))
            for name in schema.members.names:
                column = first.column(name)
                if name != schema.anchor:
                    held = np.where(there, drawn[column], given[column])
                    codes[name] = member_codes(schema, name, held, always)
        yield Further(owner=owner, codes=codes, persons={**own, **codes})
